#!/usr/bin/env python3
"""HuggingFace Accelerate with Muster's tracker, checkpoints by save_state, and a stop of all ranks in the same step.

    muster run -N 2 -- python3 examples/torch/accelerated.py ckpt 300
"""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import muster
import muster.accelerate
import muster.torch

EVERY = 50


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    accelerator = Accelerator(log_with=muster.accelerate.Tracker())
    accelerator.init_trackers("accelerated")
    torch.manual_seed(0)
    data = torch.randn(1000, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    loader = DataLoader(TensorDataset(data, data.sum(dim=1, keepdim=True).sin()), batch_size=10, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader)

    step = 0
    if path := muster.latest(folder):
        accelerator.load_state(str(path))
        step = int(path.name.split("-")[1])
    muster.should_stop()
    while step < steps:
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            accelerator.log({"loss": loss.detach()}, step=step)
            stop = muster.torch.should_stop()
            if stop or step % EVERY == 0 or step == steps:
                with muster.checkpoint(f"{folder}/step-{step:08}", step, shared=accelerator.num_processes > 1) as made:
                    accelerator.save_state(str(made))
            if stop:
                sys.exit(muster.EXIT_STOPPED)
            if step == steps:
                break
    print(f"done after {step} steps, loss {loss.item():.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
