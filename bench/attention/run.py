#!/usr/bin/python3
"""Causal attention forward and backward on one thread beside torch's scaled_dot_product_attention, rounds alternating.

MUSTER_BENCH_TORCH names the Python of a torch of 2.0 or later; Debian's 1.13 has no such function. FLOPs are counted
as torch's FlopCounterMode does, halved for the mask: 7 length^2 size a head. Prints the scratch memory's growth too.
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

PROGRAM = BUILD / "bench" / "bench_attention"
LENGTHS, HEADS, SIZE, ROUNDS = (4096, 8192), 2, 64, 7
QUERY_KEYS, QUERY_HEADS = 4096, 12
TARGETS = {"f32": 1.4, "bf16": 2.0}
# One element, and a sum of squares, may differ by so much of the sum's root or of itself: sums of
# thousands of terms in float32, and in bf16 a torch that rounds its probabilities to bf16 too.
ELEMENT, SQUARES = {"f32": 1e-5, "bf16": 2e-3}, {"f32": 1e-5, "bf16": 2e-3}


class Side:
    """A program that takes both passes for each line it is given."""

    def __init__(self, command, *words):
        self.process = subprocess.Popen([*command, *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.times, self.products = [], []

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        forward, backward, scratch, product, *values = map(float, self.process.stdout.readline().split())
        self.times.append(forward + backward)
        self.products.append(product)
        self.scratch = int(scratch)
        return values

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def median_ms(self):
        return statistics.median(self.times[1:])  # the first round touches all memory once


def agree(ours, peer, kind):
    for i in range(0, len(ours), 2):
        near = abs(ours[i] - peer[i]) <= ELEMENT[kind] * max(1.0, abs(peer[i]))
        if not near or abs(ours[i + 1] - peer[i + 1]) > SQUARES[kind] * peer[i + 1]:
            return False
    return len(ours) == len(peer)


def gflops(length, ms):
    return 7 * HEADS * length ** 2 * SIZE / ms * 1e-6


def beside(torch, length, kind):
    ours = Side([str(PROGRAM)], length, HEADS, kind)
    peer = Side([torch.python, str(HERE / "torch_peer.py")], length, HEADS, kind)
    for _ in range(ROUNDS + 1):
        values = ours.round(), peer.round()
        if not agree(*values, kind):
            print(f"bench attention: the sides computed {values}", file=sys.stderr)
            return None
    ours.close()
    peer.close()
    mine, other = gflops(length, ours.median_ms()), gflops(length, peer.median_ms())
    print(json.dumps({"bench": "attention", "metric": f"causal, forward and backward, length {length}, {kind}",
                      "ours": round(mine, 1), "peer": round(other, 1),
                      "peer_name": f"torch {torch.version}, one thread", "ratio": round(mine / other, 2),
                      "unit": "GFLOP/s", "target": TARGETS[kind]}), flush=True)
    return ours


def query_beside(torch, kind):
    """One query, as in decoding: keys and values of all heads side by side, torch's one head after the other."""
    words = QUERY_KEYS, QUERY_HEADS, kind, "query"
    ours, peer = Side([str(PROGRAM)], *words), Side([torch.python, str(HERE / "torch_peer.py")], *words)
    for _ in range(ROUNDS + 1):
        values = ours.round(), peer.round()
        if not agree(*values, kind):
            print(f"bench attention: the sides computed {values}", file=sys.stderr)
            return False
    ours.close()
    peer.close()
    mine, other = ours.median_ms(), peer.median_ms()
    print(json.dumps({"bench": "attention", "metric": f"one query, {QUERY_KEYS} keys, {QUERY_HEADS} heads, {kind}",
                      "ours": round(mine, 3), "peer": round(other, 3), "peer_name": f"torch {torch.version}, one thread",
                      "ratio": round(other / mine, 2), "unit": "ms", "target": 1}), flush=True)
    return True


def alone(length, kind):
    """Without a torch: beside a large product of float32 in the same run."""
    ours = Side([str(PROGRAM)], length, HEADS, kind)
    for _ in range(ROUNDS + 1):
        ours.round()
    ours.close()
    mine, product = gflops(length, ours.median_ms()), statistics.median(ours.products[1:])
    print(json.dumps({"bench": "attention", "metric": f"causal, forward and backward, length {length}, {kind}",
                      "ours": round(mine, 1), "peer": round(product, 1), "peer_name": "the library's product in float32",
                      "ratio": round(mine / product, 2), "unit": "GFLOP/s"}), flush=True)
    return ours


def has_attention(torch):
    return int(torch.version.split(".")[0]) >= 2


def main():
    if not PROGRAM.exists():
        print(f"bench attention: {PROGRAM} is not built", file=sys.stderr)
        return 1
    peers = [torch for torch in torches("attention") if has_attention(torch)]
    scratch = {}
    for kind in TARGETS:
        for length in LENGTHS:
            for side in [beside(torch, length, kind) for torch in peers] or [alone(length, kind)]:
                if not side:
                    return 1
                scratch[length] = side.scratch
    if not all(query_beside(torch, kind) for torch in peers for kind in TARGETS):
        return 1
    growth = scratch[LENGTHS[1]] / scratch[LENGTHS[0]]
    print(json.dumps({"bench": "attention", "metric": f"scratch memory, length {LENGTHS[1]} over {LENGTHS[0]}",
                      "ours": round(growth, 3), "unit": "times", "target": LENGTHS[1] / LENGTHS[0]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
