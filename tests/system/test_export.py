"""muster ckpt export: what it writes against the checkpoint's own shards, merged here from the
manifest alone."""
import array
import json
import shutil
import struct
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER
from test_examples import EXAMPLES, run_ranks

GPT = [EXAMPLES / "gpt", "--data", "LICENSE", "--steps", "4", "--layers", "2", "--width", "32", "--context", "32", "--batch", "8", "--warmup", "2",
       "--sample", "0"]


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t, data[8 + size:][slice(*t["data_offsets"])]) for name, t in header.items()}


def merged(folder, prefix="model."):
    """name -> (shape, bytes) of the model's tensors, by the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    names = [file["name"] for file in manifest["files"]]
    shards = {name: read_safetensors(folder / name) for name in names if name.endswith(".safetensors")}
    found = {}
    for tensor in manifest["tensors"]:
        if not tensor["name"].startswith(prefix):
            continue
        files = sorted({part["file"] for part in tensor["parts"]}, key=lambda f: min(p["start"] for p in tensor["parts"] if p["file"] == f))
        found[tensor["name"][len(prefix):]] = (tensor["shape"], b"".join(shards[names[f]][tensor["name"]][1] for f in files))
    return found


def export(folder, out, *more):
    return subprocess.run([MUSTER, "ckpt", "export", folder, out, *more], capture_output=True, text=True, timeout=HANG_SECONDS)


@pytest.mark.parametrize("world,strategy", [(1, "ddp"), (2, "fsdp")])
def test_a_checkpoint_of_any_world_becomes_one_model(tmp_path, world, strategy):
    run_ranks(world, GPT, MUSTER_STRATEGY=strategy, MUSTER_CHECKPOINT_DIR=str(tmp_path / "k"))
    folder = tmp_path / "k" / "step-00000004"
    expected = merged(folder)
    assert len(expected) == 2 + 2 * 12 + 2

    done = export(folder, tmp_path / "one")
    assert done.returncode == 0, done.stderr
    one = read_safetensors(tmp_path / "one" / "model.safetensors")
    assert set(one) == {"transformer." + name for name in expected}
    for name, (shape, data) in expected.items():
        entry, seen = one["transformer." + name]
        assert entry["dtype"] == "F32" and entry["shape"] == shape and seen == data, name
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["config.json", "model.safetensors"] and not done.stderr
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert (config["model_type"], config["n_layer"], config["n_embd"], config["n_positions"], config["vocab_size"]) == ("gpt2", 2, 32, 32, 256)
    assert config["n_head"] == 4 and config["torch_dtype"] == "float32"

    done = export(folder, tmp_path / "narrow", "--format", "bf16")
    narrow = json.loads((tmp_path / "narrow" / "config.json").read_text())
    assert done.returncode == 0 and narrow == config | {"torch_dtype": "bfloat16"}

    # A checkpoint of before says nothing of its model.
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest.pop("models")) == 1 and manifest.pop("crc32c")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = export(folder, tmp_path / "before")
    assert done.returncode == 0 and "without a config.json" in done.stderr and "--config" in done.stderr, done.stderr
    assert not (tmp_path / "before" / "config.json").exists()

    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    done = export(folder, tmp_path / "many", "--file-size", "20KiB", "--format", "bf16", "--config", tmp_path / "config.json")
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "many" / "model.safetensors.index.json").read_text())
    files = {name: read_safetensors(tmp_path / "many" / name) for name in set(index["weight_map"].values())}
    assert len(files) > 2 and set(index["weight_map"]) == set(one)
    assert index["metadata"]["total_size"] == sum(len(data) for _, data in expected.values()) // 2
    for name, file in index["weight_map"].items():
        entry, seen = files[file][name]
        exact, narrow = array.array("I", one[name][1]), array.array("H", seen)
        assert entry["dtype"] == "BF16" and all(abs((n << 16) - x) <= 1 << 15 for n, x in zip(narrow, exact)), name
    assert (tmp_path / "many" / "config.json").read_text() == '{"model_type": "gpt2"}'


@pytest.mark.parametrize("world,strategy", [(1, "ddp"), (2, "zero2")])
def test_one_of_several_models_is_exported_by_its_number(tmp_path, world, strategy):
    run_ranks(world, [EXAMPLES / "gan"], MUSTER_STRATEGY=strategy, MUSTER_CHECKPOINT_DIR=str(tmp_path / "k"))
    folder = max((tmp_path / "k").glob("step-*"))
    expected = {number: merged(folder, f"{number}.model.") for number in (1, 2)}
    listed = ", ".join(f"{number} of {len(expected[number])}" + " tensors" * (number == 1) for number in (1, 2))
    for number in (1, 2):
        done = export(folder, tmp_path / str(number), "--model", str(number))
        assert done.returncode == 0, done.stderr
        seen = read_safetensors(tmp_path / str(number) / "model.safetensors")
        assert set(seen) == set(expected[number]) and seen
        for name, (shape, data) in expected[number].items():
            assert seen[name][0]["shape"] == shape and seen[name][1] == data, name
        assert "without a config.json" in done.stderr and not (tmp_path / str(number) / "config.json").exists()
    for more, code, said in [((), 1, f"it has several models: {listed}"), (("--model", "3"), 1, f"it has no model 3: {listed}"),
                             (("--model", "0"), 2, "1..16")]:
        done = export(folder, tmp_path / "out", *more)
        assert done.returncode == code and said in done.stderr and "--model" in done.stderr, done.stderr
        assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_said_and_leaves_nothing(tmp_path):
    run_ranks(1, GPT, MUSTER_CHECKPOINT_DIR=str(tmp_path / "k"))
    folder = tmp_path / "k" / "step-00000004"
    for words, code, said in [([tmp_path / "absent", tmp_path / "out"], 1, "there is no folder"), ([tmp_path, tmp_path / "out"], 1, "manifest.json"),
                              ([folder, tmp_path / "k"], 1, "no empty folder"), ([folder], 2, "a folder to make"),
                              ([folder, tmp_path / "out", "--format", "fp8"], 2, "fp8"), ([folder, tmp_path / "out", "--config", "absent"], 1, "absent")]:
        done = subprocess.run([MUSTER, "ckpt", "export", *words], capture_output=True, text=True, timeout=HANG_SECONDS)
        assert done.returncode == code and said in done.stderr, (words, done.returncode, done.stderr)
    done = export(folder, tmp_path / "out", "--model", "2")
    assert done.returncode == 1 and "it has one model, not 2" in done.stderr, done.stderr
    assert export(folder, tmp_path / "alone", "--model", "1").returncode == 0
    shard = next(folder.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-100] ^= 1
    shard.write_bytes(data)
    for _ in range(2):  # the last tensor of a shard may be the optimizer's
        done = export(folder, tmp_path / "out")
        if done.returncode:
            break
        shutil.rmtree(tmp_path / "out")
        size, = struct.unpack_from("<Q", data)
        data[8 + size + 100] ^= 1
        shard.write_bytes(data)
    assert done.returncode == 1 and "digest" in done.stderr
    assert not [p for p in tmp_path.iterdir() if "tmp" in p.name]
