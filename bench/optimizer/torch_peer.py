#!/usr/bin/python3
"""The peer of bench_optimizer: unscale, clip, AdamW (its fused or foreach form where it has one) and a
bf16 copy, on one thread. For every line on standard input it takes one step and prints its
milliseconds of processor and one parameter. Usage: torch_peer.py
"""
import sys
import time

import torch

TENSORS, SIDE, LOSS_SCALE = 24, 1024, 1024.0


def noise(stream):
    """The numbers of libworker/nn/random.h, so that both sides start alike."""
    index = torch.arange(1, TENSORS * SIDE * SIDE + 1, dtype=torch.int64)
    x = index * -0x61c8864680b583eb + stream
    for shift, factor in ((30, -0x40a7b892e31b1a47), (27, -0x6b2fb644ecceee15), (31, 1)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (((x >> 11) & ((1 << 53) - 1)).double() * 2.0 ** -53).view(TENSORS, SIDE, SIDE)


def main():
    torch.set_num_threads(1)
    params = [torch.nn.Parameter(x) for x in (noise(1).float() - 0.5)]
    grads = list(((noise(2) - 0.5) * LOSS_SCALE).float())
    low = [torch.empty_like(p, dtype=torch.bfloat16) for p in params]
    options = dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    try:
        optimizer = torch.optim.AdamW(params, fused=True, **options)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(params, foreach=True, **options)
    for _ in sys.stdin:
        for p, g in zip(params, grads):
            p.grad = g.clone()
        start = time.thread_time()
        with torch.no_grad():
            torch._foreach_mul_([p.grad for p in params], 1 / LOSS_SCALE)
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        with torch.no_grad():
            for p, l in zip(params, low):
                l.copy_(p)
        ms = (time.thread_time() - start) * 1e3
        print(f"{ms:.6f} {params[0].flatten()[7].item():.6f}", flush=True)


if __name__ == "__main__":
    main()
