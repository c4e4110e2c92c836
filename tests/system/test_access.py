"""Tenants, tokens and the audit trail through the CLI and REST."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import urllib.error

from localcluster import HANG_SECONDS, wait_for


def as_user(cluster, token, *words):
    return subprocess.run([cluster.muster_path, *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**cluster.environment(), "MUSTER_TOKEN": token})


def new_token(cluster, name, *options):
    done = cluster.muster("token", "create", name, *options, check=True)
    assert done.stdout.startswith("mst_"), done.stdout
    return done.stdout.strip()


def test_two_tenants_share_a_cluster_and_see_only_their_own(cluster):
    cluster.muster("tenant", "create", "red", "--weight", "2", "--guaranteed", "1", check=True)
    cluster.muster("tenant", "create", "blue", check=True)
    cluster.muster("tenant", "set", "red", "--limit", "8", check=True)
    shown = json.loads(cluster.muster("tenant", "show", "red", "-o", "json", check=True).stdout)["tenants"][0]
    assert (shown["weight"], shown["guaranteed_slots"], shown["limit_slots"]) == (2, 1, 8)
    red = new_token(cluster, "red-ci", "--tenant", "red")
    blue = new_token(cluster, "blue-ci", "--tenant", "blue", "--expires", "1d")
    watcher = new_token(cluster, "watcher", "--role", "viewer", "--tenant", "red")
    job = as_user(cluster, red, "submit", "--name", "mine", "--", "/bin/sh", "-c", "echo red output").stdout.strip()
    assert job, "the member of a tenant can submit"
    cluster.wait_state(job, "succeeded")
    assert cluster.job(job)["spec"]["tenant"] == "red"
    wait_for("its output", 5, lambda: "red output" in as_user(cluster, watcher, "logs", job).stdout)
    for words in (["show", job], ["logs", job], ["why", job], ["events", job], ["ckpt", job], ["cancel", job]):
        done = as_user(cluster, blue, *words)
        assert done.returncode == 2 and "no job has the id or name" in done.stderr, (words, done.stdout, done.stderr)
    assert job not in as_user(cluster, blue, "ps", "-a").stdout
    assert job not in as_user(cluster, blue, "events").stdout
    refused = as_user(cluster, watcher, "cancel", job)
    assert refused.returncode == 3 and "cancelling a job needs a token of role admin or member, not viewer" in refused.stderr, refused.stderr
    for token, wanted in ((red, 1), (blue, 0)):
        status, text = cluster.rest("GET", "/metrics", raw=True, token=token)
        assert status == 200 and f'muster_jobs{{state="succeeded"}} {wanted}\n' in text
    agent = (cluster.data / "agent.token").read_text().strip()
    assert cluster.rest("GET", "/metrics", raw=True, token=agent)[0] == 403


def test_a_token_is_shown_only_to_the_coordinator_it_stands_beside(cluster, tmp_path):
    config = tmp_path / "muster" / "config.yaml"
    config.parent.mkdir()
    plain = {key: value for key, value in cluster.environment().items() if not key.startswith("MUSTER_")}

    def ps(text, *options, mode=0o600):
        config.write_text(text)
        config.chmod(mode)
        return subprocess.run([cluster.muster_path, "ps", *options], capture_output=True, text=True, timeout=HANG_SECONDS,
                              env={**plain, "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)})

    for text in (f"addr: {cluster.rpc}\ntoken: {cluster.token}\n", f"token: {cluster.token}\n"):
        done = ps(text, "--addr", cluster.rpc)
        assert done.returncode == 0 and not done.stderr, done.stderr
    done = ps(f"token: {cluster.token}\naddr: tcp://127.0.0.1:1\n", "--addr", cluster.rpc)
    assert done.returncode == 3 and "needs a token" in done.stderr, done.stderr
    done = ps(f"addr: {cluster.rpc}\ntoken: {cluster.token}\n", mode=0o640)
    assert done.returncode == 0 and "chmod 600" in done.stderr and str(config) in done.stderr, done.stderr
    beside = tmp_path / "muster" / "current"
    beside.mkdir()
    (beside / "admin.token").write_text(cluster.token)
    for url, code in ((cluster.rpc, 0), ("tcp://127.0.0.1:1", 3)):
        (beside / "rpc.url").write_text(url)
        assert ps("", "--addr", cluster.rpc).returncode == code, url


def test_tokens_over_rest_and_what_the_audit_trail_says(cluster):
    status, made = cluster.rest("POST", "/v1/tokens", {"name": "ops", "role": "operator"})
    assert status == 201 and made["plain"].startswith("mst_operator_")
    assert cluster.rest("GET", "/v1/whoami", token=made["plain"])[1]["name"] == "ops"
    assert cluster.rest("GET", "/v1/tokens", token=made["plain"])[0] == 403
    assert cluster.rest("POST", "/v1/nodes/node1:cordon", {"reason": "fans"}, token=made["plain"])[0] == 200
    assert cluster.rest("POST", "/v1/tenants", {"name": "green", "weight": 3})[0] == 201
    assert cluster.rest("PUT", "/v1/tenants/green", {"weight": 4})[1]["weight"] == 4
    assert cluster.rest("PUT", "/v1/tenants/green", {"weight": 0})[0] == 400
    assert cluster.rest("PUT", "/v1/tenants/gren", {"weight": 4})[0] == 404
    listed = cluster.rest("GET", "/v1/tokens")[1]["tokens"]
    assert {t["name"] for t in listed} >= {"admin", "agent", "ops"}
    assert made["plain"] not in json.dumps(listed)
    token_id = made["token"]["id"]
    assert cluster.rest("POST", f"/v1/tokens/{token_id}:revoke")[1]["revoked_wall_ms"] != "0"
    status, refused = cluster.rest("GET", "/v1/jobs", token=made["plain"])
    assert status == 401 and "revoked" in refused["error"]["message"]
    cluster.muster("tenant", "create", "violet", check=True)
    entries = cluster.rest("GET", "/v1/audit")[1]["entries"]
    seen = [(e["token_name"], e["method"], e["object"], e["result"], e["carrier"]) for e in entries]
    assert ("ops", "SetNode", "node1", "OK", "rest") in seen
    assert ("admin", "RevokeToken", token_id, "OK", "rest") in seen
    assert ("admin", "SetTenant", "violet", "OK", "rpc") in seen
    assert all(e["peer"] == "127.0.0.1" for e in entries)
    assert "mst_" not in json.dumps(entries)
    shown = cluster.muster("events", "--audit", check=True).stdout
    assert "SetNode node1: OK, cordon: fans" in shown, shown


def test_a_browser_session_is_its_tokens(cluster):
    cluster.muster("tenant", "create", "red", check=True)
    viewer = new_token(cluster, "eyes", "--role", "viewer", "--tenant", "red")
    job = cluster.submit("--", "/bin/true")
    import urllib.request
    login = urllib.request.Request(f"http://{cluster.http}/v1/login", method="POST", data=json.dumps({"token": viewer}).encode(),
                                   headers={"X-Muster-Request": "1", "Content-Type": "application/json"})
    with urllib.request.urlopen(login, timeout=HANG_SECONDS) as answer:
        cookie, half = answer.headers["Set-Cookie"].split(";")[0], json.loads(answer.read())["session"]
    def get(path):
        request = urllib.request.Request(f"http://{cluster.http}{path}", headers={"Cookie": cookie, "X-Muster-Session": half})
        try:
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None
    assert get("/v1/jobs")[1]["jobs"] == []
    assert get(f"/v1/jobs/{job}")[0] == 404
    cluster.muster("token", "revoke", "eyes", check=True)
    assert get("/v1/jobs")[0] == 401


def test_top_draws_in_place_and_puts_the_screen_back(cluster):
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 30, 0, 0))
    top = subprocess.Popen([cluster.muster_path, "top", "-i", "100ms"], stdin=terminal, stdout=terminal, stderr=terminal,
                           start_new_session=True, env={**cluster.environment(), "TERM": "xterm"})
    os.close(terminal)
    seen = b""
    while seen.count(b"\x1b[H") < 3:
        seen += os.read(ours, 65536)
    top.send_signal(signal.SIGINT)
    while b"\x1b[?1049l" not in seen:
        seen += os.read(ours, 65536)
    assert top.wait(HANG_SECONDS) == 130
    os.close(ours)
    before, screen = seen.split(b"\x1b[?1049h")
    pictures = screen.split(b"\x1b[?1049l")[0].split(b"\x1b[H")[1:]
    assert before == b"" and screen.count(b"\x1b[2J") == 1, "the screen is cleared once, at the beginning"
    for picture in pictures:
        lines = picture.split(b"\x1b[J")[0].split(b"\r\n")
        assert len(lines) <= 6 and lines[0].count(b"NODE") == 1, picture
        for line in lines:
            assert len(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", line)) <= 30, line


def test_scale_and_top(make_cluster):
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("--", "sleep", "3600")
    cluster.wait_state(job, "running")
    done = cluster.muster("scale", job, "1-2", "--reason", "more", check=True)
    assert "1..2 nodes" in done.stdout
    assert cluster.job(job)["spec"]["nodes"] == {"min": 1, "max": 2, "spares": 0}
    assert cluster.muster("scale", job, "2-1").returncode == 2
    assert cluster.muster("scale", job, "x").returncode == 2
    top = cluster.muster("top", check=True).stdout
    assert "node1" in top and job in top and "1/1" in top
    past = json.loads(cluster.muster("events", "--replay", "--json", check=True).stdout)
    assert not past["differing"] and past["jobs"][0]["spec"]["nodes"] == {"min": 1, "max": 2, "spares": 0}
    cluster.muster("cancel", job, check=True)
