#!/usr/bin/env python3
"""Lightning with one callback: steps, losses, checkpoints and a graceful stop.

    muster run -N 2 -- python3 examples/torch/lit.py ckpt 300
"""
import os
import sys

import torch
from lightning import pytorch as pl
from torch.utils.data import DataLoader, TensorDataset

import muster.lightning


class Sine(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    pl.seed_everything(0)
    data = torch.randn(1000, 16)
    loader = DataLoader(TensorDataset(data, data.sum(dim=1, keepdim=True).sin()), batch_size=10, shuffle=True)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    nodes = int(os.environ.get("GROUP_WORLD_SIZE", "1"))
    trainer = pl.Trainer(max_steps=steps, accelerator="auto", devices=world // nodes, num_nodes=nodes, strategy="ddp" if world > 1 else "auto",
                         logger=False, enable_checkpointing=False, enable_progress_bar=False,
                         callbacks=[muster.lightning.Callback(folder, every=50)])
    trainer.fit(Sine(), loader, ckpt_path=muster.lightning.latest(folder))
    print(f"done after {trainer.global_step} steps", flush=True)


if __name__ == "__main__":
    main()
