"""What HuggingFace Accelerate makes of a job's `training`, and which Python a job runs. The first asks the real thing, where MUSTER_ACCELERATE names
a Python that has it."""
import json
import os
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT

ACCELERATE = os.environ.get("MUSTER_ACCELERATE")
SCRIPT = """
import json, os, torch
from accelerate import Accelerator
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import FullyShardedDataParallelPlugin
acc = Accelerator()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
x = torch.randn(64, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
model, opt, loader = acc.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-2), torch.utils.data.DataLoader(data, batch_size=4))
steps = 0
for a, b in loader:
    with acc.accumulate(model):
        acc.backward(torch.nn.functional.mse_loss(model(a).float(), b))
        opt.step()
        opt.zero_grad()
        steps += acc.sync_gradients
said = {"world": acc.num_processes, "mixed": acc.mixed_precision, "window": acc.gradient_accumulation_steps, "steps": steps}
if os.environ.get("ACCELERATE_USE_FSDP") == "true":  # as it would be where there are GPUs
    plugin = FullyShardedDataParallelPlugin()
    said |= {"fsdp": plugin.fsdp_version, "reshard": plugin.reshard_after_forward, "recompute": plugin.activation_checkpointing}
if acc.is_main_process:
    print(json.dumps(said), flush=True)
acc.end_training()
"""


@pytest.mark.skipif(not ACCELERATE, reason="MUSTER_ACCELERATE names no Python with accelerate")
@pytest.mark.parametrize("settings,expected", [
    (["mixed_precision=bf16", "gradient_accumulation_steps=4"], {"mixed": "bf16", "window": 4, "steps": 2}),
    (["strategy=fsdp"], {"fsdp": 2, "reshard": True, "recompute": False}),
    (["strategy=fsdp", "mesh.dp_shard=2", "fsdp.reshard_after_forward=false", "recompute=true"], {"fsdp": 2, "reshard": False, "recompute": True}),
    (["strategy=zero2"], {"fsdp": 2, "reshard": False}),
])
def test_accelerate_hears_what_training_says(cluster, tmp_path, settings, expected):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = [word for setting in settings for word in ("--set", setting)]
    job = cluster.submit("-w", "2", *words, "--", ACCELERATE, script)
    assert cluster.wait_state(job, {"succeeded", "failed"}, HANG_SECONDS)["state"] == "succeeded", cluster.output(job)
    output = cluster.muster("logs", "--rank", "0", job).stdout
    said = next(json.loads(line) for line in output.splitlines() if line.startswith("{"))
    assert said["world"] == 2 and said == said | expected, said


def test_what_accelerate_is_not_told_is_a_warning_at_submit(cluster):
    done = cluster.muster("submit", "--set", "strategy=zero1", "--set", "clip_grad_norm=1", "--", "python3", "-c", "0")
    assert done.returncode == 0 and "it must set strategy zero1, clip_grad_norm itself" in done.stderr, done
    done = cluster.muster("submit", "--set", "strategy=zero1", "--", "/bin/true")
    assert done.returncode == 0 and "Accelerate" not in done.stderr, done


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_virtual_environment_of_the_shell_goes_along(cluster, tmp_path, variable):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho this one: ${variable}\n")
    python.chmod(0o755)
    shell = {name: value for name, value in cluster.environment().items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}

    def run(*words, **more):
        return subprocess.run([MUSTER, *words], capture_output=True, text=True, timeout=HANG_SECONDS, env=shell | more, cwd=ROOT)

    job = run("submit", "--", "python", **{variable: str(tmp_path / "venv")}).stdout.strip()
    cluster.wait_state(job, "succeeded")
    assert cluster.output(job) == f"this one: {tmp_path}/venv\n"
    assert f"python      {tmp_path}/venv/bin ({variable})" in run("show", job).stdout

    # Said otherwise, and not there on the node.
    job = run("submit", "-e", f"{variable}=/nowhere", "--", "sh", "-c", f"echo ${variable} $PATH", **{variable: str(tmp_path / "venv")}).stdout.strip()
    cluster.wait_state(job, "succeeded")
    assert cluster.output(job).startswith("/nowhere /nowhere/bin:/"), cluster.output(job)
