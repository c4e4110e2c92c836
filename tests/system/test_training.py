"""examples/gpt under Muster with real processes: node loss, coordinator loss, resume, torch."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from localcluster import HANG_SECONDS, ROOT, processes, wait_for

GPT = ROOT / "build/examples/gpt"
GATED = ROOT / "build/tests/gpt_gated"  # gate.c
SMALL = ["--layers", "2", "--heads", "2", "--width", "32", "--context", "32", "--batch", "8"]
# Slow enough not to be over while something is killed and comes back.
SLOWER = ["--width", "64", "--context", "64", "--batch", "16"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Words with structure to learn, the same in every run."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    verses = subprocess.run(["bible", "-f", "-l", "20000", "Gen1:1-Gen50:26"], capture_output=True, text=True)
    path.write_text(verses.stdout if verses.returncode == 0 else "In the beginning was the word. " * 5000)
    return path


def gpt(text, steps, *more):
    return [str(GPT), "--data", str(text), *SMALL, "--steps", str(steps), *more]


def gated(text, gate, step, steps, starter=()):
    """For submit: after that step the training waits for the file `gate`. `steps` are 100 more at least."""
    assert steps >= step + 100
    return ["--env", f"GATE_FILE={gate}", "--env", f"GATE_STEP={step}", "--", *starter, str(GATED), *gpt(text, steps)[1:]]


def losses(cluster, job, every_step=False):
    """The curve of an ended job. Its last samples may come after its end, those of a node after those of another."""
    last = int(cluster.job(job)["step"])

    def whole():
        series = cluster.rest("GET", f"/v1/jobs/{job}/metrics?name=loss&max_points=10000")[1]["series"]
        curve = {int(p["step"]): float(p["value"]) for p in series[0]["points"]} if series else {}
        return curve if curve and max(curve) >= last and (len(curve) >= last or not every_step) else None
    return wait_for(f"the loss of {'all steps' if every_step else 'step'} {last}", 5, whole)


def step_of(cluster, job):
    return int(cluster.job(job).get("step") or 0)


def reach(cluster, job, step, seconds=40):
    def there():
        now = cluster.job(job)
        if now["state"] in ("failed", "cancelled"):
            raise RuntimeError(f"{now['state']}: {now.get('reason')}\n" + cluster.output(job)[-3000:])
        return now if int(now.get("step") or 0) >= step else None
    return wait_for(f"{job} to reach step {step}", seconds, there)


def test_one_and_two_nodes_give_the_same_losses(make_cluster, text):
    cluster = make_cluster(nodes=2, slots=1)
    curves = []
    for nodes in ("1", "2"):
        job = cluster.submit("-N", nodes, "--", *gpt(text, 50))
        cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
        curves.append(losses(cluster, job))
    assert set(curves[0]) == set(curves[1]) and len(curves[0]) >= 50
    worst = max(abs(curves[0][s] - curves[1][s]) for s in curves[0])
    assert worst < 1e-4, worst
    assert curves[0][max(curves[0])] < curves[0][min(curves[0])]


def end(cluster, job):
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=30)


def test_a_lost_node_costs_no_step_and_comes_back(make_cluster, text, tmp_path):
    cluster = make_cluster(nodes=2, slots=1)
    steps, gate = 300, tmp_path / "gate"
    reference = cluster.submit("-N", "2", "--", *gpt(text, steps))
    cluster.wait_state(reference, "succeeded", seconds=HANG_SECONDS)
    expected = losses(cluster, reference)
    job = cluster.submit("-N", "1-2", "--checkpoint", tmp_path / "k", "--checkpoint-every", "100 steps", *gated(text, gate, 150, steps))
    now = reach(cluster, job, 150)
    assert int(now["world"]) == 2
    victim = next(w["node"] for w in now["workers"] if int(w.get("rank") or 0) == 1)
    survivor_pid = next(int(w["pid"]) for w in now["workers"] if int(w.get("rank") or 0) == 0)
    cluster.kill_node(victim)
    alone = wait_for("the survivor to go on", 15, lambda: (lambda j: j if int(j["world"]) == 1 and j["state"] == "running" and int(j["recoveries"]) == 1 else None)(cluster.job(job)))
    assert int(alone["workers"][0]["pid"]) == survivor_pid
    reach(cluster, job, int(alone["step"]) + 2)
    cluster.start_agent(victim)
    grown = wait_for("two nodes again", 20, lambda: (lambda j: j if int(j["world"]) == 2 and j["state"] == "running" else None)(cluster.job(job)))
    assert survivor_pid in [int(w["pid"]) for w in grown["workers"]]
    reach(cluster, job, int(grown["step"]) + 1)
    gate.touch()
    ended = cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
    assert int(ended["step"]) == steps and int(ended["restarts"]) == 0
    curve = losses(cluster, job)
    common = sorted(set(curve) & set(expected))
    assert len(common) > steps * 0.9
    worst = max(abs(curve[s] - expected[s]) for s in common)
    assert worst < 5e-3, f"the curve left that of an undisturbed run by {worst}"


def test_a_rank_that_hangs_is_named_while_the_others_wait(make_cluster, text):
    cluster = make_cluster(nodes=3, slots=1)
    job = cluster.submit("-N", "3", "--", *gpt(text, 1000000, *SLOWER))
    before = reach(cluster, job, 20)
    assert before["reason"]["kind"] == "all_joined"
    victim = next(w for w in before["workers"] if int(w.get("rank") or 0) == 2)
    os.kill(int(victim["pid"]), signal.SIGSTOP)

    def stalled():
        now = cluster.job(job)
        waiting = [w for w in now["workers"] if w.get("wait")]
        return now if now["reason"]["kind"] == "stalled" and len(waiting) == 2 else None
    now = wait_for("the hang to be seen", 15, stalled)
    shown = rf"rank 2 \(node {victim['node']}\) has not entered \w+ #\d+ \([^)]+\) of 'world' for \d+ s; ranks 0 and 1 wait; last step {now['step']}"
    assert re.fullmatch(shown, now["reason"]["text"]), now["reason"]
    assert int(now["reason"]["rank"]) == 2 and victim["pid"] in now["reason"]["hint"]
    for verb in ("why", "show"):
        text_of = cluster.muster(verb, job).stdout
        assert re.search(r"rank 2 \(node \S+\) has not entered", text_of) and f"--rank 2" in text_of, text_of
    assert cluster.rest("GET", f"/v1/jobs/{job}/why")[1]["reasons"][0]["kind"] == "stalled"
    assert "\nmuster_jobs_stalled 1\n" in cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    os.kill(int(victim["pid"]), signal.SIGCONT)
    reach(cluster, job, int(now["step"]) + 20)
    wait_for("nothing to be said of it", 10, lambda: cluster.job(job)["reason"]["kind"] == "all_joined")
    assert int(cluster.job(job)["generation"]) == int(before["generation"])
    cluster.muster("cancel", job)
    cluster.wait_state(job, "cancelled", seconds=30)


def test_the_coordinator_can_be_killed_during_training(make_cluster, text):
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "2", "--", *gpt(text, 1000000, *SLOWER))
    before = reach(cluster, job, 50)
    pids = sorted(int(w["pid"]) for w in before["workers"])
    cluster.kill_coordinator()
    time.sleep(1)
    assert all(pid in processes() for pid in pids)
    cluster.start_coordinator()
    after = reach(cluster, job, int(before["step"]) + 200)
    assert sorted(int(w["pid"]) for w in after["workers"]) == pids
    assert int(after["generation"]) == int(before["generation"])
    assert int(after["restarts"]) == 0 and int(after["recoveries"]) == 0
    end(cluster, job)


def test_a_killed_gang_resumes_from_its_checkpoint_as_if_nothing_had_happened(make_cluster, text, tmp_path):
    cluster = make_cluster(nodes=1, slots=2)
    steps, gate = 400, tmp_path / "gate"
    whole = cluster.submit("--", *gpt(text, steps))
    cluster.wait_state(whole, "succeeded", seconds=HANG_SECONDS)
    expected = losses(cluster, whole)
    job = cluster.submit("--checkpoint", tmp_path / "k", "--checkpoint-every", "100 steps", *gated(text, gate, 250, steps))
    reach(cluster, job, 250)
    pid = int(cluster.job(job)["workers"][0]["pid"])
    os.kill(pid, signal.SIGKILL)
    wait_for("a restart", 20, lambda: int(cluster.job(job)["restarts"]) == 1)
    gate.touch()
    ended = cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
    assert int(ended["restarts"]) == 1
    curve = losses(cluster, job)
    assert max(curve) == max(expected)
    assert all(curve[s] == expected[s] for s in set(curve) & set(expected)), "the same world gives the same bits"
    kept = json.loads(cluster.muster("ckpt", "-o", "json", job, check=True).stdout)["checkpoints"]
    assert 1 <= len(kept) <= 3 and all(Path(c["path"], "manifest.json").exists() for c in kept)


def test_an_end_that_could_not_be_committed_is_not_called_success(make_cluster, text, tmp_path):
    cluster, gate = make_cluster(nodes=2, slots=1), tmp_path / "gate"
    job = cluster.submit("-N", "2", "--checkpoint", tmp_path / "k", "--checkpoint-every", "1000000 steps", "--env", "MUSTER_CHECKPOINT_PATIENCE=1s",
                         *gated(text, gate, 20, 120))
    before = reach(cluster, job, 20)
    pid = next(int(w["pid"]) for w in before["workers"] if int(w.get("rank") or 0) == 0)
    cluster.kill_coordinator()
    gate.touch()
    wait_for("rank 0 to end without a coordinator", 60, lambda: pid not in processes())
    cluster.start_coordinator()
    ended = cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
    assert int(ended["restarts"]) == 1
    assert int(ended["last_checkpoint"]["step"]) == 120
    assert "the last state is not saved" in cluster.output(job)


def test_a_full_disk_under_the_checkpoints_ends_training_no_sooner(make_cluster, text, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        cluster = make_cluster(nodes=1, slots=1)
        job = cluster.submit("--checkpoint", small / "k", "--checkpoint-every", "50 steps", "--restarts", "0",
                             "--env", "MUSTER_CHECKPOINT_PATIENCE=1s", "--", *gpt(text, 200, "--width", "64"))
        ended = cluster.wait_state(job, "failed", seconds=HANG_SECONDS)
        assert int(ended["step"]) == 200
        assert "checkpoint" in cluster.output(job)
    finally:
        cluster.stop()
        subprocess.run(["umount", str(small)], check=False)


def test_gpt_runs_alone(text, tmp_path):
    done = subprocess.run(gpt(text, 30), capture_output=True, text=True, errors="replace", timeout=HANG_SECONDS, cwd=tmp_path,
                          env={k: v for k, v in os.environ.items() if not k.startswith("MUSTER")})
    assert done.returncode == 0, done.stderr
    assert re.search(r"loss", done.stdout)


def test_an_unmodified_torch_script_runs_on_two_nodes(make_cluster):
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode:
        pytest.skip("Debian's python3-torch is not installed")
    cluster = make_cluster(nodes=2, slots=1)
    done = cluster.muster("run", "-N", "2", "--", "/usr/bin/python3", ROOT / "examples/torch/train.py", timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0 of 2, local rank 0, node 0" in done.stdout and "rank 1 of 2, local rank 0, node 1" in done.stdout
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", done.stdout).groups())
    assert last < first
