"""The doors of REST: connections, heads of requests, streams."""
import resource
import select
import socket

import pytest
from localcluster import HANG_SECONDS, wait_for


@pytest.fixture
def server(make_cluster):
    return make_cluster(nodes=0)


def dial(cluster):
    host, port = cluster.http.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=HANG_SECONDS)


def ask(cluster, head, body=b""):
    """The status of the answer to these bytes; None: hung up without one."""
    with dial(cluster) as sock:
        sock.sendall(head.replace(b"\n", b"\r\n").replace(b"TOKEN", cluster.token.encode()) + b"\r\n\r\n" + body)
        answer = b""
        try:
            while b"\r\n\r\n" not in answer:
                more = sock.recv(4096)
                if not more:
                    break
                answer += more
        except ConnectionResetError:
            pass
        return int(answer.split()[1]) if answer else None


def ended(sock):
    state = select.poll()
    state.register(sock, select.POLLHUP | select.POLLRDHUP)
    return bool(state.poll(0))


def healthy(cluster):
    return ask(cluster, b"GET /healthz HTTP/1.1\nHost: localhost\nConnection: close") == 200


def test_m4_connections_that_drip_leave_room_for_others(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    sockets = []
    try:
        for i in range(2200):
            sock = dial(server)
            sock.send(b"GET /v1/jobs HTTP/1.1\r\n")
            sockets.append(sock)
            if i % 500 == 499:
                assert healthy(server), f"with {i + 1} of them"
        drips = list(sockets)

        def over():
            for sock in drips:
                try:
                    sock.send(b"x")
                except OSError:
                    pass
            assert healthy(server)
            drips[:] = [sock for sock in drips if not ended(sock)]
            return not drips
        wait_for("none that drips to stay after its time", 14, over, every=1)
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    page = server.rest("GET", "/metrics", raw=True, token=server.token)[1]
    count = {line.split('"')[1]: int(line.split()[-1]) for line in page.splitlines() if line.startswith("muster_limit_refused_total{")}
    assert count["http_connections"] > 0 and count["http_request_s"] > 0, count


JOB = b'{"name":"a","command":["true"]}'
POST = b"POST /v1/jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN\n"
GET = b"GET /v1/jobs HTTP/1.1\nAuthorization: Bearer TOKEN\n"


@pytest.mark.parametrize("head, body", [
    (POST + b"Content-Length: 31\nContent-Length: 3", JOB),
    (POST + b"Content-Length: 31\nTransfer-Encoding: chunked", b"1f\r\n" + JOB + b"\r\n0\r\n\r\n"),
    (POST + b"Transfer-Encoding: chunked\nTransfer-Encoding: identity", b"1f\r\n" + JOB + b"\r\n0\r\n\r\n"),
    (POST + b"Transfer-Encoding : chunked", b"1f\r\n" + JOB + b"\r\n0\r\n\r\n"),
    (POST + b"Transfer-Encoding: gzip", JOB),
    (GET + b"X: y", b""),
    (GET + b"Host: localhost\nHost: other", b""),
    (b"GET /v1/jobs%00x HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN", b""),
    (GET + b"Host: localhost\n" + b"\n".join(b"X-%d: y" % i for i in range(70)), b""),
    (GET + b"Host: localhost\nX: a\0b", b""),
    (GET + b"Host: localhost\0.other", b""),
    (GET + b"Host: localhost\n\0\nX: y", b""),
    (GET + b"Host: localhost\n\0Content-Length: 1", b""),
    (GET + b"Host: localhost\nX\0: a", b""),
    (b"GET /v1/jobs\0x HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN", b""),
    (b"GET\0 /v1/jobs HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN", b""),
    (GET + b"Host: localhost\nX: a\x0bb", b""),
], ids=["two lengths", "length and chunks", "two codings", "space before colon", "unknown coding", "no host", "two hosts", "NUL in a path", "many headers",
        "NUL in a value", "NUL in Host", "a line that is NUL", "a line that begins with NUL", "NUL in a name", "raw NUL in a path", "NUL in a method", "control character"])
def test_l_heads_that_two_programs_may_read_differently_are_refused(server, head, body):
    before = server.rest("GET", "/v1/jobs")[1]
    status = ask(server, head, body)
    assert status is None or 400 <= status < 500, status
    if b"X-69" in head:
        assert status == 431
    assert server.rest("GET", "/v1/jobs")[1] == before
    assert healthy(server)


def test_m4_streams_of_one_token_are_limited(server):
    viewer = server.muster("token", "create", "eyes", "--role", "viewer", "--tenant", "default", check=True).stdout.split()[0]
    head = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer " + viewer.encode() + b"\r\n\r\n"
    opened, refused, sockets = 0, 0, []
    try:
        for _ in range(100):
            sock = dial(server)
            sockets.append(sock)
            sock.sendall(head)
            answer = sock.recv(4096)
            opened += answer.startswith(b"HTTP/1.1 200")
            refused += answer.startswith(b"HTTP/1.1 429")
        assert (opened, refused) == (64, 36)
        status, answer = server.rest("GET", "/v1/events", token=viewer, headers={"Accept": "text/event-stream"})
        assert status == 429 and "token_streams" in str(answer), answer
        assert server.rest("GET", "/v1/jobs", token=viewer)[0] == 200
    finally:
        for sock in sockets:
            sock.close()
