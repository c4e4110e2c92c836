"""Attacks with real processes. Each test is named after what it tries; the fixtures are those of the system tests."""
import os
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
import importlib.util  # noqa: E402

spec = importlib.util.spec_from_file_location("system_fixtures", HERE.parent / "system" / "conftest.py")
system = importlib.util.module_from_spec(spec)
spec.loader.exec_module(system)
make_cluster, cluster = system.make_cluster, system.cluster

from leavings import marked_folder, sweep  # noqa: E402
from localcluster import Cluster  # noqa: E402

RANGE = "1900000000-1900999999"


def pytest_sessionstart():
    sweep()


def pytest_sessionfinish():
    sweep()


@pytest.fixture
def open_folder():
    folder = marked_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_shared(open_folder):
    """One node that tenants red and blue share, each as a user of its own; blue's and red's tokens."""
    if os.geteuid() != 0:
        pytest.skip("only root runs workers as other users")
    made = []

    def make(*options, agent_prefix=()):
        cluster = Cluster(open_folder)
        cluster.agent_prefix = list(agent_prefix)
        made.append(cluster)
        cluster.start_coordinator()
        cluster.start_agent("node1", "--slots", "6", *(options or ("--worker-uids", RANGE)))
        cluster.wait_nodes(1)
        cluster.tokens = {}
        for tenant in ("red", "blue"):
            cluster.muster("tenant", "create", tenant, check=True)
            cluster.tokens[tenant] = cluster.muster("token", "create", f"{tenant}-ci", "--tenant", tenant, check=True).stdout.strip()
        return cluster

    yield make
    for cluster in made:
        cluster.stop()
