#!/usr/bin/python3
"""Bytes of training state per parameter on each of four ranks, at the most during a step, against the
formulas for mixed precision: what tests/numeric/train/test_memory.c counts in pages. Memory does
not depend on how the program was built, so the tests' program serves."""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = [ROOT / build / "tests" / "test_train_memory" for build in ("build", "build-release")]
LINE = re.compile(r"(zero1|zero2|fsdp) +bf16( sums)?: .* ([\d.]+) at most, formula")
FORMULAS = {"zero1": ("4 + 12/N", 7.0), "zero2": ("2 + 14/N", 5.5), "fsdp": ("16/N", 4.0)}
TARGET = 1.05


def main():
    program = next((p for p in PROGRAMS if p.exists()), None)
    if not program:
        print("bench memory: its program is a test: ninja -C build test_train_memory", file=sys.stderr)
        return 1
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
    for strategy, narrow, most in LINE.findall(done.stdout):
        text, formula = FORMULAS[strategy]
        print(json.dumps({
            "bench": "memory", "metric": strategy + (" low_gradients" if narrow else ""),
            "ours": float(most), "peer": formula, "peer_name": f"{text}, N = 4",
            "ratio": round(float(most) / formula, 3), "unit": "bytes/parameter", "target": TARGET}))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
