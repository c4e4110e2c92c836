"""A caller cannot starve the rest: the doors of the coordinator and of an agent."""
import json
import os
import resource
import select
import socket
import threading
import time
from pathlib import Path

import pytest
from localcluster import wait_for
from wire import Peer, cpu_seconds, number, text

HERE = Path(__file__).resolve().parent
BOMB = b"\x0a\x00" * (2 << 20)  # 4 MiB that unpack to two million empty messages


def token_of(cluster, role, *words):
    return cluster.muster("token", "create", f"{role}{time.monotonic_ns()}", "--role", role, *words, check=True).stdout.split()[0]


@pytest.fixture
def viewer(cluster):
    return token_of(cluster, "viewer", "--tenant", "default")


def node_states(cluster):
    return {node["name"]: node["state"] for node in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]}


def limits(cluster, what="muster_limit_refused_total"):
    status, page = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)
    assert status == 200
    return {line.split('"')[1]: int(line.split()[-1]) for line in page.splitlines() if line.startswith(what + "{")}


def follow_for(cluster, seconds):
    """The node is ready all the time, and administrators are served."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert set(node_states(cluster).values()) == {"ready"}, cluster.log("coordinator.log")[-2000:]
        time.sleep(0.2)


def test_h1_long_polls_of_a_viewer_leave_the_cluster_its_places(cluster, viewer):
    job = cluster.submit("-N", "1", "--slots", "4", "--", "/bin/sleep", "300")
    version = int(cluster.wait_state(job, "running")["version"])
    question = text(1, job) + number(2, version)
    peers = [Peer(cluster.rpc) for _ in range(4)]
    for peer in peers:
        wait = peer.request("Coordinator.WatchJob", question, token=viewer, timeout_ms=600000)
        peer.socket.sendall(wait * 4300)
    follow_for(cluster, 5)  # more than a lease
    wait_for("the most of them to be refused", 5, lambda: limits(cluster)["viewer_calls"] > 16000)
    code, told, _ = Peer(cluster.rpc).call("Coordinator.WatchJob", question, token=viewer)
    assert code == "RESOURCE_EXHAUSTED" and "viewer_calls" in told and "256" in told, (code, told)
    for peer in peers:
        peer.close()
    wait_for("the places are free again", 20, lambda: Peer(cluster.rpc).call("Coordinator.GetJob", text(1, job), token=viewer)[0] == "OK")
    assert cluster.job(job)["restarts"] == 0


def test_h3_a_bad_token_is_refused_before_its_message_is_unpacked(cluster):
    with Peer(cluster.rpc) as peer:
        code, told, _ = peer.call("Coordinator.SubmitJob", b"\xff\xff\xff\xff", token="x")
        assert code == "UNAUTHENTICATED", (code, told)
        code, told, _ = peer.call("Coordinator.Version", b"\x0a\x00" * 4000)
        assert code == "RESOURCE_EXHAUSTED" and "stranger_call_bytes" in told, (code, told)


def test_h3_bombs_of_strangers_cost_no_time(cluster):
    began = cpu_seconds(cluster.coordinator.pid)
    for _ in range(100):
        with Peer(cluster.rpc) as peer:
            try:
                peer.call("Coordinator.ListJobs", BOMB, token="x")
            except OSError:
                pass  # hung up on
    spent = cpu_seconds(cluster.coordinator.pid) - began
    assert spent < 1.5, f"{spent} s for 100 bombs"
    assert set(node_states(cluster).values()) == {"ready"}


def test_h3_bombs_of_viewers_are_refused_by_size(cluster, viewer):
    with Peer(cluster.rpc) as peer:
        assert peer.call("Coordinator.WhoAmI", token=viewer)[0] == "OK"  # else it is hung up on for 2 MiB
        code, told, _ = peer.call("Coordinator.ListJobs", BOMB, token=viewer)
        assert code == "RESOURCE_EXHAUSTED" and "read_call_bytes" in told and str(64 << 10) in told, (code, told)
        code, told, _ = peer.call("Coordinator.Plan", BOMB, token=viewer)
        assert code == "RESOURCE_EXHAUSTED" and "spec_call_bytes" in told, (code, told)


def test_m7_plans_of_one_viewer_do_not_hold_up_the_others(cluster, viewer):
    holds = cluster.submit("--slots", "4", "--", "/bin/sleep", "300")
    cluster.wait_state(holds, "running")
    waits = text(1, text(1, "waits") + text(3, "/bin/true") + text(6, number(1, 4)))
    with Peer(cluster.rpc) as peer:
        for _ in range(10):
            peer.socket.sendall(peer.request("Coordinator.SubmitJob", waits, token=cluster.token) * 300)
            assert {peer.answer()[0] for _ in range(300)} == {"OK"}
    with Peer(cluster.rpc) as attacker, Peer(cluster.rpc) as other:
        plan = attacker.request("Coordinator.Plan", text(1, text(1, "what-if") + text(3, "/bin/true")), token=viewer, timeout_ms=60000)
        attacker.socket.sendall(plan * 600)
        assert other.call("Coordinator.GetJob", text(1, holds), token=cluster.token)[0] == "OK"
        wait_for("the most of them to be refused", 5, lambda: limits(cluster)["plan_calls"] > 500)
        follow_for(cluster, 4)
        answers = [attacker.answer()[0] for _ in range(600)]
        assert set(answers) == {"OK", "RESOURCE_EXHAUSTED"} and answers.count("OK") >= 8, answers
    assert cluster.job(holds)["restarts"] == 0


WORKER = f"""
import json, os, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
from wire import *
hub, token = os.environ["MUSTER_WORKER_SOCKET"], open(os.environ["MUSTER_WORKER_TOKEN_FILE"]).read().strip()
hub = hub if "://" in hub else "ipc://" + hub
me = text(1, os.environ["MUSTER_JOB"]) + number(2, int(os.environ["MUSTER_UID"]))
generation = number(3, int(os.environ["MUSTER_GENERATION"]))
"""


def submit_attack(cluster, code, name):
    return cluster.submit("-n", name, "--", "/usr/bin/python3", "-c", WORKER + code)


def test_h7_board_calls_of_one_worker_leave_the_agent_its_own(cluster):
    other = cluster.submit("-n", "other", "--", "/bin/sleep", "300")
    cluster.wait_state(other, "running")
    attack = submit_attack(cluster, """
peer = Peer(hub)
wait = peer.request("WorkerHub.Board", me + generation + text(4, "never") + number(7, 1), token=token, timeout_ms=600000)
peer.socket.settimeout(None)
threading.Thread(target=peer.socket.sendall, args=(wait * 5000,), daemon=True).start()
codes = [peer.answer()[:2] for _ in range(4900)]
print(json.dumps([sorted({c for c, _ in codes}), codes[-1][1]]), flush=True)
time.sleep(300)
""", "attack")
    cluster.wait_state(attack, "running")
    told = wait_for("the attack is refused", 60, lambda: cluster.muster("logs", attack).stdout.strip())
    assert json.loads(told)[0] == ["RESOURCE_EXHAUSTED"] and "worker_" in told, told
    follow_for(cluster, 6)
    assert cluster.job(other)["restarts"] == 0 and cluster.job(attack)["restarts"] == 0


def hub_of(cluster, name):
    return f"ipc://{next((cluster.folder / 'nodes' / name).glob('*.sock'))}"


def test_l_bombs_of_local_strangers_cost_the_agent_no_time(cluster):
    agent = cluster.agents["node1"]
    began = cpu_seconds(agent.pid)
    for _ in range(100):
        with Peer(hub_of(cluster, "node1")) as peer:
            try:
                assert peer.call("WorkerHub.Progress", BOMB, token="x")[0] in ("UNAUTHENTICATED", "UNAVAILABLE")
            except OSError:
                pass  # hung up on
    spent = cpu_seconds(agent.pid) - began
    assert spent < 1.5, f"{spent} s for 100 bombs"


def half_message(size):
    """The start of a message of 8 MiB, and no more than its first `size` bytes."""
    import struct
    return struct.pack(">Q", 8 << 20) + b"\x80\0\0\1" + bytes(size - 12)


def goes_on(cluster):
    """Submits of 200 kB are taken, and no node is lost."""
    for _ in range(3):
        with Peer(cluster.rpc) as peer:
            spec = text(1, text(1, "large") + text(3, "/bin/true") + text(3, "x" * 100_000) + text(3, "y" * 100_000))
            code, told, _ = peer.call("Coordinator.SubmitJob", spec, token=cluster.token)
            assert code == "OK", (code, told)
    follow_for(cluster, 4)


def test_h2_half_messages_of_strangers_hold_no_memory_of_others(cluster):
    peers = [Peer(cluster.rpc) for _ in range(40)]
    for peer in peers:
        try:
            peer.socket.sendall(half_message((8 << 20) - 1024))
        except OSError:
            pass  # hung up on
    goes_on(cluster)
    for peer in peers:
        peer.close()


def test_h2_half_messages_of_a_viewer_cost_the_viewer(cluster, viewer):
    sizes = [7 << 20] * 24 + [1 << 20] * 4 + [128 << 10] * 16  # the small ones fill what the large ones leave
    peers = [Peer(cluster.rpc) for _ in sizes]
    for peer in peers:
        assert peer.call("Coordinator.WhoAmI", token=viewer)[0] == "OK"
    for peer, size in zip(peers, sizes):
        try:
            peer.socket.sendall(half_message(size))
        except OSError:
            pass
    goes_on(cluster)
    for peer in peers:
        peer.close()


def memory(pid):
    """Bytes in use of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_h9_answers_that_nobody_reads_are_limited_in_sum(cluster, viewer):
    waits = text(1, text(1, "waits") + text(3, "/bin/true") + text(3, "x" * 800) + text(6, number(1, 4)))
    cluster.submit("--slots", "4", "--", "/bin/sleep", "300")
    with Peer(cluster.rpc) as peer:
        for _ in range(4):
            peer.socket.sendall(peer.request("Coordinator.SubmitJob", waits, token=cluster.token) * 300)
            assert {peer.answer()[0] for _ in range(300)} == {"OK"}
        assert peer.call("Coordinator.ListJobs", number(3, 1000), token=cluster.token, timeout_ms=60000)[0] == "OK"  # what it keeps for itself
    before = memory(cluster.coordinator.pid)
    peers = [Peer(cluster.rpc) for _ in range(4)]
    for peer in peers:  # 240 answers of about 600 KiB, as many as one viewer may ask for at once
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.socket.sendall(peer.request("Coordinator.ListJobs", number(3, 1000), token=viewer, timeout_ms=60000) * 60)
    grown, end = 0, time.monotonic() + 12
    while time.monotonic() < end:
        grown = max(grown, memory(cluster.coordinator.pid) - before)
        time.sleep(0.1)
    assert grown < 64 << 20, f"{grown >> 20} MiB for answers of one viewer"
    assert set(node_states(cluster).values()) == {"ready"}
    for peer in peers:
        peer.close()


def ends(peer, seconds):
    """The other end hangs up."""
    peer.socket.settimeout(seconds)
    try:
        while peer.socket.recv(4096):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def test_m5_who_makes_no_good_call_does_not_stay(cluster, viewer):
    silent, asks, good = Peer(cluster.rpc), Peer(cluster.rpc), Peer(cluster.rpc)
    assert asks.call("Coordinator.Version")[0] == "OK"
    assert good.call("Coordinator.WhoAmI", token=viewer)[0] == "OK"
    assert ends(silent, 60) and ends(asks, 60)
    assert good.call("Coordinator.WhoAmI", token=viewer)[0] == "OK"


def test_h3_who_tries_tokens_is_hung_up_on(cluster):
    with Peer(cluster.rpc) as peer:
        codes = []
        with pytest.raises(OSError):
            for _ in range(100):
                codes.append(peer.call("Coordinator.ListJobs", token="x")[0])
        assert set(codes) == {"UNAUTHENTICATED"} and len(codes) <= 8, codes


def keep_connected(cluster, count, over):
    """As many connections as the other end lets stay, without a break: each that ends is followed by another."""
    peers = []
    while not over.is_set():
        gone = set(select.select([peer.socket for peer in peers], [], [], 0)[0])  # nothing is asked for: what can be read is its end
        for peer in peers:
            if peer.socket in gone:
                peer.close()
        peers = [peer for peer in peers if peer.socket not in gone]
        try:
            if len(peers) < count:
                peers.append(Peer(cluster.rpc, timeout=5))
            else:
                over.wait(0.05)
        except OSError:
            pass
    for peer in peers:
        peer.close()


def test_m5_descriptors_are_left_for_agents_rest_and_output(cluster, viewer):
    pid = cluster.coordinator.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (256, 256))
    over, held = threading.Event(), []

    def count():
        while not over.wait(0.02):
            held.append(len(os.listdir(f"/proc/{pid}/fd")))
    attackers = [threading.Thread(target=keep_connected, args=(cluster, 50, over)) for _ in range(8)] + [threading.Thread(target=count)]
    for attacker in attackers:
        attacker.start()
    try:
        wait_for("most of the descriptors to be taken", 30, lambda: max(held, default=0) > 150)
        for _ in range(20):
            assert cluster.rest("GET", "/v1/jobs")[0] == 200
        with Peer(cluster.rpc) as peer:
            assert peer.call("Coordinator.WhoAmI", token=viewer)[0] == "OK"
        job = cluster.submit("--", "/bin/echo", "said")
        cluster.wait_state(job, "succeeded")
        assert "said" in cluster.output(job)
        cluster.agents["node1"].kill()
        cluster.agents["node1"].wait()
        cluster.start_agent("node1")
        cluster.wait_nodes(1)
    finally:
        over.set()
        for attacker in attackers:
            attacker.join()
    assert max(held) < 240, "without a reserve each of the 256 is taken, and whoever comes waits for one to be given back"
