"""Doors of the store's versions: files that a program of another version wrote, was writing when it was killed, or never wrote.

| attack | door | what must hold |
|---|---|---|
| SIGKILL between two migrations | start | the next start goes on from there; no job, event or token is lost |
| SIGKILL inside a migration, half of it in the write-ahead log | start | the same |
| SIGKILL again and again while a large file is brought up to date | start | the same |
| a file of a later version | start, restore, replay, salvage | refused; the file stays as it was |
| a version that is a lie: less than what the file has, none, negative | start, restore, replay, salvage | refused; no crash; the file keeps its jobs |
"""
import hashlib
import json
import os
import sqlite3
import subprocess
import time

import pytest
from localcluster import MUSTER, ROOT
from test_doors_files import start
from test_older_store import JOBS, write_store

MIGRATIONS = sorted((ROOT / "coordinator/store/migrations").glob("*.sql"))
NEWEST = len(MIGRATIONS)


def statements(path):
    """Of a migration, one by one."""
    part = ""
    for line in path.read_text().splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


def write_version(path, version, tokens=(), jobs=0):
    """A store of schema `version`, as a start that was killed after that migration leaves it."""
    write_store(path, dict(tokens))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    row = db.execute("SELECT * FROM jobs WHERE sequence = 4").fetchone()
    db.execute("BEGIN")
    for number in range(len(JOBS) + 1, len(JOBS) + 1 + jobs):
        db.execute("INSERT INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?)", (number, f"j{number}", *row[2:9], row[9].replace('"j4"', f'"j{number}"').replace('"sequence": 4', f'"sequence": {number}')))
    db.execute("COMMIT")
    for number, migration in enumerate(MIGRATIONS[1:version], 2):
        db.executescript(f"BEGIN; {migration.read_text()}; PRAGMA user_version = {number}; COMMIT")
    db.close()


def half_a_migration(path, version, count):
    """The first `count` statements of the next migration, in the log but not committed, by a process that ends at once."""
    child = os.fork()
    if child == 0:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA cache_size = 1")  # so that pages leave memory before the commit
        db.execute("BEGIN IMMEDIATE")
        for one in list(statements(MIGRATIONS[version]))[:count]:
            db.execute(one)
        db.execute("CREATE TABLE filler (x)")
        for _ in range(200):
            db.execute("INSERT INTO filler VALUES (randomblob(4000))")
        os._exit(0)
    os.waitpid(child, 0)


def jobs_of(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [row[0] for row in db.execute("SELECT id FROM jobs ORDER BY sequence")], db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


@pytest.fixture
def old(make_cluster):
    """A cluster whose tokens are known, and whose store may be exchanged."""
    cluster = make_cluster(nodes=0)
    tokens = {role: (cluster.data / f"{role}.token").read_text().strip() for role in ("admin", "agent")}
    cluster.kill_coordinator()

    def exchange(version, jobs=0):
        for path in [*cluster.data.glob("muster.db*"), cluster.data / "store.mark"]:
            path.unlink(missing_ok=True)
        write_version(cluster.data / "muster.db", version, tokens, jobs)
        return cluster.data / "muster.db"
    return cluster, exchange


def whole(cluster, jobs):
    """It serves, with the tokens and all jobs of before, and its schema is the newest."""
    listed = cluster.rest("GET", "/v1/jobs?limit=1000")[1]["jobs"]
    assert {job["id"] for job in listed} == {f"j{n}" for n in range(1, jobs + 1)}, len(listed)
    assert len(cluster.rest("GET", "/v1/events?limit=1000")[1]["events"]) >= len(JOBS)
    assert cluster.rest("GET", "/v1/tenants")[0] == 200 and cluster.rest("GET", "/v1/secrets")[0] == 200
    assert jobs_of(cluster.data / "muster.db")[1] == NEWEST
    cluster.kill_coordinator()


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_a_start_that_was_killed_between_or_inside_migrations_is_gone_on_with(old, version):
    cluster, exchange = old
    for count in (0, 1, len(list(statements(MIGRATIONS[version])))):
        path = exchange(version)
        if count:
            half_a_migration(path, version, count)
        cluster.start_coordinator()
        whole(cluster, len(JOBS))


def test_a_start_that_is_killed_again_and_again_loses_nothing(old):
    cluster, exchange = old
    path = exchange(1, jobs=3000)
    words = [str(MUSTER), "coordinator", "--data", str(cluster.data), "--rpc", "tcp://127.0.0.1:0", "--http", "off"]
    seen = set()
    for i in range(12):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.004 * (i + 1))
        process.kill()
        process.wait()
        jobs, version = jobs_of(path)
        seen.add(version)
        assert len(jobs) == len(JOBS) + 3000 and 1 <= version <= NEWEST, (len(jobs), version)
    cluster.start_coordinator()
    assert cluster.rest("GET", f"/v1/jobs/j{len(JOBS) + 3000}")[0] == 200
    assert jobs_of(path)[1] == NEWEST, seen


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("lie", [NEWEST + 1, 999, (1 << 31) - 1, 0, 1, NEWEST - 1, -1, -1000, -(1 << 31)])
def test_a_version_that_is_a_lie_is_refused_and_nothing_is_changed(old, tmp_path, lie):
    cluster, exchange = old
    path = exchange(NEWEST)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute(f"PRAGMA user_version = {lie}")
    db.commit()
    db.close()
    before, jobs = digest(path), jobs_of(path)
    tries = [("coordinator", "--data", cluster.data, "--rpc", "tcp://127.0.0.1:0", "--http", "off"),
             ("coordinator", "--data", tmp_path / "new", "--restore", path, "--rpc", "tcp://127.0.0.1:0", "--http", "off"),
             ("restore", path, "--data", tmp_path / "other"), ("store", "check", path), ("events", "--replay", "--data", path)]
    if lie > NEWEST or lie < 0:
        tries.append(("store", "salvage", path, tmp_path / "saved.db"))
    for words in tries:
        code, said = start(*words, seconds=30)
        looks = words[:2] == ("store", "check")  # it says the version that it reads
        assert code is not None and (code >= 0 if looks else code > 0 and said.strip()), (words, code, said)
        assert jobs_of(path) == jobs, words
    if lie > NEWEST or lie < 0:
        assert digest(path) == before
