"""A torch DDP training of two ranks for run.py: writes "milliseconds generation world" at each completed step into a file of its process.

    program.py inplace|restart|torchft FOLDER
"""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PACE_S = 0.02


def replica(model, optimizer, train, done):
    """A replica group of one process. A step that the group gave up is none; a generation is a number of replicas, counted."""
    import torchft

    def state():
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(saved):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=10)), min_replica_size=1, load_state_dict=load,
                              state_dict=state, rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
                              timeout=timedelta(seconds=10))
    ddp, update = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, optimizer)
    generation, world = 0, 0
    while True:
        before = manager.current_step()
        train(ddp, update)
        if manager.current_step() > before:
            generation, world = generation + (manager.num_participants() != world), manager.num_participants()
            done(generation, world)


def main():
    how, folder = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = open(f"{folder}/steps-{os.getpid()}", "w", buffering=1)

    def train(ddp, update):
        x = torch.randn(16, 64)
        update.zero_grad()
        loss = (ddp(x) - x.sum(dim=1, keepdim=True)).square().mean()
        loss.backward()
        update.step()

    def done(generation, world):
        print(int(time.time() * 1000), generation, world, file=out)
        time.sleep(PACE_S)

    def step(ddp, generation):
        train(ddp, optimizer)
        done(generation, dist.get_world_size())

    if how == "inplace":
        import muster.torch

        def of_world(loop):
            ddp, generation = DistributedDataParallel(model), muster.place().generation
            for _ in loop:
                step(ddp, generation)
        muster.elastic(of_world, muster.torch.Loop(f"{folder}/ckpt", model=model, optimizer=optimizer))
    elif how == "torchft":
        replica(model, optimizer, train, done)
    else:
        generation = int(time.time() * 1000)  # all processes of a later world began later
        saved = f"{folder}/state.pt"
        dist.init_process_group("gloo")
        if os.path.exists(saved):
            model.load_state_dict(torch.load(saved))
        ddp, count = DistributedDataParallel(model), 0
        while True:
            step(ddp, generation)
            count += 1
            if count % 20 == 0 and dist.get_rank() == 0:
                torch.save(model.state_dict(), saved + ".new")
                os.rename(saved + ".new", saved)


if __name__ == "__main__":
    main()
