"""Backup while the coordinator works, killed and not, and a cluster begun with one."""
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path

from localcluster import HANG_SECONDS, Cluster, wait_for


def load(cluster, acknowledged, stop):
    """Submits until told to stop; every id that was acknowledged is kept."""
    number = 0
    while not stop.is_set():
        number += 1
        try:
            status, job = cluster.rest("POST", "/v1/jobs", {"name": "load", "command": ["/bin/true"]}, headers={"Idempotency-Key": f"k{number}"})
        except OSError:
            time.sleep(0.02)
            number -= 1
            continue
        if status == 201:
            acknowledged.append((time.monotonic(), job["id"]))


def test_a_backup_under_load_restores_into_an_empty_directory(make_cluster, tmp_path):
    cluster = make_cluster(nodes=1, slots=2)
    cluster.muster("tenant", "create", "red", "--weight", "3", check=True)
    acknowledged, stop = [], threading.Event()
    worker = threading.Thread(target=load, args=(cluster, acknowledged, stop))
    worker.start()
    try:
        wait_for("some jobs", 10, lambda: len(acknowledged) > 30)
        started = time.monotonic()
        copy = tmp_path / "copy.db"
        cluster.muster("backup", copy, check=True)
        assert copy.stat().st_mode & 0o077 == 0
        past = json.loads(cluster.muster("events", "--replay", "--data", copy, "--json", check=True).stdout)
        assert {job for when, job in acknowledged if when < started} <= {job["id"] for job in past["jobs"]} and not past["differing"]
        again = cluster.muster("backup", copy)
        assert again.returncode == 2 and "exists" in again.stderr
        # Killed in the middle: no file of that name, or a whole one; and the next try works once what is left of the first is gone.
        torn = tmp_path / "torn.db"
        trying = subprocess.Popen([cluster.muster_path, "backup", str(torn)], env=cluster.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.005)
        cluster.kill_coordinator()
        cluster.start_coordinator()
        trying.kill()
        trying.wait()
        again = cluster.muster("backup", torn)
        if "torn.db.partial" in again.stderr:
            Path(f"{torn}.partial").unlink()
            again = cluster.muster("backup", torn)
        assert again.returncode == 0 or "exists" in again.stderr or "under way" in again.stderr, again.stderr  # what it asked for may go on without it
        wait_for("a backup of that name", 10, torn.exists)
        past = json.loads(cluster.muster("events", "--replay", "--data", torn, "--json", check=True).stdout)
        assert len(past["jobs"]) > 30 and not past["differing"], "it is whole"
    finally:
        stop.set()
        worker.join()
    refused = subprocess.run([cluster.muster_path, "coordinator", "--data", str(cluster.data), "--restore", str(copy)], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert refused.returncode == 3
    token = cluster.token
    with Cluster(tmp_path / "restored") as other:
        other.data.mkdir(parents=True)
        shutil.copy(cluster.data / "admin.token", other.data / "admin.token")
        other.start_coordinator(extra=("--restore", str(copy)))
        jobs, cursor = [], ""
        while True:
            page = other.rest("GET", f"/v1/jobs?limit=1000&cursor={cursor}", token=token)[1]
            jobs += [job["id"] for job in page["jobs"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        missing = [job for when, job in acknowledged if when < started and job not in jobs]
        assert not missing, f"acknowledged before the backup and not in it: {missing[:5]}"
        assert json.loads(other.muster("tenant", "show", "red", "-o", "json", check=True).stdout)["tenants"][0]["weight"] == 3
        fresh = other.submit("--", "/bin/true")
        assert int(fresh[1:]) > 100000, "a number given out since the backup could be met again"
        # The key of a job of before still means that job.
        key = other.rest("POST", "/v1/jobs", {"name": "load", "command": ["/bin/true"]}, headers={"Idempotency-Key": "k1"})[1]
        assert key["id"] == acknowledged[0][1]


def test_a_backup_that_cannot_be_written_is_refused_with_the_reason(cluster, tmp_path):
    (tmp_path / "file").touch()
    for place, said in ((tmp_path / "absent" / "copy.db", "No such file or directory"), (tmp_path / "file" / "copy.db", "Not a directory"),
                        (tmp_path / "file", "exists"), (tmp_path, "exists")):
        done = cluster.muster("backup", place)
        assert done.returncode == 2 and said in done.stderr and str(place) in done.stderr, done.stderr
    status, answer = cluster.rest("GET", "/readyz", raw=True)
    assert status == 200, "a disk that is no good for backups is no reason to take no changes"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
