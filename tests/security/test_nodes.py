"""C1: who has an agent's token is not every node: a node is who has its key."""
import subprocess

import pytest
from localcluster import MUSTER, wait_for
from wire import Peer, number, text

OUTPUT = 6  # NodeReport.logs


@pytest.fixture
def thief(cluster, tmp_path):
    """A stolen token of role agent, and a key of its own."""
    subprocess.run([str(MUSTER), "tls", "init", "--data", str(tmp_path / "thief")], check=True, capture_output=True)
    return (cluster.data / "agent.token").read_text().strip().split(".")[0], tmp_path / "thief" / "server.pem"


def registration(name, incarnation):
    return text(1, name) + number(2, incarnation) + text(3, "127.0.0.1") + number(4, 8) + number(11, 21000) + number(12, 21999)


def running(cluster):
    job = cluster.submit("--", "/bin/sleep", "300")
    worker = cluster.wait_state(job, "running")["workers"][0]
    return job, worker


def same(cluster, job, worker):
    now = cluster.job(job)
    return now["state"] == "running" and now["restarts"] == 0 and now["workers"][0]["pid"] == worker["pid"]


def test_c1_a_stolen_token_does_not_take_a_node_over(cluster, thief):
    token, keys = thief
    job, worker = running(cluster)
    with Peer(cluster.rpc, keys=keys) as peer:
        code, told, _ = peer.call("Nodes.RegisterNode", registration(worker["node"], 666), token=token)
        assert code == "PERMISSION_DENIED" and "known by another key" in told, (code, told)
    with Peer(cluster.rpc) as peer:
        code, told, _ = peer.call("Nodes.RegisterNode", registration(worker["node"], 666), token=token)
        assert code == "UNAUTHENTICATED" and "key" in told, (code, told)
    assert cluster.agents[worker["node"]].poll() is None
    assert same(cluster, job, worker)


def test_c1_a_node_speaks_for_itself_only(cluster, thief):
    token, keys = thief
    job, worker = running(cluster)
    uid = int(worker.get("uid", 1))
    lie = text(1, job) + number(2, uid) + number(3, 4) + text(11, number(1, 0))
    line = text(1, job) + number(2, uid) + text(6, text(3, "forged"))
    with Peer(cluster.rpc, keys=keys) as peer:
        assert peer.call("Nodes.Poll", text(1, worker["node"]) + number(2, 1), token=token)[0] == "NOT_FOUND"
        assert peer.call("Nodes.RegisterNode", registration("evil", 666), token=token)[0] == "OK"  # a token lets new nodes join
        for method, message in (("Poll", text(1, worker["node"]) + number(2, 1)),
                                ("Report", text(1, worker["node"]) + number(2, 1) + number(3, 1) + text(4, lie)),
                                ("Board", text(1, job) + number(2, uid) + number(3, 1) + text(8, worker["node"]))):
            code, told, _ = peer.call("Nodes." + method, message, token=token)
            assert code in ("PERMISSION_DENIED", "NOT_FOUND", "INVALID_ARGUMENT", "ABORTED"), (method, code, told)
            assert method != "Report" or "speaks for no other" in told, told
        code, told, _ = peer.call("Nodes.Report", text(1, "evil") + number(2, 666) + number(3, 1) + text(4, lie) + text(OUTPUT, line), token=token)
        assert code in ("OK", "INVALID_ARGUMENT"), (code, told)
        code, told, _ = peer.call("Nodes.RegisterNode", registration("evil-too", 667), token=token)
        assert code == "PERMISSION_DENIED" and "cannot be" in told, (code, told)
    assert same(cluster, job, worker)
    assert "forged" not in cluster.output(job)


def test_a_node_needs_no_token_once_it_is_known(cluster):
    assert cluster.muster("token", "revoke", "agent").returncode == 0
    job, worker = running(cluster)
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("the node to be back", 30, lambda: same(cluster, job, worker))


def test_an_administrator_lets_another_machine_take_a_name(cluster, thief):
    token, keys = thief
    name = next(iter(cluster.agents))
    cluster.kill_node(name)
    with Peer(cluster.rpc, keys=keys) as peer:
        assert peer.call("Nodes.RegisterNode", registration(name, 666), token=token)[0] == "PERMISSION_DENIED"
        assert cluster.muster("rekey", name).returncode == 0
        assert peer.call("Nodes.RegisterNode", registration(name, 666), token=token)[0] == "OK"


def test_a_unix_socket_shows_no_keys_and_the_token_decides(tmp_path):
    url, data = f"ipc://{tmp_path}/s", tmp_path / "c"

    def nodes():
        token = data / "admin.token"
        said = token.exists() and subprocess.run([str(MUSTER), "nodes", "--addr", url, "--token", token.read_text().strip()], capture_output=True, text=True, timeout=60)
        return said and said.returncode == 0 and said.stdout

    started = [subprocess.Popen([str(MUSTER), "coordinator", "--data", str(data), "--rpc", url, "--http", "off"])]
    try:
        wait_for("the coordinator", 30, nodes)
        for name in ("stranger", "n1"):
            token = ["--token-file", str(data / "agent.token")] if name == "n1" else ["--token", (data / "admin.token").read_text().strip()]
            started.append(subprocess.Popen([str(MUSTER), "agent", "--data", str(tmp_path / name), "--name", name, "--coordinator", url, "--slots", "1", "--allow-root-workers", *token]))
        wait_for("the node", 30, lambda: "n1" in nodes())
        assert started[1].wait(60) == 77 and "stranger" not in nodes()
    finally:
        for process in started:
            process.terminate()
            process.wait(60)


def test_an_agent_that_is_refused_for_its_key_says_so(cluster, tmp_path):
    name = next(iter(cluster.agents))
    command = [str(MUSTER), "agent", "--data", str(tmp_path / "other"), "--name", name, "--coordinator", cluster.rpc, "--slots", "1",
               "--allow-root-workers", "--token-file", str(cluster.data / "agent.token")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 77 and f"muster rekey {name}" in said.stderr and "token" not in said.stderr, said.stderr
