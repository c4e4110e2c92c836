"""The torches that stand beside a bench: Debian's, and the one whose Python MUSTER_BENCH_TORCH names."""
import os
import subprocess
import sys
from typing import NamedTuple

DEBIAN = "/usr/bin/python3"


class Torch(NamedTuple):
    python: str
    version: str


def torches(bench):
    """Those that are there; what is not is said on standard error."""
    found = []
    for python in filter(None, [DEBIAN, os.environ.get("MUSTER_BENCH_TORCH")]):
        try:
            asked = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            version = "" if asked.returncode else asked.stdout.strip()
        except OSError:
            version = ""
        if version:
            found.append(Torch(python, version))
        elif python == DEBIAN:
            print(f"bench {bench}: Debian's torch is absent (python3-torch)", file=sys.stderr)
        else:
            print(f"bench {bench}: {python} of MUSTER_BENCH_TORCH has no torch", file=sys.stderr)
    if not os.environ.get("MUSTER_BENCH_TORCH"):
        print(f"bench {bench}: no current torch beside it (MUSTER_BENCH_TORCH=PYTHON)", file=sys.stderr)
    return found
