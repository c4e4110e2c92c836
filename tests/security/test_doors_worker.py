"""Doors of a node: what a program of a tenant tries on the agent, the shim and the hub.

| attack | door | what must hold |
|---|---|---|
| a loader's, shell's or interpreter's variables in a job's env | exec as root | nothing but the job's own user runs with them |
| variables that lead libworker elsewhere | spec.env MUSTER_*, RANK | refused, or its own are told |
| descriptors left open | exec | 0, 1 and 2, and the first is /dev/null |
| groups, capabilities, privileges | exec | its user's group alone, none, no new ones |
| the agent's session keyring | keyctl | another one; a key of root's is not there |
| core dumps, being traced | limits | none of root's; the job's own user only |
| programs in root's folders, looked for | command | there or not, the same answer |
| a program found by PATH in root's folder | env.PATH | not found |
| the token of a job that has ended | hub | refused |
| the token of an earlier generation | hub: Board, CommitCheckpoint, Join | refused |
| a token of the same tenant's other job | hub | refused |
| text of a worker's on a terminal | metric names, waits, checkpoint paths | shown escaped |
| ten thousand series | Progress | bounded, and the node stays ready |
| NaN and infinity | Progress | JSON stays JSON |
| FIFOs, sockets, links, deep and closed folders left in the work folder | removal as root | gone, and what they led to stays |
| boards of a tenant's jobs, filled | Board | bounded for each tenant |
| a daemon that leaves its session | tree | ended with its job |
| signals to the shim and the agent, from within | kill, tgkill, sigqueue | refused |
"""
import ctypes
import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from leavings import marked_folder
from localcluster import Cluster, processes, wait_for

HERE = Path(__file__).resolve().parent
RANGE = "1900000000-1900999999"
KEYS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = 248, 250
def session():
    return libc.syscall(keyctl, 0, -3, 0)  # its id; makes none
"""


def join_keyring():
    """Of this process, with a key of root's in it, as a login or a unit has one: what it starts is in it too."""
    libc = ctypes.CDLL(None)
    libc.syscall(250, 1, None)
    libc.syscall(248, b"user", b"roots-note", b"roots-secret", 12, -3)


@pytest.fixture(scope="module")
def cluster():
    """One node that red and blue share, each as a user of its own, for all attacks of this file."""
    if os.geteuid() != 0:
        pytest.skip("only root runs workers as other users")
    folder = marked_folder()
    wire = folder / "wire"
    wire.mkdir(mode=0o755)
    (wire / "localcluster.py").write_text("secure = None\nHANG_SECONDS = 300\n")
    shutil.copy(HERE / "wire.py", wire / "wire.py")
    for path in wire.iterdir():
        path.chmod(0o644)
    cluster = Cluster(folder)
    try:
        cluster.start_coordinator()
        join_keyring()
        cluster.start_agent("node1", "--slots", "6", "--cpus", "16", "--worker-uids", RANGE)
        cluster.wait_nodes(1)
        cluster.tokens = {}
        for tenant in ("red", "blue"):
            cluster.muster("tenant", "create", tenant, check=True)
            cluster.tokens[tenant] = cluster.muster("token", "create", f"{tenant}-ci", "--tenant", tenant, check=True).stdout.strip()
        yield cluster
        assert cluster.agents["node1"].poll() is None and cluster.coordinator.poll() is None
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def submit(cluster, tenant, script, **spec):
    code = script if isinstance(script, list) else ["/usr/bin/python3", "-c", textwrap.dedent(script)]
    status, job = cluster.rest("POST", "/v1/jobs", {"command": code, "restart": {"max": 0}, **spec}, token=cluster.tokens[tenant])
    assert status == 201, job
    return job["id"]


def run(cluster, tenant, script, **spec):
    """What a program of that tenant printed when it has ended."""
    job = submit(cluster, tenant, script, **spec)
    ended = wait_for(f"{job} ends", 120, lambda: (now := cluster.rest("GET", f"/v1/jobs/{job}")[1])["state"] in ("succeeded", "failed", "cancelled") and now)
    assert ended["state"] == "succeeded", (ended["reason"], cluster.output(job)[-2000:])
    return cluster.output(job)


def worker(cluster):
    """The beginning of a program that speaks to the hub by hand."""
    return f"""
import json, os, sys, threading, time
sys.path.insert(0, {str(cluster.folder / "wire")!r})
from wire import *
hub = os.environ["MUSTER_WORKER_SOCKET"]
hub = hub if "://" in hub else "ipc://" + hub
token = open(os.environ["MUSTER_WORKER_TOKEN_FILE"]).read().strip()
me = text(1, os.environ["MUSTER_JOB"]) + number(2, int(os.environ["MUSTER_UID"]))
generation = number(3, int(os.environ["MUSTER_GENERATION"]))
"""


def hub_job(cluster, tenant, script, **spec):
    return submit(cluster, tenant, worker(cluster) + textwrap.dedent(script), **spec)


def hub_run(cluster, tenant, script, **spec):
    return run(cluster, tenant, worker(cluster) + textwrap.dedent(script), **spec)


@pytest.fixture(scope="module")
def open_dir(cluster):
    folder = cluster.folder / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_variables_of_a_job_move_nobody_but_its_own_user(cluster, open_dir):
    """The dynamic loader writes a file for each process that starts with LD_DEBUG: their owners are who ran with the job's environment."""
    trace = open_dir / "trace"
    output = run(cluster, "red", ["/bin/sh", "-c", "id -u; cat /dev/null"], env={
        "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(trace), "LD_PRELOAD": "/nonexistent/evil.so", "LD_LIBRARY_PATH": str(open_dir), "LD_AUDIT": "/nonexistent/audit.so",
        "BASH_ENV": str(open_dir / "rc"), "ENV": str(open_dir / "rc"), "PYTHONPATH": str(open_dir), "GCONV_PATH": str(open_dir), "MALLOC_TRACE": str(open_dir / "malloc")})
    uid = next(int(line) for line in output.split() if line.isdigit())
    owners = {path.stat().st_uid for path in open_dir.glob("trace.*")}
    assert owners == {uid}, owners


@pytest.mark.parametrize("name", ["MUSTER_WORKER_SOCKET", "MUSTER_WORKER_TOKEN_FILE", "MUSTER_JOB", "MUSTER_UID", "MUSTER_GENERATION", "RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "HOME", "USER"])
def test_a_jobs_own_variables_stay_the_agents(cluster, name):
    status, job = cluster.rest("POST", "/v1/jobs", {"command": ["/usr/bin/env"], "env": {name: "evil-value"}, "restart": {"max": 0}}, token=cluster.tokens["red"])
    if status == 201:
        cluster.wait_state(job["id"], ("succeeded", "failed"))
        assert name in ("HOME", "USER") or f"{name}=evil-value" not in cluster.output(job["id"]), "it is told another one's"
    else:
        assert status == 400 and name in json.dumps(job), job


def test_nothing_of_the_shim_is_handed_down(cluster):
    said = run(cluster, "red", """
        import ctypes, os, resource
        own = os.open("/proc/self/fd", os.O_RDONLY)
        print("fds", sorted(int(fd) for fd in os.listdir(own) if int(fd) != own and os.path.exists(f"/proc/self/fd/{fd}")), os.readlink("/proc/self/fd/0"))
        print("groups", os.getgroups(), os.getresgid(), os.getresuid())
        print("core", resource.getrlimit(resource.RLIMIT_CORE))
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
        print("caps", [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")], status["NoNewPrivs"], status["SigBlk"], status["SigIgn"])
        print("session", os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())
        """)
    lines = dict(line.split(" ", 1) for line in said.strip().splitlines())
    assert lines["fds"] == "[0, 1, 2] /dev/null", said
    uid = int(lines["groups"].split("(")[1].split(",")[0])
    assert uid >= 1900000000 and lines["groups"] in (f"[] {(uid,) * 3} {(uid,) * 3}", f"[{uid}] {(uid,) * 3} {(uid,) * 3}"), said
    assert lines["core"] == "(0, 0)" and set(eval(lines["caps"].split("]")[0] + "]")) == {"0" * 16} and "] 1 " in lines["caps"], said
    assert lines["session"] == "True True", said




def test_the_agents_keyring_is_not_the_jobs(cluster):
    """A worker that has its agent's session keyring possesses the keys in it: root's, and what other tenants put there."""
    job = submit(cluster, "red", KEYS + """
print("key", libc.syscall(add_key, b"user", b"red-note", b"red-secret", 10, -3), flush=True)
import time
time.sleep(600)
""")
    said = wait_for("red's key", 60, lambda: "key" in cluster.output(job) and cluster.output(job))
    found = run(cluster, "blue", KEYS + """
for note in (b"red-note", b"roots-note"):
    key = libc.syscall(keyctl, 10, -3, b"user", note, 0)
    secret = ctypes.create_string_buffer(64)
    print(note, key, libc.syscall(keyctl, 11, key, secret, 64), secret.value, flush=True)
""")
    cluster.muster("cancel", job, check=True)
    if "key -1" in said:
        pytest.skip("no keys here: " + said)
    assert "secret" not in found, found


@pytest.mark.parametrize("by", ["path", "PATH"])
def test_which_programs_root_keeps_is_not_told(cluster, by):
    closed = cluster.folder / "closed"
    closed.mkdir(mode=0o700, exist_ok=True)
    (closed / "present").write_text("#!/bin/sh\necho RAN\n")
    (closed / "present").chmod(0o755)
    told = []
    for name in ("present", "absent0"):
        command = [f"{closed}/{name}"] if by == "path" else [name]
        job = submit(cluster, "red", command, env={"PATH": f"{closed}:/usr/bin"})
        ended = cluster.wait_state(job, "failed")
        told.append(ended["reason"]["text"].replace(name, "X"))
        assert "RAN" not in cluster.output(job)
    assert told[0] == told[1], told


def test_a_token_ends_with_its_job(cluster, open_dir):
    """Another job of the same tenant, so of the same user, uses what the first has left."""
    left = open_dir / "left"
    job = hub_job(cluster, "red", f"open({str(left)!r}, 'w').write(token)")
    cluster.wait_state(job, "succeeded")
    other = hub_run(cluster, "red", f"""
        token = open({str(left)!r}).read()
        me = text(1, {job!r}) + number(2, 1)
        with Peer(hub) as peer:
            for method, more in (("Hello", b""), ("Board", number(3, 1) + text(4, "k") + number(6, 1)), ("Progress", number(3, 1) + number(4, 5)), ("Join", number(3, 1) + text(4, "tcp://127.0.0.1:1")),
                                 ("CommitCheckpoint", number(3, 2) + text(4, number(1, 9) + text(2, "/x/step-9") + number(3, 1)))):
                try:
                    print(method, *peer.call("WorkerHub." + method, me + more, token=token)[:2], flush=True)
                except OSError as error:
                    print(method, "hung up", flush=True)
                    peer = Peer(hub)
        """)
    assert other.count("UNAUTHENTICATED") + other.count("hung up") == 5, other
    assert not cluster.rest("GET", f"/v1/jobs/{job}/checkpoints")[1]["checkpoints"]


def test_a_token_speaks_for_its_own_worker_only(cluster, open_dir):
    job = submit(cluster, "red", "import time; time.sleep(600)")
    cluster.wait_state(job, "running")
    said = hub_run(cluster, "red", f"""
        with Peer(hub) as peer:
            for theirs in (text(1, {job!r}) + number(2, 1), text(1, os.environ["MUSTER_JOB"]) + number(2, 2), text(1, "") + number(2, 1), text(1, "../x") + number(2, 1), text(1, "j" * 300) + number(2, 1)):
                for method, more in (("Hello", b""), ("Board", generation + text(4, "k") + number(6, 1)), ("Progress", generation + number(4, 5)), ("Join", generation + text(4, "tcp://127.0.0.1:1")), ("LostPeers", generation + number(4, 0)),
                                     ("Watch", generation), ("CommitCheckpoint", number(3, 2) + text(4, number(1, 9) + text(2, "/x/step-9") + number(3, 1)))):
                    code, told, body = peer.call("WorkerHub." + method, theirs + more, token=token)
                    print(method, code, body, flush=True)
        """)
    cluster.muster("cancel", job, check=True)
    assert len(said.splitlines()) == 35 and " OK " not in said, said


def test_a_token_ends_with_its_generation(cluster, open_dir):
    left = open_dir / "generation"
    job = hub_job(cluster, "red", f"""
        path = {str(left)!r}
        if not os.path.exists(path):
            open(path, "w").write(token)
            sys.exit(1)
        old = open(path).read()
        assert old != token
        for mine in (me, text(1, os.environ["MUSTER_JOB"]) + number(2, int(os.environ["MUSTER_UID"]) - 1)):
            for at in (1, 2):
                for method, more in (("Board", number(3, at) + text(4, "k") + text(5, "v") + number(6, 1)), ("Join", number(3, at) + text(4, "tcp://127.0.0.1:1")),
                                     ("CommitCheckpoint", number(3, 1) + text(4, number(1, 9) + text(2, "/x/step-9") + number(3, at))), ("CommitCheckpoint", number(3, 2) + text(4, number(1, 9) + text(2, "/x/step-9") + number(3, at)))):
                    try:
                        print(method, Peer(hub).call("WorkerHub." + method, mine + more, token=old)[0], flush=True)
                    except OSError:
                        print(method, "hung up", flush=True)
        """, restart={"max": 2, "backoff": "0s..0s"})
    cluster.wait_state(job, "succeeded", 60)
    said = cluster.output(job)
    assert said.count("Board") == 4 and "OK" not in said, said
    assert not cluster.rest("GET", f"/v1/jobs/{job}/checkpoints")[1]["checkpoints"]


ESCAPE = "\x1b]0;owned\x07\x1b[2J\nj999 running\r\u202e"


def test_what_a_worker_tells_draws_on_no_terminal(cluster):
    job = hub_job(cluster, "red", f"""
        import struct
        escape = {ESCAPE!r}
        def sample(name, value):
            return text(6, number(3, 1) + number(4, 1) + text(5, name) + b"\\x31" + struct.pack("<d", value))
        with Peer(hub) as peer:
            print(peer.call("WorkerHub.Hello", me + number(3, os.getpid()) + text(4, escape), token=token)[0], flush=True)
            print(peer.call("WorkerHub.Join", me + generation + text(4, "tcp://127.0.0.1:1"), token=token)[0], flush=True)
            print(peer.call("WorkerHub.Progress", me + generation + number(4, 5) + sample(escape, 1) + sample("loss", float("nan")) + sample("tokens_per_second", float("inf"))
                            + text(7, text(1, escape) + text(2, escape) + number(5, 90000) + number(6, 0)), token=token)[0], flush=True)
            for phase in (1, 2):
                print(peer.call("WorkerHub.CommitCheckpoint", me + number(3, phase) + text(4, number(1, 5) + text(2, "/ckpt/" + escape) + number(3, 1) + number(6, 1)), token=token)[:2], flush=True)
            print("told", flush=True)
            time.sleep(600)
        """)
    wait_for("it has told", 60, lambda: "told" in cluster.output(job))
    wait_for("its step is known", 30, lambda: cluster.job(job)["step"])
    for words in (["ps"], ["show", job], ["show", job, "-o", "yaml"], ["why", job], ["events", job], ["top", "--once"], ["checkpoints", job], ["metrics", job], ["plan", "--slots", "6", "--", "/bin/true"], ["nodes"], ["export", job]):
        shown = cluster.muster(*words)
        bad = {c for c in shown.stdout + shown.stderr if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"}
        assert not bad, (words, bad)
        assert not any(line.startswith("j999 running") for line in shown.stdout.splitlines()), (words, shown.stdout)
    for path in ("", "/metrics", "/events", "/checkpoints", "/why"):
        assert isinstance(cluster.rest("GET", f"/v1/jobs/{job}{path}")[1], dict), path
    page = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    assert "owned" not in page
    cluster.muster("cancel", job, check=True)


def test_series_without_end_are_bounded(cluster):
    said = hub_run(cluster, "red", """
        import struct
        codes = set()
        with Peer(hub) as peer:
            for batch in range(40):
                samples = b"".join(text(6, number(3, 1) + number(4, 1) + text(5, f"series-{batch}-{i}") + b"\\x31" + struct.pack("<d", 1.0)) for i in range(1000))
                codes.add(peer.call("WorkerHub.Progress", me + generation + number(4, batch) + samples, token=token)[0])
            samples = b"".join(text(6, number(3, 1) + number(4, 1) + text(5, "x" * 5000) + b"\\x31" + struct.pack("<d", 1.0)) for i in range(100))
            codes.add(peer.call("WorkerHub.Progress", me + generation + number(4, 50) + samples, token=token)[0])
        print(codes)
        time.sleep(3)
        """)
    status, answer = cluster.rest("GET", "/v1/jobs?limit=1")
    job = answer["jobs"][0]["id"]
    status, answer = cluster.rest("GET", f"/v1/jobs/{job}/metrics?max_points=1")
    assert status in (200, 429) and (status == 429 or len(answer["series"]) <= 4096), (said, status, len(answer.get("series", [])))
    assert all(len(series["name"]) <= 256 for series in answer.get("series", []))
    assert "ready" in cluster.muster("nodes", check=True).stdout


def test_what_a_job_leaves_is_removed_and_nothing_else(cluster, open_dir):
    precious = cluster.folder / "precious"
    precious.mkdir()
    (precious / "file").write_text("root's")
    deep = 600
    job = submit(cluster, "red", f"""
        import os, socket
        here = os.getcwd()
        assert here.endswith(".1"), here
        os.mkfifo("fifo")
        os.symlink({str(precious)!r}, "link")
        os.symlink("loop", "loop")
        os.symlink("/proc/self/root", "root")
        socket.socket(socket.AF_UNIX).bind("sock")
        os.mkdir("closed", 0)
        open("strange\\n\\x1b[2J", "w").close()
        for i in range({deep}):
            os.mkdir("deep" * 20)
            os.chdir("deep" * 20)
        os.mkfifo("fifo")
        """)
    cluster.wait_state(job, "succeeded")
    node = cluster.folder / "nodes/node1"
    wait_for("its work is gone", 60, lambda: not [path for path in (node / "work").iterdir() if path.name.startswith(f"{job}.")] and not list((node / "tmp").glob(".removed*")))
    assert (precious / "file").read_text() == "root's" and (precious / "file").stat().st_uid == 0


def test_a_daemon_ends_with_its_job(cluster, open_dir):
    beat = open_dir / "beat"
    run(cluster, "red", f"""
        import os, signal, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in range(1, 65):
                    try:
                        signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError):
                        pass
                for descriptor in range(3):
                    os.close(descriptor)
                os.environ.clear()
                with open({str(beat)!r}, "w") as file:
                    file.write(f"{{os.getpid()}}.")
                time.sleep(600)
            os._exit(0)
        while not os.path.exists({str(beat)!r}) or not open({str(beat)!r}).read().endswith("."):
            time.sleep(0.01)
        """)
    pid = int(beat.read_text()[:-1])
    assert pid not in processes() or Path(f"/proc/{pid}").stat().st_uid != beat.stat().st_uid


def test_the_shim_takes_no_signal_of_its_worker(cluster):
    said = run(cluster, "red", """
        import ctypes, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        shim = os.getppid()
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGSTOP, signal.SIGHUP, signal.SIGCONT):
            for pid in {shim, 1}:
                if pid == 0:
                    continue
                try:
                    os.kill(pid, number)
                    print("SENT", pid, number)
                except OSError:
                    pass
                if libc.syscall(234, pid, pid, number) == 0:
                    print("SENT thread", pid, number)
        for call, words in ((101, (16, shim, 0, 0)), (101, (0x4206, shim, 0, 0)), (310, (shim, 0, 0, 0, 0, 0)), (438, (libc.syscall(434, shim, 0), 3, 0))):
            if libc.syscall(call, *words) > 0:
                print("DONE", call)
        for name in ("mem", "environ", "maps", "auxv", "fd", "root", "cwd", "exe", "stack", "map_files"):
            try:
                path = f"/proc/{shim}/{name}"
                print("READ", name, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10))
            except OSError:
                pass
        print("tried")
        """)
    assert said.strip() == "tried", said


def test_boards_of_one_tenant_are_bounded_in_sum(cluster):
    """16 MiB a generation is little; a tenant with many small jobs had as many times that of the coordinator's memory."""
    script = """
        value = bytes(60000)
        full = 0
        with Peer(hub) as peer:
            for i in range(262):
                code, told, _ = peer.call("WorkerHub.Board", me + generation + text(4, f"key{i}") + text(5, value) + number(6, 1), token=token)
                full += code == "OK"
        print("full", full, code, told, flush=True)
        time.sleep(600)
        """
    jobs = [hub_job(cluster, "blue", script) for _ in range(6)]
    said = [wait_for("its board", 120, lambda: "full" in cluster.output(job) and cluster.output(job)) for job in jobs]
    total = sum(int(line.split()[1]) for line in said) * 60000
    for job in jobs:
        cluster.muster("cancel", job, check=True)
    assert total <= 68 << 20, (total >> 20, said)
