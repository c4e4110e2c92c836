"""What HuggingFace Accelerate makes of a job's `training`, and which Python a job runs. tests/reference/accelerate.json has what the real one
said that a job's variables mean; here a job must get these variables."""
import json
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT

ROWS = json.loads((ROOT / "tests/reference/accelerate.json").read_text())
MEANT = [
    {"mixed": "bf16", "window": 4, "steps": 2},
    {"fsdp": 2, "reshard": True, "recompute": False},
    {"fsdp": 2, "reshard": False, "recompute": True},
    {"fsdp": 2, "reshard": False},
]
SCRIPT = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith(('ACCELERATE_', 'FSDP_', 'PARALLELISM_CONFIG_'))}))"


@pytest.mark.parametrize("row,meant", zip(ROWS, MEANT, strict=True))
def test_accelerate_hears_what_training_says(cluster, row, meant):
    words = [word for setting in row["settings"] for word in ("--set", setting)]
    job = cluster.submit("-w", "2", *words, "--", "/usr/bin/python3", "-c", SCRIPT)
    assert cluster.wait_state(job, {"succeeded", "failed"}, HANG_SECONDS)["state"] == "succeeded", cluster.output(job)
    variables = json.loads(cluster.muster("logs", "--rank", "0", job).stdout.splitlines()[-1])
    assert variables == row["variables"]
    assert row["said"]["world"] == 2 and row["said"] == row["said"] | meant


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
