"""Doors that answer: whether what is there and closed can be told from what is not there, by the words, the status, the headers or the
way that an answer takes. Jobs and tenants by name are in test_doors_tenants.py.

| attack | door | what must hold |
|---|---|---|
| tokens beside one that is good, revoked or expired, also with another role | REST, login, RPC, RegisterNode | the answer of one that is far from any, to the byte |
| a session that was ended, or never begun | REST | one answer |
| another tenant's secret, by name | submit, set, remove, list | the answer of one that was never set; nothing is changed |
| a tenant that is there, and one that is not | every call that takes a tenant | one answer |
| another tenant's job with a wrong body, field, version, ETag or Accept | every change and stream | the answer of an id that was never given |
| another tenant's token, by id or name | revoke, list | refused by role, before it is looked for |
"""
import http.client
import json
import re

import pytest
from doors import shared_cluster
from localcluster import HANG_SECONDS, wait_for
from wire import Peer, number, text

NEVER = {"job": "j999999", "tenant": "nevermore", "secret": "never-set"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from shared_cluster(tmp_path_factory)


@pytest.fixture(scope="module")
def red(cluster):
    """What red has: a job, a secret."""
    assert cluster.rest("PUT", "/v1/secrets/hf-token", {"value": "red-value"}, token=cluster.tokens["red"])[0] in (200, 201)
    status, job = cluster.rest("POST", "/v1/jobs", {"name": "red-run", "command": ["/bin/sleep", "600"], "secrets": {"HF": "hf-token"}}, token=cluster.tokens["red"])
    assert status == 201, job
    cluster.wait_state(job["id"], "running")
    return {"job": job["id"], "tenant": "red", "secret": "hf-token"}


def ask(cluster, method, path, token, body=None, **headers):
    """(status, headers that say something, body) to the byte."""
    connection = http.client.HTTPConnection(cluster.http, timeout=HANG_SECONDS)
    head = {"X-Muster-Request": "1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token:
        head["Authorization"] = f"Bearer {token}"
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if data is not None:
        head["Content-Type"] = "application/json"
    connection.request(method, path, data, head)
    answer = connection.getresponse()
    said = {name: value for name, value in answer.getheaders() if name not in ("Date", "Content-Length")}
    found = answer.status, said, answer.read().decode()
    connection.close()
    return found


def alike(answers, words=()):
    """All the same, once each one's own word is struck out."""
    struck = set()
    for answer, word in zip(answers, words or [None] * len(answers)):
        said = json.dumps(answer)
        struck.add(re.sub(rf"(?<![a-z0-9-]){re.escape(word)}(?![a-z0-9-])", "WORD", said) if word else said)
    assert len(struck) == 1, struck
    return answers[0]


def well_formed(start):
    """A token with the checksum that belongs to it: CRC-32C of what is before."""
    crc = 0xFFFFFFFF
    for byte in start.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return f"{start}{crc ^ 0xFFFFFFFF:08x}"


@pytest.fixture(scope="module")
def guesses(cluster):
    """Well-formed tokens next to some that are, were and never were."""
    made = []
    for name, more in (("revoked", []), ("expired", ["--expires", "1s"])):
        made.append(cluster.muster("token", "create", name, "--role", "member", "--tenant", "red", *more, check=True).stdout.split()[0].split(".")[0])
    cluster.muster("token", "revoke", "revoked", check=True)
    wait_for("the short one to expire", 20, lambda: ask(cluster, "GET", "/v1/jobs", made[1])[0] == 401)
    known = [*made, cluster.tokens["red"].split(".")[0], cluster.token.split(".")[0]]
    assert all(well_formed(token[:-8]) == token for token in known)
    secrets = [token[:-8].split("_", 2)[2] for token in known]
    near = [well_formed(f"mst_member_{'AB'[secret[0] == 'A']}{secret[1:]}") for secret in secrets]
    other_roles = [well_formed(f"mst_{role}_{secret}") for secret in secrets for role in ("viewer", "operator", "agent")]
    return [well_formed("mst_member_" + "A" * 43), *near, *other_roles]


def test_a_guess_beside_a_token_answers_as_one_that_is_far_from_any(cluster, guesses):
    """Who has a whole token that was good is told that it was revoked or has expired: a guess never meets one."""
    for method, path, body in (("GET", "/v1/jobs", None), ("GET", "/v1/audit", None), ("POST", "/v1/jobs", {"command": ["/bin/true"]}), ("GET", "/v1/whoami", None), ("GET", "/nowhere", None)):
        alike([ask(cluster, method, path, token, body) for token in guesses])
    status, _, _ = alike([ask(cluster, "POST", "/v1/login", None, {"token": token}) for token in guesses])
    assert status == 401
    for method, message in (("Coordinator.ListJobs", b""), ("Nodes.RegisterNode", text(1, "fresh") + number(2, 1)), ("Coordinator.CreateToken", text(1, "x"))):
        answers = []
        for token in guesses:
            with Peer(cluster.rpc) as peer:
                answers.append(list(map(str, peer.call(method, message, token=token))))
        assert alike(answers)[0] == "UNAUTHENTICATED"


def test_a_session_that_ended_answers_as_one_that_never_was(cluster):
    status, head, body = ask(cluster, "POST", "/v1/login", None, {"token": cluster.tokens["red"]})
    assert status == 200, body
    cookie = head["Set-Cookie"].split(";")[0]
    session = next(value for value in json.loads(body).values() if isinstance(value, str) and len(value) > 20)
    name, value = cookie.split("=", 1)
    live = {"Cookie": cookie, "X-Muster-Session": session}
    assert ask(cluster, "GET", "/v1/whoami", None, **live)[0] == 200
    assert ask(cluster, "POST", "/v1/logout", None, {}, **live)[0] in (200, 204)
    alike([ask(cluster, "GET", "/v1/whoami", None, **head) for head in (live, {**live, "Cookie": f"{name}={value[::-1]}"}, {**live, "X-Muster-Session": session[::-1]})])


def test_a_secret_of_another_tenant_answers_as_one_that_never_was(cluster, red):
    blue, names = cluster.tokens["blue"], (red["secret"], NEVER["secret"])
    for method, path in (("DELETE", "/v1/secrets/%s"), ("DELETE", "/v1/secrets/%s?tenant=red"), ("PUT", "/v1/secrets/%s?tenant=red"), ("GET", "/v1/secrets/%s")):
        alike([ask(cluster, method, path % name, blue, {"value": "x" * 20} if method == "PUT" else None) for name in names], names)
    for body in ({}, {"tenant": "red"}):
        alike([ask(cluster, "POST", "/v1/jobs", blue, {"command": ["/bin/true"], "secrets": {"HF": name}, **body}) for name in names], names)
        alike([ask(cluster, "POST", "/v1/plan", blue, {"command": ["/bin/true"], "secrets": {"HF": name}, **body}) for name in names], names)
    assert "hf-token" not in ask(cluster, "GET", "/v1/secrets", blue)[2] + ask(cluster, "GET", "/v1/secrets?tenant=red", blue)[2]
    kept = json.loads(ask(cluster, "GET", "/v1/secrets", cluster.tokens["red"])[2])["secrets"]
    assert [one["name"] for one in kept] == ["hf-token"] and kept[0]["changed_by"] == "red-ci", kept


def test_a_tenant_that_is_there_answers_as_one_that_never_was(cluster, red):
    blue, names = cluster.tokens["blue"], ("red", "default", NEVER["tenant"])
    for method, path, body in (("GET", "/v1/tenants/%s", None), ("PUT", "/v1/tenants/%s", {"weight": 2}), ("GET", "/v1/jobs?tenant=%s", None), ("GET", "/v1/secrets?tenant=%s", None),
                               ("GET", "/v1/events?tenant=%s", None), ("GET", "/v1/overview?tenant=%s", None), ("GET", "/v1/nodes?tenant=%s", None)):
        alike([ask(cluster, method, path % name, blue, body) for name in names], names)
    named = [name for name in names if name != "default"]  # which means a member's own where it submits
    alike([ask(cluster, "POST", "/v1/jobs", blue, {"command": ["/bin/true"], "tenant": name}) for name in named], named)
    alike([ask(cluster, "POST", "/v1/tenants", blue, {"name": name}) for name in names], names)
    alike([ask(cluster, "POST", "/v1/tokens", blue, {"name": "mine", "role": "member", "tenant": name}) for name in names], names)


@pytest.mark.parametrize("method, path, body, headers", [
    ("POST", ":scale", {"min": 1, "max": 1}, {}), ("POST", ":scale", {"min": -1}, {}), ("POST", ":scale", b"{", {}), ("POST", ":scale", {"min": 1, "max": 1, "version": "1"}, {}),
    ("POST", ":cancel", {"reason": "x" * 5000}, {}), ("POST", ":cancel", {"grace": "soon"}, {}), ("POST", ":cancel", None, {"If_Match": '"1"'}),
    ("GET", "", None, {"If_None_Match": "*"}), ("GET", "?wait=1s&version=1", None, {}), ("GET", "?unknown=1", None, {}), ("GET", "/logs?rank=-1", None, {}), ("GET", "/logs?tail=1", None, {"Accept": "text/event-stream"}),
    ("GET", "/events", None, {"Accept": "text/event-stream", "Last_Event_ID": "1"}), ("GET", "/metrics?name=loss&points=x", None, {}), ("DELETE", "", None, {}), ("PUT", "", {}, {}), ("GET", "/nowhere", None, {}),
    ("GET", "%2e", None, {}), ("GET", "/checkpoints?limit=0", None, {})])
def test_a_job_of_another_tenant_answers_as_one_that_never_was_whatever_is_wrong(cluster, red, method, path, body, headers):
    ids = (red["job"], NEVER["job"], "red-run", "never-run")
    answers = [ask(cluster, method, f"/v1/jobs/{one}{path}", cluster.tokens["blue"], body, **headers) for one in ids]
    assert alike(answers, ids)[0] >= 400
    assert cluster.job(red["job"])["state"] == "running"


def test_tokens_of_others_are_not_looked_for(cluster):
    ids = [one["id"] for one in json.loads(cluster.muster("token", "list", "-o", "json", check=True).stdout)["tokens"]][:3] + ["0123456789abcdef", "red-ci", "nobody"]
    status, _, _ = alike([ask(cluster, "POST", f"/v1/tokens/{one}:revoke", cluster.tokens["blue"], {}) for one in ids])
    assert status == 403
    assert ask(cluster, "GET", "/v1/whoami", cluster.tokens["red"])[0] == 200
