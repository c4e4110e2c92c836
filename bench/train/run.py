#!/usr/bin/python3
"""Training of one rank on one core beside torch, steps alternating, same BLAS library on each side.

OPENBLAS_CORETYPE is taken out of the environment first, so that both sides use OpenBLAS's own choice
for this processor; `--as-is` leaves it. Torch is Debian's; MUSTER_BENCH_TORCH names the Python of another
one to stand beside it too, which brings its own products and takes its turn a second time with its model compiled,
and both again in bf16 under autocast.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("MUSTER_BUILD", HERE.parent.parent / "build-release"))
sys.path.insert(0, str(HERE.parent))
from torches import torches  # noqa: E402

PROGRAM = BUILD / "bench" / "bench_train_kernel"
ROUNDS, TOKENS, TARGETS = 11, 4 * 256, {"f32": 1.2, "bf16": 1.6}
APART = {"f32": 1e-3, "bf16": 1e-2}  # losses of both sides, relative: bf16 has 8 bits


class Side:
    """A program that takes one step for each line it is given."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.times = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        ms, loss = self.process.stdout.readline().split()
        self.times.append(float(ms))
        return float(loss)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def tokens_per_s(self):
        return TOKENS / statistics.median(self.times[2:]) * 1e3


def beside(torch, environment, options=()):
    kind = "bf16" if "--bf16" in options else "f32"
    with tempfile.TemporaryDirectory() as folder:
        start = folder + "/start"
        ours = Side([str(PROGRAM), start, kind], environment)
        if ours.process.stdout.readline() != "ready\n":
            print("bench train: our side does not start", file=sys.stderr)
            return 1
        peer = Side([torch.python, str(HERE / "torch_peer.py"), start, *options], environment)
        for _ in range(ROUNDS + 2):
            losses = ours.step(), peer.step()
            if not abs(losses[0] - losses[1]) < APART[kind] * losses[1]:
                print(f"bench train: the sides computed losses {losses}", file=sys.stderr)
                return 1
    ours.close()
    peer.close()
    print(json.dumps({"bench": "train", "metric": f"tokens_per_s {kind} one rank",
                      "ours": round(ours.tokens_per_s()), "peer": round(peer.tokens_per_s()),
                      "peer_name": " ".join(["torch", torch.version, *options]) + ", one thread, OPENBLAS_CORETYPE="
                                   + environment.get("OPENBLAS_CORETYPE", "unset"),
                      "ratio": round(ours.tokens_per_s() / peer.tokens_per_s(), 3),
                      "unit": "token/s", "target": TARGETS[kind]}), flush=True)
    return 0


def main():
    if not PROGRAM.exists():
        print(f"bench train: {PROGRAM} is not built", file=sys.stderr)
        return 1
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if "--as-is" not in sys.argv:
        environment.pop("OPENBLAS_CORETYPE", None)
    for torch in torches("train"):
        ways = [[]] if torch.version.startswith("1.") else [[], ["--compile"], ["--bf16"], ["--compile", "--bf16"]]
        for options in ways:
            if beside(torch, environment, options):
                return 1
    return subprocess.run([str(PROGRAM)], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
