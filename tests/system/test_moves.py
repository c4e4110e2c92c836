"""A gang that has to leave a node, though nothing has failed: whoever drains, scales down or needs
the slots for another job, no step is lost and every sample is used once, under every strategy.

The loss of each step is compared with that of a run that nobody disturbed: a batch left out or
used twice shows in it at once. A training waits at its gate until all has happened that is to.
"""
import re

import pytest
from localcluster import HANG_SECONDS, wait_for
from test_training import gated, gpt, losses, reach, text  # noqa: F401 (a fixture)

STRATEGIES = ["ddp", "zero1", "zero2", "fsdp"]
GATE, STEPS = 40, 200


@pytest.fixture(scope="module")
def expected(request, tmp_path_factory, text):  # noqa: F811
    """The curve of a run that nobody disturbed."""
    from localcluster import Cluster
    cluster = Cluster(tmp_path_factory.mktemp("c"))
    try:
        cluster.start_coordinator()
        cluster.start_agent("node1", "--slots", "1")
        cluster.wait_nodes(1)
        job = cluster.submit("--", *gpt(text, STEPS))
        cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
        return losses(cluster, job)
    finally:
        cluster.stop()


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


def program(text, gate, *starter):  # noqa: F811
    return gated(text, gate, GATE, STEPS, starter=starter)


def node_of(cluster, job, rank):
    return next(w["node"] for w in cluster.job(job)["workers"] if int(w.get("rank") or 0) == rank and w["state"] != "exited")


def settled(cluster, job, world):
    def there():
        now = cluster.job(job)
        return now if now["state"] == "running" and int(now["world"]) == world and int(now["generation"]) > 1 else None
    return wait_for(f"{job} to go on with {world}", 20, there)


def check_nothing_lost(cluster, job, expected):
    ended = cluster.wait_state(job, "succeeded", seconds=HANG_SECONDS)
    log = cluster.output(job)
    assert int(ended["step"]) == STEPS and int(ended["restarts"]) == 0, ended
    assert "going back to the last checkpoint" not in log and "no checkpoint of step" not in log, log[-3000:]
    curve = losses(cluster, job, every_step=True)
    assert set(curve) == set(range(1, STEPS + 1)), sorted(set(range(1, STEPS + 1)) - set(curve))[:20]
    worst = max(abs(curve[s] - expected[s]) for s in curve)
    assert worst < 5e-3, f"the curve left that of an undisturbed run by {worst}"
    return log


def check_in_place(cluster, job, expected, pid):
    """Those that stayed are the processes they were, and took up the very step they were at."""
    log = check_nothing_lost(cluster, job, expected)
    steps = [int(s) for s in re.findall(r"generation 2: rank \d of \d, step (\d+)", log)]
    assert steps and len(set(steps)) == 1 and "it was at" not in log and "resumed from" not in log, log[-3000:]
    assert not [line for line in cluster.muster("events", job).stdout.splitlines() if " restart " in line]
    assert pid in [int(w["pid"]) for w in cluster.job(job)["workers"]]
    return steps[0]


@pytest.mark.parametrize("rank", [1, 0])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_drained_node_of_a_gang_costs_no_step(make_cluster, text, expected, gate, strategy, rank):  # noqa: F811
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "1-2", "--set", f"strategy={strategy}", *program(text, gate))
    now = reach(cluster, job, GATE)
    stays = next(int(w["pid"]) for w in now["workers"] if int(w.get("rank") or 0) != rank)
    cluster.muster("drain", node_of(cluster, job, rank), check=True)
    settled(cluster, job, 1)
    gate.touch()
    check_in_place(cluster, job, expected, stays)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_drained_node_is_replaced_by_a_free_one(make_cluster, text, expected, gate, tmp_path, strategy):  # noqa: F811
    """All train on while the new worker starts, which takes until there is a file."""
    cluster, starts = make_cluster(nodes=3, slots=1), tmp_path / "starts"
    starts.touch()
    waits = 'until [ -e "$0" ]; do sleep 0.02; done; exec "$@"'
    job = cluster.submit("-N", "2", "--set", f"strategy={strategy}", *program(text, gate, "/bin/sh", "-c", waits, starts))
    now = reach(cluster, job, GATE)
    starts.unlink()
    stays = next(int(w["pid"]) for w in now["workers"] if int(w.get("rank") or 0) == 0)
    free = (set(cluster.agents) - {w["node"] for w in now["workers"]}).pop()
    cluster.muster("drain", node_of(cluster, job, 1), check=True)
    wait_for("the new worker", 20, lambda: cluster.worker_processes(free))
    beside = reach(cluster, job, int(cluster.job(job)["step"]) + 3)
    assert (int(beside["generation"]), beside["state"]) == (1, "running"), beside
    starts.touch()
    settled(cluster, job, 2)
    gate.touch()
    check_in_place(cluster, job, expected, stays)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_that_is_scaled_down_goes_on_where_it_was(make_cluster, text, expected, gate, strategy):  # noqa: F811
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "1-2", "--set", f"strategy={strategy}", *program(text, gate))
    now = reach(cluster, job, GATE)
    stays = next(int(w["pid"]) for w in now["workers"] if int(w.get("rank") or 0) == 0)
    cluster.muster("scale", job, "1", check=True)
    settled(cluster, job, 1)
    gate.touch()
    check_in_place(cluster, job, expected, stays)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gang_that_gives_a_node_to_another_job_goes_on_where_it_was(make_cluster, text, expected, gate, strategy):  # noqa: F811
    cluster = make_cluster(nodes=2, slots=1)
    job = cluster.submit("-N", "1-2", "--priority", "low", "--set", f"strategy={strategy}", *program(text, gate))
    now = reach(cluster, job, GATE)
    first = cluster.submit("--priority", "high", "--", "/bin/sleep", "1000")
    cluster.wait_state(first, "running", seconds=20)
    now = settled(cluster, job, 1)
    gate.touch()
    check_in_place(cluster, job, expected, int(now["workers"][0]["pid"]))


@pytest.mark.parametrize("nodes, elastic", [(1, "in_place"), (2, "in_place"), (2, "restart")])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gang_of_which_nobody_can_stay_saves_before_it_moves(make_cluster, text, expected, gate, tmp_path, strategy, nodes, elastic):  # noqa: F811
    cluster = make_cluster(nodes=nodes + 1 if elastic == "restart" or nodes == 1 else nodes, slots=1)
    job = cluster.submit("-N", nodes, "--elastic", elastic, "--set", f"strategy={strategy}", "--checkpoint", tmp_path / "k",
                         "--checkpoint-every", "1000000 steps", *program(text, gate))
    reach(cluster, job, GATE)
    victim = node_of(cluster, job, nodes - 1)
    cluster.muster("drain", victim, check=True)
    wait_for("the node is emptied", 20, lambda: not cluster.worker_processes(victim))
    gate.touch()
    if nodes == 2 and elastic == "in_place":
        # Rank 0 saves for all under ddp, and is at it when rank 1 has left.
        wait_for("the whole gang to end", 20, lambda: not any(map(cluster.worker_processes, cluster.agents)))
        assert cluster.wait_state(job, "restarting")["last_checkpoint"]
        cluster.muster("uncordon", victim, check=True)
    log = check_nothing_lost(cluster, job, expected)
    saved = {int(s) for s in re.findall(r"asked to stop after step (\d+)", log)}
    resumed = {int(s) for s in re.findall(r"resumed from step (\d+)", log)}
    assert saved == resumed and len(saved) == 1 and min(saved) >= GATE, (saved, resumed)
