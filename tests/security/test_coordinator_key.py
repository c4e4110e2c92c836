"""C3: who answers at the coordinator's port is not the coordinator unless it proves the cluster's key."""
import socket
import ssl
import subprocess
import threading
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for

GREETING = b"\0SP\0\0\x31\0\0"


class Impostor:
    """Listens where the coordinator did, and keeps what comes. With `keys` it speaks TLS, else it greets as before TLS."""

    def __init__(self, address, keys=None):
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        self.seen, self.connections, self.ended = b"", 0, False
        self.context = None
        if keys:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(keys)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, int(port)))
        self.socket.listen(16)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            try:
                connection.settimeout(2)
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                connection.sendall(GREETING)
                while more := connection.recv(65536):
                    self.seen += more
            except OSError:
                pass
            connection.close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.mark.parametrize("tls", [False, True])
def test_c3_whoever_takes_the_port_gets_no_token_and_gives_no_orders(cluster, tmp_path, tls):
    job = cluster.submit("--", "/bin/sleep", "300")
    pid = int(cluster.wait_state(job, "running")["workers"][0]["pid"])
    keys = None
    if tls:
        subprocess.run([str(MUSTER), "tls", "init", "--data", str(tmp_path / "theirs")], check=True, capture_output=True)
        keys = tmp_path / "theirs" / "server.pem"
    secrets = [(cluster.data / f"{role}.token").read_text().split(".")[0].encode() for role in ("agent", "admin")]
    cluster.kill_coordinator()
    impostor = Impostor(cluster.rpc, keys)
    try:
        wait_for("the agent to come", 30, lambda: impostor.connections >= 3)
        said = cluster.muster("ps")
        assert said.returncode == 3, said
        assert ("is not a coordinator" if not tls else "not the coordinator that is known") in said.stderr, said.stderr
    finally:
        impostor.close()
    assert not any(secret in impostor.seen for secret in secrets), impostor.seen[:200]
    if tls:
        assert impostor.seen == b"", impostor.seen[:200]
    cluster.start_coordinator()
    cluster.wait_state(job, "running")
    wait_for("its worker to be the same", 30, lambda: int(cluster.job(job)["workers"][0]["pid"]) == pid)
    assert cluster.job(job)["restarts"] == 0


def test_c3_tokens_of_another_cluster_are_sent_nowhere(cluster, make_cluster):
    other = make_cluster(nodes=0)
    said = cluster.muster("ps", "--addr", other.rpc, "--token", cluster.token)
    assert said.returncode == 3 and "not the coordinator that is known" in said.stderr, said
    assert cluster.muster("ps", "--addr", other.rpc, "--token", other.token).returncode == 0


def test_a_server_key_is_rotated_while_everything_runs(cluster):
    job = cluster.submit("--", "/bin/sleep", "300")
    cluster.wait_state(job, "running")
    for words in ((), ("--cluster-key",), ("--cluster-key",)):
        shown = subprocess.run([str(MUSTER), "tls", "rotate", "--data", str(cluster.data), *words], check=True, capture_output=True, text=True).stdout
        server = shown.split("server key")[1].split()[0]
        assert len(server) == 43
        wait_for("the new key is shown", 10, lambda: cluster.muster("ps").returncode == 0)
        time.sleep(1.1)  # it looks at the file once a second
        assert cluster.muster("ps").returncode == 0
    assert cluster.job(job)["restarts"] == 0


def test_c3_a_port_that_is_handed_over_is_never_free(cluster, tmp_path):
    """As systemd does with muster-coordinator.socket."""
    cluster.kill_coordinator()
    host, port = cluster.rpc.removeprefix("tcp://").rsplit(":", 1)
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((host, int(port)))
        kept.listen(64)
        with pytest.raises(OSError):
            Impostor(cluster.rpc)
        asks = subprocess.Popen([str(MUSTER), "ps", "-o", "json"], env=cluster.environment(), stdout=subprocess.PIPE, text=True)
        script = f"exec 3<&{kept.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec {MUSTER} coordinator --data {cluster.data} --rpc {cluster.rpc} --http {cluster.http}"
        with open(tmp_path / "log", "wb") as log:
            serving = subprocess.Popen(["/bin/bash", "-c", script], pass_fds=[kept.fileno()], stdout=log, stderr=log)
        try:
            assert "jobs" in asks.communicate(timeout=HANG_SECONDS)[0] and asks.returncode == 0, (tmp_path / "log").read_text()
            wait_for("the node to be back", 30, lambda: cluster.muster("nodes").stdout.count("ready") == 1)
        finally:
            serving.kill()
            serving.wait()


def test_tokens_know_the_new_cluster_key_at_once(cluster):
    subprocess.run([str(MUSTER), "tls", "rotate", "--cluster-key", "--data", str(cluster.data)], check=True, capture_output=True)
    shown = subprocess.run([str(MUSTER), "tls", "show", "--data", str(cluster.data)], check=True, capture_output=True, text=True).stdout
    pin = shown.split("cluster key")[1].split()[0]
    wait_for("the token file to know it", 30, lambda: (cluster.data / "agent.token").read_text().strip().endswith("." + pin))
    made = cluster.muster("token", "create", "later", "--role", "agent")
    assert made.returncode == 0 and "." + pin in made.stdout, made


def test_a_cluster_key_that_tokens_know_alone_is_dropped_by_name_only(cluster):
    """Servers show three cluster keys: who knows only the one before is locked out."""
    def rotate(*words):
        return subprocess.run([str(MUSTER), "tls", "rotate", "--cluster-key", "--data", str(cluster.data), *words], capture_output=True, text=True)

    old = cluster.token
    assert rotate().returncode == 0 and rotate().returncode == 0
    said = rotate()
    assert said.returncode != 0 and "2 tokens made and 1 nodes joined before" in said.stderr and "--drop-oldest" in said.stderr, said
    assert cluster.muster("ps", "--token", old).returncode == 0
    cluster.kill_coordinator()
    said = rotate()
    assert said.returncode != 0 and "does not answer" in said.stderr, said
    cluster.start_coordinator()
    said = rotate("--drop-oldest")
    assert said.returncode == 0 and "2 tokens" in said.stderr, said
    wait_for("the old key to be gone", 10, lambda: "not the coordinator that is known" in cluster.muster("ps", "--token", old).stderr)
    assert cluster.muster("ps").returncode == 0


def test_a_coordinator_that_is_refused_makes_no_keys(cluster, tmp_path):
    before = cluster.muster("ps")
    for name in ("cluster.pem", "server.pem"):
        (cluster.data / name).rename(tmp_path / name)
    second = subprocess.run([str(MUSTER), "coordinator", "--data", str(cluster.data), "--rpc", "tcp://127.0.0.1:0", "--http", "off"], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert second.returncode == 3 and "another coordinator" in second.stderr, second
    assert not (cluster.data / "server.pem").exists() and not (cluster.data / "cluster.pem").exists()
    time.sleep(1.1)  # it looks at the file once a second
    assert cluster.muster("ps").returncode == before.returncode == 0
