#!/usr/bin/python3
"""Two-rank all-reduce beside OpenMPI (mpicc, mpirun) and gloo (python3-torch), the TCP path also
beside a raw socket stream, and what the machine can do: copies on both cores, and halves added in
shared memory without a library. Every side reduces the same values, and what each got is compared,
bit by bit, before anything is timed. OpenMPI counts with the best of several settings, size by size.
Turns alternate, figures are medians of them. Ranks have a core each on every side. Under root all
run with a real-time priority, so that whatever else the machine does is not measured. A peer that is
not installed is said so.

Each figure twice: of reducing the same buffer again and again, and of what an all-reduce adds to a loop in
which each rank writes its values anew before it, as training does ("rewritten").

    run.py [--turns N] [--sizes BYTES,...] [--only arena,openmpi,...] [--table]

--table prints the table of docs/collectives.md as well; --sizes and --only (of arena halves alone openmpi shm gloo tcp
stream copy hosts ends) measure a part, where a whole run takes five minutes.
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
KILLS = 200
TURNS = 7
HOWS = {"kill": "SIGKILL of a rank to the error at the other",
        "blocked": "SIGKILL of an awaited rank to the error at the other",
        "abort": "abort to the error at the other"}
PARTS = ["arena", "halves", "alone", "openmpi", "shm", "gloo", "tcp", "stream", "copy", "hosts", "ends"]
QUANTILES = ["median", "p95", "p99", "max"]
# Ours two ranks, and OpenMPI's and gloo's: all give the same bits. Likewise four ranks on two hosts.
SAME = [["arena", "shm", "tcp", "openmpi", "gloo"], ["hosts", "hosts-flat"]]
# Its default copies through the kernel where it can; without, through memory that both map. Rings in
# segments spare it page faults of large messages.
RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "5",
        "--mca", "coll_tuned_allreduce_algorithm_segmentsize", str(64 << 10)]
MAPPED = ["--mca", "btl_vader_single_copy_mechanism", "none"]
MPI_SETTINGS = {"default": [], "mapped": MAPPED, "mapped, ring": MAPPED + RING}


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
    subprocess.run(["mpicc", "-O3", f"-I{ROOT}", "-o", str(path), str(HERE / "mpi_peer.c")], check=True)
    return path


def mpirun(path, setting):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--bind-to", "core", *MPI_SETTINGS[setting], "-n", "2", path]


def lines_of(command):
    out = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, timeout=600).stdout
    return [json.loads(line) for line in out.splitlines()]


class Results:
    def __init__(self):
        self.times, self.digests = {}, {}

    def turn(self, command, sizes, setting=None):
        for line in lines_of([*realtime(), *command, *sizes]):
            if "digest" in line:
                self.digests.setdefault((line["who"], line["bytes"]), set()).add(line["digest"])
            else:
                who = line["who"] if setting is None else f"{line['who']}, {setting}"
                self.times.setdefault((who, line["bytes"]), []).append(line["us"])

    def medians(self):
        us = {key: statistics.median(values) for key, values in self.times.items()}
        for size in {size for _, size in us}:
            for how in ("", ", rewritten"):
                tried = [us[k] for s in MPI_SETTINGS if (k := (f"openmpi{how}, {s}", size)) in us]
                if tried:
                    us[f"openmpi{how}", size] = min(tried)
        return us

    def differences(self):
        """Pairs that did not compute the same; how many results were compared."""
        wrong, compared = [], 0
        for group in SAME:
            for size in sorted({size for _, size in self.digests}):
                seen = {who: self.digests[who, size] for who in group if (who, size) in self.digests}
                compared += len(seen)
                if len(set().union(*seen.values())) > 1:
                    wrong.append(f"{size} bytes: {seen}")
        return wrong, compared


def collect(ours, mpi, gloo, arguments):
    results = Results()
    sizes = arguments.sizes
    large = [s for s in sizes if s in LARGE]

    def turn(part, command, sizes=sizes, setting=None):
        if part in arguments.only and sizes:
            results.turn(command, sizes, setting)
    for _ in range(arguments.turns):
        turn("arena", [ours, "arena"])
        turn("halves", [ours, "halves"])
        turn("alone", [ours, "alone"])
        for setting in MPI_SETTINGS if mpi else ():
            turn("openmpi", mpirun(mpi, setting), setting=setting)
        turn("shm", [ours, "shm"])
        if gloo:
            turn("gloo", ["/usr/bin/python3", HERE / "gloo_peer.py", "2"])
        turn("tcp", [ours, "tcp"])
        turn("stream", [ours, "stream"])
        turn("copy", [ours, "copy"], large)
        turn("hosts", [ours, "hosts"], large)
        turn("hosts", [ours, "hosts-flat"], large)
    return results


def report_ends(ours):
    for how, words in HOWS.items():
        took = {li["who"]: li["us"] for li in lines_of([*realtime(), f"{ours}_kills", how, KILLS])}
        for quantile in QUANTILES:
            line(f"{words}, {quantile} of {KILLS}", (took[f"{how}-{quantile}"] / 1e3, None, "none"), "ms",
                 1 if how == "abort" else 5)


def line(metric, figures, unit, target, better="lower"):
    """figures: ours, peer, the peer's name"""
    ours, peer, name = figures
    if ours is None:
        return
    ratio = None if peer is None else round(peer / ours if better == "lower" else ours / peer, 3)
    print(json.dumps({"bench": "collectives", "metric": metric, "ours": round(ours, 3),
                      "peer": None if peer is None else round(peer, 3), "peer_name": name,
                      "ratio": ratio, "unit": unit, "target": target}), flush=True)


def report_size(times, size, how):
    """how: "" or ", rewritten"."""
    def at(who):
        return times.get((who + how, size))
    what = f"{size} B{how}"
    mpi_target = 6 if size >= 16 << 10 else 1.8 if size == 8 else None
    gloo_target = 60 if size <= 4 << 20 else 12
    line(f"all_reduce 2 ranks arena {what} vs OpenMPI",
         (at("arena"), at("openmpi"), "OpenMPI, its best setting"), "us", mpi_target)
    line(f"all_reduce 2 ranks shm {what} vs OpenMPI",
         (at("shm"), at("openmpi"), "OpenMPI, its best setting"), "us", None)
    line(f"all_reduce 2 ranks arena {what} vs halves",
         (at("arena"), at("halves"), "halves added in shared memory"), "us", None)
    line(f"all_reduce 2 ranks arena {what} vs gloo", (at("arena"), at("gloo"), "gloo, loopback TCP"), "us",
         gloo_target)
    line(f"all_reduce 2 ranks tcp {what} vs gloo", (at("tcp"), at("gloo"), "gloo, loopback TCP"), "us", None)


def report(times, sizes):
    for size in sizes:
        report_size(times, size, "")
        report_size(times, size, ", rewritten")
        line(f"all_reduce 2 ranks arena {size} B vs each core alone",
             (times.get(("arena", size)), times.get(("alone", size)), "the same adds, nothing shared"), "us", None)
        line(f"all_reduce 2 ranks tcp {size} B vs a socket",
             (times.get(("tcp", size)), times.get(("stream", size)), "the same bytes over one socket"), "us", None)
        if ("copy", size) in times and ("arena", size) in times:
            # An all-reduce of S reads 2 S and writes 2 S, as copying 2 S does; both cores copy at once.
            line(f"all_reduce 2 ranks arena {size} B rate",
                 (2 * size / times["arena", size] / 1e3, 2 * size / times["copy", size] / 1e3,
                  "memcpy on both cores"), "GB/s", 0.8, "higher")
        line(f"all_reduce 2 hosts of 2 ranks {size} B, two levels vs straight",
             (times.get(("hosts", size)), times.get(("hosts-flat", size)), "every rank to every rank"), "us", None)


def table(times, sizes):
    names = ["arena", "halves", "alone", "shm", "openmpi", *(f"openmpi, {s}" for s in MPI_SETTINGS), "gloo", "tcp",
             "stream", "copy", "hosts", "hosts-flat"]
    names += [f"{n}, rewritten" for n in ("arena", "halves", "openmpi", "gloo", "shm", "tcp")]
    print("| bytes | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for size in sizes:
        cells = [f"{times[n, size]:.3g}" if (n, size) in times else "" for n in names]
        print(f"| {size} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--sizes", type=lambda text: [int(s) for s in text.split(",")], default=SIZES)
    parser.add_argument("--only", type=lambda text: text.split(","), default=PARTS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only if part not in PARTS] + [s for s in arguments.sizes if s < 4]
    if unknown:
        parser.error(f"unknown: {unknown}; there are {', '.join(PARTS)}, and sizes from 4 bytes")
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
        results = collect(ours, mpi, gloo, arguments)
    wrong, compared = results.differences()
    for difference in wrong:
        print(f"bench collectives: other bits: {difference}", file=sys.stderr)
    print(f"bench collectives: {compared} results compared, {len(wrong)} differ", file=sys.stderr)
    times = results.medians()
    report(times, arguments.sizes)
    if "ends" in arguments.only:
        report_ends(ours)
    if arguments.table:
        table(times, arguments.sizes)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
