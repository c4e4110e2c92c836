#!/usr/bin/env python3
"""What stands beside libworker in ./dev gpu: the same models and attention in torch, as it is fast there: bf16 by autocast,
scaled_dot_product_attention, the fused AdamW, torch.compile if asked.

    torch_peer.py train MODEL SAMPLES LENGTH STEPS FOLDER eager|compile [cpu]
    torch_peer.py attention SAMPLES LENGTH HEADS KV_HEADS SIZE

`train` begins from the weights that bench_gpu_train left in FOLDER and takes its tokens; a line for each step, as it
prints them. `attention` prints the fastest of torch's ways, forward and backward.
"""
import json
import math
import statistics
import struct
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

GPT = {"gpt2": (12, 12, 768, 50304), "gpt-tiny": (2, 2, 32, 128)}
LLAMA = {"llama-1b": (22, 32, 4, 2048, 5632, 32000), "llama-tiny": (2, 4, 2, 32, 48, 128)}


def attend(q, k, v):
    """Causal attention of [samples, heads, length, size]; k and v may have fewer heads."""
    repeat = q.shape[1] // k.shape[1]
    if repeat > 1:
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.full((q.shape[2], q.shape[2]), float("-inf"), device=q.device).triu(1)
    return ((q @ k.transpose(-2, -1)).float() / math.sqrt(q.shape[3]) + mask).softmax(-1).to(v.dtype) @ v


class GptBlock(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.c_proj(attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, vocab, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h, self.ln_f = nn.ModuleList(GptBlock(heads, width) for _ in range(layers)), nn.LayerNorm(width)

    def load(self, get):
        """Linear weights are [in, out] in GPT-2's checkpoints."""
        names = {"ln_1": "ln_1", "ln_2": "ln_2", "c_attn": "attn.c_attn", "c_proj": "attn.c_proj", "c_fc": "mlp.c_fc", "mlp_proj": "mlp.c_proj"}
        for name, p in self.named_parameters():
            part = name.split(".")
            if part[0] == "h":
                value = get(f"h.{part[1]}.{names[part[2]]}.{part[3]}")
                value = value.T if value.dim() == 2 else value
            else:
                value = get(name)
            p.data.copy_(value[:p.shape[0]])

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, heads, kv, width, inner):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, width // heads
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        self.q_proj, self.o_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, kv * self.size, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        y = self.input_layernorm(x)
        q, k, v = (p(y).view(b, t, -1, self.size).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotated(q, cos, sin).to(v.dtype), rotated(k, cos, sin).to(v.dtype)
        x = x + self.o_proj(attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    def __init__(self, layers, heads, kv, width, inner, vocab, length):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(vocab, width), RmsNorm(width)
        self.layers = nn.ModuleList(LlamaBlock(heads, kv, width, inner) for _ in range(layers))
        self.lm_head = nn.Linear(width, vocab, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def load(self, get):
        for name, p in self.named_parameters():
            own = name.split(".")
            if own[0] == "layers":
                room = "self_attn." if own[2] in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp." if own[2].endswith("_proj") else ""
                p.data.copy_(get(f"model.layers.{own[1]}.{room}{own[2]}.weight"))
            else:
                p.data.copy_(get(name if own[0] == "lm_head" else f"model.{name}"))

    def forward(self, tokens, targets):
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x, self.cos, self.sin)
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def reader(folder):
    """get(name) of the folder's safetensors file, all in f32."""
    data = next(Path(folder).glob("*.safetensors")).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])

    def get(name):
        name = name if name in header else f"transformer.{name}"
        begin, end = header[name]["data_offsets"]
        return torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=torch.float32).view(header[name]["shape"])
    return get


def tokens_of(count, vocab):
    """As token_at of train.c."""
    low = 0xffffffff
    x = (torch.arange(count, dtype=torch.int64) * 2654435761) & low
    x = x ^ (x >> 15)
    x = (x * 2246822519) & low
    x = x ^ (x >> 13)
    return x % vocab


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(model, samples, length, steps, folder, way, device="cuda"):
    samples, length, steps = int(samples), int(length), int(steps)
    net = Gpt(*GPT[model], 64 if model == "gpt-tiny" else 1024) if model in GPT else Llama(*LLAMA[model], length)
    net.load(reader(folder))
    net.to(device)
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    more = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), **more)
    text = tokens_of(samples * length + 1, GPT[model][-1] if model in GPT else LLAMA[model][-1]).to(device)
    tokens, targets = text[:-1].view(samples, length), text[1:].view(samples, length)
    forward = torch.compile(net) if way == "compile" else net
    print(json.dumps({"parameters": sum(p.numel() for p in net.parameters())}), flush=True)
    for step in range(1, steps + 1):
        wait(device)
        began = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = forward(tokens, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()  # as wk_step's numbers: waits for the step
        wait(device)
        print(json.dumps({"step": step, "ms": (time.perf_counter() - began) * 1e3, "loss": value, "norm": norm.item()}), flush=True)


def timed(act, rounds=7, each=4):
    found = []
    for i in range(rounds + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(each):
            act()
        torch.cuda.synchronize()
        found += [(time.perf_counter() - began) / each] if i else []
    return statistics.median(found)


def attention(samples, length, heads, kv, size):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    best = {}
    q = torch.randn(samples, heads, length, size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(samples, kv, length, size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    one = samples * heads * size * length * length
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv)
                slope = torch.randn_like(out)
                times = {"forward": timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv)),
                         "backward": timed(lambda: torch.autograd.grad(out, (q, k, v), slope, retain_graph=True))}
        except (RuntimeError, AttributeError):
            continue
        for way, s in times.items():
            if way not in best or s < best[way][0]:
                best[way] = s, name
    for way, (s, name) in best.items():
        print(json.dumps({"way": way, "name": f"torch {name.lower()}", "ms": s * 1e3, "tflops": (2 if way == "forward" else 5) * one / s * 1e-12}))


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(*sys.argv[2:])
    else:
        attention(*map(int, sys.argv[2:]))
