#!/usr/bin/python3
"""Llama once more, in numpy and in double, from its papers: the loss of libworker's must agree, and
its gradients must be the slopes of this one along random directions. With torch instead, which
differentiates this loss, every gradient must agree. Usage: check_llama.py LLAMA_DUMP numpy|torch
"""
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
try:
    import numpy as np
    if sys.argv[2] == "torch":
        import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)

LAYERS, HEADS, KV_HEADS, SIZE, THETA, EPSILON = 3, 6, 2, 8, 10000.0, 1e-5
WIDTH, INNER, LENGTH, VOCAB, TOKENS = HEADS * SIZE, 56, 75, 40, 150
# Roundings behind a logit (norms, products, softmax and its sum in each layer, head) and a gradient.
FORWARD = LAYERS * (5 * WIDTH + SIZE + 2 * LENGTH + INNER) + 2 * WIDTH
GRADIENT = 3 * FORWARD + VOCAB + TOKENS


def rounding(roundings):
    """tests/lib/rounding.h: how far apart two results in float32 are."""
    return 6 * (2 * roundings) ** 0.5 * 2.0 ** -24


def rms(xp, x, weight):
    return x / xp.sqrt((x * x).mean(-1)[..., None] + EPSILON) * weight


def rotate(xp, cat, x, angles):
    """Su et al. 2021 with halves instead of neighbours, as the published checkpoints have it."""
    half = x.shape[-1] // 2
    turned = cat([-x[..., half:], x[..., :half]], -1)
    return x * xp.cos(angles) + turned * xp.sin(angles)


def softmax(xp, x):
    e = xp.exp(x - x.max())
    return e / e.sum(-1)[..., None]


def attention(xp, cat, x, weights, angles, mask):
    q, k, v = (x @ w.T for w in weights)
    heads = []
    for h in range(HEADS):
        group = h // (HEADS // KV_HEADS)
        own, shared = slice(h * SIZE, (h + 1) * SIZE), slice(group * SIZE, (group + 1) * SIZE)
        scores = rotate(xp, cat, q[:, own], angles) @ rotate(xp, cat, k[:, shared], angles).T
        heads.append(softmax(xp, scores / SIZE ** 0.5 + mask) @ v[:, shared])
    return cat(heads, -1)


def loss(xp, cat, p, tokens, targets, angles, mask):
    total = 0
    for row, wanted in zip(tokens, targets):
        x = p["model.embed_tokens.weight"][row]
        for i in range(LAYERS):
            def part(name):
                return p[f"model.layers.{i}.{name}.weight"]
            y = rms(xp, x, part("input_layernorm"))
            weights = [part(f"self_attn.{n}_proj") for n in "qkv"]
            x = x + attention(xp, cat, y, weights, angles, mask) @ part("self_attn.o_proj").T
            y = rms(xp, x, part("post_attention_layernorm"))
            gate = y @ part("mlp.gate_proj").T
            y = gate / (1 + xp.exp(-gate)) * (y @ part("mlp.up_proj").T)
            x = x + y @ part("mlp.down_proj").T
        logits = rms(xp, x, p["model.norm.weight"]) @ p["lm_head.weight"].T
        chosen = logits[list(range(len(wanted))), wanted]
        total = total + (xp.log(xp.exp(logits).sum(-1)) - chosen).sum()
    return total / tokens.size


def read(folder):
    params, grads, expected = {}, {}, None
    for line in (folder / "index").read_text().splitlines():
        name, *numbers = line.split()
        if name == "loss":
            expected = float(numbers[0])
            continue
        shape = [int(n) for n in numbers if n != "0"]
        params[name] = np.fromfile(folder / name, "<f4").reshape(shape).astype(np.float64)
        grads[name] = np.fromfile(folder / f"{name}.grad", "<f4").reshape(shape).astype(np.float64)
    tokens, targets = (np.fromfile(folder / n, "<i4").reshape(2, -1) for n in ("tokens", "targets"))
    return params, grads, expected, tokens, targets


def check_with_torch(params, grads, rest):
    leaves = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    tokens, targets, angles, mask = rest
    loss(torch, torch.cat, leaves, tokens, targets, torch.tensor(angles),
         torch.tensor(mask)).backward()
    good = True
    for name, leaf in leaves.items():
        off = abs(leaf.grad.numpy() - grads[name]).max() / abs(leaf.grad.numpy()).max()
        if not off < rounding(GRADIENT):
            print(f"{name}: gradient is {off:g} off torch's")
            good = False
    return good


def check(folder):
    params, grads, expected, tokens, targets = read(folder)
    length = tokens.shape[1]
    powers = THETA ** (-np.arange(SIZE // 2) / (SIZE // 2))
    angles = np.tile(np.outer(np.arange(length), powers), (1, 2))
    mask = np.triu(np.full((length, length), -1e30), 1)
    rest = (tokens, targets, angles, mask)
    if sys.argv[2] == "torch":
        return check_with_torch(params, grads, rest)
    found = loss(np, np.concatenate, params, *rest)
    good = abs(found - expected) < rounding(FORWARD) * found
    print(f"loss {expected:.9f}, in numpy {found:.9f}")
    random = np.random.default_rng(1)
    for name, grad in grads.items():
        direction = random.standard_normal(grad.shape)
        kept, step, sides = params[name], 1e-5, []
        for sign in (1, -1):
            params[name] = kept + sign * step * direction
            sides.append(loss(np, np.concatenate, params, *rest))
        params[name] = kept
        slope, along = (sides[0] - sides[1]) / (2 * step), (grad * direction).sum()
        if not abs(slope - along) < 4 * rounding(GRADIENT) * np.sqrt((grad ** 2).sum()) + 1e-8:
            print(f"{name}: slope {slope:g}, gradient says {along:g}")
            good = False
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        return 0 if check(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
