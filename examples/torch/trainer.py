#!/usr/bin/env python3
"""HuggingFace's Trainer with one callback: steps, losses, checkpoints and a graceful stop.

    muster run -N 2 -- python3 examples/torch/trainer.py out 60
"""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import muster.transformers


class Counting(torch.utils.data.Dataset):
    """Sequences that count, from another number each."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        tokens = (torch.arange(16) + index) % 64
        return {"input_ids": tokens, "labels": tokens}


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2))
    arguments = TrainingArguments(folder, max_steps=steps, per_device_train_batch_size=8, learning_rate=1e-2, logging_steps=5, save_steps=10,
                                  save_total_limit=3, report_to=[], disable_tqdm=True, use_cpu=not torch.cuda.is_available())
    trainer = Trainer(model, arguments, train_dataset=Counting(), callbacks=[muster.transformers.Callback()])
    result = trainer.train(resume_from_checkpoint=muster.transformers.latest(folder))
    print(f"done after {result.global_step} steps, loss {result.training_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
