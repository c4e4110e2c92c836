"""The Python package in jobs: what it says to the real agent becomes the job's progress, checkpoints and end."""
import json
import os
import re
import signal
import textwrap
import time

import pytest
from localcluster import HANG_SECONDS, ROOT, wait_for

PYTHON = "/usr/bin/python3"
PLAIN = textwrap.dedent("""
    import json, os, sys, time
    import muster

    folder, total, pace = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    path = muster.latest()
    start = json.loads((path / "state").read_text())["step"] if path else 0
    at = muster.place()
    muster.board.put(f"came/{at.rank}", str(os.getpid()))
    assert all(muster.board.get(f"came/{rank}", wait_s=60) for rank in range(at.world)), at
    muster.should_stop()  # before the loop: SIGTERM is a request from here on
    print("from", start, "rank", at.rank, "of", at.world, "generation", at.generation, flush=True)
    for step in range(start + 1, total + 1):
        time.sleep(pace)
        muster.report(step, loss=1 / step, total_steps=total, metrics={"eval/accuracy": step / total})
        stop = muster.should_stop()
        if at.rank == 0 and (step % 20 == 0 or stop):
            with muster.checkpoint(f"{folder}/step-{step}", step) as made:
                (made / "state").write_text(json.dumps({"step": step}))
        if stop:
            print("stopped at", step, muster.stop_reason(), "grace", round(muster.grace_left()), flush=True)
            sys.exit(muster.EXIT_STOPPED)
    print("done", flush=True)
""")
TORCH = textwrap.dedent("""
    import sys, time
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import muster.torch

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loop = muster.torch.Loop(sys.argv[1], total_steps=int(sys.argv[2]), every=10, model=model, optimizer=optimizer)
    for step in loop:
        time.sleep(0.1)
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        loop.report(loss=loss.detach())
    dist.destroy_process_group()
""")

ELASTIC = textwrap.dedent("""
    import os, sys, time
    import torch
    from torch.nn.parallel import DistributedDataParallel
    import muster, muster.torch

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    sampler = muster.BatchSampler(6000, 6, seed=1)
    data = torch.randn(6000, 8, generator=torch.Generator().manual_seed(1))
    loop = muster.torch.Loop(sys.argv[1], total_steps=int(sys.argv[2]), every=100000, model=model, optimizer=optimizer, sampler=sampler)

    def train(loop):
        ddp = DistributedDataParallel(model)
        for step in loop:
            time.sleep(0.03)
            deal = sampler.deal(sampler.position)
            x = data[sampler.indices(deal)]
            loss = (ddp(x) - x.sum(dim=1, keepdim=True)).square().sum() * sampler.world / deal.samples
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            sampler.commit()
            loop.report(loss=loss.detach())
            print("step", step, deal.position, deal.samples, round(time.time() * 1000), flush=True)
        print("weights", [round(float(x), 5) for x in model.weight.flatten()], flush=True)

    muster.on_resize(lambda at: print("world", at.world, "rank", at.rank, "generation", at.generation, "pid", os.getpid(), flush=True))
    muster.elastic(train, loop)
""")


def submit(cluster, tmp_path, program, *words, nodes=1, **options):
    script = tmp_path / "program.py"
    script.write_text(program)
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return cluster.submit("-N", nodes, *flags, "-e", f"PYTHONPATH={ROOT / 'python'}", "-e", "OMP_NUM_THREADS=1", "--", PYTHON, script, *words)


def number(job, field):
    return int(job.get(field) or 0)


def checkpoints(cluster, job):
    return cluster.rest("GET", f"/v1/jobs/{job}/checkpoints")[1]["checkpoints"]


def test_reports_are_the_jobs_progress(make_cluster, tmp_path):
    cluster = make_cluster(nodes=2)
    job = submit(cluster, tmp_path, PLAIN, tmp_path / "ckpt", 60, 0.02, nodes=2)
    ended = cluster.wait_state(job, {"succeeded", "failed"}, HANG_SECONDS)
    assert ended["state"] == "succeeded", cluster.output(job)
    assert number(ended, "step") == 60 and number(ended, "total_steps") == 60 and abs(ended["loss"] - 1 / 60) < 1e-6
    series = {one["name"] for one in cluster.rest("GET", f"/v1/jobs/{job}/metrics")[1]["series"]}
    assert {"loss", "eval/accuracy"} <= series, series
    assert ended["last_checkpoint"]["path"] == str(tmp_path / "ckpt/step-60")


def test_a_drain_lets_it_save_and_it_goes_on_elsewhere(make_cluster, tmp_path):
    cluster = make_cluster(nodes=2)
    job = submit(cluster, tmp_path, PLAIN, tmp_path / "ckpt", 100000, 0.05)
    wait_for("some steps", HANG_SECONDS, lambda: number(cluster.job(job), "step") >= 5)
    node = cluster.job(job)["workers"][0]["node"]
    cluster.muster("drain", node, check=True)
    output = wait_for("the second start", HANG_SECONDS, lambda: cluster.output(job) if cluster.output(job).count("from ") == 2 else None)
    stopped = int(output.split("stopped at ")[1].split()[0])
    assert f"from {stopped} rank 0 of 1" in output, output
    wait_for("steps of the second start", HANG_SECONDS, lambda: number(cluster.job(job), "step") > stopped)
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", HANG_SECONDS)
    assert cluster.output(job).count("stopped at") == 2, cluster.output(job)


def test_a_killed_worker_resumes_from_the_checkpoint_that_was_reported(cluster, tmp_path):
    job = submit(cluster, tmp_path, PLAIN, tmp_path / "ckpt", 200, 0.02)
    wait_for("a checkpoint", HANG_SECONDS, lambda: number(cluster.job(job), "step") >= 25)
    os.kill(int(cluster.job(job)["workers"][0]["pid"]), 9)
    ended = cluster.wait_state(job, {"succeeded", "failed"}, HANG_SECONDS)
    assert ended["state"] == "succeeded", cluster.output(job)
    starts = [int(line.split()[1]) for line in cluster.output(job).splitlines() if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == 0 and starts[1] >= 20 and starts[1] % 20 == 0, starts


def test_a_torch_loop_of_three_lines_has_steps_checkpoints_and_a_graceful_end(make_cluster, tmp_path):
    pytest.importorskip("torch")
    cluster = make_cluster(nodes=2)
    job = submit(cluster, tmp_path, TORCH, tmp_path / "ckpt", 100000, nodes=2)
    wait_for("two checkpoints", HANG_SECONDS, lambda: len(checkpoints(cluster, job)) >= 2)
    now = wait_for("their steps", HANG_SECONDS, lambda: (lambda j: j if number(j, "step") >= 20 else None)(cluster.job(job)))
    assert now["loss"] is not None and number(now, "total_steps") == 100000
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", HANG_SECONDS)
    names = os.listdir(tmp_path / "ckpt")
    assert not [name for name in names if name.startswith(".")]
    last = max(int(one["step"]) for one in checkpoints(cluster, job))
    assert max(names) == f"step-{last:08}" and last > number(now, "step"), (names, last)


def test_an_elastic_loop_keeps_its_process_and_deals_each_sample_once(make_cluster, tmp_path):
    """Loses a node and gets it back: the survivor has one process, and steps and samples follow each other without gap or repeat."""
    pytest.importorskip("torch")
    cluster = make_cluster(nodes=2)
    total = 400
    job = submit(cluster, tmp_path, ELASTIC, tmp_path / "ckpt", total, nodes="1..2")

    def world(count):
        return lambda: (lambda j: j if j["state"] == "running" and int(j["world"]) == count else None)(cluster.job(job))

    def steps_in(generation):
        """Of its main output, once there are some."""
        begin = f" generation {generation} pid "
        return lambda: (lambda text: begin in text and text.rpartition(begin)[2].count("step ") > 5)(cluster.output(job))
    wait_for("both", HANG_SECONDS, steps_in(1))
    first = cluster.job(job)
    victim = next(worker["node"] for worker in first["workers"] if int(worker["rank"]) == 1)
    survivor = next(int(worker["pid"]) for worker in first["workers"] if int(worker["rank"]) == 0)
    cluster.kill_node(victim)
    wait_for("the survivor", HANG_SECONDS, world(1))
    wait_for("its steps", HANG_SECONDS, steps_in(2))
    cluster.start_agent(victim)
    wait_for("both again", HANG_SECONDS, world(2))
    ended = cluster.wait_state(job, {"succeeded", "failed"}, HANG_SECONDS)
    output = re.sub(r"^\[\d+\] ", "", cluster.output(job), flags=re.M)
    assert ended["state"] == "succeeded" and int(ended["restarts"]) == 0, output[-3000:]
    worlds = [line.split() for line in output.splitlines() if line.startswith("world")]
    mine = [(line[1], line[3]) for line in worlds if int(line[7]) == survivor]
    assert mine == [("2", "0"), ("1", "0"), ("2", "0")], (survivor, worlds)
    dealt = {}
    for line in output.splitlines():
        if line.startswith("step"):
            _, step, position, samples, _ = line.split()
            assert dealt.setdefault(int(step), (int(position), int(samples))) == (int(position), int(samples)), line
    assert dealt == {step: (6 * step, 6) for step in range(total)}
    weights = {line for line in output.splitlines() if line.startswith("weights")}
    assert len(weights) == 1, weights


WORLDS = textwrap.dedent("""
    import json, os, signal, sys, time
    import torch
    from torch.nn.parallel import DistributedDataParallel
    import muster, muster.torch

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    sampler = muster.BatchSampler(6000, 6, seed=1)
    data = torch.randn(6000, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loop = muster.torch.Loop(sys.argv[1], model=model, optimizer=optimizer, sampler=sampler)
    said = open(f"{sys.argv[2]}/{os.getpid()}.said", "w", buffering=1)  # what was printed last is lost with a node

    def train(loop):
        ddp = DistributedDataParallel(model)
        for step in loop:
            time.sleep(0.03)
            deal = sampler.deal(sampler.position)
            ids = sampler.indices(deal)
            loss = (ddp(data[ids]) - data[ids].sum(dim=1, keepdim=True)).square().sum()
            # Before the step is done on all ranks: one that is killed behind it has said its part.
            print(json.dumps({"step": step, "ids": [int(i) for i in ids], "loss": float(loss.detach()), "rank": sampler.rank, "world": sampler.world,
                              "generation": muster.place().generation, "pid": os.getpid(), "at": time.time()}), file=said)
            optimizer.zero_grad(); (loss * sampler.world / deal.samples).backward(); optimizer.step()
            sampler.commit()
            loop.report(loss=loss.detach() / deal.samples)

    muster.elastic(train, loop)
""")


def undisturbed(torch, steps):
    """The sum of losses at each step of one process that trains on the same samples, and knows of no world."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    data = torch.randn(6000, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for ids in steps:
        loss = (model(data[ids]) - data[ids].sum(dim=1, keepdim=True)).square().sum()
        optimizer.zero_grad()
        (loss / len(ids)).backward()
        optimizer.step()
        yield float(loss.detach())


def all_said(folder):
    return [json.loads(text) for file in folder.glob("*.said") for text in file.read_text().splitlines()]


def check_as_undisturbed(torch, said):
    """The number of steps, and the worst difference of a loss. The last step may not have been done by all."""
    found, whole = {}, {}
    for line in said:
        found.setdefault(line["step"], []).append(line)
    last = max(found)
    for step, lines in found.items():  # a step that broke was done again in a later generation
        ranks = {line["rank"]: line for line in lines if line["generation"] == max(other["generation"] for other in lines)}
        if len(ranks) == ranks[0]["world"]:
            whole[step] = ranks
    assert set(range(last)) <= set(whole), sorted(set(range(last)) - set(whole))
    dealt = [[i for rank in sorted(whole[step]) for i in whole[step][rank]["ids"]] for step in range(last)]
    epoch = sum(dealt[:1000], [])
    assert all(len(ids) == 6 for ids in dealt) and len(set(epoch)) == len(epoch)
    losses = [sum(line["loss"] for line in whole[step].values()) for step in range(last)]
    worst = max(abs(a - b) / max(1e-9, b) for a, b in zip(losses[:1000], undisturbed(torch, dealt[:1000])) if b > 1e-6)
    assert worst < 1e-9, worst
    return last, worst


def test_a_world_that_changes_again_and_again_trains_as_one_that_never_does(make_cluster, tmp_path):
    """1..3 nodes: a worker is killed, a node is lost and returns, the job is scaled down and up. Each sample is dealt once, the losses
    are those of an undisturbed run, and the rank that stays has one process that is never kept waiting for another's imports."""
    torch = pytest.importorskip("torch")
    cluster = make_cluster(nodes=3)
    job = submit(cluster, tmp_path, WORLDS, tmp_path / "ckpt", tmp_path, nodes="1..3")

    def trains(world, above=0, steps=0):
        def look():
            now = cluster.job(job)
            fine = now["state"] == "running" and int(now["world"]) == world and int(now["generation"]) > above
            return now if fine and sum(w["state"] == "joined" and int(w["step"] or 0) > steps for w in now["workers"]) >= world else None
        return look
    first = wait_for("three", HANG_SECONDS, trains(3, steps=20))
    stays = next(worker for worker in first["workers"] if int(worker["rank"]) == 0)
    os.kill(next(int(worker["pid"]) for worker in first["workers"] if int(worker["rank"]) == 2), signal.SIGKILL)
    killed = time.time()
    two = wait_for("the two that are left", HANG_SECONDS, trains(2, int(first["generation"])))
    three = wait_for("three again", HANG_SECONDS, trains(3, int(two["generation"])))
    victim = next(worker["node"] for worker in three["workers"] if int(worker["rank"]) == 1)
    cluster.kill_node(victim)
    wait_for("two of three nodes", HANG_SECONDS, trains(2, int(three["generation"])))
    cluster.start_agent(victim)
    again = wait_for("the node that returned", HANG_SECONDS, trains(3, int(three["generation"]) + 1))
    cluster.muster("scale", job, "1", check=True)
    one = wait_for("scaled down", HANG_SECONDS, trains(1, int(again["generation"])))
    cluster.muster("scale", job, "1..3", check=True)
    wait_for("scaled up", HANG_SECONDS, trains(3, int(one["generation"])))
    time.sleep(1)
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled", HANG_SECONDS)
    said = all_said(tmp_path)
    mine = [line for line in said if line["pid"] == int(stays["pid"])]
    last, worst = check_as_undisturbed(torch, said)
    worlds = [line["world"] for line in mine]
    passed = [world for at, world in enumerate(worlds) if at == 0 or worlds[at - 1] != world]
    begun = [(line["generation"], line["world"], round(line["at"] - killed, 2)) for at, line in enumerate(mine)
             if at == 0 or mine[at - 1]["generation"] != line["generation"]]
    # Scaled up, it takes one node first where the other's worker still ends.
    assert passed[:6] == [3, 2, 3, 2, 3, 1] and passed[6:] in ([3], [2, 3]), begun
    after = [line["at"] for line in mine if line["at"] > killed and line["world"] == 2]
    took = after[1] - killed  # its second step has begun: the first is done
    print(f"{last} steps, worst relative difference of a loss {worst:.1e}; next step of the survivors after {took:.2f} s")


def test_a_gang_of_a_fixed_size_trains_on_a_drained_node_while_its_new_worker_imports(make_cluster, tmp_path):
    torch = pytest.importorskip("torch")
    cluster, gate = make_cluster(nodes=3), tmp_path / "gate"
    gate.touch()
    imports = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.02)\n"
    job = submit(cluster, tmp_path, imports + WORLDS, tmp_path / "ckpt", tmp_path, nodes=2)

    def steps_of(generation):
        return [sum(line["generation"] == generation and line["rank"] == rank for line in all_said(tmp_path)) for rank in range(2)]
    wait_for("steps of both", HANG_SECONDS, lambda: min(steps_of(1)) > 10)
    gate.unlink()
    first = cluster.job(job)["workers"]
    leaves = next(worker["node"] for worker in first if int(worker["rank"]) == 1)
    free = (set(cluster.agents) - {worker["node"] for worker in first}).pop()
    cluster.muster("drain", leaves, check=True)
    wait_for("the new worker", HANG_SECONDS, lambda: cluster.worker_processes(free))
    before = min(steps_of(1))
    wait_for("steps of both on the drained node", HANG_SECONDS, lambda: min(steps_of(1)) > before + 20)
    gate.touch()
    wait_for("steps without the node", HANG_SECONDS, lambda: min(steps_of(2)) > 10)
    wait_for("the node is empty", HANG_SECONDS, lambda: not cluster.worker_processes(leaves))
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled", HANG_SECONDS)
    said = all_said(tmp_path)
    check_as_undisturbed(torch, said)
    assert int(ended["restarts"]) == 0 and {line["generation"] for line in said} == {1, 2}
    assert len({line["pid"] for line in said if line["rank"] == 0}) == 1 and len({line["pid"] for line in said if line["rank"] == 1}) == 2
