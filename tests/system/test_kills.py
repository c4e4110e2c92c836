"""kill -9 of the coordinator at random points of its work, again and again: nothing acknowledged is
lost, nothing happens twice, no job is harmed, and it serves again within a second.

MUSTER_KILLS sets the rounds: 15 here, 200 for the proof (`MUSTER_KILLS=200 pytest -s -k kill_9`,
some minutes), MUSTER_KILLS_SEED the places.
"""
import json
import os
import random
import statistics
import subprocess
import threading
import time
import urllib.request

from localcluster import wait_for

ROUNDS = int(os.environ.get("MUSTER_KILLS", "15"))
SEED = int(os.environ.get("MUSTER_KILLS_SEED", "1"))
SUBMITTERS = 4
PACE_S = 0.03  # of one submitter: more than an agent ends, less than would pile up


class Load:
    """Clients that submit with keys, repeat what was not answered, and remember what was."""

    def __init__(self, cluster):
        self.cluster, self.stop, self.jobs, self.lock = cluster, threading.Event(), {}, threading.Lock()
        self.threads = [threading.Thread(target=self.submit, args=(i,)) for i in range(SUBMITTERS)]
        for thread in self.threads:
            thread.start()

    def submit(self, who):
        number = 0
        while not self.stop.is_set():
            key = f"{who}-{number}"
            try:
                status, job = self.cluster.rest("POST", "/v1/jobs", {"name": "load", "command": ["/bin/true"]}, headers={"Idempotency-Key": key})
            except OSError:
                time.sleep(0.005)
                continue
            if status == 201:
                with self.lock:
                    self.jobs[key] = job["id"]
                number += 1
                time.sleep(PACE_S)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def serving(cluster):
    try:
        request = urllib.request.Request(f"http://{cluster.http}/v1/jobs?limit=1", headers={"Authorization": f"Bearer {cluster.token}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def kill_and_start(cluster):
    """Seconds from the kill to an answered read, the fork of the new process included."""
    os.kill(cluster.coordinator.pid, 9)
    start = time.monotonic()
    cluster.coordinator.wait()
    cluster.start_coordinator(wait=False)
    wait_for("it serves again", 20, lambda: serving(cluster), every=0.002)
    return time.monotonic() - start


def all_jobs(cluster):
    jobs, cursor = [], ""
    while True:
        page = cluster.rest("GET", f"/v1/jobs?limit=1000&cursor={cursor}")[1]
        jobs += page["jobs"]
        cursor = page["next_cursor"]
        if not cursor:
            return {job["id"]: job for job in jobs}


def workers_of(cluster, names):
    found = {}
    for name in names:
        job = wait_for("its process", 10, lambda: (lambda j: j if j["workers"] and int(j["workers"][0].get("pid") or 0) else None)(cluster.job(name)))
        found[name] = [int(worker["pid"]) for worker in job["workers"]]
    return found


def check(cluster, load, standing):
    jobs = wait_for("all jobs end", 60 + ROUNDS, lambda: (lambda found: found if all(j["state"] in ("succeeded", "failed", "cancelled") for i, j in found.items() if i not in standing) else None)(all_jobs(cluster)), every=0.2)
    lost = [job for job in load.jobs.values() if job not in jobs]
    assert not lost, f"acknowledged and lost: {lost}"
    assert len(set(load.jobs.values())) == len(load.jobs), "two keys, one job"
    others = [job for job in jobs if job not in standing and job not in load.jobs.values()]
    # What was stored but not answered when the load ended: one a submitter at most.
    assert len(others) <= SUBMITTERS, f"a key made two jobs: {others}"
    bad = [(i, j["state"], j["reason"]) for i, j in jobs.items() if i not in standing and j["state"] != "succeeded"]
    assert not bad, bad
    restarted = [(i, j["restarts"]) for i, j in jobs.items() if int(j["restarts"])]
    assert not restarted, f"harmed: {restarted}"
    return jobs


def test_kill_9_of_the_coordinator_at_random_points_under_load(make_cluster):
    cluster = make_cluster(nodes=0)
    for name in ("node1", "node2"):
        cluster.start_agent(name, "--slots", "6", "--cpus", "6")
    cluster.wait_nodes(2)
    standing = [cluster.submit("--name", f"standing{i}", "-N", str(i + 1), "--", "sleep", "3600") for i in range(2)]
    for job in standing:
        cluster.wait_state(job, "running")
    before = workers_of(cluster, standing)
    places, times = random.Random(SEED), []
    load = Load(cluster)
    try:
        for _ in range(ROUNDS):
            time.sleep(places.uniform(0, 0.4))
            times.append(kill_and_start(cluster))
    finally:
        load.end()
    jobs = check(cluster, load, standing)
    assert workers_of(cluster, standing) == before, "a job that ran has other processes now"
    for job in standing:
        assert jobs[job]["state"] == "running" and jobs[job]["generation"] == "1"
    audit = json.loads(subprocess.run([cluster.muster_path, "events", "--audit", "-o", "json"], capture_output=True, text=True, env=cluster.environment(), check=True).stdout)
    numbers = [int(entry["seq"]) for entry in audit["entries"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "the audit trail has a gap"
    replayed = json.loads(subprocess.run([cluster.muster_path, "events", "--replay", "--json"], capture_output=True, text=True, env=cluster.environment(), check=True).stdout)
    assert {job["id"] for job in replayed["jobs"]} >= set(load.jobs.values()) and not replayed["differing"], "the past is not what was"
    print(f"\n{ROUNDS} kills, {len(load.jobs)} submits acknowledged, none lost; serving again after median "
          f"{statistics.median(times) * 1000:.0f} ms, max {max(times) * 1000:.0f} ms")
