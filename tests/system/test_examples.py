"""The examples as their READMEs print them; a program of its own made distributed in 20 lines; one
program under every strategy, by settings alone."""
import difflib
import json
import os
import re
import shlex
import subprocess

import pytest
from localcluster import HANG_SECONDS, ROOT, free_port

EXAMPLES = ROOT / "build/examples"
ADDED_LINES_MAX = 20


def quiet_environment(**more):
    """This one without what a job or a launcher would have set."""
    launchers = ("MUSTER", "SLURM", "OMPI", "PMI", "MV2")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    return {**kept, **more}


def run(command, **settings):
    done = subprocess.run(command, cwd=ROOT, env=quiet_environment(**settings), capture_output=True, text=True, errors="replace", timeout=HANG_SECONDS)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def run_ranks(world, command, **settings):
    """As torchrun would; standard output of rank 0."""
    place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [subprocess.Popen(command, cwd=ROOT, env=quiet_environment(RANK=str(r), LOCAL_RANK=str(r), **place, **settings),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") for r in range(world)]
    outputs = [rank.communicate(timeout=HANG_SECONDS) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, outputs
    return outputs[0][0]


@pytest.mark.parametrize("strategy,precision", [("fsdp", "no"), ("zero1", "bf16"), ("fsdp", "bf16")])
def test_the_gpt_writes_the_same_text_whoever_holds_its_parts(strategy, precision):
    command = [EXAMPLES / "gpt", "--data", "LICENSE", "--steps", "4", "--layers", "2", "--width", "32", "--context", "32", "--batch", "8",
               "--warmup", "2", "--sample", "24"]
    written = [run_ranks(world, command, MUSTER_STRATEGY=under, MUSTER_MIXED_PRECISION=precision).partition("--- sample after step 4 ---\n")[2]
               for world, under in [(1, "ddp"), (3, strategy)]]
    assert written[0].startswith("And God said") and written[0] == written[1]


def losses_of(log):
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["value"] for line in lines if line["name"] == "loss"]


def printed_commands(readme):
    blocks = re.findall(r"```sh\n(.*?)```", readme.read_text(), re.S)
    lines = [line.split(" # ")[0].split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("example", ["mlp", "byo", "gan", "gpt", "resnet", "vit", "bert", "distill"])
def test_the_readme_prints_commands_that_work(make_cluster, example):
    cluster = make_cluster(nodes=2, slots=1)
    for line in printed_commands(ROOT / "examples" / example / "README.md"):
        words = shlex.split(os.path.expandvars(line.replace("$PWD", str(ROOT))))
        if words[:2] == ["build/muster", "up"]:
            continue  # the cluster of this test stands for it
        if words[0] == "build/muster":
            done = cluster.muster(*words[1:], timeout=HANG_SECONDS)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        else:
            settings = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
            run(words[len(settings):], **settings)


def test_a_program_is_made_distributed_in_twenty_lines(tmp_path):
    plain, own = ((ROOT / "examples/byo" / name).read_text().splitlines() for name in ("plain.c", "byo.c"))
    added = [line[1:] for line in difflib.unified_diff(plain, own, n=0) if re.match(r"\+(?!\+\+)", line)]
    assert 0 < len(added) <= ADDED_LINES_MAX, added
    assert all(line.count(";") <= (3 if "for (" in line else 1) for line in added), "one statement a line"

    out = run([EXAMPLES / "plain", "LICENSE", "README.md"])
    expected = [float(x) for x in re.findall(r"step \d+ loss ([\d.]+)", out)]
    assert len(expected) == 60 and expected[-1] < expected[0]
    looks = [float(x) for x in re.findall(r"held out ([\d.]+)", out)]
    samples = re.findall("sample: .*", out)
    assert len(looks) == 3 and len(samples) == 2
    for world, strategy in [(1, "ddp"), (2, "ddp"), (3, "ddp"), (2, "zero1"), (3, "zero2"), (3, "fsdp")]:
        log = tmp_path / f"{world}-{strategy}.jsonl"
        said = run_ranks(world, [EXAMPLES / "byo", "LICENSE", "README.md"], MUSTER_LOG_FILE=str(log), MUSTER_STRATEGY=strategy)
        seen = losses_of(log)
        assert len(seen) == len(expected)
        worst = max(abs(a - b) for a, b in zip(seen, expected))
        assert worst < 2e-5, f"{world} ranks, {strategy}: {worst}"  # plain prints five digits
        seen = [float(x) for x in re.findall(r"held out ([\d.]+)", said)]
        assert len(seen) == 3 and max(abs(a - b) for a, b in zip(seen, looks)) < 2e-5, (world, strategy, seen)
        assert re.findall("sample: .*", said) == samples, (world, strategy)


@pytest.mark.parametrize("strategy", ["ddp", "zero2", "fsdp"])
def test_a_generator_learns_from_its_discriminator(strategy):
    ends = [run([EXAMPLES / "gan"]), run_ranks(2, [EXAMPLES / "gan"], MUSTER_STRATEGY=strategy)]
    for out in ends:
        mean, deviation = (float(x) for x in re.findall(r"(?:mean|deviation) (-?[\d.]+)", out))
        assert abs(mean - 1) < 0.05 and abs(deviation - 0.5) < 0.05, out


# Steps, and how far the loss falls at least; of a distillation the teacher's, in the first half.
GRAPHS = {"resnet": (8, 0.97), "vit": (12, 0.95), "bert": (12, 0.75), "distill": (160, 0.8)}


@pytest.mark.parametrize("example", GRAPHS)
def test_a_model_of_any_operations_learns_alike_on_one_and_two_ranks(tmp_path, example):
    steps, falls = GRAPHS[example]
    command = [EXAMPLES / example, "--steps", str(steps), "--batch", "24"] + (["LICENSE"] if example == "bert" else [])
    seen, said = {}, {}
    for world, strategy in [(1, "ddp"), (2, "ddp"), (2, "fsdp")]:
        log = tmp_path / f"{world}-{strategy}.jsonl"
        said[world, strategy] = run_ranks(world, command, MUSTER_LOG_FILE=str(log), MUSTER_STRATEGY=strategy)
        seen[world, strategy] = losses_of(log)
    alone = seen.pop((1, "ddp"))
    steps //= 2 if example == "distill" else 1
    assert len(alone) == steps and min(alone[steps // 2:]) < falls * alone[0], alone
    for way, losses in seen.items():
        assert len(losses) == steps and max(abs(a - b) for a, b in zip(alone, losses)) < 2e-4, (way, alone, losses)
    ends = [[float(x) for x in re.search(r"loss ([\d.]+).* accuracy ([01]\.\d{3})", out).groups()] for out in said.values()]
    assert all(abs(loss - ends[0][0]) < 3e-4 and abs(accuracy - ends[0][1]) < 0.01 for loss, accuracy in ends), said


def test_each_step_shows_the_loss_of_the_model_that_trained(tmp_path):
    log = tmp_path / "log.jsonl"
    out = run([EXAMPLES / "distill", "--steps", "200"], MUSTER_LOG_FILE=str(log))
    names = [line["name"] for line in map(json.loads, log.read_text().splitlines()) if line["name"].startswith("loss")]
    assert names == ["loss"] * 100 + ["loss/2"] * 100
    shown = re.findall(r"step \d+/200  loss ([\d.]+)", out)
    assert len(shown) == 4 and shown[3] == re.search(r"loss ([\d.]+) of the student", out).group(1), out


def gpt_losses(tmp_path, world, **settings):
    name = "-".join([str(world), *settings.values()]) + ".jsonl"
    command = [EXAMPLES / "gpt", "--data", "LICENSE", "--steps", "12", "--layers", "2", "--width", "32", "--context", "32",
               "--batch", "8", "--warmup", "2", "--sample", "0"]
    run_ranks(world, command, MUSTER_LOG_FILE=str(tmp_path / name), **{f"MUSTER_{k.upper()}": v for k, v in settings.items()})
    seen = losses_of(tmp_path / name)
    assert len(seen) == 12
    return seen


@pytest.mark.parametrize("strategy", ["ddp", "zero1", "zero2", "fsdp"])
def test_gpt_takes_its_strategy_from_settings_alone(tmp_path, strategy):
    for more in ({}, {"gradient_accumulation_steps": "2"}, {"optimizer": "lion"}, {"mixed_precision": "bf16"}):
        alone = gpt_losses(tmp_path, 1, **more)
        spread = gpt_losses(tmp_path, 2, strategy=strategy, **more)
        bound = 2e-3 if "mixed_precision" in more else 1e-4
        assert max(abs(a - b) for a, b in zip(alone, spread)) < bound, more


def test_every_optimizer_is_a_setting(tmp_path):
    curves = {kind: tuple(gpt_losses(tmp_path, 1, optimizer=kind)) for kind in ("adamw", "adam", "sgd", "lion", "adafactor", "muon")}
    assert len(set(curves.values())) == len(curves), "two of them did the same"
    assert curves["adamw"] == tuple(gpt_losses(tmp_path, 1))
