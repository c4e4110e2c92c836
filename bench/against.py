"""Two builds in turns: ./dev bench control|fleet|http|train --against BUILD. BUILD is the build-release of another checkout.

A round is one measurement of each build on connections that are established, and the order changes from round to
round. What is told is the median over the rounds of ours / theirs, and each side's own median. For fleet and control the
coordinator has one core and its callers another, both before all other programs of the machine (SCHED_FIFO), where root may
say so: without that, how long a process sleeps between two calls depends on the load, and with it what a call costs.
The load of http takes all it gets, so it has a core of its own but no precedence. train counts its thread's processor
time, and OPENBLAS_CORETYPE stays as it is in the environment.
"""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster, wait_for  # noqa: E402

ROUNDS = int(os.environ.get("MUSTER_BENCH_ROUNDS", "9"))
NODES, SECONDS = 2000, 6
TRAIN_STEPS = 7
SUBMITS = ((1, 4000), (16, 20000))
CONNECTIONS, WRK_SECONDS, JOBS = 64, 3, 100
SHARED_MEMORY = Path("/dev/shm")
CORES = sorted(os.sched_getaffinity(0))


def cpu_seconds(pid):
    """Of all its threads, to the nanosecond."""
    return sum(int(Path(name).read_text().split()[0]) for name in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def keep_on(pid, core):
    """Give every thread of this process its core."""
    for name in os.listdir(f"/proc/{pid}/task") if len(CORES) > 1 else ():
        os.sched_setaffinity(int(name), {CORES[core]})


def first(pid, core):
    """The same, before others."""
    keep_on(pid, core)
    for name in os.listdir(f"/proc/{pid}/task") if len(CORES) > 1 else ():
        try:
            os.sched_setscheduler(int(name), os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            return


def caller(*words, place=first):
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, preexec_fn=lambda: place(os.getpid(), 1))


class Spent:
    """What the coordinator's processor time was between two moments."""

    def __init__(self, pid):
        self.pid, self.from_s = pid, cpu_seconds(pid)

    def us_each(self, calls):
        return 1e6 * (cpu_seconds(self.pid) - self.from_s) / calls


def fleet(build, folder):
    """Beats of nodes with a connection each, a second apart."""
    keys = Path(tempfile.mkdtemp(prefix="muster-against-", dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None))
    try:
        with Cluster(folder, build / "muster") as cluster:
            cluster.start_coordinator()
            pid = cluster.coordinator.pid
            first(pid, 0)
            token = (cluster.data / "agent.token").read_text().strip()
            with caller(build / "bench/bench_fleet_nodes", cluster.rpc, token, keys, "beats", NODES, SECONDS) as nodes:
                try:
                    ready = nodes.stdout.readline()
                    if not ready.startswith("ready"):
                        raise RuntimeError(f"fleet: {ready}")
                    first(pid, 0)  # its threads that began meanwhile
                    spent = Spent(pid)
                    seen = json.loads(nodes.stdout.readline())
                    each = spent.us_each(seen["calls_per_s"] * SECONDS)
                finally:
                    nodes.kill()
    finally:
        shutil.rmtree(keys, ignore_errors=True)
    if seen["failed"]:
        raise RuntimeError(f"fleet: {seen}")
    return {"a beat, coordinator": (each, "us of a core"), "a beat, median until answered": (seen["p50_ms"], "ms"),
            "a beat, 99 of 100 answered within": (seen["p99_ms"], "ms"), "beats answered": (seen["calls_per_s"], "1/s")}


def control(build, folder):
    """Durable submits of jobs for nodes that are not there."""
    seen = {}
    for clients, jobs in SUBMITS:
        with Cluster(folder / str(clients), build / "muster") as cluster:
            cluster.start_coordinator()
            pid = cluster.coordinator.pid
            words = [build / "bench/bench_control_submit", cluster.rpc, cluster.token, clients]
            with caller(*words, 50, 1) as warm:
                warm.communicate()
            first(pid, 0)
            spent = Spent(pid)
            with caller(*words, jobs, 1) as submits:
                took_s = float(submits.communicate()[0])
            name = f"a submit, {clients} client{'s' if clients > 1 else ''}"
            seen[f"{name}, coordinator"] = (spent.us_each(jobs), "us of a core")
            seen[f"{name}, in all"] = (jobs / took_s, "1/s")
    return seen


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def load(name, url, pid, token=None):
    """Connections stay; wrk asks again as soon as it was answered."""
    head = ["-H", f"Authorization: Bearer {token}"] if token else []
    keep_on(pid, 0)
    spent = Spent(pid)
    with caller("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{WRK_SECONDS}s", "--latency", *head, url, place=keep_on) as wrk:
        text = wrk.communicate()[0]
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(f"http: {text}")
    return {f"{name}, coordinator": (spent.us_each(requests), "us of a core"), f"{name}, in all": (requests / WRK_SECONDS, "1/s"),
            f"{name}, median": (milliseconds(re.search(r"^ +50%\s+(\S+)", text, re.M).group(1)), "ms"),
            f"{name}, 99 of 100 within": (milliseconds(re.search(r"^ +99%\s+(\S+)", text, re.M).group(1)), "ms")}


def http(build, folder):
    """The list of 100 jobs, and /healthz."""
    with Cluster(folder, build / "muster") as cluster:
        cluster.start_coordinator()
        for i in range(JOBS):
            body = {"name": f"read-{i}", "command": ["python3", "train.py", "--steps", "1000"], "nodes": 1}
            wait_for("a job is taken", 60, lambda: cluster.rest("POST", "/v1/jobs", body)[0] < 300)
        pid, url = cluster.coordinator.pid, f"http://{cluster.http}"
        return {**load("GET /v1/jobs", url + "/v1/jobs", pid, cluster.token), **load("GET /healthz", url + "/healthz", pid)}


def train(build, folder):
    """Steps of the GPT of bench/train, in float and in bf16."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    text = subprocess.run([build / "bench/bench_train_kernel", str(TRAIN_STEPS)], env=environment, cwd=folder.parent,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    lines = {line["metric"]: line for line in map(json.loads, text.splitlines())}
    parts = {f"a step, {name}": (line["ours"], line["unit"]) for name, line in lines.items() if line["unit"] == "ms"}
    rates = lines["bf16_vs_f32"]
    return {"training in f32": (rates["peer"], "token/s"), "training in bf16": (rates["ours"], "token/s"), **parts}


WAYS = {"control": control, "fleet": fleet, "http": http, "train": train}


def compare(name, ours, theirs):
    """Rounds of one bench; prints a line a figure."""
    rounds = {ours: [], theirs: []}
    folder = Path(tempfile.mkdtemp(prefix="muster-against-"))
    try:
        for i in range(ROUNDS):
            for build in (theirs, ours) if i % 2 else (ours, theirs):
                rounds[build].append(WAYS[name](build, folder / f"{i}-{build == ours}"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for figure, (_, unit) in rounds[ours][0].items():
        mine, others = ([seen[figure][0] for seen in rounds[build]] for build in (ours, theirs))
        ratios = sorted(a / b for a, b in zip(mine, others))
        print(json.dumps({"bench": name, "metric": figure, "ours": round(statistics.median(mine), 3), "peer": round(statistics.median(others), 3),
                          "peer_name": str(theirs), "ratio": round(statistics.median(ratios), 3), "ratios": [round(ratios[0], 3), round(ratios[-1], 3)],
                          "unit": unit, "target": None, "rounds": ROUNDS, "load": round(os.getloadavg()[0], 1)}), flush=True)


def main(names, build):
    ours, theirs = Path(os.environ.get("MUSTER_BENCH_BUILD", ROOT / "build-release")), Path(build).resolve()
    unknown = [name for name in names if name not in WAYS]
    if unknown or not names:
        print(f"bench: --against goes with {' '.join(WAYS)}", file=sys.stderr)
        return 2
    if not (theirs / "muster").exists():
        print(f"bench: {theirs} is no build of muster", file=sys.stderr)
        return 2
    if "http" in names and not shutil.which("wrk"):
        print("bench http: Debian's wrk is missing: apt-get install wrk", file=sys.stderr)
        return 2
    began = time.monotonic()
    for name in names:
        compare(name, ours, theirs)
    print(f"bench: {ROUNDS} rounds in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0
