#!/usr/bin/env python3
"""The peer of libworker in ./dev gpu: the same models and attention in torch, with what makes torch fast: bf16 by autocast,
the fastest scaled_dot_product_attention for the shape, the fused AdamW, torch.compile if asked.

    torch_peer.py train MODEL SAMPLES LENGTH STEPS FOLDER [--way eager|compile] [--mode MODE] [--precision bf16|f32]
    torch_peer.py attention SAMPLES LENGTH HEADS KV_HEADS SIZE

`train` begins with the weights that bench_gpu_train left in FOLDER and has its tokens. Its first line is {"parameters",
"attention"}, then each step has a line as bench_gpu_train prints it. If a batch does not fit in memory, it is computed in
parts, whose number is "parts" of each step. `attention` prints the fastest forward pass and the fastest backward pass.
--device cpu tries all of it without a GPU, in small sizes; there --way compile only traces, unless there is a MODE. Exit
status 1, with a sentence, if torch cannot.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import attention as torch_attention
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_models import GPT, LLAMA, attend, model_of, reader

ROUNDS, EACH = 7, 4  # as pieces.c
PARTS_MAX = 16
BACKENDS = {"cuda": ["FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"], "cpu": ["FLASH_ATTENTION", "MATH"]}
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def tokens_of(count, vocab):
    """The same numbers in token_at of train.c."""
    low = 0xffffffff
    x = (torch.arange(count, dtype=torch.int64) * 2654435761) & low
    x = x ^ (x >> 15)
    x = (x * 2246822519) & low
    x = x ^ (x >> 13)
    return x % vocab


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def round_ms(act, device):
    """Of EACH calls: by events on a GPU, so that the wait of the host is not in it."""
    wait(device)
    if device == "cuda":
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(EACH):
            act()
        ended.record()
        ended.synchronize()
        return began.elapsed_time(ended)
    before = time.perf_counter()
    for _ in range(EACH):
        act()
    return (time.perf_counter() - before) * 1e3


def median_ms(act, device):
    """Of one call; the first round is not counted."""
    return statistics.median([round_ms(act, device) / EACH for _ in range(ROUNDS + 1)][1:])


@contextlib.contextmanager
def chosen(name):
    """Attention is computed by this backend alone; 'FLASH_ATTENTION FA3' is another implementation of flash attention."""
    backend, _, implementation = name.partition(" ")
    with sdpa_kernel(getattr(SDPBackend, backend)):
        if implementation:
            torch_attention.activate_flash_attention_impl(implementation)
        try:
            yield
        finally:
            if implementation:
                torch_attention.restore_flash_attention_impl()


def attentions(shape, device, dtype):
    """{name: (ms forward, ms backward)} of the backends that compute this shape; why others do not goes to standard error."""
    samples, length, heads, kv, size = shape
    q = torch.randn(samples, heads, length, size, device=device, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(samples, kv, length, size, device=device, dtype=dtype, requires_grad=True) for _ in range(2))
    names, found = list(BACKENDS[device]), {}
    if device == "cuda" and hasattr(torch_attention, "list_flash_attention_impls"):
        names += [f"FLASH_ATTENTION {i}" for i in torch_attention.list_flash_attention_impls()]
    for name in names:
        try:
            with chosen(name):
                out = attend(q, k, v)
                slope = torch.randn_like(out)
                found[name] = (median_ms(lambda: attend(q, k, v), device),
                               median_ms(lambda out=out, slope=slope: torch.autograd.grad(out, (q, k, v), slope, retain_graph=True), device))
        except (RuntimeError, AttributeError, ImportError, ValueError, TypeError) as refusal:
            print(f"torch_peer: {name} is not used: {str(refusal).splitlines()[0] if str(refusal) else type(refusal).__name__}", file=sys.stderr)
    if not found:
        sys.exit(f"torch_peer: torch has no attention for {shape} in {dtype} on {device}")
    return found


class Training:
    """The network, its optimizer and its batch."""

    def __init__(self, a):
        self.device, self.precision, self.parts = a.device, a.precision, 1
        self.net, heads, vocab = model_of(a.model, a.length)
        self.net.load(reader(a.folder))
        self.net.to(a.device)
        how = {"backend": "aot_eager"} if a.device == "cpu" and not a.mode else {"mode": a.mode}
        self.pass_of = torch.compile(self.net, dynamic=False, **how) if a.way == "compile" else self.net
        groups = [{"params": [p for p in self.net.parameters() if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in self.net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        text = tokens_of(a.samples * a.length + 1, vocab)
        self.batch = [x.reshape(a.samples, a.length) for x in (text[:-1], text[1:])]
        if a.device == "cuda":
            self.batch = [x.pin_memory() for x in self.batch]
        times = attentions((a.samples, a.length, *heads), a.device, TYPES[a.precision])
        self.attention = min(times, key=lambda name: sum(times[name]))

    def gradients(self):
        """The loss; its gradients are in the parameters."""
        tokens, targets = (x.to(self.device, non_blocking=True) for x in self.batch)
        total = 0
        for part in zip(tokens.chunk(self.parts), targets.chunk(self.parts)):
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
                loss = self.pass_of(*part) * (len(part[0]) / len(tokens))
            loss.backward()
            total = total + loss.detach()
        return total

    def fitted_gradients(self):
        """gradients(), in more parts if memory is short: before the first update nothing else has changed."""
        while True:
            try:
                return self.gradients()
            except torch.OutOfMemoryError:
                if self.parts * 2 > min(PARTS_MAX, len(self.batch[0])):
                    raise
                self.parts *= 2
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()

    def step(self):
        """(loss, norm, ms): from the batch on the host to the loss on the host, as bench_gpu_train's."""
        wait(self.device)
        began = time.perf_counter()
        loss = self.fitted_gradients()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        wait(self.device)
        return value, norm.item(), (time.perf_counter() - began) * 1e3


def train(a):
    training = Training(a)
    parameters = sum(p.numel() for p in training.net.parameters())
    print(json.dumps({"parameters": parameters, "attention": training.attention.lower()}), flush=True)
    with chosen(training.attention):
        for number in range(1, a.steps + 1):
            loss, norm, ms = training.step()
            print(json.dumps({"step": number, "ms": ms, "loss": loss, "norm": norm, "parts": training.parts}), flush=True)


def attention(a):
    shape = (a.samples, a.length, a.heads, a.kv, a.size)
    times = attentions(shape, a.device, TYPES[a.precision])
    one = a.samples * a.heads * a.size * a.length * a.length
    for i, (way, products) in enumerate((("forward", 2), ("backward", 5))):
        name = min(times, key=lambda n, i=i: times[n][i])
        ms = times[name][i]
        print(json.dumps({"way": way, "name": f"torch {name.lower()}", "ms": ms, "tflops": products * one / ms * 1e-9}))


def arguments():
    p = argparse.ArgumentParser(description="torch beside libworker, for ./dev gpu.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    common.add_argument("--precision", choices=list(TYPES), default="bf16")
    kinds = p.add_subparsers(dest="what", required=True)
    t = kinds.add_parser("train", parents=[common])
    t.add_argument("model", choices=[*GPT, *LLAMA])
    for name in ("samples", "length", "steps"):
        t.add_argument(name, type=int)
    t.add_argument("folder")
    t.add_argument("--way", choices=["eager", "compile"], default="eager")
    t.add_argument("--mode", help="of torch.compile: default, max-autotune-no-cudagraphs, ...")
    s = kinds.add_parser("attention", parents=[common])
    for name in ("samples", "length", "heads", "kv", "size"):
        s.add_argument(name, type=int)
    return p.parse_args()


if __name__ == "__main__":
    chosen_arguments = arguments()
    (train if chosen_arguments.what == "train" else attention)(chosen_arguments)
