"""`muster up`: what its end leaves for the next one."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from localcluster import MUSTER, ROOT, processes, wait_for

GPT = [str(ROOT / "build/examples/gpt"), "--data", str(ROOT / "LICENSE"), "--layers", "2", "--heads", "2", "--width", "32", "--context", "32", "--batch", "8", "--sample", "0"]


class Up:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config")}
        for name in ("MUSTER_ADDR", "MUSTER_TOKEN"):
            self.environment.pop(name, None)
        self.start()

    def start(self):
        self.out = open(self.folder / "up.log", "ab")
        self.process = subprocess.Popen(
            [str(MUSTER), "up", "--nodes", "2", "--slots", "1", "--data", str(self.folder / "d"), "--rpc", "tcp://127.0.0.1:0", "--http", "off"],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out, env=self.environment, start_new_session=True)
        wait_for("both nodes", 15, lambda: sum(n["state"] == "ready" for n in json.loads(self.muster("nodes", "-o", "json") or "{}").get("nodes", [])) == 2)

    def muster(self, *words):
        return subprocess.run([str(MUSTER), *map(str, words)], capture_output=True, text=True, env=self.environment, timeout=30).stdout

    def job(self, name):
        return json.loads(self.muster("show", name, "-o", "json") or "{}")

    def left(self):
        return [line for _, line in processes().values() if str(self.folder) in line]


@pytest.fixture
def up(tmp_path_factory):
    up = Up(tmp_path_factory.mktemp("u"))
    yield up
    for _ in range(3):
        if up.process.poll() is None:
            up.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
    up.process.wait(40)
    wait_for("nothing to be left", 5, lambda: not up.left())


def test_on_ctrl_c_jobs_save_and_the_next_up_goes_on(up):
    kept = up.folder / "k"
    job = up.muster("submit", "-N", "1-2", "--checkpoint", kept, "--checkpoint-every", "1000000 steps", "--", *GPT, "--steps", "4000").strip()
    wait_for("some steps", 30, lambda: int(up.job(job).get("step") or 0) > 30)
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    assert not up.left()
    saved = [int(path.name[5:]) for path in kept.glob("step-*")]
    assert len(saved) == 1 and saved[0] > 30, saved
    up.start()
    again = wait_for("it goes on", 30, lambda: (lambda j: j if j["state"] == "running" and int(j.get("step") or 0) > saved[0] else None)(up.job(job)))
    assert int(again.get("restarts") or 0) == 0
    assert f"step {saved[0]}" in up.muster("logs", job), "it began with what was saved"
    events = up.muster("events", job)
    assert re.search(r"preempting.*the cluster is being stopped", events), events


def test_a_second_ctrl_c_waits_for_nobody(up):
    job = up.muster("submit", "--", "/bin/sh", "-c", "trap '' TERM; echo here; while :; do sleep 1; done").strip()
    wait_for("it runs", 15, lambda: "here" in up.muster("logs", job))
    up.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert up.process.poll() is None, "it waits for a worker that has time to save"
    up.process.send_signal(signal.SIGINT)
    up.process.wait(9)  # the worker had ten seconds
    wait_for("nothing to be left", 5, lambda: not up.left())
