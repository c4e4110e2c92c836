"""/openapi.json by the words of others: a validator of OpenAPI, and schemathesis, which makes requests from it, right
and wrong ones, and holds the answers against it. Both come from PyPI, by `./dev setup peers` into .venv, or are found
with the Python that MUSTER_TEST_PEERS names; without them these tests are skipped and say so. What always runs is
test_routes.c of tests/unit/coordinator_api.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster  # noqa: E402

PYTHON = os.environ.get("MUSTER_TEST_PEERS", str(ROOT / ".venv/bin/python"))
EXAMPLES, SEED = 5, 1


def module(name):
    """The Python that has it, or the test is skipped."""
    try:
        found = subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        found = False
    if not found:
        pytest.skip(f"{PYTHON} has no {name}: ./dev setup peers (or MUSTER_TEST_PEERS=PYTHON)")
    return [PYTHON, "-m"]


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as one:
        one.start_coordinator()
        yield one


def test_the_description_is_valid(cluster, tmp_path):
    command = module("openapi_spec_validator")
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(cluster.rest("GET", "/openapi.json")[1]))
    done = subprocess.run([*command, "openapi_spec_validator", str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_requests_made_from_the_description_are_answered_as_it_says(cluster, tmp_path):
    command = module("schemathesis.cli")
    for i in range(3):
        assert cluster.rest("POST", "/v1/jobs", {"name": f"read-{i}", "command": ["true"]})[0] == 201
    done = subprocess.run(
        [*command, "schemathesis.cli", "--config-file", str(ROOT / "tests/system/schemathesis.toml"), "run", f"http://{cluster.http}/openapi.json",
         "--header", f"Authorization: Bearer {cluster.token}", "--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(SEED),
         "--exclude-operation-id", "backup",  # which writes files wherever it is told to
         "--generation-database", "none", "--continue-on-failure", "--suppress-health-check", "all", "--no-color"],
        capture_output=True, text=True, timeout=900, cwd=tmp_path)
    failures = done.stdout[done.stdout.find("= FAILURES ="):] if "= FAILURES =" in done.stdout else done.stdout
    assert done.returncode == 0, failures[-8000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) generated", done.stdout).group(1)) > 1000, done.stdout[-2000:]
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200
