"""What attackers have in common. An attacker is a process of one role; it runs its attacks at once, each in a thread.

    attack.py ROLE PLACE.json     attack what the file describes until its time, then write what was seen

PLACE.json: rpc, http, hubs, tokens, keys, job ids, seed, `go` (a file: once there, it says until when, by CLOCK_MONOTONIC), `result` (a file to write), `yields`
(be nice: no cgroup could be made that keeps this one from the processors of its victims, see beside.py). A job of a
tenant, a program of another user and the test itself run this same file, so it needs nothing but Python and wire.py.
"""
import http.client
import importlib
import json
import os
import random
import re
import resource
import socket
import sys
import threading
import time
import traceback
from collections import Counter

from wire import Peer

INSIDE, OUTSIDE = ("viewer", "member", "worker"), ("agent", "stranger", "local")
LIMIT = re.compile(r"\b(?:limit|quota) ([a-z_]+)")
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
# What ends a connection is no mistake of the attack: it connects again.
CUT = (OSError, EOFError, http.client.HTTPException)


class Attack:
    """One thread: what it may use, and what it counts."""

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.random = random.Random(f"{place['seed']} {name}")
        self.attempts = self.cut = 0
        self.answered, self.limits, self.unnamed, self.told = Counter(), Counter(), {}, {}

    def left(self):
        return self.place["until"] - time.monotonic()

    def over(self):
        return self.left() <= 0

    def times(self, count):
        """0, 1, ... as long as there is time: on a busy machine a connection may take a second."""
        for i in range(count):
            if self.over():
                return
            yield i

    def rest(self, seconds):
        time.sleep(max(0.0, min(seconds, self.left())))

    def source(self):
        """An address that this role attacks from: its machines are not those of its victims."""
        sources = self.place.get("sources") or [""]
        return self.random.choice(sources)

    def peer(self, keys=None, url=None, timeout=15):
        self.go_on()
        return Peer(url or self.place["rpc"], timeout=timeout, keys=keys, source="" if url else self.source())

    def noted(self, code, told):
        self.answered[str(code)] += 1
        self.told.setdefault(f"{code}", told[:160])
        if code in ("RESOURCE_EXHAUSTED", 429):
            name = LIMIT.search(told)
            self.limits[name.group(1) if name else "?"] += 1
            if not name:
                self.unnamed.setdefault(told[:300], self.name)

    def read(self, peer, count):
        """`count` answers, or those that come before the end: thousands of calls that each wait for seconds may outlast it."""
        for _ in range(count):
            if self.over():
                return
            self.noted(*peer.answer()[:2])

    def calls(self, peer, requests, count):
        """`count` requests at once, then all of their answers."""
        self.attempts += count
        peer.socket.sendall(requests)
        self.read(peer, count)

    def flood(self, method, payload, token, batch=100, **more):
        """One connection that asks the same, `batch` at a time, until the end."""
        with self.peer() as peer:
            requests = peer.request(method, payload, token=token, timeout_ms=20000, **more) * batch
            while not self.over():
                self.calls(peer, requests, batch)

    def go_on(self):
        if self.over():
            raise OSError("its time is over")

    def dial(self, timeout=15):
        self.go_on()
        host, port = self.place["http"].rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout, (self.source(), 0))

    def head(self, method, path, token="", *fields):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
        return "\r\n".join([*lines, *([f"Authorization: Bearer {token}"] if token else []), "", ""]).encode()

    def ask(self, method, path, token="", body=None, fields=(), count=1):
        """The same request `count` times on one HTTP connection."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Accept": "application/json", **dict(fields)}
        if token:
            head["Authorization"] = "Bearer " + token
        if data is not None:
            head["Content-Type"] = "application/json"
        host, port = self.place["http"].rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=15, source_address=(self.source(), 0))
        try:
            for _ in range(count):
                if self.over():
                    break
                self.attempts += 1
                connection.request(method, path, data, head)
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
                self.noted(answer.status, text if answer.status >= 400 else "")
        finally:
            connection.close()

    def hold(self, sockets, seconds):
        """Keep them open, reading nothing; then close."""
        self.rest(seconds)
        for one in sockets:
            one.close()


def run(attack, act, mistakes):
    while not attack.over():
        try:
            act(attack)
        except CUT:
            attack.cut += 1
            attack.rest(0.05)
        except Exception:
            mistakes.append(f"{attack.name}: {traceback.format_exc()}")
            return


def attackers(role):
    return importlib.import_module("attackers_" + ("inside" if role in INSIDE else "outside")).ROLES[role]


def yield_processors():
    """Whoever comes over a network has processors of its own, not ours. Sessions share them by a number of their own (sched(7))."""
    os.nice(19)
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write("19")
    except OSError:
        pass


def begin(place):
    """Say that we are here, and wait for the word that all are: it tells when it ends."""
    with open(place["result"] + ".here", "w"):
        pass
    parent = os.getppid()
    while not os.path.exists(place["go"]):
        if os.getppid() != parent:
            sys.exit("the test has ended")
        time.sleep(0.05)
    with open(place["go"]) as file:
        return float(file.read())


def saw(made):
    return {attack.name: {"attempts": attack.attempts, "cut": attack.cut, "answered": dict(attack.answered), "limits": dict(attack.limits),
                          "unnamed": attack.unnamed, "told": attack.told} for attack in made}


def tally(made, path):
    """What was seen so far, twice a second: a worker's attacks end its job again and again, and its next life begins at nothing."""
    while True:
        time.sleep(0.5)
        with open(path + ".new", "w") as file:
            json.dump(saw(made), file)
        os.rename(path + ".new", path)


def main(role, path):
    with open(path) as file:
        place = json.load(file)
    if place["yields"]:
        yield_processors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    mistakes, made, threads = [], [], []
    acts = attackers(role)
    place["until"] = begin(place)
    for act in acts:
        attack = Attack(act.__name__, place)
        made.append(attack)
        threads.append(threading.Thread(target=run, args=(attack, act, mistakes), daemon=True))
    life = f"{place['result']}.{os.urandom(4).hex()}"
    threading.Thread(target=tally, args=(made, life + ".tally"), daemon=True).start()
    for thread in threads:
        thread.start()
    end = place["until"] + 40  # an answer that is on its way, at its longest
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    stuck = [attack.name for attack, thread in zip(made, threads) if thread.is_alive()]
    with open(place["result"] + ".new", "w") as file:
        json.dump({"life": os.path.basename(life), "attacks": saw(made), "mistakes": mistakes, "stuck": stuck}, file)
    os.rename(place["result"] + ".new", place["result"])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
