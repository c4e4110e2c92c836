#!/usr/bin/python3
"""How long a training job stands still when it loses a worker or a node: from SIGKILL to the next
completed optimizer step, as an observer polling every few milliseconds sees it. Two nodes on this
machine, examples/gpt, elastic in place.
"""
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster, wait_for  # noqa: E402

ROUNDS = 7
BUILD = ROOT / "build-release"


def job(cluster, name):
    return cluster.rest("GET", f"/v1/jobs/{name}")[1]


def trained(cluster, name, world, beyond):
    def probe():
        now = job(cluster, name)
        if now["state"] in ("failed", "cancelled", "succeeded"):
            raise RuntimeError(f"the job {now['state']}: {now.get('reason')}")
        return now if int(now.get("world") or 0) == world and now["state"] == "running" and int(now.get("step") or 0) > beyond else None
    return wait_for(f"world {world} beyond step {beyond}", 30, probe, every=0.003)


def measure(cluster, name, kill):
    """Seconds from kill(job) to a step completed by whoever is left, and what the coordinator says."""
    before = trained(cluster, name, 2, 0)
    recoveries = int(before.get("recoveries") or 0)
    start = time.monotonic()
    kill(before)
    def probe():
        now = job(cluster, name)
        over = int(now.get("recoveries") or 0) > recoveries and now.get("last_recovery_ms") is not None
        return now if over else None
    after = wait_for("recovery", 30, probe, every=0.003)
    return time.monotonic() - start, int(after["last_recovery_ms"]) / 1000


def worker_killed(cluster, name, rounds):
    def kill(now):
        os.kill(next(int(w["pid"]) for w in now["workers"] if int(w.get("rank") or 0) == 1), signal.SIGKILL)
    times = []
    for _ in range(rounds):
        times.append(measure(cluster, name, kill))
        now = trained(cluster, name, 2, 0)
        trained(cluster, name, 2, int(now["step"]) + 50)
    return times


def node_killed(cluster, name, rounds):
    times = []
    for _ in range(rounds):
        victim = []
        def kill(now):
            victim.append(next(w["node"] for w in now["workers"] if int(w.get("rank") or 0) == 1))
            cluster.kill_node(victim[0])
        times.append(measure(cluster, name, kill))
        cluster.start_agent(victim[0])
        now = trained(cluster, name, 2, 0)
        trained(cluster, name, 2, int(now["step"]) + 50)
    return times


def report(metric, times, target):
    seen = [t for t, _ in times]
    print(json.dumps({"bench": "recovery", "metric": metric, "ours": round(statistics.median(seen), 3), "min": round(min(seen), 3), "max": round(max(seen), 3),
                      "coordinator": round(statistics.median(t for _, t in times), 3), "peer": None, "peer_name": None, "ratio": None, "unit": "s",
                      "target": target, "rounds": len(times)}), flush=True)


def main():
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    try:
        with Cluster(folder, BUILD / "muster") as cluster:
            cluster.start_coordinator()
            for name in ("node1", "node2"):
                cluster.start_agent(name, "--slots", "1")
            cluster.wait_nodes(2)
            text = folder / "text.txt"
            text.write_text("In the beginning was the word, and the word was long. " * 20000)
            name = cluster.submit("-N", "1-2", "--restarts", "1000", "--", BUILD / "examples/gpt", "--data", text, "--layers", "2", "--heads", "2",
                                  "--width", "64", "--context", "64", "--batch", "8", "--steps", "10000000")
            report("worker killed to next step, in place", worker_killed(cluster, name, ROUNDS), 0.3)
            report("node killed to next step, in place", node_killed(cluster, name, ROUNDS), 1.0)
            cluster.muster("cancel", name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
