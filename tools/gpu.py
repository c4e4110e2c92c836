#!/usr/bin/python3
"""./dev gpu: what a machine with a GPU says about the module for GPUs, in nine minutes. docs/gpu.md.

    tools/gpu.py [--fake] [--only PART,...] [--minutes N] [--results FILE]

Builds what it needs, then runs its parts in this order; each has a budget of seconds, and what does not fit is told as
cut. A line of JSON for each result as it comes, also in the file of results, and a table at the end:

    {"part": "table", "name": "gelu", "outcome": "ok", "s": 1.3}
    {"part": "train", "name": "gpt2 bf16", "outcome": "ok", "ours": 460000, "unit": "token/s", "peer": ..., "ratio": ...}

Exit status 1: something failed, or a test was cut. 2: arguments; 3: there is nothing to run on.
It runs wherever Python 3.8 does, with its standard library alone.
"""
import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 2
TABLE_LANES = 6  # processes on the GPU at a time: each has a context, and some hundred MB
MIB, GIB = 1 << 20, 1 << 30
WARM_STEPS, STEPS = 5, 20
FAKE_SLOWER = 3  # times a part's budget: other tests run on the same processors
BUILD_SHARE = 0.6  # of the time, at most: it is a quarter on a machine with 16 cores
# Losses, relative: another order of sums; bf16 has 8 bits. For FIRST_ see docs/gpu.md.
NEAR_F32, NEAR_BF16, FIRST_F32, FIRST_BF16 = 1e-4, 2e-2, 4e-6, 2**-8
F32_STEPS, NORM_F32 = 100, 1e-3
TOOLKITS = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), str(ROOT / ".cuda"), "/usr/local/cuda"]


class Outcome(Exception):
    """What ends a part early: `outcome` is failed, skipped or cut."""

    def __init__(self, outcome, why):
        super().__init__(why)
        self.outcome, self.why = outcome, why


def skipped(why):
    return Outcome("skipped", why)


def end_of(text, lines=6, chars=800):
    """What was not so, if a test says it; else the end of the output."""
    said = text.strip().splitlines()
    wrong = [line for line in said if re.search(r"not so: |error: |^FAILED", line)]
    return "\n".join(wrong[:3] or said[-lines:])[-chars:]


class Report:
    """Results as they come, and the table of them."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.file, self.rows = path, open(path, "w"), []

    def add(self, part, name, outcome="ok", **more):
        row = {"part": part, "name": name, "outcome": outcome, **more}
        line = json.dumps(row)
        print(line, flush=True)
        self.file.write(line + "\n")
        self.file.flush()
        self.rows.append(row)

    def figures(self, row):
        if "ours" not in row:
            return row.get("why", "")[:90].replace("\n", " ")
        text = f"{row['ours']:.5g} {row['unit']}"
        if "ratio" in row:
            text += f", {row['ratio']:.3g} of {row['peer']:.5g} ({row['peer_name']})"
        return text + (f", target {row['target']}" if "target" in row else "")

    def table(self):
        print()
        for row in self.rows:
            print(f"{row['part']:<12} {row['name']:<34} {row['outcome']:<8} {self.figures(row)}")
        counts = {o: sum(r["outcome"] == o for r in self.rows) for o in ("ok", "failed", "skipped", "cut")}
        print(", ".join(f"{n} {o}" for o, n in counts.items()) + f"; results are in {self.path}", flush=True)


class Gpu:
    """What there is to run on, and how programs are run on it until the end of the time."""

    def __init__(self, fake, minutes):
        self.fake, self.ends = fake, time.monotonic() + 60 * minutes
        self.build = ROOT / ("build" if fake else "build-gpu")
        self.env = dict(os.environ)
        for name in ("MUSTER_CONFIG", "MUSTER_CUDA", "MUSTER_CUDA_ARCHS", "MUSTER_GPU_PYTHON"):  # no settings of a training
            self.env.pop(name, None)
        self.budget_ends = self.ends
        self.machine = {}

    def left(self):
        return min(self.budget_ends, self.ends) - time.monotonic()

    def begin_part(self, seconds):
        self.budget_ends = time.monotonic() + seconds

    def run(self, command, seconds=math.inf, check=True, **env):
        """(exit code, output) of a command; cut when its time, its part's or all of it is over."""
        limit = min(seconds, self.left())
        if limit <= 0:
            raise Outcome("cut", "no time is left")
        return run(command, limit, {**self.env, **env}, check)

    def program(self, name, fake_name=None, folder="tests"):
        path = self.build / folder / (fake_name if self.fake and fake_name else name)
        if not path.exists():
            raise Outcome("failed", f"{path} was not built")
        return str(path)


def run(command, limit, env, check):
    process = subprocess.Popen([str(c) for c in command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: its children end, too
        out, _ = process.communicate()
        raise Outcome("cut", f"its time is over, {limit:.0f} s; the end of its output: {end_of(out, 3, 300)}") from None
    if process.returncode == 77:
        raise skipped(re.sub(r"(?s).*SKIPPED: ", "", out).strip() or "no reason given")
    if check and process.returncode:
        raise Outcome("failed", f"exit status {process.returncode}: {end_of(out)}")
    return process.returncode, out


# ---- the machine and the build ----

def nvcc_of():
    found = shutil.which("nvcc")
    for folder in filter(None, TOOLKITS):
        if not found and (Path(folder) / "bin/nvcc").exists():
            found = str(Path(folder) / "bin/nvcc")
    return found


def machine_of(gpu):
    """Name, memory and driver of GPU 0; None without one."""
    if gpu.fake:
        return {"gpu": "a fake", "driver": "none", "arch": "90", "memory_mib": 1024}
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        code, out = gpu.run(asked, 20, check=False)
    except OSError:
        return None
    fields = [f.strip() for f in out.strip().splitlines()[0].split(",")] if out.strip() else []
    if code or len(fields) != 4:
        return None
    return {"gpu": fields[0], "driver": fields[1], "arch": fields[2].replace(".", ""), "memory_mib": int(float(fields[3]))}


def commit():
    try:
        return subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def wheels_of(python):
    """Folders of NVIDIA's wheels in a Python's packages, which may have what a toolkit lacks: cuBLASLt, NCCL."""
    code = "import nvidia, sys; [print(p) for p in nvidia.__path__]"
    try:
        out = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    except OSError:
        return []
    return [sub for line in out.split() if Path(line).is_dir() for sub in sorted(Path(line).iterdir()) if sub.is_dir()]


REAL_TARGETS = ["worker", "worker-cuda", "gpu_table", "gpu_products", "gpu_attention", "gpu_optim", "gpu_elements", "gpu_train",
                "cuda_attention_gpu", "bench_gpu_train", "bench_gpu_pieces", "bench_gpu_roofs"]
FAKE_TARGETS = ["worker", "fake_module", "cuda_table", "numeric_cuda_optim", "cuda_train",
                "bench_gpu_train", "bench_gpu_pieces", "gpu_roofs_fake"]


def configure(gpu, python):
    if gpu.fake:
        return ["cmake", "--preset", "dev"]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    nvcc = nvcc_of()
    if not nvcc:
        raise Outcome("failed", "there is no nvcc: PATH, CUDA_HOME, .cuda and /usr/local/cuda have none (./dev setup cuda makes one)")
    wheels = wheels_of(python) if python else []
    prefixes = os.pathsep.join(map(str, wheels))
    gpu.env["CUDA_HOME"] = gpu.env.get("CUDA_HOME") or str(Path(nvcc).resolve().parent.parent)
    gpu.env["CMAKE_PREFIX_PATH"] = os.pathsep.join(filter(None, [gpu.env.get("CMAKE_PREFIX_PATH"), prefixes]))
    for folder in wheels:
        if (folder / "lib/libnccl.so.2").exists():
            gpu.env.setdefault("MUSTER_NCCL", str(folder / "lib/libnccl.so.2"))
        if (folder / "lib/libcudnn.so.9").exists():
            gpu.env.setdefault("MUSTER_CUDNN", str(folder / "lib/libcudnn.so.9"))
    return ["cmake", "-S", str(ROOT), "-B", str(gpu.build), *generator, "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_BUILD_TYPE=Release",
            "-DMUSTER_CONTROL_PLANE=OFF", "-DMUSTER_CUDA=on", f"-DMUSTER_CUDA_ARCHS={gpu.machine['arch']}"]


def build(gpu, report, python):
    began = time.monotonic()
    gpu.run(configure(gpu, python), 60)
    targets = FAKE_TARGETS if gpu.fake else REAL_TARGETS
    gpu.run(["cmake", "--build", str(gpu.build), "-j", str(JOBS), "--target", *targets])
    report.add("build", f"{len(targets)} targets", s=round(time.monotonic() - began, 1))
    if gpu.fake:
        gpu.env["CUDA_VISIBLE_DEVICES"] = "GPU-0"
        gpu.env["MUSTER_CUDA_MODULE"] = str(gpu.build / "tests/libfake-cuda.so")


# ---- tests ----

def one_test(gpu, report, part, name, command, seconds=60, **env):
    began = time.monotonic()
    try:
        gpu.run(command, seconds, **env)
        report.add(part, name, s=round(time.monotonic() - began, 1))
    except Outcome as end:
        report.add(part, name, end.outcome, why=end.why)


def operations():
    text = (ROOT / "libworker/cuda/op_list.h").read_text()
    return [name for name in re.findall(r"^    X\((\w+)\)", text, re.M) if name != "add_norm"]  # a plan makes that one


def table(gpu, report):
    """Every operation's row in a process of its own, as the first error of a GPU is the last of its process."""
    rows = ["gelu", "linear", "relu"] if gpu.fake else operations()
    program = gpu.program("gpu_table", "cuda_table")
    with ThreadPoolExecutor(2 if gpu.fake else TABLE_LANES) as lanes:
        list(lanes.map(lambda row: one_test(gpu, report, "table", row, [program], TEST_ROW=row), rows))


def kernels(gpu, report):
    one_test(gpu, report, "kernels", "optimizers", [gpu.program("gpu_optim", "numeric_cuda_optim")])
    if not gpu.fake:
        one_test(gpu, report, "kernels", "products", [gpu.program("gpu_products")])
        one_test(gpu, report, "kernels", "attention, every mask", [gpu.program("gpu_attention")])
        one_test(gpu, report, "kernels", "attention by cuDNN beside the own", [gpu.program("cuda_attention_gpu"), "--whole"])
        one_test(gpu, report, "kernels", "elements and sums", [gpu.program("gpu_elements")])


TRAININGS = ["every_model_trains_in_f32", "every_model_trains_in_bf16_and_fp16", "every_optimizer_updates", "a_model_may_be_cut",
             "windows_are_accumulated"]


def trainings(gpu, report):
    """GPT, Llama and MLP beside the CPU, and twice: the same bits."""
    program = gpu.program("gpu_train", "cuda_train")
    for case in TRAININGS[-1:] if gpu.fake else TRAININGS:
        one_test(gpu, report, "trainings", case.replace("_", " "), [program, case])


# ---- trainings as programs ----

def steps_of(out):
    """(parameters, steps) of a training's lines; a line that was cut in the middle is left out."""
    parameters, steps = 0, []
    for line in out.splitlines():
        try:
            found = json.loads(line) if line.startswith("{") else {}
        except ValueError:
            continue
        parameters = found.get("parameters", parameters)
        steps += [found] if "step" in found else []
    return parameters, steps


def near(ours, theirs, most):
    return len(ours) > 0 and len(ours) == len(theirs) and all(
        math.isfinite(a["loss"]) and abs(a["loss"] - b["loss"]) <= most * abs(b["loss"]) for a, b in zip(ours, theirs))


def losses(steps):
    return [round(s["loss"], 5) for s in steps]


def train_command(gpu, model, samples, length, steps, *folder):
    return [gpu.program("bench_gpu_train", folder="bench"), model, samples, length, steps, *folder]


def beside_cpu(gpu, report):
    """The same program on the CPU and on the GPU, through the module that libworker opens."""
    for model in ("gpt-tiny", "llama-tiny"):
        command = train_command(gpu, model, 4, 32, 2 if gpu.fake else 20)
        _, cpu = gpu.run(command, MUSTER_DEVICE="cpu", MUSTER_MIXED_PRECISION="no")
        _, there = gpu.run(command, MUSTER_DEVICE="cuda", MUSTER_MIXED_PRECISION="no")
        ours, theirs = steps_of(there)[1], steps_of(cpu)[1]
        report.add("programs", f"{model} beside the CPU", "ok" if near(ours, theirs, NEAR_F32) else "failed",
                   losses=losses(ours[-3:]), expected=losses(theirs[-3:]))


def port_free():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ranks_run(gpu, command, world, env):
    """The output of rank 0, and of all ranks."""
    base = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port_free()), **env}

    def one(rank):
        own = {k: v.replace("RANK", str(rank)) for k, v in base.items()}
        return gpu.run(command, RANK=str(rank), LOCAL_RANK=str(rank), **own)[1]
    with ThreadPoolExecutor(world) as lanes:
        outs = list(lanes.map(one, range(world)))
    return outs[0], "\n".join(outs)


def ranks(gpu, report):
    """Two ranks on one GPU: through their hosts, then by NCCL, which takes them if it is told of two hosts."""
    command = train_command(gpu, "gpt-tiny", 4, 32, 2 if gpu.fake else 10)
    common = {"MUSTER_DEVICE": "cuda", "MUSTER_MIXED_PRECISION": "no"}
    _, alone = gpu.run(command, **common)
    with tempfile.TemporaryDirectory() as folder:
        two_ranks(gpu, report, (command, common, folder), steps_of(alone)[1])


def two_ranks(gpu, report, what, alone):
    command, common, folder = what
    for name, env in (("2 ranks through hosts", {"MUSTER_COLLECTIVES_DEVICE": "off"}), ("2 ranks by NCCL, NCCL_HOSTID", {"NCCL_HOSTID": "host-RANK"})):
        if gpu.fake and "NCCL_HOSTID" in env:  # the fake takes two ranks of two GPUs
            env = {**env, "CUDA_VISIBLE_DEVICES": "GPU-RANK", "MUSTER_NCCL": gpu.program("libfake_nccl.so"), "FAKE_NCCL_FOLDER": folder}
        try:
            first, everything = ranks_run(gpu, command, 2, {**common, **env})
        except Outcome as end:
            report.add("ranks", name, end.outcome, why=end.why)
            continue
        refused = re.findall(r"data between the ranks passes through the hosts: (.*)", everything)
        good = near(steps_of(first)[1], alone, NEAR_F32)
        if "NCCL_HOSTID" in env and refused:
            report.add("ranks", name, "skipped" if good else "failed", why=f"refused: {refused[0]}")
        else:
            report.add("ranks", name, "ok" if good else "failed", losses=losses(steps_of(first)[1][-3:]), expected=losses(alone[-3:]))


def sanitizer(gpu, report):
    tool = shutil.which("compute-sanitizer") or next((p for p in (str(Path(t) / "bin/compute-sanitizer") for t in filter(None, TOOLKITS)) if Path(p).exists()), None)
    if gpu.fake or not tool:
        raise skipped("there is no compute-sanitizer" if not gpu.fake else "it needs a GPU; kernels run under ASan, UBSan and TSan in CI")
    program = gpu.program("gpu_table")
    for check in ("memcheck", "racecheck", "synccheck"):
        for row in ("layer_norm", "cross_entropy", "attention"):
            name = f"{check} {row}"
            try:
                _, out = gpu.run([tool, "--tool", check, "--error-exitcode", "9", program, "forward_is_the_reference"], 40, TEST_ROW=row)
                found = re.search(r"(ERROR SUMMARY: .*|RACECHECK SUMMARY: .*)", out)
                report.add("sanitizer", name, "ok" if found else "failed", why=found.group(1) if found else end_of(out))
            except Outcome as end:
                outcome = "skipped" if re.search(r"[Dd]evice not supported|not supported on", end.why) else end.outcome
                report.add("sanitizer", name, outcome, why=end.why)


# ---- figures ----

class Roofs:
    """Of this machine, in this run; 0: not measured."""
    tflops = gb_per_s = 0.0


def roofs(gpu, report):
    free = gpu.machine["memory_mib"] * MIB // 8
    size, copy = (64, 100000) if gpu.fake else (8192, min(2 * GIB, free))
    _, out = gpu.run([gpu.program("bench_gpu_roofs", "gpu_roofs_fake", folder="tests" if gpu.fake else "bench"), size, copy], 60)
    for line in filter(lambda text: text.startswith("{"), out.splitlines()):
        found = json.loads(line)
        if "tflops" in found:
            Roofs.tflops = found["tflops"]
            report.add("roofs", f"{found['roof']}, {found['size']} cubed", ours=found["tflops"], unit="TFLOP/s")
        else:
            Roofs.gb_per_s = found["gb_per_s"]
            report.add("roofs", f"{found['roof']} within the GPU", ours=found["gb_per_s"], unit="GB/s")


def share(value, roof, name):
    return {"peer": roof, "peer_name": name, "ratio": round(value / roof, 3)} if roof else {}


def pieces(gpu, report, python):
    program = gpu.program("bench_gpu_pieces", folder="bench")
    count = 5000 if gpu.fake else 124_439_808
    _, out = gpu.run([program, "adamw", count], 60)
    found = json.loads(out[out.index("{"):].splitlines()[0])
    report.add("pieces", "AdamW and clip", ours=found["gb_per_s"], unit="GB/s", ms=found["ms"], target=0.8, **share(found["gb_per_s"], Roofs.gb_per_s, "the copy"))
    for shape in ((2, 64, 4, 2, 16),) if gpu.fake else ((64, 1024, 12, 12, 64), (4, 2048, 32, 4, 64)):
        lines = []
        for setting in ("own",) if gpu.fake else ("own", "auto"):
            _, out = gpu.run([program, "attention", *shape], 60, MUSTER_ATTENTION=setting)
            lines += [(setting, line) for line in out.splitlines() if line.startswith("{")]
        torch = torch_attention(gpu, report, python, shape)
        for setting, line in lines:
            found = json.loads(line)
            way = found["piece"].split()[1]
            peer = {}
            if way in torch:
                peer = {"peer": torch[way]["tflops"], "peer_name": torch[way]["name"], "ratio": round(found["tflops"] / torch[way]["tflops"], 3)}
            report.add("pieces", f"attention: {setting}, {way} {found['shape']}", ours=found["tflops"], unit="TFLOP/s", ms=found["ms"], **peer)


PEER = ROOT / "bench/gpu/torch_peer.py"
NO_TORCH = "no Python has torch with CUDA (MUSTER_GPU_PYTHON=PYTHON)"


def peer_run(gpu, python, arguments, seconds):
    """Its output. A refusal by torch of this machine is no failure of ours; without a GPU nothing but a mistake is."""
    try:
        more, env = (["--device", "cpu"], {"OMP_NUM_THREADS": "1"}) if gpu.fake else ([], {})
        return gpu.run([python, PEER, *arguments, *more], seconds, **env)[1]
    except Outcome as end:
        raise Outcome("skipped" if end.outcome == "failed" and not gpu.fake else end.outcome, f"torch: {end.why}") from None


def torch_of(gpu):
    """(its Python, its version), or (None, why not)."""
    device = "torch.zeros(1).device" if gpu.fake else "torch.zeros(1, device='cuda').device"
    said = NO_TORCH
    for python in filter(None, [os.environ.get("MUSTER_GPU_PYTHON"), *filter(os.path.exists, [str(ROOT / ".venv/bin/python")]), shutil.which("python3")]):
        try:
            _, out = gpu.run([python, "-c", f"import torch; {device}; print('torch', torch.__version__)"], 60)
            return python, out.strip().splitlines()[-1]
        except (Outcome, OSError):
            continue
    return None, said


def torch_attention(gpu, report, python, shape):
    """{"forward": ..., "backward": ...}: the lines of the peer; empty without one, for which there is a row."""
    name = f"attention: torch {'x'.join(map(str, shape))}"
    if not python:
        report.add("pieces", name, "skipped", why=NO_TORCH)
        return {}
    try:
        out = peer_run(gpu, python, ["attention", *shape], 60)
    except Outcome as end:
        report.add("pieces", name, end.outcome, why=end.why)
        return {}
    found = {line["way"]: line for line in map(json.loads, filter(lambda text: text.startswith("{"), out.splitlines()))}
    if set(found) != {"forward", "backward"}:
        report.add("pieces", name, "failed", why=f"torch_peer.py printed neither pass: {end_of(out)}")
    return found


def step_flop(model, parameters, samples, length):
    """Six for each parameter and token, and attention's two products of all positions."""
    layers, width = {"gpt2": (12, 768), "llama-1b": (22, 2048)}.get(model, (2, 32))
    return samples * length * (6 * parameters + 6 * layers * width * length)


def median_ms(steps):
    return statistics.median(s["ms"] for s in steps[min(WARM_STEPS, len(steps) - 1):])


def fitting(gpu, model, sizes, length, steps, folder):
    """A training of the largest batch that fits: (samples, output)."""
    for samples in sizes:
        code, out = gpu.run(train_command(gpu, model, samples, length, steps, folder), 90, check=False, MUSTER_DEVICE="cuda", MUSTER_MIXED_PRECISION="bf16")
        if code == 0:
            return samples, out
        if "memory" not in out or samples == sizes[-1]:
            raise Outcome("failed", f"exit status {code}: {end_of(out)}")
        shutil.rmtree(folder, ignore_errors=True)
    raise Outcome("failed", "no sizes")


def train(gpu, report, python, model, sizes, length):
    """A bf16 step beside torch's, from the same weights over the same tokens."""
    steps = 3 if gpu.fake else WARM_STEPS + STEPS
    with tempfile.TemporaryDirectory() as folder:
        weights = folder + "/weights"
        samples, out = fitting(gpu, model, sizes, length, steps, weights)
        parameters, ours = steps_of(out)
        if not ours:
            raise Outcome("failed", f"it took no step: {end_of(out)}")
        ms, tokens = median_ms(ours), samples * length
        rate = step_flop(model, parameters, samples, length) / ms * 1e-9
        name = f"{model} bf16, {tokens} tokens"
        report.add("train", name, ours=round(tokens / ms * 1e3), unit="token/s", ms=round(ms, 3), losses=losses(ours[:3] + ours[-1:]))
        report.add("train", f"{name}, graphs", why="; ".join(re.findall(r"graphs of (.*)", out)) or "the worker did not say whether there are any")
        if Roofs.tflops:
            report.add("train", f"{name}, of GEMM", ours=round(rate, 4), unit="TFLOP/s", target=0.3, **share(rate, Roofs.tflops, "the product"))
        for way in ("eager", "compile") if python else ():
            beside_torch(gpu, report, python, way, (model, samples, length, steps, weights), out)
        if not python:
            report.add("train", f"{name}, torch", "skipped", why=NO_TORCH)
        elif gpu.fake:
            beside_torch_in_f32(gpu, report, python, (model, samples, length, steps))


def losses_near(ours, theirs, first, most):
    """Of (parameters, steps): the same number of parameters, and losses, of which the first is before any update."""
    return ours[0] == theirs[0] and near(ours[1][:1], theirs[1][:1], first) and near(ours[1][:10], theirs[1][:10], most)


def beside_torch(gpu, report, python, way, what, out):
    """`out` is what our training of the same batch printed."""
    name, tokens = f"{what[0]} bf16 beside torch {way}", what[1] * what[2]
    try:
        theirs = steps_of(peer_run(gpu, python, ["train", *what, "--way", way], 120))
    except Outcome as end:
        report.add("train", name, end.outcome, why=end.why)
        return
    ours = steps_of(out)
    if not losses_near(ours, theirs, FIRST_BF16, NEAR_BF16):
        report.add("train", name, "failed", why=f"losses {losses(ours[1][:3])}, torch's {losses(theirs[1][:3])}; parameters {ours[0]}, torch's {theirs[0]}")
        return
    ms, peer_ms = median_ms(ours[1]), median_ms(theirs[1])
    report.add("train", name, ours=round(tokens / ms * 1e3), unit="token/s", peer=round(tokens / peer_ms * 1e3), peer_name=f"torch {way}",
               ratio=round(peer_ms / ms, 3), losses=losses(ours[1][:3]), expected=losses(theirs[1][:3]), parts=theirs[1][-1]["parts"])


def beside_torch_in_f32(gpu, report, python, what):
    """The peer has the same model: in f32, over many steps, another norm, mask, rotation or activation is seen. Ours is the CPU's."""
    what = (*what[:3], F32_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        weights = folder + "/weights"
        _, out = gpu.run(train_command(gpu, *what, weights), 60, MUSTER_DEVICE="cpu", MUSTER_MIXED_PRECISION="no")
        theirs = steps_of(peer_run(gpu, python, ["train", *what, weights, "--precision", "f32"], 120))
    ours = steps_of(out)
    apart = {key: max((abs(a[key] - b[key]) / b[key] for a, b in zip(ours[1], theirs[1])), default=math.inf) for key in ("loss", "norm")}
    good = ours[0] == theirs[0] and len(ours[1]) == len(theirs[1]) and apart["loss"] <= FIRST_F32 and apart["norm"] <= NORM_F32
    report.add("train", f"{what[0]} f32 beside torch", "ok" if good else "failed", apart=apart, losses=losses(ours[1][::33]), expected=losses(theirs[1][::33]))


# ---- all of it ----

def parts_of(gpu, python):
    """(name, seconds at most, whether it is a test, what it does)."""
    gpt, llama = (("gpt-tiny", [2], 32), ("llama-tiny", [2], 32)) if gpu.fake else (("gpt2", [64, 32, 16, 8], 1024), ("llama-1b", [8, 4, 2, 1], 2048))
    return [
        ("programs", 40, True, beside_cpu),
        ("table", 90, True, table),
        ("kernels", 60, True, kernels),
        ("trainings", 60, True, trainings),
        ("ranks", 60, True, ranks),
        ("roofs", 40, False, roofs),
        ("train", 120, False, lambda g, r: train(g, r, python, *gpt)),
        ("pieces", 90, False, lambda g, r: pieces(g, r, python)),
        ("sanitizer", 120, True, sanitizer),
        ("llama", 150, False, lambda g, r: train(g, r, python, *llama)),
    ]


def arguments():
    p = argparse.ArgumentParser(prog="./dev gpu", description="Tests and benches of the module for GPUs on this machine's GPU 0 (docs/gpu.md).",
                                epilog="A line of JSON for each result, then a table. MUSTER_GPU_PYTHON names a Python with torch to stand beside.")
    p.add_argument("--fake", action="store_true", help="the same over a runtime without a GPU, in small sizes: tries the command itself")
    p.add_argument("--only", default="", metavar="PART,...", help="these parts: programs table kernels trainings ranks roofs train pieces sanitizer llama")
    p.add_argument("--minutes", type=float, default=9, help="all of it, the build included, ends in this time (9)")
    p.add_argument("--results", type=Path, metavar="FILE", help="where the lines go, too (gpu-results.jsonl in the build folder)")
    return p.parse_args()


def run_parts(gpu, report, python, only):
    for name, seconds, _, act in parts_of(gpu, python):
        if only and name not in only:
            continue
        gpu.begin_part(seconds * (FAKE_SLOWER if gpu.fake else 1))
        try:
            act(gpu, report)
        except Outcome as end:
            report.add(name, "all" if end.outcome != "failed" else "the rest", end.outcome, why=end.why)
        except Exception as mistake:  # of this script: the parts that follow still tell
            report.add(name, "the rest", "failed", why=f"{type(mistake).__name__}: {mistake}")


def main():
    a = arguments()
    gpu = Gpu(a.fake, a.minutes)
    only = set(filter(None, a.only.split(",")))
    known = {part[0] for part in parts_of(gpu, None)}
    if not only <= known:
        print(f"gpu: there is no part {', '.join(sorted(only - known))}; there are: {' '.join(part[0] for part in parts_of(gpu, None))}", file=sys.stderr)
        return 2
    gpu.machine = machine_of(gpu)
    if not gpu.machine:
        print("gpu: nvidia-smi finds no GPU here; ./dev gpu --fake runs the same over a runtime without one", file=sys.stderr)
        return 3
    report = Report(a.results or gpu.build / "gpu-results.jsonl")
    python, torch = torch_of(gpu)
    report.add("machine", gpu.machine["gpu"], driver=gpu.machine["driver"], arch=gpu.machine["arch"], memory_mib=gpu.machine["memory_mib"],
               torch=torch, commit=commit(), date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), cores=JOBS)
    try:
        gpu.begin_part(BUILD_SHARE * 60 * a.minutes)
        build(gpu, report, python)
    except Outcome as end:
        report.add("build", "all", end.outcome, why=end.why)
    else:
        run_parts(gpu, report, python, only)
    report.table()
    tests = {part[0] for part in parts_of(gpu, None) if part[2]} | {"build"}
    bad = [r for r in report.rows if r["outcome"] == "failed" or (r["outcome"] == "cut" and r["part"] in tests)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
