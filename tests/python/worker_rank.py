"""One rank of test_worker.py: collectives whose results are known, on arrays of the kind that the test names."""
import array
import os
import sys

import case  # noqa: F401  (finds the package)

import muster


def make(kind, values):
    if kind == "array":
        return array.array("f", values)
    if kind == "numpy":
        import numpy
        return numpy.array(values, dtype=numpy.float32)
    import torch
    return torch.tensor(values, dtype=torch.float32)


def listed(values):
    return [float(v) for v in (values.tolist() if hasattr(values, "tolist") else values)]


def rows(kind, values, world):
    made = make(kind, values)
    return made.reshape(world, -1) if kind != "array" else memoryview(made).cast("B").cast("f", shape=(world, len(made) // world))


def flat(values):
    return listed(values.reshape(-1) if hasattr(values, "reshape") else values)


def check_arrays(worker, kind):
    rank, world = worker.rank, worker.world
    ranks = range(world)
    same = make(kind, [rank, 1.0])
    assert worker.all_reduce(same) is same and listed(same) == [sum(ranks), world]
    assert listed(worker.all_reduce(make(kind, [rank]), "max")) == [world - 1]
    assert listed(worker.all_reduce(make(kind, [rank]), "mean")) == [sum(ranks) / world]
    work = worker.start_all_reduce(make(kind, [float(rank)] * 1000))
    assert listed(work.wait()) == [sum(ranks)] * 1000 and listed(work.wait()) == [sum(ranks)] * 1000
    worker.start_all_reduce(make(kind, [1.0]))  # which nobody waits for
    assert listed(worker.broadcast(make(kind, [rank]), root=world - 1)) == [world - 1]
    out = make(kind, [0.0] * (2 * world)) if kind == "array" else None
    assert flat(worker.all_gather(make(kind, [rank, 10 + rank]), out)) == [x for r in ranks for x in (r, 10 + r)]
    out = make(kind, [0.0]) if kind == "array" else None
    assert flat(worker.reduce_scatter(rows(kind, [float(r) for r in ranks], world), out)) == [rank * world]
    out = make(kind, [0.0] * world) if kind == "array" else None
    assert flat(worker.all_to_all(rows(kind, [10.0 * rank + r for r in ranks], world), out)) == [10.0 * r + rank for r in ranks]
    if rank == 0:
        worker.send(make(kind, [5.0]), 1)
    elif rank == 1:
        assert listed(worker.recv(make(kind, [0.0]), 0)) == [5.0]
    worker.barrier()


def check_objects(worker):
    mine = {"rank": worker.rank, "text": "ü" * (10 ** worker.rank)}
    everyone = worker.gather_object(mine)
    assert [one["rank"] for one in everyone] == list(range(worker.world))
    assert [len(one["text"]) for one in everyone] == [10 ** r for r in range(worker.world)]
    assert worker.broadcast_object(mine if worker.rank == 1 else None, root=1)["rank"] == 1


def refused(act, kind, words):
    try:
        act()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"not refused: {words}")


def check_refusals(worker, kind):
    refused(lambda: worker.all_reduce(make(kind, [1.0]), "median"), ValueError, "op 'median'")
    refused(lambda: worker.all_reduce([1.0]), TypeError, "list is no array")
    refused(lambda: worker.all_reduce(b"1234"), ValueError, "")
    refused(lambda: worker.all_gather(make(kind, [1.0]), make(kind, [1.0])), ValueError, "are needed")
    refused(lambda: worker.reduce_scatter(make(kind, [1.0] * (worker.world + 1))), ValueError, "must be the world")
    if kind == "numpy":
        import numpy
        refused(lambda: worker.all_reduce(numpy.zeros((4, 4))[:, 1]), ValueError, "contiguous")
        refused(lambda: worker.all_reduce(numpy.zeros(4, dtype=numpy.complex64)), ValueError, "elements of format")
    if kind == "torch":
        import torch
        refused(lambda: worker.all_reduce(torch.zeros(4, 4).t()), ValueError, "contiguous")
        assert torch.ones(3, dtype=torch.bfloat16).mul(worker.world).equal(worker.all_reduce(torch.ones(3, dtype=torch.bfloat16)))


def main():
    kind, ends = sys.argv[1], sys.argv[2]
    with muster.Worker({"comm_timeout": "30s"}) as worker:
        assert worker.setting("comm_timeout").startswith("30") and worker.origin("comm_timeout") == "code", worker.setting("comm_timeout")
        refused(lambda: worker.setting("comm_tiemout"), KeyError, "comm_tiemout")
        check_arrays(worker, kind)
        check_objects(worker)
        check_refusals(worker, kind)
        if ends == "mismatch":
            refused(lambda: worker.all_reduce(make(kind, [1.0] * (1 + worker.rank))), muster.Mismatch, "")
        if ends == "lost":
            if worker.rank == 1:
                os._exit(0)
            refused(worker.barrier, muster.PeerLost, "")
    refused(worker.barrier, muster.Error, "closed")
    print("fine", flush=True)


if __name__ == "__main__":
    main()
