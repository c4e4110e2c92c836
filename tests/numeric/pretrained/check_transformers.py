#!/usr/bin/python3
"""HuggingFace's transformers and libworker read each other's models: for small models of each family
and each kind of rotary positions, logits, loss, gradients and chosen tokens of theirs, of ours
reading their files, and the logits of theirs reading ours must agree. Usage: check_transformers.py
PRETRAINED_LOGITS. torch and transformers are found in this interpreter, in the one that
MUSTER_TRANSFORMERS_PYTHON names, or in .venv (./dev setup peers).
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
PEERS = Path(__file__).resolve().parents[3] / ".venv/bin/python"
other = os.environ.get("MUSTER_TRANSFORMERS_PYTHON") or (str(PEERS) if PEERS.exists() else None)
if other and not os.environ.get("MUSTER_CHECK_INSIDE"):
    sys.exit(subprocess.run([other, *sys.argv], env={**os.environ, "MUSTER_CHECK_INSIDE": "1"}).returncode)
try:
    import torch
    import transformers
except ImportError as missing:
    print(f"SKIPPED: {missing} (`./dev setup peers` makes .venv with it; MUSTER_TRANSFORMERS_PYTHON can name an interpreter that has it)")
    sys.exit(SKIPPED)
import ours  # noqa: E402 (needs numpy, which comes with torch)

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
SMALL = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
SIZES = SMALL | {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 44,
                 "max_position_embeddings": 40, "rms_norm_eps": 1e-5, "num_key_value_heads": 2}
YARN = {"rope_theta": 100.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10, "beta_fast": 2.0, "beta_slow": 0.1}
ROPES = {
    "linear": {"rope_theta": 100.0, "rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_theta": 100.0, "rope_type": "dynamic", "factor": 4.0},
    "llama3": {"rope_theta": 100.0, "rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 10,
               "low_freq_factor": 0.1, "high_freq_factor": 0.8},
    "yarn": YARN,
    "yarn, not rounded": YARN | {"truncate": False},
    "yarn, its factor": YARN | {"attention_factor": 0.75},
    "yarn, two factors": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5},
}
LLAMA, MISTRAL, QWEN2, QWEN3 = (getattr(transformers, f"{name}ForCausalLM") for name in ("Llama", "Mistral", "Qwen2", "Qwen3"))
MODELS = {
    "gpt": (transformers.GPT2LMHeadModel, transformers.GPT2Config(n_layer=3, n_head=4, n_embd=32, n_positions=40, **SMALL)),
    "llama": (LLAMA, transformers.LlamaConfig(**SIZES)),
    "llama, tied": (LLAMA, transformers.LlamaConfig(**SIZES | {"num_key_value_heads": 1, "tie_word_embeddings": True})),
    "llama, biases": (LLAMA, transformers.LlamaConfig(attention_bias=True, mlp_bias=True, head_dim=12, **SIZES)),
    "mistral": (MISTRAL, transformers.MistralConfig(sliding_window=None, **SIZES)),
    "mistral, window": (MISTRAL, transformers.MistralConfig(sliding_window=5, head_dim=6, **SIZES)),
    "qwen2": (QWEN2, transformers.Qwen2Config(**SIZES)),
    "qwen2, window": (QWEN2, transformers.Qwen2Config(use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                                      tie_word_embeddings=True, **SIZES)),
    "qwen3": (QWEN3, transformers.Qwen3Config(head_dim=12, tie_word_embeddings=True, **SIZES)),
    "qwen3, biases": (QWEN3, transformers.Qwen3Config(head_dim=6, attention_bias=True, use_sliding_window=True, sliding_window=6,
                                                      layer_types=["full_attention", "full_attention", "sliding_attention"], **SIZES)),
    **{f"llama, {name}": (LLAMA, transformers.LlamaConfig(rope_parameters=rope, **SIZES)) for name, rope in ROPES.items()},
}


def new_model(kind, config):
    torch.manual_seed(11)
    model = kind(config).eval()
    for parameter in model.parameters():  # the usual small values would hide a mistake in a bias or a norm
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.generation_config.eos_token_id = None
    return model


def their_logits(model):
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].float().numpy()


def check_results(model, seen, within):
    """Loss, gradients and chosen tokens."""
    tokens = torch.tensor([TOKENS])
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    gradients = {name: value.grad.numpy() for name, value in model.named_parameters()}
    steep = ours.check_gradients(seen, gradients, within[1])
    assert abs(seen.loss - loss.item()) < within[0] * loss.item(), (seen.loss, loss.item())
    model.zero_grad()
    chosen = model.generate(tokens[:, :ours.GIVEN], max_new_tokens=ours.CHOSEN, do_sample=False, pad_token_id=0)[0, ours.GIVEN:].tolist()
    assert seen.chosen == chosen, (seen.chosen, chosen)
    return steep


def check(program, name, folder):
    kind, config = MODELS[name]
    model = new_model(kind, config)
    within = ours.bounds(config.to_dict(), len(TOKENS))
    expected = their_logits(model)
    every = [("20KB", "f32", within[0]), ("1GB", "f32", within[0]), ("20KB", "bf16", 0.03)]
    for shard, number_format, bound in every if "," not in name else every[:1]:
        theirs, here = folder / f"theirs-{shard}-{number_format}", folder / f"ours-{shard}-{number_format}"
        model.save_pretrained(theirs, max_shard_size=shard)
        seen = ours.see(program, theirs, here, (number_format, 0 if shard == "1GB" else 20000), TOKENS)
        files = len(list(here.glob("*.safetensors")))
        assert (files == 1) == (shard == "1GB"), f"{files} files"
        back, told = transformers.AutoModelForCausalLM.from_pretrained(here, output_loading_info=True, dtype=torch.float32)
        assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"], told
        reading, writing = ours.distance(seen.logits, expected), ours.distance(their_logits(back.eval()), expected)
        steep = check_results(model, seen, within)
        print(f"{name}, {shard}, {number_format} in {files} files: we read theirs to {reading:.1e}, gradients to {steep:.1e}; they read "
              f"ours as {type(back).__name__} to {writing:.1e}")
        assert reading < within[0] and writing < bound, (within[0], bound)


for each in MODELS:
    with tempfile.TemporaryDirectory() as temporary:
        check(sys.argv[1], each, Path(temporary))
