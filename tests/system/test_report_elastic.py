"""Elastic programs without libworker (docs/report.md): their world changes, and their processes stay."""
import json
import os
import signal
import time
from collections import Counter

from localcluster import wait_for
from reporting import lines, program  # noqa: F401: a fixture

ELASTIC = '''
import fcntl

def open_mine(path):
    """The rank's file, which is locked as long as its process lives, and never seen without its lock."""
    file = open(path + ".new", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(path + ".new", path)
    return file

def ended(path):
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except (FileNotFoundError, BlockingIOError):  # it has not begun; it lives
        return False

place = report.ask("hello", elastic=True)
step, joined = 0, report.ask("join", generation=place["generation"], step=0)
while True:
    print(json.dumps({"pid": os.getpid(), **{k: joined.get(k) for k in ("ready", "generation", "rank", "world", "master_port", "stop")}, "step": step}), flush=True)
    if joined["stop"]:
        break
    if not joined["ready"]:
        joined = report.ask("join", generation=joined["generation"], step=step)
        continue
    # A collective of files: nobody is more than a step ahead of the others, and a rank whose process has ended is lost.
    report.events.clear()
    mine, others = (lambda rank: f"FOLDER/{joined['generation']}.{rank}"), [r for r in range(joined["world"]) if r != joined["rank"]]
    file, made = open_mine(mine(joined["rank"])), 0
    while not report.events:
        file.write("x")
        file.flush()
        made += 1
        behind, silent = others, 0  # a rank that left when it was told to is silent, too: others hear of that
        while behind and silent < 50 and not report.events:
            time.sleep(0.02)
            report.ask("should_stop")
            silent = silent + 1 if any(ended(mine(r)) for r in behind) else 0
            behind = [r for r in behind if not os.path.exists(mine(r)) or os.path.getsize(mine(r)) < made]
        if behind and not report.events:
            report.note("lost", generation=joined["generation"], ranks=[r for r in behind if ended(mine(r))])
            while not report.events:
                report.events.append(json.loads(report.lines.readline()))
        if report.events:
            break
        time.sleep(0.1)
        step += 1
        report.ask("step", step=step, generation=joined["generation"])
    event = report.events[0]
    if event["event"] == "stop":
        break
    joined = report.ask("join", generation=event["generation"], step=step)
'''


def test_an_elastic_program_keeps_its_process_while_its_world_changes(make_cluster, program, tmp_path):
    """Loses a node, gets it back, is scaled down and up: the rank that stays has one process from start to end."""
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "1..2", "--", *program(ELASTIC.replace("FOLDER", str(tmp_path))))

    def world(count):
        return lambda: (lambda j: j if j["state"] == "running" and int(j["world"]) == count and int(j.get("step") or 0) > 0 else None)(cluster.job(job))
    first = wait_for("both", 20, world(2))
    assert {worker["state"] for worker in first["workers"]} == {"joined"}
    stays = first["workers"][0]
    lost = next(worker["node"] for worker in first["workers"] if worker["rank"] == 1)
    cluster.kill_node(lost)
    alone = wait_for("the survivor", 20, world(1))
    assert int(alone["generation"]) == 2 and int(alone["restarts"]) == 0
    cluster.start_agent(lost)
    again = wait_for("both again", 60, world(2))
    cluster.muster("scale", job, "1", check=True)
    wait_for("scaled down", 30, world(1))
    cluster.muster("scale", job, "2", check=True)
    last = wait_for("scaled up", 60, world(2))
    assert int(last["generation"]) == int(again["generation"]) + 2
    wait_for("a step of both", 20, lambda: all(int(w["step"] or 0) > 0 for w in cluster.job(job)["workers"]))
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=20)
    told = lines(cluster, job)
    mine = [line for line in told if line["pid"] == int(stays["pid"])]
    assert [(line["world"], line["rank"]) for line in mine if line["ready"]] == [(2, 0), (1, 0), (2, 0), (1, 0), (2, 0)]
    assert [line["generation"] for line in mine if line["ready"]] == [1, 2, 3, 4, 5]
    assert all(a["step"] <= b["step"] for a, b in zip(mine, mine[1:])) and mine[-1]["step"] > 0  # a world may end before its first step
    ports = [line["master_port"] for line in mine if line["ready"]]
    assert all(a != b for a, b in zip(ports, ports[1:]))
    # Each line is of the rank and generation that its program had when it wrote it.
    for line in json.loads(cluster.muster("logs", "-o", "json", job, check=True).stdout)["lines"]:
        if line["text"].startswith("{") and (said := json.loads(line["text"]))["ready"]:
            assert (int(line["generation"]), int(line.get("rank") or 0)) == (said["generation"], said["rank"]), line


GATED = '''
while not os.path.exists("GATE"):       # as imports take
    time.sleep(0.02)
place = report.ask("hello", elastic=True)
step, joined = 0, report.ask("join", generation=place["generation"], step=0)
while not joined["stop"]:
    if not joined["ready"]:
        joined = report.ask("join", generation=joined["generation"], step=step)
        continue
    report.events.clear()
    while not report.events:
        time.sleep(0.05)
        step += 1
        report.ask("step", step=step, generation=joined["generation"])
        print(json.dumps({"step": step, **{k: joined[k] for k in ("generation", "rank", "world", "local_world")}, "pid": os.getpid()}), flush=True)
    if report.events[0]["event"] == "stop":
        break
    joined = report.ask("join", generation=report.events[0]["generation"], step=step)
'''


class Gate:
    """Programs that start wait for it to be open."""
    def __init__(self, tmp_path):
        self.path = tmp_path / "gate"
        self.path.touch()

    def program(self):
        return GATED.replace("GATE", str(self.path))

    def shut(self):
        self.path.unlink()

    def open(self):
        self.path.touch()


def trains(cluster, job, world, generation, more=1):
    """The job, once each rank of such a world has made this many more steps in that generation."""
    def made():
        return Counter(line["rank"] for line in lines(cluster, job) if line["generation"] == generation)
    before = made()
    wait_for(f"{world} ranks to train in generation {generation}", 60, lambda: (lambda now: all(now[rank] >= before[rank] + more for rank in range(world)))(made()))
    return cluster.job(job)


def slots_used(cluster, node):
    nodes = cluster.rest("GET", "/v1/nodes")[1]["nodes"]
    return int(next(shown for shown in nodes if shown["name"] == node).get("slots_used", 0))


def kill_rank_1(job_now):
    victim = next(worker for worker in job_now["workers"] if worker["rank"] == 1)
    os.kill(int(victim["pid"]), signal.SIGKILL)
    return victim


def end(cluster, job):
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=20)


def worlds(cluster, job, pid):
    """The generations in which that process made steps, and how large each was."""
    return sorted({(line["generation"], line["world"]) for line in lines(cluster, job) if line["pid"] == int(pid)})


def test_survivors_do_not_wait_for_the_start_of_a_new_worker(make_cluster, program, tmp_path):
    cluster, gate = make_cluster(nodes=2), Gate(tmp_path)
    job = cluster.submit("-N", "1..2", "--", *program(gate.program()))
    first = trains(cluster, job, 2, 1)
    gate.shut()
    kill_rank_1(first)
    trains(cluster, job, 1, 2, more=10)  # while the new worker starts
    gate.open()
    trains(cluster, job, 2, 3)
    end(cluster, job)
    assert worlds(cluster, job, first["workers"][0]["pid"]) == [(1, 2), (2, 1), (3, 2)]
    assert int(cluster.job(job)["restarts"]) == 1
    events = cluster.muster("events", job, check=True).stdout
    assert "1 of 2 workers is not ready yet; training continues until it is" in events
    assert events.index("its rank has joined generation 2") < events.index("all 2 ranks have joined generation 3")


def test_a_gang_of_a_fixed_size_waits_for_its_new_worker(make_cluster, program, tmp_path):
    cluster, gate = make_cluster(nodes=2), Gate(tmp_path)
    job = cluster.submit("-N", "2", "--elastic", "in_place", "--", *program(gate.program()))
    first = trains(cluster, job, 2, 1)
    gate.shut()
    victim = kill_rank_1(first)
    wait_for("the new worker", 20, lambda: set(cluster.worker_processes(victim["node"])) - {int(victim["pid"])})
    time.sleep(1.5)  # longer than survivors that are enough would wait
    assert cluster.job(job)["state"] == "reforming"
    gate.open()
    trains(cluster, job, 2, 2)
    end(cluster, job)
    assert worlds(cluster, job, first["workers"][0]["pid"]) == [(1, 2), (2, 2)]


def test_a_gang_trains_on_a_drained_node_until_its_new_worker_is_ready(make_cluster, program, tmp_path):
    """Of a fixed size. The first drain is taken back: the new worker ends, and nothing else happens."""
    cluster, gate = make_cluster(nodes=3), Gate(tmp_path)
    job = cluster.submit("-N", "2", "--", *program(gate.program()))
    first = trains(cluster, job, 2, 1)
    gate.shut()
    leaves = next(worker["node"] for worker in first["workers"] if worker["rank"] == 1)
    free = (set(cluster.agents) - {worker["node"] for worker in first["workers"]}).pop()
    cluster.muster("drain", leaves, check=True)
    wait_for("the new worker", 20, lambda: cluster.worker_processes(free))
    cluster.muster("uncordon", leaves, check=True)
    # Known to the coordinator: without a free node the gang would leave the drained one at once.
    wait_for("its end", 20, lambda: not slots_used(cluster, free))
    cluster.muster("drain", leaves, check=True)
    wait_for("another one", 20, lambda: cluster.worker_processes(free))
    trains(cluster, job, 2, 1, more=10)
    assert "moves off a node that is being emptied: 1 worker" in cluster.muster("why", job, check=True).stdout
    gate.open()
    trains(cluster, job, 2, 3)
    wait_for("the node is empty", 20, lambda: not cluster.worker_processes(leaves))
    end(cluster, job)
    for worker in first["workers"]:
        assert worlds(cluster, job, worker["pid"]) == ([(1, 2), (3, 2)] if worker["node"] != leaves else [(1, 2)])
    assert int(cluster.job(job)["restarts"]) == 0


def test_a_node_that_is_added_does_not_stop_the_others_while_its_workers_start(make_cluster, program, tmp_path):
    cluster, gate = make_cluster(nodes=1), Gate(tmp_path)
    job = cluster.submit("-N", "1..2", "--", *program(gate.program()))
    first = trains(cluster, job, 1, 1)
    gate.shut()
    cluster.start_agent("node2")
    wait_for("its worker", 20, lambda: cluster.worker_processes("node2"))
    trains(cluster, job, 1, 1, more=10)
    gate.open()
    trains(cluster, job, 2, 2)
    end(cluster, job)
    assert worlds(cluster, job, first["workers"][0]["pid"]) == [(1, 1), (2, 2)]


def test_a_gang_that_is_scaled_while_it_imports_keeps_its_processes(make_cluster, program, tmp_path):
    """It is silent, and counts as running. One that never speaks is in test_resize.c."""
    cluster, gate = make_cluster(nodes=2), Gate(tmp_path)
    gate.shut()
    job = cluster.submit("-N", "1..2", "--", *program(gate.program()))
    first = cluster.wait_state(job, "running")
    assert [worker["rank"] for worker in first["workers"]] == [0, 1], first
    cluster.muster("scale", job, "1", check=True)
    assert "has 2 nodes and is to have 1: its program has said nothing yet" in cluster.muster("why", job, check=True).stdout
    gate.open()
    trains(cluster, job, 1, 2)
    end(cluster, job)
    assert (2, 1) in worlds(cluster, job, first["workers"][0]["pid"])
    assert "starts again" not in cluster.muster("events", job, check=True).stdout
    assert int(cluster.job(job)["restarts"]) == 0


def test_a_gang_that_is_to_grow_while_it_imports_keeps_its_process(make_cluster, program, tmp_path):
    cluster, gate = make_cluster(nodes=2), Gate(tmp_path)
    gate.shut()
    job = cluster.submit("-N", "1", "--elastic", "in_place", "--", *program(gate.program()))
    first = cluster.wait_state(job, "running")
    cluster.muster("scale", job, "1..2", check=True)
    wait_for("the reason", 20, lambda: "its program has said nothing yet" in cluster.muster("why", job, check=True).stdout)
    gate.open()
    trains(cluster, job, 2, 2)
    end(cluster, job)
    assert (2, 2) in worlds(cluster, job, first["workers"][0]["pid"])
    assert "starts again" not in cluster.muster("events", job, check=True).stdout
