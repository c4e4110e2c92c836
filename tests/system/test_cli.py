"""What the client's verbs say and how they end."""
import contextlib
import json
import os
import pty
import socket
import subprocess
import termios
import threading
import time

from localcluster import HANG_SECONDS, MUSTER, wait_for


def test_figures_that_nobody_told_are_null(cluster):
    job = cluster.submit("--name", "quiet", "--", "sleep", "3600")
    now = cluster.wait_state(job, "running")
    assert [now[key] for key in ("step", "loss", "tokens_per_second", "total_steps", "exit_code", "last_recovery_ms")] == [None] * 6, now
    assert now["workers"][0]["state"] == "running" and now["workers"][0]["step"] is None, now["workers"]
    status, answer = cluster.rest("GET", "/v1/jobs/" + job)
    assert status == 200 and answer["loss"] is None and answer["step"] is None, answer
    row = cluster.muster("ps", check=True).stdout.splitlines()[1].split()
    assert row.count("-") >= 3 and "0" not in row, row
    shown = cluster.muster("show", job, check=True).stdout
    assert "reports no steps" in shown and "step 0" not in shown, shown
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled")
    assert isinstance(ended["exit_code"], int), ended


def test_ps_shows_a_running_job_behind_many_that_wait(make_cluster):
    cluster = make_cluster(nodes=1, slots=1)
    first = cluster.submit("--name", "first", "--", "sleep", "600")
    cluster.wait_state(first, "running")
    for i in range(1010):  # more than a page
        status, _ = cluster.rest("POST", "/v1/jobs", {"name": f"waits-{i}", "command": ["/bin/true"]})
        assert status == 201
    table = cluster.muster("ps", check=True)
    assert len(table.stdout.splitlines()) == 1012 and table.stdout.splitlines()[-1].split()[0] == first and "more" not in table.stderr, table.stderr
    jobs = json.loads(cluster.muster("ps", "-o", "json", check=True).stdout)
    assert len({job["id"] for job in jobs["jobs"]}) == 1011 and not jobs.get("next_cursor"), jobs.get("next_cursor")
    few = cluster.muster("ps", "--limit", "10", check=True)
    assert len(few.stdout.splitlines()) == 11 and "there are more: these are the newest 10" in few.stderr, few.stderr
    assert "there are more" in cluster.muster("ps", "-a", check=True).stderr


def test_run_ends_with_the_programs_exit_code_when_asked(cluster):
    def run(script, *options):
        return cluster.muster("run", *options, "--restarts", "0", "--", "/bin/sh", "-c", script)
    assert run("exit 0", "--exit-code").returncode == 0
    done = run("exit 7", "--exit-code")
    assert done.returncode == 7 and "exit code 7" in done.stderr, done.stderr
    done = run("kill -KILL $$", "--exit-code")
    assert done.returncode == 137 and "exit code 137" in done.stderr and "SIGKILL" in done.stderr, done.stderr
    done = run("exit 3", "--exit-code", "-q")
    assert (done.returncode, done.stderr) == (3, "")
    done = run("exit 7")
    assert done.returncode == 1 and "exit code 7" in done.stderr, done.stderr
    done = run("sleep 3600", "--exit-code", "--max-runtime", "1s")
    assert done.returncode == 125 and "exit code 125: ran longer" in done.stderr and "exit code 1:" not in done.stderr, (done.returncode, done.stderr)
    assert "starting" in done.stderr and "world 0" not in done.stderr, done.stderr


def test_with_exit_code_musters_own_failures_are_125(cluster):
    assert cluster.muster("run", "--exit-code", "--slots", "100", "--", "/bin/true").returncode == 125
    assert cluster.muster("run", "--exit-code", "--no-such-option", "--", "/bin/true").returncode == 125
    assert cluster.muster("run", "--no-such-option", "--", "/bin/true", "--exit-code").returncode == 2
    cluster.kill_coordinator()
    assert cluster.muster("run", "--exit-code", "--", "/bin/true").returncode == 125
    assert cluster.muster("run", "--", "/bin/true").returncode == 3


def test_the_first_ranks_exit_code_counts(cluster):
    script = "[ $RANK = 1 ] && exit 9; sleep 3600"
    done = cluster.muster("run", "--exit-code", "--restarts", "0", "-w", "2", "--", "/bin/sh", "-c", script)
    assert done.returncode == 9, done.stderr


def test_followed_output_as_json_is_a_line_each(cluster):
    job = cluster.submit("--", "/bin/sh", "-c", "echo one; echo two >&2; sleep 1; echo three")
    done = cluster.muster("logs", "-f", "-o", "json", job, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line["text"] for line in lines) == ["one", "three", "two"], lines
    assert {line["text"]: line["is_stderr"] for line in lines} == {"one": False, "two": True, "three": False}
    follower = subprocess.Popen([cluster.muster_path, "events", "-f", "-o", "json", job], stdout=subprocess.PIPE, text=True, env=cluster.environment())
    try:
        kinds = [json.loads(follower.stdout.readline())["kind"] for _ in range(3)]
    finally:
        follower.kill()
        follower.communicate()
    assert "job_state" in kinds, kinds


def test_what_workers_write_to_stderr_goes_to_stderr(cluster):
    done = cluster.muster("run", "-q", "--", "/bin/sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    job = cluster.submit("--", "/bin/sh", "-c", "echo out; echo err >&2")
    cluster.wait_state(job, "succeeded")
    done = wait_for("its output", 5, lambda: (lambda d: d if d.stdout and d.stderr else None)(cluster.muster("logs", job)))
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_every_restart_is_told_and_generations_are_marked(cluster, tmp_path):
    # A code of its own each time, since the same cause over and over ends a job early.
    script = "echo try $TORCHELASTIC_RESTART_COUNT; exit $((10 + TORCHELASTIC_RESTART_COUNT))"
    (tmp_path / "job.json").write_text(json.dumps({"command": ["/bin/sh", "-c", script], "restart": {"max": 3, "backoff": "10ms..20ms"}}))
    done = cluster.muster("run", tmp_path / "job.json")
    assert done.stdout.split("\n")[:-1] == [f"try {i}" for i in range(4)], done.stdout
    told = [line for line in done.stderr.splitlines() if line.startswith("restarting: ")]
    assert [f"code {10 + i}" in line for i, line in enumerate(told)] == [True] * 3, done.stderr
    assert done.stderr.count("── generation ") == 3, done.stderr
    job = json.loads(cluster.muster("ps", "-a", "-o", "json", check=True).stdout)["jobs"][0]["id"]
    again = cluster.muster("logs", job)
    assert again.stderr.count("── generation ") == 3 and again.stdout == done.stdout, again.stderr


@contextlib.contextmanager
def between(address, late_s=0.0):
    """(another address of a coordinator, what callers said to it so far: [bytes]); what it says first comes late."""
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    said, ends = [0], []

    def carry(source, target, counts):
        with contextlib.suppress(OSError):
            time.sleep(0 if counts else late_s)
            while data := source.recv(65536):
                said[0] += len(data) if counts else 0
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                ends.extend((server.accept()[0], socket.create_connection((host, int(port)))))
                for pair in ((ends[-2], ends[-1], True), (ends[-1], ends[-2], False)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}", said
        for end in ends:
            end.close()
        server.shutdown(socket.SHUT_RDWR)


def test_a_call_that_may_not_run_twice_waits_for_a_busy_coordinator(cluster, tmp_path):
    job = cluster.submit("--", "sleep", "600")
    cluster.wait_state(job, "running")
    with between(cluster.rpc, late_s=1) as (address, _):
        for words in ("backup", str(tmp_path / "copy.db")), ("exec", job, "--", "true"):
            done = subprocess.run([cluster.muster_path, *words], capture_output=True, text=True, timeout=HANG_SECONDS,
                                  env={**cluster.environment(), "MUSTER_ADDR": address})
            assert done.returncode == 0, (words, done.stderr)


def test_the_end_is_told_to_a_follower_that_asks_nothing_meanwhile(cluster, tmp_path):
    go = tmp_path / "go"
    with between(cluster.rpc) as (address, said):
        command = [cluster.muster_path, "run", "--", "/bin/sh", "-c", f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done"]
        follower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**cluster.environment(), "MUSTER_ADDR": address})

        def is_quiet():
            before = said[0]
            time.sleep(2)
            return said[0] == before
        try:
            assert follower.stdout.readline() == "begun\n"
            assert said[0] > 0
            wait_for("two seconds in which it asks nothing", 10, is_quiet)
            go.touch()
            assert follower.wait(HANG_SECONDS) == 0
        finally:
            go.touch()
            follower.kill()
            follower.communicate()


def test_followers_outlive_a_restart_of_the_coordinator(cluster):
    command = [cluster.muster_path, "run", "--", "/bin/sh", "-c", "echo before; sleep 4; echo after"]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.environment())
    try:
        assert follower.stdout.readline() == "before\n"
        cluster.kill_coordinator()
        time.sleep(1)
        cluster.start_coordinator()
        out, err = follower.communicate(timeout=HANG_SECONDS)
    finally:
        follower.kill()
    assert follower.returncode == 0 and out == "after\n" and "succeeded: " in err, (out, err)


@contextlib.contextmanager
def listening(backlog=8, greeting=None):
    """A server that accepts no connection, or one that greets each in a protocol of its own."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(backlog)
        if greeting:
            def serve():
                taken = []  # kept open, so that nothing cuts the greeting short
                with contextlib.suppress(OSError):
                    while True:
                        taken.append(server.accept()[0])
                        taken[-1].sendall(greeting)
            threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


SUBMIT = "submit", "--", "/bin/true"
SUBMIT_S = 30  # it calls again and again for so long


def ask(folder, address, *words):
    """(what it said, seconds)"""
    began = time.monotonic()
    environment = {**os.environ, "MUSTER_ADDR": address, "MUSTER_TOKEN": "x", "MUSTER_PIN": "A" * 43, "HOME": str(folder)}
    done = subprocess.run([str(MUSTER), *(words or ("ps",))], capture_output=True, text=True, timeout=HANG_SECONDS, env=environment)
    assert done.returncode == 3, done
    return done.stderr, time.monotonic() - began


def test_what_can_be_known_of_a_coordinator_is_said_at_once(cluster, tmp_path):
    said, refused_s = ask(tmp_path, "tcp://127.0.0.1:1", *SUBMIT)
    assert "no coordinator listens at tcp://127.0.0.1:1: the connection was refused" in said and "from MUSTER_ADDR" in said, said
    said, run_s = ask(tmp_path, "tcp://127.0.0.1:1", "run", "--", "/bin/true")
    assert "refused" in said, said
    said, socket_s = ask(tmp_path, f"ipc://{tmp_path}/none", *SUBMIT)
    assert "there is no such socket" in said, said
    said, unknown_s = ask(tmp_path, "tcp://no.such.host.invalid:7440", *SUBMIT)
    assert "the host 'no.such.host.invalid'" in said and "unknown" in said, said
    said, http_s = ask(tmp_path, "tcp://" + cluster.http, *SUBMIT)
    assert "speaks HTTP" in said, said
    said, key_s = ask(tmp_path, cluster.environment()["MUSTER_ADDR"], *SUBMIT)  # with the pin of another cluster
    assert "is not the coordinator that is known" in said and "use a new token" in said, said
    with listening(greeting=b"220 mail ESMTP\r\n") as address:
        said, other_s = ask(tmp_path, address, *SUBMIT)
    assert "is not a coordinator" in said, said
    waited = refused_s, run_s, socket_s, unknown_s, http_s, key_s, other_s
    assert max(waited) < SUBMIT_S, f"{waited}: not at the call's deadline"


def test_a_silent_coordinator_is_told_from_one_that_refuses(tmp_path):
    with listening(backlog=64) as address:
        for words in (), SUBMIT:  # the second waits for longer than a connection may take to be made
            said, _ = ask(tmp_path, address, *words)
            assert "accepts connections but has not answered" in said, said
    with listening(backlog=0) as address, contextlib.ExitStack() as held:
        host, port = address.removeprefix("tcp://").split(":")
        for _ in range(4):  # the queue is full then, and the kernel answers nobody
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, int(port)))
        said, _ = ask(tmp_path, address)
    assert f"{address} is silent: no connection within 4" in said, said


def test_an_address_is_written_without_its_encryption(tmp_path):
    address = "tls+tcp://127.0.0.1:7999"
    for words in (["coordinator", "--data", tmp_path / "d", "--rpc", address, "--http", "off"],
                  ["up", "--data", tmp_path / "u", "--rpc", address, "--http", "off", "--nodes", "0"],
                  ["agent", "--coordinator", address, "--token", "mst_agent_x", "--data", tmp_path / "a"], ["ps", "--addr", address]):
        done = subprocess.run([str(MUSTER), *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ, "HOME": str(tmp_path)})
        assert done.returncode in (2, 3) and "write tcp://, which is encrypted always" in done.stderr, done
    said = subprocess.run([str(MUSTER), "ps", "--addr", "udp://x"], capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ, "HOME": str(tmp_path)}).stderr
    assert "tcp://host:port" in said and "tls" not in said, said


def test_help_of_a_verb_is_its_own(tmp_path):
    def said(*words):
        return subprocess.run([str(MUSTER), *words], capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ, "HOME": str(tmp_path)})
    for verb in "run", "agent", "coordinator":
        done = said("help", verb)
        assert done.returncode == 0 and done.stdout == said(verb, "--help").stdout and f"usage: muster {verb}" in done.stdout, done
    done = said("help", "shwo")
    assert done.returncode == 2 and "'shwo' is not a verb; did you mean 'show'?" in done.stderr and not done.stdout, done
    for verb in "run", "agent", "coordinator", "shim":
        done = said(verb, "--nonsense")
        assert done.returncode == 2 and done.stderr.count("muster " + verb + ":") == 1, done


def test_keys_that_are_not_there_are_said_to_be_missing(tmp_path):
    for action in "show", "ca", "rotate":
        done = subprocess.run([str(MUSTER), "tls", action], capture_output=True, text=True, timeout=HANG_SECONDS,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
        assert done.returncode == 2 and "no coordinator has keys in" in done.stderr and "--data" in done.stderr, done


def test_a_spec_from_standard_input_is_called_so(cluster):
    done = cluster.muster("submit", "-f", "-", input="command: ['true']\ntenant: nobody\n")
    assert done.returncode == 2 and done.stderr.startswith("muster: standard input: line 2"), done
    done = cluster.muster("submit", "-f", "-", input="command: ['true']\nfoo: 1\n")
    assert done.returncode == 2 and done.stderr.startswith('muster: standard input: line 2, column 1: unknown key "foo"'), done


def test_words_of_other_tools_lead_to_the_verb(tmp_path):
    def said(word):
        done = subprocess.run([str(MUSTER), word], capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ, "HOME": str(tmp_path)})
        assert done.returncode == 2, done
        return done.stderr
    for word, verb in {"kill": "cancel", "rm": "cancel", "delete": "cancel", "stop": "cancel", "status": "ps", "list": "ps", "jobs": "ps",
                       "history": "events", "sbatch": "submit", "shwo": "show", "pss": "ps", "lgos": "logs"}.items():
        assert f"did you mean '{verb}'?" in said(word), said(word)
    for word in ("cp", "xyzzy", "go"):
        assert "did you mean" not in said(word) and "muster help" in said(word), said(word)


def complete(cluster, *words):
    return cluster.muster("completion", "--words", "--", *words).stdout.split("\n")[:-1]


def test_values_are_completed(cluster):
    assert {"active", "queued", "running", "failed"} <= set(complete(cluster, "ps", "--state", ""))
    assert complete(cluster, "ps", "--state", "succ") == ["succeeded"]
    assert complete(cluster, "run", "--priority", "") == ["low", "normal", "high"]
    assert complete(cluster, "submit", "--elastic", "") == ["in_place", "restart", "off"]
    assert complete(cluster, "run", "--on-failure", "") == complete(cluster, "submit", "--on-no-progress", "") == ["stop", "retry"]
    assert complete(cluster, "run", "--set", "mesh.d") == ["mesh.dp=", "mesh.dp_replicate=", "mesh.dp_shard="]
    assert complete(cluster, "run", "--set", "strategy=z") == ["strategy=zero1", "strategy=zero2"]
    assert complete(cluster, "run", "--set", "strategy", "=", "f") == ["fsdp"]  # as bash cuts it
    assert "bf16" in complete(cluster, "run", "--set", "mixed_precision", "=")
    assert complete(cluster, "run", "--set", "recompute=") == ["recompute=none", "recompute=blocks", "recompute=operations"]
    assert complete(cluster, "ps", "--tenant", "") == ["default"]
    assert complete(cluster, "plan", "--drain", "") == ["node1"]


def test_names_are_completed_where_they_can_stand_and_once(cluster):
    cluster.muster("tenant", "create", "vision", check=True)
    cluster.muster("token", "create", "ci", "--tenant", "vision", check=True)
    assert complete(cluster, "tenant", "") == ["create", "list", "show", "set"]
    assert complete(cluster, "ckpt", "")[:2] == ["verify", "export"]
    assert sorted(complete(cluster, "tenant", "set", "")) == ["default", "vision"]
    assert complete(cluster, "tenant", "create", "") == []
    assert "ci" in complete(cluster, "token", "revoke", "") and "revoke" not in complete(cluster, "token", "revoke", "")
    assert complete(cluster, "token", "create", "") == []
    ids = [cluster.submit("--name", "twin", "--", "/bin/true") for _ in range(2)]
    assert sorted(complete(cluster, "show", "")) == sorted([*ids, "twin"])


def test_scripts_for_every_shell_are_printed(cluster):
    for shell, part in {"bash": "complete -F _muster", "zsh": "bashcompinit", "fish": "complete -c muster"}.items():
        assert part in cluster.muster("completion", shell, check=True).stdout
    assert cluster.muster("completion", "csh").returncode == 2


def test_events_carry_the_reasons_of_administrators(cluster):
    def told():
        answer = json.loads(cluster.muster("events", "-o", "json", check=True).stdout)
        return [(e["to"], e["reason"]["text"]) for e in answer["events"] if e["kind"] == "node_state"]
    cluster.muster("cordon", "node1", "--reason", "a noisy fan", check=True)
    assert ("cordoned", "a noisy fan") in told(), told()
    cluster.muster("uncordon", "node1", "--reason", "the fan is new", check=True)
    assert ("ready", "the fan is new") in told(), told()
    job = cluster.submit("--", "sleep", "3600")
    cluster.wait_state(job, "running")
    cluster.muster("drain", "node1", "--reason", "it gets memory", check=True)
    wait_for("it is empty", 20, lambda: ("drained", "emptied: it gets memory") in told())
    assert ("draining", "it gets memory") in told(), told()
    cluster.muster("cordon", "node1", check=True)
    cluster.muster("cancel", job, check=True)


def test_q_ends_top_and_leaves_the_terminal_as_it_was(cluster):
    screen, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    top = subprocess.Popen([cluster.muster_path, "top", "-i", "1h"], stdin=terminal, stdout=terminal, stderr=terminal, env=cluster.environment())
    try:
        shown = b""
        while b"node1" not in shown or b"no active jobs" not in shown:
            shown += os.read(screen, 4096)
        os.write(screen, b"q")
        assert top.wait(HANG_SECONDS) == 0
        assert termios.tcgetattr(terminal) == before
    finally:
        top.kill()
        top.wait()
        os.close(screen)
        os.close(terminal)


def test_ps_tells_who_where_since_when_and_how_long(make_cluster):
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "2", "--", "sleep", "3600")
    cluster.wait_state(job, "running")
    waits = cluster.submit("--", "/bin/true")
    lines = cluster.muster("ps", check=True).stdout.splitlines()
    titles = lines[0].split()
    rows = {line.split()[0]: dict(zip(titles, line.split())) for line in lines[1:]}
    assert {"USER", "NODES", "START", "DURATION"} <= set(titles), titles
    assert rows[job]["USER"] == "admin" and rows[job]["NODES"] == "2" and rows[job]["START"].endswith("Z"), rows
    assert rows[job]["DURATION"][0].isdigit() and (rows[waits]["START"], rows[waits]["DURATION"]) == ("-", "-"), rows
    made = cluster.muster("token", "create", "ci", "--role", "member", "--tenant", "default", "-o", "json", check=True).stdout
    other = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"]}, token=json.loads(made)["plain"])[1]["id"]
    cluster.kill_coordinator()
    cluster.start_coordinator()
    jobs = json.loads(cluster.muster("ps", "-o", "json", check=True).stdout)["jobs"]
    assert {j["id"]: j["user"] for j in jobs} == {job: "admin", waits: "admin", other: "ci"}, jobs
    cluster.muster("cancel", job, waits, other, check=True)


def test_run_tells_what_a_job_waits_for(cluster):
    holder = cluster.submit("--slots", "4", "--", "sleep", "3600")
    cluster.wait_state(holder, "running")
    follower = subprocess.Popen([cluster.muster_path, "run", "--", "/bin/true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=cluster.environment())
    try:
        said = follower.stderr.readline()
        assert said.startswith("queued: ") and "slot" in said, said
        cluster.muster("cancel", holder, check=True)
        rest = follower.communicate(timeout=HANG_SECONDS)[1]
    finally:
        follower.kill()
    assert follower.returncode == 0 and "accepted" not in rest and "succeeded: " in rest, rest
