"""Jobs whose workers compute on GPUs, on a machine without any: agents read a library that behaves as NVML, workers open
the module over a fake runtime, and fake NCCL passes data between them."""
import json
import os
import re
import signal

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for
from test_training import GPT, losses, reach, text  # noqa: F401 (a fixture)

FAKES = MUSTER.parent / "tests"
MODULE = FAKES / "libfake-cuda.so"
STEPS = 150
# Kernels are emulated: a step of this takes 0.2 s.
MODEL = ["--layers", "1", "--heads", "1", "--width", "16", "--context", "16", "--batch", "4", "--sample", "0"]
# The bounds of cuda_train (docs/cuda.md).
WITHIN = {"no": 1e-6, "bf16": 3e-3}

pytestmark = pytest.mark.skipif(not MODULE.exists(), reason="this build has no headers of CUDA")


@pytest.fixture
def start_gpu_node():
    """Start an agent that has one GPU, a different one than others have."""
    def start(cluster, name):
        with pytest.MonkeyPatch.context() as its:
            its.setenv("LD_LIBRARY_PATH", str(FAKES))
            its.setenv("FAKE_NVML_GPUS", "1")
            its.setenv("FAKE_NVML_BOARD", f"{name}-")
            cluster.start_agent(name)
    return start


@pytest.fixture
def nccl_folder(tmp_path_factory):
    """Short: an id has its name."""
    return tmp_path_factory.mktemp("n")


@pytest.fixture
def job_file(text, tmp_path, nccl_folder):  # noqa: F811
    """A job that says nothing of devices: where there is a GPU, the module and NCCL are found as these name them."""
    def write(steps, dtype, **more):
        path = tmp_path / "job.json"
        path.write_text(json.dumps({
            "command": [str(GPT), "--data", str(text), *MODEL, "--steps", str(steps), "--dtype", dtype],
            "env": {"MUSTER_CUDA_MODULE": str(MODULE), "MUSTER_NCCL": str(FAKES / "libfake_nccl.so"),
                    "FAKE_NCCL_FOLDER": str(nccl_folder), "MUSTER_ATTENTION": "own"}, **more}))
        return path
    return write


def worst(curve, expected):
    assert curve and set(curve) <= set(expected), sorted(set(curve) - set(expected))[:9]
    return max(abs(curve[step] - expected[step]) for step in curve)


@pytest.fixture(scope="module", params=["no", "bf16"])
def on_cpu(request, tmp_path_factory, text):  # noqa: F811
    """An element type, and the curve of it that one rank has on a CPU."""
    from localcluster import Cluster
    cluster = Cluster(tmp_path_factory.mktemp("c"))
    try:
        cluster.start_coordinator()
        cluster.start_agent("node1", "--slots", "1")
        cluster.wait_nodes(1)
        job = cluster.submit("--", GPT, "--data", text, *MODEL, "--steps", STEPS, "--dtype", request.param)
        cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
        return request.param, losses(cluster, job)
    finally:
        cluster.stop()


def settled(cluster, job, before, world):
    def there():
        now = cluster.job(job)
        later = int(now["generation"]) > int(before["generation"])
        return now if later and int(now["world"]) == world and now["state"] == "running" else None
    return wait_for(f"a later generation of {world} ranks", 30, there)


def test_a_gang_on_gpus_loses_ranks_goes_on_grows_saves_and_resumes(make_cluster, start_gpu_node, job_file, on_cpu, nccl_folder, tmp_path):
    dtype, expected = on_cpu
    cluster = make_cluster(nodes=0)
    for name in ("node1", "node2"):
        start_gpu_node(cluster, name)
    cluster.wait_nodes(2)
    saved = {"checkpoint": {"dir": str(tmp_path / "k"), "every": "1000000 steps"}}
    job = cluster.submit(job_file(STEPS, dtype, nodes="1..2", **saved))
    now = reach(cluster, job, 20)
    pids, nodes = ({int(w.get("rank") or 0): w[what] for w in now["workers"]} for what in ("pid", "node"))
    assert len(pids) == 2 and len(list(nccl_folder.iterdir())) == 1, now
    os.kill(int(pids[1]), signal.SIGKILL)
    replaced = settled(cluster, job, now, 2)  # with a generation of one before it, or none
    reach(cluster, job, int(replaced["step"]) + 10)
    cluster.kill_node(nodes[1])
    alone = settled(cluster, job, replaced, 1)
    reach(cluster, job, int(alone["step"]) + 10)
    start_gpu_node(cluster, nodes[1])
    grown = settled(cluster, job, alone, 2)
    reach(cluster, job, int(grown["step"]) + 10)
    assert pids[0] in [w["pid"] for w in grown["workers"]], grown
    log = cluster.output(job)
    assert re.findall(r"generation \d+: rank 0 of (\d)", log)[-3:] == ["2", "1", "2"], log[-3000:]
    assert "resumed from" not in log and "passes through the hosts" not in log, log[-3000:]
    assert len(list(nccl_folder.iterdir())) == 3, "each generation of two ranks has a communicator of its own"
    cluster.muster("cancel", job, check=True)
    ended = cluster.wait_state(job, "cancelled", seconds=HANG_SECONDS)
    at = int(ended["last_checkpoint"]["step"])
    assert 50 < at < STEPS, at
    assert worst(losses(cluster, job), expected) < WITHIN[dtype]

    resumed = cluster.submit("--resume-from", "latest", "-N", "1", job_file(at + 20, dtype, **saved))
    cluster.wait_state(resumed, "succeeded", seconds=HANG_SECONDS)
    log = cluster.output(resumed)
    assert f"resumed from step {at}" in log and "computes on GPU 0" in log, log
    kernels = re.findall(r": (attention of .*)", log)
    assert len(kernels) == len(set(kernels)) and all(": own kernels" in line for line in kernels), log
    assert {"forward", "backward"} == {re.search(r", (\w+): ", line)[1] for line in kernels}, log
    assert sorted(losses(cluster, resumed)) == list(range(at + 1, at + 21))


def test_one_job_file_runs_on_cpu_slots_and_on_gpu_slots(make_cluster, start_gpu_node, job_file, nccl_folder):
    cluster = make_cluster(nodes=0)
    start_gpu_node(cluster, "gpu1")
    start_gpu_node(cluster, "gpu2")
    cluster.wait_nodes(2)
    path = job_file(10, "no", nodes=2)
    curves = []

    def run(where, communicators):
        job = cluster.submit(path)
        cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
        log = cluster.output(job)
        assert {w["node"] for w in cluster.job(job)["workers"]} == set(where)
        assert log.count("computes on GPU 0, fake GPU") == communicators * 2, log
        assert len(list(nccl_folder.iterdir())) == communicators
        curves.append(losses(cluster, job))
    run(["gpu1", "gpu2"], 1)
    for name in ("gpu1", "gpu2"):
        cluster.muster("cordon", name, check=True)
    for file in nccl_folder.iterdir():
        file.unlink()
    for name in ("cpu1", "cpu2"):
        cluster.start_agent(name, "--slots", "1")
    cluster.wait_nodes(2)
    run(["cpu1", "cpu2"], 0)
    assert len(curves[0]) == 10 and worst(*curves) < WITHIN["no"]


def test_a_job_for_gpus_that_no_node_has_is_refused_when_it_is_submitted(make_cluster, start_gpu_node, job_file):
    cluster = make_cluster(nodes=1, slots=4)
    path = job_file(10, "no", constraints={"gpu.model": "H200"})
    refused = cluster.muster("submit", path)
    assert refused.returncode and "none of 1 node carries gpu.model: H200" in refused.stderr, refused.stderr
    start_gpu_node(cluster, "gpu1")
    cluster.wait_nodes(2)
    job = cluster.submit(path)
    cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
    assert [w["node"] for w in cluster.job(job)["workers"]] == ["gpu1"]
