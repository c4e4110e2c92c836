#!/usr/bin/python3
"""Convolutions of examples/resnet, forward and backward of 64 samples on one thread, beside torch; rounds alternating.

OPENBLAS_CORETYPE stays as it is. MUSTER_BENCH_TORCH names the Python of another torch to stand beside Debian's.
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

PROGRAM = BUILD / "bench" / "bench_conv"
SAMPLES, ROUNDS = 64, 9
# channels, side, out, kernel, stride
SHAPES = ((8, 28, 8, 3, 1), (8, 28, 16, 3, 2), (16, 14, 16, 3, 1), (16, 14, 32, 3, 2), (32, 7, 32, 3, 1), (16, 14, 32, 1, 2))
ELEMENT, SQUARES = 1e-5, 1e-5  # sums of up to 50,000 terms in float


class Side:
    """A program that takes both passes for each line it is given."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.times = []

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        ms, *values = map(float, self.process.stdout.readline().split())
        self.times.append(ms)
        return values

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def median_ms(self):
        return statistics.median(self.times[2:])


def agree(ours, peer):
    near = [abs(a - b) <= (SQUARES * abs(b) if i % 2 else ELEMENT * max(100.0, abs(b))) for i, (a, b) in enumerate(zip(ours, peer))]
    return len(ours) == len(peer) == 6 and all(near)


def beside(torch, shape, environment):
    words = [str(word) for word in (SAMPLES, *shape)]
    ours, peer = Side([str(PROGRAM), *words], environment), Side([torch.python, str(HERE / "torch_peer.py"), *words], environment)
    for _ in range(ROUNDS + 2):
        values = ours.round(), peer.round()
        if not agree(*values):
            print(f"bench conv: the sides computed {values}", file=sys.stderr)
            return None
    ours.close()
    peer.close()
    channels, side, out, kernel, stride = shape
    print(json.dumps({"bench": "conv", "metric": f"{channels} to {out} channels of {side} x {side}, kernel {kernel}, stride {stride}",
                      "ours": round(ours.median_ms(), 3), "peer": round(peer.median_ms(), 3),
                      "peer_name": f"torch {torch.version}, one thread", "ratio": round(peer.median_ms() / ours.median_ms(), 2),
                      "unit": "ms", "target": 1}), flush=True)
    return ours.median_ms(), peer.median_ms()


def main():
    if not PROGRAM.exists():
        print(f"bench conv: {PROGRAM} is not built", file=sys.stderr)
        return 1
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for torch in torches("conv"):
        both = [beside(torch, shape, environment) for shape in SHAPES]
        if not all(both):
            return 1
        mine, other = (sum(ms) for ms in zip(*both))
        print(json.dumps({"bench": "conv", "metric": "all of these", "ours": round(mine, 3), "peer": round(other, 3),
                          "peer_name": f"torch {torch.version}, one thread", "ratio": round(other / mine, 2), "unit": "ms", "target": 1}),
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
