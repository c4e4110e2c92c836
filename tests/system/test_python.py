"""The Python package in jobs: what it says to the real agent becomes the job's progress, checkpoints and end."""
import os
import textwrap

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
