"""muster model: its table, drawing and JSON, estimates that grow and shrink as they should, and what it refuses."""
import json
import subprocess

import pytest
from localcluster import HANG_SECONDS, MUSTER
from test_examples import quiet_environment

GPT = ["--gpt", "layers=2,width=64,heads=2,context=32,vocab=96"]
COUNT = 96 * 64 + 32 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64
LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64,
         "intermediate_size": 160, "max_position_embeddings": 64, "vocab_size": 200, "tie_word_embeddings": False, "rms_norm_eps": 1e-5}


def model(*words):
    return subprocess.run([MUSTER, "model", *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS, env=quiet_environment())


def answer(*words):
    done = model(*words, "-o", "json")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


def estimate(*words):
    seen = answer("estimate", *words)
    return {row["strategy"]: row for row in seen["strategies"]}, seen


def test_operations_are_listed_by_block():
    shown = answer("show", *GPT, "--batch", 3)
    assert (shown["model"], shown["samples"], shown["length"], shown["parameters"]) == ("gpt", 3, 32, COUNT)
    blocks = [block for block in shown["blocks"] if block["operations"]]
    assert [block["name"] for block in blocks] == ["embedding", "h.0", "h.1", "head"]
    for figure in ("parameters", "flop", "bytes"):
        parts = [operation[figure] for block in blocks for operation in block["operations"]]
        assert sum(parts) == pytest.approx(shown[figure]) == pytest.approx(sum(block[figure] for block in blocks))
    assert {"operation": "attention", "type": "f32", "shape": "[samples, length, 64]"}.items() <= blocks[1]["operations"][2].items()
    table = model("show", *GPT).stdout
    assert f"gpt: {COUNT} parameters" in table and "head_cross_entropy" in table and "together" in table
    assert answer("show", *GPT, "--batch", 6)["flop"] == pytest.approx(2 * shown["flop"])


def test_types_and_what_is_computed_again_are_those_of_training():
    plain, narrow = answer("show", *GPT), answer("show", *GPT, "--mixed-precision", "bf16", "--recompute", "operations")
    assert 0 < narrow["peak_bytes"] < plain["peak_bytes"] and "AGAIN" in model("show", *GPT).stdout

    def by_name(shown, name):
        return [o for block in shown["blocks"] for o in block["operations"] if o["operation"] == name]
    assert {o["type"] for o in by_name(plain, "attention")} == {"f32"} and not any(o["again"] for o in by_name(plain, "gelu"))
    assert {(o["type"], o["products"]) for o in by_name(narrow, "attention")} == {("bf16", "bf16")}
    assert all(o["again"] for o in by_name(narrow, "gelu")) and not any(o["again"] for o in by_name(narrow, "linear"))
    dashed = [line for line in model("show", *GPT, "--dot", "--recompute", "operations").stdout.splitlines() if 'style="rounded,dashed"' in line]
    assert len(dashed) == sum(o["again"] for block in narrow["blocks"] for o in block["operations"])


def test_a_drawing_has_every_operation_once():
    done = model("show", *GPT, "--dot")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert done.returncode == 0 and lines[0] == 'digraph "gpt" {' and lines[-1] == "}" and done.stdout.count("{") == done.stdout.count("}")
    nodes = {line.split()[0] for line in lines if line[1:2].isdigit() and "label=" in line}
    edges = [line.rstrip(";").split(" [")[0].split(" -> ") for line in lines if " -> " in line]
    assert len([n for n in nodes if n.startswith("n")]) == sum(len(b["operations"]) for b in answer("show", *GPT)["blocks"])
    assert edges and all(end in nodes for edge in edges for end in edge)
    assert all("[label=" in line for line in lines if line.startswith("n") and " -> n" in line), "values have their shapes along the arrows"
    assert done.stdout.count("shape=note") == done.stdout.count(".weight\\n[") + done.stdout.count(".bias\\n[")


def test_an_estimate_follows_strategy_type_batch_and_world():
    rows, seen = estimate(*GPT, "-n", 4, "--batch", 2)
    assert list(rows) == ["ddp", "zero1", "zero2", "fsdp"] and seen["parameters"] == COUNT and seen["backward_flop"] > seen["forward_flop"] > 0
    ddp = rows["ddp"]
    assert (ddp["parameters_bytes"], ddp["gradients_bytes"], ddp["optimizer_bytes"], ddp["narrow_bytes"]) == (4 * COUNT, 4 * COUNT, 8 * COUNT, 0)
    for row in rows.values():
        assert row["total_bytes"] == sum(v for k, v in row.items() if k.endswith("_bytes") and k not in ("total_bytes", "sent_bytes"))
    assert rows["fsdp"]["optimizer_bytes"] == rows["zero1"]["optimizer_bytes"] == 2 * COUNT
    more, _ = estimate(*GPT, "-n", 4, "--batch", 20)
    assert 5 < more["ddp"]["activations_bytes"] / ddp["activations_bytes"] <= 10  # what products need meanwhile does not grow
    assert seen["recompute"] == "none" and seen["again_flop"] == 0
    kept = ddp["activations_bytes"]
    for way in ("blocks", "operations", str(kept * 3 // 4)):
        again, how = estimate(*GPT, "-n", 4, "--batch", 2, "--recompute", way)
        assert again["ddp"]["activations_bytes"] < kept and how["recompute"] == way
        assert how["backward_flop"] - seen["backward_flop"] == pytest.approx(how["again_flop"]) and how["again_flop"] > 0
    assert again["ddp"]["activations_bytes"] <= kept * 3 // 4
    for action in ("show", "estimate"):
        done = model(action, *GPT, "--batch", 2, "--recompute", "4KiB")
        assert done.returncode == 1 and "bytes) at the least" in done.stderr, done.stderr
    narrow, _ = estimate(*GPT, "--mixed-precision", "bf16", "--strategy", "ddp", "--optimizer", "sgd")
    assert list(narrow) == ["ddp"] and (narrow["ddp"]["narrow_bytes"], narrow["ddp"]["optimizer_bytes"]) == (2 * COUNT, 4 * COUNT)
    whole, _ = estimate(*GPT, "--optimizer", "adafactor")
    assert list(whole) == ["ddp"] and whole["ddp"]["optimizer_bytes"] < COUNT * 4
    assert "fsdp" in model("estimate", *GPT).stdout


def test_a_folder_of_huggingface_and_its_config_are_one_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    folder, file = (answer("show", path) for path in (tmp_path, tmp_path / "config.json"))
    count = 2 * 200 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64) + 64
    assert folder == file and folder["model"] == "llama" and folder["parameters"] == count
    same = answer("show", "--llama", "layers=2,width=64,heads=4,kv_heads=2,inner=160,context=64,vocab=200")
    assert same == folder


def test_a_model_too_large_for_this_machine_is_estimated():
    rows, seen = estimate("--llama", "layers=80,width=8192,heads=64,kv_heads=8,inner=28672,vocab=32000", "-n", 64, "--mixed-precision", "bf16")
    assert 68.9e9 < seen["parameters"] < 69.1e9 and rows["ddp"]["total_bytes"] > 1e12 > rows["fsdp"]["total_bytes"]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_a_step_is_counted_with_its_update(optimizer):
    done = model("count", *GPT, "--optimizer", optimizer)
    rows = [line.split("  ") for line in done.stdout.splitlines()[1:]]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    kernels = [int(row[2]) for row in rows]
    assert done.returncode == 0 and rows[-1][0] == "together" and sum(kernels[:-1]) == kernels[-1], done.stdout
    update = {row[0]: row for row in rows if row[1] == "update"}
    assert {"sum squares", "clip the sums", optimizer, "clear memory"} <= set(update)
    assert update["clear memory"][4] == f"{4 * COUNT // 1024} KiB"  # of gradients, and some numbers


@pytest.mark.parametrize("words,said", [
    ([], "which model?"), (["--gpt", "layers=2"], "needs layers and width"), (["--gpt", "layers=2,widht=64"], "did you mean 'width'?"),
    (["--gpt", "layers=two,width=64"], "layers"), (["--gpt", "layers"], "NAME=NUMBER"), (["--gpt", "layers=2,width=65,heads=2"], "2 heads"),
    (["--gpt", "layers=2,width=99999999"], "width"), ([*GPT, "--mlp", "layers=1,width=8"], "one model at a time"),
    ([*GPT, "--length", "33"], "length"), ([*GPT, "--recompute", "some"], "6GiB"), ([*GPT, "--batch", "0"], "batch"),
    (["--llama", "layers=1024,width=16384,context=1048576,vocab=65536", "--batch", "65"], "67108864 tokens"), (["absent"], "absent"), ([*GPT, "-o", "xml"], "xml")])
def test_bad_input_is_named(words, said):
    for action in ("show", "estimate"):
        done = model(action, *words)
        assert done.returncode == 2 and not done.stdout and said in done.stderr, done.stderr


def test_bad_input_of_an_estimate_is_named(tmp_path):
    for words, said in [(["--world", "0"], "world"), (["--world", "99999999999"], "world"), (["--optimizer", "muon", "--strategy", "fsdp"], "muon"),
                        (["--low-gradients", "--strategy", "ddp"], "low_gradients"), (["--dot"], "--dot")]:
        done = model("estimate", *GPT, *words)
        assert done.returncode == 2 and not done.stdout and said in done.stderr, done.stderr
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "hidden_act": "gelu"}))
    done = model("show", tmp_path)
    assert done.returncode == 2 and "hidden_act" in done.stderr
    assert model("draw", *GPT).returncode == 2


def test_the_program_has_no_threads_of_a_blas_library():
    needed = subprocess.run(["ldd", MUSTER], capture_output=True, text=True, timeout=HANG_SECONDS).stdout
    assert "libc." in needed and not any(name in needed for name in ("blas", "dnnl", "gomp"))


@pytest.mark.parametrize("action", ["show", "estimate", "count"])
def test_values_wait_on_the_host_of_a_gpu_only(action):
    done = model(action, *GPT, "--offload-activations")
    assert done.returncode == 2 and not done.stdout and "add --device cuda" in done.stderr, done.stderr
