#!/usr/bin/python3
"""HuggingFace's transformers and libworker read each other's models. For the small GPT-2 and Llama
models of tests/reference/pretrained, which transformers wrote: the logits of ours that reads them
must be theirs, and what ours writes must hold their tensors under their names and say in config.json
what theirs says. Usage: check_pretrained.py PRETRAINED_LOGITS
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

REFERENCE = Path(__file__).resolve().parents[2] / "reference/pretrained"
LAYERS, WIDTH, INNER, LENGTH = 2, 16, 4 * 16, 16
# tests/lib/rounding.h: norms, products, softmax and its sum in each layer, and the head.
ROUNDINGS = LAYERS * (5 * WIDTH + INNER + 3 * LENGTH) + 2 * WIDTH
WITHIN = 6 * (2 * ROUNDINGS) ** 0.5 * 2.0 ** -24
# Of config.json; without one of these, or with another value, theirs builds another model.
SHAPE = {
    "gpt": "model_type architectures n_layer n_head n_embd n_positions vocab_size activation_function layer_norm_epsilon",
    "llama": "model_type architectures num_hidden_layers num_attention_heads num_key_value_heads hidden_size intermediate_size "
             "max_position_embeddings vocab_size rms_norm_eps hidden_act attention_bias mlp_bias tie_word_embeddings",
}
KINDS = {"F32": "<f4", "BF16": "<u2"}


def read_file(path):
    """A safetensors file: {name: array in float32}."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        array = np.frombuffer(raw[first:last], KINDS[entry["dtype"]])
        if entry["dtype"] == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = array.reshape(entry["shape"])
    return tensors


def read_folder(folder):
    """The tensors of a model's folder; with several files, each where the index says."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_file(folder / "model.safetensors")
    places = json.loads(index.read_text())["weight_map"]
    files = {name: read_file(folder / name) for name in sorted(set(places.values()))}
    assert len(files) > 1
    assert {name: place for place, tensors in files.items() for name in tensors} == places
    return {name: tensor for tensors in files.values() for name, tensor in tensors.items()}


def our_logits(program, folder, out, number_format, file_bytes, tokens):
    done = subprocess.run([program, folder, out, number_format, str(file_bytes)], input=" ".join(map(str, tokens)).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.float32).reshape(len(tokens), -1)


def check_tensors(theirs, ours, number_format):
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape, name
        if number_format == "f32":
            assert np.array_equal(ours[name], tensor), name
        else:
            assert np.all(np.abs(ours[name] - tensor) <= 2.0 ** -8 * np.abs(tensor)), name


def is_same(ours, theirs):
    """Equal; numbers with a fraction are kept in float32."""
    return np.float32(ours) == np.float32(theirs) if isinstance(theirs, float) else ours == theirs


def check(program, name, out):
    reference = REFERENCE / name
    expected = json.loads((reference / "logits.json").read_text())
    logits = np.array(expected["logits"], np.float32)
    for kept, number_format, file_bytes in (("one", "f32", 0), ("many", "bf16", 10000), ("many", "f32", 10000)):
        folder = out / f"{name}-{kept}-{number_format}"
        seen = our_logits(program, reference / kept, folder, number_format, file_bytes, expected["tokens"])
        off = float(np.abs(seen - logits).max() / np.abs(logits).max())
        check_tensors(read_folder(reference / kept), read_folder(folder), number_format)
        theirs, ours = (json.loads((f / "config.json").read_text()) for f in (reference / kept, folder))
        for key in SHAPE[name.split("-")[0]].split():
            assert is_same(ours.get(key), theirs[key]), f"{key}: {ours.get(key)}, theirs {theirs[key]}"
        print(f"{name}, {kept} file, {number_format}: logits {off:.1e} from theirs; our tensors and config are theirs")
        assert off < WITHIN


with tempfile.TemporaryDirectory() as temporary:
    for each in ("gpt", "llama", "llama-tied"):
        check(sys.argv[1], each, Path(temporary))
