"""A node that cannot start anything for a reason of its own takes no more work and costs no job a restart."""
import json
import os
import subprocess

import pytest
from localcluster import wait_for


@pytest.fixture
def full(make_cluster):
    """A cluster whose node1 keeps its runs on a small disk; cluster.filler takes what is left of it."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk: needs root")
    cluster = make_cluster(nodes=0)
    runs = cluster.folder / "nodes" / "node1"
    runs.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0755", "tmpfs", str(runs)], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    cluster.start_agent("node1", "--slots", "4")
    cluster.wait_nodes(1)
    cluster.filler = runs / "filler"
    yield cluster
    cluster.stop()
    subprocess.run(["umount", "-l", str(runs)], check=False)


def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


def node(cluster, name):
    return next(n for n in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"] if n["name"] == name)


def test_m12_a_node_with_a_full_disk_fails_nobodys_job(full):
    cluster = full
    fill(cluster.filler)
    job = cluster.submit("--", "/bin/true")
    wait_for("node1 is cordoned", 20, lambda: node(cluster, "node1")["state"] == "cordoned")
    reason = node(cluster, "node1")["reason"]
    assert "No space left" in reason["text"] and "uncordon" in reason["hint"], reason
    now = cluster.job(job)
    assert now["state"] in ("queued", "restarting") and int(now["restarts"]) == 0, now
    # Another node takes it.
    cluster.start_agent("node2", "--slots", "1")
    done = cluster.wait_state(job, "succeeded")
    assert int(done["restarts"]) == 0, done
    # Mended, and said so: it works again at once.
    cluster.filler.unlink()
    cluster.muster("uncordon", "node1", check=True)
    wait_for("node1 is ready", 10, lambda: node(cluster, "node1")["state"] == "ready")
    wide = cluster.submit("--slots", "3", "--", "/bin/true")
    assert int(cluster.wait_state(wide, "succeeded")["restarts"]) == 0


def test_a_command_that_cannot_be_started_is_no_fault_of_the_node(cluster):
    for words in (["/no/such/program"], ["/etc/passwd"]):
        job = cluster.submit("--", *words)
        wait_for("it fails", 20, lambda: cluster.job(job)["state"] == "failed")
    loop = cluster.folder / "loop"
    loop.symlink_to(loop)
    job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "workdir": str(loop), "restart": {"max": 1}})[1]["id"]
    wait_for("it fails", 30, lambda: cluster.job(job)["state"] == "failed")
    job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "env": {f"K{i}": "x" * 1000 for i in range(200)}})[1]["id"]
    wait_for("it ends", 20, lambda: cluster.job(job)["state"] in ("failed", "succeeded"))
    assert node(cluster, "node1")["state"] == "ready"
