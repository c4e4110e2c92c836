"""Doors that agents use: what a stolen token of role agent, with a node of its own, tries on the nodes and jobs of others.

| attack | door | what must hold |
|---|---|---|
| series for a job of another node | Report.metrics | none is kept |
| output of a worker that there never was | Report.logs | none is kept |
| output of a worker that has ended | Report.logs | none is kept |
| workers of others, said to be found running | RegisterNode.workers | their job goes on where it is |
| workers of others, said to have ended or lost peers | Report.workers | the same |
| a checkpoint of another node's worker | CommitCheckpoint | refused |
| another history, another cluster | RegisterNode | only this node is refused |
| numbers at their ends | RegisterNode | refused, or counted without overflow |
| escapes and lines in labels, models, versions, addresses | `muster nodes`, `top`, `env`, `show` | shown escaped |
| bytes that are not UTF-8 | RegisterNode, Report | refused or mended: everybody's JSON stays JSON |
| a key that was taken back, with a poll open | SetNode rekey | it is told nothing more |
| a name of two machines: letters of another case, dots, spaces | RegisterNode | refused |
| an expired or revoked token, and those of other roles | RegisterNode | refused |
"""
import json
import re
import struct
import subprocess
import time
import urllib.request

import pytest
from doors import shared_cluster
from localcluster import HANG_SECONDS, MUSTER, wait_for
from wire import Peer, fields, number, text

WORKERS, METRICS, LOGS = 4, 5, 6  # of NodeReport


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from shared_cluster(tmp_path_factory, slots=4)


def new_key(folder):
    subprocess.run([str(MUSTER), "tls", "init", "--data", str(folder)], check=True, capture_output=True)
    return folder / "server.pem"


def registration(name, incarnation=666, slots=0, **more):
    return text(1, name) + number(2, incarnation) + text(3, more.get("address", "127.0.0.1")) + number(4, slots) + b"\x29" + struct.pack("<d", 64.0) + number(11, 21000) + number(12, 21999)


@pytest.fixture(scope="module")
def token(cluster):
    return cluster.muster("token", "create", "stolen", "--role", "agent", check=True).stdout.split()[0].split(".")[0]


@pytest.fixture(scope="module")
def evil(cluster, token, tmp_path_factory):
    """A node `evil` without slots. Reports as it by calling it with fields of NodeReport."""
    keys = new_key(tmp_path_factory.mktemp("key"))
    sequence = iter(range(1, 1000))
    with Peer(cluster.rpc, keys=keys) as peer:
        assert peer.call("Nodes.RegisterNode", registration("evil"), token=token)[0] == "OK"

        def report(*parts):
            return peer.call("Nodes.Report", text(1, "evil") + number(2, 666) + number(3, next(sequence)) + b"".join(parts), token=token)
        report.peer, report.keys = peer, keys
        yield report


@pytest.fixture
def victim(cluster):
    status, job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/sh", "-c", "echo MINE; sleep 600"]}, token=cluster.tokens["red"])
    assert status == 201
    worker = cluster.wait_state(job["id"], "running")["workers"][0]
    yield job["id"], worker
    now = cluster.job(job["id"])
    cluster.muster("cancel", job["id"], check=True)
    assert now["state"] == "running" and now["restarts"] == 0 and now["workers"][0]["pid"] == worker["pid"] and now["workers"][0]["node"] == "node1", now


def sample(job, name, value, step=1):
    return text(METRICS, text(1, job) + number(2, 1) + number(3, step) + number(4, 1) + text(5, name) + b"\x31" + struct.pack("<d", value))


def chunk(job, uid, line, offset=0):
    return text(LOGS, text(1, job) + number(2, uid) + number(4, 1) + number(5, offset) + text(6, text(5, line)))


def test_a_node_tells_no_series_of_a_job_that_is_not_there(cluster, evil, victim):
    job, _ = victim
    evil(sample(job, "loss", 6.66), sample(job, "forged", 1.0))
    lie = text(WORKERS, text(1, job) + number(2, 1) + number(3, 3))
    evil(lie, sample(job, "loss", 6.66), sample(job, "tokens_per_second", 1e30))
    status, answer = cluster.rest("GET", f"/v1/jobs/{job}/metrics")
    assert status == 200 and not answer["series"], answer
    assert cluster.job(job)["loss"] is None


@pytest.mark.parametrize("uid", [1, 2, 999, (1 << 64) - 1])
def test_a_node_tells_no_output_of_a_worker_that_it_never_had(cluster, evil, victim, uid):
    job, _ = victim
    evil(chunk(job, uid, "FORGED", offset=0), chunk(job, uid, "FORGED", offset=100))
    wait_for("its own output", 20, lambda: "MINE" in cluster.output(job))
    assert "FORGED" not in cluster.output(job)


def test_a_node_tells_no_output_of_workers_that_have_ended(cluster, evil):
    job = cluster.submit("--", "/bin/echo", "MINE")
    cluster.wait_state(job, "succeeded")
    again = cluster.submit("--restarts", "1", "--", "/bin/sh", "-c", "echo MINE; test $MUSTER_GENERATION -gt 1")
    cluster.wait_state(again, "succeeded")
    for one in (job, again):
        wait_for("its own output", 20, lambda: "MINE" in cluster.output(one))
        for uid in (1, 2, 3):
            evil(chunk(one, uid, "FORGED", offset=1), chunk(one, uid, "FORGED", offset=5))
            evil(sample(one, "forged", 1.0))
        assert "FORGED" not in cluster.output(one), one
        assert not cluster.rest("GET", f"/v1/jobs/{one}/metrics")[1]["series"]


@pytest.mark.parametrize("state", [2, 3, 5])
def test_a_node_takes_no_worker_of_another_as_found(cluster, token, victim, tmp_path, state):
    job, worker = victim
    found = text(10, text(1, job) + number(2, 1) + number(3, state) + number(4, 4711) + number(5, 1) + (text(11, number(1, 0)) if state == 5 else b""))
    with Peer(cluster.rpc, keys=new_key(tmp_path / "key")) as peer:
        code, told, _ = peer.call("Nodes.RegisterNode", registration(f"finder{state}", 667, slots=1) + found, token=token)
        assert code in ("OK", "INVALID_ARGUMENT", "PERMISSION_DENIED"), (code, told)


def test_a_node_ends_no_worker_of_another(cluster, evil, victim):
    job, worker = victim
    gone = text(11, number(1, 1) + text(5, "killed") + text(7, "FORGED"))
    for lie in (number(3, 5) + gone, number(3, 5) + text(14, "cannot start"), number(3, 3) + number(12, 1) + number(13, 0), number(3, 4), number(3, 3) + number(6, 2) + text(7, "127.0.0.1:1")):
        evil(text(WORKERS, text(1, job) + number(2, 1) + number(5, 1) + lie))
    stuck = text(WORKERS, text(1, job) + number(2, 1) + number(3, 5) + gone + number(16, 1))
    evil(stuck)


def test_a_node_commits_no_checkpoint_of_another(cluster, evil, victim):
    job, _ = victim
    for phase in (1, 2):
        checkpoint = text(4, number(1, 7) + text(2, "/evil/step-7") + number(3, 1))
        code, told, _ = evil.peer.call("Nodes.CommitCheckpoint", text(1, job) + number(2, 1) + number(3, phase) + checkpoint + text(5, "evil") + number(6, 666))
        assert code in ("PERMISSION_DENIED", "ABORTED", "NOT_FOUND"), (code, told)
    assert "evil" not in json.dumps(cluster.rest("GET", f"/v1/jobs/{job}/checkpoints")[1])


def test_a_node_of_another_history_is_refused_alone(cluster, token, victim, tmp_path):
    worker = text(10, text(1, victim[0]) + number(2, 1) + number(3, 2))
    own = json.loads(cluster.rest("GET", "/v1/version", raw=True)[1])["cluster"]
    with Peer(cluster.rpc, keys=new_key(tmp_path / "key")) as peer:
        for lie in (text(20, "another") + number(21, 1), text(20, own) + number(21, (1 << 64) - 1), text(20, own) + number(22, (1 << 63) - 1)):
            code, told, _ = peer.call("Nodes.RegisterNode", registration("historian") + worker + lie, token=token)
            assert code == 9, (code, told)
    assert cluster.rest("GET", "/readyz", raw=True)[0] == 200


def test_what_a_node_has_is_within_reason(cluster, token, tmp_path):
    before = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]

    def double(field, value):
        return bytes([field << 3 | 1]) + struct.pack("<d", value)
    wrong = [number(4, (1 << 32) - 1), double(5, float("nan")), double(5, float("inf")), double(5, -1.0), number(6, (1 << 64) - 1), number(11, 5) + number(12, 4), number(12, 70000), number(2, 0),
             text(3, "x" * 10000), b"".join(text(7, text(1, f"k{i}") + text(2, "v")) for i in range(1000)), text(7, text(1, "k" * 100) + text(2, "v")), text(8, b"") * 1000]
    with Peer(cluster.rpc, keys=new_key(tmp_path / "key")) as peer:
        for part in wrong:
            code, told, _ = peer.call("Nodes.RegisterNode", registration("greedy") + part, token=token)
            assert code == "INVALID_ARGUMENT", (part[:20], code, told)
    for bad in ("", "-x", ".", "Node1", "node1 ", "node1\0", "no/de", "a" * 64, "nöde", "node1\n"):
        with Peer(cluster.rpc, keys=new_key(tmp_path / f"k{wrong.append(0) or len(wrong)}")) as peer:
            code, told, _ = peer.call("Nodes.RegisterNode", registration(bad), token=token)
            assert code in ("INVALID_ARGUMENT", "PERMISSION_DENIED"), (bad, code, told)
    assert {node["name"] for node in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]} == {node["name"] for node in before}


ESCAPE = "\x1b]0;owned\x07\x1b[2J\nevil2 ready\r\u202e"


def test_what_a_node_says_of_itself_draws_on_no_terminal(cluster, token, tmp_path):
    said = text(13, ESCAPE) + text(9, ESCAPE) + text(7, text(1, ESCAPE[:20]) + text(2, ESCAPE)) + text(8, number(1, 0) + text(2, ESCAPE) + number(3, 1 << 30) + text(4, ESCAPE[:10]))
    with Peer(cluster.rpc, keys=new_key(tmp_path / "key")) as peer:
        code, told, _ = peer.call("Nodes.RegisterNode", registration("painter", slots=1, address="127.0.0.1" + ESCAPE[:8]) + said, token=token)
        assert code in ("OK", "INVALID_ARGUMENT"), (code, told)
        for words in (["nodes"], ["nodes", "painter"], ["nodes", "-o", "yaml"], ["top", "--once"], ["env"], ["events", "--audit"], ["plan", "--slots", "1", "--", "/bin/true"], ["why", "painter"]):
            shown = cluster.muster(*words)
            bad = {c for c in shown.stdout + shown.stderr if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"}
            assert not bad, (words, bad)
            assert not re.search(r"^evil2 ready", shown.stdout, re.M), (words, shown.stdout)


BAD = b"\xff\xfecaf\xc3"


def test_bytes_of_nodes_that_are_no_text_break_nobodys_answers(cluster, token, tmp_path):
    parts = {"address": text(3, BAD), "version": text(9, BAD), "unenforced": text(13, BAD), "label": text(7, text(1, BAD) + text(2, BAD)), "gpu": text(8, text(2, BAD) + text(4, BAD)),
             "label cut": text(7, text(1, "k") + text(2, "é" * 31 + "€")), "gpu cut": text(8, text(2, "é" * 200))}
    for i, (what, part) in enumerate(parts.items()):
        with Peer(cluster.rpc, keys=new_key(tmp_path / f"key{i}")) as peer:
            code, told, _ = peer.call("Nodes.RegisterNode", registration(f"bytes{i}") + part, token=token)
            assert code in ("OK", "INVALID_ARGUMENT"), (what, code, told)
        for path in ("/v1/nodes", "/v1/events?newest=true", "/metrics", "/v1/audit?newest=true"):
            request = urllib.request.Request(f"http://{cluster.http}{path}", headers={"Authorization": f"Bearer {cluster.token if 'audit' in path else cluster.tokens['red']}"})
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
                body = answer.read().decode("utf-8")
                assert path == "/metrics" or json.loads(body), (what, path)


def test_bytes_in_reports_that_are_no_text_break_nobodys_answers(cluster, token, tmp_path):
    """A node with a worker of its own says what it likes of it; others read on."""
    keys = new_key(tmp_path / "key")
    with Peer(cluster.rpc, keys=keys) as peer:
        assert peer.call("Nodes.RegisterNode", registration("speaker", slots=9), token=token)[0] == "OK"
        status, job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "resources": {"slots": 9}}, token=cluster.tokens["blue"])
        assert status == 201, job
        _, _, body = peer.call("Nodes.Poll", text(1, "speaker") + number(2, 666), timeout_ms=8000)
        assert job["id"].encode() in body
        lies = [number(3, 2) + text(15, text(1, BAD) + text(2, BAD) + number(5, 5000)), number(3, 2) + number(8, 1) + number(9, (1 << 64) - 1) + number(10, 0)]
        for i, lie in enumerate(lies):
            assert peer.call("Nodes.Report", text(1, "speaker") + number(2, 666) + number(3, i + 1) + text(WORKERS, text(1, job["id"]) + number(2, 1) + number(4, 1) + number(5, 1) + lie) +
                             sample(job["id"], BAD, 1.0) + sample(job["id"], ESCAPE, float("nan")) + chunk(job["id"], 1, BAD, offset=i))[0] in ("OK", "INVALID_ARGUMENT")
        gone = number(3, 5) + text(11, number(1, 1) + text(5, BAD) + text(7, BAD)) + text(14, BAD)
        peer.call("Nodes.Report", text(1, "speaker") + number(2, 666) + number(3, 9) + text(WORKERS, text(1, job["id"]) + number(2, 1) + number(5, 1) + gone))
        for path in ("", "/events", "/why", "/metrics", "/logs"):
            request = urllib.request.Request(f"http://{cluster.http}/v1/jobs/{job['id']}{path}", headers={"Authorization": f"Bearer {cluster.token}"})
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
                json.loads(answer.read().decode("utf-8"))
        for words in (["show", job["id"]], ["why", job["id"]], ["events", job["id"]], ["top", "--once"], ["ps", "-a"]):
            shown = cluster.muster(*words)
            bad = {c for c in shown.stdout + shown.stderr if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"}
            assert not bad, (words, bad)
        cluster.muster("cancel", job["id"])


def test_a_key_that_was_taken_back_is_told_nothing_more(cluster, token, tmp_path):
    keys = new_key(tmp_path / "key")
    with Peer(cluster.rpc, keys=keys, timeout=HANG_SECONDS) as peer:
        assert peer.call("Nodes.RegisterNode", registration("old", slots=7), token=token)[0] == "OK"
        version = fields(peer.call("Nodes.Poll", text(1, "old") + number(2, 666), timeout_ms=5000)[2]).get(1, 0)
        peer.send("Nodes.Poll", text(1, "old") + number(2, 666) + number(3, version), timeout_ms=30000)
        cluster.muster("rekey", "old", check=True)
        status, job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "resources": {"slots": 7}, "env": {"HF_TOKEN": "red-secret"}}, token=cluster.tokens["red"])
        try:
            code, told, body = peer.answer()
            assert b"red-secret" not in body and code in ("NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "ABORTED"), (code, told, body)
            for method, message in (("Poll", text(1, "old") + number(2, 666)), ("Report", text(1, "old") + number(2, 666) + number(3, 5))):
                code, told, body = peer.call("Nodes." + method, message, token=token)
                assert code in ("NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "ABORTED"), (method, code, told)
        finally:
            if status == 201:
                cluster.muster("cancel", job["id"])


@pytest.mark.parametrize("who", ["expired", "revoked", "admin", "member", "none", "cut"])
def test_only_a_good_token_of_its_role_lets_a_node_in(cluster, token, tmp_path, who):
    held = {"admin": cluster.token, "member": cluster.tokens["red"], "none": "", "cut": token[:-1]}.get(who)
    if who in ("expired", "revoked"):
        held = cluster.muster("token", "create", who, "--role", "agent", *(["--expires", "1s"] if who == "expired" else []), check=True).stdout.split()[0]
        time.sleep(1.1) if who == "expired" else cluster.muster("token", "revoke", who, check=True)
    with Peer(cluster.rpc, keys=new_key(tmp_path / "key")) as peer:
        code, told, _ = peer.call("Nodes.RegisterNode", registration("guest"), token=held.split(".")[0])
        assert code in ("UNAUTHENTICATED", "PERMISSION_DENIED"), (code, told)
    assert "guest" not in cluster.muster("nodes", check=True).stdout
