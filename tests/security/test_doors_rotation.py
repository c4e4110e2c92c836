"""Doors of the moment when keys change: what is half written, what two write at once, and who comes meanwhile.

| attack | door | what must hold |
|---|---|---|
| SIGKILL at any moment of a rotation | tls rotate, also --cluster-key | the keys on disk fit together and are private; tokens of before open the door |
| rotations at once | tls rotate, also --cluster-key | the same; no key that was handed out is lost |
| agents that join and return while keys change and the coordinator is killed | tls rotate | each is in, none is refused for good, and work goes on |
| a node whose name is rekeyed while it returns, again and again | rekey | one key has the name at a time, and the other ends |
| a token that is revoked while agents join with it | token revoke | none joins after it; who is in stays |
"""
import fcntl
import os
import signal
import stat
import subprocess
import threading
import time

import pytest
from localcluster import HANG_SECONDS, MUSTER, wait_for
from test_nodes import agent_of, agents, join_token, node_states, ready  # noqa: F401


def rotate(cluster, *words, wait=True):
    process = subprocess.Popen([str(MUSTER), "tls", "rotate", "--data", str(cluster.data), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if wait:
        process.wait(HANG_SECONDS)
    return process


def certificates(path):
    """Those of a file, in order."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return [f"{begin}{part.split(end)[0]}{end}\n" for part in path.read_text().split(begin)[1:]]


def signed(leaf, signer, folder):
    (folder / "leaf.pem").write_text(leaf)
    (folder / "ca.pem").write_text(signer)
    return subprocess.run(["openssl", "verify", "-partial_chain", "-CAfile", str(folder / "ca.pem"), str(folder / "leaf.pem")], capture_output=True).returncode == 0


def fit_together(cluster, folder):
    """The server's certificate is signed by the cluster's key that is stored; nobody else reads either; nothing half is left."""
    server, own = certificates(cluster.data / "server.pem"), certificates(cluster.data / "cluster.pem")
    assert server and own
    assert signed(server[0], own[0], folder)
    for path in cluster.data.glob("*.pem*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    shown = subprocess.run([str(MUSTER), "tls", "show", "--data", str(cluster.data)], check=True, capture_output=True, text=True).stdout
    return shown.split("cluster key")[1].split()[0]


def opens(cluster, token):
    wait_for("the token of before to open the door", 30, lambda: cluster.muster("ps", "--token", token).returncode == 0)


def restarts(cluster):
    cluster.kill_coordinator()
    cluster.start_coordinator()


@pytest.mark.parametrize("words", [(), ("--cluster-key", "--drop-oldest")], ids=["server", "cluster"])
def test_a_rotation_that_is_killed_leaves_keys_that_fit(make_cluster, tmp_path, words):
    cluster = make_cluster(nodes=1)
    began = time.monotonic()
    assert rotate(cluster).returncode == 0
    whole = time.monotonic() - began
    for i in range(16):
        process = rotate(cluster, *words, wait=False)
        time.sleep(whole * (i + 1) / 14)
        process.kill()
        process.communicate()
        shown = certificates(cluster.data / "server.pem")
        assert signed(shown[0], shown[1], tmp_path)
        wait_for("the newest token", 30, lambda: cluster.muster("ps", "--token", (cluster.data / "admin.token").read_text().strip()).returncode == 0)
    assert rotate(cluster).returncode == 0
    fit_together(cluster, tmp_path)
    restarts(cluster)
    opens(cluster, (cluster.data / "admin.token").read_text().strip())
    wait_for("the node", 60, lambda: set(node_states(cluster).values()) <= {"ready", "lost"})


def test_a_rotation_that_was_cut_off_is_gone_on_with(make_cluster, tmp_path):
    """Each that begins anew drops an older key, which nobody was shown another one for."""
    cluster = make_cluster(nodes=0)
    old, before = cluster.token, (cluster.data / "server.pem").read_bytes()
    for _ in range(4):
        assert rotate(cluster, "--cluster-key").returncode == 0
        new = (cluster.data / "server.pem.cut")
        new.write_bytes(before)
        new.chmod(0o600)
        new.rename(cluster.data / "server.pem")  # as it is between the two files
    assert rotate(cluster, "--cluster-key").returncode == 0
    fit_together(cluster, tmp_path)
    restarts(cluster)
    opens(cluster, old)


def test_a_rotation_waits_for_another(make_cluster):
    cluster = make_cluster(nodes=0)
    lock = os.open(cluster.data / "tls.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    process = rotate(cluster, wait=False)
    time.sleep(1)
    assert process.poll() is None
    os.close(lock)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0


def test_rotations_at_once_lose_no_key(make_cluster, tmp_path):
    cluster = make_cluster(nodes=1)
    old = cluster.token
    for round in range(4):
        processes = [rotate(cluster, *(("--cluster-key",) if round == 0 and i < 2 else ()), wait=False) for i in range(6)]
        for process in processes:
            process.communicate(timeout=HANG_SECONDS)
        pin = fit_together(cluster, tmp_path)
        opens(cluster, old)
    wait_for("the token file", 30, lambda: (cluster.data / "agent.token").read_text().strip().endswith("." + pin))
    opens(cluster, (cluster.data / "admin.token").read_text().strip())
    restarts(cluster)
    opens(cluster, old)
    wait_for("the node is back", 60, lambda: node_states(cluster) == {"node1": "ready"})


def test_agents_that_join_and_return_meanwhile_are_in(make_cluster, tmp_path, agents):  # noqa: F811
    cluster = make_cluster(nodes=1)
    job = cluster.submit("--", "/bin/sleep", "600")
    cluster.wait_state(job, "running")
    token, over = join_token(cluster, 20), threading.Event()
    said = []

    def turn():
        while not over.is_set():
            said.append(rotate(cluster).returncode)
    turning = threading.Thread(target=turn)
    turning.start()
    try:
        for number in range(4):
            name = f"rack{number}"
            agents.append(agent_of(cluster, tmp_path, name, name, token))
            if number == 1:
                restarts(cluster)
            agents[0].kill()
            agents[0].wait()
            agents[0] = agent_of(cluster, tmp_path, "rack0", "rack0", token)
        if rotate(cluster, "--cluster-key").returncode == 0:
            agents.append(agent_of(cluster, tmp_path, "rack9", "rack9", token))  # by a token that knows the key of before
    finally:
        over.set()
        turning.join()
    assert len(said) > 1 and set(said) == {0}, said
    for name in ("rack0", "rack1", "rack2", "rack3", "rack9"):
        ready(cluster, name)
    assert all(agent.poll() is None for agent in agents)
    assert cluster.job(job)["restarts"] == 0 and cluster.job(job)["state"] == "running"


def test_a_name_that_changes_hands_while_its_agent_returns_has_one_key(cluster, tmp_path, agents):  # noqa: F811
    name, token = "rack1", join_token(cluster, 50)
    agents.append(agent_of(cluster, tmp_path, "first", name, token))
    ready(cluster, name)
    for turn in range(3):
        old, folder = agents[-1], f"owner{turn}"
        old.send_signal(signal.SIGSTOP)
        assert cluster.muster("rekey", name).returncode == 0
        agents.append(agent_of(cluster, tmp_path, folder, name, token))
        old.send_signal(signal.SIGCONT)
        if turn == 1:
            restarts(cluster)
        assert old.wait(HANG_SECONDS) in (75, 77)
        ready(cluster, name)
        assert agents[-1].poll() is None
    entries = [one for one in cluster.rest("GET", "/v1/audit?limit=1000")[1]["entries"] if one["object"] == name and one["method"] == "SetNode"]
    assert len(entries) == 3


def test_no_agent_joins_by_a_token_after_its_end(cluster, tmp_path, agents):  # noqa: F811
    token = join_token(cluster, 50)
    for number in range(6):
        agents.append(agent_of(cluster, tmp_path, f"rack{number}", f"rack{number}", token))
    listed = [one["name"] for one in cluster.rest("GET", "/v1/tokens")[1]["tokens"] if one.get("uses_max") in (50, "50")]
    assert len(listed) == 1 and cluster.muster("token", "revoke", listed[0]).returncode == 0
    there = set(node_states(cluster))
    for agent in agents:  # each is in, or ends refused
        wait_for("an end or a place", 60, lambda: agent.poll() == 77 or set(node_states(cluster)) >= {f"rack{agents.index(agent)}"})
    assert {name for name in node_states(cluster) if name.startswith("rack")} == {name for name in there if name.startswith("rack")}
    late = agent_of(cluster, tmp_path, "late", "late", token)
    agents.append(late)
    assert late.wait(HANG_SECONDS) == 77 and "late" not in node_states(cluster)
    for name in there:
        ready(cluster, name)
