#!/usr/bin/python3
"""Weak scaling of training: one rank against two with twice the batch, a core for each rank, turns
alternating in one run, and against two trainings at once that have nothing to do with each other:
what the machine itself takes for using both cores, and so the roof. Says where a step's time goes by
the step profile of rank 0. Under root ranks run at the highest ordinary priority, so that other work
on the machine is measured less.

    run.py [--rounds N] [--strategy NAME] [PROGRAM...]

With several builds of bench_scaling each is measured against the first one's single ranks: how a
change is compared with what was before it.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("MUSTER_BUILD", HERE.parent.parent / "build-release"))
PHASES = ["data", "forward", "backward", "exposed", "optimizer", "checkpoint"]
ROUNDS, WARM, TOKENS = 9, 1, 4 * 256
FLOOR, TARGET = 0.90, 0.96


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def priority():
    return ["nice", "-n", "-20"] if os.geteuid() == 0 else []


def pinned(core):
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


class Group:
    """Processes that take a turn together: the ranks of one training, or `apart` one training each."""

    def __init__(self, program, count, strategy, apart=False):
        port = str(free_port())
        cores = sorted(os.sched_getaffinity(0))
        self.turns = []
        self.ranks = []
        for rank in range(count):
            place = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} if not apart else {}
            environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1",
                               MUSTER_STRATEGY=strategy, **place)
            environment.pop("OPENBLAS_CORETYPE", None)
            command = priority() + pinned(cores[rank % len(cores)]) + [str(program)]
            self.ranks.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               text=True, env=environment))
        for rank in self.ranks:
            if rank.stdout.readline() != "ready\n":
                raise SystemExit("bench scaling: a rank does not start")

    def turn(self):
        for rank in self.ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        lines = [[float(word) for word in rank.stdout.readline().split()] for rank in self.ranks]
        if any(line[-1] != lines[0][-1] for line in lines):
            raise SystemExit(f"bench scaling: the ranks' losses differ: {lines}")
        self.turns.append([max(line[0] for line in lines), *lines[0][1:]])

    def column(self, index):
        return statistics.median(turn[index] for turn in self.turns[WARM:])

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(timeout=60)


def throughput(metric, ours, peer, peer_name, limits):
    """Turns lie side by side in time, so the ratio is the median of their ratios."""
    ratios = [a[0] / b[0] for a, b in zip(peer.turns[WARM:], ours.turns[WARM:])]
    print(json.dumps({"bench": "scaling", "metric": metric,
                      "ours": round(len(ours.ranks) * TOKENS / ours.column(0) * 1e3),
                      "peer": round(len(peer.ranks) * TOKENS / peer.column(0) * 1e3), "peer_name": peer_name,
                      "ratio": round(statistics.median(ratios), 3),
                      "unit": "token/s", **limits}), flush=True)


def phases(name, group):
    print(json.dumps({"bench": "scaling", "metric": f"milliseconds of a step, {name}", "unit": "ms",
                      "ours": round(group.column(0), 2),
                      **{phase: round(group.column(1 + i), 2) for i, phase in enumerate(PHASES)},
                      "collectives_in_place": int(group.turns[-1][7])}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("programs", nargs="*", default=[str(BUILD / "bench" / "bench_scaling")])
    chosen = parser.parse_args()
    for program in chosen.programs:
        if not Path(program).exists():
            print(f"bench scaling: {program} is not built", file=sys.stderr)
            return 1
    if len(os.sched_getaffinity(0)) < 2:
        print("bench scaling: SKIPPED, two ranks need two cores", file=sys.stderr)
        return 0
    one = Group(chosen.programs[0], 1, "ddp")
    apart = Group(chosen.programs[0], 2, "ddp", apart=True)
    pairs = [Group(program, 2, chosen.strategy) for program in chosen.programs]
    for _ in range(chosen.rounds + WARM):
        for group in [one, *pairs, apart]:
            group.turn()
    limits = {"target": TARGET, "floor": FLOOR}
    phases("one rank", one)
    phases("two trainings at once", apart)
    throughput("two trainings at once, weak", apart, one, "one rank", {})
    for program, pair in zip(chosen.programs, pairs):
        which = f"{chosen.strategy}" + (f", {program}" if len(pairs) > 1 else "")
        phases(f"two ranks, {which}", pair)
        throughput(f"two ranks, weak, {which}", pair, one, "one rank", limits)
        throughput(f"two ranks against the roof, {which}", pair, apart, "two trainings at once", {})
    for group in [one, *pairs, apart]:
        group.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
