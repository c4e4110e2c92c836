#!/usr/bin/python3
"""What Python pays: all-reduces and gathers of objects by muster.Worker beside torch.distributed's gloo, and a report.

Two ranks on this machine hold both sides in one process, reduce the same tensors in turns, and compare the bits before
anything is timed. MUSTER_BENCH_TORCH names the Python of another torch than Debian's. A report is timed beside an agent
that reads, and beside one that does not: then it must not wait either. Its slowest calls are those that the machine interrupted.

    run.py [--rounds N] [--sizes BYTES,...]
"""
import argparse
import json
import os
import pickle
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = Path(os.environ.get("MUSTER_BUILD", ROOT / "build-release"))
SIZES = [8, 4 << 10, 256 << 10, 4 << 20, 32 << 20]
ROUNDS, ROUND_S, REPORTS = 7, 0.03, 20000
TARGETS = {8: 1.5, 4 << 10: 1.5, 256 << 10: 2.0, 4 << 20: 2.0, 32 << 20: 2.0}


def line(metric, ours, peer, unit, name, target=None):
    print(json.dumps({"bench": "python", "metric": metric, "ours": round(ours, 3), "peer": peer and round(peer, 3), "peer_name": name,
                      "ratio": peer and round(peer / ours, 2), "unit": unit, "target": target}), flush=True)


def rank_main(rank, ports, sizes, rounds):
    """One rank; rank 0 prints."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{ports[0]}", rank=rank, world_size=2)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports[1]))
    sys.path.insert(0, str(ROOT / "python"))
    import muster
    worker = muster.Worker()

    def turns(metric, ours, peer, target=None):
        calls = torch.tensor([max(1, min(2000, int(ROUND_S / max(1e-6, timed(peer, 2)))))])
        dist.broadcast(calls, 0)
        times = {ours: [], peer: []}
        for _ in range(rounds):
            for act in (ours, peer):
                dist.barrier()
                times[act].append(timed(act, int(calls)))
        if rank == 0:
            line(metric, statistics.median(times[ours]) * 1e6, statistics.median(times[peer]) * 1e6, "us", f"gloo of torch {torch.__version__}", target)

    for size in sizes:
        keep = torch.randn(max(1, size // 4), generator=torch.Generator().manual_seed(rank))
        mine, theirs = keep.clone(), keep.clone()
        worker.all_reduce(mine)
        dist.all_reduce(theirs)
        assert torch.equal(mine, theirs), f"the sums of {size} bytes differ"
        mine.zero_(), theirs.zero_()
        turns(f"all_reduce of a tensor of {size} bytes", lambda: worker.all_reduce(mine), lambda: dist.all_reduce(theirs), TARGETS.get(size))
    thing = {"rank": rank, "text": "x" * 1000}
    everyone = [None, None]
    dist.all_gather_object(everyone, thing)
    assert worker.gather_object(thing) == everyone
    turns("gather of objects of 1 kB", lambda: worker.gather_object(thing), lambda: dist.all_gather_object(everyone, thing), 2.0)
    worker.close()
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def timed(act, calls):
    start = time.perf_counter()
    for _ in range(calls):
        act()
    return (time.perf_counter() - start) / calls


def ranks(python, sizes, rounds):
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0)), other.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1], other.getsockname()[1]]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "SLURM", "OMPI", "PMI"))}
    environment = {**own, "MUSTER_LIBWORKER": str(BUILD / "libworker.so.0.1"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = pickle.dumps((ports, sizes, rounds)).hex()
    started = [subprocess.Popen([python, __file__, "--rank", str(rank), words], env=environment, stderr=subprocess.DEVNULL if rank else None) for rank in (0, 1)]
    return all([process.wait(timeout=600) == 0 for process in started])


def reports():
    """A report's cost to the program: the median and the slowest of many."""
    sys.path.insert(0, str(ROOT / "python"))
    import muster
    from muster import agent
    for name, reads in (("that reads", True), ("that does not read", False)):
        with tempfile.TemporaryDirectory() as folder:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{folder}/s")
            listener.listen()
            os.environ[agent.SOCKET_VARIABLE] = f"{folder}/s"
            threading.Thread(target=drain, args=(listener, reads), daemon=True).start()
            took = []
            for step in range(REPORTS):
                start = time.perf_counter()
                muster.report(step, loss=0.5)
                took.append(time.perf_counter() - start)
            took.sort()
            line(f"a report to an agent {name}, median", took[len(took) // 2] * 1e6, 1000.0, "us", "the limit of 1 ms", 1.0)
            line(f"a report to an agent {name}, 99 %", took[len(took) * 99 // 100] * 1e6, 1000.0, "us", "the limit of 1 ms")
            agent._agent.forget()
            agent._agent = None
            listener.close()


def drain(listener, reads):
    kept = []
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        kept.append(connection)
        if reads:
            threading.Thread(target=lambda c=connection: all(iter(lambda: c.recv(65536), b"")), daemon=True).start()


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_main(int(sys.argv[2]), *pickle.loads(bytes.fromhex(sys.argv[3])))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in text.split(",")], default=SIZES)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    from torches import torches
    if not (BUILD / "libworker.so.0.1").exists():
        print(f"bench python: {BUILD} has no libworker: ./dev build release", file=sys.stderr)
        return 1
    fine = all([ranks(torch.python, options.sizes, options.rounds) for torch in torches("python")])
    reports()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
