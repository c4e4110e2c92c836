#!/usr/bin/python3
"""How long a torch DDP job of two ranks stands still when a rank or a node is killed: muster.elastic, which keeps the survivors'
processes; Muster's restart of an unmodified script; torchrun with two processes of one agent; torchft with two replicas of one
process, where the torch has it. From SIGKILL to the first step of a later generation, and to the first of the whole world again,
whose new process imports torch. MUSTER_BENCH_TORCH names another torch's Python than Debian's.

    run.py [--rounds N]
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(HERE.parent))
from localcluster import Cluster, descendants, free_port, processes  # noqa: E402
from torches import torches  # noqa: E402

ROUNDS, LIMIT_S, TARGET_S = 5, 90, 1.5
BUILD = Path(os.environ.get("MUSTER_BENCH_BUILD", ROOT / "build-release"))


def steps(folder):
    """(milliseconds, generation, world) of all processes."""
    found = []
    for path in Path(folder).glob("steps-*"):
        found += [(int(when), int(generation), int(world)) for when, generation, world in
                  (line.split() for line in path.read_text().splitlines() if line.count(" ") == 2)]
    return found


class Lost(Exception):
    pass


def until(folder, good):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        fine = [when for when, generation, world in steps(folder) if good(when, generation, world)]
        if fine:
            return min(fine)
        time.sleep(0.005)
    raise Lost


def measure(folder, kill, again=lambda: None):
    """(seconds to a step of a later generation, to one of two ranks)"""
    until(folder, lambda when, generation, world: world == 2 and when > time.time() * 1000 - 500)
    time.sleep(1)
    generation = max(g for _, g, _ in steps(folder))
    start = time.time() * 1000
    kill()
    first = until(folder, lambda when, g, _: g > generation)
    again()
    whole = until(folder, lambda when, g, world: g > generation and world == 2)
    return (first - start) / 1000, (whole - start) / 1000


def rounds_of(metric, count, act, target=None):
    times, lost = [], 0
    for _ in range(count):
        try:
            times.append(act())
        except Lost:
            lost += 1
            break
    for name, place in (("a step of those left", 0), ("a step of both", 1)):
        seen = [one[place] for one in times]
        if seen:
            print(json.dumps({"bench": "recovery_torch", "metric": f"{metric}, to {name}", "ours": round(statistics.median(seen), 2),
                              "min": round(min(seen), 2), "max": round(max(seen), 2), "recovered": f"{len(seen)} of {len(seen) + lost}",
                              "peer": None, "peer_name": None, "ratio": None, "unit": "s", "target": target if place == 0 else None}), flush=True)
    return lost == 0


def under_muster(python, how, count):
    folder = Path(tempfile.mkdtemp(prefix="mb-"))
    try:
        with Cluster(folder, BUILD / "muster") as cluster:
            cluster.start_coordinator()
            for name in ("node1", "node2"):
                cluster.start_agent(name, "--slots", "1")
            cluster.wait_nodes(2)
            name = cluster.submit("-N", "1-2" if how == "inplace" else "2", "--restarts", "1000", "--on-failure", "retry",
                                  "-e", f"PYTHONPATH={ROOT / 'python'}", "-e", "OMP_NUM_THREADS=1", "--", python, HERE / "program.py", how, folder)
            victim = []

            def worker():
                os.kill(next(int(w["pid"]) for w in cluster.job(name)["workers"] if int(w["rank"]) == 1), signal.SIGKILL)

            def node():
                victim[:] = [next(w["node"] for w in cluster.job(name)["workers"] if int(w["rank"]) == 1)]
                cluster.kill_node(victim[0])
            what = {"inplace": "muster.elastic", "restart": "an unmodified script restarted by Muster"}[how]
            fine = rounds_of(f"{what}, worker killed", count, lambda: measure(folder, worker), TARGET_S if how == "inplace" else None)
            back = lambda: cluster.start_agent(victim[0])
            if how == "inplace":
                fine &= rounds_of(f"{what}, node killed", count, lambda: measure(folder, node, back), TARGET_S)
            else:
                fine &= rounds_of(f"{what}, node killed and back at once", count, lambda: measure(folder, lambda: (node(), back())))
            cluster.muster("cancel", name)
            return fine
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Torchrun:
    """Agents of torchrun that run program.py, the first of which has the store."""

    def __init__(self, python, folder, agents, workers):
        self.folder, self.log = folder, open(f"{folder}/log", "w")
        self.command = [python, "-m", "torch.distributed.run", "--nproc_per_node", str(workers), "--nnodes", str(agents), "--max_restarts", "1000",
                        "--rdzv_id", "bench", "--rdzv_backend", "c10d", "--rdzv_endpoint", f"127.0.0.1:{free_port()}"]
        self.running = [self.begin(place == 0) for place in range(agents)]

    def begin(self, has_store):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return subprocess.Popen([*self.command, "--rdzv_conf", f"is_host={has_store}", HERE / "program.py", "restart", self.folder],
                                stdout=self.log, stderr=self.log, env=environment, start_new_session=True)

    def starts(self):
        while not steps(self.folder):
            if any(agent.poll() is not None for agent in self.running):
                return False
            time.sleep(0.1)
        return True

    def kill_worker(self):
        table, agent = processes(), self.running[-1].pid
        os.kill(max(pid for pid, (parent, line) in table.items() if parent == agent and "program.py" in line), signal.SIGKILL)

    def kill_agent(self, agent):
        for pid in descendants({agent.pid}):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        agent.wait()

    def lose_node(self):
        self.kill_agent(self.running[-1])
        self.running[-1] = self.begin(False)

    def end(self):
        for agent in self.running:
            self.kill_agent(agent)
        self.log.close()


def under_torchrun(python, count):
    fine = True
    for agents, workers, what, kill in [(1, 2, "one agent with two processes, worker killed", Torchrun.kill_worker),
                                        (2, 1, "two agents with a process each, node killed and back at once", Torchrun.lose_node)]:
        with tempfile.TemporaryDirectory(prefix="mb-") as folder:
            torchrun = Torchrun(python, folder, agents, workers)
            try:
                if not torchrun.starts():
                    print(f"bench recovery_torch: this torchrun does not start: {Path(folder, 'log').read_text()[-200:].strip()}", file=sys.stderr)
                    return True
                fine &= rounds_of(f"torchrun, {what}", count, lambda: measure(folder, lambda: kill(torchrun)))
            finally:
                torchrun.end()
    return fine


LIGHTHOUSE = ("--min_replicas", "1", "--join_timeout_ms", "10000")  # the rest is its default


class Replicas:
    """A lighthouse and two replicas, of which a dead one is started again."""

    def __init__(self, python, folder):
        port = free_port()
        self.log = open(f"{folder}/log", "w")
        self.command = [python, HERE / "program.py", "torchft", folder]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}"}
        self.running = [self.begin([Path(python).parent / "torchft_lighthouse", *LIGHTHOUSE, "--bind", f"127.0.0.1:{port}"])]
        self.running += [self.begin(self.command) for _ in range(2)]

    def begin(self, command):
        return subprocess.Popen(command, stdout=self.log, stderr=self.log, env=self.environment)

    def kill(self):
        self.running[-1].kill()
        self.running[-1].wait()
        self.running[-1] = self.begin(self.command)

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()
        self.log.close()


def under_torchft(python, count):
    if subprocess.run([python, "-c", "import torchft"], capture_output=True).returncode:
        print("bench recovery_torch: this Python has no torchft", file=sys.stderr)
        return True
    with tempfile.TemporaryDirectory(prefix="mb-") as folder:
        replicas = Replicas(python, folder)
        try:
            return rounds_of("torchft, two replicas, one killed", count, lambda: measure(folder, replicas.kill))
        finally:
            replicas.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    count, fine = parser.parse_args().rounds, True
    for torch in torches("recovery_torch"):
        print(f"bench recovery_torch: torch {torch.version}", file=sys.stderr)
        fine &= under_muster(torch.python, "inplace", count) and under_muster(torch.python, "restart", count)
        fine &= under_torchrun(torch.python, count) and under_torchft(torch.python, count)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
