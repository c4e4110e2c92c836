"""Elastic programs without libworker (docs/report.md): their world changes, and their processes stay."""
import os
import signal
import time

from localcluster import wait_for
from reporting import lines, program  # noqa: F401: a fixture

ELASTIC = '''
place = report.ask("hello", elastic=True)
step, joined = 0, report.ask("join", generation=place["generation"], step=0)
while True:
    print(json.dumps({"pid": os.getpid(), **{k: joined.get(k) for k in ("ready", "generation", "rank", "world", "master_port", "stop")}, "step": step}), flush=True)
    if joined["stop"]:
        break
    if not joined["ready"]:
        joined = report.ask("join", generation=joined["generation"], step=step)
        continue
    # A collective of files: nobody is more than a step ahead of the others, and a rank that is silent is lost.
    report.events.clear()
    mine, others = (lambda rank: f"FOLDER/{joined['generation']}.{rank}"), [r for r in range(joined["world"]) if r != joined["rank"]]
    first, lost, begun = step, [], time.monotonic()
    while not report.events:
        open(mine(joined["rank"]), "a").write("x")
        behind = [r for r in others if not os.path.exists(mine(r)) or os.path.getsize(mine(r)) < os.path.getsize(mine(joined["rank"]))]
        until = time.monotonic() + (10 if step == first else 1.5)
        while behind and time.monotonic() < until and not report.events:
            time.sleep(0.02)
            report.ask("should_stop")
            behind = [r for r in behind if not os.path.exists(mine(r)) or os.path.getsize(mine(r)) < os.path.getsize(mine(joined["rank"]))]
        if behind and not report.events:
            report.note("lost", generation=joined["generation"], ranks=behind)
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


SLOW = '''
time.sleep(START)                       # as imports take
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
        print(json.dumps({"at": time.time(), "step": step, **{k: joined[k] for k in ("generation", "rank", "world", "local_world")}, "pid": os.getpid()}), flush=True)
    if report.events[0]["event"] == "stop":
        break
    joined = report.ask("join", generation=report.events[0]["generation"], step=step)
'''


def grown_after_a_kill(cluster, job, world):
    """Kills the last rank's process; the lines of all processes until the whole world made steps again, and when it was killed."""
    def trains(generation):
        def look():
            job_now = cluster.job(job)
            whole = job_now["state"] == "running" and int(job_now["world"]) == world and int(job_now["generation"]) >= generation
            return job_now if whole and all(int(worker["step"] or 0) > 0 for worker in job_now["workers"]) else None
        return look
    first = wait_for("all", 30, trains(1))
    time.sleep(1)
    os.kill(next(int(worker["pid"]) for worker in first["workers"] if worker["rank"] == world - 1), signal.SIGKILL)
    killed = time.time()
    wait_for("all again", 60, trains(int(first["generation"]) + 1))
    time.sleep(0.5)
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=20)
    return first, lines(cluster, job), killed


def longest_gap(told, pid):
    times = [line["at"] for line in told if line["pid"] == pid]
    return max(b - a for a, b in zip(times, times[1:]))


def test_survivors_do_not_wait_for_the_start_of_a_new_worker(make_cluster, program):
    cluster = make_cluster(nodes=2)
    job = cluster.submit("-N", "1..2", "--", *program(SLOW.replace("START", "4")))
    first, told, killed = grown_after_a_kill(cluster, job, 2)
    stays = int(first["workers"][0]["pid"])
    mine = [(line["generation"], line["world"]) for line in told if line["pid"] == stays]
    assert sorted(set(mine)) == [(1, 2), (2, 1), (3, 2)]
    alone = [line["at"] for line in told if line["pid"] == stays and line["generation"] == 2]
    assert alone[0] - killed < 1.5 and alone[-1] - killed > 3.5 and longest_gap(told, stays) < 1.5
    assert int(cluster.job(job)["restarts"]) == 1
    events = cluster.muster("events", job, check=True).stdout
    assert "1 of 2 workers is not ready yet; training continues until it is" in events
    assert events.index("its rank has joined generation 2") < events.index("all 2 ranks have joined generation 3")


def test_a_new_worker_that_is_ready_at_once_costs_one_generation(make_cluster, program):
    cluster = make_cluster(nodes=2)
    job = cluster.submit("-N", "1..2", "--", *program(SLOW.replace("START", "0")))
    first, told, killed = grown_after_a_kill(cluster, job, 2)
    stays = int(first["workers"][0]["pid"])
    assert {(line["generation"], line["world"]) for line in told if line["pid"] == stays} == {(1, 2), (2, 2)}
    assert longest_gap(told, stays) < 1.5


def test_a_gang_of_a_fixed_size_waits_for_its_new_worker(make_cluster, program):
    cluster = make_cluster(nodes=2)
    job = cluster.submit("-N", "2", "--elastic", "in_place", "--", *program(SLOW.replace("START", "2")))
    first, told, killed = grown_after_a_kill(cluster, job, 2)
    assert {(line["generation"], line["world"]) for line in told} == {(1, 2), (2, 2)}


def test_a_node_that_is_added_does_not_stop_the_others_while_its_workers_start(make_cluster, program):
    cluster = make_cluster(nodes=1)
    job = cluster.submit("-N", "1..2", "--", *program(SLOW.replace("START", "3")))
    first = wait_for("steps", 30, lambda: (lambda j: j if int(j.get("step") or 0) > 5 else None)(cluster.job(job)))
    stays = int(first["workers"][0]["pid"])
    cluster.start_agent("node2")
    wait_for("both", 60, lambda: int(cluster.job(job)["world"]) == 2)
    time.sleep(1)
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", seconds=20)
    told = lines(cluster, job)
    assert {(line["generation"], line["world"]) for line in told if line["pid"] == stays} == {(1, 1), (2, 2)}
    assert longest_gap(told, stays) < 1.5
