"""The peer: torch.distributed's gloo, two ranks over loopback, the same sizes and rounds as ours."""
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist

ROUNDS, ROUND_S, CALLS_MAX = 3, 0.02, 5000


def be_rank(rank, world, port, sizes):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= world:
        os.sched_setaffinity(0, {cores[rank]})
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    for size in sizes:
        data = torch.rand(max(1, size // 4)) - 0.5
        keep = data.clone()
        for _ in range(2):
            start = time.perf_counter()
            dist.all_reduce(data)
            took = time.perf_counter() - start
        calls = torch.tensor([min(CALLS_MAX, int(ROUND_S / took) + 1)])
        dist.broadcast(calls, 0)
        rounds = []
        for _ in range(ROUNDS):
            data.copy_(keep)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(int(calls)):
                dist.all_reduce(data)
            rounds.append((time.perf_counter() - start) / int(calls))
        if rank == 0:
            print(json.dumps({"who": "gloo", "bytes": size, "us": statistics.median(rounds) * 1e6}), flush=True)
    dist.destroy_process_group()


def main():
    world, sizes = int(sys.argv[1]), [int(s) for s in sys.argv[2:]]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    children = []
    for rank in range(1, world):
        pid = os.fork()
        if pid == 0:
            be_rank(rank, world, port, sizes)
            os._exit(0)
        children.append(pid)
    be_rank(0, world, port, sizes)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
