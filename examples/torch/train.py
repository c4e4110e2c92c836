#!/usr/bin/python3
"""An ordinary PyTorch DDP script: nothing in it knows Muster. It reads RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT from its environment, as torchrun scripts do.

    muster run -N 2 -- /usr/bin/python3 examples/torch/train.py
"""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo", init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}, local rank {os.environ['LOCAL_RANK']}, node {os.environ['GROUP_RANK']}, "
          f"master {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", flush=True)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(rank)
    first = last = None
    for step in range(200):
        x = torch.randn(64, 16, generator=data)
        y = x.sum(dim=1, keepdim=True).sin()
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        last = total.item() / world
        first = last if first is None else first
    if rank == 0:
        print(f"loss {first:.4f} -> {last:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
