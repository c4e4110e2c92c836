"""What a viewer, a member and a worker of tenant blue can do at once. Each function is one attack; see attack.py."""
import json
import os
import struct
import threading

import attackers_beside as beside
from wire import Peer, number, text

SSE = "Accept: text/event-stream"
BOMB = b"\x0a\x00" * (2 << 20)


# ---- a viewer: every read, as much as it can hold ----

def long_polls(attack):
    """Four connections with 4,300 waits each: more calls than the whole cluster may have open."""
    question = text(1, attack.place["job"]) + number(2, 1 << 62)
    peers = [attack.peer() for _ in range(4)]
    for peer in peers:
        attack.attempts += 4300
        peer.socket.sendall(peer.request("Coordinator.WatchJob", question, token=attack.place["viewer"], timeout_ms=600000) * 4300)
    for peer in peers:
        attack.read(peer, 4000)
        peer.close()


def unread_answers(attack):
    peers = [attack.peer() for _ in range(10)]
    for peer in peers:
        attack.attempts += 24
        peer.socket.sendall(peer.request("Coordinator.ListJobs", number(3, 1000), token=attack.place["viewer"], timeout_ms=60000) * 24)
    attack.hold(peers, 5)


def lists(attack):
    attack.flood("Coordinator.ListJobs", number(3, 1000), attack.place["viewer"], 40)


def plans(attack):
    attack.flood("Coordinator.Plan", text(1, text(1, "what-if") + text(3, "/bin/true")), attack.place["viewer"], 200)


def plans_of_much(attack):
    """512 more nodes, without any of the tenant's jobs."""
    much = text(1, text(3, "/bin/true") + text(4, number(1, 500) + number(2, 500)))
    attack.flood("Coordinator.Plan", much + text(7, text(1, "node1") + number(2, 512)) + text(6, "blue"), attack.place["viewer"], 20)


def denied_writes(attack):
    with attack.peer() as peer:
        token = attack.place["viewer"]
        requests = b"".join(peer.request(f"Coordinator.{method}", message, token=token) for method, message in (
            ("SetNode", text(1, "node1") + text(2, "drain") + text(3, "x" * 200)), ("CancelJob", text(1, attack.place["victim"])),
            ("CreateToken", text(1, "mine") + text(2, "admin")), ("SetTenant", text(1, text(1, "red"))), ("Backup", text(1, "/tmp/stolen")),
            ("SubmitJob", text(1, text(3, "/bin/true"))), ("ScaleJob", text(1, attack.place["victim"]) + number(2, 9)), ("ListAudit", b""),
            ("Nonsense", b""), ("GetJob", text(1, attack.place["victim"]))))
        while not attack.over():
            attack.calls(peer, requests * 20, 200)


def half_messages(attack):
    peers = [attack.peer() for _ in range(12)]
    for peer in peers:
        attack.attempts += 1
        attack.noted(*peer.call("Coordinator.WhoAmI", token=attack.place["viewer"])[:2])
    for peer in peers:
        try:
            peer.socket.sendall(struct.pack(">Q", 8 << 20) + b"\x80\0\0\1" + bytes((7 << 20) - 12))
        except OSError:
            attack.cut += 1
    attack.hold(peers, 4)


def bombs(attack):
    for method in ("ListJobs", "Plan", "GetJob", "Replay"):
        with attack.peer() as peer:
            attack.noted(*peer.call("Coordinator.WhoAmI", token=attack.place["viewer"])[:2])
            attack.calls(peer, peer.request("Coordinator." + method, BOMB, token=attack.place["viewer"]), 1)


def other_reads(attack):
    """Replays, reasons, overviews, series, events: what costs the coordinator more than it costs the asker."""
    with attack.peer() as peer:
        token, job = attack.place["viewer"], text(1, attack.place["job"])
        asked = (("Replay", number(3, 1000)), ("Replay", number(1, attack.random.randrange(1, 50)) + number(3, 1000)), ("WhyJob", job),
                 ("Overview", number(1, 100)), ("GetMetrics", job + number(4, 1 << 30)), ("ListEvents", number(3, 100000)), ("ListNodes", b""),
                 ("GetLogs", job + number(6, 4 << 20)), ("ListCheckpoints", job), ("ListTenants", b""), ("ListTokens", b""))
        requests = b"".join(peer.request("Coordinator." + method, message, token=token, timeout_ms=20000) for method, message in asked)
        while not attack.over():
            attack.calls(peer, requests * 4, 4 * len(asked))


def streams(attack):
    """Server-sent events that nobody reads, of every kind."""
    sockets, token = [], attack.place["viewer"]
    for i in attack.times(90):
        path = ("/v1/events", f"/v1/jobs/{attack.place['job']}", f"/v1/jobs/{attack.place['job']}/logs")[i % 3]
        one = attack.dial()
        one.sendall(attack.head("GET", path, token, SSE))
        sockets.append(one)
        attack.attempts += 1
    for one in sockets:
        start = one.recv(2048)
        attack.noted(int(start[9:12]) if start else 0, start.decode(errors="replace"))
    attack.hold(sockets, 4)


def pages(attack):
    token = attack.place["viewer"]
    for path in ("/v1/jobs?limit=1000", "/metrics", "/v1/overview?limit=100", "/v1/nodes", f"/v1/jobs/{attack.place['job']}/metrics", "/openapi.json",
                 "/v1/events?limit=1000", "/v1/events/replay?limit=1000", f"/v1/jobs/{attack.place['job']}/why", "/app.js"):
        attack.ask("GET", path, token, fields=(("Accept-Encoding", "gzip"),), count=20)


def unread_pages(attack):
    """Pipelined pages, none of them read, each asked in another way so that no answer is shared."""
    sockets = []
    for i in attack.times(100):
        one = attack.dial()
        attack.attempts += 40
        one.settimeout(2)
        try:
            one.sendall(b"".join(attack.head("GET", f"/v1/jobs?limit={1000 - i}&state=&x={i}.{j}", attack.place["viewer"]) for j in range(40)))
        except OSError:
            attack.cut += 1
        sockets.append(one)
    attack.hold(sockets, 4)


def log_follows(attack):
    with attack.peer() as peer:
        follow = text(1, attack.place["job"]) + number(2, (1 << 64) - 1) + number(5, 1)
        attack.calls(peer, peer.request("Coordinator.GetLogs", follow, token=attack.place["viewer"], timeout_ms=5000) * 250, 250)
        attack.calls(peer, peer.request("Coordinator.ListEvents", number(2, 1 << 40) + number(4, 1), token=attack.place["viewer"], timeout_ms=3000) * 250, 250)


def reconnects(attack):
    while not attack.over():
        with attack.peer() as peer:
            attack.calls(peer, peer.request("Coordinator.WhoAmI", token=attack.place["viewer"]), 1)


# ---- a member: jobs, as many and as large as it can ----

def spec(*words, name="", slots=0, nodes=0, folder="", priority="", more=b""):
    parts = text(1, name) if name else b""
    parts += b"".join(text(3, word) for word in words)
    parts += text(4, number(1, nodes) + number(2, nodes)) if nodes else b""
    parts += text(6, number(1, slots)) if slots else b""
    parts += text(7, priority) if priority else b""
    parts += text(11, text(1, folder)) if folder else b""
    return text(1, parts + more)


def submits(attack):
    """Jobs that wait for ever, to the last place."""
    attack.flood("Coordinator.SubmitJob", spec("/bin/true", slots=12), attack.place["member"], 200)


def submits_and_cancels(attack):
    token = attack.place["member"]
    with attack.peer() as peer:
        while not attack.over():
            attack.attempts += 50
            peer.socket.sendall(peer.request("Coordinator.SubmitJob", spec("/bin/true", name="churn"), token=token) * 50)
            attack.read(peer, 50)
            attack.calls(peer, peer.request("Coordinator.CancelJob", text(1, "churn") + text(2, "\x1b[2J" + "r" * 2000), token=token) * 50, 50)


def large_specs(attack):
    attack.flood("Coordinator.SubmitJob", spec("/bin/true", "x" * 100_000, "y" * 100_000, *["z" * 1000] * 50, slots=12), attack.place["member"], 4)


def large_bodies(attack):
    token = attack.place["member"]
    attack.ask("POST", "/v1/jobs", token, {"command": ["/bin/true", "x" * 250_000], "resources": {"slots": 12}}, count=5)
    attack.ask("POST", "/v1/jobs", token, b"[" * 900_000, count=5)
    attack.ask("POST", "/v1/jobs", token, b'{"command":["a"],"env":{' + b",".join(b'"K%d":"v"' % i for i in range(60000)) + b"}}", count=3)


def wide_specs(attack):
    """Numbers and names at their ends: refused, or no dearer than others."""
    kinds = [spec("/bin/true", priority="1000"), spec("/bin/true", nodes=10000), spec("/bin/true", slots=0xFFFFFFFF), spec("/bin/true", name="n" * 5000),
             spec("/bin/true", folder=attack.place["folder"]), spec("/bin/true", folder="/" + "d/../" * 5000), spec("\x1b]0;x\x07" * 500),
             spec("/bin/true", more=b"".join(text(14, text(1, f"K{i}") + text(2, "v")) for i in range(2000))),
             spec("/bin/true", more=b"".join(text(12, text(1, f"l{i}") + text(2, "v")) for i in range(2000))), text(1, b""), b"\xff" * 100]
    with attack.peer() as peer:
        requests = b"".join(peer.request("Coordinator.SubmitJob", kind, token=attack.place["member"]) for kind in kinds)
        while not attack.over():
            attack.calls(peer, requests, len(kinds))
            attack.rest(0.02)


def keys(attack):
    """Each submit with an idempotency key of its own, which is kept as long as its job."""
    while not attack.over():
        n = attack.random.randrange(1 << 60)
        attack.ask("POST", "/v1/jobs", attack.place["member"], {"command": ["/bin/true"], "resources": {"slots": 12}},
                   fields=(("Idempotency-Key", f"{n}-" + "k" * 100),), count=2)


def scales(attack):
    token = attack.place["member"]
    with attack.peer() as peer:
        told = peer.call("Coordinator.SubmitJob", spec("/bin/sleep", "600", name="breathes", nodes=1), token=token)
        attack.noted(*told[:2])
        while not attack.over():
            attack.calls(peer, b"".join(peer.request("Coordinator.ScaleJob", text(1, "breathes") + number(2, n), token=token) for n in (1, 2, 9000, 1, 0)), 5)


def member_plans(attack):
    attack.flood("Coordinator.Plan", spec("/bin/true", *["p" * 1000] * 200, nodes=2), attack.place["member"], 20)


def sessions(attack):
    token = attack.place["member"]
    while not attack.over():
        attack.ask("POST", "/v1/login", body={"token": token}, fields=(("X-Muster-Request", "1"),), count=50)
        attack.ask("POST", "/v1/logout", body={}, fields=(("X-Muster-Request", "1"),), count=5)
        attack.ask("POST", "/v1/login", body={"token": "wrong"}, fields=(("X-Muster-Request", "1"),), count=20)


PRINT = "import sys\nwhile True: sys.stdout.write('x' * 200 + '\\n' + 'y' * 70000 + '\\r\\x1b[31m\\n')"
FORK = "import os, time\nfor _ in range(300):\n  try:\n    if os.fork() == 0: time.sleep(3); os._exit(0)\n  except OSError: time.sleep(0.01)\ntime.sleep(3)"
FILL = "import os\nfor _ in range(20):\n  f = open('fill', 'wb')\n  for _ in range(64): f.write(os.urandom(1 << 20)); f.flush()\n  f.close(); os.unlink('fill')"
DEAF = "import signal, time\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(600)"
SHARED_MEMORY = "import mmap, time\nm = mmap.mmap(-1, 256 << 20)\nm[::4096] = b'x' * len(m[::4096])\ntime.sleep(5)"
YIELD = "import os\nos.nice(19)\ntry: open('/proc/self/autogroup', 'w').write('19')\nexcept OSError: pass\n"  # as attack.py does
WORKERS = {"print": PRINT, "fork": FORK, "fill": FILL, "deaf": DEAF, "memory": SHARED_MEMORY, "exit": "import os; os._exit(3)",
           "kill": "import os, signal\nos.kill(-1, signal.SIGKILL)"}


def bad_jobs(attack):
    """Programs that print, fork, fill and will not end, cancelled after a while and begun again."""
    token = attack.place["member"]
    with attack.peer(timeout=60) as peer:
        while not attack.over():
            for name in attack.random.sample(sorted(WORKERS), 3):
                attack.calls(peer, peer.request("Coordinator.SubmitJob", spec("/usr/bin/python3", "-c", YIELD + WORKERS[name], name="bad-" + name), token=token), 1)
            attack.rest(attack.random.uniform(2, 6))
            attack.calls(peer, b"".join(peer.request("Coordinator.CancelJob", text(1, "bad-" + name), token=token) for name in WORKERS), len(WORKERS))


def short_jobs(attack):
    """Starts and ends, as quickly as a node takes them: short, wrong, absent."""
    with attack.peer(timeout=60) as peer:
        token = attack.place["member"]
        while not attack.over():
            for words in (["/bin/true"], ["/bin/false"], ["/nonexistent"], ["/bin/echo", "x" * 1000]):
                attack.calls(peer, peer.request("Coordinator.SubmitJob", spec(*words, name="short"), token=token) * 5, 5)
            attack.rest(1)


# ---- a worker: its agent's socket ----

class Hub:
    def __init__(self):
        self.url = os.environ["MUSTER_WORKER_SOCKET"]
        self.url = self.url if "://" in self.url else "ipc://" + self.url
        with open(os.environ["MUSTER_WORKER_TOKEN_FILE"]) as file:
            self.token = file.read().strip()
        self.job, self.uid = os.environ["MUSTER_JOB"], int(os.environ["MUSTER_UID"])
        self.me = text(1, self.job) + number(2, self.uid)
        self.generation = number(3, int(os.environ["MUSTER_GENERATION"]))

    def peer(self, timeout=30):
        return Peer(self.url, timeout=timeout)


def hub_flood(attack, method, payload, batch=50, token=None):
    hub = Hub()
    with hub.peer() as peer:
        request = peer.request("WorkerHub." + method, payload(hub), token=hub.token if token is None else token, timeout_ms=20000)
        while not attack.over():
            attack.calls(peer, request * batch, batch)


def board_waits(attack):
    hub = Hub()
    with hub.peer() as peer:
        attack.attempts += 5000
        wait = peer.request("WorkerHub.Board", hub.me + hub.generation + text(4, "never") + number(7, 1), token=hub.token, timeout_ms=3000)
        sender = threading.Thread(target=lambda: quiet(peer.socket.sendall, wait * 5000), daemon=True)
        sender.start()
        attack.read(peer, 5000)
    attack.rest(2)  # the places are the other attacks'


def quiet(act, *words):
    try:
        act(*words)
    except OSError:
        pass


def board_sets(attack):
    hub = Hub()
    with hub.peer() as peer:
        n = 0
        while not attack.over():
            n += 1
            attack.calls(peer, peer.request("WorkerHub.Board", hub.me + hub.generation + text(4, f"k{n}") + text(5, bytes(64 << 10)) + number(6, 1), token=hub.token) * 4, 4)


def commits(attack):
    def payload(hub):
        return hub.me + number(3, 2) + text(4, number(1, 1 << 60) + text(2, "/../../etc/passwd\x1b[2J" + "p" * 1000) + hub.generation + number(6, 2))
    hub_flood(attack, "CommitCheckpoint", payload, 20)


def sample(name, value, step):
    return text(6, number(3, step) + text(5, name) + b"\x31" + struct.pack("<d", value))


def metric_flood(attack):
    """As many samples as a report takes, under names that never repeat."""
    hub, n = Hub(), 0
    with hub.peer() as peer:
        while not attack.over():
            n += 1
            many = b"".join(sample(f"m{n}.{i}" if n % 2 else "loss", float("nan") if i % 3 else 1e308, n * 4000 + i) for i in range(4000))
            attack.calls(peer, peer.request("WorkerHub.Progress", hub.me + hub.generation + number(4, n) + many, token=hub.token), 1)


def progress_at_the_ends(attack):
    wait = text(7, text(1, "c" * 5000) + text(2, "\x1b[2J" * 1000) + number(5, 0xFFFFFFFF) + b"".join(number(6, 0xFFFFFFFF) for _ in range(5000)))
    hub_flood(attack, "Progress", lambda hub: hub.me + hub.generation + number(4, (1 << 64) - 1) + number(5, 1) + wait)


def lost_peers(attack):
    """Last: it costs its own job restarts, and then the job."""
    attack.rest(0.7 * attack.left())
    attack.attempts += 1  # said before the first one ends this process
    attack.rest(1)
    hub_flood(attack, "LostPeers", lambda hub: hub.me + hub.generation + b"".join(number(4, n) for n in range(20000)))


def hellos(attack):
    hub_flood(attack, "Hello", lambda hub: hub.me + number(3, 1) + text(4, "v" * 10000))


def joins(attack):
    hub_flood(attack, "Join", lambda hub: hub.me + number(3, 1 << 40) + text(4, "tcp://203.0.113.1:1" + "e" * 100), 40)


def foreign_workers(attack):
    """Calls in the name of the other tenant's worker."""
    def payload(hub):
        return text(1, attack.place["victim"]) + number(2, 1) + number(3, 1) + number(4, 1 << 40)
    hub_flood(attack, attack.random.choice(["Progress", "Join", "Watch", "LostPeers"]), payload)


def hub_garbage(attack):
    hub = Hub()
    while not attack.over():
        attack.attempts += 1
        with hub.peer() as peer:
            peer.socket.sendall(attack.random.choice([attack.random.randbytes(5000), b"\1" + struct.pack(">Q", 1 << 60), b"\1" + struct.pack(">Q", 12) + b"x" * 12,
                                                      peer.framed(b"MST1" + struct.pack("<I", 0xFFFFFFF0)), peer.framed(attack.random.randbytes(3000))]))
            peer.socket.settimeout(0.2)
            quiet(peer.socket.recv, 100)


def hub_connections(attack):
    """Connections that say nothing, and half messages."""
    hub, peers = Hub(), []
    try:
        for i in attack.times(400):
            attack.attempts += 1
            peers.append(hub.peer(timeout=5))
            if i % 8 == 0:
                peers[-1].socket.settimeout(0.2)
                quiet(peers[-1].socket.sendall, b"\1" + struct.pack(">Q", 8 << 20) + bytes(1 << 20))
    finally:
        attack.hold(peers, 3)


def log_flood(attack):
    line = ("l" * 300 + "\n") * 100
    while not attack.over():
        attack.attempts += 100
        quiet(os.write, 1, line.encode())
        quiet(os.write, 2, bytes(range(256)) * 100)


ROLES = {
    "viewer": [long_polls, unread_answers, lists, plans, plans_of_much, denied_writes, half_messages, bombs, other_reads, streams, pages, unread_pages, log_follows, reconnects,
               *beside.VIEWER],
    "member": [submits, submits_and_cancels, large_specs, large_bodies, wide_specs, keys, scales, member_plans, sessions, bad_jobs, short_jobs, *beside.MEMBER],
    "worker": [board_waits, board_sets, commits, metric_flood, progress_at_the_ends, lost_peers, hellos, joins, foreign_workers, hub_garbage, hub_connections, log_flood,
               *beside.WORKER],
}
