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
PATTERN_COUNT, REWRITTEN_BYTES_MIN = 4096, 16 << 10  # as in values.h


def values(count, rank):
    """values.h"""
    x = (torch.arange(count, dtype=torch.int64) * 2654435761 + (rank + 1) * 40503) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    return x.to(torch.float32) / 4294967296.0 - 0.5


def digest(data):
    bits = data.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    places = torch.arange(len(data), dtype=torch.int64) * 2 + 1
    return int((bits * places).sum()) & (2**63 - 1)


def time_round(data, pattern, calls, writes, reduces):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        if writes:
            data.view(-1, len(pattern)).copy_(pattern)
        if reduces:
            dist.all_reduce(data)
    return (time.perf_counter() - start) / calls


def report(who, size, seconds):
    print(json.dumps({"who": who, "bytes": size, "us": statistics.median(seconds) * 1e6}), flush=True)


def time_size(rank, size):
    keep = values(max(1, size // 4), rank)
    pattern = keep[:PATTERN_COUNT].clone()
    data = keep.clone()
    dist.all_reduce(data)
    if rank == 0:
        print(json.dumps({"who": "gloo", "bytes": size, "digest": digest(data)}), flush=True)
    for _ in range(2):
        start = time.perf_counter()
        dist.all_reduce(data)
        took = time.perf_counter() - start
    calls = torch.tensor([min(CALLS_MAX, int(ROUND_S / took) + 1)])
    dist.broadcast(calls, 0)
    calls = int(calls)
    again, rewritten = [], []
    for _ in range(ROUNDS):
        data.copy_(keep)
        again.append(time_round(data, pattern, calls, False, True))
        if size >= REWRITTEN_BYTES_MIN:
            both = time_round(data, pattern, calls, True, True)
            rewritten.append(both - time_round(data, pattern, calls, True, False))
    if rank == 0:
        report("gloo", size, again)
        if rewritten:
            report("gloo, rewritten", size, rewritten)


def be_rank(rank, world, port, sizes):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= world:
        os.sched_setaffinity(0, {cores[rank]})
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    for size in sizes:
        time_size(rank, size)
    dist.barrier()


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
    sys.stdout.flush()
    os._exit(0)  # not destroy_process_group(): with real-time priority one in three runs never returned from it


if __name__ == "__main__":
    main()
