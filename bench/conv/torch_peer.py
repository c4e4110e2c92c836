#!/usr/bin/python3
"""The peer of bench_conv: torch's conv2d and its gradients on one thread, numbers equal.
Usage: torch_peer.py SAMPLES CHANNELS SIDE OUT KERNEL STRIDE
"""
import sys
import time

import torch


def noise(stream, count):
    """The numbers of libworker/nn/random.h, so that both sides compute the same."""
    index = torch.arange(1, count + 1, dtype=torch.int64)
    x = index * -0x61c8864680b583eb + stream
    for shift, factor in ((30, -0x40a7b892e31b1a47), (27, -0x6b2fb644ecceee15), (31, 1)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (((x >> 11) & ((1 << 53) - 1)).double() * 2.0 ** -53).float() - 0.5


def main():
    torch.set_num_threads(1)
    samples, channels, side, out, kernel, stride = map(int, sys.argv[1:])
    x = noise(1, samples * channels * side * side).view(samples, channels, side, side).requires_grad_()
    weight = noise(2, out * channels * kernel * kernel).view(out, channels, kernel, kernel).requires_grad_()
    y = torch.nn.functional.conv2d(x, weight, stride=stride, padding=kernel // 2)
    dout = noise(3, y.numel()).view(y.shape)
    for _ in sys.stdin:
        start = time.thread_time()
        y = torch.nn.functional.conv2d(x, weight, stride=stride, padding=kernel // 2)
        gradients = torch.autograd.grad(y, (x, weight), dout)
        ms = (time.thread_time() - start) * 1e3
        values = []
        for part in (y.detach(), *gradients):
            values += [part.flatten()[5].item(), part.double().square().sum().item()]
        print(f"{ms:.6f}", *(f"{v:.9g}" for v in values), flush=True)


if __name__ == "__main__":
    main()
