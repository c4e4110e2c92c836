"""Slots that are GPUs, on a machine without any: the agent reads a library that behaves as NVML does."""
import json
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT

NVML = MUSTER.parent / "tests" / "libnvidia-ml.so.1"


@pytest.fixture
def three_gpus_of_which_one_is_lost(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(NVML.parent))
    monkeypatch.setenv("FAKE_NVML_GPUS", "3")
    monkeypatch.setenv("FAKE_NVML_LOST", "1")


def test_workers_get_the_gpus_that_can_be_read(three_gpus_of_which_one_is_lost, make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "4")
    cluster.wait_nodes(1)
    node = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]
    assert node["slots"] == 2 and [gpu["uuid"] for gpu in node["gpus"]] == ["GPU-0", "GPU-2"], node
    script = 'echo "rank $RANK has $CUDA_VISIBLE_DEVICES by $CUDA_DEVICE_ORDER"'
    done = cluster.muster("run", "-w", "2", "--", "sh", "-c", script, check=True)
    assert "rank 0 has GPU-0 by PCI_BUS_ID" in done.stdout and "rank 1 has GPU-2 by PCI_BUS_ID" in done.stdout, done.stdout


def test_an_agent_that_is_to_offer_more_slots_than_gpus_is_started_until_the_driver_shows_them(three_gpus_of_which_one_is_lost, make_cluster, monkeypatch):
    cluster = make_cluster(nodes=0)
    done = subprocess.run([MUSTER, "agent", "--coordinator", cluster.rpc, "--token", "x", "--slots", "3", "--data", str(cluster.folder / "stray")],
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 3 and "slots are GPUs here, and there are 2" in done.stderr, (done.returncode, done.stderr)
    unit = (ROOT / "deploy/systemd/muster-agent.service").read_text()
    never_again = next(line for line in unit.splitlines() if line.startswith("RestartPreventExitStatus="))
    assert str(done.returncode) not in never_again.split("=")[1].split()
    monkeypatch.delenv("FAKE_NVML_LOST")
    cluster.start_agent("node1", "--slots", "3")
    cluster.wait_nodes(1)
