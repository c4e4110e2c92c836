"""Programs without libworker that report (docs/report.md): a plain socket and lines of JSON."""
import json
import os
import signal
import subprocess
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for
from reporting import lines, program  # noqa: F401: a fixture
from test_stacks import look


def test_steps_losses_and_checkpoints_are_known(make_cluster, program, tmp_path):
    cluster = make_cluster(nodes=2, slots=1)
    folder = tmp_path / "ckpt"
    job = cluster.submit("-N", "2", "--checkpoint", folder, "--", *program('''
        place = report.ask("hello", protocol=1, client="test 1", total_steps=40)
        print(json.dumps(place), flush=True)
        for step in range(1, 41):
            time.sleep(0.05)
            report.note("step", step=step, loss=3.0 - step / 100, metrics={"grad/norm": 0.5})
            if step == 20 and place["rank"] == 0:
                path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/step-20"
                os.makedirs(path)
                began = time.monotonic()
                assert "error" not in report.ask("checkpoint", state="begin", path=path), report.events
            if step == 20:
                time.sleep(1.5)
            if step == 20 and place["rank"] == 0:
                assert report.ask("checkpoint", state="whole", path=path, bytes=77) == {"id": 3, "prune": []}
                print(json.dumps({"saved_s": time.monotonic() - began}), flush=True)
                assert report.ask("latest") == {"id": 4, "path": path, "step": 20}
        report.ask("done")
        assert not report.events, report.events
        while not os.path.exists("SEEN"):
            time.sleep(0.05)
    '''.replace("SEEN", str(tmp_path / "seen"))))
    cluster.wait_state(job, "running")
    running = wait_for("a step", 10, lambda: (lambda j: j if int(j.get("step") or 0) > 0 else None)(cluster.job(job)))
    assert {worker["state"] for worker in running["workers"]} == {"running"}
    assert int(running["total_steps"]) == 40
    wait_for("every rank's last step", 20, lambda: [int(worker["step"] or 0) for worker in cluster.job(job)["workers"]] == [40, 40])
    wait_for("the last loss", 5, lambda: abs(cluster.job(job)["loss"] - 2.6) < 0.001)
    (tmp_path / "seen").touch()
    ended = cluster.wait_state(job, "succeeded")
    assert ended["last_checkpoint"]["path"] == f"{folder}/step-20" and int(ended["last_checkpoint"]["size_bytes"]) == 77
    assert "step-20" in cluster.muster("ckpt", job, check=True).stdout
    status, series = cluster.rest("GET", f"/v1/jobs/{job}/metrics?name=loss")
    assert status == 200
    assert [int(point["step"]) for point in series["series"][0]["points"]] == list(range(1, 41))  # of rank 0 alone
    told = lines(cluster, job)
    saved_s = next(line["saved_s"] for line in told if "saved_s" in line)
    assert 0 < ended["ledger"]["checkpoint"] < saved_s + 0.01, (ended["ledger"], saved_s)
    places = {line["rank"]: line for line in told if "rank" in line}
    assert sorted(places) == [0, 1]
    for place in places.values():
        assert place["job"] == job and place["world"] == 2 and place["generation"] == 1 and place["protocol"] == 1
        assert place["stop"] is False and place["latest"] is None and 1024 < place["master_port"] < 65536


def test_a_checkpoint_of_the_first_second_is_taken(make_cluster, program, tmp_path):
    """Rank 1 reports nothing, so it is known only later that the whole gang runs."""
    cluster = make_cluster(nodes=2, slots=1)
    folder = tmp_path / "ckpt"
    job = cluster.submit("-N", "2", "--checkpoint", folder, "--", *program('''
        if os.environ["RANK"] == "0":
            path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/first"
            os.makedirs(path)
            report.note("step", step=1)
            print(json.dumps(report.ask("checkpoint", path=path)), flush=True)
            assert report.ask("latest")["path"] == path
        time.sleep(3)
    '''))
    ended = cluster.wait_state(job, "succeeded")
    assert lines(cluster, job) == [{"id": 1, "prune": []}]
    assert ended["last_checkpoint"]["path"] == f"{folder}/first" and int(ended["last_checkpoint"]["step"]) == 1


def test_a_program_is_asked_to_stop_and_saves_within_its_grace(cluster, program, tmp_path):
    folder = tmp_path / "ckpt"
    job = cluster.submit("--checkpoint", folder, "--", *program('''
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        report.note("step", step=7)
        assert report.ask("should_stop") == {"id": 1, "stop": False}
        print(json.dumps(report.event("stop")), flush=True)
        assert report.ask("should_stop")["stop"]
        path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/last"
        os.makedirs(path)
        print(json.dumps(report.ask("checkpoint", path=path)), flush=True)
    '''))
    wait_for("a step", 10, lambda: int(cluster.job(job).get("step") or 0) == 7)
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled", seconds=20)
    assert ended["last_checkpoint"]["path"] == f"{folder}/last" and int(ended["last_checkpoint"]["step"]) == 7
    stop, saved = lines(cluster, job)
    assert stop["event"] == "stop" and 0 < stop["grace_s"] <= 10 and stop["reason"].startswith("asked to end")
    assert saved == {"id": 3, "prune": []}


def test_a_drained_program_goes_on_from_what_it_saved(make_cluster, program, tmp_path):
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("--checkpoint", tmp_path / "ckpt", "--", *program('''
        step = int(open(report.ask("latest")["path"] + "/step").read()) if report.ask("hello")["latest"] else 0
        print(json.dumps({"begins": step, "resume": os.environ.get("MUSTER_RESUME_FROM")}), flush=True)
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end = step + 30 if step else 10**9 # the first one goes on until it is asked, however late that is
        while not report.ask("should_stop")["stop"] and step < end:
            step += 1
            time.sleep(0.1)
            report.note("step", step=step)
        path = os.environ["MUSTER_CHECKPOINT_DIR"] + f"/{step}"
        os.makedirs(path)
        open(path + "/step", "w").write(str(step))
        assert "error" not in report.ask("checkpoint", path=path)
    '''))
    wait_for("steps", 10, lambda: int(cluster.job(job).get("step") or 0) > 5)
    cluster.muster("drain", cluster.job(job)["workers"][0]["node"], check=True)
    ended = cluster.wait_state(job, "succeeded", seconds=40)
    first, second = lines(cluster, job)
    assert first == {"begins": 0, "resume": None}
    assert second["begins"] > 5 and second["resume"].endswith(f"/{second['begins']}")
    assert int(ended["step"]) == second["begins"] + 30 and int(ended["restarts"]) <= 1


ASKED = '''
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
place = report.ask("hello", elastic=ELASTIC)
if ELASTIC:
    report.ask("join", generation=place["generation"], step=0)
report.note("step", step=1)
print(json.dumps({"reason": report.event("stop")["reason"], "asked": report.ask("should_stop")["reason"]}), flush=True)
'''


@pytest.mark.parametrize("how", ["cancelled", "drained", "scaled down", "out of time", "preempted"])
def test_a_program_is_told_why_it_is_to_stop(make_cluster, program, how):
    cluster = make_cluster(nodes=2)
    elastic = how == "scaled down"
    flags = {"out of time": ["--max-runtime", "2s"], "preempted": ["--priority", "low"]}.get(how, [])

    def both_made_a_step():
        now = cluster.job(job)
        stepped = int(now["world"]) == 2 and all(int(worker["step"] or 0) for worker in now["workers"])
        return "yes" if stepped else "no" if now["state"] in ("succeeded", "failed", "cancelled") else None
    for seconds in (2, 8, 32, 128):  # a machine that is too busy to start the programs in time gives them longer
        flags = ["--max-runtime", f"{seconds}s"] if how == "out of time" else flags
        job = cluster.submit("-N", "1..2" if elastic else "2", *flags, "--", *program(ASKED.replace("ELASTIC", str(elastic))))
        if wait_for("steps", 20, both_made_a_step) == "yes":
            break
    if how == "cancelled":
        cluster.muster("cancel", "--reason", "wrong data", job, check=True)
    elif how == "drained":
        cluster.muster("drain", "node1", "--reason", "new disk", check=True)
    elif elastic:
        cluster.muster("scale", job, "1", check=True)
    elif how == "preempted":
        cluster.submit("-N", "2", "--name", "urgent", "--priority", "high", "--", "true")
    said = wait_for("the reason", 20, lambda: lines(cluster, job))[0]
    assert said["reason"] == said["asked"]
    assert {"cancelled": "asked to end", "drained": "node node1 is being emptied: new disk", "scaled down": "the job was scaled down, and node node",
            "out of time": "ran longer than its max_runtime", "preempted": "preempted by job j2 (urgent), which has a higher priority"}[how] in said["reason"], said
    assert ("wrong data" in said["reason"]) == (how == "cancelled")


def test_a_rank_knows_of_the_checkpoint_that_another_has_saved(make_cluster, program, tmp_path):
    cluster = make_cluster(nodes=2)
    folder = tmp_path / "ckpt"
    job = cluster.submit("-N", "2", "--checkpoint", folder, "--", *program('''
        rank, seen = report.ask("hello")["rank"], []
        if rank == 0:
            for step in (10, 20):
                path = os.environ["MUSTER_CHECKPOINT_DIR"] + f"/{step}"
                os.makedirs(path)
                while "error" in report.ask("checkpoint", path=path, step=step):
                    time.sleep(0.1)             # the other rank has not begun yet
                while not report.ask("get", key=f"seen/{step}", wait_s=20)["found"]:
                    pass
        for step in (10, 20) if rank == 1 else (20,):
            latest = report.ask("latest")
            while latest["step"] != step:
                time.sleep(0.02)
                latest = report.ask("latest")
            seen.append([latest["step"], os.path.basename(latest["path"] or "")])
            report.ask("put", key=f"seen/{step}", value="yes")
            if step == 20 and rank == 1:        # its own comes after that of the other, and that of the other after its own
                path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/30"
                os.makedirs(path)
                report.ask("checkpoint", path=path, step=30)
                seen.append(report.ask("latest")["step"])
        print(json.dumps({"rank": rank, "seen": seen}), flush=True)
    '''))
    cluster.wait_state(job, "succeeded", seconds=40)
    told = {line["rank"]: line["seen"] for line in lines(cluster, job)}
    assert told == {0: [[20, "20"]], 1: [[10, "10"], [20, "20"], 30]}


@pytest.mark.parametrize("named", ["old", "latest"])
def test_before_its_first_checkpoint_the_latest_is_what_the_job_resumes_from(cluster, program, tmp_path, named):
    old = tmp_path / "ckpt/old"
    old.mkdir(parents=True)
    start = str(old) if named == "old" else "latest"
    job = cluster.submit("--checkpoint", old.parent, "--resume-from", start, "--", *program('''
        import subprocess
        shell = subprocess.run(["MUSTER", "report", "latest"], stdout=subprocess.PIPE, text=True)
        print(json.dumps([os.environ["MUSTER_RESUME_FROM"], report.ask("hello")["latest"], shell.stdout.strip()]), flush=True)
        for step in (1, 2):
            answer = report.ask("latest")
            print(json.dumps([answer["path"], answer["step"]]), flush=True)
            path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/new"
            os.makedirs(path, exist_ok=True)
            while step == 1 and "error" in report.ask("checkpoint", path=path, step=7):
                time.sleep(0.1)
    '''.replace("MUSTER", str(cluster.muster_path), 1)))
    cluster.wait_state(job, "succeeded")
    known = str(old) if named == "old" else None
    assert lines(cluster, job) == [[start, known, known or ""], [known, None], [str(old.parent / "new"), 7]]


def test_what_a_program_does_before_its_first_step_is_its_start(cluster, program):
    job = cluster.submit("--", *program('''
        report.ask("hello")
        time.sleep(4)
        for step in range(1, 41):
            report.ask("step", step=step)
            time.sleep(0.1)
    '''))
    ended = cluster.wait_state(job, "succeeded", seconds=60)
    ledger, lasted = ended["ledger"], (int(ended["ended_wall_ms"]) - int(ended["submitted_wall_ms"])) / 1000
    assert ledger["start"] > 3.9 and 3 < ledger["productive"] < lasted - 3.9, ledger  # steps are passed on every 0.5 s


def test_progress_keeps_a_killed_program_from_being_a_crash_loop(cluster, program):
    """Each process makes a few steps and is killed: five times, where three without a step would end the job."""
    job = cluster.submit("--restarts", "2", "--", *program('''
        import signal
        done = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) * 10
        for step in range(done + 1, done + 11):
            report.ask("step", step=step)
        report.ask("done")
        time.sleep(2)
        if done < 50:
            os.kill(os.getpid(), signal.SIGKILL)
    '''))
    ended = cluster.wait_state(job, "succeeded", seconds=90)
    assert int(ended["restarts"]) == 5 and int(ended["step"]) == 60


def test_the_board_is_shared_by_the_ranks(make_cluster, program):
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "2", "--", *program('''
        rank = report.ask("hello")["rank"]
        if rank == 0:
            time.sleep(1)
            report.note("put", key="id", value="an id \\u2713\\n")
        found = report.ask("get", key="id", wait_s=60)
        assert found["found"] and found["value"] == "an id \\u2713\\n", found
        assert report.ask("get", key="other") == {"id": 3, "found": False, "value": None}
        began = time.monotonic()
        assert report.ask("get", key="other", wait_s=0.5) == {"id": 4, "found": False, "value": None}
        assert 0.3 < time.monotonic() - began < 60
        print(json.dumps(rank), flush=True)
    '''))
    cluster.wait_state(job, "succeeded")
    assert sorted(lines(cluster, job)) == [0, 1]


def test_mistakes_are_answered_with_what_is_wrong(cluster, program, tmp_path):
    job = cluster.submit("--checkpoint", tmp_path / "own", "--", *program('''
        def wrong(code, words, **members):
            error = report.ask(**members)["error"]
            assert error["code"] == code and words in error["message"], error
        wrong("INVALID_ARGUMENT", "there is no", do="stop_it")
        wrong("INVALID_ARGUMENT", "step", do="step")
        wrong("INVALID_ARGUMENT", "0 to", do="step", step=-1)
        wrong("INVALID_ARGUMENT", "0 to 9007199254740991", do="step", step=2**53)
        wrong("INVALID_ARGUMENT", "number", do="step", step=1, loss="low")
        wrong("INVALID_ARGUMENT", "name of a metric", do="metric", metrics={"a b": 1})
        wrong("INVALID_ARGUMENT", "needs key", do="get")
        wrong("INVALID_ARGUMENT", "protocol 2", do="hello", protocol=2)
        wrong("ABORTED", "generation 9: this worker is in 1", do="step", step=1, generation=9)
        wrong("FAILED_PRECONDITION", "elastic", do="join", generation=1)
        wrong("PERMISSION_DENIED", "checkpoint.dir", do="checkpoint", path="/elsewhere/1")
        report.socket.sendall(b"no json\\n[1]\\n{}\\n" + b"x" * 100000 + b"\\n")
        assert report.ask("step", step=1, loss="nan", unknown={"a": [1]}) == {"id": 12}
        errors = [e for e in report.events if "error" in e]
        assert len(errors) == 1 and errors[0]["error"]["code"] == "INVALID_ARGUMENT", report.events
        print(json.dumps(report.event("dropped")), flush=True)
    '''))
    cluster.wait_state(job, "succeeded")
    assert lines(cluster, job)[0]["count"] >= 1


SHELL = """
set -e
muster report step 0 --of 30
latest=$(muster report latest) || latest=none
echo "from $latest"
for step in $(seq 1 30); do
    sleep 0.05
    muster report step $step --loss 2.$step --metric lr=0.01
    if [ $step = 10 ]; then
        mkdir -p "$MUSTER_CHECKPOINT_DIR/step-10"
        printf 12345 > "$MUSTER_CHECKPOINT_DIR/step-10/weights"
        muster report checkpoint "$MUSTER_CHECKPOINT_DIR/step-10" --step 10
        test "$(muster report latest)" = "$MUSTER_CHECKPOINT_DIR/step-10"
    fi
    if muster report should-stop; then exit 9; fi
done
muster report put greeting "hello there" && test "$(muster report get greeting)" = "hello there"
muster report get other --wait 200ms && exit 8
muster report step x && exit 7
muster report metric --metric bad 2> /dev/null && exit 6
muster report checkpoint /nowhere 2> /dev/null && exit 5
muster report done
"""


def test_a_shell_script_reports(cluster, tmp_path):
    (tmp_path / "muster").symlink_to(MUSTER)
    job = cluster.submit("--checkpoint", tmp_path / "ckpt", "-e", f"PATH={tmp_path}:{os.environ['PATH']}", "--", "/bin/bash", "-c", SHELL)
    ended = cluster.wait_state(job, "succeeded", seconds=40)
    assert int(ended["step"]) == 30 and int(ended["total_steps"]) == 30 and abs(ended["loss"] - 2.30) < 1e-9
    assert ended["last_checkpoint"]["path"] == f"{tmp_path}/ckpt/step-10" and int(ended["last_checkpoint"]["size_bytes"]) == 5
    assert "from none" in cluster.output(job)


def test_outside_of_a_job_nothing_is_reported(tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "MUSTER_REPORT_SOCKET"}

    def report(*words, **more):
        return subprocess.run([MUSTER, "report", *words], capture_output=True, text=True, timeout=HANG_SECONDS, env={**env, **more})
    done = report("step", "3", "--loss", "1")
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "no job of Muster" in done.stderr, done
    assert report("should-stop").returncode == report("latest").returncode == 1
    assert report("step", "3", "--strict").returncode == 3
    gone = report("done", MUSTER_REPORT_SOCKET=str(tmp_path / "gone.sock"))
    assert gone.returncode == 0 and "no agent answers" in gone.stderr
    assert report("step").returncode == 2 and report("step", "--", "-1").returncode == 2


def memory_kib(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))


def test_ill_behaved_programs_are_never_kept_waiting(cluster, program, tmp_path):
    """A flood, a line of 100 MB, a reader that does not read, connections by the thousand: the program goes on,
    the agent stays as small as it was, and what was dropped is counted."""
    agent = cluster.agents["node1"].pid
    quiet = cluster.submit("--", *program('''
        for step in range(1, 100000):
            began = time.monotonic()
            assert report.ask("step", step=step) == {"id": step}
            print(json.dumps([began, time.monotonic()]), flush=True)
            time.sleep(0.1)
    '''))
    wait_for("a neighbour", 20, lambda: int(cluster.job(quiet).get("step") or 0) > 0)
    before = memory_kib(agent)
    job = cluster.submit("--", *program('''
        def connect():
            made = socket.socket(socket.AF_UNIX)
            made.connect(os.environ["MUSTER_REPORT_SOCKET"])
            return made
        # A million reports as fast as it goes, on a socket that would block.
        lines = [b'{"do": "step", "step": %d, "loss": 1.5}\\n' % step for step in range(1, 1000001)]
        made = time.monotonic()
        for line in lines:
            report.socket.sendall(line)
        flooded = time.monotonic()
        # Without blocking: what does not fit is dropped here.
        other, full = connect(), 0
        other.setblocking(False)
        for line in lines[:200000]:
            try:
                if other.send(line) < len(line):
                    break
            except BlockingIOError:
                full += 1
        # 100 MB without an end, half a line that is never ended, and requests whose answers are not read.
        for _ in range(100):
            report.socket.sendall(b"x" * 1000000)
        report.socket.sendall(b"\\n")
        read = time.monotonic() # and with it all of the million before
        half = connect()
        half.sendall(b'{"do": "step", "step": 5')
        deaf = connect()
        for step in range(200000):
            deaf.sendall(b'{"do": "latest", "id": 1}\\n')
        # More connections than there are places, and many one after the other.
        many = [connect() for _ in range(100)]
        for _ in range(1000):
            one = connect()
            try:
                one.send(b'{"do": "metric", "metrics": {"a": 1}}\\n')
            except BrokenPipeError:
                pass # no place was left
            one.close()
        for one in many:
            one.close()
        time.sleep(0.5)
        if os.fork() == 0: # a child with its parent's connection, which it closes
            report.socket.close()
            child = connect()
            child.sendall(b'{"do": "metric", "generation": 77, "metrics": {"b": 1}}\\n')
            os._exit(0)
        os.wait()
        deaf.close()
        report.lines, report.events = report.socket.makefile("r"), []
        while (answer := report.ask("step", step=1000001)).get("error", {}).get("code") == "RESOURCE_EXHAUSTED":
            time.sleep(0.1) # until the rate allows lines again
        assert answer == {"id": report.last}, answer
        print(json.dumps({"flood": [made, flooded], "read": read, "full": full}), flush=True)
        time.sleep(3)
        report.ask("done")
    '''))
    grown = []
    wait_for("the end", 120, lambda: grown.append(memory_kib(agent) - before) or cluster.job(job)["state"] in ("succeeded", "failed"), every=0.2)
    ended = cluster.wait_state(job, "succeeded", seconds=60)
    seen = lines(cluster, job)[0]
    print("flood", seen, "grown KiB", max(grown), "dropped", ended["workers"][0]["reports_dropped"])
    assert int(ended["step"]) == 1000001
    # Read are 4000 at once and 2000 a second: of a flood that a busy machine makes slow there are more.
    assert 995000 - 2000 * (seen["read"] - seen["flood"][0]) < int(ended["workers"][0]["reports_dropped"]) < 2000000
    assert f"rank 0: {ended['workers'][0]['reports_dropped']} reports were dropped" in cluster.muster("show", job, check=True).stdout
    assert max(grown) < 16 << 10, grown
    begun, over = seen["flood"]
    meanwhile = [end - asked for asked, end in lines(cluster, quiet) if begun < asked and end < over]
    print("neighbour", len(meanwhile), max(meanwhile, default=0))
    assert meanwhile, "a neighbour is answered while the flood goes on"
    cluster.muster("cancel", quiet, check=True)
    cluster.wait_state(quiet, "cancelled")
    wait_for("the sockets to be removed", 10, lambda: not list((cluster.folder / "nodes" / "node1").glob("hub-*")))


def test_a_hang_is_named_with_where_python_is(make_cluster, program):
    """Rank 1 stops in a call; rank 0 waits for it. Both told their steps, and offered their stacks."""
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "2", "--", *program('''
        import faulthandler, signal
        stacks = socket.socket(socket.AF_UNIX)
        stacks.connect(os.environ["MUSTER_REPORT_SOCKET"])
        stacks.sendall(json.dumps({"do": "stacks", "signal": "USR2"}).encode() + b"\\n")
        faulthandler.register(signal.SIGUSR2, file=stacks.fileno(), all_threads=True)
        def all_reduce():
            report.ask("get", key="never", wait_s=1000)
        def load_batch():
            time.sleep(1000)
        rank = report.ask("hello")["rank"]
        for step in range(1, 21):
            time.sleep(0.05)
            report.note("step", step=step)
        if rank == 1:
            load_batch()
        report.note("step", step=21)
        all_reduce()
    '''))
    wait_for("the last step", 20, lambda: int(cluster.job(job).get("step") or 0) == 21)
    stalled = wait_for("the stall", 20, lambda: (lambda j: j if j["stalled_wall_ms"] not in (None, "0", 0) else None)(cluster.job(job)))
    text = wait_for("the place", 5, lambda: (lambda t: t if "load_batch" in t else None)(cluster.job(job)["reason"]["text"]))
    print(text)
    assert "rank 1 (node node2) has made 20 and is in program.py:" in text and "in load_batch" in text, text
    assert "rank 0 (node node1) has made 21 and is in " in text, text
    assert "load_batch" in cluster.muster("why", job, check=True).stdout
    stacks = wait_for("the stacks in the log", 10, lambda: (lambda t: t if "load_batch" in t else None)(cluster.output(job)))
    assert "most recent call first" in stacks
    asked = look(cluster, job, "in load_batch", "--rank", "1").stdout
    assert "all_reduce" not in asked and "process " in asked, asked
    asked = wait_for("both", 10, lambda: (lambda text: text if "in load_batch" in text and "in all_reduce" in text else None)(cluster.muster("stacks", job).stdout))
    assert "[1]   File" in asked, asked
    assert stalled["state"] == "running"


def test_a_pause_that_is_told_is_no_hang(cluster, program):
    job = cluster.submit("--", *program('''
        for step in range(1, 21):
            time.sleep(0.05)
            report.note("step", step=step)
        report.ask("pause", for_s=60, why="evaluates")
        time.sleep(14)
        report.ask("step", step=21)
        time.sleep(2)
    '''))
    ended = cluster.wait_state(job, "succeeded", seconds=40)
    assert int(ended["step"]) == 21
    assert "stalled" not in cluster.muster("events", job, check=True).stdout


def test_grace_and_stop_signal_are_the_jobs(cluster, program, tmp_path):
    """12 s to save, more than the default grace, asked for by SIGUSR1."""
    job = cluster.submit("--grace", "30s", "--stop-signal", "USR1", "--checkpoint", tmp_path / "ckpt", "--", *program('''
        import signal
        signal.signal(signal.SIGUSR1, lambda *_: print(json.dumps("USR1"), flush=True))
        report.ask("step", step=3)
        print(json.dumps(report.event("stop")), flush=True)
        time.sleep(12)
        path = os.environ["MUSTER_CHECKPOINT_DIR"] + "/late"
        os.makedirs(path)
        print(json.dumps(report.ask("checkpoint", path=path)), flush=True)
    '''))
    assert cluster.job(job)["spec"]["grace"] == "30s" and cluster.job(job)["spec"]["stop_signal"] == "USR1"
    wait_for("a step", 10, lambda: int(cluster.job(job).get("step") or 0) == 3)
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled", seconds=40)
    assert ended["last_checkpoint"]["path"] == f"{tmp_path}/ckpt/late"
    seen = lines(cluster, job)
    assert "USR1" in seen and {"id": 2, "prune": []} in seen
    assert 10 < next(line for line in seen if isinstance(line, dict) and line.get("event") == "stop")["grace_s"] <= 30
    for bad in ("500ms", "3h", "soon"):
        refused = cluster.muster("submit", "--grace", bad, "--", "true")
        assert refused.returncode == 2 and "grace" in refused.stderr, refused.stderr
    assert "TERM, INT" in cluster.muster("submit", "--stop-signal", "KILL", "--", "true").stderr
