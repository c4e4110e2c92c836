"""Terminals, programs and connections beside a worker: muster shell, exec and forward."""
import fcntl
import hashlib
import http.client
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, gone, wait_for
from test_access import as_user, new_token

SLEEP = ["--", "/bin/sh", "-c", "echo up; exec sleep 600"]


@pytest.fixture
def job(cluster):
    name = cluster.submit("--name", "sleeper", *SLEEP)
    cluster.wait_state(name, "running")
    return name


class Terminal:
    """A person at a terminal of 50 rows and 132 columns, in which a verb runs."""
    def __init__(self, cluster, *words):
        self.text = b""
        self.child, self.fd = pty.fork()
        if self.child == 0:
            self.resize(50, 132, 0)
            os.execve(str(MUSTER), [str(MUSTER), *map(str, words)], {**cluster.environment(), "TERM": "xterm"})
        os.set_blocking(self.fd, False)

    def resize(self, rows, columns, fd=None):
        fcntl.ioctl(self.fd if fd is None else fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self):
        try:
            self.text += os.read(self.fd, 65536)
        except BlockingIOError:
            pass
        except OSError:  # it ended
            return self.text
        return self.text

    def expect(self, pattern, seconds=15):
        try:
            return wait_for(pattern, seconds, lambda: re.search(pattern.encode(), self.read()))
        except TimeoutError as error:
            raise AssertionError(f"{error}; the terminal shows {self.text[-300:]}") from None

    def run(self, line, pattern, seconds=15):
        self.text = b""
        self.type(line + "\r")
        return self.expect(pattern, seconds)

    def command(self, line, pattern):
        """A line for a shell, which shows what is typed before its prompt a second time."""
        self.expect(r"[#$] $")
        return self.run(line, pattern)

    def is_raw(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def await_raw(self):
        def raw():
            text, (pid, status) = self.read(), os.waitpid(self.child, os.WNOHANG)
            assert not pid, f"the verb ended with {os.waitstatus_to_exitcode(status)}: {text}"
            return self.is_raw()
        wait_for("raw mode", 15, raw)

    def end(self, seconds=15):
        def ended():
            self.read()
            pid, status = os.waitpid(self.child, os.WNOHANG)
            return (os.waitstatus_to_exitcode(status),) if pid else None
        return wait_for("the verb's end", seconds, ended)[0]


def open_channels(cluster, job):
    return cluster.rest("GET", f"/v1/jobs/{job}/channels")[1].get("channels", [])


def test_a_shell_is_a_terminal_beside_the_worker(cluster, job):
    person = Terminal(cluster, "shell", job)
    person.await_raw()
    person.command("stty size; echo $TERM", r"50 132\r\nxterm")
    person.resize(24, 80)
    person.command('until [ "$(stty size)" = "24 80" ]; do sleep 0.05; done; echo resized=$((2+3))', "resized=5")
    person.command("echo rank=$RANK job=$MUSTER_JOB", f"[\\r\\n]rank=0 job={job}")
    # Its own line says that the program has the terminal: a Ctrl-C before that is the shell's.
    person.command("sh -c 'echo begun=$((2+3)); exec sleep 100'", "begun=5")
    person.type("\x03")
    person.command("echo $((6*7)) code=$?", r"[\r\n]42 code=130")
    assert [c["what"] for c in open_channels(cluster, job)] == ["a shell"]
    shown = cluster.muster("show", job, check=True).stdout
    assert re.search(r"RANK +NODE +OPEN +BY +SINCE\n +0 +node1 +a shell +\S+ +[\d.hms ]+ ago\n", shown), shown
    person.type("exit 5\r")
    assert person.end() == 5
    assert not person.is_raw(), "the terminal is as it was"
    wait_for("the end to be known", 5, lambda: not open_channels(cluster, job))
    assert "OPEN" not in cluster.muster("show", job, check=True).stdout
    events = cluster.muster("events", job, check=True).stdout
    assert "admin opened a shell beside rank 0" in events and "ended after" in events and "exit code 5" in events
    audit = json.dumps(cluster.rest("GET", "/v1/audit?newest=true&limit=50")[1])
    assert "OpenChannel" in audit and "EndChannel" in audit


def test_an_escape_leaves_a_shell_that_hangs(cluster, job):
    person = Terminal(cluster, "shell", job)
    person.await_raw()
    person.command("echo a~.b", r"[\r\n]a~\.b")
    person.type("sleep 100\r")
    person.type("~.")
    assert person.end() == 255
    assert not person.is_raw()


def test_each_key_is_echoed_before_the_next_is_typed(cluster, job):
    person = Terminal(cluster, "exec", job, "-t", "--", "cat")
    person.await_raw()
    person.run("ready", r"ready\r\n(\x1b\[[^a-z]*[a-z]\r?)?ready")
    for key in "abcdefghijklmnopqrstu":
        person.text = b""
        person.type(key)
        person.expect(key)
    person.type("\r\x04")
    assert person.end() == 0


def test_a_program_has_its_own_input_output_and_code(cluster, job):
    run = lambda *words, **more: subprocess.run([str(MUSTER), "exec", job, "--", *words], env=cluster.environment(), capture_output=True, timeout=HANG_SECONDS, **more)
    done = run("sh", "-c", "cat; echo oops >&2; exit 7", input=b"typed\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"typed\n", b"oops\n")
    assert run("sh", "-c", "kill -9 $$").returncode == 137
    done = run("no-such-program")
    assert done.returncode == 127 and b"no such program" in done.stderr
    data = os.urandom(3_000_000)
    assert run("cat", input=data).stdout == data
    assert run("true", input=data).returncode == 0, "input that nobody reads"


def test_a_lot_of_output_needs_little_memory(cluster, job):
    size = 100_000_000
    process = subprocess.Popen([str(MUSTER), "exec", job, "--", "head", "-c", str(size), "/dev/zero"], env=cluster.environment(), stdout=subprocess.PIPE)
    digest, got, peak = hashlib.sha256(), 0, lambda pid: int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])
    before = peak(cluster.coordinator.pid)
    while piece := process.stdout.read(1 << 20):
        digest.update(piece)
        got += len(piece)
    assert process.wait(HANG_SECONDS) == 0 and got == size
    assert digest.hexdigest() == hashlib.sha256(bytes(size)).hexdigest()
    assert peak(cluster.coordinator.pid) - before < 16 << 10, "KiB"


def test_a_reader_that_pauses_holds_the_program_and_loses_nothing(cluster, job):
    process = subprocess.Popen([str(MUSTER), "exec", job, "--", "seq", "200000"], env=cluster.environment(), stdout=subprocess.PIPE)
    assert process.stdout.read(2) == b"1\n"
    time.sleep(20)  # longer than a silent client is waited for
    assert len(open_channels(cluster, job)) == 1
    rest = process.stdout.read()
    assert process.wait(HANG_SECONDS) == 0 and rest.split() == [b"%d" % i for i in range(2, 200001)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_there(cluster, job, number):
    process = subprocess.Popen([str(MUSTER), "exec", job, "--", "sh", "-c", "echo $$; exec sleep 4321"], env=cluster.environment(), stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(HANG_SECONDS) == 128 + number
    wait_for("the program's end", 10, lambda: gone(pid))


def test_a_client_that_is_killed_leaves_nothing(cluster, job):
    process = subprocess.Popen([str(MUSTER), "exec", job, "--", "sh", "-c", "echo $$; exec sleep 4322"], env=cluster.environment(), stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_for("the program's end", 30, lambda: gone(pid))
    assert wait_for("the record", 5, lambda: "its client is gone" in cluster.muster("events", job, check=True).stdout)


def sleeper_beside(cluster, job):
    """`muster exec` of a program that runs."""
    process = subprocess.Popen([str(MUSTER), "exec", job, "--", "sh", "-c", "echo runs; exec sleep 600"], env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"runs\n"
    return process


def test_a_terminal_ends_with_its_job_and_with_the_coordinator(cluster, job):
    process = sleeper_beside(cluster, job)
    cluster.muster("cancel", job, check=True)
    assert process.wait(HANG_SECONDS) == 255 and b"ended" in process.stderr.read()
    again = cluster.submit("--name", "again", *SLEEP)
    cluster.wait_state(again, "running")
    process = sleeper_beside(cluster, again)
    cluster.kill_coordinator()
    cluster.start_coordinator()
    assert process.wait(HANG_SECONDS) == 255 and b"the coordinator was restarted" in process.stderr.read()
    cluster.muster("cancel", again, check=True)


def test_others_are_refused(cluster):
    cluster.muster("tenant", "create", "red", check=True)
    cluster.muster("tenant", "create", "blue", check=True)
    red, blue = new_token(cluster, "red-ci", "--tenant", "red"), new_token(cluster, "blue-ci", "--tenant", "blue")
    viewer = new_token(cluster, "watcher", "--role", "viewer", "--tenant", "red")
    job = as_user(cluster, red, "submit", "--name", "mine", *SLEEP).stdout.strip()
    cluster.wait_state(job, "running")
    assert as_user(cluster, red, "exec", job, "--", "echo", "hello").stdout == "hello\n"
    for verb in (["exec", job, "--", "id"], ["shell", job], ["forward", job, "0:80"]):
        done = as_user(cluster, blue, *verb)
        assert done.returncode == 2 and f"no job has the id or name '{job}'" in done.stderr, (verb, done.stderr)
    for verb in (["exec", job, "--", "id"], ["forward", job, "0:80"]):
        done = as_user(cluster, viewer, *verb)
        assert done.returncode == 3 and "needs a token of role admin or member, not viewer" in done.stderr, (verb, done.stderr)
        assert "muster token create" in done.stderr and not done.stdout, (verb, done)  # nothing listens
    done = as_user(cluster, red, "exec", job, "--rank", "9", "--", "id")
    assert done.returncode == 2 and "has no rank 9" in done.stderr


def test_an_idle_one_ends(make_cluster):
    cluster = make_cluster(nodes=0, coordinator=False)
    cluster.start_coordinator(["--terminal-idle", "3s"])
    cluster.start_agent("node1", "--slots", "1")
    cluster.wait_nodes(1)
    job = cluster.submit("--name", "idle", *SLEEP)
    cluster.wait_state(job, "running")
    done = cluster.muster("exec", job, "--", "sleep", "100")
    assert done.returncode == 255 and "nothing was typed or printed for 3s" in done.stderr, done.stderr


def test_a_port_of_the_worker_is_reached_from_here(cluster, tmp_path):
    data = os.urandom(2_000_000)
    (tmp_path / "blob").write_bytes(data)
    job = cluster.submit("--name", "web", "--", "python3", "-u", "-c", f'''
import functools, http.server
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory={str(tmp_path)!r})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()''')
    port = int(wait_for("the server", 15, lambda: re.search(r"port (\d+)", cluster.output(job)))[1])
    process = subprocess.Popen([str(MUSTER), "forward", job, f"0:{port}", "-v"], env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    here = int(re.match(rf"forwarding 127\.0\.0\.1:(\d+) to port {port} of rank 0 of job {job}; Ctrl-C ends it", process.stdout.readline())[1])
    for _ in range(3):
        connections = [http.client.HTTPConnection("127.0.0.1", here, timeout=HANG_SECONDS) for _ in range(8)]
        for connection in connections:
            connection.request("GET", "/blob")
        for connection in connections:
            assert connection.getresponse().read() == data
            connection.close()
    kept = [socket.create_connection(("127.0.0.1", here), timeout=HANG_SECONDS) for _ in range(12)]
    wait_for("all places to be taken", 30, lambda: cluster.muster("show", job, check=True).stdout.count(f"port {port}") == len(kept))
    for connection in kept:
        connection.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_SECONDS) == 0
    said = process.stderr.read()
    assert f"connection 1 to port {port} on node1" in said
    assert said.count("12 connections are open, which is the most; others wait until one ends\n") == 1, said
    events = cluster.muster("events", job, check=True).stdout
    assert 1 <= events.count("opened a connection to port") < 12, "connections at a time are one event"
    refused = subprocess.Popen([str(MUSTER), "forward", job, "0:1"], env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    here = int(re.search(r"127\.0\.0\.1:(\d+)", refused.stdout.readline())[1])
    with pytest.raises((http.client.HTTPException, OSError)):
        connection = http.client.HTTPConnection("127.0.0.1", here, timeout=HANG_SECONDS)
        connection.request("GET", "/")
        connection.getresponse()
    refused.send_signal(signal.SIGINT)
    assert refused.wait(HANG_SECONDS) == 0 and "port" in refused.stderr.read()
