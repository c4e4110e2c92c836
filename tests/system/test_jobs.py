"""Jobs from submit to end through the CLI and REST, with processes that are not libworker's."""
import json
import os
import signal
import subprocess
import time

from localcluster import HANG_SECONDS, MUSTER, processes, wait_for


def test_run_shows_output_and_exits_with_the_jobs_code(cluster):
    done = cluster.muster("run", "--", "/bin/sh", "-c", "echo hello from $RANK of $WORLD_SIZE")
    assert done.returncode == 0, done.stderr
    assert "hello from 0 of 1" in done.stdout
    failed = cluster.muster("run", "--restarts", "0", "--", "/bin/sh", "-c", "echo out; echo to stderr >&2; exit 7")
    assert failed.returncode == 1
    assert "7" in failed.stderr


def test_every_worker_finds_its_place(make_cluster):
    cluster = make_cluster(nodes=2, slots=2)
    script = "echo rank=$RANK world=$WORLD_SIZE local=$LOCAL_RANK/$LOCAL_WORLD_SIZE node=$GROUP_RANK/$GROUP_WORLD_SIZE noderank=$NODE_RANK port=$MASTER_PORT addr=$MASTER_ADDR job=$MUSTER_JOB"
    job = cluster.submit("-N", "2", "-w", "2", "--", "/bin/sh", "-c", script)
    cluster.wait_state(job, "succeeded")
    lines = wait_for("all output", 5, lambda: (lambda t: t if len(t) == 4 else None)(
        json.loads(cluster.muster("logs", "-o", "json", job, check=True).stdout)["lines"]))
    seen = sorted(dict(word.split("=") for word in line["text"].split())["rank"] for line in lines)
    assert seen == ["0", "1", "2", "3"]
    for line in lines:
        words = dict(word.split("=") for word in line["text"].split())
        rank = int(words["rank"])
        assert words["world"] == "4" and words["job"] == job
        assert words["local"] == f"{rank % 2}/2" and words["node"] == f"{rank // 2}/2" and words["noderank"] == f"{rank // 2}"
        assert 1024 < int(words["port"]) < 65536 and words["addr"] == "127.0.0.1"
    assert len({dict(w.split("=") for w in line["text"].split())["port"] for line in lines}) == 1


def test_a_gang_waits_whole_and_says_why(make_cluster):
    cluster = make_cluster(nodes=2, slots=1)
    first = cluster.submit("--name", "holder", "--", "sleep", "3600")
    cluster.wait_state(first, "running")
    gang = cluster.submit("--name", "gang", "-N", "2", "--", "/bin/true")
    why = cluster.muster("why", gang, check=True).stdout
    assert cluster.job(gang)["state"] == "queued"
    assert "slot" in why or "node" in why, why
    cluster.muster("cancel", first, check=True)
    cluster.wait_state(gang, "succeeded")


def test_cancel_ends_a_worker_that_ignores_sigterm(cluster):
    job = cluster.submit("--", "/bin/sh", "-c", "trap '' TERM; echo started; while :; do sleep 0.1; done")
    cluster.wait_state(job, "running")
    wait_for("the worker is up", 5, lambda: "started" in cluster.muster("logs", job).stdout)
    pid = int(cluster.job(job)["workers"][0]["pid"])
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=25)
    assert pid not in processes()


def test_children_left_behind_by_a_worker_are_ended(cluster):
    job = cluster.submit("--", "/bin/sh", "-c", "setsid sleep 987 & sleep 986 & echo started; exit 0")
    cluster.wait_state(job, "succeeded")
    wait_for("children ended", 5, lambda: not [line for _, line in processes().values() if line.startswith(("sleep 987", "sleep 986"))])


def test_a_killed_worker_is_told_as_killed_and_restarted(cluster):
    job = cluster.submit("--restarts", "2", "--", "/bin/sh", "-c", "echo try $TORCHELASTIC_RESTART_COUNT; sleep 3600")
    cluster.wait_state(job, "running")
    pid = int(wait_for("its process id", 5, lambda: int(cluster.job(job)["workers"][0].get("pid") or 0)))
    os.kill(pid, signal.SIGKILL)
    again = wait_for("another process", 15, lambda: (lambda j: j if j["workers"] and j["state"] == "running" and int(j["workers"][-1].get("pid") or 0) not in (0, pid) else None)(cluster.job(job)))
    assert int(again["restarts"]) == 1
    assert "SIGKILL" in cluster.muster("events", job, check=True).stdout
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=25)


def test_a_crash_loop_stops_with_its_cause(cluster):
    job = cluster.submit("--restarts", "20", "--on-no-progress", "stop", "--", "/bin/sh", "-c", "echo no such thing >&2; exit 3")
    ended = cluster.wait_state(job, "failed", seconds=40)
    assert int(ended["restarts"]) == 2
    why = cluster.muster("why", job, check=True).stdout
    assert "3" in why and ("crash" in why or "progress" in why), why


def test_restarts_are_as_many_as_asked_for(cluster):
    job = cluster.muster("submit", "-f", "-", "--", "/bin/sh", "-c", "echo try $TORCHELASTIC_RESTART_COUNT; exit 3", check=True,
                         input="restart: {max: 4, backoff: 10ms..20ms}").stdout.strip()
    assert int(cluster.wait_state(job, "failed", seconds=60)["restarts"]) == 4
    assert "try 4" in cluster.muster("logs", job).stdout


def test_a_program_that_fails_is_run_once_unless_the_job_asks(cluster, tmp_path):
    runs = tmp_path / "runs"
    script = ("/bin/sh", "-c", f"echo run >> {runs}; exit 3")
    once = cluster.submit("--", *script)
    ended = cluster.wait_state(once, "failed")
    assert runs.read_text() == "run\n" and int(ended["exit_code"]) == 3 and int(ended["restarts"]) == 0
    assert ended["spec"]["restart"]["on_failure"] == "stop" and "--on-failure retry" in cluster.muster("why", once, check=True).stdout
    runs.unlink()
    cluster.wait_state(cluster.submit("--on-failure", "retry", "--", *script), "failed", seconds=40)
    assert runs.read_text() == "run\n" * 3, "three equal failures soon after the start"


def test_the_agent_can_be_killed_and_finds_its_workers_again(cluster):
    go = cluster.folder / "go"
    job = cluster.submit("--", "/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 0.1; done; echo survived")
    cluster.wait_state(job, "running")
    pid = int(wait_for("its process id", 5, lambda: int(cluster.job(job)["workers"][0].get("pid") or 0)))
    with cluster.agent_away("node1"):
        assert pid in processes()
    go.touch()
    ended = cluster.wait_state(job, "succeeded")
    assert int(ended["restarts"]) == 0
    assert int(ended["workers"][0]["pid"]) == pid
    wait_for("its output", 5, lambda: "survived" in cluster.muster("logs", job).stdout)


def test_the_output_of_a_job_that_has_just_ended_is_whole(cluster, tmp_path):
    """The coordinator hears of the last lines and of the end at once, and acknowledges the first of them late: the others come after."""
    go, over = tmp_path / "go", tmp_path / "over"
    job = cluster.submit("--", "/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 0.01; done; echo one; sleep 0.3; echo last; touch {over}")
    cluster.wait_state(job, "running")
    cluster.coordinator.send_signal(signal.SIGSTOP)
    try:
        go.touch()
        wait_for("the program's end", 10, lambda: over.exists() and not cluster.worker_processes("node1"))
        time.sleep(1)  # the agent reports it meanwhile; were it later, the test would see less and not fail
    finally:
        cluster.coordinator.send_signal(signal.SIGCONT)
    wait_for("its end", 10, lambda: cluster.job(job)["state"] == "succeeded", every=0)
    assert cluster.output(job) == "one\nlast\n"


def test_idempotent_submit(cluster):
    one = cluster.submit("--key", "k1", "--", "/bin/true")
    two = cluster.submit("--key", "k1", "--", "/bin/true")
    assert one == two
    assert cluster.submit("--key", "k2", "--", "/bin/true") != one


def test_listings_in_every_format(cluster):
    job = cluster.submit("--name", "listed", "--", "/bin/true")
    cluster.wait_state(job, "succeeded")
    assert job in cluster.muster("ps", "-a", check=True).stdout
    assert json.loads(cluster.muster("ps", "-a", "-o", "json", check=True).stdout)["jobs"][0]["id"] == job
    import yaml
    assert yaml.safe_load(cluster.muster("show", "-o", "yaml", "listed", check=True).stdout)["id"] == job
    assert "ready" in cluster.muster("nodes", check=True).stdout
    assert "succeeded" in cluster.muster("events", job, check=True).stdout
    assert "no committed checkpoint" in cluster.muster("ckpt", job, check=True).stdout
    assert "coordinator" in cluster.muster("version", check=True).stdout


def test_drained_and_cordoned_nodes_get_nothing_new(cluster):
    cluster.muster("cordon", "node1", check=True)
    job = cluster.submit("--", "/bin/true")
    time.sleep(0.5)
    assert cluster.job(job)["state"] == "queued"
    assert "cordon" in cluster.muster("why", job, check=True).stdout
    cluster.muster("uncordon", "node1", check=True)
    cluster.wait_state(job, "succeeded")
    job = cluster.submit("--", "/bin/sleep", "1000")
    cluster.wait_state(job, "running")
    cluster.muster("drain", "node1", check=True)
    wait_for("it leaves the node", 15, lambda: cluster.job(job)["state"] not in ("running", "reforming") and not cluster.worker_processes("node1"))
    assert "emptied" in cluster.muster("events", job, check=True).stdout
    cluster.muster("uncordon", "node1", check=True)
    cluster.wait_state(job, "running")
    assert int(cluster.job(job).get("restarts") or 0) == 0, "nobody failed"
    cluster.muster("cancel", job, check=True)


def complete(cluster, line):
    """What bash offers for a command line that ends here."""
    script = cluster.muster("completion", "bash").stdout + f'\nCOMP_WORDS=({line})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_muster\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    environment = {**cluster.environment(), "PATH": f"{MUSTER.parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=cluster.folder, timeout=HANG_SECONDS).stdout.split()


def test_names_of_jobs_and_nodes_are_completed(cluster):
    job = cluster.submit("--name", "finds-me", "--", "/bin/true")
    assert complete(cluster, "muster show finds") == ["finds-me"]
    assert job in complete(cluster, "muster logs -f ''")
    assert complete(cluster, "muster drain nod") == ["node1"]
    assert complete(cluster, "muster show -o js") == ["json"]
    cluster.kill_coordinator()
    assert complete(cluster, "muster show finds") == []
    cluster.start_coordinator()
