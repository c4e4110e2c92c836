#!/usr/bin/env python3
"""FSDP2 (fully_shard, torch 2.6 and newer) with sharded checkpoints: every rank writes its part into one folder.

    muster run -N 2 -- python3 examples/torch/fsdp2.py ckpt 300

The checkpoint is torch.distributed.checkpoint's, which any world loads.
"""
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import muster
import muster.torch

EVERY = 50


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    start = 0
    if path := muster.latest(folder):
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "step": torch.zeros(1, dtype=torch.int64)}
        dcp.load(state, checkpoint_id=str(path))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        start = int(state["step"])
    generator = torch.Generator()
    muster.should_stop()
    for step in range(start, steps):
        generator.manual_seed(step * dist.get_world_size() + dist.get_rank())
        x = torch.randn(32, 16, generator=generator)
        loss = (model(x) - x.sum(dim=1, keepdim=True).sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        muster.report(step + 1, loss=loss.detach(), total_steps=steps)
        stop = muster.torch.should_stop()
        if stop or (step + 1) % EVERY == 0 or step + 1 == steps:
            weights, moments = get_state_dict(model, optimizer)
            with muster.checkpoint(f"{folder}/step-{step + 1:08}", step + 1, shared=True) as made:
                dcp.save({"model": weights, "optimizer": moments, "step": torch.tensor([step + 1])}, checkpoint_id=str(made))
        if stop:
            sys.exit(muster.EXIT_STOPPED)
    print(f"done after {steps} steps, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
