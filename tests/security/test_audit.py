"""The audit trail stays whatever a caller repeats, and no text of others draws on a terminal."""
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from localcluster import HANG_SECONDS, wait_for

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x1b[1;1H\nAudit: admin RevokeToken everything: OK \u202e"


def entries(cluster):
    found, after = [], 0
    while True:
        page = cluster.rest("GET", f"/v1/audit?after={after}&limit=1000")[1]["entries"]
        found += page
        if not page:
            return found
        after = page[-1]["seq"]


@pytest.fixture
def watched(make_cluster):
    cluster = make_cluster(nodes=0)
    cluster.muster("tenant", "create", "red", check=True)
    cluster.tokens = {role: cluster.muster("token", "create", role, "--tenant", "red", "--role", role, check=True).stdout.strip()
                      for role in ("viewer", "member")}
    return cluster


def together(count, what):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda _: what(), range(count)))


def test_h6_denied_attempts_of_a_viewer_are_one_entry_a_minute(watched):
    before = entries(watched)
    statuses = together(3000, lambda: watched.rest("POST", "/v1/nodes/node1:cordon", {}, token=watched.tokens["viewer"])[0])
    assert set(statuses) <= {403, 429}, set(statuses)
    now = entries(watched)
    mine = [entry for entry in now if entry["token_name"] == "viewer"]
    assert 1 <= len(mine) <= 6, len(mine)
    assert now[:len(before)] == before
    # An orderly stop ends the minute.
    watched.coordinator.terminate()
    assert watched.coordinator.wait(HANG_SECONDS) == 0
    watched.start_coordinator()
    told = [entry for entry in entries(watched) if "more like it within a minute" in entry["text"]]
    counted = sum(int(re.match(r"(\d+) more", entry["text"])[1]) for entry in told)
    assert counted >= statuses.count(403) - 6, (counted, statuses.count(403))


def test_calls_with_unknown_tokens_are_counted_by_address(watched):
    token = watched.tokens["viewer"]
    watched.muster("token", "revoke", "viewer", check=True)
    statuses = together(300, lambda: watched.rest("GET", "/v1/jobs", token=token)[0])
    assert set(statuses) <= {401, 429}
    strangers = [entry for entry in entries(watched) if entry["result"] == "UNAUTHENTICATED"]
    assert 1 <= len(strangers) <= 3, strangers
    assert strangers[0]["peer"] and token not in json.dumps(strangers)


def test_a_members_flood_of_changes_leaves_room(watched):
    job = watched.rest("POST", "/v1/jobs", {"command": ["/bin/true"]}, token=watched.tokens["member"])[1]["id"]
    together(400, lambda: watched.rest("POST", f"/v1/jobs/{job}:scale", {"min": 1, "max": 1}, token=watched.tokens["member"]))
    mine = [entry for entry in entries(watched) if entry["token_name"] == "member" and entry["method"] == "ScaleJob"]
    assert 0 < len(mine) <= 130, len(mine)
    for _ in range(70):  # an administrator's are entries each
        watched.rest("POST", f"/v1/jobs/{job}:scale", {"min": 1, "max": 1})
    assert len([entry for entry in entries(watched) if entry["token_name"] == "admin" and entry["method"] == "ScaleJob"]) == 70


def test_registrations_of_agents_are_entries(make_cluster):
    cluster = make_cluster(nodes=2)
    seen = {entry["object"]: entry for entry in entries(cluster) if entry["method"] == "RegisterNode"}
    assert set(seen) == {"node1", "node2"} and all(entry["role"] == "agent" and "slots" in entry["text"] for entry in seen.values()), seen
    cluster.agents["node1"].kill()
    cluster.agents["node1"].wait()
    cluster.start_agent("node1")
    wait_for("the next agent's", 70, lambda: len([e for e in entries(cluster) if e["method"] == "RegisterNode"]) == 3)


def test_the_trail_goes_to_a_file_and_to_syslog(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0, coordinator=False)
    trail = tmp_path / "audit.jsonl"
    cluster.start_coordinator(extra=("--audit-file", str(trail), "--audit-syslog"))
    cluster.muster("tenant", "create", "red", check=True)
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [(line["method"], line["object"], line["result"], line["token_name"]) for line in lines] == [("SetTenant", "red", "OK", "admin")]
    assert trail.stat().st_mode & 0o077 == 0
    trail.rename(tmp_path / "audit.1")
    cluster.muster("cordon", "nowhere")
    cluster.muster("token", "create", "x", "--role", "operator", check=True)
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [line["method"] for line in lines] == ["SetNode", "CreateToken"] and lines[0]["result"] == "NOT_FOUND", lines
    assert "mst_" not in trail.read_text()


def test_m11_no_text_of_others_draws_on_a_terminal(make_cluster, tmp_path):
    cluster = make_cluster(nodes=1)
    job = cluster.rest("POST", "/v1/jobs", {"name": "drawn", "command": ["/bin/sh", "-c", "sleep 60; # " + ESCAPE], "resources": {"slots": 1}})[1]["id"]
    cluster.wait_state(job, "running")
    waits = cluster.submit("--", "/bin/true", ESCAPE)
    cluster.rest("POST", f"/v1/jobs/{waits}:cancel", {"reason": ESCAPE})
    cluster.rest("POST", "/v1/nodes/node1:cordon", {"reason": ESCAPE})
    for words in (["ps"], ["ps", "-a"], ["why", waits], ["show", waits], ["show", job], ["events"], ["events", waits], ["events", "--audit"], ["nodes"],
                  ["events", "--replay"], ["top", "--once"], ["cancel", job, "--reason", ESCAPE], ["show", ESCAPE]):
        done = cluster.muster(*words)
        text = done.stdout + done.stderr
        bad = {character for character in text if (ord(character) < 32 and character not in "\n\t") or 0x7f <= ord(character) < 0xa0 or character == "\u202e"}
        assert not bad, (words, bad)
        assert words[1:] == [ESCAPE] or not re.search(r"^Audit: admin", text, re.M), words  # the last is what the user wrote
    assert "\\x1b]0;owned" in cluster.muster("events", "--audit", check=True).stdout, "it is told, escaped"
    # Machines get it as it is.
    assert json.loads(cluster.muster("show", "-o", "json", waits, check=True).stdout)["reason"]["text"].endswith("\u202e")
    shown = cluster.submit("--", "/usr/bin/printf", "raw \\033[1m")
    cluster.muster("uncordon", "node1")
    cluster.wait_state(shown, "succeeded")
    assert "raw \x1b[1m" in wait_for("output", 10, lambda: cluster.output(shown)), "what a program wrote is shown as it is"
