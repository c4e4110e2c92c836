"""A member's flood takes nobody else's places, history, disk or nodes."""
import json
import time

import pytest
from localcluster import wait_for
from test_lies import LIAR

TRUE = ["/bin/true"]


@pytest.fixture
def shared(make_cluster):
    """Tenants red and blue; cluster.tokens has a member's token of each."""
    cluster = make_cluster(nodes=0, coordinator=False)

    def start(*options):
        cluster.start_coordinator(extra=options)
        cluster.tokens = {}
        for tenant in ("red", "blue"):
            cluster.muster("tenant", "create", tenant, check=True)
            cluster.tokens[tenant] = cluster.muster("token", "create", tenant, "--tenant", tenant, check=True).stdout.strip()
        return cluster
    return start


def submit(cluster, tenant, **spec):
    return cluster.rest("POST", "/v1/jobs", {"command": TRUE, **spec}, token=cluster.tokens[tenant])


def quotas(cluster, tenant):
    tenant = json.loads(cluster.muster("tenant", "show", tenant, "-o", "json", check=True).stdout)["tenants"][0]
    return {quota["name"]: (int(quota["used"]), int(quota["limit"])) for quota in tenant["quotas"]}


def refused(answer, quota, status=429):
    assert answer[0] == status, answer
    error = answer[1]["error"]
    assert quota in error["message"] + error["hint"] and "muster tenant set" in error["hint"], error


def test_h4_a_member_that_floods_the_queue_takes_its_own_places_only(shared):
    cluster = shared()
    cluster.muster("tenant", "set", "blue", "--quota", "waiting_jobs=50", check=True)
    answers = [submit(cluster, "blue") for _ in range(51)]
    assert {status for status, _ in answers[:50]} == {201}
    refused(answers[50], "waiting_jobs")
    assert "50 of 50" in answers[50][1]["error"]["message"]
    assert submit(cluster, "red")[0] == 201, "another tenant goes on"
    assert cluster.rest("POST", "/v1/jobs", {"tenant": "blue", "command": TRUE})[0] == 201, "an administrator is not bound"
    assert quotas(cluster, "blue")["waiting_jobs"] == (51, 50)
    assert submit(cluster, "blue", name="again")[0] == 429
    cluster.rest("POST", f"/v1/jobs/{answers[0][1]['id']}:cancel", {}, token=cluster.tokens["blue"])
    cluster.rest("POST", f"/v1/jobs/{answers[1][1]['id']}:cancel", {}, token=cluster.tokens["blue"])
    assert submit(cluster, "blue")[0] == 201, "room again"
    # It is stored, and a default comes back.
    cluster.kill_coordinator()
    cluster.start_coordinator()
    assert quotas(cluster, "blue")["waiting_jobs"] == (50, 50)
    cluster.muster("tenant", "set", "blue", "--quota", "waiting_jobs=default", check=True)
    assert quotas(cluster, "blue")["waiting_jobs"] == (50, 10000)
    done = cluster.muster("tenant", "set", "blue", "--quota", "wating_jobs=1")
    assert done.returncode == 2 and "waiting_jobs" in done.stderr, done.stderr


def test_a_repeat_of_a_submit_is_answered_beyond_the_quota(shared):
    cluster = shared()
    cluster.muster("tenant", "set", "blue", "--quota", "waiting_jobs=1", check=True)
    head = {"Idempotency-Key": "k"}
    first = cluster.rest("POST", "/v1/jobs", {"command": TRUE}, token=cluster.tokens["blue"], headers=head)
    again = cluster.rest("POST", "/v1/jobs", {"command": TRUE}, token=cluster.tokens["blue"], headers=head)
    assert first[0] == 201 and again[0] in (200, 201) and again[1]["id"] == first[1]["id"], (first, again)


def test_h4_large_specs_fill_their_tenants_own_memory(shared):
    cluster = shared()
    cluster.muster("tenant", "set", "blue", "--quota", "spec_bytes=1MiB", check=True)
    large = [*TRUE, *["x" * 1000] * 200]
    answers = [submit(cluster, "blue", command=large) for _ in range(6)]
    assert [status for status, _ in answers][:5] == [201] * 5, answers
    refused(answers[5], "spec_bytes")
    assert submit(cluster, "red", command=large)[0] == 201


def test_submits_have_a_rate(shared):
    cluster = shared()
    cluster.muster("tenant", "set", "blue", "--quota", "submits_per_minute=20", check=True)
    began, taken = time.monotonic(), 0
    while (answer := submit(cluster, "blue"))[0] == 201:
        taken += 1
        assert taken <= 20 + (time.monotonic() - began) / 3 + 1, "20 at once, and one each 3 s"
    assert taken >= 20
    refused(answer, "submits_per_minute")
    assert submit(cluster, "red")[0] == 201


def test_h5_a_members_flood_does_not_forget_others_jobs(shared):
    cluster = shared("--keep-jobs", "40")
    kept = [submit(cluster, "red", name=f"kept{i}")[1]["id"] for i in range(5)]
    for job in kept:
        cluster.rest("POST", f"/v1/jobs/{job}:cancel", {}, token=cluster.tokens["red"])
    for _ in range(120):
        job = submit(cluster, "blue")[1]["id"]
        cluster.rest("POST", f"/v1/jobs/{job}:cancel", {}, token=cluster.tokens["blue"])
    cluster.kill_coordinator()  # the pass after a start comes at once
    cluster.start_coordinator(extra=("--keep-jobs", "40"))
    wait_for("blue's are forgotten", 30, lambda: quotas(cluster, "blue")["ended_jobs"][0] <= 41)
    for job in kept:
        assert cluster.rest("GET", f"/v1/jobs/{job}")[0] == 200, job


def test_jobs_that_never_started_are_forgotten_first(make_cluster):
    cluster = make_cluster(nodes=1)
    ran = cluster.submit("--", "/bin/true")
    cluster.wait_state(ran, "succeeded")
    cluster.submit("--slots", "1", "--", "/bin/sleep", "3600")
    waiting = [cluster.submit("--", "/bin/true") for _ in range(30)]
    for job in waiting:
        cluster.muster("cancel", job, check=True)
    cluster.muster("tenant", "set", "default", "--quota", "ended_jobs=10", check=True)
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("what never ran is forgotten", 30, lambda: quotas(cluster, "default")["ended_jobs"][0] <= 10)
    assert cluster.rest("GET", f"/v1/jobs/{ran}")[0] == 200


def test_m8_a_member_raises_no_priority_above_its_tenants(make_cluster, shared):
    cluster = shared()
    cluster.start_agent("node1", "--slots", "1")
    cluster.wait_nodes(1)
    victim = submit(cluster, "red", command=["/bin/sleep", "600"])[1]["id"]
    cluster.wait_state(victim, "running")
    for priority in ("high", "1", "1000"):
        answer = submit(cluster, "blue", priority=priority)
        assert answer[0] == 403 and "priority" in answer[1]["error"]["message"], answer
    assert submit(cluster, "blue", priority="low")[0] == 201
    assert submit(cluster, "blue", priority="-7")[0] == 201
    time.sleep(0.5)
    assert cluster.job(victim)["state"] == "running"
    cluster.muster("tenant", "set", "blue", "--quota", "priority=10", check=True)
    assert submit(cluster, "blue", priority="10")[0] == 201 and submit(cluster, "blue", priority="11")[0] == 403


def test_output_and_metrics_of_a_tenant_have_a_sum(make_cluster):
    cluster = make_cluster(nodes=1, slots=4)
    cluster.muster("tenant", "set", "default", "--quota", "output_bytes=2MiB", check=True)
    flood = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do printf '%01000d\\n' $i; i=$((i+1)); done"]
    jobs = [cluster.submit("--", *flood) for _ in range(3)]
    for job in jobs:
        cluster.wait_state(job, "succeeded", seconds=60)
    for job in jobs:
        wait_for("its last line", 20, lambda: "2999" in cluster.output(job))
    used, limit = quotas(cluster, "default")["output_bytes"]
    assert 0 < used < limit + (3 << 20) and limit == 2 << 20, (used, limit)
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("it is counted again after a start, and trimmed", 20, lambda: 0 < quotas(cluster, "default")["output_bytes"][0] <= limit)
    on_disk = sum(path.stat().st_size for path in (cluster.data / "logs").glob("*/*"))
    assert on_disk <= limit, on_disk
    assert "2999" in cluster.output(jobs[-1]), "the newest is kept"


def test_m16_metrics_of_a_tenant_have_a_sum_in_memory_and_on_disk(make_cluster):
    cluster = make_cluster(nodes=1, slots=8)
    cluster.muster("tenant", "create", "red", check=True)
    cluster.muster("tenant", "set", "default", "--quota", "metrics_memory_bytes=1MiB", "--quota", "metrics_bytes=2MiB", check=True)
    flood = LIAR + """
for first in range(1, 2049, 64):  # 16 series of 2048 numbers: 768 KiB in memory
    ask("Progress", number(3, generation) + number(4, first) + b"".join(
        text(6, number(3, at) + number(4, 1) + text(5, f"s{name}") + bytes([0x31]) + struct.pack("<d", at)) for at in range(first, first + 64) for name in range(16)))
    time.sleep(0.2)
told([])
"""
    spec = {"command": ["/usr/bin/python3", "-c", flood], "resources": {"slots": 1, "cpus": 0.1}}
    red = cluster.rest("POST", "/v1/jobs", {**spec, "tenant": "red"})[1]["id"]
    jobs = [cluster.rest("POST", "/v1/jobs", spec)[1]["id"] for _ in range(3)]

    def last(job, name):
        series = cluster.rest("GET", f"/v1/jobs/{job}/metrics?name={name}")[1].get("series", [])
        return int(series[0]["points"][-1]["step"]) if series else 0
    for job in (red, *jobs):
        for name in ("s0", "s15"):
            wait_for(f"{name} of {job}", 60, lambda: last(job, name) == 2048)
            (used, limit), reds = quotas(cluster, "default")["metrics_memory_bytes"], quotas(cluster, "red")["metrics_memory_bytes"]
            assert 0 < used <= limit == 1 << 20 and reds[1] == 128 << 20, (used, limit, reds)
    assert reds[0] > 768 << 10, "another tenant keeps its own"
    text_of = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    total = int(text_of.split("\nmuster_metrics_memory_bytes ")[1].split()[0])
    assert reds[0] < total <= reds[0] + (1 << 20), (total, reds)
    for job in jobs:
        cluster.muster("cancel", job, check=True)
        cluster.wait_state(job, "cancelled")
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("series on disk are trimmed to the sum", 60, lambda: 0 < quotas(cluster, "default")["metrics_bytes"][0] <= 2 << 20)
    assert sum((cluster.data / "metrics" / f"{job}.csv").stat().st_size for job in jobs if (cluster.data / "metrics" / f"{job}.csv").exists()) <= 2 << 20
    assert last(red, "s0") == 2048


def test_tokens_of_a_tenant_are_counted(shared):
    cluster = shared()
    cluster.muster("tenant", "set", "blue", "--quota", "tokens=2", check=True)
    cluster.muster("token", "create", "second", "--tenant", "blue", check=True)
    done = cluster.muster("token", "create", "third", "--tenant", "blue")
    assert done.returncode != 0 and "quota tokens" in done.stderr, done
    cluster.muster("token", "revoke", "second", check=True)
    cluster.muster("token", "create", "third", "--tenant", "blue", check=True)
