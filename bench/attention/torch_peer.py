#!/usr/bin/python3
"""The peer of bench_attention: torch's scaled_dot_product_attention and its gradients on one thread. For every line on
standard input it takes both passes, or `query`, and prints what bench_attention prints, without memory and product.
Usage: torch_peer.py LENGTH HEADS f32|bf16 [query]
"""
import sys
import time

import torch

SIZE, SAMPLE, QUERIES = 64, 777, 20


def noise(stream, count):
    """The numbers of libworker/nn/random.h, so that both sides compute the same."""
    index = torch.arange(1, count + 1, dtype=torch.int64)
    x = index * -0x61c8864680b583eb + stream
    for shift, factor in ((30, -0x40a7b892e31b1a47), (27, -0x6b2fb644ecceee15), (31, 1)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (((x >> 11) & ((1 << 53) - 1)).double() * 2.0 ** -53).float()


def queries(q, k, v):
    """The last query alone, over all keys."""
    last = q[:, :, -1:].contiguous()
    for _ in sys.stdin:
        start = time.process_time()
        with torch.no_grad():
            for _ in range(QUERIES):
                out = torch.nn.functional.scaled_dot_product_attention(last, k, v)
        end = time.process_time()
        print(f"{(end - start) * 1e3 / QUERIES:.6f} 0 0 0 {out[0, 0, 0, 5].item():.9g} {out.double().square().sum().item():.9g}",
              flush=True)


def main():
    torch.set_num_threads(1)
    length, heads = int(sys.argv[1]), int(sys.argv[2])
    kind = torch.float32 if sys.argv[3] == "f32" else torch.bfloat16
    arrays = [((noise(stream, heads * length * SIZE) - 0.5) * 3.4641016).view(1, heads, length, SIZE).to(kind)
              for stream in (1, 2, 3, 4)]
    if "query" in sys.argv[4:]:
        return queries(*arrays[:3])
    inputs = [x.requires_grad_() for x in arrays[:3]]
    for _ in sys.stdin:
        start = time.process_time()
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
        middle = time.process_time()
        gradients = torch.autograd.grad(out, inputs, arrays[3])
        end = time.process_time()
        values = []
        for x in (out.detach(), *gradients):
            values += [x[0, 0, SAMPLE, 5].item(), x.double().square().sum().item()]
        print(f"{(middle - start) * 1e3:.6f} {(end - middle) * 1e3:.6f} 0 0", *(f"{v:.9g}" for v in values), flush=True)


if __name__ == "__main__":
    main()
