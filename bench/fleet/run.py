#!/usr/bin/python3
"""Many nodes on one coordinator: what share of a core the beats of 10,000 nodes cost it, and 1,000 real
agents with a connection each. The coordinator is a process of its own; its processor time is what the
kernel says of it. The nodes are in another process (fleet.c) over real sockets.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster  # noqa: E402

BUILD = Path(os.environ.get("MUSTER_BENCH_BUILD", ROOT / "build-release"))
SECONDS = int(os.environ.get("MUSTER_BENCH_SECONDS", "20"))
TICKS = os.sysconf("SC_CLK_TCK")


def report(metric, ours, unit, target, **more):
    print(json.dumps({"bench": "fleet", "metric": metric, "ours": round(ours, 3), "peer": None, "peer_name": None, "ratio": None, "unit": unit,
                      "target": target, **more}), flush=True)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid):
    return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def measure(folder, kind, count):
    """Processor share and memory of the coordinator while `count` nodes beat, and what they saw."""
    with Cluster(folder / kind, BUILD / "muster") as cluster:
        cluster.start_coordinator()
        pid = cluster.coordinator.pid
        empty_mib = resident_mib(pid)
        token = (cluster.data / "agent.token").read_text().strip()
        with subprocess.Popen([str(BUILD / "bench/bench_fleet_nodes"), cluster.rpc, token, kind, str(count), str(SECONDS)],
                              stdout=subprocess.PIPE, text=True) as nodes:
            ready = nodes.stdout.readline().split()
            if ready[:1] != ["ready"]:
                raise RuntimeError(f"fleet: {ready}: {cluster.log('coordinator.log')[-1000:]}")
            start, used = time.monotonic(), cpu_seconds(pid)
            seen = json.loads(nodes.stdout.readline())
            seen["cpu_s"], seen["wall_s"] = cpu_seconds(pid) - used, time.monotonic() - start
            grown = resident_mib(pid) - empty_mib
        lost = [n["name"] for n in cluster.rest("GET", "/v1/nodes")[1]["nodes"] if n["state"] == "lost"]
        if kind == "agents":
            assert not lost, lost[:5]
        return float(ready[1]), grown, seen


def main():
    if not (BUILD / "bench/bench_fleet_nodes").exists():
        print("bench fleet: nothing was built for it", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="muster-fleet-"))
    try:
        # By the cost of a beat, so that a busy machine, on which fewer are answered a second, says the same.
        ready, grown, seen = measure(folder, "beats", 10000)
        each = seen["cpu_s"] / (seen["calls_per_s"] * seen["wall_s"])
        report("10k nodes beating once a second, share of one core", 100 * each * 10000, "%", 20, floor=50, us_per_beat=round(1e6 * each, 1),
               registered_in_s=ready, coordinator_mib=round(grown), beats_per_s=seen["calls_per_s"], unanswered=seen["failed"], p50_ms=seen["p50_ms"],
               p99_ms=seen["p99_ms"])
        ready, grown, seen = measure(folder, "agents", 1000)
        report("1,000 real agents connected, share of one core", 100 * seen["cpu_s"] / seen["wall_s"], "%", None, registered_in_s=ready,
               coordinator_mib=round(grown), probe_p50_ms=seen["p50_ms"], probe_p99_ms=seen["p99_ms"], failed=seen["failed"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
