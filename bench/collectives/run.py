#!/usr/bin/python3
"""Two-rank all-reduce beside gloo (Debian's python3-torch) and beside this run's memcpy.

Ours and the peer alternate; figures are medians. A peer that is not installed is said so.
"""
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parent.parent / "build-release" / "bench" / "bench_collectives"
TURNS = 3
GLOO_TARGET = {"small": 60, "large": 12}


def figures(command):
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout.splitlines()
    return [json.loads(line) for line in lines]


def has_gloo():
    probe = "import torch.distributed as d; assert d.is_gloo_available()"
    return subprocess.run(["/usr/bin/python3", "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


def collect(gloo):
    times, copies = {}, []
    for _ in range(TURNS):
        for line in figures([str(PROGRAM)]):
            if "memcpy_bytes_per_s" in line:
                copies.append(line["memcpy_bytes_per_s"])
            else:
                times.setdefault((line["transport"], line["bytes"]), []).append(line["us"])
        sizes = [str(b) for t, b in times if t == "shm"]
        if gloo:
            for line in figures(["/usr/bin/python3", str(HERE / "gloo_peer.py"), "2"] + sizes):
                times.setdefault(("gloo", line["bytes"]), []).append(line["us"])
    return {k: statistics.median(v) for k, v in times.items()}, statistics.median(copies)


def line(metric, ours, peer, peer_name, unit, target, lower_is_better=True):
    ratio = None if peer is None else round(peer / ours if lower_is_better else ours / peer, 3)
    print(json.dumps({"bench": "collectives", "metric": metric, "ours": round(ours, 3),
                      "peer": None if peer is None else round(peer, 3), "peer_name": peer_name,
                      "ratio": ratio, "unit": unit, "target": target}), flush=True)


def main():
    if not PROGRAM.exists():
        print(f"bench collectives: {PROGRAM} is not built", file=sys.stderr)
        return 1
    gloo = has_gloo()
    if not gloo:
        print("bench collectives: the peer gloo is absent (python3-torch is not installed)", file=sys.stderr)
    print("bench collectives: the peer OpenMPI is not run by this benchmark", file=sys.stderr)
    times, copy = collect(gloo)
    for (transport, size), us in times.items():
        if transport == "gloo":
            continue
        target = GLOO_TARGET["small" if size <= 4 << 20 else "large"] if transport == "shm" else None
        line(f"all_reduce 2 ranks {transport} {size} B", us, times.get(("gloo", size)), "gloo, loopback TCP", "us", target)
        if size >= 1 << 20:
            line(f"all_reduce 2 ranks {transport} {size} B rate", size / us / 1e3, copy / 1e9, "memcpy, one core", "GB/s", None, False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
