"""`muster stacks` and hangs of programs that offer no stacks themselves: py-spy beside the worker, a sentence where that
is not possible. Programs with stacks of their own are in test_report.py. py-spy is played by a script, so that what
muster does with it is always tested; one test takes the real one (./dev setup peers, or MUSTER_TEST_PEERS=PYTHON)."""
import os
import sys
from pathlib import Path

import pytest
from localcluster import ROOT, wait_for
from reporting import program  # noqa: F401

REAL = Path(os.environ.get("MUSTER_TEST_PEERS", str(ROOT / ".venv/bin/python"))).parent / "py-spy"
HANGS = '''
import os, time
def load_batch():
    print("ready", flush=True)
    time.sleep(1000)
load_batch()
'''
# As the real one writes: "dump --nonblocking --pid N" are its arguments.
PLAYED = '''#!/bin/sh
echo "Process $4: python train.py --token=word-of-the-command"
echo 'Python v3.11.2 (/usr/bin/python3.11)'
echo
echo "Thread $4 (idle): \\"MainThread\\""
echo '    load_batch (muster/data.py:7)'
printf '    \\033[2J<module> (train.py:20)\\n'
'''


@pytest.fixture
def spy(tmp_path):
    """-e PATH=... whose first folder has this text as py-spy."""
    def write(text):
        path = tmp_path / "bin" / "py-spy"
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
        return ["-e", f"PATH={path.parent}:/usr/bin:/bin"]
    return write


def submit_ready(cluster, *words, ranks=1):
    job = cluster.submit(*words)
    wait_for("the program", 20, lambda: cluster.output(job).count("ready") == ranks)
    return job


def look(cluster, job, text, *words, times=1):
    """What it shows, once it has this text: a busy machine may need more than the 5 s that py-spy has."""
    return wait_for(text, 10, lambda: (lambda done: done if done.stdout.count(text) == times else None)(cluster.muster("stacks", job, *words)))


def test_py_spy_shows_where_each_rank_is(make_cluster, spy):
    cluster = make_cluster(nodes=2, slots=1)
    job = submit_ready(cluster, "-N", "2", *spy(PLAYED), "--", "python3", "-c", HANGS, ranks=2)
    shown = look(cluster, job, "load_batch", times=2)
    for rank in "01":
        own = [line[4:] for line in shown.stdout.splitlines() if line.startswith(f"[{rank}] ")]
        assert own[0].startswith("process ") and "(python3): " in own[0], shown
        assert own[1] == "py-spy, as the program offers no stacks itself:", own
        assert '(idle): "MainThread"' in own[4] and own[5] == "    load_batch (muster/data.py:7)", own
        assert own[6] == "    ?[2J<module> (train.py:20)" and len(own) == 7, own
    assert shown.stderr == "" and "word-of-the-command" not in cluster.output(job)
    shown = look(cluster, job, "load_batch", "--rank", "1")
    assert shown.stdout.count("load_batch") == 1 and shown.stderr == ""


def test_a_hang_of_a_program_that_offers_no_stacks_is_located(cluster, spy, program):  # noqa: F811
    job = cluster.submit(*spy(PLAYED), "--", *program('''
        for step in range(1, 21):
            time.sleep(0.05)
            report.note("step", step=step)
        time.sleep(1000)
    '''))
    wait_for("the place", 30, lambda: "has made 20 and is in data.py:7 in load_batch" in cluster.muster("why", job, check=True).stdout)
    wait_for("the stacks in the log", 10, lambda: "    load_batch (muster/data.py:7)" in cluster.output(job))


def test_at_a_hang_ranks_that_report_nothing_are_looked_at_too(make_cluster, spy, program):  # noqa: F811
    """Only rank 0 reports, as often; rank 1 may be the one that hangs."""
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "2", *spy(PLAYED), "--", *program('''
        rank = report.ask("hello")["rank"]
        for step in range(1, 21 if rank == 0 else 1):
            time.sleep(0.05)
            report.note("step", step=step)
        time.sleep(1000)
    '''))
    wait_for("the stall", 30, lambda: "stalled" in cluster.muster("why", job, check=True).stdout)
    wait_for("stacks", 20, lambda: "load_batch" in cluster.muster("logs", "--rank", "1", job).stderr)


PIPE = '''
        import signal
        stacks = socket.socket(socket.AF_UNIX)
        stacks.connect(os.environ["MUSTER_REPORT_SOCKET"])
        stacks.sendall(json.dumps({"do": "stacks", "signal": "USR2", "pipe": True}).encode() + b"\\n")
        told, (pipe,), _, _ = socket.recv_fds(stacks, 4096, 1)
        assert json.loads(told) == {"event": "pipe"} and not os.get_blocking(pipe), told
'''


def test_a_program_has_room_for_its_whole_stacks_in_the_agents_pipe(cluster, program):  # noqa: F811
    """Four threads with 80 frames each: some 2,000 pieces, seven times what a socket holds."""
    job = cluster.submit("--", *program(PIPE + '''
        import faulthandler, threading
        def the_place(depth):
            if depth:
                the_place(depth - 1)
            there.release()
            time.sleep(1000)
        there = threading.Semaphore(0)
        for _ in range(4):
            threading.Thread(target=the_place, args=(79,), daemon=True).start()
            there.acquire()
        faulthandler.register(signal.SIGUSR2, file=pipe, all_threads=True)
        print("ready", flush=True)
        time.sleep(1000)
    '''))
    wait_for("the program", 20, lambda: "ready" in cluster.output(job))
    shown = cluster.muster("stacks", job, check=True).stdout
    assert shown.count(" in the_place") == 4 * 80 and "Current thread" in shown and "process " in shown, shown


def test_stacks_of_a_program_have_no_control_characters(cluster, program):  # noqa: F811
    """A terminal would obey them. Neither the output nor the reason of a stall has any."""
    job = cluster.submit("--", *program(PIPE + '''
        text = 'Current thread 0x01 (most recent call first):\\n  File "/x/da\\x1b[2Jta.py", line 7 in lo\\x9b\\x00ad\\n'
        signal.signal(signal.SIGUSR2, lambda *_: os.write(pipe, text.encode()))
        for step in range(1, 21):
            time.sleep(0.05)
            report.note("step", step=step)
        while True:
            time.sleep(1)
    '''))
    wait_for("the place", 30, lambda: "is in da?[2Jta.py:7 in lo??ad" in cluster.muster("why", job, check=True).stdout)
    assert '  File "/x/da?[2Jta.py", line 7 in lo??ad' in cluster.muster("stacks", job, check=True).stdout


def test_why_names_stacks_where_nothing_is_reported(cluster):
    job = submit_ready(cluster, "--", "sh", "-c", "echo ready; sleep 1000")
    cluster.wait_state(job, "running")
    assert f"`muster stacks {job}` shows where each rank is" in cluster.muster("why", job, check=True).stdout


def test_without_py_spy_it_says_what_to_do(cluster, tmp_path):
    if any(Path(folder, "py-spy").exists() for folder in ("/usr/bin", "/bin")):
        pytest.skip("py-spy is installed beside the system's Python")
    empty = ["-e", "PATH=/usr/bin:/bin", "-e", f"HOME={tmp_path}", "-e", "VIRTUAL_ENV=", "-e", "CONDA_PREFIX="]
    job = submit_ready(cluster, *empty, "--", "/usr/bin/python3", "-c", HANGS)
    shown = look(cluster, job, "py-spy is not installed").stdout
    assert "(python3): " in shown, shown
    assert "py-spy is not installed for it on node node1: `pip install py-spy` there, or call the package muster" in shown, shown


def test_what_is_no_python_is_told_with_what_it_does(cluster):
    job = submit_ready(cluster, "--", "sh", "-c", "sleep 1000 & echo ready; wait")
    shown = look(cluster, job, "none of these processes is known to be Python").stdout
    assert "(sh): " in shown and "process " in shown.split("(sh)")[1], shown
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=20)
    done = cluster.muster("stacks", job)
    assert done.returncode == 2 and "none of its programs runs" in done.stderr, done


def test_the_real_py_spy_is_found_beside_python_and_shows_its_children(cluster, tmp_path):
    """A virtual environment that is not in PATH; a child of the worker as torchrun has."""
    if not REAL.exists():
        pytest.skip(f"there is no {REAL}: ./dev setup peers (or MUSTER_TEST_PEERS=PYTHON)")
    python = tmp_path / "venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(Path(sys.executable).resolve())
    (python.parent / "py-spy").symlink_to(REAL.resolve())
    (tmp_path / "child.py").write_text(HANGS)
    (tmp_path / "parent.py").write_text(f"import subprocess, sys\ndef watch_child():\n    subprocess.run([sys.executable, '{tmp_path}/child.py'])\nwatch_child()\n")
    job = submit_ready(cluster, "-e", "PATH=/usr/bin:/bin", "--", python, tmp_path / "parent.py")
    shown = cluster.muster("stacks", job, check=True).stdout
    if "py-spy may not look" in shown:
        pytest.skip(shown)
    shown = look(cluster, job, "    load_batch (child.py:5)").stdout
    assert "    watch_child (parent.py:3)" in shown, shown
    assert shown.index("watch_child") < shown.index("load_batch"), "the worker's own process is the first"
