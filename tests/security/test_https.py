"""REST beyond loopback: TLS, who is known by what, and the doors of HTTP behind it."""
import base64
import ctypes
import hashlib
import json
import os
import resource
import socket
import ssl
import subprocess
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for

CLONE_NEWNET = 0x40000000
HERE, THERE = "192.0.2.1", "192.0.2.9"  # addresses for documentation: RFC 5737


@pytest.fixture
def own_network():
    """The test and all that it starts see a network of their own, with addresses that are not loopback's."""
    if os.geteuid() != 0:
        pytest.skip("only root makes networks")
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before:
        if libc.unshare(CLONE_NEWNET) != 0:
            pytest.skip("no network namespaces here: " + os.strerror(ctypes.get_errno()))
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            for address in (HERE, THERE):
                subprocess.run(["ip", "address", "add", address + "/32", "dev", "lo"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@pytest.fixture
def make_remote(own_network, make_cluster):
    def make(*options, wait=True):
        cluster = make_cluster(nodes=0, coordinator=False)
        cluster.http = HERE + ":0"
        cluster.start_coordinator(options, wait)
        return cluster
    return make


def port_of(cluster):
    return int(cluster.http.rsplit(":", 1)[1])


def curl(cluster, *words, scheme="https", path="/healthz"):
    return subprocess.run(["curl", "-sS", "--max-time", str(HANG_SECONDS), *words, f"{scheme}://{cluster.http}{path}"], capture_output=True, text=True)


def curl_pin(cluster):
    shown = cluster.muster("tls", "show", "--data", str(cluster.data), check=True).stdout
    return shown.split("pin for curl ")[1].split()[0]


def dial(cluster, context=None, source=HERE):
    plain = socket.create_connection((HERE, port_of(cluster)), timeout=HANG_SECONDS, source_address=(source, 0))
    return (context or cluster.trust()).wrap_socket(plain, server_hostname=HERE)


def ask(cluster, head, body=b"", context=None):
    """The status of the answer to these bytes; None: hung up without one."""
    with dial(cluster, context) as sock:
        sock.sendall(head.replace(b"\n", b"\r\n").replace(b"TOKEN", cluster.token.encode()) + b"\r\n\r\n" + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = sock.recv(4096)
            if not more:
                break
            answer += more
        return int(answer.split()[1]) if answer else None


def shown_pin(cluster):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with dial(cluster, context) as sock:
        der = sock.getpeercert(binary_form=True)
    key = subprocess.run(["openssl", "x509", "-inform", "DER", "-pubkey", "-noout"], input=der, capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, capture_output=True, check=True).stdout
    return "sha256//" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def test_rest_beyond_loopback_is_known_by_its_authority_and_its_pin(make_remote, make_cluster, tmp_path):
    remote, other = make_remote(), make_cluster(nodes=0)
    assert remote.scheme == "https" and other.scheme == "http"
    for cluster, name in ((remote, "ours"), (other, "theirs")):
        (tmp_path / name).write_text(cluster.muster("tls", "ca", "--data", str(cluster.data), check=True).stdout)
    assert curl(remote, "--cacert", str(tmp_path / "ours")).stdout == "ok\n"
    assert curl(remote, "-k", "--pinnedpubkey", curl_pin(remote)).stdout == "ok\n"
    assert curl(remote).returncode == 60
    assert curl(remote, "--cacert", str(tmp_path / "theirs")).returncode == 60
    assert curl(remote, "-k", "--pinnedpubkey", curl_pin(other)).returncode == 90
    assert remote.rest("GET", "/v1/jobs")[0] == 200


def test_the_certificate_names_what_browsers_ask_by(make_remote):
    remote = make_remote("--http-host", "muster.example", "--http-host", "203.0.113.7")
    for name in (HERE, "127.0.0.1", "::1", "localhost", socket.gethostname(), "muster.example", "203.0.113.7"):
        with socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS) as plain:
            remote.trust().wrap_socket(plain, server_hostname=name).close()
    with socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS) as plain, pytest.raises(ssl.SSLCertVerificationError):
        remote.trust().wrap_socket(plain, server_hostname="other.example")
    pin = curl_pin(remote)
    remote.kill_coordinator()
    remote.start_coordinator(("--http-host", "muster.example"))
    assert curl_pin(remote) == pin, "a key that has all names is kept"
    remote.kill_coordinator()
    remote.start_coordinator(("--http-host", "later.example"))
    with socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS) as plain:
        remote.trust().wrap_socket(plain, server_hostname="later.example").close()


def test_versions_before_tls_1_2_are_refused(make_remote):
    remote = make_remote()
    with dial(remote) as sock:
        assert sock.version() == "TLSv1.3"
    context = remote.trust()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert ask(remote, b"GET /healthz HTTP/1.1\nHost: localhost", context=context) == 200
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        dial(remote, old)
    weak = remote.trust()
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA:AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA")
    with pytest.raises(OSError):
        dial(remote, weak)


def test_who_speaks_http_to_it_is_told_so(make_remote):
    remote = make_remote()
    said = curl(remote, "-i", scheme="http", path="/v1/jobs")
    assert "400" in said.stdout.split("\n")[0] and "https://" in said.stdout, said
    with socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS) as sock:
        sock.sendall(b"\0SP\0\0\x31\0\0")
        sock.settimeout(HANG_SECONDS)
        assert sock.recv(100) == b""


def test_plain_http_beyond_loopback_is_asked_for_by_name(make_remote):
    remote = make_remote("--insecure-bind")
    assert remote.scheme == "http" and curl(remote, scheme="http").stdout == "ok\n"


def test_cookies_are_secure_and_browsers_stay_with_tls(make_remote, make_cluster):
    remote, local = make_remote(), make_cluster(nodes=0)
    import urllib.request
    for cluster, secure in ((remote, True), (local, False)):
        base = f"{cluster.scheme}://{cluster.http}"
        login = urllib.request.Request(base + "/v1/login", data=json.dumps({"token": cluster.token}).encode(), method="POST",
                                       headers={"Content-Type": "application/json", "X-Muster-Request": "1"})
        with urllib.request.urlopen(login, timeout=HANG_SECONDS, context=cluster.trust()) as answer:
            assert ("; Secure" in answer.headers["Set-Cookie"]) == secure, answer.headers["Set-Cookie"]
        with urllib.request.urlopen(base + "/", timeout=HANG_SECONDS, context=cluster.trust()) as answer:
            assert bool(answer.headers.get("Strict-Transport-Security")) == secure


def test_a_rotation_ends_no_stream_and_shows_the_new_key(make_remote):
    remote = make_remote()
    before = curl_pin(remote)
    assert shown_pin(remote) == before
    with dial(remote) as stream:
        stream.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer {remote.token}\r\n\r\n".encode())
        assert b"200" in stream.recv(4096)
        for words in ((), ("--cluster-key",)):
            remote.muster("tls", "rotate", "--data", str(remote.data), *words, check=True)
            now = curl_pin(remote)
            assert now != before
            wait_for("the new key to be shown", 30, lambda: shown_pin(remote) == now)
        assert remote.rest("GET", "/v1/jobs")[0] == 200
        stream.settimeout(HANG_SECONDS)
        job = remote.submit("--", "/bin/true")
        got = b""
        while job.encode() not in got:
            more = stream.recv(65536)
            assert more, got
            got += more


def test_an_administrators_own_certificate_is_shown(make_remote, tmp_path):
    file = tmp_path / "own.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=web.example", "-addext", "subjectAltName=DNS:web.example"]
    subprocess.run([*words, "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "crt")], check=True, capture_output=True)
    file.write_text((tmp_path / "key").read_text() + (tmp_path / "crt").read_text())
    remote = make_remote("--tls", str(file), "--http-host", "web.example", wait=False)
    context = ssl.create_default_context(cafile=str(tmp_path / "crt"))
    remote.trust = lambda: None
    wait_for("it serves", 30, lambda: (remote.data / "http.url").exists())
    remote.http = (remote.data / "http.url").read_text().strip().split("://")[1]
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.maximum_version = version
        with socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS) as plain:
            context.wrap_socket(plain, server_hostname="web.example").close()
    file.write_text(file.read_text() + (tmp_path / "crt").read_text() * 4)
    said = subprocess.run([str(MUSTER), "coordinator", "--data", str(tmp_path / "other"), "--rpc", "tcp://127.0.0.1:0", "--http", "off", "--tls", str(file)], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert said.returncode in (2, 3) and "more than 4 certificates" in said.stderr, said


def test_m4_slow_handshakes_are_held_to_a_deadline_and_leave_room(make_remote):
    """A handshake that is not gone on with, and connections that say nothing, from one address; another one is served."""
    remote = make_remote()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    hello = context.wrap_bio(ssl.MemoryBIO(), out)
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    hello = out.read()
    sockets = []
    trust = remote.trust()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        for i in range(2200):
            sock = socket.create_connection((HERE, port_of(remote)), timeout=HANG_SECONDS, source_address=(THERE, 0))
            sock.sendall(hello[:[0, 1, 7, len(hello) - 1][i % 4]])
            sockets.append(sock)
            if i % 500 == 499:
                assert ask(remote, b"GET /healthz HTTP/1.1\nHost: localhost", context=trust) == 200, f"with {i + 1} of them"
        for sock in sockets:
            sock.settimeout(HANG_SECONDS)
            try:
                assert sock.recv(10) == b""
            except ConnectionResetError:
                pass
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ask(remote, b"GET /healthz HTTP/1.1\nHost: localhost", context=trust) == 200


@pytest.mark.parametrize("head", [
    b"POST /v1/plan HTTP/1.1\nHost: localhost\nContent-Length: 2\nContent-Length: 2",
    b"POST /v1/plan HTTP/1.1\nHost: localhost\nContent-Length: 2\nTransfer-Encoding: chunked",
    b"GET /healthz HTTP/1.1\nHost: localhost\nHost: localhost",
    b"GET /healthz%00 HTTP/1.1\nHost: localhost",
    b"GET /healthz HTTP/1.1\nHost: localhost\nX y: z",
    b"GET /healthz HTTP/1.1\nHost: localhost\nX: a\0b",
    b"GET /healthz HTTP/1.1\nHost: localhost\n\0\nX: y",
    b"GET /healthz\0x HTTP/1.1\nHost: localhost",
])
def test_m16_requests_that_may_be_read_in_two_ways_are_refused_behind_tls(make_remote, head):
    assert ask(make_remote(), head, b"{}") == 400
