"""A member neither takes another tenant's folder of checkpoints nor resumes from it."""
import pytest
from localcluster import wait_for


@pytest.fixture
def shared(make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.tokens = {}
    for tenant in ("red", "blue"):
        cluster.muster("tenant", "create", tenant, check=True)
        cluster.tokens[tenant] = cluster.muster("token", "create", tenant, "--tenant", tenant, check=True).stdout.strip()
    return cluster


def submit(cluster, tenant, folder, **more):
    return cluster.rest("POST", "/v1/jobs", {"command": ["/bin/sleep", "3600"], "checkpoint": {"dir": folder}, **more}, token=cluster.tokens[tenant])


def refused(answer):
    assert answer[0] == 403 and answer[1]["error"]["field"] == "checkpoint.dir", answer
    return answer[1]["error"]["message"]


def test_m9_one_folder_is_one_however_it_is_written(shared):
    assert submit(shared, "red", "/ckpt/a/b")[0] == 201
    for same in ("/ckpt/a/b", "/ckpt/a/./b", "/ckpt/a/x/../b", "/ckpt//a/b/", "/../ckpt/a/b"):
        status, answer = submit(shared, "red", same)
        assert status == 412, (same, status, answer)
    assert submit(shared, "red", "b/../b", workdir="/ckpt/a")[0] == 412
    assert submit(shared, "red", "/ckpt/a/bc")[0] == 201


def test_m9_a_member_takes_no_folder_that_another_tenants_job_used(shared):
    job = submit(shared, "red", "/ckpt/red")[1]["id"]
    shared.muster("cancel", job, check=True)
    wait_for("red's has ended", 10, lambda: shared.job(job)["state"] == "cancelled")
    for same in ("/ckpt/red", "/ckpt/./red", "/ckpt/x/../red/"):
        message = refused(submit(shared, "blue", same))
        assert job not in message and "red" not in message.replace("/ckpt/red", ""), "whose it is is not told"
    assert submit(shared, "red", "/ckpt/red")[0] == 201, "red goes on in it"


def test_prefixes_belong_to_their_tenant(shared):
    shared.muster("tenant", "set", "red", "--checkpoint-prefix", "/shared/red/", "--checkpoint-prefix", "/scratch/./red", check=True)
    assert "/scratch/red" in shared.muster("tenant", "show", "red", check=True).stdout
    for theirs in ("/shared/red", "/shared/red/new", "/shared/blue/../red/new", "/scratch/red/x"):
        refused(submit(shared, "blue", theirs))
    refused(submit(shared, "blue", "red/new", workdir="/shared"))
    assert submit(shared, "blue", "/shared/redder")[0] == 201
    assert submit(shared, "red", "/shared/red/new")[0] == 201
    assert "none of its tenant" in refused(submit(shared, "red", "/elsewhere"))
    assert "none of its tenant" in refused(submit(shared, "red", "/shared/red/../elsewhere"))
    shared.kill_coordinator()
    shared.start_coordinator()
    refused(submit(shared, "blue", "/shared/red/kept"))
    shared.muster("tenant", "set", "red", "--checkpoint-prefix", "", check=True)
    assert submit(shared, "red", "/elsewhere")[0] == 201
