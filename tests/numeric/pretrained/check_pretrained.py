#!/usr/bin/python3
"""HuggingFace's transformers and libworker read each other's models. For the small models of
tests/reference/pretrained, which transformers wrote: ours that reads them has their logits, loss,
gradients and likeliest tokens, and what ours writes holds their tensors under their names and says
in config.json what theirs says. Usage: check_pretrained.py PRETRAINED_LOGITS
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import ours

REFERENCE = Path(__file__).resolve().parents[2] / "reference/pretrained"
# Of config.json; without one of these, or with another value, theirs builds another model.
RELATIVE = ("model_type architectures num_hidden_layers num_attention_heads num_key_value_heads hidden_size intermediate_size "
            "max_position_embeddings vocab_size rms_norm_eps hidden_act tie_word_embeddings")
WINDOW = " use_sliding_window sliding_window max_window_layers"
SHAPE = {
    "gpt2": "model_type architectures n_layer n_head n_embd n_positions vocab_size activation_function layer_norm_epsilon",
    "llama": RELATIVE + " head_dim attention_bias mlp_bias",
    "mistral": RELATIVE + " head_dim sliding_window",
    "qwen2": RELATIVE + WINDOW,
    "qwen3": RELATIVE + WINDOW + " head_dim attention_bias",
}


def check_tensors(theirs, tensors, number_format):
    assert set(tensors) == set(theirs), set(tensors) ^ set(theirs)
    for name, tensor in theirs.items():
        assert tensors[name].shape == tensor.shape, name
        if number_format == "f32":
            assert np.array_equal(tensors[name], tensor), name
        else:
            assert np.all(np.abs(tensors[name] - tensor) <= 2.0 ** -8 * np.abs(tensor)), name


def is_same(told, theirs):
    """Equal; numbers with a fraction are kept in float32."""
    return np.float32(told) == np.float32(theirs) if isinstance(theirs, float) else told == theirs


def check_config(told, theirs):
    for key in SHAPE[theirs["model_type"]].split():
        if key == "max_window_layers" and not theirs["use_sliding_window"]:
            continue
        assert is_same(told.get(key), theirs[key]), f"{key}: {told.get(key)}, theirs {theirs[key]}"
    scaling = (told.get("rope_scaling") or {"rope_type": "default"}) | {"rope_theta": told.get("rope_theta")}
    for key, value in (theirs.get("rope_parameters") or {}).items():
        assert is_same(scaling.get(key), value), f"{key}: {scaling.get(key)}, theirs {value}"


def check(program, name, out):
    reference = REFERENCE / name
    expected = json.loads((reference / "logits.json").read_text())
    logits = np.array(expected["logits"], np.float32)
    config = json.loads((reference / "one/config.json").read_text())
    within, gradients_within = ours.bounds(config, len(expected["tokens"]))
    for kept, number_format, file_bytes in (("one", "f32", 0), ("many", "bf16", 10000), ("many", "f32", 10000)):
        if not (reference / kept).exists():
            continue
        seen = ours.see(program, reference / kept, out / f"{name}-{kept}-{number_format}", (number_format, file_bytes), expected["tokens"])
        check_tensors(ours.read_folder(reference / kept), ours.read_folder(seen.folder), number_format)
        check_config(json.loads((seen.folder / "config.json").read_text()), config)
        off = ours.distance(seen.logits, logits)
        steep = ours.check_gradients(seen, ours.read_file(reference / "gradients.safetensors"), gradients_within)
        print(f"{name}, {kept} file, {number_format}: logits {off:.1e} from theirs, within {within:.1e}, gradients {steep:.1e}, within "
              f"{gradients_within:.1e}; our tensors and config are theirs")
        assert off < within
        assert abs(seen.loss - expected["loss"]) < within * expected["loss"], seen.loss
        assert seen.chosen == expected["chosen"], seen.chosen


with tempfile.TemporaryDirectory() as temporary:
    for each in sorted(path.name for path in REFERENCE.iterdir()):
        check(sys.argv[1], each, Path(temporary))
