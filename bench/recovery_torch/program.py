"""A torch DDP training of two ranks for run.py: writes "milliseconds generation world" at each completed step into a file of its process.

    program.py inplace|restart FOLDER
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PACE_S = 0.02


def main():
    how, folder = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = open(f"{folder}/steps-{os.getpid()}", "w", buffering=1)

    def step(ddp, generation):
        x = torch.randn(16, 64)
        loss = (ddp(x) - x.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(int(time.time() * 1000), generation, dist.get_world_size(), file=out)
        time.sleep(PACE_S)

    if how == "inplace":
        import muster.torch

        def train(loop):
            ddp, generation = DistributedDataParallel(model), muster.place().generation
            for _ in loop:
                step(ddp, generation)
        muster.elastic(train, muster.torch.Loop(f"{folder}/ckpt", model=model, optimizer=optimizer))
    else:
        generation = os.environ.get("MUSTER_GENERATION") or os.environ.get("TORCHELASTIC_RESTART_COUNT")
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
