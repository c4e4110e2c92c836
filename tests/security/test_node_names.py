"""Ever new names of nodes: whoever has a join token fills the cluster with nodes that come and go.

| attack | door | what must hold |
|---|---|---|
| nodes that join and fall silent | RegisterNode | they are forgotten; living nodes and what an administrator set stay |
| the key of a forgotten node | RegisterNode, Poll, Report | it opens nothing without a token |
| all places taken by one token | RegisterNode | another token still lets a node in |
"""
import json
import subprocess
import time

from localcluster import MUSTER, wait_for
from wire import Peer, number, text

SHARE = 10000  # token_nodes of common/base/limits.h


def registration(name, incarnation=1001):
    return text(1, name) + number(2, incarnation) + text(3, "127.0.0.1") + number(4, 1) + number(11, 21000) + number(12, 21999)


def new_key(folder):
    subprocess.run([str(MUSTER), "tls", "init", "--data", str(folder)], check=True, capture_output=True)
    return folder / "server.pem"


def states(cluster):
    return {node["name"]: node["state"] for node in json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]}


def test_nodes_that_come_and_go_are_forgotten_and_their_keys_open_nothing(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0, coordinator=False)
    cluster.start_coordinator(extra=("--keep-nodes-for", "4s"))
    cluster.start_agent("living")
    cluster.wait_nodes(1)
    token = cluster.muster("token", "create", "stolen", "--role", "agent", check=True).stdout.split()[0].split(".")[0]
    keys = {f"junk{i}": new_key(tmp_path / f"junk{i}") for i in range(8)}
    version = cluster.rest("GET", "/v1/nodes")[1]["version"]
    for name, key in reversed(keys.items()):
        with Peer(cluster.rpc, keys=key) as peer:
            assert peer.call("Nodes.RegisterNode", registration(name), token=token)[0] == "OK"
        assert name in states(cluster)
    cluster.muster("rekey", "junk1", check=True)
    with Peer(cluster.rpc, keys=keys["junk0"], timeout=120) as peer:
        assert peer.call("Nodes.RegisterNode", registration("junk0"))[0] == "OK", "a key that is known needs no token"
        wait_for("the silent ones are forgotten", 80, lambda: set(states(cluster)) == {"living", "junk1"}, every=0.5)
        for method, message in (("RegisterNode", registration("junk0")), ("Poll", text(1, "junk0") + number(2, 1001)), ("Report", text(1, "junk0") + number(2, 1001) + number(3, 1))):
            assert peer.call("Nodes." + method, message)[0] in ("NOT_FOUND", "UNAUTHENTICATED"), method
    assert states(cluster)["living"] == "ready"
    told = cluster.rest("GET", f"/v1/nodes?since={version}")[1]
    assert set(told["forgotten"]) == set(keys) - {"junk1"} and not told.get("whole"), told
    audit = json.loads(cluster.muster("events", "--audit", "-o", "json", check=True).stdout)["entries"]
    assert {entry["object"] for entry in audit if entry["method"] == "ForgetNode"} == set(keys) - {"junk1"}
    with Peer(cluster.rpc, keys=keys["junk1"]) as peer:
        assert peer.call("Nodes.RegisterNode", registration("junk1", 1002), token=token)[0] != "OK", "`muster rekey` took the name from it"
    with Peer(cluster.rpc, keys=keys["junk2"]) as peer:
        assert peer.call("Nodes.RegisterNode", registration("junk2", 1002), token=token)[0] == "OK", "as a new node"
    cluster.kill_coordinator()
    cluster.start_coordinator(extra=("--keep-nodes-for", "4s"))
    assert set(states(cluster)) == {"living", "junk1", "junk2"}


def test_one_join_token_does_not_take_the_places_of_all(make_cluster):
    """Over a Unix socket, where a connection may register many names: 10,000 keys would take minutes to make."""
    cluster = make_cluster(nodes=0, coordinator=False)
    cluster.rpc = f"ipc://{cluster.folder}/rpc.sock"
    cluster.start_coordinator()
    stolen, other = (cluster.muster("token", "create", name, "--role", "agent", check=True).stdout.split()[0].split(".")[0] for name in ("stolen", "other"))
    with Peer(cluster.rpc) as peer:
        begun = time.monotonic()
        for first in range(0, SHARE, 100):
            for i in range(first, first + 100):
                peer.send("Nodes.RegisterNode", registration(f"junk{i}"), token=stolen)
            assert {peer.answer()[0] for _ in range(100)} == {"OK"}, first
        print(f"{SHARE} nodes in {time.monotonic() - begun:.1f} s")
        code, told, _ = peer.call("Nodes.RegisterNode", registration("one-more"), token=stolen)
        assert code == "RESOURCE_EXHAUSTED" and "token_nodes" in told, (code, told)
        assert peer.call("Nodes.RegisterNode", registration("junk7", 1002), token=stolen)[0] == "OK", "a known node comes back"
        assert peer.call("Nodes.RegisterNode", registration("ours"), token=other)[0] == "OK"
    known = states(cluster)
    assert len(known) == SHARE + 1 and "one-more" not in known and "ours" in known
