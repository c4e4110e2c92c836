"""Fixtures of the system tests: clusters of real processes, each in a folder of its own, and a
check after every test that nothing was left running."""
import os
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import HANG_SECONDS, Cluster, processes  # noqa: E402


@pytest.fixture
def make_cluster(tmp_path_factory):
    made = []

    def make(nodes=1, slots=1, coordinator=True):
        # Short names: a unix socket's path has at most 107 bytes.
        cluster = Cluster(tmp_path_factory.mktemp("c"))
        made.append(cluster)
        if coordinator:
            cluster.start_coordinator()
        for i in range(nodes):
            cluster.start_agent(f"node{i + 1}", "--slots", str(slots))
        if nodes:
            cluster.wait_nodes(nodes)
        return cluster

    yield make
    for cluster in made:
        cluster.stop()
        mine = str(cluster.folder)
        end = time.monotonic() + HANG_SECONDS
        while True:
            left = [line for pid, (_, line) in processes().items() if mine in line and pid != os.getpid()]
            if not left or time.monotonic() > end:
                break
            time.sleep(0.05)
        assert not left, f"left running: {left}"


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(nodes=1, slots=4)
