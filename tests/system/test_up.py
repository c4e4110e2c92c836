"""`muster up`: what its end leaves for the next one."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT, processes, wait_for

GPT = [str(ROOT / "build/examples/gpt"), "--data", str(ROOT / "LICENSE"), "--layers", "2", "--heads", "2", "--width", "32", "--context", "32", "--batch", "8", "--sample", "0"]


class Up:
    def __init__(self, folder, data="d", nodes=2):
        self.folder, self.data, self.nodes = folder, folder / data, nodes
        self.environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config")}
        for name in ("MUSTER_ADDR", "MUSTER_TOKEN"):
            self.environment.pop(name, None)
        self.start()

    def start(self):
        self.out = open(self.folder / "up.log", "ab")
        self.process = subprocess.Popen(
            [str(MUSTER), "up", "--nodes", str(self.nodes), "--slots", "1", "--data", str(self.data), "--rpc", "tcp://127.0.0.1:0", "--http", "off"],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out, env=self.environment, start_new_session=True)
        wait_for("its nodes", 15, lambda: sum(n["state"] == "ready" for n in json.loads(self.muster("nodes", "-o", "json") or "{}").get("nodes", [])) == self.nodes)

    def muster(self, *words):
        return self.run(*words).stdout

    def run(self, *words):
        return subprocess.run([str(MUSTER), *map(str, words)], capture_output=True, text=True, env=self.environment, timeout=HANG_SECONDS)

    def job(self, name):
        return json.loads(self.muster("show", name, "-o", "json") or "{}")

    def stop(self):
        for _ in range(3):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
        self.process.wait(HANG_SECONDS)

    def left(self):
        return [line for _, line in processes().values() if str(self.folder) in line]


@pytest.fixture
def up(tmp_path_factory):
    up = Up(tmp_path_factory.mktemp("u"))
    yield up
    up.stop()
    wait_for("nothing to be left", 5, lambda: not up.left())


def test_who_jobs_run_as_is_said(up):
    said = wait_for("the banner", 15, lambda: (lambda text: text if "In another terminal" in text else None)((up.folder / "up.log").read_text()))
    assert ("jobs   run as root, as you do" in said) == (os.geteuid() == 0), said
    assert ("jobs run as root" in up.muster("nodes")) == (os.geteuid() == 0)
    assert up.run("run", "--", "id", "-u").stdout.split() == [str(os.geteuid())]


def test_on_ctrl_c_jobs_save_and_the_next_up_goes_on(up):
    kept = up.folder / "k"
    job = up.muster("submit", "-N", "1-2", "--checkpoint", kept, "--checkpoint-every", "1000000 steps", "--", *GPT, "--steps", "4000").strip()
    wait_for("some steps", 30, lambda: int(up.job(job).get("step") or 0) > 30)
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(HANG_SECONDS) == 0
    assert not up.left()
    saved = [int(path.name[5:]) for path in kept.glob("step-*")]
    assert len(saved) == 1 and saved[0] > 30, saved
    up.start()
    again = wait_for("it goes on", 30, lambda: (lambda j: j if j["state"] == "running" and int(j.get("step") or 0) > saved[0] else None)(up.job(job)))
    assert int(again.get("restarts") or 0) == 0
    said = up.run("logs", job)
    assert f"step {saved[0]}" in said.stdout + said.stderr, "it began with what was saved"
    events = up.muster("events", job)
    assert re.search(r"preempting.*the cluster is being stopped", events), events


def test_a_second_ctrl_c_waits_for_nobody(up):
    job = up.muster("submit", "--grace", "1h", "--", "/bin/sh", "-c", "trap '' TERM; echo here; while :; do sleep 1; done").strip()
    wait_for("it runs", 15, lambda: "here" in up.muster("logs", job))
    up.process.send_signal(signal.SIGINT)
    # It has taken the first one: as long as that waits, an equal one is lost in it.
    wait_for("it stops", 15, lambda: "stopping: jobs save now" in (up.folder / "up.log").read_text())
    assert up.process.poll() is None, "it waits for a worker that has time to save"
    up.process.send_signal(signal.SIGINT)
    up.process.wait(HANG_SECONDS)  # the worker had an hour
    wait_for("nothing to be left", 5, lambda: not up.left())


@pytest.fixture
def two(tmp_path_factory):
    """Two clusters of one user, started one after the other, with one node and two."""
    folder = tmp_path_factory.mktemp("u")
    ups = []
    try:
        for data, nodes in (("one", 1), ("two", 2)):
            ups.append(Up(folder, data, nodes))
        yield ups
    finally:
        for up in ups:
            up.stop()
        wait_for("nothing to be left", 5, lambda: not ups[0].left())


def nodes_of(up):
    return len(json.loads(up.muster("nodes", "-o", "json") or "{}").get("nodes", []))


def test_verbs_go_to_the_newest_cluster_that_runs(two):
    first, second = two
    assert nodes_of(first) == 2
    assert f"another cluster of yours runs, in {first.data}" in (first.folder / "up.log").read_text()
    second.stop()
    assert nodes_of(first) == 1 and first.run("ps").stderr == ""


def test_the_end_of_one_cluster_after_the_other_leaves_none(two):
    first, second = two
    first.stop()
    assert nodes_of(second) == 2
    second.stop()
    done = first.run("ps")
    assert done.returncode == 3 and "no coordinator is known here" in done.stderr, done.stderr


def test_after_a_kill_verbs_find_the_cluster_that_still_runs_and_say_so(two):
    first, second = two
    second.process.kill()
    second.process.wait()
    done = first.run("nodes", "-o", "json")
    assert len(json.loads(done.stdout)["nodes"]) == 1
    assert f"talking to the cluster in {first.data}, since this one has ended: {second.data}" in done.stderr, done.stderr
