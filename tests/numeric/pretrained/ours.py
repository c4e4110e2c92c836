"""What libworker makes of a model in HuggingFace's files, for the tests that compare it with what
transformers makes of it: pretrained_logits is run, its results and the files it writes are read.
"""
import json
import subprocess
from pathlib import Path

import numpy as np

GIVEN = CHOSEN = 8  # tokens of a prompt, and that follow it
KINDS = {"F32": "<f4", "BF16": "<u2"}


class Seen:
    """logits[token, vocab], the loss of each token after the first, the tokens chosen; the folders
    of the saved model and of the loss's gradients."""

    def __init__(self, output, n_tokens, folder):
        split = len(output) - 4 * (1 + CHOSEN)
        self.logits = np.frombuffer(output[:split], np.float32).reshape(n_tokens, -1)
        self.loss = float(np.frombuffer(output[split:split + 4], np.float32)[0])
        self.chosen = np.frombuffer(output[split + 4:], np.int32).tolist()
        self.folder, self.gradients = folder, Path(f"{folder}.gradients")


def see(program, theirs, folder, written, tokens):
    """`written`: the format and the most bytes of a file."""
    done = subprocess.run([program, theirs, folder, *map(str, written)], input=" ".join(map(str, tokens)).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return Seen(done.stdout, len(tokens), folder)


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


def distance(a, b):
    """Beside the largest element."""
    return float(np.abs(a - b).max() / np.abs(b).max())


def bounds(config, length):
    """How far apart two right results are, beside the largest: of logits and losses, and of
    gradients. tests/lib/rounding.h; the roundings are those of norms, products, softmax and its sum
    in each layer, and of the head."""
    width = config.get("hidden_size") or config["n_embd"]
    heads = config.get("num_attention_heads") or config["n_head"]
    layers = config.get("num_hidden_layers") or config["n_layer"]
    inner = config.get("intermediate_size") or 4 * width
    size = config.get("head_dim") or width // heads
    wide = max(width, heads * size)
    forward = layers * (5 * wide + inner + 3 * length + 2 * size) + 2 * width
    return [6 * (2 * roundings) ** 0.5 * 2.0 ** -24 for roundings in (forward, 3 * forward + config["vocab_size"] + length)]


def check_gradients(seen, theirs, within):
    """`theirs`: {name: array}. Returns the largest distance."""
    ours = read_folder(seen.gradients)
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    far = {name: distance(ours[name], gradient) for name, gradient in theirs.items()}
    worst = max(far, key=far.get)
    assert far[worst] < within, f"the gradient of {worst} is {far[worst]:.1e} from theirs"
    return far[worst]
