#!/usr/bin/python3
"""HuggingFace's transformers and libworker read each other's models: for small GPT-2 and Llama
models the logits of theirs, of ours reading their files, and of theirs reading ours must agree.
Usage: check_transformers.py PRETRAINED_LOGITS. MUSTER_TRANSFORMERS_PYTHON names an interpreter with
torch and transformers, if this one has none.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
LAYERS, WIDTH, INNER = 3, 32, 4 * 32
# tests/lib/rounding.h: norms, products, softmax and its sum in each layer, and the head.
ROUNDINGS = LAYERS * (5 * WIDTH + INNER + 3 * 16) + 2 * WIDTH
WITHIN = 6 * (2 * ROUNDINGS) ** 0.5 * 2.0 ** -24
other = os.environ.get("MUSTER_TRANSFORMERS_PYTHON")
if other and not os.environ.get("MUSTER_CHECK_INSIDE"):
    sys.exit(subprocess.run([other, *sys.argv], env={**os.environ, "MUSTER_CHECK_INSIDE": "1"}).returncode)
try:
    import numpy as np
    import torch
    import transformers
except ImportError as missing:
    print(f"SKIPPED: {missing} (MUSTER_TRANSFORMERS_PYTHON can name an interpreter that has it)")
    sys.exit(SKIPPED)

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
GPT = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=32, n_positions=40, vocab_size=50, bos_token_id=0, eos_token_id=0)
LLAMA = dict(num_hidden_layers=3, num_attention_heads=4, hidden_size=32, intermediate_size=44, max_position_embeddings=40, vocab_size=50,
             bos_token_id=0, eos_token_id=0, rms_norm_eps=1e-5)
MODELS = {
    "gpt": (transformers.GPT2LMHeadModel, GPT),
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(num_key_value_heads=2, **LLAMA)),
    "llama-tied": (transformers.LlamaForCausalLM, transformers.LlamaConfig(num_key_value_heads=1, tie_word_embeddings=True, **LLAMA)),
}


def their_logits(model):
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].float().numpy()


def our_logits(program, folder, out, number_format, file_bytes):
    done = subprocess.run([program, folder, out, number_format, str(file_bytes)], input=" ".join(map(str, TOKENS)).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.float32).reshape(len(TOKENS), -1)


def distance(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def check(program, name, folder):
    kind, config = MODELS[name]
    torch.manual_seed(11)
    model = kind(config).eval()
    for parameter in model.parameters():  # the usual small values would hide a mistake in a bias or a norm
        parameter.data += 0.1 * torch.randn_like(parameter)
    expected = their_logits(model)
    for shard, number_format, bound in (("1GB", "f32", WITHIN), ("20KB", "bf16", 0.03), ("20KB", "f32", WITHIN)):
        theirs, ours = folder / f"{name}-theirs-{shard}-{number_format}", folder / f"{name}-ours-{shard}-{number_format}"
        model.save_pretrained(theirs, max_shard_size=shard)
        seen = our_logits(program, theirs, ours, number_format, 0 if shard == "1GB" else 20000)
        files = len(list(ours.glob("*.safetensors")))
        assert (files == 1) == (shard == "1GB"), f"{files} files"
        back, told = kind.from_pretrained(ours, output_loading_info=True, torch_dtype=torch.float32)
        assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"], told
        reading, writing = distance(seen, expected), distance(their_logits(back.eval()), expected)
        print(f"{name} {shard} {number_format} in {files} files: we read theirs to {reading:.1e}, they read ours to {writing:.1e}")
        assert reading < WITHIN and writing < bound


with tempfile.TemporaryDirectory() as temporary:
    for each in MODELS:
        check(sys.argv[1], each, Path(temporary))
