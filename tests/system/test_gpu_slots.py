"""Slots that are GPUs, on a machine without any: the agent reads a library that behaves as NVML does."""
import json
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER, ROOT, wait_for

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


@pytest.fixture
def eight_gpus_of_which_one_is_lost_and_one_divided(monkeypatch, tmp_path):
    readings = tmp_path / "readings"
    readings.write_text("0 used 40\n0 memory 1024\n2 celsius 60\n2 memory 2048\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(NVML.parent))
    monkeypatch.setenv("FAKE_NVML_GPUS", "8")
    monkeypatch.setenv("FAKE_NVML_LOST", "1")
    monkeypatch.setenv("FAKE_NVML_DIVIDED", "2")
    monkeypatch.setenv("FAKE_NVML_READINGS", str(readings))
    return readings


def test_what_gpus_do_and_what_ails_them_is_seen(eight_gpus_of_which_one_is_lost_and_one_divided, make_cluster):
    readings = eight_gpus_of_which_one_is_lost_and_one_divided
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "8")
    cluster.wait_nodes(1)

    def gpus():
        return {gpu["uuid"]: gpu for gpu in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]["gpus"]}

    wait_for("a reading of the GPUs", HANG_SECONDS, lambda: all(gpu.get("now") for gpu in gpus().values()))
    found = gpus()
    assert list(found) == ["GPU-0", "MIG-2-1", "MIG-2-3", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"]
    whole, instance = found["GPU-0"], found["MIG-2-1"]
    assert whole["now"]["used_percent"] == 40 and int(whole["now"]["memory_used_bytes"]) == 1 << 30, whole
    assert whole["nvlinks"] == 4 and whole["persistent"] and not whole["instance"], whole
    assert instance["instance"] and instance["now"]["temperature_c"] == 60 and instance["now"].get("used_percent") is None, instance
    top = cluster.muster("top", "-n", "1", check=True).stdout
    assert "7%" in top and "5 GiB/936 GiB" in top, top  # 40 % of one of the six that are whole
    readings.write_text("0 used 90\n0 xid 79\n3 lost 1\n4 ecc 2\n5 slow 32\n")
    wait_for("a report of the loss", HANG_SECONDS, lambda: gpus()["GPU-3"]["now"]["lost"])
    said = cluster.muster("nodes", check=True).stdout
    for line in ("node1: GPU 0 (GPU-0) the driver reported Xid 79", "node1: GPU 3 (GPU-3) cannot be read any more, and gets no job",
                 "node1: GPU 4 (GPU-4) 2 uncorrected memory errors", "node1: GPU 5 (GPU-5) slowed down by heat"):
        assert line in said, said
    metrics = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    for line in ("muster_gpus 7", "muster_gpus_lost 1", "muster_gpus_faulty 2", "muster_gpus_slowed 1"):
        assert line in metrics, metrics
    script = 'echo "rank $RANK has $CUDA_VISIBLE_DEVICES"'
    waits = cluster.submit("-w", "8", "--", "sh", "-c", script)
    why = cluster.muster("why", waits, check=True).stdout
    assert "1 GPU cannot be read any more" in why and "comes back" in why, why
    done = cluster.muster("run", "-w", "7", "--", "sh", "-c", script, check=True)
    assert sorted(line.split(" has ")[1] for line in done.stdout.splitlines() if " has " in line) == sorted(set(found) - {"GPU-3"}), done.stdout
    readings.write_text("0 used 90\n")
    cluster.wait_state(waits, "succeeded", HANG_SECONDS)
    assert sorted(line.split(" has ")[1] for line in cluster.output(waits).splitlines() if " has " in line) == sorted(found)
    done = cluster.muster("run", "-w", "3", "--", "sh", "-c", script, check=True)
    assert "MIG" not in done.stdout and done.stdout.count("GPU-") == 3, done.stdout  # NVLinks are not for instances


def test_a_gpu_whose_memory_stays_in_use_gets_no_job_until_it_is_free(make_cluster, monkeypatch, tmp_path):
    readings = tmp_path / "readings"
    readings.write_text("0 memory 500\n")
    for name, value in (("LD_LIBRARY_PATH", NVML.parent), ("FAKE_NVML_GPUS", "1"), ("FAKE_NVML_READINGS", readings)):
        monkeypatch.setenv(name, str(value))
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "4")
    cluster.wait_nodes(1)

    def gpu():
        return json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]["gpus"][0]
    wait_for("a reading of the GPU", HANG_SECONDS, lambda: gpu().get("now"))
    first = cluster.submit("--", "/bin/sleep", "1000")
    cluster.wait_state(first, "running")
    # It leaves a part of its memory in use. What ends soon is waited for, on the node.
    readings.write_text("0 memory 40000\n")
    cluster.muster("cancel", first, check=True)
    cluster.wait_state(first, "cancelled")
    second = cluster.submit("--", "/bin/true")
    readings.write_text("0 memory 500\n")
    cluster.wait_state(second, "succeeded")
    assert not gpu()["held"]
    third = cluster.submit("--", "/bin/sleep", "1000")
    cluster.wait_state(third, "running")
    readings.write_text("0 memory 3572\n")
    cluster.muster("cancel", third, check=True)
    held = wait_for("the slot to be held", 20, lambda: (lambda g: g if g["held"] else None)(gpu()))
    assert int(held["held_bytes"]) == 3072 << 20, held
    said = cluster.muster("nodes", check=True).stdout
    assert "GPU 0 (GPU-0) gets no job, as its last worker has ended and 3 GiB of its memory are still in use" in said, said
    fourth = cluster.submit("--", "/bin/true")
    why = cluster.muster("why", fourth, check=True).stdout
    assert "1 GPU is not free, as memory of ended workers is still in use" in why and "nvidia-smi" in why, why
    assert "\nmuster_gpus_held 1\n" in cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    readings.write_text("0 memory 500\n")
    cluster.wait_state(fourth, "succeeded")
    assert not gpu()["held"] and "still in use" not in cluster.muster("nodes", check=True).stdout


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


@pytest.fixture
def eight_gpus_in_two_islands(monkeypatch):
    """Two rings of four by two NVLinks each, one at each socket."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(NVML.parent))
    monkeypatch.setenv("FAKE_NVML_GPUS", "8")
    monkeypatch.setenv("FAKE_NVML_SOCKET_GPUS", "4")
    monkeypatch.setenv("FAKE_NVML_NVLINKS", "0-1:2 1-2:2 2-3:2 0-3:2 4-5:2 5-6:2 6-7:2 4-7:2")


MATRIX = """node1: 8 x H200
      GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7  PCIe   NUMA
GPU0  X     NV2   NODE  NV2   SYS   SYS   SYS   SYS   5 x16     0
GPU1  NV2   X     NV2   NODE  SYS   SYS   SYS   SYS   5 x8      0
GPU2  NODE  NV2   X     NV2   SYS   SYS   SYS   SYS   5 x16     0
GPU3  NV2   NODE  NV2   X     SYS   SYS   SYS   SYS   5 x16     0
GPU4  SYS   SYS   SYS   SYS   X     NV2   NODE  NV2   5 x16     1
GPU5  SYS   SYS   SYS   SYS   NV2   X     NV2   NODE  5 x16     1
GPU6  SYS   SYS   SYS   SYS   NODE  NV2   X     NV2   5 x16     1
GPU7  SYS   SYS   SYS   SYS   NV2   NODE  NV2   X     5 x16     1
"""


def test_how_gpus_are_connected_is_seen_also_by_a_coordinator_that_was_restarted(eight_gpus_in_two_islands, make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "8")
    cluster.wait_nodes(1)
    assert cluster.muster("nodes", "node1", "--gpus", check=True).stdout == MATRIX
    cluster.kill_node("node1")
    cluster.kill_coordinator()
    cluster.start_coordinator()
    assert cluster.muster("nodes", "--gpus", check=True).stdout == MATRIX
    refused = cluster.muster("nodes", "node2", "--gpus")
    assert refused.returncode != 0 and "unknown node 'node2'" in refused.stderr, refused


def test_a_link_that_fails_is_told_and_the_next_job_gets_other_gpus(eight_gpus_in_two_islands, make_cluster, monkeypatch, tmp_path):
    readings = tmp_path / "readings"
    readings.write_text("")
    monkeypatch.setenv("FAKE_NVML_READINGS", str(readings))
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "8")
    cluster.wait_nodes(1)

    def nvlinks_are(number):
        line = f"\nmuster_gpus_nvlinks {number}\n"
        wait_for(f"{number} NVLinks", HANG_SECONDS, lambda: line in cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1])

    def told():
        events = json.loads(cluster.muster("events", "-o", "json", check=True).stdout)["events"]
        return [event["reason"]["text"] for event in events if event["kind"] == "gpu_links" and event["node"] == "node1"]

    def ring_of_four():
        job = cluster.submit("--workers-per-node", "4", "--", "/bin/sleep", "1000")
        cluster.wait_state(job, "running")
        return job, cluster.muster("why", job, check=True).stdout

    nvlinks_are(32)
    first, why = ring_of_four()
    assert "its ranks have the GPUs 0, 1, 2, 3: the slowest link is NV2" in why, why
    readings.write_text("0 down 3\n1 down 3\n0 xid 74\n")  # of the pair, and the driver tells of it
    nvlinks_are(28)
    wait_for("the event", HANG_SECONDS, lambda: told() == ["GPU 0 is connected with GPU 1 by PIX instead of NV2"])
    rows = MATRIX.replace("GPU0  X     NV2", "GPU0  X     PIX").replace("GPU1  NV2   X", "GPU1  PIX   X")
    assert cluster.muster("nodes", "node1", "--gpus", check=True).stdout == rows
    why = cluster.muster("why", first, check=True).stdout
    assert "its ranks have the GPUs 0, 1, 2, 3: the slowest link is PIX" in why, why  # it runs on
    cluster.muster("cancel", first, check=True)
    cluster.wait_state(first, "cancelled")
    second, why = ring_of_four()
    assert "its ranks have the GPUs 4, 5, 6, 7: the slowest link is NV2" in why, why
    readings.write_text("0 xid 31\n")  # any other error: links are read again
    nvlinks_are(32)
    wait_for("the event", HANG_SECONDS, lambda: told()[1:] == ["GPU 0 is connected with GPU 1 by NV2 instead of PIX"])
    assert cluster.muster("nodes", "node1", "--gpus", check=True).stdout == MATRIX


def test_a_job_gets_the_gpus_that_are_best_connected_in_the_order_of_their_links(eight_gpus_in_two_islands, make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.start_agent("node1", "--cpus", "8")
    cluster.wait_nodes(1)

    def gpus_of(workers):
        script = 'echo "rank $RANK has $CUDA_VISIBLE_DEVICES"; exec sleep 1000'
        job = cluster.submit("--workers-per-node", str(workers), "--", "sh", "-c", script)
        cluster.wait_state(job, "running")
        lines = wait_for("all lines", HANG_SECONDS, lambda: (lambda out: out if out.count("has") == workers else None)(cluster.output(job)))
        found = dict(line[line.index("rank "):].split(" has ") for line in lines.splitlines())
        return job, [found[f"rank {rank}"] for rank in range(workers)]

    one, gpus = gpus_of(1)
    assert gpus == ["GPU-0"], gpus
    four, gpus = gpus_of(4)
    assert gpus == ["GPU-4", "GPU-5", "GPU-6", "GPU-7"], gpus
    assert "on node1 its ranks have the GPUs 4, 5, 6, 7: the slowest link is NV2" in cluster.muster("why", four, check=True).stdout
    cluster.muster("cancel", one, check=True)
    cluster.wait_state(one, "cancelled")
    two, gpus = gpus_of(2)
    assert gpus == ["GPU-0", "GPU-1"], gpus
    cluster.muster("cancel", four, check=True)
    cluster.wait_state(four, "cancelled")
    another_one, gpus = gpus_of(1)
    assert gpus == ["GPU-2"], gpus  # not of the island that is whole
    five, gpus = gpus_of(5)
    said = cluster.muster("why", five, check=True).stdout
    assert sorted(gpus) == ["GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"] and "the slowest link is SYS" in said, (gpus, said)
    assert "idle" not in said, said  # five never fit into an island
