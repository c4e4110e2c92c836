#!/usr/bin/python3
"""Bytes of training state per parameter on each of four ranks, at the most during a step, against the
formulas: what tests/numeric/train/test_memory.c counts in pages. ZeRO's formulas for mixed precision
hold gradients in 2 bytes, as `low_gradients` does; without it they are floats, and what is
added to the formula for that is said in its name. Under fsdp blocks are on their way in addition, which is
what `muster model estimate` adds: of 48 layers a block is 2 % of the model. Memory does not depend on how the program was built,
so the tests' program serves. Then the peak of a step against its plan, the time to plan a deep model,
and what recomputation saves and costs."""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = [ROOT / build / "tests" / "test_train_memory" for build in ("build", "build-release")]
LINE = re.compile(r"(zero1|zero2|fsdp) +bf16( sums)?: .* ([\d.]+) at most, formula.* estimated ([\d.]+)")
N, TARGET = 4, 1.05
# (strategy, low_gradients): the formula as (constant, by N)
FORMULAS = {("zero1", True): (4, 12), ("zero1", False): (6, 12), ("zero2", True): (2, 14),
            ("zero2", False): (2, 16), ("fsdp", True): (0, 14), ("fsdp", False): (0, 16)}


def main():
    program = next((p for p in PROGRAMS if p.exists()), None)
    if not program:
        print("bench memory: its program is a test: ninja -C build test_train_memory", file=sys.stderr)
        return 1
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
    for strategy, narrow, most, estimated in LINE.findall(done.stdout):
        constant, shared = FORMULAS[strategy, bool(narrow)]
        formula = constant + shared / N
        name = f"{constant} + {shared}/N, N = {N}" if constant else f"{shared}/N, N = {N}"
        if strategy == "fsdp":
            formula, name = float(estimated), name + ", and blocks on their way"
        print(json.dumps({
            "bench": "memory", "metric": strategy + (" low_gradients" if narrow else ""),
            "ours": float(most), "peer": formula, "peer_name": name + ("" if narrow else ", gradients in float"),
            "ratio": round(float(most) / formula, 3), "unit": "bytes/parameter", "target": TARGET}))
    failed = done.returncode
    for name in ("bench_memory_step", "bench_memory_planning", "bench_memory_recompute"):
        own = program.parent.parent / "bench" / name
        if not own.exists():
            print(f"bench memory: {own} is not built", file=sys.stderr)
            return 1
        failed |= subprocess.run([own]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
