#!/usr/bin/python3
"""Many nodes on one coordinator, each with a key and a connection of its own: what share of a core the
beats of 10,000 nodes cost it, how they all come back after it was killed and started again, 1,000 real
agents, and a TLS handshake by itself. The coordinator is a process of its own; its processor time is what
the kernel says of it. The nodes are in another process (fleet.c) over real sockets.
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
BEATS = int(os.environ.get("MUSTER_BENCH_NODES", "10000"))
AGENTS = BEATS // 10
SHARED_MEMORY = Path("/dev/shm")
LEASE_S = 10  # RESTORED_LEASE_MS of coordinator/core/step.h
SETTLE_S = 3  # a lease: who is not ready then fell silent again
TICKS = os.sysconf("SC_CLK_TCK")


def report(metric, ours, unit, target, **more):
    print(json.dumps({"bench": "fleet", "metric": metric, "ours": round(ours, 3), "peer": None, "peer_name": None, "ratio": None, "unit": unit,
                      "target": target, **more}), flush=True)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid):
    return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def states(cluster):
    """state -> how many nodes."""
    counts = {}
    for node in cluster.rest("GET", "/v1/nodes")[1]["nodes"]:
        counts[node["state"]] = counts.get(node["state"], 0) + 1
    return counts


def restart(cluster, nodes, count):
    """Kill the coordinator, start it again at once and wait for every node."""
    before = cpu_seconds(nodes.pid)
    cluster.kill_coordinator()
    began = time.monotonic()
    cluster.start_coordinator()
    serves = time.monotonic() - began
    pid = cluster.coordinator.pid
    seen = json.loads(nodes.stdout.readline())
    seen.update(returned_s=time.monotonic() - began, serves_s=serves, coordinator_cpu_s=cpu_seconds(pid), nodes_cpu_s=cpu_seconds(nodes.pid) - before)
    time.sleep(SETTLE_S)
    now = states(cluster)
    seen["not_ready"] = count - now.get("ready", 0)
    seen["coordinator_mib"] = resident_mib(pid)
    return seen


def measure(folder, keys, kind, count):
    """Processor share and memory of the coordinator while `count` nodes beat, what they saw, and how they return after a restart."""
    with Cluster(folder / kind, BUILD / "muster") as cluster:
        cluster.start_coordinator()
        pid = cluster.coordinator.pid
        empty_mib = resident_mib(pid)
        token = (cluster.data / "agent.token").read_text().strip()
        again = ["returns"] if kind == "beats" else []
        with subprocess.Popen([str(BUILD / "bench/bench_fleet_nodes"), cluster.rpc, token, str(keys), kind, str(count), str(SECONDS), *again],
                              stdout=subprocess.PIPE, text=True) as nodes:
            try:
                ready = nodes.stdout.readline().split()
                if ready[:1] != ["ready"]:
                    raise RuntimeError(f"fleet: {ready}: {cluster.log('coordinator.log')[-1000:]}")
                start, used = time.monotonic(), cpu_seconds(pid)
                seen = json.loads(nodes.stdout.readline())
                seen.update(cpu_s=cpu_seconds(pid) - used, wall_s=time.monotonic() - start, registered_in_s=float(ready[1]), join_cpu_s=used,
                            mib=resident_mib(pid) - empty_mib)
                if again:
                    seen["return"] = restart(cluster, nodes, count)
                else:
                    lost = states(cluster).get("lost", 0)
                    assert not lost, lost
            finally:
                nodes.kill()
        return seen


def report_beats(seen):
    # By the cost of a beat, so that a busy machine, on which fewer are answered a second, says the same.
    each = seen["cpu_s"] / (seen["calls_per_s"] * seen["wall_s"])
    report(f"{BEATS:,} nodes beating once a second, share of one core", 100 * each * BEATS, "%", 20, floor=50, us_per_beat=round(1e6 * each, 1),
           registered_in_s=seen["registered_in_s"], join_cpu_s=round(seen["join_cpu_s"], 2), coordinator_mib=round(seen["mib"]),
           kib_per_node=round(1024 * seen["mib"] / BEATS, 1), beats_per_s=seen["calls_per_s"], unanswered=seen["failed"], p50_ms=seen["p50_ms"],
           p99_ms=seen["p99_ms"], load=round(os.getloadavg()[0], 1))


def report_return(back):
    report(f"{BEATS:,} nodes heard again after the coordinator was killed", back["returned_s"], "s", LEASE_S, not_ready=back["not_ready"],
           serves_s=round(back["serves_s"], 2), resumed=back["resumed"], whole=back["whole"], broken=back["broken"],
           coordinator_cpu_s=round(back["coordinator_cpu_s"], 2), nodes_cpu_s=round(back["nodes_cpu_s"], 2), coordinator_mib=round(back["coordinator_mib"]),
           load=round(os.getloadavg()[0], 1))


def report_handshake(folder):
    done = subprocess.run([str(BUILD / "bench/bench_fleet_handshake"), str(folder), "2000"], stdout=subprocess.PIPE, text=True, check=True)
    cost = json.loads(done.stdout)
    report("one TLS handshake at the server", cost["whole_server_us"], "us of a core", None, **cost)


def main():
    if not (BUILD / "bench/bench_fleet_nodes").exists():
        print("bench fleet: nothing was built for it", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="muster-fleet-"))
    # Each of 10,000 key files is synchronised to the disk: in memory that costs nothing.
    keys = Path(tempfile.mkdtemp(prefix="muster-fleet-keys-", dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None))
    try:
        report_handshake(keys)
        seen = measure(folder, keys, "beats", BEATS)
        report_beats(seen)
        report_return(seen["return"])
        seen = measure(folder, keys, "agents", AGENTS)
        report(f"{AGENTS:,} real agents connected, share of one core", 100 * seen["cpu_s"] / seen["wall_s"], "%", None,
               registered_in_s=seen["registered_in_s"], coordinator_mib=round(seen["mib"]), probe_p50_ms=seen["p50_ms"], probe_p99_ms=seen["p99_ms"],
               failed=seen["failed"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(keys, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
