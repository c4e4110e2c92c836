#!/usr/bin/python3
"""What Python pays: all-reduces and gathers of objects by muster.Worker beside torch.distributed's gloo, and a report.

Two ranks on this machine hold both sides in one process, reduce the same tensors in turns, and compare the bits before
anything is timed. MUSTER_BENCH_TORCH names the Python of another torch than Debian's. A report is timed beside an agent
that reads, one that is stopped, and one that has gone: it must not wait for any. `--sizes ""` times reports only. Where it
may, the reporting thread is of the class SCHED_FIFO, which no ordinary process keeps from its processor: what is left of
the time is the report's own, waits included.

    run.py [--rounds N] [--sizes BYTES,...] [--reports N]
"""
import argparse
import gc
import json
import os
import pickle
import resource
import signal
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
ROUNDS, ROUND_S, REPORTS = 7, 0.03, 200_000
BATCH, FIFO_PRIORITY = 100, 50
REST_S = 0.003  # between batches of some ms: the kernel stops a class that takes 95 % of a second
TARGETS = {8: 1.5, 4 << 10: 1.5, 256 << 10: 2.0, 4 << 20: 2.0, 32 << 20: 2.0}


def line(metric, ours, peer, unit, name, target=None):
    print(json.dumps({"bench": "python", "metric": metric, "ours": round(ours, 3), "peer": peer and round(peer, 3), "peer_name": name,
                      "ratio": round(peer / ours, 2) if peer and ours else None, "unit": unit, "target": target}), flush=True)


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


def reports(count):
    """A report's cost beside agents that read, that are stopped, and that have gone, by muster.report and by the socket alone; each in
    turns with a control that computes as long and reports nothing. What both have is of the machine, which takes the processor away. A
    call that waits gives it up by itself: the kernel counts those, and time spent waiting is no CPU time of the thread."""
    for way in WAYS:
        for number, name in ((None, "that reads"), (signal.SIGSTOP, "that is stopped"), (signal.SIGKILL, "that has gone")):
            with tempfile.TemporaryDirectory() as folder:
                peer = subprocess.Popen([sys.executable, __file__, "--peer", f"{folder}/s"], stdout=subprocess.PIPE)
                peer.stdout.readline()
                try:
                    done = subprocess.run([sys.executable, __file__, "--reports-to", way, f"{folder}/s", str(peer.pid), str(number or 0), str(count)],
                                          stdout=subprocess.PIPE, check=True, timeout=600)
                finally:
                    peer.kill()
                    peer.wait()
                    peer.stdout.close()
            print_reports(f"by {way} to an agent {name}", count, json.loads(done.stdout))


def print_reports(name, count, seen):
    wall, control = seen["report"], seen["control"]
    for part in ("median", "max"):
        line(f"a report {name}, {part}, {seen['class']}", wall[part], 1000.0, "us", "the limit of 1 ms", 1.0)
    for part in ("99 %", "99.99 %", "max"):
        line(f"a report {name}, {part}, {seen['class']}", wall[part], control[part], "us", "a computation as long")
    line(f"reports {name} over 1 ms, {seen['class']}", seen["over"], seen["control_over"], "count", "computations as long")
    line(f"a report {name}, most CPU time", seen["cpu_max"], 1000.0, "us", "the limit of 1 ms", 1.0)
    line(f"waits in {count} reports {name}", seen["waits"], None, "count", None)


def first_in_line():
    """This thread before all ordinary ones of its processor; the peer keeps the others. What the class is."""
    cores = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except OSError as error:
        print(f"python: no SCHED_FIFO ({error.strerror}): times have what other processes took", file=sys.stderr)
        return "SCHED_OTHER"
    os.sched_setaffinity(0, {cores[-1]})
    return "SCHED_FIFO"


def by_socket(path):
    """As docs/report.md tells programs in any language: one line, which is dropped if it has no room."""
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    peer.setblocking(False)
    dropped = [0]

    def report(step, loss):
        try:
            peer.send(json.dumps({"do": "step", "step": step, "loss": loss}).encode() + b"\n")
        except OSError:  # full, or gone
            dropped[0] += 1
    return report, lambda: dropped[0]


def by_package(path):
    os.environ["MUSTER_REPORT_SOCKET"] = path
    sys.path.insert(0, str(ROOT / "python"))
    import muster
    from muster import agent
    return muster.report, lambda: agent.agent().dropped


WAYS = {"muster.report": by_package, "the socket": by_socket}


def report_main(way, path, peer, number, count):
    """Alone in its process: no other thread takes the interpreter's lock."""
    report, dropped = WAYS[way](path)
    report(0, loss=0.5)
    if number:
        os.kill(peer, number)
        while not dropped():  # now the socket and the queue are full
            report(0, loss=0.5)
    clock, cpu = time.perf_counter_ns, time.thread_time_ns
    gc.disable()
    took, controls, cpu_max, waits = [], [], 0, 0
    length = sorted(timed_ns(clock, lambda: report(0, loss=0.5)) for _ in range(1000))[500]
    scheduled = first_in_line()
    for first in range(0, count, BATCH):
        time.sleep(REST_S)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for step in range(first, first + BATCH):
            begin, start = cpu(), clock()
            report(step, loss=0.5)
            took.append(clock() - start)
            cpu_max = max(cpu_max, cpu() - begin)
        waits += resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
        for _ in range(BATCH):
            start = clock()
            while clock() - start < length:
                pass
            controls.append(clock() - start)
    print(json.dumps({"report": spread(took), "control": spread(controls), "over": over(took), "control_over": over(controls),
                      "cpu_max": cpu_max / 1000, "waits": waits, "class": scheduled}), flush=True)
    os._exit(0)


def over(times):
    return sum(time_ns > 1_000_000 for time_ns in times)


def timed_ns(clock, act):
    start = clock()
    act()
    return clock() - start


def spread(times):
    times.sort()
    last = len(times) - 1
    return {"median": times[last // 2] / 1000, "99 %": times[last * 99 // 100] / 1000, "99.99 %": times[last * 9999 // 10000] / 1000, "max": times[last] / 1000}


def peer_main(path):
    """An agent as far as this goes: it reads, each connection in a thread."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listens", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=lambda c=connection: all(iter(lambda: c.recv(65536), b"")), daemon=True).start()


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_main(int(sys.argv[2]), *pickle.loads(bytes.fromhex(sys.argv[3])))
    if sys.argv[1:2] == ["--peer"]:
        return peer_main(sys.argv[2])
    if sys.argv[1:2] == ["--reports-to"]:
        return report_main(*sys.argv[2:4], *map(int, sys.argv[4:]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in text.split(",") if word], default=SIZES)
    parser.add_argument("--reports", type=int, default=REPORTS, help="how many are timed beside each kind of agent")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    from torches import torches
    if not options.sizes:
        return reports(options.reports)
    if not (BUILD / "libworker.so.0.1").exists():
        print(f"bench python: {BUILD} has no libworker: ./dev build release", file=sys.stderr)
        return 1
    fine = all([ranks(torch.python, options.sizes, options.rounds) for torch in torches("python")])
    reports(options.reports)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
