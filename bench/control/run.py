#!/usr/bin/python3
"""The control plane beside Slurm: durable submits a second, empty jobs run through a second on two
agents, and how long a coordinator that was killed with 100,000 ended jobs in its store takes to serve
again. Slurm is started for it (slurm.py) where Debian's slurm-wlm and munge are installed, and takes
turns with ours; else the lines say that it is missing.
"""
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import slurm  # noqa: E402
from localcluster import Cluster, wait_for  # noqa: E402

BUILD = Path(os.environ.get("MUSTER_BENCH_BUILD", ROOT / "build-release"))
ROUNDS = int(os.environ.get("MUSTER_BENCH_ROUNDS", "7"))
STORED = 100000


def report(metric, ours, unit, target, peers=None, **more):
    """`peers`: Slurm's rates of the same rounds; None where there is nothing of it to compare with."""
    peer = statistics.median(peers) if peers else None
    print(json.dumps({"bench": "control", "metric": metric, "ours": round(ours, 3), "peer": peer and round(peer, 1),
                      "peer_name": "slurm" if peer else peers is not None and slurm.missing() or None,
                      "ratio": peer and round(ours / peer, 2), "unit": unit, "target": target, **more}), flush=True)


def fsyncs_per_second(folder):
    """The roof of anything durable: 4 KiB appended and fdatasync'd, one after the other."""
    path, block, count = folder / "sync", b"x" * 4096, 0
    with open(path, "wb", buffering=0) as file:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            file.write(block)
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count


def submit(cluster, clients, jobs, nodes):
    done = subprocess.run([str(BUILD / "bench/bench_control_submit"), cluster.rpc, cluster.token, str(clients), str(jobs), str(nodes)],
                          capture_output=True, text=True, check=True, timeout=300)
    return float(done.stdout)


def submits(folder, peer):
    """Jobs for a node nobody is: they are stored, explained and never run. A cluster without nodes takes any size."""
    for clients, jobs in ((1, 1000), (16, 4000)):
        rates, peers = [], []
        for i in range(ROUNDS):
            with Cluster(folder / f"submit-{clients}-{i}", BUILD / "muster") as cluster:
                cluster.start_coordinator()
                submit(cluster, clients, 50, 1)
                rates.append(jobs / submit(cluster, clients, jobs, 1))
            if peer:
                peers.append(peer.submit(100) if clients == 1 else peer.submit_parallel(100))
        report(f"durable submits, {clients} client{'s' if clients > 1 else ''}", statistics.median(rates), "1/s", "20x", peers,
               min=round(min(rates)), max=round(max(rates)), rounds=ROUNDS)


def commands(folder, peer, jobs=50):
    """A process a submit on both sides: what a shell script gets."""
    rates, peers = [], []
    with Cluster(folder / "commands", BUILD / "muster") as cluster:
        cluster.start_coordinator()
        for _ in range(ROUNDS):
            start = time.monotonic()
            for _ in range(jobs):
                cluster.submit("--", "/bin/true")
            rates.append(jobs / (time.monotonic() - start))
            if peer:
                peers.append(peer.submit(jobs))
    report("muster submit, one process after the other", statistics.median(rates), "1/s", None, peers, rounds=ROUNDS)


def drain(folder, peer, jobs=300):
    rates, peers = [], []
    with Cluster(folder / "drain", BUILD / "muster") as cluster:
        cluster.start_coordinator()
        for name in ("node1", "node2"):
            cluster.start_agent(name, "--slots", "8", "--cpus", "8")
        cluster.wait_nodes(2)
        for _ in range(ROUNDS):
            start = time.monotonic()
            submit(cluster, 16, jobs, 1)
            wait_for("all jobs end", 300, lambda: not cluster.rest("GET", "/v1/jobs?state=active&limit=1")[1]["jobs"], every=0.01)
            rates.append(jobs / (time.monotonic() - start))
            if peer:
                peers.append(peer.through(150))
        failed = cluster.rest("GET", "/v1/jobs?state=failed&limit=1")[1]["jobs"]
        assert not failed, failed
    report("empty jobs run through, 2 agents", statistics.median(rates), "1/s", "10x", peers, min=round(min(rates), 1), max=round(max(rates), 1), rounds=ROUNDS)


def fill(database, jobs):
    """Copies of an ended job, as they would be had they been run."""
    db = sqlite3.connect(database)
    row = list(db.execute("SELECT * FROM jobs WHERE state = 'succeeded' ORDER BY sequence DESC LIMIT 1").fetchone())
    names = [c[1] for c in db.execute("PRAGMA table_info(jobs)")]
    at = {name: i for i, name in enumerate(names)}
    document = json.loads(row[at["document"]])
    first = row[at["sequence"]] + 1
    def copies():
        for sequence in range(first, first + jobs):
            document["id"], document["sequence"] = f"j{sequence}", sequence
            copy = list(row)
            copy[at["sequence"]], copy[at["id"]], copy[at["document"]] = sequence, f"j{sequence}", json.dumps(document)
            yield copy
    with db:
        db.executemany(f"INSERT INTO jobs VALUES ({','.join('?' * len(names))})", copies())
    db.close()


def restart(folder):
    times = []
    keep = ("--keep-jobs", "1000000")
    with Cluster(folder / "restart", BUILD / "muster") as cluster:
        cluster.start_coordinator()
        cluster.start_agent("node1", "--slots", "1")
        cluster.wait_nodes(1)
        cluster.wait_state(cluster.submit("--", "/bin/true"), "succeeded")
        time.sleep(0.5)
        cluster.coordinator.terminate()
        cluster.coordinator.wait()
        fill(cluster.data / "muster.db", STORED)
        cluster.start_coordinator(extra=keep)
        for _ in range(ROUNDS):
            cluster.coordinator.kill()
            start = time.monotonic()
            cluster.coordinator.wait()
            cluster.start_coordinator(extra=keep, wait=False)
            def serves():
                try:
                    request = urllib.request.Request(f"http://{cluster.http}/v1/jobs?limit=1", headers={"Authorization": f"Bearer {cluster.token}"})
                    return urllib.request.urlopen(request, timeout=5).status == 200
                except (OSError, urllib.error.URLError):
                    return False
            wait_for("it serves", 60, serves, every=0.002)
            times.append(time.monotonic() - start)
    report("coordinator killed to serving, 100k jobs in the store", statistics.median(times), "s", 1.0, min=round(min(times), 3), max=round(max(times), 3), rounds=ROUNDS)


def main():
    if not (BUILD / "bench/bench_control_submit").exists():
        print("bench control: nothing was built for it", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    try:
        report("fdatasync of 4 KiB", fsyncs_per_second(folder), "1/s", None)
        with nullcontext() if slurm.missing() else slurm.Slurm() as peer:
            submits(folder, peer)
            commands(folder, peer)
            drain(folder, peer)
        restart(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
