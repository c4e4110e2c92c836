"""What the files of doors share: a cluster that lasts for a file, and streams read by hand."""
import os
import time

from localcluster import HANG_SECONDS, Cluster, processes
import http.client


def shared_cluster(tmp_path_factory, slots=1, nodes=1):
    """Tenants red and blue with a member's token each, for all attacks of a file."""
    cluster = Cluster(tmp_path_factory.mktemp("c"))
    try:
        cluster.start_coordinator()
        for i in range(nodes):
            cluster.start_agent(f"node{i + 1}", "--slots", str(slots))
        if nodes:
            cluster.wait_nodes(nodes)
        cluster.tokens = {}
        for tenant in ("red", "blue"):
            cluster.muster("tenant", "create", tenant, check=True)
            cluster.tokens[tenant] = cluster.muster("token", "create", f"{tenant}-ci", "--tenant", tenant, check=True).stdout.strip()
        yield cluster
        assert cluster.coordinator.poll() is None, cluster.log("coordinator.log")[-3000:]
        assert all(agent.poll() is None for agent in cluster.agents.values()), "an agent ended"
    finally:
        cluster.stop()
    end = time.monotonic() + HANG_SECONDS
    while left := [line for pid, (_, line) in processes().items() if str(cluster.folder) in line and pid != os.getpid()]:
        assert time.monotonic() < end, f"left running: {left}"
        time.sleep(0.05)


def sse_lines(cluster, path, token, refused_with=None):
    """Lines of a stream that is open when this returns, until the other end closes it; None: it was refused so."""
    connection = http.client.HTTPConnection(cluster.http, timeout=HANG_SECONDS)
    connection.request("GET", path, headers={"Accept": "text/event-stream", "Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    if answer.status == refused_with:
        return None
    assert answer.status == 200, answer.read()

    def lines():
        while line := answer.readline():
            yield line.decode()
        connection.close()
    return lines()
