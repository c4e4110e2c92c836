"""What a browser can be brought to do, and what it tells whom."""
import json
import urllib.error
import urllib.request

import pytest
from localcluster import HANG_SECONDS

FORM = {"X-Muster-Request": "1", "Content-Type": "application/json"}


@pytest.fixture
def server(make_cluster):
    return make_cluster(nodes=0)


def ask(cluster, method, path, headers=None, body=None):
    """(status, headers, text)"""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{cluster.http}{path}", data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def log_in(cluster, token, headers=None):
    return ask(cluster, "POST", "/v1/login", {**FORM, **(headers or {})}, {"token": token})


def test_m6_a_cookie_that_another_port_saw_opens_nothing(server):
    status, headers, text = log_in(server, server.token)
    assert status == 200
    cookie = {"Cookie": headers["Set-Cookie"].split(";")[0]}
    whole = {**cookie, "X-Muster-Session": json.loads(text)["session"]}
    assert ask(server, "GET", "/v1/tokens", whole)[0] == 200
    assert ask(server, "GET", "/v1/tokens", cookie)[0] == 401, "also where the same was just answered"
    made = ask(server, "POST", "/v1/tokens", {**cookie, **FORM}, {"name": "stolen", "role": "admin"})
    assert made[0] == 401, made


def test_l_a_foreign_page_neither_signs_in_nor_out(server):
    plain = {"Content-Type": "text/plain"}  # what a form of any page can send
    assert ask(server, "POST", "/v1/login", plain, {"token": server.token})[0] == 403
    assert ask(server, "POST", "/v1/login", {**plain, "X-Muster-Request": "1"}, {"token": server.token})[0] == 400
    _, headers, text = log_in(server, server.token)
    session = {"Cookie": headers["Set-Cookie"].split(";")[0], "X-Muster-Session": json.loads(text)["session"]}
    assert ask(server, "POST", "/v1/logout", {**plain, **session}, {})[0] == 403
    assert ask(server, "GET", "/v1/whoami", session)[0] == 200
    assert ask(server, "POST", "/v1/logout", {**FORM, **session}, {})[0] == 200
    assert ask(server, "GET", "/v1/whoami", session)[0] == 401


def test_l_a_name_that_was_led_here_is_refused(server):
    for path in ("/", "/app.js", "/v1/version", "/v1/login"):
        status, _, text = ask(server, "GET", path, {"Host": "evil.example:7480"})
        assert status == 421 and "evil.example" in text and "--http-host" in text, (path, status, text)
    for host in ("localhost", "127.0.0.1:7480", "[::1]:7480", server.http):
        assert ask(server, "GET", "/", {"Host": host})[0] == 200, host
    server.kill_coordinator()
    server.start_coordinator(extra=("--http-host", "muster.example", "--http-host", "other.example"))
    for host in ("muster.example", "Other.Example:443"):
        assert ask(server, "GET", "/", {"Host": host})[0] == 200, host
    assert ask(server, "GET", "/", {"Host": "evil.example"})[0] == 421
    assert ask(server, "GET", "/healthz", {"Host": "probe.example"})[0] == 200
    assert ask(server, "GET", "/v1/whoami", {"Host": "muster.example", "Authorization": f"Bearer {server.token}"})[0] == 200


def test_l_cookies_are_secure_behind_a_proxy_with_tls(server):
    assert "Secure" not in log_in(server, server.token)[1]["Set-Cookie"]
    assert "; Secure" in log_in(server, server.token, {"X-Forwarded-Proto": "https"})[1]["Set-Cookie"]


def test_l_logins_of_a_viewer_push_no_administrator_out(server):
    viewer = server.muster("token", "create", "eyes", "--role", "viewer", "--tenant", "default", check=True).stdout.split()[0]
    _, headers, text = log_in(server, server.token)
    admin = {"Cookie": headers["Set-Cookie"].split(";")[0], "X-Muster-Session": json.loads(text)["session"]}
    for _ in range(1100):
        assert log_in(server, viewer)[0] == 200
    assert ask(server, "GET", "/v1/whoami", admin)[0] == 200
