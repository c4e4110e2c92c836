"""Doors of REST: heads, cookies, sessions, addresses and bodies, by a stranger, a member and a foreign page.

| attack | door | what must hold |
|---|---|---|
| an address of a foreign host in the request's first line | request target, Host | refused, or read as one's own |
| OPTIONS, TRACE, CONNECT, PROPFIND, and overriding headers | methods | refused; no CORS header |
| output of a job that is a page | every answer | a type that no browser takes for a page, and nosniff |
| paths that climb | the page's files | 404 |
| a body in gzip, in a form, in XML, with a wrong type | POST | refused, or JSON only |
| a session made in another's name, by cookie or address | session | nothing opens |
| both halves of a session where only one belongs | cookie, header, query | nothing opens |
| a session whose token was revoked, or that was logged out | cookie, SSE | refused at once, stream ended |
| a session of a viewer used for changes | POST | refused by role, also with the header |
| a mark without its value, changes by GET | X-Muster-Request | refused |
| lines in a header's value | Idempotency-Key, X-Forwarded-For | refused; no line of logs or trail is made by it |
| an address that the asker invents | X-Forwarded-For, Forwarded | the trail says the connection's |
| a role, a tenant or an expiry smuggled | POST /v1/tokens, /v1/login by members | 403 |
| keys that are there twice, prototypes, deep and long bodies | JSON | refused |
| an event id from the future, or none | Last-Event-ID | a stream of one's own, or refused |
| attempts at other roles' doors | every route | 401 without a token, 403 with too little, never 500 |
"""
import gzip
import http.client
import json
import re
import socket

import pytest
from doors import shared_cluster, sse_lines
from localcluster import HANG_SECONDS, ROOT, wait_for

FORM = {"X-Muster-Request": "1", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    for made in shared_cluster(tmp_path_factory, slots=2):
        made.viewer = made.muster("token", "create", "eyes", "--role", "viewer", "--tenant", "red", check=True).stdout.strip()
        made.operator = made.muster("token", "create", "hands", "--role", "operator", check=True).stdout.strip()
        yield made


def ask(cluster, method, path, headers=None, body=None):
    """(status, headers, bytes) of a request whose path and headers are sent as they are."""
    connection = http.client.HTTPConnection(cluster.http, timeout=HANG_SECONDS)
    connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers), skip_accept_encoding=True)
    body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    for name, value in {**(headers or {}), **({"Content-Length": str(len(body))} if body is not None else {})}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def log_in(cluster, token):
    status, headers, body = ask(cluster, "POST", "/v1/login", FORM, {"token": token})
    assert status == 200, body
    return {"Cookie": headers["Set-Cookie"].split(";")[0], "X-Muster-Session": json.loads(body)["session"]}


def raw(cluster, data):
    """The first bytes of an answer to these."""
    host, port = cluster.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=HANG_SECONDS) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := sock.recv(65536):
                answer += more
        except ConnectionResetError:
            pass
        return answer


def test_a_foreign_host_in_the_first_line_opens_nothing(cluster):
    for target in ("http://evil.example/v1/tokens", "http://evil.example/", "//evil.example/v1/tokens", "evil.example:443"):
        answer = raw(cluster, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert not answer or int(answer.split()[1]) in (400, 401, 404, 421), answer[:200]
        assert b"evil.example" not in answer.split(b"\r\n\r\n")[0], "no head repeats it"


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND", "PATCH", "DELETE", "get"])
def test_other_methods_open_nothing(cluster, method):
    for path in ("/v1/jobs", "/", "/v1/tokens", "*"):
        status, headers, body = ask(cluster, method, path, {**bearer(cluster.token), "Origin": "http://evil.example", "Access-Control-Request-Method": "POST", "X-HTTP-Method-Override": "GET", "X-Evil": "echo-me"})
        assert status in (400, 401, 404, 405, 501) and b"echo-me" not in body, (path, status, body)
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_output_that_is_a_page_is_no_page(cluster):
    page = "<html><script>alert(1)</script>"
    status, _, body = ask(cluster, "POST", "/v1/jobs", {**bearer(cluster.tokens["red"]), "Content-Type": "application/json"}, {"command": ["/bin/echo", page]})
    assert status == 201
    job = json.loads(body)["id"]
    cluster.wait_state(job, "succeeded")
    for path in (f"/v1/jobs/{job}/logs", f"/v1/jobs/{job}", "/v1/jobs/" + "%3Cscript%3E", "/metrics", "/v1/jobs?state=%3Cscript%3E", "/healthz", "/openapi.json", "/v1/nothing%3Cscript%3E", "/"):
        status, headers, body = ask(cluster, "GET", path, bearer(cluster.token))
        kind = headers["Content-Type"].split(";")[0]
        assert kind in ("application/json", "text/plain") or path == "/", (path, kind)
        assert headers["X-Content-Type-Options"] == "nosniff", path
    status, headers, _ = ask(cluster, "GET", f"/v1/jobs/{job}/logs", {**bearer(cluster.token), "Accept": "text/html"})
    assert headers["Content-Type"].startswith("application/json")


def test_paths_that_climb_find_nothing(cluster):
    for path in ("/../../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/./app.js/..", "//etc/passwd", "/app.js%00.html", "/app.js/", "/%5c..%5cetc", "/v1/../admin.token", "/file:///etc/passwd", "/app.js?../../etc/passwd"):
        status, _, body = ask(cluster, "GET", path)
        assert status in (400, 401, 404) or (status == 200 and "?" in path), (path, status)
        assert b"root:" not in body and b"mst_" not in body


@pytest.mark.parametrize("kind, body", [
    ("gzip", gzip.compress(b'{"command":["/bin/true"]}')), ("form", b"command=/bin/true"), ("XML", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    ("twice", b'{"command":["/bin/true"],"command":["/bin/false"]}'), ("prototype", b'{"command":["/bin/true"],"__proto__":{"tenant":"blue"}}'), ("deep", b'{"command":' + b"[" * 100000),
    ("list", b'[{"command":["/bin/true"]}]'), ("two", b'{"command":["/bin/true"]}{"command":["/bin/true"]}'), ("comment", b'{"command":["/bin/true"]/**/}'), ("UTF-16", '{"command":["/bin/true"]}'.encode("utf-16")),
    ("BOM", b'\xef\xbb\xbf{"command":["/bin/true"],"name":"bom"}'), ("surrogate", b'{"command":["\\ud800"]}'), ("NUL", b'{"command":["/bin/true\\u0000x"]}'), ("long", b'{"command":["' + b"x" * (1 << 20) + b'"]}'),
    ("other tenant", b'{"command":["/bin/true"],"tenant":"blue"}'), ("both", b'{"spec":{"command":["/bin/true"]},"command":["/bin/true"]}')])
def test_bodies_that_two_readers_read_differently_are_refused(cluster, kind, body):
    head = {**bearer(cluster.tokens["red"]), "Content-Type": "application/json", **({"Content-Encoding": "gzip"} if kind == "gzip" else {})}
    status, _, answer = ask(cluster, "POST", "/v1/jobs", head, body)
    assert 400 <= status < 500 or (kind == "BOM" and status == 201), (status, answer)


def test_half_a_session_and_a_forged_one_open_nothing(cluster):
    session = log_in(cluster, cluster.tokens["red"])
    cookie, half = session["Cookie"], session["X-Muster-Session"]
    value = cookie.split("=", 1)[1]
    assert ask(cluster, "GET", "/v1/whoami", session)[0] == 200
    for wrong in ({"Cookie": cookie}, {"X-Muster-Session": half}, {"Cookie": cookie, "X-Muster-Session": value}, {"Cookie": f"muster_session={half}", "X-Muster-Session": value}, {"Cookie": f"muster_session={value}.{half}", "X-Muster-Session": ""},
                  {"Cookie": f"muster_session=; {cookie}", "X-Muster-Session": half[:-1]}, {"Cookie": f"muster_session={value[:-1]}", "X-Muster-Session": value[-1] + half}, {"Cookie": cookie + "%00", "X-Muster-Session": half}, {"Cookie": cookie.upper(), "X-Muster-Session": half},
                  {"Cookie": cookie, "Cookie2": half, "X-Muster-Session": "../" + half}, {"Cookie": "muster_session=" + "a" * 60000, "X-Muster-Session": half}):
        assert ask(cluster, "GET", "/v1/whoami", wrong)[0] in (401, 431, 400, 413), wrong
    assert ask(cluster, "GET", f"/v1/whoami?session={half}", {"Cookie": cookie})[0] in (400, 401)
    assert ask(cluster, "GET", f"/v1/whoami?access_token={cluster.token}")[0] in (400, 401)
    assert ask(cluster, "GET", "/v1/whoami", {"Authorization": f"Basic {cluster.token}"})[0] == 401
    assert ask(cluster, "GET", "/v1/whoami", {**session, **bearer("mst_x")})[0] == 401, "a bad token is not helped out by a good session"


def test_changes_by_session_need_the_header_and_the_role(cluster):
    session = log_in(cluster, cluster.tokens["red"])
    job = {"command": ["/bin/true"]}
    for mark in (None, "", "0", "true", "11", "1, 1"):
        head = {**session, "Content-Type": "application/json", **({"X-Muster-Request": mark} if mark is not None else {})}
        for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
            assert ask(cluster, "POST", "/v1/jobs", {**head, "Content-Type": kind}, job)[0] == 403, (mark, kind)
    assert ask(cluster, "POST", "/v1/jobs", {**session, **FORM}, job)[0] == 201
    viewer = log_in(cluster, cluster.viewer)
    for method, path, body in (("POST", "/v1/jobs", job), ("POST", "/v1/jobs/j1:cancel", {}), ("POST", "/v1/nodes/node1:cordon", {}), ("POST", "/v1/tokens", {"name": "n", "role": "admin"}), ("POST", "/v1/backup", {"path": "/tmp/never"}),
                               ("PUT", "/v1/tenants/red", {"weight": 1000}), ("POST", "/v1/tokens/admin:revoke", {})):
        assert ask(cluster, method, path, {**viewer, **FORM}, body)[0] == 403, path
    for path in ("/v1/jobs/j1:cancel", "/v1/nodes/node1:cordon", "/v1/tokens/admin:revoke", "/v1/login", "/v1/logout", "/v1/backup"):
        assert ask(cluster, "GET", path, bearer(cluster.token))[0] == 405, path


def test_a_session_ends_with_its_token_and_by_logging_out(cluster):
    plain = cluster.muster("token", "create", "gone", "--tenant", "red", check=True).stdout.strip()
    session, other = log_in(cluster, plain), log_in(cluster, plain)
    assert [ask(cluster, "GET", "/v1/jobs", one)[0] for one in (session, other)] == [200, 200]
    assert ask(cluster, "POST", "/v1/logout", {**session, **FORM}, {})[0] == 200
    assert [ask(cluster, "GET", "/v1/jobs", one)[0] for one in (session, other)] == [401, 200], "also where the answer was just given"
    cluster.muster("token", "revoke", "gone", check=True)
    assert ask(cluster, "GET", "/v1/jobs", other)[0] == 401
    assert ask(cluster, "POST", "/v1/login", FORM, {"token": plain})[0] == 401


def test_a_stream_ends_with_its_session(cluster):
    session = log_in(cluster, cluster.tokens["red"])
    connection = http.client.HTTPConnection(cluster.http, timeout=HANG_SECONDS)
    connection.request("GET", "/v1/events?newest=true", headers={"Accept": "text/event-stream", **session})
    answer = connection.getresponse()
    assert answer.status == 200
    assert ask(cluster, "POST", "/v1/logout", {**session, **FORM}, {})[0] == 200
    ask(cluster, "POST", "/v1/jobs", {**bearer(cluster.tokens["red"]), "Content-Type": "application/json"}, {"command": ["/bin/true"], "name": "after-logout"})
    assert b"after-logout" not in answer.read(), "it ends, and nothing of after is in it"
    connection.close()


def test_lines_in_headers_make_no_lines_elsewhere(cluster):
    evil = b"k\x1b[2J\x07\xff"
    host, token = cluster.http, cluster.tokens["red"]
    body = b'{"command":["/bin/true"]}'
    for key in (evil, b"k\r\n forged: yes", b"k\rforged", b"k\0x", b"k" * 5000):
        answer = raw(cluster, b"POST /v1/jobs HTTP/1.1\r\nHost: " + host.encode() + b"\r\nAuthorization: Bearer " + token.encode() + b"\r\nContent-Type: application/json\r\nConnection: close\r\nIdempotency-Key: " + key
                     + b"\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        assert not answer or int(answer.split()[1]) < 500, answer[:300]
    trail = cluster.rest("GET", "/v1/audit?newest=true&limit=1000")[1]["entries"]
    assert "6.6.6.6" not in json.dumps(trail), "the trail says the connection's address"
    assert any(entry["peer"].startswith("127.") for entry in trail)
    log = cluster.log("coordinator.log")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", log) and all(line.startswith("{") for line in log.splitlines())


def test_event_ids_that_never_were_open_ones_own_stream_or_none(cluster):
    for last in ("18446744073709551615", "-1", "99999999999999999999", "x", "0x10", "1e3", " 1", ""):
        status, _, body = 0, None, b""
        connection = http.client.HTTPConnection(cluster.http, timeout=HANG_SECONDS)
        connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream", **bearer(cluster.tokens["blue"]), "Last-Event-ID": last})
        stream = connection.sock
        answer = connection.getresponse()
        stream.settimeout(3)  # what it may send without being asked
        status = answer.status
        if status == 200:
            try:
                body = answer.fp.read1(65536)
            except TimeoutError:
                pass
        connection.close()
        assert status in (200, 400) and b'"red' not in body and b"after-logout" not in body, (last, status, body)


def routes():
    for line in re.findall(r'\{"(GET|POST|PUT|DELETE)", "(/[^"]*)"', (ROOT / "coordinator/api_rest/routes.c").read_text()):
        yield line


OPEN = {"/v1/version", "/healthz", "/readyz", "/openapi.json", "/v1/login", "/v1/logout"}
OF_ADMINS = {("POST", "/v1/tenants"), ("PUT", "/v1/tenants/{name}"), ("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("POST", "/v1/tokens/{id}:revoke"), ("GET", "/v1/audit"), ("POST", "/v1/backup"), ("GET", "/v1/events/replay"), ("POST", "/v1/secrets:rekey")}


def test_every_route_asks_who_it_is(cluster):
    """A route that is added is tried as well."""
    agent = (cluster.data / "agent.token").read_text().strip()
    found = list(routes())
    assert len(found) > 30 and OF_ADMINS <= set(found)
    for method, path in found:
        address = re.sub(r"\{[a-z]+\}", "red", path)
        body = {} if method != "GET" else None
        kind = {"Content-Type": "application/json"}
        stranger = ask(cluster, method, address, kind, body)[0]
        assert (stranger == 401) != (path in OPEN), (method, path, stranger)
        for token, refused in ((cluster.viewer, method != "GET" and path != "/v1/plan" or (method, path) in OF_ADMINS), (cluster.tokens["red"], (method, path) in OF_ADMINS or "nodes/" in path), (cluster.operator, (method, path) in OF_ADMINS or path.startswith(("/v1/jobs", "/v1/secrets")) and method != "GET"),
                               (agent, True)):
            if path in OPEN:
                continue
            if (method, path) in (("POST", "/v1/tokens/{id}:revoke"), ("POST", "/v1/backup")) and not refused:
                continue
            status = ask(cluster, method, address, {**kind, **bearer(token)}, body)[0]
            assert (status == 403) == bool(refused) and status < 500, (method, path, token[:8], status)
