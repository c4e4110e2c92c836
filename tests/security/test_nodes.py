"""C1: who has an agent's token is not every node: a node is who has its key."""
import json
import re
import signal
import subprocess
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for
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


def test_refused_nodes_do_not_fill_the_log(cluster, thief):
    token, keys = thief
    job, worker = running(cluster)
    asked = 500

    def lines():
        return [line for line in cluster.log("coordinator.log").splitlines() if "a node may not join" in line]

    began = time.monotonic()
    with Peer(cluster.rpc, keys=keys) as peer:
        for n in range(asked):
            assert peer.call("Nodes.RegisterNode", registration(worker["node"], 1000 + n), token=token)[0] == "PERMISSION_DENIED"
        most = time.monotonic() - began + 1
        assert 1 <= len(lines()) <= most, (len(lines()), most)
        time.sleep(1.1)
        assert peer.call("Nodes.RegisterNode", registration(worker["node"], 9000), token=token)[0] == "PERMISSION_DENIED"
    told = [int(re.search(r"others_since_the_last_line\W+(\d+)", line)[1]) for line in lines()]
    assert sum(told) + len(told) == asked + 1, told
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
        said = token.exists() and subprocess.run([str(MUSTER), "nodes", "--addr", url, "--token", token.read_text().strip()], capture_output=True, text=True, timeout=HANG_SECONDS)
        return said and said.returncode == 0 and said.stdout

    started = [subprocess.Popen([str(MUSTER), "coordinator", "--data", str(data), "--rpc", url, "--http", "off"])]
    try:
        wait_for("the coordinator", 30, nodes)
        for name in ("stranger", "n1"):
            token = ["--token-file", str(data / "agent.token")] if name == "n1" else ["--token", (data / "admin.token").read_text().strip()]
            started.append(subprocess.Popen([str(MUSTER), "agent", "--data", str(tmp_path / name), "--name", name, "--coordinator", url, "--slots", "1", "--allow-root-workers", *token]))
        wait_for("the node", 30, lambda: "n1" in nodes())
        assert started[1].wait(HANG_SECONDS) == 77 and "stranger" not in nodes()
    finally:
        for process in started:
            process.terminate()
            process.wait(HANG_SECONDS)


def test_an_agent_that_is_refused_for_its_key_says_so(cluster, tmp_path):
    name = next(iter(cluster.agents))
    command = [str(MUSTER), "agent", "--data", str(tmp_path / "other"), "--name", name, "--coordinator", cluster.rpc, "--slots", "1",
               "--allow-root-workers", "--token-file", str(cluster.data / "agent.token")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert said.returncode == 77 and f"muster rekey {name}" in said.stderr and "token" not in said.stderr, said.stderr


def join_token(cluster, uses):
    return cluster.muster("token", "create", "racks", "--role", "agent", "--expires", "1d", "--uses", str(uses), check=True).stdout.strip()


def uses_left(cluster):
    token = next(t for t in json.loads(cluster.muster("token", "list", "-o", "json", check=True).stdout)["tokens"] if t["name"] == "racks")
    return int(token["uses_max"]) - int(token.get("uses", 0))


def agent_of(cluster, tmp_path, folder, name, token):
    log = open(tmp_path / f"{folder}.log", "ab")
    try:
        return subprocess.Popen([str(MUSTER), "agent", "--data", str(tmp_path / folder), "--name", name, "--coordinator", cluster.rpc, "--slots", "1",
                                 "--allow-root-workers", "--token", token], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    finally:
        log.close()


def node_states(cluster):
    return {node["name"]: node["state"] for node in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]}


def ready(cluster, name):
    wait_for(f"{name} to be ready", 60, lambda: node_states(cluster).get(name) == "ready")


def ends_refused(agent, log, *words):
    """77 is its end; what it said is in its log."""
    assert agent.wait(HANG_SECONDS) == 77, log.read_text()
    said = log.read_text()
    assert all(word in said for word in words), said


@pytest.fixture
def agents():
    started = []
    yield started
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        process.wait(HANG_SECONDS)


def test_a_counted_token_lets_in_no_more_nodes_than_it_says(cluster, tmp_path, agents):
    token = join_token(cluster, 2)
    for name in ("rack1", "rack2"):
        agents.append(agent_of(cluster, tmp_path, name, name, token))
        ready(cluster, name)
    assert uses_left(cluster) == 0 and "0 of 2" in cluster.muster("token", "list").stdout
    third = agent_of(cluster, tmp_path, "rack3", "rack3", token)
    agents.append(third)
    ends_refused(third, tmp_path / "rack3.log", "none is left", "muster token create")
    assert "rack3" not in node_states(cluster)
    agents[0].terminate()
    agents[0].wait(HANG_SECONDS)
    cluster.kill_coordinator()
    cluster.start_coordinator()
    agents.append(agent_of(cluster, tmp_path, "rack1", "rack1", token))  # its key lets it in
    ready(cluster, "rack1")
    assert uses_left(cluster) == 0
    said = cluster.muster("events", "--audit", "-o", "json", check=True).stdout
    assert "token racks lets in (of 2)" in said and "lets 2 nodes in" in said


def test_a_registration_that_is_repeated_is_one_use(cluster, thief):
    token, (_, keys) = join_token(cluster, 3).split(".")[0], thief
    with Peer(cluster.rpc, keys=keys) as peer:
        for _ in range(5):  # as after answers that were lost
            assert peer.call("Nodes.RegisterNode", registration("rack1", 1001), token=token)[0] == "OK"
        assert peer.call("Nodes.RegisterNode", registration("rack1", 1002), token=token)[0] == "OK"  # the agent anew
        assert peer.call("Nodes.RegisterNode", registration(".bad", 7), token=token)[0] != "OK"
    assert uses_left(cluster) == 2
    cluster.kill_coordinator()
    cluster.start_coordinator()
    with Peer(cluster.rpc, keys=keys) as peer:
        assert peer.call("Nodes.RegisterNode", registration("rack1", 1003), token=token)[0] == "OK"
    assert uses_left(cluster) == 2


def test_uses_are_for_agents_tokens_only(cluster):
    for role, uses in (("member", "3"), ("admin", "3")):
        said = cluster.muster("token", "create", "x", "--role", role, "--uses", uses, *(("--tenant", "default") if role == "member" else ()))
        assert said.returncode != 0 and "uses" in said.stderr, said
    assert cluster.muster("token", "create", "x", "--role", "agent", "--uses", "0").returncode == 2


def test_after_rekey_the_old_agent_that_runs_loses_and_another_key_wins(cluster, tmp_path, agents):
    name, token = "rack1", join_token(cluster, 10)
    old = agent_of(cluster, tmp_path, "old", name, token)
    agents.append(old)
    ready(cluster, name)
    assert cluster.muster("rekey", name).returncode == 0
    assert old.wait(HANG_SECONDS) == 75  # before any other asks for the name; systemd starts it again:
    again = agent_of(cluster, tmp_path, "old", name, token)
    agents.append(again)
    ends_refused(again, tmp_path / "old.log", f"muster rekey {name}")
    agents.append(agent_of(cluster, tmp_path, "new", name, token))
    ready(cluster, name)
    third = agent_of(cluster, tmp_path, "old", name, token)
    agents.append(third)
    assert third.wait(HANG_SECONDS) == 77 and uses_left(cluster) == 8
    ready(cluster, name)


def test_after_rekey_another_key_wins_also_where_it_comes_before_the_old_agent(cluster, tmp_path, agents):
    name, token = "rack1", join_token(cluster, 10)
    old = agent_of(cluster, tmp_path, "old", name, token)
    agents.append(old)
    ready(cluster, name)
    old.send_signal(signal.SIGSTOP)
    assert cluster.muster("rekey", name).returncode == 0
    new = agent_of(cluster, tmp_path, "new", name, token)
    agents.append(new)
    wait_for("the new one to be in", 60, lambda: uses_left(cluster) == 8)
    ready(cluster, name)
    old.send_signal(signal.SIGCONT)
    assert old.wait(HANG_SECONDS) == 75
    cluster.kill_coordinator()  # what is refused is remembered
    cluster.start_coordinator()
    again = agent_of(cluster, tmp_path, "old", name, token)
    agents.append(again)
    ends_refused(again, tmp_path / "old.log", f"muster rekey {name}")
    ready(cluster, name)
    assert new.poll() is None


def test_a_name_that_is_rekeyed_twice_goes_back_to_neither_key(cluster, tmp_path):
    keys, token = [], join_token(cluster, 10).split(".")[0]
    for folder in ("a", "b", "c"):
        subprocess.run([str(MUSTER), "tls", "init", "--data", str(tmp_path / folder)], check=True, capture_output=True)
        keys.append(tmp_path / folder / "server.pem")
    for number, key in enumerate(keys):
        with Peer(cluster.rpc, keys=key) as peer:
            assert peer.call("Nodes.RegisterNode", registration("rack1", 2000 + number), token=token)[0] == "OK"
        assert cluster.muster("rekey", "rack1").returncode == 0
        for earlier, old in enumerate(keys[:number + 1]):
            with Peer(cluster.rpc, keys=old) as peer:
                assert peer.call("Nodes.RegisterNode", registration("rack1", 3000 + 10 * number + earlier), token=token)[0] == "PERMISSION_DENIED"
