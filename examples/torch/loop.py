#!/usr/bin/python3
"""DistributedDataParallel with muster.torch.Loop: resumes, reports, saves and stops, in three lines.

    muster run -N 2 -- python3 examples/torch/loop.py ckpt 300
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import muster.torch

SAMPLES, BATCH = 1000, 20  # of the data set, of a step over all ranks


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(1))
    sampler = muster.BatchSampler(SAMPLES, BATCH, seed=1)

    loop = muster.torch.Loop(folder, total_steps=steps, every=50, model=model, optimizer=optimizer, sampler=sampler)
    for _ in loop:
        deal = sampler.deal(sampler.position)
        x = data[sampler.indices(deal)]
        error = (model(x) - x.sum(dim=1, keepdim=True).sin()).square()
        loss = error.sum() * sampler.world / deal.samples  # whose mean over the ranks is that over the batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sampler.commit()
        loop.report(loss=loss.detach())
    print(f"done after {loop.step} steps, loss {loss.item():.4f}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
