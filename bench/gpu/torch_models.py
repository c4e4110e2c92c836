"""GPT-2 and Llama in torch, for torch_peer.py: loaded from the weights that bench_gpu_train saves. Their forward pass is
the mean cross-entropy of the batch. Norms and attention are torch's own operations, which have fused kernels.
"""
import json
import struct
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

# layers, heads, width, vocabulary, context; as in train.c
GPT = {"gpt2": (12, 12, 768, 50304, 1024), "gpt-tiny": (2, 2, 32, 128, 64)}
# layers, heads, heads of keys and values, width, inner width, vocabulary
LLAMA = {"llama-1b": (22, 32, 4, 2048, 5632, 32000), "llama-tiny": (2, 4, 2, 32, 48, 128)}


def attend(q, k, v):
    """Causal attention of [samples, heads, length, size]; k and v may have fewer heads."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


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


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, heads, kv, width, inner):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, width // heads
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
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
        self.embed_tokens, self.norm = nn.Embedding(vocab, width), nn.RMSNorm(width, 1e-5)
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


def model_of(name, length):
    """(the network, its heads as (queries', keys' and values', size), its vocabulary)."""
    if name in GPT:
        _, heads, width, vocab, _ = GPT[name]
        return Gpt(*GPT[name]), (heads, heads, width // heads), vocab
    _, heads, kv, width, _, vocab = LLAMA[name]
    return Llama(*LLAMA[name], length), (heads, kv, width // heads), vocab
