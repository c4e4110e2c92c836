"""Makes the reference data of this folder by running PyTorch, Accelerate and transformers.

    python3 -m venv /tmp/reference
    /tmp/reference/bin/pip install -r tests/reference/requirements.txt \
        --extra-index-url https://download.pytorch.org/whl/cpu
    /tmp/reference/bin/python tests/reference/make.py [dealing] [gpt] [optimizers] [accelerate] \
        [pretrained]

Without a name it makes all of them. Everything is drawn from fixed seeds: a second run with the same
versions on the same kind of CPU writes the same files. README.md says what each file holds.
"""
import itertools
import json
import math
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent


def write_rows(name, rows):
    """A JSON list, one entry a line, so that a difference can be read."""
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (HERE / name).write_text(f"[\n{text}\n]\n")


# Dealing ------------------------------------------------------------------------------------------

SAMPLES = [0, 1, 2, 3, 5, 7, 10, 11, 12, 13, 16, 20, 21, 22, 23, 24, 30, 37]
BATCHES, WORLDS, BOTH = [1, 2, 3, 4, 6, 8], [1, 2, 3, 4, 5], [False, True]
KEPT_BATCHES, KEPT_STREAMS = 600, 120  # of all combinations, drawn


def deal_batches(samples, size, world, drop_last, split, even):
    """Each rank's lists of indices, as accelerate.data_loader.BatchSamplerShard yields them."""
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler
    return [[list(batch) for batch in BatchSamplerShard(
        BatchSampler(range(samples), size, drop_last), num_processes=world, process_index=rank,
        split_batches=split, even_batches=even)] for rank in range(world)]


def deal_stream(samples, size, world, drop_last, split):
    """Each rank's elements, as accelerate.data_loader.IterableDatasetShard yields them."""
    from accelerate.data_loader import IterableDatasetShard
    return [list(IterableDatasetShard(
        list(range(samples)), batch_size=size, drop_last=drop_last, num_processes=world,
        process_index=rank, split_batches=split)) for rank in range(world)]


def make_dealing():
    draw = random.Random(1)
    whole = [case for case in itertools.product(SAMPLES, BATCHES, WORLDS, BOTH, BOTH, BOTH)
             if not case[4] or case[1] % case[2] == 0]  # a global batch that is split is split evenly
    names = ("samples", "batch_size", "world", "drop_last", "split_batches", "even_batches")
    write_rows("batch_shards.json", [dict(zip(names, case)) | {"ranks": deal_batches(*case)}
                                     for case in sorted(draw.sample(whole, KEPT_BATCHES))])
    whole = [case for case in itertools.product(SAMPLES, BATCHES, WORLDS, BOTH, BOTH)
             if case[0] and (not case[4] or case[1] % case[2] == 0)]
    write_rows("stream_shards.json", [dict(zip(names, case)) | {"ranks": deal_stream(*case)}
                                      for case in sorted(draw.sample(whole, KEPT_STREAMS))])


# A small GPT --------------------------------------------------------------------------------------

LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, ROWS, STEPS = 2, 2, 32, 16, 64, 4, 20
RATE, BETAS, DECAY, CLIP, WARM_UP, LEAST = 0.003, (0.9, 0.95), 0.1, 1.0, 4, 0.1


def new_gpt():
    """GPT-2's parameters by their names; linear weights are [in, out]."""
    def normal(*shape):
        return 0.02 * torch.randn(*shape)
    p = {"wte.weight": normal(VOCAB, WIDTH), "wpe.weight": normal(CONTEXT, WIDTH)}
    for i in range(LAYERS):
        for name, inner, outer in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                   ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            p[f"h.{i}.{name}.weight"] = normal(inner, outer)
            p[f"h.{i}.{name}.bias"] = normal(outer)
        for name in (f"h.{i}.ln_1", f"h.{i}.ln_2"):
            p[f"{name}.weight"], p[f"{name}.bias"] = 1 + normal(WIDTH), normal(WIDTH)
    p["ln_f.weight"], p["ln_f.bias"] = 1 + normal(WIDTH), normal(WIDTH)
    return {name: nn.Parameter(value) for name, value in p.items()}


def gpt_loss(p, tokens, targets):
    """The mean cross entropy; GPT-2 with GELU by tanh and the head tied to wte."""
    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)

    def linear(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]
    rows, length = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
    for i in range(LAYERS):
        q, k, v = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)).split(WIDTH, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, WIDTH)
        x = x + linear(f"h.{i}.attn.c_proj", mixed)
        inner = F.gelu(linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x)), approximate="tanh")
        x = x + linear(f"h.{i}.mlp.c_proj", inner)
    logits = norm("ln_f", x) @ p["wte.weight"].T
    return F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))


def rate_at(step):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / (STEPS - WARM_UP)
    return RATE * (LEAST + (1 - LEAST) * 0.5 * (1 + math.cos(math.pi * done)))


def save(name, tensors):
    """A safetensors file: length of the header, header, the tensors' bytes one after another."""
    header, data = {}, b""
    for key in sorted(tensors):
        raw = tensors[key].detach().contiguous().numpy().astype("<f4").tobytes()
        header[key] = {"dtype": "F32", "shape": list(tensors[key].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (HERE / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_gpt():
    torch.manual_seed(7)
    p = new_gpt()
    save("gpt/gpt_init.safetensors", p)
    optimizer = torch.optim.AdamW(
        [{"params": [v for v in p.values() if v.dim() > 1], "weight_decay": DECAY},
         {"params": [v for v in p.values() if v.dim() == 1], "weight_decay": 0.0}], lr=RATE, betas=BETAS, eps=1e-8)
    batches = torch.randint(0, VOCAB, (STEPS, ROWS, CONTEXT + 1))
    expected = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        optimizer.zero_grad()
        loss = gpt_loss(p, batches[step, :, :-1], batches[step, :, 1:])
        loss.backward()
        if step == 0:
            save("gpt/gpt_grad0.safetensors", {name: v.grad for name, v in p.items()})
        norm = nn.utils.clip_grad_norm_(p.values(), CLIP)
        optimizer.step()
        expected.append({"step": step, "lr": rate_at(step), "loss": loss.item(), "grad_norm_before_clip": norm.item()})
    save("gpt/gpt_final.safetensors", p)
    rows = ",\n".join(json.dumps(row) for row in expected)
    tokens = ",\n".join(json.dumps(batch) for batch in batches.tolist())
    (HERE / "gpt/gpt.json").write_text(f'{{"tokens": [\n{tokens}\n],\n"expected": [\n{rows}\n]}}\n')


# Optimizers ---------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda x: torch.optim.SGD(x, lr=0.1),
    "sgd_momentum": lambda x: torch.optim.SGD(x, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda x: torch.optim.SGD(x, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda x: torch.optim.Adam(x, lr=0.01),
    "adamw": lambda x: torch.optim.AdamW(x, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1),
}


def make_optimizers():
    """Six steps on one vector of seven; gradients from a thousandth to a hundred."""
    rows = []
    for seed, (name, new) in enumerate(OPTIMIZERS.items()):
        torch.manual_seed(seed)
        x = nn.Parameter(torch.randn(7))
        row = {"name": name, "start": x.tolist(), "grads": [], "after": []}
        optimizer = new([x])
        for step in range(6):
            x.grad = torch.randn(7) * 10.0 ** (step - 3)
            row["grads"].append(x.grad.tolist())
            optimizer.step()
            row["after"].append(x.tolist())
        rows.append(row)
    write_rows("gpt/optimizers.json", rows)


# What Accelerate makes of its variables -----------------------------------------------------------

ASKED = """
import json, os, torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
acc = Accelerator()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
x = torch.randn(64, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
model, opt, loader = acc.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-2), torch.utils.data.DataLoader(data, batch_size=4))
steps = 0
for a, b in loader:
    with acc.accumulate(model):
        acc.backward(torch.nn.functional.mse_loss(model(a).float(), b))
        opt.step()
        opt.zero_grad()
        steps += acc.sync_gradients
said = {"world": acc.num_processes, "mixed": acc.mixed_precision, "window": acc.gradient_accumulation_steps, "steps": steps}
if os.environ.get("ACCELERATE_USE_FSDP") == "true":  # as it would be where there are GPUs
    plugin = FullyShardedDataParallelPlugin()
    said |= {"fsdp": plugin.fsdp_version, "reshard": plugin.reshard_after_forward, "recompute": plugin.activation_checkpointing}
print(json.dumps(said))
acc.end_training()
"""


def ask(variables, world=2):
    """What Accelerate says on rank 0 when its ranks have these variables."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "FSDP_", "PARALLELISM_"))}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gang = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = [subprocess.Popen([sys.executable, "-c", ASKED], stdout=subprocess.PIPE, text=True,
                              env=plain | gang | variables | {"RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(world)]
    said = [rank.communicate()[0] for rank in ranks]
    assert not any(rank.returncode for rank in ranks), said
    return json.loads(said[0].splitlines()[-1])


def make_accelerate():
    """Each row of accelerate.json keeps its settings and variables, and says anew what they mean."""
    rows = json.loads((HERE / "accelerate.json").read_text())
    write_rows("accelerate.json", [row | {"said": ask(row["variables"])} for row in rows])


# Models of HuggingFace's transformers ------------------------------------------------------------

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
SMALL = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = SMALL | {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16, "intermediate_size": 24,
                 "max_position_embeddings": 20, "rms_norm_eps": 1e-5}


HEADS = {"head_dim": 8, "num_key_value_heads": 2}
LLAMA3 = {"rope_theta": 100.0, "rope_type": "llama3", "factor": 2.5, "original_max_position_embeddings": 8,
          "low_freq_factor": 0.2, "high_freq_factor": 0.8}
YARN = {"rope_theta": 100.0, "rope_type": "yarn", "factor": 2.5, "original_max_position_embeddings": 8,
        "beta_fast": 1.0, "beta_slow": 0.1}
GIVEN, CHOSEN = 8, 8  # tokens of a prompt, and that follow it
APART = 1e-3          # how much likelier, at least, beside the largest logit


def pretrained_models():
    """Name: class, config, whether it is kept in several files, too."""
    import transformers as t
    return {
        "gpt": (t.GPT2LMHeadModel, t.GPT2Config(n_layer=2, n_head=4, n_embd=16, n_positions=20, **SMALL), True),
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(num_key_value_heads=2, **LLAMA), True),
        "llama-tied": (t.LlamaForCausalLM, t.LlamaConfig(num_key_value_heads=1, tie_word_embeddings=True, **LLAMA), True),
        "llama3": (t.LlamaForCausalLM, t.LlamaConfig(attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3, **HEADS, **LLAMA), False),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(sliding_window=5, **HEADS, **LLAMA), False),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(num_key_value_heads=2, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                                    rope_parameters=YARN, tie_word_embeddings=True, **LLAMA), False),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(rope_parameters={"rope_theta": 1000000.0, "rope_type": "linear", "factor": 2.0},
                                                    **HEADS, **LLAMA), False),
    }


def choose(model, tokens):
    """The likeliest tokens that follow, each far enough from the next."""
    tokens = list(tokens)
    for _ in range(CHOSEN):
        logits = model(torch.tensor([tokens])).logits[0, -1]
        best = logits.topk(2)
        assert (best.values[0] - best.values[1]) / logits.abs().max() > APART
        tokens.append(best.indices[0].item())
    return tokens[-CHOSEN:]


def make_pretrained():
    """Each model as save_pretrained writes it; for TOKENS its logits, its loss with gradients, what it chooses."""
    for name, (kind, config, many) in pretrained_models().items():
        torch.manual_seed(11)
        model = kind(config).eval()
        for parameter in model.parameters():  # the usual small values would hide a mistake in a bias or a norm
            parameter.data += 0.1 * torch.randn_like(parameter)
        folder = HERE / "pretrained" / name
        shutil.rmtree(folder, ignore_errors=True)
        for kept, size in (("one", "1GB"), ("many", "10KB"))[:1 + many]:
            model.save_pretrained(folder / kept, max_shard_size=size)
            (folder / kept / "generation_config.json").unlink()
        tokens = torch.tensor([TOKENS])
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        save(f"pretrained/{name}/gradients.safetensors", {key: value.grad for key, value in model.named_parameters()})
        with torch.no_grad():
            logits, chosen = model(tokens).logits[0].tolist(), choose(model, TOKENS[:GIVEN])
        rows = ",\n".join(json.dumps(row) for row in logits)
        (folder / "logits.json").write_text(f'{{"tokens": {json.dumps(TOKENS)},\n"loss": {loss.item()},\n'
                                            f'"chosen": {json.dumps(chosen)},\n"logits": [\n{rows}\n]}}\n')


MAKE = {"dealing": make_dealing, "gpt": make_gpt, "optimizers": make_optimizers, "accelerate": make_accelerate,
        "pretrained": make_pretrained}

if __name__ == "__main__":
    torch.set_num_threads(1)
    (HERE / "gpt").mkdir(exist_ok=True)
    for each in sys.argv[1:] or MAKE:
        MAKE[each]()
