"""A coordinator never begins empty by mistake, never acknowledges what it cannot keep, and agents end no work for a store that is not
theirs."""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time

import pytest
from localcluster import HANG_SECONDS, wait_for

SLEEPER = ("--", "/bin/sleep", "600")


def refused(cluster, *options):
    """What a coordinator says that does not start on the cluster's folder."""
    done = subprocess.run([cluster.muster_path, "coordinator", "--data", str(cluster.data), "--rpc", cluster.rpc, "--http", "off", *options],
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 3, (done.returncode, done.stderr)
    return done.stderr


def files_of_store(cluster):
    return [path for name in ("muster.db", "muster.db-wal", "muster.db-shm") if (path := cluster.data / name).exists()]


def running_sleeper(cluster):
    job = cluster.submit(*SLEEPER)
    cluster.wait_state(job, "running")
    pids = wait_for("its worker", 10, lambda: cluster.worker_processes("node1"))
    return job, pids


def not_ready(cluster):
    status, text = cluster.rest("GET", "/readyz", raw=True)
    return text if status == 503 else None


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def test_h8_a_lost_database_beside_tokens_is_no_new_cluster(make_cluster):
    cluster = make_cluster(nodes=1)
    job, workers = running_sleeper(cluster)
    cluster.kill_coordinator()
    away = cluster.folder / "away"
    away.mkdir()
    for path in files_of_store(cluster):
        shutil.move(path, away / path.name)
    said = refused(cluster)
    assert "would begin empty" in said and "--new" in said and "--restore" in said, said
    (cluster.data / "store.mark").unlink()
    assert "admin.token" in refused(cluster), "its tokens alone say that there was one"
    (cluster.data / "muster.db").touch()
    assert "would begin empty" in refused(cluster), "an empty file is none"
    assert all(map(alive, workers))
    (cluster.data / "muster.db").unlink()
    for path in away.iterdir():
        shutil.move(path, cluster.data / path.name)
    cluster.start_coordinator()
    cluster.wait_nodes(1)
    assert cluster.job(job)["state"] == "running" and cluster.worker_processes("node1") == workers


def test_h8_agents_end_no_work_for_a_cluster_that_was_begun_anew(make_cluster):
    cluster = make_cluster(nodes=1)
    _, workers = running_sleeper(cluster)
    cluster.kill_coordinator()
    for path in files_of_store(cluster):
        path.unlink()
    cluster.start_coordinator(extra=("--new",))
    wait_for("the agent says why it does not join", 15, lambda: "belongs to cluster" in cluster.log("node1.log"))
    assert "--join-again" in cluster.log("node1.log")
    assert not json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"] and cluster.worker_processes("node1") == workers
    # Also an agent that was started anew meanwhile.
    cluster.agents["node1"].kill()
    cluster.agents["node1"].wait()
    before = len(cluster.log("node1.log"))
    cluster.start_agent("node1")
    wait_for("it is refused as well", 15, lambda: "belongs to cluster" in cluster.log("node1.log")[before:])
    assert cluster.worker_processes("node1") == workers
    # A person means it.
    cluster.agents["node1"].kill()
    cluster.agents["node1"].wait()
    cluster.start_agent("node1", *cluster.agent_options["node1"], "--join-again")
    cluster.wait_nodes(1)
    wait_for("the old cluster's worker ends", 20, lambda: not any(map(alive, workers)))
    cluster.kill_coordinator()
    assert "exists" in refused(cluster, "--new")


def test_h8_a_lost_write_ahead_log_is_noticed(make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.kill_coordinator()
    older = cluster.folder / "older.db"
    with sqlite3.connect(cluster.data / "muster.db") as db:
        db.execute("VACUUM INTO ?", (str(older),))
    cluster.start_coordinator()
    jobs = [cluster.submit("--", "/bin/true") for _ in range(20)]
    cluster.kill_coordinator()
    log = cluster.data / "muster.db-wal"
    kept = log.read_bytes()

    def with_log(data):
        for path in files_of_store(cluster):
            if path.name != "muster.db":
                path.unlink()
        if data:
            log.write_bytes(data)
        return refused(cluster)

    database = (cluster.data / "muster.db").read_bytes()
    flipped = bytearray(kept)
    flipped[len(kept) // 3] ^= 0x40
    for name, data in (("gone", None), ("cut", kept[: len(kept) // 2]), ("a bit flipped", bytes(flipped))):
        said = with_log(data)
        assert "was acknowledged" in said and "muster store salvage" in said, (name, said)
        (cluster.data / "muster.db").write_bytes(database)  # a refused start may have checkpointed what was left of the log
    # An older copy in its place.
    log.unlink(missing_ok=True)
    shutil.copy(older, cluster.data / "muster.db")
    assert "older copy" in refused(cluster)
    # The right files again: everything is there.
    (cluster.data / "muster.db").write_bytes(database)
    (cluster.data / "muster.db-shm").unlink(missing_ok=True)
    log.write_bytes(kept)
    cluster.start_coordinator()
    assert {job["id"] for job in cluster.rest("GET", "/v1/jobs?limit=100")[1]["jobs"]} == set(jobs)


def test_another_clusters_store_is_refused(make_cluster):
    one, other = make_cluster(nodes=0), make_cluster(nodes=0)
    for cluster in (one, other):
        cluster.kill_coordinator()
    for path in files_of_store(one):
        path.unlink()
    for path in files_of_store(other):
        shutil.copy(path, one.data / path.name)
    said = refused(one)
    assert "is of cluster" in said and "this folder's was of cluster" in said, said


@pytest.mark.parametrize("how", ["removed", "exchanged", "cut", "log removed"])
def test_h8_a_store_that_goes_while_it_is_used_is_not_acknowledged_to(make_cluster, how):
    cluster = make_cluster(nodes=0)
    cluster.submit("--", "/bin/true")
    cluster.coordinator.terminate()  # what is in the log goes to the file
    cluster.coordinator.wait()
    cluster.start_coordinator()
    database, log, away = cluster.data / "muster.db", cluster.data / "muster.db-wal", cluster.folder / "away"
    if how == "removed":
        database.rename(away)
    elif how == "exchanged":
        shutil.copy(database, away)
        away.rename(database)
    elif how == "cut":
        os.truncate(database, 4096)
    else:
        log.unlink()
    status, answer = cluster.rest("POST", "/v1/jobs", {"name": "lost", "command": ["/bin/true"]})
    assert status == 503 and "while it is in use" in answer["error"]["message"], (status, answer)
    text = wait_for("readyz says so", 5, lambda: not_ready(cluster))
    assert "while it is in use" in text, text
    if how == "removed":  # and brought back
        away.rename(database)
        wait_for("it goes on by itself", 10, lambda: not not_ready(cluster))
        assert cluster.rest("POST", "/v1/jobs", {"name": "kept", "command": ["/bin/true"]})[0] == 201


def test_a_store_that_goes_while_nothing_is_written_is_noticed(make_cluster):
    cluster = make_cluster(nodes=0)
    (cluster.data / "muster.db").unlink()
    assert "removed" in wait_for("readyz says so", 5, lambda: not_ready(cluster))


def test_a_second_coordinator_is_refused_also_without_the_lock_file(make_cluster):
    cluster = make_cluster(nodes=0)
    assert str(cluster.coordinator.pid) in refused(cluster)
    (cluster.data / "lock").unlink()
    assert "another coordinator" in refused(cluster)
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200


def test_a_restore_is_a_persons_word_and_its_folder_begins_anew(make_cluster):
    cluster = make_cluster(nodes=1)
    job, _ = running_sleeper(cluster)
    copy = cluster.folder / "copy.db"
    cluster.muster("backup", copy, check=True)
    later = cluster.submit("--", "/bin/true")
    for _ in range(2):  # twice from the same backup
        cluster.kill_coordinator()
        for path in files_of_store(cluster):
            path.unlink()
        cluster.start_coordinator(extra=("--restore", str(copy)))
        cluster.wait_nodes(1)
        wait_for("its job", 10, lambda: cluster.job(job)["state"] == "running")
        assert cluster.rest("GET", f"/v1/jobs/{later}")[0] == 404
        # The same worker, unless a busy machine let the lease run out meanwhile.
        workers = wait_for("its worker", 10, lambda: cluster.worker_processes("node1"))
    # The same file put there by hand is an older history.
    cluster.submit("--", "/bin/true")
    cluster.kill_coordinator()
    for path in [*files_of_store(cluster), cluster.data / "store.mark"]:
        path.unlink()
    shutil.copy(copy, cluster.data / "muster.db")
    cluster.start_coordinator()
    wait_for("the agent does not believe it", 15, lambda: "older history" in cluster.log("node1.log"))
    assert cluster.worker_processes("node1") == workers


def test_check_finds_damage_and_salvage_saves_the_rest(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0)
    jobs = [cluster.submit("--name", f"n{i}", "--", "/bin/echo", "x" * 800) for i in range(60)]
    cluster.coordinator.terminate()
    cluster.coordinator.wait()
    done = cluster.muster("store", "check", cluster.data)
    assert done.returncode == 0 and "60 jobs" in done.stdout, done
    path = cluster.data / "muster.db"
    with sqlite3.connect(path) as db:
        page = db.execute("SELECT pageno FROM dbstat WHERE name = 'jobs' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 OFFSET 3").fetchone() \
            if has_dbstat(db) else None
        db.execute("UPDATE jobs SET document = 'nonsense' WHERE id = ?", (jobs[50],))
    db.close()
    done = cluster.muster("store", "check", cluster.data)
    assert done.returncode == 1 and jobs[50] in done.stderr and "salvage" in done.stderr, done
    said = refused(cluster)
    data = bytearray(path.read_bytes())
    at = page[0] - 1 if page else next(i for i in range(3, len(data) // 4096) if data[i * 4096] == 13 and b"xxxxxxxx" in data[i * 4096:(i + 1) * 4096])
    data[at * 4096:(at + 1) * 4096] = os.urandom(4096)
    path.write_bytes(data)
    done = cluster.muster("store", "check", cluster.data)
    assert done.returncode == 1, done
    saved = tmp_path / "saved.db"
    done = cluster.muster("store", "salvage", cluster.data, saved, check=True)
    found = int(re.match(r"(\d+) jobs", done.stdout)[1])
    assert 40 <= found < 60 and "could not be read" in done.stdout, (done.stdout, said)
    assert saved.stat().st_mode & 0o077 == 0 and cluster.muster("store", "check", saved).returncode == 0
    again = cluster.muster("store", "salvage", cluster.data, saved)
    assert again.returncode == 1 and "exists" in again.stderr
    token = cluster.token
    cluster.data = cluster.folder / "restored"
    cluster.data.mkdir()
    (cluster.data / "admin.token").write_text(token)
    cluster.start_coordinator(extra=("--restore", str(saved)))
    names = [job["spec"]["name"] for job in cluster.rest("GET", "/v1/jobs?limit=100", token=token)[1]["jobs"]]
    assert len(names) == found and "n50" not in names and "n0" in names and "n59" in names


def test_a_salvage_that_finds_nothing_says_so_and_leaves_no_file(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0)
    cluster.submit("--", "/bin/true")
    copy, saved = tmp_path / "copy.db", tmp_path / "saved.db"
    cluster.muster("backup", copy, check=True)
    data = bytearray(copy.read_bytes())
    interior = data[100] == 5  # the list of tables takes several pages: page 1 has the places of the others
    assert interior, "the schema fits into page 1"
    first = int.from_bytes(data[112:114], "big")
    page = int.from_bytes(data[first:first + 4], "big")
    data[(page - 1) * 4096:page * 4096] = bytes([255]) * 4096
    copy.write_bytes(data)
    done = cluster.muster("store", "salvage", copy, saved)
    assert done.returncode == 1 and "nothing of" in done.stderr and "--restore" in done.stderr and not saved.exists(), done


def has_dbstat(db):
    try:
        db.execute("SELECT 1 FROM dbstat LIMIT 1")
        return True
    except sqlite3.OperationalError:
        return False


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *ret)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, ret);
    FILE *file = id == CLOCK_REALTIME ? fopen(getenv("CLOCK_AHEAD"), "re") : NULL;
    long days = 0;
    if (file && fscanf(file, "%ld", &days) == 1)
        ret->tv_sec += days * 86400;
    if (file)
        fclose(file);
    return rc;
}
"""


@pytest.fixture
def jumping(make_cluster, tmp_path, monkeypatch):
    """start() begins a coordinator whose clock is as many days ahead as the file `ahead` says."""
    source, library, ahead = tmp_path / "clock.c", tmp_path / "clock.so", tmp_path / "days"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    ahead.write_text("0\n")
    monkeypatch.setenv("CLOCK_AHEAD", str(ahead))
    cluster = make_cluster(nodes=0, coordinator=False)

    def start():
        with monkeypatch.context() as only:
            only.setenv("LD_PRELOAD", str(library))
            cluster.start_coordinator()
    return cluster, start, ahead


def test_m15_a_clock_that_jumps_while_the_coordinator_runs_forgets_nothing(jumping):
    cluster, start, ahead = jumping
    start()
    cluster.start_agent("lost")
    cluster.wait_nodes(1)
    cluster.agents["lost"].kill()
    cluster.agents.pop("lost").wait(HANG_SECONDS)
    jobs = [cluster.submit(*SLEEPER) for _ in range(3)]
    for job in jobs:
        cluster.muster("cancel", job, check=True)
    wait_for("its node to be lost", 20, lambda: cluster.rest("GET", "/v1/nodes")[1]["nodes"][0]["state"] == "lost")
    ahead.write_text("400\n")
    wait_for("it notices", 70, lambda: "nothing is forgotten by age" in cluster.log("coordinator.log"))
    time.sleep(1)
    assert [node["name"] for node in cluster.rest("GET", "/v1/nodes")[1]["nodes"]] == ["lost"]
    assert {job["id"] for job in cluster.rest("GET", "/v1/jobs")[1]["jobs"]} == set(jobs)


def test_m15_a_clock_that_jumped_while_no_coordinator_ran_deletes_nothing(jumping):
    cluster, start, ahead = jumping
    start()
    jobs = [cluster.submit(*SLEEPER) for _ in range(3)]
    for job in jobs:
        cluster.muster("cancel", job, check=True)
    cluster.kill_coordinator()
    ahead.write_text("400\n")
    start()
    wait_for("it notices", 20, lambda: "nothing is forgotten by age" in cluster.log("coordinator.log"))
    time.sleep(1)
    assert {job["id"] for job in cluster.rest("GET", "/v1/jobs")[1]["jobs"]} == set(jobs)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk: needs root")
def test_a_coordinator_killed_on_a_full_disk_starts_to_read(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0, coordinator=False)
    cluster.data.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=0700", "none", cluster.data], check=True)
    try:
        cluster.start_coordinator()
        job = cluster.submit(*SLEEPER)
        wide = {"name": "wide", "command": ["/bin/true", *["x" * 1000] * 200]}
        statuses = []
        while len(statuses) < 200 and (not statuses or statuses[-1] == 201):
            statuses.append(cluster.rest("POST", "/v1/jobs", wide)[0])
        assert statuses[-1] == 429, statuses
        with open(cluster.data / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        cluster.kill_coordinator()
        rpc, http = cluster.rpc, cluster.http
        cluster.start_coordinator(wait=False)
        cluster.rpc, cluster.http = rpc, http  # what it had before is what it takes again

        def serves():
            assert cluster.coordinator.poll() is None, cluster.log("coordinator.log")[-2000:]
            try:
                return cluster.rest("GET", f"/v1/jobs/{job}")[0] == 200
            except OSError:
                return False
        wait_for("it serves reads", 15, serves)
        assert "full" in not_ready(cluster)
        assert cluster.rest("POST", "/v1/jobs", {"name": "more", "command": ["/bin/true"]})[0] == 429
        (cluster.data / "filler").unlink()
        # Room for what is there and a little more.
        subprocess.run(["mount", "-o", "remount,size=64m", cluster.data], check=True)
        wait_for("it takes changes by itself", 15, lambda: not not_ready(cluster))
        assert cluster.rest("POST", "/v1/jobs", {"name": "more", "command": ["/bin/true"]})[0] == 201
    finally:
        cluster.stop()
        subprocess.run(["umount", "-l", cluster.data], check=False)
