"""What can be done by channels (docs/shell.md) and by the socket for reports (docs/report.md), as a viewer, a member, an agent and a
worker of tenant blue. Each function is one attack; see attack.py."""
import json
import os
import socket

from wire import fields, number, text

CHUNK = 32 << 10


def opened(attack, peer, *argv, port=0, job=None):
    """The id of a channel beside blue's own worker, None if it is refused, or the time is over: then answers are left unread, and one
    of them would be taken for this one's."""
    if attack.over():
        return None
    message = text(1, job or attack.place["job"]) + b"".join(text(3, word) for word in argv) + (number(8, port) if port else b"")
    attack.attempts += 1
    code, told, payload = peer.call("Coordinator.OpenChannel", message, token=attack.place["member"])
    attack.noted(code, told)
    return fields(payload)[1].decode() if code == "OK" else None


def send(peer, attack, id, offset=0, data=b"", more=b""):
    return peer.request("Coordinator.SendChannel", text(1, id) + number(2, offset) + text(3, data) + more, token=attack.place["member"], timeout_ms=3000)


def receive(peer, attack, id, offset=0, token=None):
    return peer.request("Coordinator.ReceiveChannel", text(1, id) + number(2, offset), token=token or attack.place["member"], timeout_ms=3000)


# ---- a viewer ----

def denied_channels(attack):
    """Beside workers of its own tenant and of the other; channels of others by guess."""
    with attack.peer() as peer:
        token = attack.place["viewer"]
        while not attack.over():
            id = attack.random.randbytes(16).hex()
            attack.calls(peer, b"".join(peer.request(f"Coordinator.{method}", message, token=token) for method, message in (
                ("OpenChannel", text(1, attack.place["job"]) + number(4, 1)), ("OpenChannel", text(1, attack.place["victim"]) + text(3, "id")),
                ("OpenChannel", text(1, attack.place["victim"]) + number(8, 22)), ("SendChannel", text(1, id) + text(3, "reboot\n")),
                ("ReceiveChannel", text(1, id)), ("SendChannel", text(1, "") + number(7, 1)), ("ListChannels", b""))) * 10, 70)


# ---- a member ----

def channel_opens(attack):
    """As many as it is let, of programs that end at once, none of them read or closed."""
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            if not opened(attack, peer, "/bin/true"):
                attack.rest(1)


def tiny_chunks(attack):
    """A byte a call, both ways, and a window that changes with each."""
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            id = opened(attack, peer, "/bin/cat")
            for at in range(0, 2000 if id else 0, 50):
                calls = b"".join(send(peer, attack, id, n, b"x", number(5, 24 + n % 2) + number(6, 80)) + receive(peer, attack, id, n) for n in range(at, at + 50))
                attack.calls(peer, calls, 100)
            attack.rest(0 if id else 1)


def huge_writes(attack):
    """To a program that does not read, from one that is not read; at wrong offsets; larger than a call may be."""
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            id = opened(attack, peer, "/bin/sh", "-c", "cat /dev/zero & exec sleep 60")
            if id:
                chunk = os.urandom(CHUNK)
                attack.calls(peer, b"".join(send(peer, attack, id, n * CHUNK, chunk) for n in range(16)), 16)
                attack.calls(peer, b"".join(send(peer, attack, id, n, chunk * more) for n, more in ((1 << 63, 1), ((1 << 64) - 1, 1), (0, 3), (0, 1))), 4)
                attack.calls(peer, b"".join(receive(peer, attack, id, n) for n in (1 << 62, (1 << 64) - 1, 0, 0)), 4)
                attack.calls(peer, send(peer, attack, id, more=number(7, 1)), 1)
            attack.rest(0 if id else 1)


def waiting_senders(attack):
    """Hundreds of calls that wait for room in one channel."""
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            id = opened(attack, peer, "/bin/sleep", "60")
            if id:
                attack.calls(peer, b"".join(send(peer, attack, id, n * CHUNK, bytes(CHUNK)) for n in range(6)), 6)
                attack.calls(peer, send(peer, attack, id, 3 * CHUNK, bytes(CHUNK)) * 300 + receive(peer, attack, id) * 300, 600)
            attack.rest(0 if id else 1)


def foreign_channels(attack):
    """Beside red's workers, and to ports that are not the job's."""
    with attack.peer(timeout=60) as peer:
        ports = [int(attack.place["http"].rsplit(":", 1)[1]), int(attack.place["rpc"].split("?")[0].rsplit(":", 1)[1]), 22, 65535]
        while not attack.over():
            for words in ((), ("/bin/sh", "-c", "id")):
                opened(attack, peer, *words, job=attack.place["victim"])
            for port in ports:
                id = opened(attack, peer, port=port)
                if id:
                    attack.attempts += 2
                    peer.socket.sendall(send(peer, attack, id, 0, b"GET / HTTP/1.0\r\n\r\n") + receive(peer, attack, id))
                    for _ in range(2):
                        code, told, payload = peer.answer()
                        attack.noted(code, told)
                        if b"HTTP/1" in payload:
                            attack.unnamed.setdefault(f"port {port} answered {payload[:80]}", attack.name)
                    attack.calls(peer, send(peer, attack, id, more=number(7, 1)), 1)
            attack.rest(1)


ESCAPES = """
import os, signal, sys
for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "599"])
        os._exit(0)
for path in (f"/proc/{os.getppid()}/fd", f"/proc/{os.getppid()}/environ"):
    try:
        os.listdir(path) if path.endswith("fd") else open(path).read()
        print("ESCAPED", path)
    except OSError:
        pass
"""


def leaving_programs(attack):
    """Programs that leave their session and ignore signals, given up again and again."""
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            id = opened(attack, peer, "/usr/bin/python3", "-c", ESCAPES)
            if id:
                attack.attempts += 1
                code, told, payload = peer.call("Coordinator.ReceiveChannel", text(1, id), token=attack.place["member"], timeout_ms=10000)
                attack.noted(code, told)
                if b"ESCAPED" in payload:
                    attack.unnamed.setdefault(str(payload[:80]), attack.name)
                attack.calls(peer, send(peer, attack, id, more=number(7, 1)), 1)
            attack.rest(1)


# ---- an agent ----

def forged_channels(attack, peer, name):
    """Bytes and ends of channels of other nodes, by guess."""
    for node, incarnation in ((name, 7), ("node1", 7)):
        id = attack.random.randbytes(16).hex()
        head = text(1, node) + number(2, incarnation) + text(3, id)
        end = text(7, number(1, 1) + text(4, "\x1b[2J" * 100))
        attack.calls(peer, b"".join(peer.request(f"Nodes.{method}", message) for method, message in (
            ("SendTerminal", head + text(5, bytes(CHUNK))), ("SendTerminal", head + end), ("ReceiveTerminal", head + number(4, 1 << 63)))) * 20, 60)


# ---- a worker ----

def lines(attack):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(2)
    one.connect(os.environ["MUSTER_REPORT_SOCKET"])
    attack.attempts += 1
    return one


def said(attack, *words):
    """Lines on a connection of their own, as often as they are taken, and answers that are not read."""
    data = b"".join(json.dumps(word).encode() + b"\n" for word in words) * 50
    with lines(attack) as one:
        while not attack.over():
            attack.attempts += 50 * len(words)
            one.sendall(data)


def report_flood(attack):
    said(attack, {"do": "step", "step": 1 << 52, "loss": "nan"}, {"do": "metric", "metrics": {f"m{attack.random.randrange(1 << 30)}": 1e308}}, {"do": "hello", "id": 1},
         {"do": "step", "step": 0, "generation": 1 << 40}, {"do": "pause", "for_s": 1e300})


def report_board(attack):
    said(attack, {"do": "put", "id": 1, "key": "k" * 256, "value": "v" * 16000}, {"do": "get", "id": 2, "key": "none", "wait_s": 600},
         {"do": "put", "id": 3, "key": f"k{attack.random.randrange(1 << 30)}", "value": ""}, {"do": "join", "id": 4, "generation": 1 << 40})


def report_checkpoints(attack):
    said(attack, *({"do": "checkpoint", "id": 1, "state": "whole", "step": n, "path": path, "bytes": 1 << 50}
                   for n, path in enumerate(("/etc", "../../../etc", "/proc/self/root", "\x1b[2J", "p" * 5000, "/dev/zero"))))


def report_garbage(attack):
    """Half lines, long lines, deep lines, text of stacks that was not asked for."""
    with lines(attack) as one:
        attack.attempts += 1
        one.sendall(attack.random.choice([b"{" * 200_000, b"[" * 30_000 + b"\n", attack.random.randbytes(50_000), b'{"do":"stacks","signal":"KILL"}\n' * 100,
                                          b'{"do":"stacks","signal":"USR2"}\n' + b"File \"\x1b[2J\", line 1, in x\n" * 50_000, b'{"do": "step", "step": 1e999}\n' * 100]))
        attack.rest(0.05)


def report_connections(attack):
    sockets = []
    try:
        for _ in attack.times(60):
            sockets.append(lines(attack))
            sockets[-1].sendall(b'{"do": "should_stop", "id": 1')
    finally:
        attack.hold(sockets, 3)


VIEWER = [denied_channels]
MEMBER = [channel_opens, tiny_chunks, huge_writes, waiting_senders, foreign_channels, leaving_programs]
WORKER = [report_flood, report_board, report_checkpoints, report_garbage, report_connections]
