"""What an agent's token, a stranger on the port and a user of the machine can do at once. Each function is one attack; see attack.py."""
import os
import re
import socket
import ssl
import struct
import subprocess
import tempfile
from pathlib import Path

from attackers_beside import forged_channels
from wire import Peer, number, text

BOMB = b"\x0a\x00" * (2 << 20)


def quiet(act, *words):
    try:
        return act(*words)
    except OSError:
        return None


def rpc_address(attack):
    host, port = attack.place["rpc"].split("://")[1].split("?")[0].rsplit(":", 1)
    return host, int(port)


def dial_rpc(attack, timeout=10):
    return socket.create_connection(rpc_address(attack), timeout, (attack.source(), 0))


# ---- a stolen token of role agent ----

def registration(name, incarnation, more=b""):
    return text(1, name) + number(2, incarnation) + text(3, "127.0.0.1") + number(4, 2) + number(11, 21000) + number(12, 21999) + more


def key(attack):
    return attack.random.choice(attack.place["keys"])


def taken_names(attack):
    token, n = attack.place["agent"], 1 << 40
    with attack.peer(keys=key(attack)) as peer:
        while not attack.over():
            n += 1
            attack.calls(peer, b"".join(peer.request("Nodes.RegisterNode", registration(name, n), token=token)
                                        for name in ("node1", "node2", "NODE1", "node1 ", "../node1", "n" * 5000)) * 10, 60)


def new_nodes(attack):
    """Nodes that do not exist, each with a key of its own, that take work and then are silent."""
    # In memory: the thief's machines would write to disks of their own.
    with tempfile.TemporaryDirectory(dir="/dev/shm", suffix=attack.place["mark"]) as folder:
        n = 0
        while not attack.over():
            n += 1
            data = Path(folder) / f"{n}"
            subprocess.run([attack.place["muster"], "tls", "init", "--data", str(data)], check=True, capture_output=True)
            labels = b"".join(text(7, text(1, f"l{i}") + text(2, "v" * 60)) for i in range(30))
            with attack.peer(keys=str(data / "server.pem")) as peer:
                name = f"fake{attack.random.randrange(1 << 30)}"
                attack.calls(peer, peer.request("Nodes.RegisterNode", registration(name, 7, labels), token=attack.place["agent"]), 1)
                attack.calls(peer, peer.request("Nodes.Poll", text(1, name) + number(2, 7)) * 20, 20)


def as_node(attack, act):
    """A connection of a node that the token let in."""
    keys = attack.place["own_keys"][act.__name__]
    name = "own-" + os.path.basename(os.path.dirname(keys)).replace("_", "-")
    with attack.peer(keys=keys, timeout=30) as peer:
        attack.calls(peer, peer.request("Nodes.RegisterNode", registration(name, 7), token=attack.place["agent"]), 1)
        while not attack.over():
            act(attack, peer, name)


def poll_storm(attack, peer, name):
    attack.calls(peer, peer.request("Nodes.Poll", text(1, name) + number(2, 7)) * 200, 200)


def forged_reports(attack, peer, name):
    victim = text(1, attack.place["victim"]) + number(2, 1)
    exited = victim + number(3, 5) + text(11, number(1, 0))
    line = victim + text(6, number(1, 1) + text(5, "forged" * 100)) * 100
    sample = text(5, text(1, attack.place["victim"]) + number(2, 1) + number(3, 1 << 30) + text(5, "loss") + b"\x31" + struct.pack("<d", 1e9)) * 500
    attack.reported = getattr(attack, "reported", 0) + 1
    for node, incarnation in ((name, 7), ("node1", 7), ("node2", 1)):
        head = text(1, node) + number(2, incarnation) + number(3, attack.reported)
        attack.calls(peer, b"".join(peer.request("Nodes.Report", head + lie) for lie in (text(4, exited), text(6, line), sample, text(4, exited) * 2000)), 4)


def forged_calls(attack, peer, name):
    job = text(1, attack.place["victim"]) + number(2, 1)
    for node in (name, "node1"):
        attack.calls(peer, peer.request("Nodes.Board", job + number(3, 1) + text(4, "k") + text(5, bytes(60000)) + number(6, 1) + text(8, node) + number(9, 7)) * 20, 20)
        done = job + number(3, 2) + text(4, number(1, 1 << 50) + text(2, "/tmp/none") + number(3, 1)) + text(5, node) + number(6, 7)
        attack.calls(peer, peer.request("Nodes.CommitCheckpoint", done) * 20, 20)
        attack.calls(peer, peer.request("Nodes.Poll", text(1, node) + number(2, 7) + number(5, 1) + text(4, text(1, attack.place["victim"])) * 2000), 1)


def half_reports(attack, peer, name):
    """Messages of 8 MiB of which the last byte does not come, from a connection that is a node's."""
    peer.socket.sendall(struct.pack(">Q", 8 << 20) + b"\x80\0\0\1" + bytes((7 << 20) - 12))
    attack.attempts += 1
    attack.rest(3)
    raise OSError("begin anew")


def as_poller(attack):
    as_node(attack, poll_storm)


def as_forger(attack):
    as_node(attack, forged_reports)


def as_caller(attack):
    as_node(attack, forged_calls)


def as_channel_forger(attack):
    as_node(attack, forged_channels)


def as_half_reporter(attack):
    as_node(attack, half_reports)


def clients_calls(attack):
    """What an agent's token may not do at all."""
    with attack.peer(keys=key(attack)) as peer:
        token = attack.place["agent"]
        while not attack.over():
            attack.calls(peer, b"".join(peer.request("Coordinator." + method, token=token) for method in
                                        ("ListJobs", "SubmitJob", "CreateToken", "ListTokens", "Plan", "Overview", "ListAudit", "Backup")) * 10, 80)


def handshakes(attack):
    """Whole handshakes with a key, and nothing after them."""
    while not attack.over():
        attack.attempts += 1
        attack.peer(keys=key(attack)).close()


def held_handshakes(attack):
    peers = []
    try:
        for _ in attack.times(300):
            attack.attempts += 1
            peers.append(attack.peer(keys=key(attack)))
    finally:
        attack.hold(peers, 3)


# ---- a stranger on both ports ----

def silent_connections(attack):
    sockets = []
    try:
        for _ in attack.times(700):
            attack.attempts += 1
            sockets.append(dial_rpc(attack))
    finally:
        attack.hold(sockets, 4)


def half_handshakes(attack):
    """A ClientHello, whole or cut, and no more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello, sockets = outgoing.read(), []
    try:
        for i in attack.times(500):
            attack.attempts += 1
            sockets.append(dial_rpc(attack))
            sockets[-1].sendall(hello[:len(hello) if i % 2 else attack.random.randrange(len(hello))])
    finally:
        attack.hold(sockets, 3)


def stranger_handshakes(attack):
    while not attack.over():
        attack.attempts += 1
        attack.peer().close()


def rpc_garbage(attack):
    while not attack.over():
        attack.attempts += 1
        with dial_rpc(attack) as one:
            one.sendall(attack.random.choice([attack.random.randbytes(4000), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70000), b"\0SP\0\0\x30\0\0"]))
            one.settimeout(0.2)
            quiet(one.recv, 100)


def wrong_tokens(attack):
    with attack.peer() as peer:
        while not attack.over():
            attack.calls(peer, peer.request("Coordinator.ListJobs", token=attack.random.randbytes(16).hex()) * 8, 8)


def versions(attack):
    attack.flood("Coordinator.Version", b"", "")


def stranger_bombs(attack):
    with attack.peer() as peer:
        attack.attempts += 1
        peer.socket.sendall(peer.request(attack.random.choice(["Coordinator.ListJobs", "Coordinator.Version", "Nodes.Report"]), BOMB, token="x"))
        attack.read(peer, 1)


def stranger_half_messages(attack):
    peers = []
    try:
        for _ in attack.times(40):
            attack.attempts += 1
            peers.append(attack.peer())
            quiet(peers[-1].socket.sendall, struct.pack(">Q", 8 << 20) + b"\x80\0\0\1" + bytes((2 << 20) - 100))
    finally:
        attack.hold(peers, 3)


def dripped_headers(attack):
    sockets = []
    try:
        for _ in attack.times(1200):
            attack.attempts += 1
            sockets.append(attack.dial())
            sockets[-1].sendall(b"GET /v1/jobs HTTP/1.1\r\nX: ")
        for _ in range(5):
            attack.rest(1)
            for one in sockets:
                quiet(one.send, b"x")
    finally:
        attack.hold(sockets, 0)


def http_floods(attack):
    for path in ("/healthz", "/readyz", "/v1/version", "/", "/openapi.json", "/v1/jobs", "/app.js", "/x" * 300, "/v1/jobs?" + "&".join(f"a{i}=1" for i in range(64))):
        attack.ask("GET", path, count=40)


def http_garbage(attack):
    """Also bodies that end too early, and answers that are not read."""
    while not attack.over():
        attack.attempts += 1
        with attack.dial() as one:
            one.sendall(attack.random.choice([
                attack.random.randbytes(3000), b"POST /v1/login HTTP/1.1\r\nHost: a\r\nX-Muster-Request: 1\r\nContent-Length: 1000000\r\n\r\n" + b"{" * 1000,
                b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n", b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200,
                b"POST /v1/login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"\x16\x03\x01\x02\x00" + bytes(600)]))
            one.settimeout(0.3)
            quiet(one.recv, 100)


def wrong_logins(attack):
    while not attack.over():
        attack.ask("POST", "/v1/login", body={"token": attack.random.randbytes(16).hex()}, fields=(("X-Muster-Request", "1"),), count=100)
        attack.ask("GET", "/v1/jobs", token="w" * 5000, count=20)


# ---- a user of the machine, without rights of its own ----

def hubs(attack):
    return ["ipc://" + path for path in attack.place["hubs"]]


def hub_bombs(attack):
    for url in hubs(attack):
        with attack.peer(url=url) as peer:
            attack.attempts += 1
            peer.socket.sendall(peer.request("WorkerHub." + attack.random.choice(["Progress", "Hello", "Board"]), BOMB, token="x"))
            attack.read(peer, 1)


def hub_wrong_tokens(attack):
    for url in hubs(attack):
        with attack.peer(url=url) as peer:
            for _ in range(20):
                attack.calls(peer, peer.request("WorkerHub.Join", text(1, attack.place["victim"]) + number(2, 1), token="x" * 40) * 20, 20)


def hub_strangers(attack):
    sockets = []
    try:
        for _ in attack.times(800):
            attack.attempts += 1
            one = socket.socket(socket.AF_UNIX)
            sockets.append(one)
            one.settimeout(2)
            one.connect(attack.random.choice(attack.place["hubs"]))
            if len(sockets) % 3 == 0:
                one.sendall(b"\0SP\0\0\x30\0\0")
    finally:
        attack.hold(sockets, 3)


def rank_ports(attack):
    """The ports at which ranks wait for one another, and the agents' and the coordinator's own."""
    sockets = []
    try:
        for _ in attack.times(100):
            for port in attack.place["rank_ports"]:
                attack.attempts += 1
                sockets.append(socket.create_connection(("127.0.0.1", port), 2))
                sockets[-1].sendall(attack.random.randbytes(64))
    finally:
        attack.hold(sockets, 2)


def other_ports(attack):
    """Take the coordinator's place, or part of its connections."""
    for address in (rpc_address(attack), tuple(attack.place["http"].rsplit(":", 1))):
        with socket.socket() as one:
            attack.attempts += 1
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                one.bind((address[0], int(address[1])))
                one.listen()
                attack.noted("TOOK A PORT", str(address))
            except OSError:
                attack.noted("PORT IN USE", "")
    attack.rest(0.1)


def private_files(attack):
    """Every file below the folders of coordinator and agents, by name and by guess."""
    for path in attack.place["private"]:
        for mode in (os.O_RDONLY, os.O_WRONLY):
            attack.attempts += 1
            try:
                os.close(os.open(path, mode))
                attack.noted("OPENED", path)
                attack.unnamed.setdefault(f"opened {path}", attack.name)
            except OSError:
                attack.noted("NOT OPENED", "")
    attack.rest(0.05)


def guessed_names(attack):
    """Files, links and folders under names that a program may be about to use."""
    made = []
    try:
        for folder in ("/tmp", "/dev/shm", "/var/tmp"):
            for i in range(100):
                name = attack.random.choice(["muster", "muster-", f"muster.{attack.place['victim']}", f"muster-{attack.place['victim']}.1-", "worker-", "sem.muster"])
                path = f"{folder}/{name}{i}{attack.place['mark']}"
                attack.attempts += 1
                try:
                    attack.random.choice([lambda: os.symlink("/etc/passwd", path), lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o666)), lambda: os.mkdir(path)])()
                    made.append(path)
                except OSError:
                    pass
        attack.rest(1)
    finally:
        for path in made:
            quiet(os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink, path)


def shared_folder(attack):
    """Links in the folder where the training writes its log, which everybody may write to."""
    made = []
    try:
        for i in range(50):
            path = f"{attack.place['shared']}/{attack.random.choice(['step-', 'latest', 'log.', 'tmp-'])}{i}"
            attack.attempts += 1
            try:
                os.symlink(attack.place["private"][0], path)
                made.append(path)
            except FileExistsError:
                pass
        attack.rest(0.5)
    finally:
        for path in made:
            quiet(os.unlink, path)


def signals(attack):
    for pid in attack.place["pids"]:
        attack.attempts += 1
        for act in (lambda: os.kill(pid, 9), lambda: os.kill(pid, 19), lambda: os.listdir(f"/proc/{pid}/fd"), lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)):
            try:
                act()
                attack.unnamed.setdefault(f"process {pid} was reached", attack.name)
            except OSError:
                attack.noted("NOT ALLOWED", "")
    attack.rest(0.1)


ROLES = {
    "agent": [taken_names, new_nodes, as_poller, as_forger, as_caller, as_channel_forger, as_half_reporter, clients_calls, handshakes, held_handshakes],
    "stranger": [silent_connections, half_handshakes, stranger_handshakes, rpc_garbage, wrong_tokens, versions, stranger_bombs, stranger_half_messages, dripped_headers,
                 http_floods, http_garbage, wrong_logins],
    "local": [hub_bombs, hub_wrong_tokens, hub_strangers, rank_ports, other_ports, private_files, guessed_names, shared_folder, signals, silent_connections,
              stranger_handshakes, dripped_headers, http_floods, wrong_tokens],
}
