"""Doors of the coordinator's calls, RPC and REST: what a member of blue tries on red, and what its values do to all.

| attack | door | what must hold |
|---|---|---|
| foreign ids and names, tried one by one | every call that takes a job | the very answer of one that was never given |
| near misses of tenants' names | ListTenants, SubmitJob, Plan | no hint names another tenant |
| names of others' jobs, guessed in a text of one's own | reasons | a text comes back as it was written |
| who took my nodes | `preempted_by` | another tenant's job is not named |
| an answer made for another token | shared answers of REST | each token gets its own, a revoked one none |
| another job's ETag | If-None-Match | 404, not 304 |
| a second id beside the address's | query, body | the address decides |
| an idempotency key that another tenant used | SubmitJob | a job of one's own, and no word of the other |
| the events of all | ListEvents, long poll, SSE | none of another tenant's |
| a token that expires while it waits | WatchJob, SSE | ended with the token, with nothing in it |
| a token that is revoked while it waits | WatchJob | ended at once, with nothing in it |
| bytes that are not UTF-8 | every string of a spec, reasons | refused, and everybody's JSON stays JSON |
| NaN and infinity | cpus, by RPC | refused |
| largest numbers | limits, cursors, versions | answered or refused; nothing stands still |
| one place, and many who submit at once | quota waiting_jobs | one gets it |
| quotas of 0 and of 2^63-1 | SetTenant | 0 refuses, the other does not overflow |
| names that look like a tenant's | SubmitJob.tenant | refused alike |
"""
import json
import re
import struct
import threading
import time
import urllib.request

import pytest
from doors import shared_cluster, sse_lines
from localcluster import HANG_SECONDS, wait_for
from wire import Peer, number, text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from shared_cluster(tmp_path_factory, slots=3)


@pytest.fixture(scope="module", autouse=True)
def red(cluster):
    """A running job of red's with a name that nobody should learn."""
    job = post(cluster, "red", "/v1/jobs", {"name": "red-secret-run", "command": ["/bin/sh", "-c", "echo RED-LINE; sleep 600"]}, headers={"Idempotency-Key": "k1"})
    cluster.wait_state(job["id"], "running")
    return job["id"]


WAITS = {"command": ["/bin/true"], "resources": {"slots": 3}, "priority": "low"}
WAITS_BYTES = text(6, number(1, 3)) + text(7, "low")


def rest(cluster, tenant, method, path, body=None, **more):
    return cluster.rest(method, path, body, token=cluster.tokens[tenant], **more)


def post(cluster, tenant, path, body, **more):
    status, answer = rest(cluster, tenant, "POST", path, body, **more)
    assert status in (200, 201), answer
    return answer


def waiting(cluster, tenant="blue", **spec):
    """A job that waits: red's holds a slot of the node."""
    return post(cluster, tenant, "/v1/jobs", {**WAITS, **spec})["id"]


def call(cluster, tenant, method, payload=b"", **more):
    with Peer(cluster.rpc) as peer:
        return peer.call(f"Coordinator.{method}", payload, token=cluster.tokens[tenant], **more)


OF_A_JOB = {
    "GetJob": lambda job: text(1, job), "WatchJob": lambda job: text(1, job), "CancelJob": lambda job: text(1, job) + text(2, "mine now"), "TakeStacks": lambda job: text(1, job), "OpenChannel": lambda job: text(1, job) + number(8, 80), "ListChannels": lambda job: text(1, job),
    "ScaleJob": lambda job: text(1, job) + number(2, 1), "WhyJob": lambda job: text(1, job), "GetLogs": lambda job: text(1, job),
    "GetMetrics": lambda job: text(1, job), "ListCheckpoints": lambda job: text(1, job), "ListEvents": lambda job: text(1, job),
    "Plan": lambda job: text(2, job), "Plan without": lambda job: text(5, job)}


@pytest.mark.parametrize("method", OF_A_JOB)
def test_a_foreign_job_answers_as_one_that_never_was(cluster, red, method):
    for there, absent in ((red, "j99999"), ("red-secret-run", "red-secret-ran")):
        answers = [call(cluster, "blue", method.split()[0], OF_A_JOB[method](job)) for job in (there, absent)]
        assert [(code, told.replace(job, "X"), body) for job, (code, told, body) in zip((there, absent), answers)] == \
            [("NOT_FOUND", answers[1][1].replace(absent, "X"), b"")] * 2, answers
    assert cluster.job(red)["state"] == "running"


@pytest.mark.parametrize("path", ["", "/logs", "/events", "/why", "/metrics", "/checkpoints", "/channels"])
def test_a_foreign_address_answers_as_one_that_never_was(cluster, red, path):
    answers = [rest(cluster, "blue", "GET", f"/v1/jobs/{job}{path}") for job in (red, "j99999")]
    assert answers[0][0] == 404 and json.dumps(answers[0]).replace(red, "X") == json.dumps(answers[1]).replace("j99999", "X"), answers


def test_no_hint_names_another_tenant(cluster):
    for near in ("red", "rad", "redd", "Red", "re"):
        status, answer = rest(cluster, "blue", "GET", f"/v1/tenants/{near}")
        assert status in (400, 404) and not re.search(r"\bred\b", json.dumps(answer).replace(f"'{near}'", "")), answer
        status, answer = rest(cluster, "blue", "POST", "/v1/jobs", {"command": ["/bin/true"], "tenant": near})
        assert status in (400, 403) and not re.search(r"\bred\b", json.dumps(answer).replace(f"'{near}'", "")), answer
        status, answer = rest(cluster, "blue", "POST", "/v1/plan", {"without_tenants": [near]})
        assert status == 404 and not re.search(r"\bred\b", json.dumps(answer).replace(f"'{near}'", "")), answer
    refused = [rest(cluster, "blue", "POST", "/v1/jobs", {"command": ["/bin/true"], "tenant": name}) for name in ("red", "never-was")]
    assert refused[0] == refused[1], "which tenants there are is not told"


def test_a_text_of_ones_own_does_not_tell_the_names_of_others(cluster, red):
    """Words that are names of others' jobs were struck out, also of a sentence that the asker wrote: a way to try names."""
    guess = f"is it red-secret-run or {red} or red-secret-ran"
    job = waiting(cluster)
    answer = post(cluster, "blue", f"/v1/jobs/{job}:cancel", {"reason": guess})
    seen = [json.dumps(answer), *(json.dumps(rest(cluster, "blue", "GET", f"/v1/jobs/{job}{path}")[1]) for path in ("", "/why", "/events"))]
    assert all(guess in one or "reason" not in one for one in seen) and guess in seen[0] and not any("another tenant" in one for one in seen), seen
    fails = post(cluster, "blue", "/v1/jobs", {"command": ["/bin/true"], "workdir": f"/x/red-secret-run/{red}/red-secret-ran", "restart": {"max": 0}})["id"]
    cluster.wait_state(fails, "failed")
    told = rest(cluster, "blue", "GET", f"/v1/jobs/{fails}")[1]["reason"]["text"]
    assert "red-secret-run" in told and "another tenant" not in told, told


def test_who_took_the_nodes_is_not_named(cluster, red):
    cluster.muster("tenant", "set", "red", "--quota", "priority=10", check=True)
    mine = post(cluster, "blue", "/v1/jobs", {"command": ["/bin/sleep", "600"]})["id"]
    cluster.wait_state(mine, "running")
    theirs = post(cluster, "red", "/v1/jobs", {"name": "red-hidden", "command": ["/bin/sleep", "600"], "priority": "10"})["id"]
    cluster.wait_state(theirs, "running")
    try:
        for path in (f"/v1/jobs/{mine}", "/v1/jobs", "/v1/overview", f"/v1/jobs/{mine}/why", f"/v1/jobs/{mine}/events"):
            status, answer = rest(cluster, "blue", "GET", path)
            assert status == 200 and not re.search(rf'"{theirs}"|\b{theirs}\b|red-hidden', json.dumps(answer)), (path, answer)
        assert cluster.job(mine)["preempted_by"] == theirs, "an administrator sees it"
    finally:
        for job in (mine, theirs):
            cluster.muster("cancel", job, check=True)
    # Nor when red's is forgotten, and nobody can say any more whose it was.
    cluster.muster("tenant", "set", "red", "--quota", "ended_jobs=1", check=True)
    newer = post(cluster, "red", "/v1/jobs", {"command": ["/bin/true"]})["id"]
    cluster.wait_state(newer, "succeeded")
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("red's is forgotten", 30, lambda: cluster.rest("GET", f"/v1/jobs/{theirs}")[0] == 404)
    cluster.muster("tenant", "set", "red", "--quota", "ended_jobs=default", check=True)
    cluster.wait_nodes(1)
    told = json.dumps(rest(cluster, "blue", "GET", f"/v1/jobs/{mine}/events")[1])
    assert "preempted by job (another tenant's)" in told and not re.search(rf"\b{theirs}\b|red-hidden", told), told
    assert f"preempted by job {theirs} (red-hidden), which has a higher priority" in json.dumps(cluster.rest("GET", f"/v1/jobs/{mine}/events")[1])


def test_an_answer_is_not_given_to_another_token(cluster, red):
    theirs = "'name': 'red-secret-run'"
    for path in ("/v1/jobs", f"/v1/jobs/{red}", "/v1/overview", "/v1/nodes"):
        for _ in range(3):  # the second is the first's, given again
            assert theirs in str(rest(cluster, "red", "GET", path)), path
            assert theirs not in str(rest(cluster, "blue", "GET", path)), path
            assert cluster.rest("GET", path, raw=True)[0] == 401, path
    for other in ("bearer", "BEARER"):
        status, answer = cluster.rest("GET", "/v1/jobs", raw=True, headers={"Authorization": f"{other} {cluster.tokens['blue']}"})
        assert status == 200 and theirs not in answer


def test_a_revoked_token_gets_no_answer_that_was_made_before(cluster):
    token = cluster.muster("token", "create", "short", "--tenant", "blue", check=True).stdout.strip()
    paths = ("/v1/jobs", "/v1/overview", "/v1/nodes")
    for path in paths:
        assert [cluster.rest("GET", path, token=token)[0] for _ in range(2)] == [200, 200]
    cluster.muster("token", "revoke", "short", check=True)
    assert [cluster.rest("GET", path, token=token)[0] for path in paths] == [401] * 3


def test_an_etag_opens_nothing(cluster, red):
    request = urllib.request.Request(f"http://{cluster.http}/v1/jobs/{red}", headers={"Authorization": f"Bearer {cluster.tokens['red']}"})
    with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
        etag = answer.headers["ETag"]
    assert etag
    for known in (etag, "*"):
        assert rest(cluster, "blue", "GET", f"/v1/jobs/{red}", headers={"If-None-Match": known})[0] == 404
        assert cluster.rest("GET", f"/v1/jobs/{red}", raw=True, headers={"If-None-Match": known})[0] == 401


def test_the_address_decides_whose_job_is_asked_for(cluster, red):
    mine = waiting(cluster, name="mine")
    for path in (f"/v1/jobs/{mine}/logs?id={red}", f"/v1/jobs/{mine}/events?job={red}", f"/v1/jobs/{mine}?id={red}&id={red}"):
        status, answer = rest(cluster, "blue", "GET", path)
        assert "RED-LINE" not in str(answer) and "red-secret-run" not in str(answer) and status in (200, 400), answer
    status, answer = rest(cluster, "blue", "POST", f"/v1/jobs/{mine}:cancel", {"id": red})
    assert status == 400, answer
    status, answer = rest(cluster, "blue", "POST", f"/v1/jobs/{mine}:cancel?id={red}", {})
    assert status in (200, 400)
    assert cluster.job(red)["state"] == "running"
    for method, path, body in (("POST", f"/v1/jobs/{red}%3Acancel", {}), ("POST", f"/v1/jobs/{mine}%2F..%2F{red}:cancel", {}), ("POST", f"/v1/jobs/../jobs/{red}:cancel", {}),
                               ("GET", f"/v1//jobs/{red}", None), ("GET", f"/v1/jobs/{red};a=b", None), ("GET", f"/v1/jobs/{mine}/../{red}", None)):
        status, answer = rest(cluster, "blue", method, path, body, headers={"X-HTTP-Method-Override": "PUT"})
        assert status in (400, 404, 405) and "red-secret-run" not in str(answer), (path, status, answer)
    assert cluster.job(red)["state"] == "running"


def test_an_idempotency_key_of_another_tenant_says_nothing(cluster, red):
    mine = post(cluster, "blue", "/v1/jobs", WAITS, headers={"Idempotency-Key": "k1"})
    assert mine["id"] != red and mine["spec"]["tenant"] == "blue"
    again = post(cluster, "blue", "/v1/jobs", WAITS, headers={"Idempotency-Key": "k1"})
    assert again["id"] == mine["id"]


def test_events_of_another_tenant_are_in_no_listing_or_stream(cluster, red):
    lines = sse_lines(cluster, "/v1/events", cluster.tokens["blue"])
    poll = threading.Thread(target=lambda: found.append(rest(cluster, "blue", "GET", "/v1/events?follow=true&after=0&limit=1000")))
    found = []
    poll.start()
    theirs = waiting(cluster, "red", name="red-events")
    cluster.muster("cancel", theirs, check=True)
    mine = waiting(cluster, "blue", name="blue-events")
    seen = "".join(lines_until(lines, mine))
    poll.join(HANG_SECONDS)
    for one in (seen, json.dumps(found), json.dumps(rest(cluster, "blue", "GET", "/v1/events?newest=true&limit=1000")), json.dumps(rest(cluster, "blue", "GET", "/v1/events?limit=1000"))):
        assert not re.search(rf'"{theirs}"|"{red}"|red-events|"red"', one), one[-2000:]
    assert f'"{theirs}"' in json.dumps(rest(cluster, "red", "GET", "/v1/events?newest=true&limit=1000"))


def lines_until(lines, word):
    for line in lines:
        yield line
        if word in line:
            return


def test_a_token_that_expires_ends_what_waits_with_it(cluster, red):
    version = int(cluster.job(red)["version"])
    for seconds in (2, 8, 32, 128):  # a machine that is too busy to open the stream in time gets a longer one
        token = cluster.muster("token", "create", f"soon{seconds}", "--tenant", "red", "--expires", f"{seconds}s", check=True).stdout.strip()
        lines = sse_lines(cluster, "/v1/events", token, refused_with=401)
        if lines:
            break
    with Peer(cluster.rpc) as peer:
        peer.send("Coordinator.WatchJob", text(1, red) + number(2, version), token=token, timeout_ms=1000 * seconds + 2000)
        time.sleep(seconds + 0.2)
        job = waiting(cluster, "red", name="red-later")
        code, _, body = peer.answer()
        assert code == "UNAUTHENTICATED" and not body, code
    assert job not in "".join(lines), "a stream goes on without its token"
    assert cluster.rest("GET", "/v1/jobs", token=token)[0] == 401


def test_a_token_that_is_revoked_ends_what_waits_with_it(cluster, red):
    token = cluster.muster("token", "create", "watcher", "--tenant", "red", check=True).stdout.strip()
    version = int(cluster.job(red)["version"])
    with Peer(cluster.rpc, timeout=100) as peer:
        for method, payload in (("WatchJob", text(1, red) + number(2, version)), ("ListEvents", number(2, 1 << 60) + number(4, 1)), ("GetLogs", text(1, red) + number(3, 1 << 40) + number(5, 1))):
            peer.send(f"Coordinator.{method}", payload, token=token, timeout_ms=90000)
        began = time.monotonic()
        cluster.muster("token", "revoke", "watcher", check=True)
        answers = [peer.answer() for _ in range(3)]
        assert {code for code, _, _ in answers} <= {"UNAUTHENTICATED", "INVALID_ARGUMENT"} and answers[0][2] == b"", answers
        assert time.monotonic() - began < 60, "not at their deadline"


BAD = b"\xff\xfe\x80caf\xc3"


@pytest.mark.parametrize("where", ["name", "tenant", "command", "constraint", "env", "env's name", "workdir", "topology", "checkpoint.dir", "setting", "reason", "rank's reason", "key", "cut"])
def test_bytes_that_are_no_text_break_nobodys_answers(cluster, where):
    spec = {"name": text(1, BAD), "tenant": text(2, BAD), "command": text(3, BAD), "constraint": text(12, text(1, BAD) + text(2, BAD)), "env": text(14, text(1, "A") + text(2, BAD)),
            "env's name": text(14, text(1, BAD) + text(2, "x")), "workdir": text(16, b"/" + BAD), "topology": text(13, BAD), "checkpoint.dir": text(11, text(1, b"/" + BAD)),
            "setting": text(15, text(9, text(1, "ddp.hook") + text(2, BAD))), "cut": text(3, b"/bin/true\0/bin/false")}.get(where)
    mine = waiting(cluster)
    if spec is not None:
        code, told, body = call(cluster, "blue", "SubmitJob", text(1, (b"" if where in ("name", "command", "cut") else text(3, "/bin/true")) + WAITS_BYTES + spec))
    elif where == "reason":
        code, told, body = call(cluster, "blue", "CancelJob", text(1, mine) + text(2, BAD))
    elif where == "rank's reason":
        code, told, body = call(cluster, "blue", "ScaleJob", text(1, mine) + number(2, 1) + text(4, BAD))
    else:
        code, told, body = call(cluster, "blue", "GetJob", text(1, BAD))
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED") or (where == "cut" and b"false" not in body), (where, code, told)
    for path in ("/v1/jobs?limit=1000", "/v1/events?newest=true&limit=1000", "/v1/audit?newest=true&limit=1000", f"/v1/jobs/{mine}/why"):
        status, answer = raw(cluster, path)
        json.loads(answer.decode("utf-8"))
        assert status == 200
    cluster.muster("cancel", mine)


def raw(cluster, path):
    request = urllib.request.Request(f"http://{cluster.http}{path}", headers={"Authorization": f"Bearer {cluster.token}"})
    with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
        return answer.status, answer.read()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0, 1e308, 5e-324])
def test_cpus_are_a_number(cluster, value):
    resources = number(1, 1) + b"\x11" + struct.pack("<d", value)
    code, told, _ = call(cluster, "blue", "SubmitJob", text(1, text(3, "/bin/true") + text(6, resources)))
    assert code == "INVALID_ARGUMENT" or value == 5e-324, (code, told)
    code, told, _ = call(cluster, "blue", "Plan", text(1, text(3, "/bin/true") + text(6, resources)))
    assert code == "INVALID_ARGUMENT" or value == 5e-324, (code, told)
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200


def test_the_largest_numbers_stop_nothing(cluster, red):
    most32, most64 = (1 << 32) - 1, (1 << 64) - 1
    for method, payload in (
            ("ListJobs", number(3, most32)), ("ListJobs", text(4, str(most64))), ("ListJobs", text(4, "-1")), ("Overview", number(1, most32)), ("ListNodes", number(1, most64)),
            ("WatchJob", text(1, red) + number(2, most64)), ("ScaleJob", text(1, red) + number(2, most32) + number(3, most32)), ("ScaleJob", text(1, red) + number(2, most32) + number(3, 1)),
            ("GetLogs", text(1, red) + number(2, most32) + number(3, most64) + number(4, most32) + number(6, most32)), ("GetLogs", text(1, red) + number(2, 1 << 31)),
            ("GetMetrics", text(1, red) + number(3, most64) + number(4, most32)), ("ListEvents", number(2, most64) + number(3, most32)), ("ListEvents", number(2, 1 << 63) + number(5, 1)),
            ("Plan", text(1, text(3, "/bin/true") + text(4, number(1, most32) + number(2, most32) + number(3, most32)) + number(5, most32))),
            ("Plan", text(7, text(1, "node1") + number(2, most32))),
            ("SubmitJob", text(1, text(3, "/bin/true") + text(4, number(1, most32) + number(2, most32) + number(3, most32)) + number(5, most32) + text(6, number(1, most32)))),
            ("SubmitJob", text(1, text(3, "/bin/true") + text(9, number(1, most32)) + text(11, text(1, "/ckpt/most") + number(3, most32)) + WAITS_BYTES))):
        code, told, _ = call(cluster, "red", method, payload, timeout_ms=3000)
        assert code in ("OK", "INVALID_ARGUMENT", 11, 9), (method, payload, code, told)
    assert cluster.job(red)["state"] == "running" and cluster.rest("GET", "/readyz", raw=True)[0] == 200


def test_one_place_is_given_once(cluster):
    cluster.muster("tenant", "create", "green", check=True)
    token = cluster.muster("token", "create", "green-ci", "--tenant", "green", check=True).stdout.strip()
    cluster.muster("tenant", "set", "green", "--quota", "waiting_jobs=1", check=True)
    spec = text(1, text(3, "/bin/true") + WAITS_BYTES)
    peers = [Peer(cluster.rpc) for _ in range(24)]
    for peer in peers:
        peer.send("Coordinator.SubmitJob", spec, token=token)
    codes = [peer.answer()[0] for peer in peers]
    for peer in peers:
        peer.close()
    assert sorted(codes) == ["OK"] + ["RESOURCE_EXHAUSTED"] * 23, codes


@pytest.mark.parametrize("quota", ["waiting_jobs", "spec_bytes", "submits_per_minute", "ended_jobs", "output_bytes", "metrics_bytes", "tokens"])
def test_quotas_hold_at_their_edges(cluster, quota):
    tenant = "edge-" + quota.replace("_", "-")
    cluster.muster("tenant", "create", tenant, check=True)
    token = cluster.muster("token", "create", tenant, "--tenant", tenant, check=True).stdout.strip()
    spec = WAITS

    def put(limit):
        return cluster.rest("PUT", f"/v1/tenants/{tenant}", {"weight": 1, "quotas": [{"name": quota, "limit": str(limit)}]})[0]
    for limit in (-1, -(1 << 63)):
        assert put(limit) == 400, limit
    if put((1 << 63) - 1) == 200:  # some have a smaller end
        assert [cluster.rest("POST", "/v1/jobs", spec, token=token)[0] for _ in range(3)] == [201] * 3
        assert cluster.muster("token", "create", f"{tenant}-more", "--tenant", tenant).returncode == 0
    if put(0) == 200:
        status, answer = cluster.rest("POST", "/v1/jobs", spec, token=token)
        if quota in ("waiting_jobs", "spec_bytes", "submits_per_minute"):
            assert status == 429, answer
        if quota == "tokens":
            assert cluster.muster("token", "create", f"{tenant}-none", "--tenant", tenant).returncode != 0
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200


def test_members_learn_nothing_from_the_page_of_metrics(cluster, red):
    for path in ("/metrics", "/v1/tenants", "/v1/overview"):
        status, page = rest(cluster, "blue", "GET", path, raw=True)
        assert status == 200 and not re.search(rf'"red"|"{red}"|red-(hidden|events|later)', page), page
