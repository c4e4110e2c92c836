"""What goes on beside an attack: a training of tenant red on two nodes, a prober of red's that asks for it all the time, a
watch on the coordinator; and what must hold of them afterwards.

In life only the local user has the coordinator's processors; viewers, members, agents and strangers come over a network from machines
of their own, and workers run on nodes. Here all are on one machine. So the coordinator has the weight of its systemd unit, and those that come over
a network are together in one cgroup of the usual weight (processors.py); workers, whose cgroups are their agent's, and all of them where no
cgroup can be made, run with nice 19. The local user's programs and red's training have the weight of any program."""
import http.client
import itertools
import json
import os
import random
import re
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from leavings import MARK
from localcluster import HANG_SECONDS, ROOT, Cluster, wait_for
from processors import USUAL, Share
from wire import Peer, cpu_seconds

HERE = Path(__file__).resolve().parent
RANGE = "1900000000-1900999999"
COORDINATOR_WEIGHT = int(re.search(r"^CPUWeight=(\d+)$", (ROOT / "deploy/systemd/muster-coordinator.service").read_text(), re.M)[1])
STEPS = 100_000_000  # more than any run does
SLOW_S = 1.0  # p99 of REST, where the machine has room
COMPUTING_S = 0.5  # and where it has none: p99 of what the loop computes between a question and its answer


def quantile(times, part):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


def loop_times(pid):
    """Seconds that the thread of the loop has computed, and that it has waited for a processor."""
    return [int(word) / 1e9 for word in Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[:2]]


class Prober(threading.Thread):
    """Asks as a user of red's would, one thing after another, each over a connection of its own."""

    def __init__(self, cluster, job):
        super().__init__(daemon=True)
        self.cluster, self.job, self.token = cluster, job, cluster.tokens["red"]
        self.phase, self.times, self.wrong, self.again = None, {}, [], 0
        self.ended = threading.Event()

    def rest(self, method, path, body=None, stream=False):
        connection = http.client.HTTPConnection(self.cluster.http, timeout=HANG_SECONDS)
        try:
            head = {"Authorization": "Bearer " + self.token, "Accept": "text/event-stream" if stream else "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), {**head, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.readline() if stream else answer.read()
            if answer.status not in (200, 201) or not text:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
            return text
        finally:
            connection.close()

    def submit(self):
        self.made = json.loads(self.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "resources": {"slots": 12}}))["id"]

    def ps(self):
        """Where it gives up on a machine that has no time, a person would ask again: all of that is its time."""
        end = time.monotonic() + HANG_SECONDS
        while True:
            done = subprocess.run([self.cluster.muster_path, "ps"], capture_output=True, text=True, timeout=HANG_SECONDS,
                                  env={**self.cluster.environment(), "MUSTER_TOKEN": self.token})
            if done.returncode == 0 and self.job in done.stdout:
                return
            if done.returncode != 3 or time.monotonic() > end:
                raise RuntimeError(f"muster ps: {done.returncode} {done.stderr[-300:]}")
            self.again += 1

    def ping(self):
        """The loop's own latency: a call on a connection that is open."""
        if not self.peer:
            self.peer = Peer(self.cluster.rpc, timeout=HANG_SECONDS)
        began = loop_times(self.cluster.coordinator.pid)[0]
        code, told, _ = self.peer.call("Coordinator.WhoAmI", token=self.token)
        self.times.setdefault((self.phase, "computing"), []).append(loop_times(self.cluster.coordinator.pid)[0] - began)
        if code != "OK":
            raise RuntimeError(f"WhoAmI: {code} {told}")

    def run(self):
        self.peer, self.began = None, time.monotonic()
        asked = (("job", lambda: self.rest("GET", f"/v1/jobs/{self.job}")), ("list", lambda: self.rest("GET", "/v1/jobs")), ("submit", self.submit),
                 ("cancel", lambda: self.rest("POST", f"/v1/jobs/{self.made}:cancel", {})),
                 ("stream", lambda: self.rest("GET", f"/v1/jobs/{self.job}", stream=True)), ("loop", self.ping), ("ps", self.ps))
        while not self.ended.is_set():
            for name, act in asked:
                began = time.monotonic()
                try:
                    act()
                except Exception as error:
                    self.wrong.append(f"{time.monotonic() - self.began:.1f} {self.phase} {name} after {time.monotonic() - began:.1f} s: {type(error).__name__} {error}")
                    if name == "loop" and self.peer:
                        self.peer.close()
                        self.peer = None
                if self.phase:
                    self.times.setdefault((self.phase, name), []).append(time.monotonic() - began)
            time.sleep(0.02)

    def finish(self):
        self.ended.set()
        self.join(HANG_SECONDS)
        assert not self.is_alive(), "a question of the prober has no answer"

    def all(self, phase, *names):
        return [t for (p, name), times in self.times.items() if p == phase and (not names or name in names) for t in times]


COPIES = int(os.environ.get("MUSTER_ATTACK_COPIES", "1"))  # processes of each role
REST = ("job", "list", "submit", "cancel", "stream")


class Watch(threading.Thread):
    """A process's memory and descriptors, five times a second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.descriptors, self.ended = pid, 0, 0, threading.Event()

    def memory(self):
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096

    def run(self):
        while not self.ended.wait(0.2):
            try:
                self.peak = max(self.peak, self.memory())
                self.descriptors = max(self.descriptors, len(os.listdir(f"/proc/{self.pid}/fd")))
            except OSError:
                return


def listening_ports(pids):
    """TCP ports at which these processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
            except OSError:
                pass
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return sorted({int(words[1].split(":")[1], 16) for words in lines if words[3] == "0A" and words[9] in inodes})


def table(scene, name):
    """The head and the row of what was seen."""
    attacks = [attack for result in scene.results.values() for attack in result["attacks"].values()]
    refused = sum(sum(n for code, n in attack["answered"].items() if code not in ("OK", "200", "201")) for attack in attacks)
    columns = {"role": name, "attempts": sum(attack["attempts"] for attack in attacks), "refused": refused, "cut": sum(attack["cut"] for attack in attacks)}
    for phase in ("alone", "attack"):
        times = scene.prober.all(phase, *REST)
        columns[f"REST {phase}"] = f"{len(times)}: {quantile(times, .5):.3f} {quantile(times, .99):.3f} {max(times):.3f}"
    for kind in ("ps", "loop", "computing"):
        times = scene.prober.all("attack", kind)
        columns[kind] = f"{quantile(times, .5):.3f} {quantile(times, .99):.3f} {max(times):.3f}"
    columns |= {"steps": scene.steps_done, "MiB before, most, after": f"{scene.memory_before >> 20} {scene.watch.peak >> 20} {scene.watch.memory() >> 20}",
                "agents' MiB": " ".join(str(watch.peak >> 20) for watch in scene.agent_watches),
                "descriptors": scene.watch.descriptors, "CPU s": f"{scene.cpu:.1f}", "loop computed, waited for a CPU, s": f"{scene.computed:.1f} {scene.waited:.1f}"}
    rows = [columns.keys(), ["---"] * len(columns), map(str, columns.values())]
    return ["| " + " | ".join(row) + " |" for row in rows]


def whole(path):
    """What an attacker saw in all its lives."""
    last = json.loads(path.read_text())
    for file in path.parent.glob(path.name + ".*.tally"):
        if file.name == last["life"] + ".tally":
            continue
        for name, seen in json.loads(file.read_text()).items():
            attack = last["attacks"][name]
            for key in ("attempts", "cut"):
                attack[key] += seen[key]
            for key in ("answered", "limits"):
                attack[key] = dict(Counter(attack[key]) + Counter(seen[key]))
            for key in ("unnamed", "told"):
                attack[key] = {**seen[key], **attack[key]}
    return last


class Scene:
    """A cluster of two nodes that red and blue share, red's training, and what watches it."""

    def __init__(self, seconds, folder, lane, seed):
        self.seconds, self.folder, self.lane, self.seed = seconds, Path(folder), lane, seed
        self.cluster = Cluster(self.folder)
        self.attackers, self.worker_jobs, self.results = [], [], {}
        self.elsewhere = Share(f"muster-attack{MARK}", USUAL)
        self.unit = Share(f"muster-coordinator{MARK}", COORDINATOR_WEIGHT)

    def start(self):
        cluster = self.cluster
        cluster.start_coordinator()
        self.unit.move(cluster.coordinator.pid)
        self.users = ("--worker-uids", RANGE) if os.geteuid() == 0 else ()
        for name in ("node1", "node2"):
            cluster.start_agent(name, "--slots", "12", "--cpus", "64", *self.users)
        cluster.wait_nodes(2, HANG_SECONDS)
        self.agents = {name: agent.pid for name, agent in cluster.agents.items()}
        cluster.tokens = {}
        for tenant in ("red", "blue"):
            cluster.muster("tenant", "create", tenant, check=True)
            cluster.tokens[tenant] = cluster.muster("token", "create", f"{tenant}-ci", "--tenant", tenant, check=True).stdout.split()[0]
        self.viewer = cluster.muster("token", "create", "blue-eyes", "--role", "viewer", "--tenant", "blue", check=True).stdout.split()[0]
        self.bin = self.folder / "bin"
        self.shared = self.folder / "shared"
        self.drop = self.folder / "drop"
        for path, mode in ((self.bin, 0o755), (self.shared, 0o1777), (self.drop, 0o1777)):
            path.mkdir()
            path.chmod(mode)
        for path in (ROOT / "build/examples/gpt", *(ROOT / "build").glob("libworker.so*"), ROOT / "tools/localcluster.py", *HERE.glob("attack*.py"), HERE / "wire.py"):
            (self.bin / path.name).write_bytes(path.read_bytes())
            (self.bin / path.name).chmod(0o755)
        (self.bin / "text").write_text("In the beginning was the word, and the word was with all of them. " * 2000)
        self.train()
        self.watch = Watch(cluster.coordinator.pid)
        self.agent_watches = [Watch(pid) for pid in self.agents.values()]
        for watch in (self.watch, *self.agent_watches):
            watch.start()
        self.prober = Prober(cluster, self.training)
        self.prober.start()

    def train(self):
        self.log = self.shared / "steps"
        program = ["nice", "-n", "5", str(self.bin / "gpt"), "--data", str(self.bin / "text"), "--layers", "2", "--heads", "2", "--width", "64", "--context", "64",
                   "--batch", "16", "--steps", str(STEPS), "--log-file", str(self.log), "--log-every", "1000"]
        body = {"command": program, "nodes": {"min": 2, "max": 2}, "env": {"LD_LIBRARY_PATH": str(self.bin), "OPENBLAS_NUM_THREADS": "1"}}
        status, job = self.cluster.rest("POST", "/v1/jobs", {"name": "training", **body}, token=self.cluster.tokens["red"])
        assert status == 201, job
        self.training = job["id"]
        wait_for("the training to go on", HANG_SECONDS, lambda: self.steps()[-1:] >= [10])
        self.before = self.facts()

    def facts(self):
        job = self.cluster.job(self.training)
        return {"state": job["state"], "restarts": job["restarts"], "recoveries": job["recoveries"], "generation": job["generation"],
                "pids": sorted(str(worker["pid"]) for worker in job["workers"])}

    def steps(self):
        """The steps whose loss the program has logged, in the order of the log."""
        try:
            lines = self.log.read_text().splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            if '"name":"loss"' in line:
                try:
                    found.append(json.loads(line)["step"])
                except ValueError:
                    pass  # the line that is being written
        return found

    def phase(self, name, seconds):
        self.prober.phase = name
        time.sleep(seconds)
        self.prober.phase = None

    def pinned(self, tokens):
        return tokens.split(".")[0]

    def new_key(self, name):
        folder = self.folder / "keys" / name
        done = subprocess.run([self.cluster.muster_path, "tls", "init", "--data", str(folder)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(folder / "server.pem")

    def hubs(self):
        """The agents' sockets, as the training's workers were told."""
        found = set()
        for pid in self.before["pids"]:
            found |= set(re.findall(r"MUSTER_WORKER_SOCKET=(?:ipc://)?([^\0]+)", Path(f"/proc/{pid}/environ").read_text(errors="replace")))
        return sorted(found)

    def place(self, role, copy, job):
        """What an attacker of that role is told, as a file that it may read."""
        private = [self.cluster.data / name for name in ("muster.db", "admin.token", "agent.token", "cluster.pem", "server.pem", "sessions.json")]
        private += [self.folder / "nodes/node1" / name for name in ("node.pem", "uids", "agent.lock", "runs/j1.1/output", "work/j1.1.token")]
        told = {
            "seed": f"{self.seed} {role} {copy}", "go": str(self.folder / "go"), "rpc": self.cluster.rpc, "http": self.cluster.http, "muster": self.cluster.muster_path,
            "result": str(self.drop / f"{role}.{time.monotonic_ns()}"), "job": job, "victim": self.training, "mark": MARK, "folder": str(self.shared),
            "yields": role == "worker" or role != "local" and not self.elsewhere.folder,
            "sources": [] if role == "local" else [f"127.2.{self.lane}.{n}" for n in range(1, 9)]}
        if role == "viewer":
            told["viewer"] = self.viewer
        if role == "member":
            told["member"] = self.cluster.tokens["blue"]
        if role == "agent":
            told["agent"] = self.pinned((self.cluster.data / "agent.token").read_text().strip())
            told["keys"] = [self.new_key(f"{role}{copy}.{n}") for n in range(4)]
            told["own_keys"] = {name: self.new_key(f"{name}-{copy}") for name in ("poll_storm", "forged_reports", "forged_calls", "forged_channels", "half_reports")}
        if role == "local":
            pids = [*self.agents.values(), self.cluster.coordinator.pid, *map(int, self.before["pids"])]
            told |= {"hubs": self.hubs(), "private": list(map(str, private)),
                     "shared": str(self.shared), "pids": pids, "rank_ports": listening_ports(map(int, self.before["pids"]))}
        path = self.folder / f"place-{role}-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(told))
        path.chmod(0o644)
        return path, told["result"]

    def submit_blue(self, *command, name):
        again = {"max": 1000, "backoff": "1s..1s", "on_no_progress": "retry", "on_failure": "retry"}  # an attack may cost its own job a restart
        status, job = self.cluster.rest("POST", "/v1/jobs", {"name": name, "command": list(command), "restart": again}, token=self.cluster.tokens["blue"])
        assert status == 201, job
        self.cluster.wait_state(job["id"], {"starting", "running"}, HANG_SECONDS)  # "starting" as long as it speaks to its agent and joins nobody
        return job["id"]

    def attack(self, roles, seconds):
        """Begin all of them; returns when their time is over and each has said what it saw."""
        self.memory_before = self.watch.memory()
        job = self.submit_blue("/bin/sh", "-c", "seq 1 20000; exec sleep 3600", name="blue-own")
        waiting = []
        for role, copy in itertools.product(roles, range(COPIES)):
            path, result = self.place(role, copy, job)
            waiting.append((f"{role} {copy}", result))
            command = ["/usr/bin/python3", str(self.bin / "attack.py"), role, str(path)]
            if role == "worker":
                self.worker_jobs.append(self.submit_blue(*command, name="blue-worker"))
            else:
                user = {"user": 65534, "group": 65534, "extra_groups": []} if role == "local" and os.geteuid() == 0 else {}
                log = open(self.folder / f"{role}.log", "ab")
                self.attackers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **user))
                log.close()
                if role != "local":
                    self.elsewhere.move(self.attackers[-1].pid)
        for role, result in waiting:
            wait_for(f"{role} to begin", HANG_SECONDS, Path(result + ".here").exists, 0.05)
        self.steps_before, self.cpu_before = len(self.steps()), cpu_seconds(self.cluster.coordinator.pid)
        (self.folder / "go.new").write_text(str(time.monotonic() + seconds))
        (self.folder / "go.new").chmod(0o644)
        (self.folder / "go.new").rename(self.folder / "go")
        loop = loop_times(self.cluster.coordinator.pid)
        self.phase("attack", seconds)
        self.computed, self.waited = (after - before for before, after in zip(loop, loop_times(self.cluster.coordinator.pid)))
        self.steps_done, self.cpu = len(self.steps()) - self.steps_before, cpu_seconds(self.cluster.coordinator.pid) - self.cpu_before
        for role, result in waiting:
            wait_for(f"what the {role} saw", HANG_SECONDS, lambda: Path(result).exists() or self.ended_workers(), 0.2)
            self.results[role] = whole(Path(result))
        for attacker in self.attackers:
            attacker.wait(HANG_SECONDS)

    def ended_workers(self):
        """A worker that attacks goes on until its time: what ended it else is told."""
        for job in map(self.cluster.job, self.worker_jobs):
            if job["state"] in ("failed", "cancelled"):
                raise RuntimeError(f"{job['id']} is {job['state']}: {job['reason']}, {job['restarts']} restarts")

    def events(self):
        """All events of nodes and of the training."""
        found, after = [], 0
        while True:
            status, page = self.cluster.rest("GET", f"/v1/events?after={after}&limit=1000")
            assert status == 200, page
            found += [event for event in page["events"] if event["job"] in ("", self.training)]
            if not page["events"]:
                return found
            after = int(page["next"])

    def settle(self):
        """After the attack: the coordinator rests, and what was held for attackers is free. CPU time is no matter of load."""
        for pid in (self.cluster.coordinator.pid, *self.agents.values()):
            def rests():
                first = cpu_seconds(pid)
                time.sleep(2)
                return cpu_seconds(pid) - first < 1
            wait_for(f"process {pid} of coordinator {self.cluster.coordinator.pid}, agents {self.agents} to rest", HANG_SECONDS, rests)

    def check(self):
        """No step, node, process or answer of others was lost."""
        cluster = self.cluster
        assert cluster.coordinator.poll() is None, cluster.log("coordinator.log")[-3000:]
        for name, agent in cluster.agents.items():
            assert agent.poll() is None and agent.pid == self.agents[name], cluster.log(f"{name}.log")[-3000:]
        self.prober.finish()
        assert not self.prober.wrong, f"{len(self.prober.wrong)} answers were wrong, see above"
        told = [event for event in self.events() if event["node"] in self.agents and event["kind"].startswith("node_") or event["job"] == self.training]
        lost = [event for event in told if event["to"] in ("lost", "unreachable") or event["kind"] in ("restart", "worker_exited") or event["generation"] not in ("0", self.before["generation"])]
        assert not lost, lost[:10]
        assert self.facts() == self.before, cluster.log("coordinator.log")[-3000:]
        steps = self.steps()
        assert steps == list(range(1, len(steps) + 1)), "a step is missing, repeated or out of order"
        assert len(steps) > self.steps_before, "the training stood still"
        self.settle()

    def stop(self):
        for attacker in self.attackers:
            if attacker.poll() is None:
                attacker.kill()
            attacker.wait()
        self.elsewhere.end()
        self.cluster.stop()
        self.unit.end()


def everything_at_once(folder, roles):
    """MUSTER_ATTACK_S: how long (20). MUSTER_ATTACK_SEED repeats a run. MUSTER_ATTACK_TABLE: a file for what was seen, which also turns
    on the judgement of times: a machine with other work on it is no place for that."""
    seconds = float(os.environ.get("MUSTER_ATTACK_S", "20"))
    seed = os.environ.get("MUSTER_ATTACK_SEED") or str(random.randrange(1 << 32))
    print(f"MUSTER_ATTACK_SEED={seed} MUSTER_ATTACK_S={seconds:g} {' '.join(roles)}")
    scene = Scene(seconds, folder, os.environ.get("TEST_LANE", "0"), seed)
    try:
        scene.start()
        scene.phase("alone", min(30, max(4, seconds / 6)))
        scene.attack(roles, seconds)
        lines = table(scene, "all" if len(roles) > 1 else roles[0])
        print("\n".join(lines))
        for kind in REST:
            print(kind, *(f"{phase} {len(times)}: {quantile(times, .5):.3f} {quantile(times, .99):.3f}" for phase in ("alone", "attack") for times in [scene.prober.all(phase, kind)]))
        print("muster ps that gave up and were asked again:", scene.prober.again)
        for name in ("coordinator.log", *(f"{node}.log" for node in scene.agents)):
            slow = [line for line in scene.cluster.log(name).splitlines() if " was slow" in line]
            print(f"slow turns in {name}: {len(slow)}", *slow[:20], sep="\n")
        print("answers that were wrong:", len(scene.prober.wrong), *scene.prober.wrong[:20], sep="\n")
        for role, result in scene.results.items():
            for name, attack in result["attacks"].items():
                print(role, name, {key: value for key, value in attack.items() if value})
        scene.check()
        judge_attackers(scene)
        judge_memory(scene)
        path = os.environ.get("MUSTER_ATTACK_TABLE")
        if path:
            with open(path, "a") as file:
                file.write("\n".join(lines if file.tell() == 0 else lines[2:]) + "\n")
            judge_times(scene)
    finally:
        scene.stop()


def judge_attackers(scene):
    """Each attack was made by a copy of its role, none found a way in, and each refusal for an amount says which limit it is.
    Not by each copy: an attack that ends its own process may do so before that has written down what it did."""
    made = {(role.split()[0], name) for role, result in scene.results.items() for name, attack in result["attacks"].items() if attack["attempts"] or attack["cut"]}
    for role, result in scene.results.items():
        assert not result["mistakes"] and not result["stuck"], (role, result["mistakes"], result["stuck"])
        for name, attack in result["attacks"].items():
            assert (role.split()[0], name) in made or scene.seconds < 60, f"{role} {name} did nothing"
            assert not attack["unnamed"], (role, name, attack["unnamed"])


def judge_memory(scene):
    """What callers may hold by the table of limits, answers that HTTP clients have not read (http.h), and the specs of one tenant, held three times over."""
    limits = {line.split('"')[1]: int(line.split()[-1]) for line in scene.cluster.rest("GET", "/metrics", raw=True, token=scene.cluster.token)[1].splitlines()
              if line.startswith("muster_limit{")}
    held = sum(limits[name] for name in ("strangers_half_bytes", "callers_half_bytes", "agents_half_bytes", "callers_unsent_bytes"))
    ceiling = scene.memory_before + held + (512 << 20) + 3 * (64 << 20)
    assert scene.watch.peak < ceiling, f"{scene.watch.peak >> 20} MiB, {ceiling >> 20} at most"


def judge_times(scene):
    """Where the loop waits for a processor for longer than it computes, others have the machine, and its own work between a question and its answer counts."""
    rest, computing = quantile(scene.prober.all("attack", *REST), .99), quantile(scene.prober.all("attack", "computing"), .99)
    busy = scene.waited > scene.computed
    assert rest < SLOW_S or busy and computing < COMPUTING_S, (
        f"p99 of REST is {rest:.3f} s; the loop computed {scene.computed:.1f} s, p99 {computing:.3f} s for a question, and waited {scene.waited:.1f} s for a processor")
