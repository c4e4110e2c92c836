"""A cluster of real processes on this machine, for the demonstration and the system tests: one
coordinator, any number of agents, each with its own data folder under one temporary folder. Ports
are taken free. Everything it starts it ends, by process id, also what agents and shims started.

Tests that run side by side have numbered lanes (TEST_LANE) with nothing in common: a loopback address,
on which nobody else takes the port of a coordinator that is down for a moment, and ports for gangs.
"""
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUSTER = ROOT / "build" / "muster"
LANE = os.environ.get("TEST_LANE")
ADDRESS = f"127.1.{LANE}.1" if LANE else "127.0.0.1"
LANE_PORTS, LANES_FIRST_PORT = 500, 26000  # below what the system gives to clients
FIRST_PORT = LANES_FIRST_PORT + LANE_PORTS * int(LANE or 0)
# Tests that are not about users run as whoever runs them.
ROOT_WORKERS = ["--allow-root-workers"] if os.geteuid() == 0 else []
GANG_PORTS = ["--ports", f"{FIRST_PORT}-{FIRST_PORT + LANE_PORTS // 2 - 1}"] if LANE else []
HANG_SECONDS = 300  # a limit that only what hangs reaches, on the slowest machine under load
next_ports = itertools.cycle(random.sample(range(FIRST_PORT + LANE_PORTS // 2, FIRST_PORT + LANE_PORTS), LANE_PORTS // 2))


def free_port():
    """A port of this lane, for ranks that no agent starts."""
    for port in itertools.islice(next_ports, LANE_PORTS):
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind(("", port))
                return port
            except OSError:
                continue
    raise RuntimeError(f"no port of {FIRST_PORT}-{FIRST_PORT + LANE_PORTS - 1} is free")


def wait_for(what, seconds, probe, every=0.02):
    """probe() until it returns something true; that is returned. TimeoutError names `what`.

    `seconds` is what a quiet machine needs at most. The error names it; the limit is that of a hang."""
    end = time.monotonic() + max(seconds, HANG_SECONDS)
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {max(seconds, HANG_SECONDS)} s (a quiet machine needs {seconds} s at most)")
        time.sleep(every)


def processes():
    """pid -> (parent, command line) of every process."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text()
            line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        fields = stat.rsplit(")", 1)[1].split()
        if fields[0] != "Z":
            found[int(entry)] = (int(fields[1]), line)
    return found


def gone(pid):
    """No such process, or its parent has not noticed its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def descendants(pids, table=None):
    table = table or processes()
    wanted, grown = set(pids), True
    while grown:
        more = {pid for pid, (parent, _) in table.items() if parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    return wanted


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def cgroups(pids):
    """Folders of the workers' own cgroups: what a real machine loses with its power."""
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue
        for number, controllers, path in (line.split(":", 2) for line in lines):
            if "/muster." in path:
                root = Path("/sys/fs/cgroup") / controllers if controllers else Path("/sys/fs/cgroup")
                found |= {root / path.lstrip("/"), Path("/sys/fs/cgroup/unified") / path.lstrip("/")}
        # A shim is not in the cgroups that it made, and which have its number.
        found |= {group for root in Path("/sys/fs/cgroup").glob("*") for group in root.glob(f"muster.*.{pid}")}
    return found


def power_off(pids):
    """End all of them at once: first nobody moves, then nobody lives. Their cgroups go too."""
    groups = cgroups(pids)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            kill(pid, number)
    for group in groups:
        end = time.monotonic() + 2
        while group.is_dir() and time.monotonic() < end:
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.01)


def secure(connection, keys=None):
    """TLS as Muster speaks it, without asking who the server is. `keys`: a PEM file to prove a key with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if keys:
        context.load_cert_chain(keys)
    return context.wrap_socket(connection)


class Cluster:
    def __init__(self, folder, muster=MUSTER):
        self.folder = Path(folder)
        self.muster_path = str(muster)
        self.agent_prefix = []  # words that run an agent
        self.data = self.folder / "coordinator"
        self.rpc = f"tcp://{ADDRESS}:0"
        self.http = f"{ADDRESS}:0"
        self.scheme = "http"
        self.coordinator = None
        self.agents = {}
        self.agent_options = {}

    def start_coordinator(self, extra=(), wait=True):
        self.data.mkdir(parents=True, exist_ok=True)
        for name in ("rpc.url", "http.url"):
            (self.data / name).unlink(missing_ok=True)
        log = open(self.folder / "coordinator.log", "ab")
        self.coordinator = subprocess.Popen(
            [self.muster_path, "coordinator", "--data", str(self.data), "--rpc", self.rpc, "--http", self.http, *extra],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=15):
        def ready():
            if self.coordinator.poll() is not None:
                raise RuntimeError("the coordinator ended: " + self.log("coordinator.log")[-2000:])
            try:
                self.rpc = (self.data / "rpc.url").read_text().strip()
                url = (self.data / "http.url").read_text().strip()
                self.scheme, self.http = url.rstrip("/").split("://", 1)
                return self.rpc and self.http and self.rest("GET", "/readyz", raw=True)[0] == 200
            except (OSError, IndexError):
                return False
        wait_for("the coordinator serves", seconds, ready)

    @property
    def token(self):
        return (self.data / "admin.token").read_text().strip()

    def start_agent(self, name, *options):
        options = options or self.agent_options.get(name, ())
        self.agent_options[name] = options
        users = [] if any(str(option).startswith("--worker-u") for option in options) else ROOT_WORKERS
        data = self.folder / "nodes" / name
        data.mkdir(parents=True, exist_ok=True)
        log = open(self.folder / f"{name}.log", "ab")
        self.agents[name] = subprocess.Popen(
            [*self.agent_prefix, self.muster_path, "agent", "--coordinator", self.rpc, "--token-file", str(self.data / "agent.token"),
             "--name", name, "--data", str(data), *GANG_PORTS, *users, *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def node_processes(self, name):
        """Agent, shims and everything below them, also after the agent itself was restarted."""
        table = processes()
        roots = {pid for pid, (_, line) in table.items() if f"{self.folder}/nodes/{name}/" in line and " shim " in line}
        if name in self.agents and self.agents[name].poll() is None:
            roots.add(self.agents[name].pid)
        return descendants(roots, table)

    def worker_processes(self, name):
        """Process ids of the workers (not the shims) of a node."""
        table = processes()
        shims = {pid for pid in self.node_processes(name) if " shim " in table.get(pid, (0, ""))[1]}
        return sorted(pid for pid, (parent, _) in table.items() if parent in shims)

    def kill_node(self, name):
        """As a power failure: agent, shims and workers end at once, nobody says goodbye."""
        power_off(self.node_processes(name))
        self.agents.pop(name).wait()

    def kill_coordinator(self):
        self.coordinator.kill()
        self.coordinator.wait()

    @contextlib.contextmanager
    def agent_away(self, name):
        """The agent of a node that has workers is killed, and another is there at the end. The coordinator stands still meanwhile: a
        node that is silent for three seconds of its time is lost, and a busy machine may need more for the new agent."""
        self.coordinator.send_signal(signal.SIGSTOP)
        try:
            agent = self.agents.pop(name)
            agent.kill()
            agent.wait()
            yield
            before = len(self.log(f"{name}.log"))
            self.start_agent(name)
            wait_for("the new agent finds its workers", 20, lambda: "found a running worker" in self.log(f"{name}.log")[before:])
        finally:
            self.coordinator.send_signal(signal.SIGCONT)

    def environment(self):
        return {**os.environ, "MUSTER_ADDR": self.rpc, "MUSTER_TOKEN": self.token}

    def muster(self, *words, timeout=HANG_SECONDS, check=False, input=None):
        done = subprocess.run([self.muster_path, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              env=self.environment(), input=input, cwd=ROOT)
        if check and done.returncode:
            raise RuntimeError(f"muster {' '.join(map(str, words))}: code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def submit(self, *words):
        return self.muster("submit", *words, check=True).stdout.strip()

    def output(self, job):
        """What its workers wrote to stdout, then what they wrote to stderr."""
        done = self.muster("logs", job)
        return done.stdout + done.stderr

    def job(self, name):
        return json.loads(self.muster("show", "-o", "json", name, check=True).stdout)

    def trust(self):
        """What verifies REST's certificate; None while it is plain."""
        if self.scheme == "http":
            return None
        return ssl.create_default_context(cadata=self.muster("tls", "ca", "--data", str(self.data), check=True).stdout)

    def rest(self, method, path, body=None, raw=False, token=None, headers=None):
        """(status, parsed JSON or text)"""
        head = {"Accept": "application/json", **(headers or {})}
        if not raw or token:
            head["Authorization"] = "Bearer " + (token or self.token)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            head.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(f"{self.scheme}://{self.http}{path}", data=data, method=method, headers=head)
        try:
            with urllib.request.urlopen(request, timeout=HANG_SECONDS, context=self.trust()) as answer:
                status, text = answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode(errors="replace")
        try:
            return status, text if raw else json.loads(text)
        except ValueError:
            return status, text

    def wait_state(self, job, states, seconds=30):
        states = {states} if isinstance(states, str) else set(states)
        def reached():
            now = self.job(job)
            if now["state"] in states:
                return now
            if now["state"] in ("succeeded", "failed", "cancelled"):
                raise RuntimeError(f"{job} is {now['state']}, not {states}: {now.get('reason')}\n" + self.output(job)[-3000:])
            return None
        return wait_for(f"{job} to be {' or '.join(sorted(states))}", seconds, reached, every=0.05)

    def wait_nodes(self, count, seconds=15):
        def ready():
            nodes = json.loads(self.muster("nodes", "-o", "json", check=True).stdout)["nodes"]
            return [n for n in nodes if n["state"] == "ready"] if sum(n["state"] == "ready" for n in nodes) >= count else None
        return wait_for(f"{count} nodes ready", seconds, ready, every=0.05)

    def log(self, name):
        try:
            return (self.folder / name).read_text(errors="replace")
        except OSError:
            return ""

    def stop(self):
        """End everything that is still there; returns the command lines of what had to be killed."""
        victims = set()
        for name in set(self.agents) | {p.name for p in (self.folder / "nodes").glob("*")}:
            victims |= self.node_processes(name)
        if self.coordinator and self.coordinator.poll() is None:
            victims.add(self.coordinator.pid)
        table = processes()
        power_off(victims)
        # What an agent forked while it was being looked for.
        while late := {pid for pid, (_, line) in processes().items() if f" {self.folder}/" in f" {line}" and line.startswith(self.muster_path)}:
            power_off(late)
        for process in [self.coordinator, *self.agents.values()]:
            if process:
                process.wait()
        self.agents.clear()
        self.coordinator = None
        return [table[pid][1] for pid in victims if pid in table]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
