#!/usr/bin/python3
"""Two-rank all-reduce beside OpenMPI (mpicc, mpirun) and gloo (python3-torch), the TCP path also
beside a raw socket stream, and the machine's own copy rate. Turns alternate, figures are medians of
them. Ranks have a core each on every side. Under root all run with a real-time priority, so that
whatever else the machine does is not measured. A peer that is not installed is said so.

    run.py [--turns N] [--table]     --table prints the table of docs/collectives.md as well
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SIZES = [8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
LARGE = [s for s in SIZES if s >= 1 << 20]
KILLS = 20
TURNS = 7


def program():
    for build in (os.environ.get("MUSTER_BENCH_BUILD"), "build-release"):
        path = ROOT / (build or "-") / "bench" / "bench_collectives"
        if build and path.exists():
            return path
    return None


def realtime():
    return ["chrt", "-f", "20"] if os.geteuid() == 0 and shutil.which("chrt") else []


def has_gloo():
    probe = "import torch.distributed as d; assert d.is_gloo_available()"
    return subprocess.run(["/usr/bin/python3", "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


def build_mpi_peer(folder):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        return None
    path = Path(folder) / "mpi_peer"
    subprocess.run(["mpicc", "-O3", "-o", str(path), str(HERE / "mpi_peer.c")], check=True)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--bind-to", "core", "-n", "2", str(path)]


def turn(command, sizes, times):
    lines = subprocess.run(realtime() + [str(c) for c in command] + [str(s) for s in sizes], check=True,
                           stdout=subprocess.PIPE, timeout=300).stdout.splitlines()
    for line in map(json.loads, lines):
        times.setdefault((line["who"], line["bytes"]), []).append(line["us"])


def collect(ours, mpi, gloo, turns):
    times = {}
    for _ in range(turns):
        turn([ours, "arena"], SIZES, times)
        if mpi:
            turn(mpi, SIZES, times)
        turn([ours, "shm"], SIZES, times)
        if gloo:
            turn(["/usr/bin/python3", HERE / "gloo_peer.py", "2"], SIZES, times)
        turn([ours, "tcp"], SIZES, times)
        turn([ours, "stream"], SIZES, times)
        turn([ours, "copy"], LARGE, times)
        turn([ours, "hosts"], LARGE, times)
        turn([ours, "hosts-flat"], LARGE, times)
    turn([ours, "kill"], [KILLS], times)
    return {key: statistics.median(values) for key, values in times.items()}


def line(metric, figures, unit, target, better="lower"):
    """figures: ours, peer, the peer's name"""
    ours, peer, name = figures
    ratio = None if peer is None else round(peer / ours if better == "lower" else ours / peer, 3)
    print(json.dumps({"bench": "collectives", "metric": metric, "ours": round(ours, 3),
                      "peer": None if peer is None else round(peer, 3), "peer_name": name,
                      "ratio": ratio, "unit": unit, "target": target}), flush=True)


def report(times):
    for size in SIZES:
        for who in ("arena", "shm"):
            target = None if who == "shm" else 1.8 if size == 8 else 6 if size >= 16 << 10 else None
            line(f"all_reduce 2 ranks {who} {size} B vs OpenMPI",
                 (times[who, size], times.get(("openmpi", size)), "OpenMPI, shared memory"), "us", target)
        line(f"all_reduce 2 ranks arena {size} B vs gloo",
             (times["arena", size], times.get(("gloo", size)), "gloo, loopback TCP"), "us",
             60 if size <= 4 << 20 else 12)
        line(f"all_reduce 2 ranks tcp {size} B vs gloo",
             (times["tcp", size], times.get(("gloo", size)), "gloo, loopback TCP"), "us", None)
        line(f"all_reduce 2 ranks tcp {size} B vs a socket",
             (times["tcp", size], times["stream", size], "the same bytes over one socket"), "us", None)
    for size in LARGE:
        # An all-reduce of S reads 2 S and writes 2 S, as copying 2 S does; both cores copy at once.
        line(f"all_reduce 2 ranks arena {size} B rate",
             (2 * size / times["arena", size] / 1e3, 2 * size / times["copy", size] / 1e3,
              "memcpy on both cores"), "GB/s", 0.8, "higher")
        line(f"all_reduce 2 hosts of 2 ranks {size} B, two levels vs straight",
             (times["hosts", size], times["hosts-flat", size], "every rank to every rank"), "us", None)
    line("SIGKILL of a peer to the error, median", (times["kill", 0] / 1e3, None, "none"), "ms", 5)
    line("SIGKILL of a peer to the error, worst", (times["kill-worst", 0] / 1e3, None, "none"), "ms", 5)


def table(times):
    names = ["arena", "shm", "openmpi", "gloo", "tcp", "stream", "copy", "hosts", "hosts-flat"]
    print("| bytes | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for size in SIZES:
        cells = [f"{times[n, size]:.3g}" if (n, size) in times else "" for n in names]
        print(f"| {size} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    ours = program()
    if not ours:
        print("bench collectives: bench_collectives is not built", file=sys.stderr)
        return 1
    gloo = has_gloo()
    if not gloo:
        print("bench collectives: the peer gloo is absent (python3-torch is not installed)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        mpi = build_mpi_peer(folder)
        if not mpi:
            print("bench collectives: the peer OpenMPI is absent (openmpi-bin, libopenmpi-dev)", file=sys.stderr)
        times = collect(ours, mpi, gloo, arguments.turns)
    report(times)
    if arguments.table:
        table(times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
