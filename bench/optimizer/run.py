#!/usr/bin/python3
"""The optimizer step beside torch, rounds alternating, and beside the triad of the same run.

Torch is Debian's; MUSTER_BENCH_TORCH names the Python of another one to stand beside it too
(python3 -m venv DIR; DIR/bin/pip install torch; MUSTER_BENCH_TORCH=DIR/bin/python).
"""
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("MUSTER_BUILD", HERE.parent.parent / "build-release"))
sys.path.insert(0, str(HERE.parent))
from torches import torches  # noqa: E402

PROGRAM = BUILD / "bench" / "bench_optimizer"
ROUNDS, PARAMETERS, TARGET = 9, 24 * 1024 * 1024, 9


class Side:
    """A program that takes one step for each line it is given."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.times = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        ms, value = self.process.stdout.readline().split()
        self.times.append(float(ms))
        return float(value)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def params_per_s(self):
        return PARAMETERS / statistics.median(self.times[2:]) * 1e3


def beside(torch):
    ours, peer = Side([str(PROGRAM), "0"]), Side([torch.python, str(HERE / "torch_peer.py")])
    for _ in range(ROUNDS + 2):
        values = ours.step(), peer.step()
        if abs(values[0] - values[1]) > 2e-6:
            print(f"bench optimizer: the sides computed {values}", file=sys.stderr)
            return 1
    ours.close()
    peer.close()
    print(json.dumps({"bench": "optimizer", "metric": "unscale, clip, AdamW, bf16 copy",
                      "ours": round(ours.params_per_s() / 1e6, 1),
                      "peer": round(peer.params_per_s() / 1e6, 1),
                      "peer_name": f"torch {torch.version}, one thread", "unit": "Mparam/s", "target": TARGET,
                      "ratio": round(ours.params_per_s() / peer.params_per_s(), 2)}), flush=True)
    return 0


def main():
    if not PROGRAM.exists():
        print(f"bench optimizer: {PROGRAM} is not built", file=sys.stderr)
        return 1
    for torch in torches("optimizer"):
        if beside(torch):
            return 1
    return subprocess.run([str(PROGRAM)]).returncode


if __name__ == "__main__":
    sys.exit(main())
