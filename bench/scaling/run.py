#!/usr/bin/python3
"""Weak scaling of training: one rank against two with twice the batch, a core for each rank, turns
alternating in one run. Says where a step's time goes by the step profile of rank 0. Under root ranks
run at the highest ordinary priority, so that other work on the machine is measured less.

    run.py [--rounds N] [--strategy NAME] [PROGRAM...]

With several builds of bench_scaling each is measured against the first one's single rank: how a
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
    """The ranks of one training, which take a turn together."""

    def __init__(self, program, world, strategy):
        port = str(free_port())
        cores = sorted(os.sched_getaffinity(0))
        self.turns = []
        self.ranks = []
        for rank in range(world):
            place = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} if world > 1 else {}
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
        self.turns.append(lines[0])

    def column(self, index):
        return statistics.median(turn[index] for turn in self.turns[WARM:])

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(timeout=60)


def report(program, one, two, strategy):
    ratio = one.column(0) / two.column(0)
    print(json.dumps({"bench": "scaling", "metric": f"two ranks vs one, weak, {strategy}",
                      "ours": round(2 * TOKENS / two.column(0) * 1e3),
                      "peer": round(TOKENS / one.column(0) * 1e3), "peer_name": "one rank",
                      "ratio": round(ratio, 3), "unit": "token/s", "target": TARGET, "floor": FLOOR,
                      "program": str(program)}), flush=True)
    for name, group in (("one", one), ("two", two)):
        print(json.dumps({"bench": "scaling", "metric": f"milliseconds of a step, {name}",
                          **{phase: round(group.column(1 + i), 2) for i, phase in enumerate(PHASES)},
                          "step": round(group.column(0), 2), "in_place": group.turns[-1][7]}), flush=True)


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
    pairs = [Group(program, 2, chosen.strategy) for program in chosen.programs]
    for _ in range(chosen.rounds + WARM):
        for group in [one, *pairs]:
            group.turn()
    for program, two in zip(chosen.programs, pairs):
        report(program, one, two, chosen.strategy)
    for group in [one, *pairs]:
        group.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
