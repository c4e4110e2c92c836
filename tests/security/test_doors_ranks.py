"""Doors of ranks: the ports at which the workers of one job wait for one another, on TCP and on an abstract socket. Whoever is on the
node's network, or on the node as another user, can connect.

| attack | door | what must hold |
|---|---|---|
| connect | each address of the machine | ranks listen at their node's address alone |
| silence, half a hello, text without end | both ports, before the ranks meet | nothing but a challenge is answered; the ranks meet |
| a hello with another secret | both ports | refused, without a mac |
| hellos of other generations | both ports | the generation is told, and no more |
| more connections than a rank has places for | both ports | the ranks meet |
| the same once they train, and while they form anew | both ports | no step is lost |
"""
import json
import os
import resource
import socket
import struct

import pytest
from localcluster import kill, wait_for
from test_isolation import example

MAGIC, VERSION, WELCOME_BYTES, CHALLENGE_BYTES = 0x68736B77, 2, 48, 24
WELCOMED, BEHIND, AHEAD, REFUSED = range(4)


def hello(generation, to=0, who=1, world=2, channel=0, mac=b"m" * 32):
    return struct.pack("<IIQiiiHH16s32s", MAGIC, VERSION, generation, who, to, world, channel, 1, b"n" * 16, mac)


FORGED = {"silence": b"", "half a hello": hello(1)[:40], "text": b"x" * 100_000, "another secret": hello(1), "the past": hello(0), "the future": hello(1 << 60),
          "nobody's rank": hello(1, who=1 << 30), "a negative rank": hello(1, who=-1, channel=0xFFFF), "HTTP": b"GET / HTTP/1.1\r\n\r\n"}


def dial(place):
    """`place`: (host, port), or the name of an abstract socket."""
    one = socket.socket(socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX)
    one.setblocking(False)
    try:
        one.connect(place if isinstance(place, tuple) else "\0" + place)
    except BlockingIOError:
        pass
    return one


def say(one, data):
    try:
        one.send(data)
    except OSError:
        pass  # not there yet, or hung up already


def answered(one):
    """What has come, without waiting."""
    data = b""
    try:
        while more := one.recv(65536):
            data += more
    except OSError:
        pass
    return data


def listeners(pid):
    """(host, port) and names that a process listens at."""
    inodes = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(entry.path).removeprefix("socket:[").rstrip("]"))
        except OSError:
            pass
    with open("/proc/net/tcp") as file:
        tcp = [line.split() for line in file.readlines()[1:]]
    with open("/proc/net/unix") as file:
        local = [line.split() for line in file.readlines()[1:]]
    found = [(socket.inet_ntoa(struct.pack("<I", int(row[1][:8], 16))), int(row[1][9:], 16)) for row in tcp if row[3] == "0A" and row[9] in inodes]
    return found, [row[7][1:] for row in local if row[6] in inodes and len(row) > 7 and row[7].startswith("@muster-")]


class Attack:
    """Connections that say each of FORGED, at each place."""

    def __init__(self, places, silent=0):
        self.open = [(what, dial(place)) for place in places for what in FORGED]
        for what, one in self.open:
            say(one, FORGED[what])
        self.open += [("silence", dial(place)) for place in places for _ in range(silent)]

    def end(self):
        """Nobody was let in: (challenges, refusals) that were heard."""
        challenges = refusals = 0
        for what, one in self.open:
            heard = answered(one)
            one.close()
            assert len(heard) in (0, CHALLENGE_BYTES, CHALLENGE_BYTES + WELCOME_BYTES), (what, heard)
            challenges += len(heard) > 0
            if len(heard) > CHALLENGE_BYTES:
                magic, status, _, _, mac = struct.unpack("<IHHQ32s", heard[CHALLENGE_BYTES:])
                assert magic == MAGIC and mac == bytes(32) and status != WELCOMED, (what, heard)
                assert status == {"the past": BEHIND, "the future": AHEAD}.get(what, REFUSED) or status in (BEHIND, AHEAD), (what, status)
                refusals += 1
        return challenges, refusals


@pytest.fixture
def descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def train(cluster, go, *options):
    """Two ranks; rank 1 begins once the file `go` is there. Returns the job and the pid of rank 0, which waits for it."""
    gpt, finds_library = example(cluster, "gpt")
    script = f'[ "$RANK" = 0 ] || while [ ! -e {go} ]; do sleep 0.05; done; exec "$@"'
    job = cluster.submit("-w", "2", *finds_library, *options, "--", "/bin/sh", "-c", script, "sh", gpt, "--data", "/usr/share/common-licenses/GPL-3",
                         "--steps", "100000000", "--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--batch", "2", "--sample", "0")

    def waits():
        for worker in cluster.job(job).get("workers", []):
            if worker["rank"] == 0 and worker.get("pid") and listeners(worker["pid"])[0]:
                return worker["pid"]
    return job, wait_for("rank 0 to listen", 30, waits)


def steps(cluster, job):
    return int(cluster.job(job).get("step") or 0)


def goes_on(cluster, job):
    now = steps(cluster, job)
    wait_for("more steps", 60, lambda: steps(cluster, job) > now + 2)


def test_strangers_at_the_ports_of_ranks_are_not_let_in_and_hold_nobody_up(cluster, tmp_path, descriptors):
    go = tmp_path / "go"
    job, pid = train(cluster, go, "--restarts", "2")
    tcp, names = listeners(pid)
    address = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]["address"]
    assert {host for host, _ in tcp} == {address} and len(names) == 1, (tcp, names, address)
    attack = Attack([*tcp, *names], silent=400)
    go.touch()
    wait_for("it to train", 60, lambda: steps(cluster, job) > 2)
    challenges, refusals = attack.end()
    assert challenges > 0 and refusals > 0
    assert cluster.job(job)["restarts"] == 0
    # While they train, and form anew.
    now = cluster.job(job)["workers"]
    attack = Attack([place for worker in now for places in listeners(worker["pid"]) for place in places], silent=200)
    goes_on(cluster, job)
    assert cluster.job(job)["restarts"] == 0
    kill(int(next(worker["pid"] for worker in now if worker["rank"] == 1)), 9)
    wait_for("it to form anew", 60, lambda: cluster.job(job)["state"] == "running" and {w["pid"] for w in cluster.job(job)["workers"]} != {w["pid"] for w in now})
    goes_on(cluster, job)
    attack.end()
    assert cluster.job(job)["restarts"] == 1
