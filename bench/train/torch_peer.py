#!/usr/bin/python3
"""The peer of bench_train_kernel: the same GPT in torch, one thread. For every line on standard input
it takes one step (forward, backward, clip, AdamW) and prints its milliseconds of processor and its
loss. FILE holds what the other side starts from. With --compile the model goes through torch.compile
(the first steps take as long as that does); AdamW is the fused one where torch has it for processors.
With --bf16 the forward pass runs under autocast, as torch's own way to mixed precision.
Usage: torch_peer.py FILE [--compile] [--bf16]
"""
import array
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, SAMPLES = 6, 6, 384, 256, 128, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        mask = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = (q @ k.transpose(-2, -1) * (c // HEADS) ** -0.5 + self.mask).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

    def load(self, values):
        """From one flat tensor in the order and layout of GPT-2's checkpoints."""
        order = [self.table.weight, self.places.weight]
        for b in self.blocks:
            for part in b.norm1, b.qkv, b.proj, b.norm2, b.up, b.down:
                order += [part.weight, part.bias]
        order += [self.norm.weight, self.norm.bias]
        linear = {id(m.weight) for m in self.modules() if isinstance(m, nn.Linear)}
        at = 0
        with torch.no_grad():
            for p in order:
                part, at = values[at:at + p.numel()], at + p.numel()
                p.copy_(part.view(p.shape[::-1]).T if id(p) in linear else part.view(p.shape))
        return order

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.places(torch.arange(CONTEXT))
        logits = self.norm(self.blocks(x)) @ self.table.weight.T
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def read_start(path):
    tokens, values = array.array("i"), array.array("f")
    with open(path, "rb") as file:
        tokens.fromfile(file, SAMPLES * CONTEXT + 1)
        values.frombytes(file.read())
    return torch.tensor(tokens, dtype=torch.int64), torch.tensor(values)


def adamw(groups):
    settings = {"lr": 3e-4, "betas": (0.9, 0.95)}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings)
    except (RuntimeError, TypeError):  # before 2.4 none for processors, before 2.0 none at all
        return torch.optim.AdamW(groups, **settings)


def main():
    torch.set_num_threads(1)
    text, values = read_start(sys.argv[1])
    model = Gpt()
    params = model.load(values)
    groups = [{"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in params if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = adamw(groups)
    forward = torch.compile(model) if "--compile" in sys.argv[2:] else model
    bf16 = "--bf16" in sys.argv[2:]
    tokens, targets = text[:-1].view(SAMPLES, -1), text[1:].view(SAMPLES, -1)
    for _ in sys.stdin:
        start = time.thread_time()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = forward(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"{(time.thread_time() - start) * 1e3:.6f} {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
