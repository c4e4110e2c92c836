#!/usr/bin/python3
"""All of Muster's tests.

    tools/test.py [STEP...]      steps: lint unit kernels sim gpu system web asan tsan clang; none = all
                                 long: what `all` leaves out, only by its name; attacks: the last part of it

Compilers compute, tests of processes mostly wait. So three lanes run side by side, each its steps in
this order, and a step waits for the tree it tests:

    compilers   lint, then the trees that the steps need (dev, asan, tsan), then clang
    programs    unit, kernels, sim, gpu, asan, long
    processes   system (several files at a time), web, attacks, tsan (or it would be alone at the end)

Each step prints one line when it passes and its output when it fails. The last line counts tests: the
cases that ran, those that failed, and those that were skipped, each named above with its reason.
"""
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernel_matrix
import outcome

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
PYTHON = "/usr/bin/python3"
COMPILERS_NICE = 5  # a test that waits for the clock goes before a compiler
SYSTEM_LANES = 2
# Begun first, so that none of them runs alone at the end.
LONG_FILES = ["test_moves.py", "test_report.py", "test_doors.py", "test_cli.py", "test_python.py", "test_training.py"]
# Of a handshake, of calls at the coordinator, of workers at an agent, of HTTP.
LONG_FUZZERS, LONG_FUZZ_SECONDS = ["tls", "call", "hub", "rest"], 180
# Programs with threads of their own. Criterion does not start under the thread sanitizer.
TSAN_TARGETS = ["test_loop_threads", "unit_session", "net_nng_conformance", "rpc_processes", "comm_suite", "comm_faults", "comm_groups", "comm_arenas",
                "test_train_ranks", "test_train_reform", "test_train_threads", "test_train_hooks", "test_train_join", "test_train_pair",
                "device_rehearsal", "device_orders", "device_fibers"]
TSAN_CUDA_TARGETS = ["cuda_device", "cuda_ranks"]  # where there is a CUDA toolkit: its headers
TSAN_TESTS = "^(cuda_device|cuda_ranks|test_loop_threads|unit_session|device_rehearsal|device_orders|device_fibers|net_nng_conformance|rpc_processes|comm_.*_threads|test_train_(ranks|reform|threads|hooks|join|pair))$"


# What CMake reads, and no setting of the trainings that tests run: MUSTER_CUDA=on insists on nvcc.
FOR_CMAKE = {name: os.environ.pop(name) for name in ("MUSTER_CUDA", "MUSTER_CUDA_ARCHS") if name in os.environ}


class Failed(Exception):
    pass


def run(command, **more):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    return done.returncode, done.stdout


def compute(*command):
    return run(["nice", "-n", str(COMPILERS_NICE), *command], env={**os.environ, **FOR_CMAKE})


def build(preset, *targets):
    code, out = compute("cmake", "--preset", preset)
    if code == 0:
        code, out = compute("cmake", "--build", "--preset", preset, "-j", JOBS, *(["--target", *targets] if targets else []))
    if code:
        errors = [line for line in out.splitlines() if not re.match(r"\[\d+/\d+\] (Building|Linking|Gen)", line)]
        raise Failed("\n".join(errors[:80]))


class Tree:
    """A build folder with what tests run. The lane of the compilers makes it, once; steps of the others wait for it."""

    def __init__(self, preset, *targets):
        self.preset, self.targets = preset, targets
        self.done, self.failure = threading.Event(), None

    def make(self):
        try:
            build(self.preset, *self.targets)
        except Exception as failure:
            self.failure = failure
            raise
        finally:
            self.done.set()

    def wait(self):
        self.done.wait()
        if self.failure:
            raise Failed(f"the tree {self.preset} does not build")


def ctest(preset, *selection, env=None):
    """(cases that passed, why others were skipped) of the chosen programs."""
    folder = "build" if preset == "dev" else f"build-{preset}"
    code, out = run(["ctest", "--test-dir", folder, "--output-on-failure", "-j", JOBS, *selection],
                    env={**os.environ, **outcome.VERBOSE, **(env or {})})
    if code or not re.search(r"tests passed, 0 tests failed out of [1-9]", out):
        start = out.find("***Failed")
        raise Failed(out[max(0, start - 2000):][:20000])
    log = (ROOT / folder / "Testing/Temporary/LastTest.log").read_text(errors="replace")  # out has what failed only
    return outcome.read_log(log, re.findall(r"^\s*\d+ - (\S+) \(Skipped\)$", out, re.M))


def pytest_file(path, lane, stop=True, **more):
    """(exit code, output); `lane` keeps its ports apart from those of other lanes, see localcluster.py. `stop`: at the first failure."""
    return run([PYTHON, "-m", "pytest", "-q", "-rs", *(["-x"] if stop else []), "--durations=5", "-p", "no:cacheprovider", str(path)],
               env={**os.environ, "TEST_LANE": str(lane), **more})


def pytest_counts(outputs):
    """(tests that passed, why others were skipped) of runs with -rs. A line of several tests stands for each of them."""
    passed, skipped = 0, []
    for out in outputs:
        passed += sum(map(int, re.findall(r"(\d+) passed\b", out.splitlines()[-1])))
        for number, why in re.findall(r"^SKIPPED \[(\d+)\] (.*)$", out, re.M):
            skipped += [why] * int(number)
    return passed, skipped


def pytest(folders, *lanes):
    """The files of these folders, as many at a time as there are lanes."""
    files = sorted((f for folder in folders.split() for f in (ROOT / folder).glob("test_*.py")), key=lambda f: (f.name not in LONG_FILES, f.name))
    if not files:
        raise Failed(f"no tests in {folders}")
    free = queue.SimpleQueue()
    for lane in lanes:
        free.put(lane)

    def one(path):
        lane = free.get()
        try:
            return pytest_file(path, lane)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        results = list(pool.map(one, files))
    if any(code for code, _ in results):
        raise Failed("\n".join(out[-12000:] for code, out in results if code))
    return pytest_counts([out for _, out in results])


def attacks():
    """Everything that each role can do, for three minutes each, and of all roles at once for eight: a row each of what was seen.
    MUSTER_ATTACK_S: another number of seconds, to try the command itself; TEST_LANE: another lane."""
    outputs, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table"
        for name, seconds, more in (("test_everything_at_once.py", "180", {}), ("test_everything_from_outside.py", "180", {}),
                                    ("test_everything_together.py", "480", {"MUSTER_ATTACK_ALL": "1"})):
            wanted = {"MUSTER_ATTACK_TABLE": str(table), "MUSTER_ATTACK_COPIES": "2", "MUSTER_ATTACK_S": os.environ.get("MUSTER_ATTACK_S", seconds)}
            shown = table.read_text() if table.exists() else ""
            code, out = pytest_file(ROOT / "tests/security" / name, os.environ.get("TEST_LANE", SYSTEM_LANES), stop=False, **wanted, **more)
            print(table.read_text()[len(shown):] if table.exists() else "", end="", flush=True)
            outputs.append(out)
            if code:
                failures.append(out if len(out) < 24000 else out[:12000] + "\n...\n" + out[-12000:])  # what failed is said first
    if failures:
        raise Failed("\n".join(failures))
    return pytest_counts(outputs)


def lint():
    build("dev", "proto", "module_build")  # clang-tidy reads the generated headers
    code, out = compute(PYTHON, "tools/tidy.py")
    if code:
        raise Failed(out[-8000:])
    return 1, []


def kernel_table():
    """What the kernels of the dev tree use, by GPU: nvcc.sh has said it, and refused spills."""
    table = ROOT / "build/cuda-kernels.txt"
    if not table.exists():
        return None
    rows = re.findall(r"^(sm_\d+)  .*  (\d+) registers, (\d+) bytes stack, \d+ bytes shared, (\d+) bytes spilled$", table.read_text(), re.M)
    most = {kind: max(int(row[at]) for row in rows) for at, kind in ((1, "registers"), (2, "bytes of stack"), (3, "bytes spilled"))}
    counts = Counter(row[0] for row in rows)
    if most["bytes spilled"]:
        raise Failed(f"kernels spill registers, see {table}")
    return ", ".join(f"{n} for {gpu}" for gpu, n in sorted(counts.items())) + "; at most " + ", ".join(f"{n} {kind}" for kind, n in most.items())


def gpu():
    """./dev gpu over the fakes, so that it works on the day that there is a GPU."""
    kernels_said = kernel_table()
    if not kernels_said:
        if FOR_CMAKE.get("MUSTER_CUDA") == "on":
            raise Failed("MUSTER_CUDA is on, and there are no kernels: build/cuda-kernels.txt is missing")
        return 0, ["./dev gpu --fake: no CUDA toolkit is installed"]
    print(f"  kernels: {kernels_said}; all are in build/cuda-kernels.txt", flush=True)
    code, out = run([PYTHON, "tools/gpu.py", "--fake", "--minutes", "12"])
    if code:
        raise Failed(out[-8000:])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith('{"part"')]
    skips = [f"./dev gpu --fake: {row['part']}: {row['name']}: {row['why']}" for row in rows if row["outcome"] == "skipped"]
    return sum(row["outcome"] == "ok" for row in rows), skips


def clang():
    build("clang")
    return 1, []


def fuzzers():
    """Those that stand where strangers do, see fuzz.py; the others are in ./dev fuzz."""
    for name in LONG_FUZZERS:
        code, out = compute(PYTHON, "tools/fuzz.py", name, str(LONG_FUZZ_SECONDS))
        if code:
            raise Failed(out[-8000:])
    return len(LONG_FUZZERS), []


def long():
    """All parts, also where one has failed: each takes long to run again."""
    results, failures = [], []
    for part in (lambda: kernels(full=True), fuzzers, attacks):
        try:
            results.append(part())
        except Failed as failed:
            failures.append(str(failed))
    if failures:
        raise Failed("\n".join(failures))
    return sum(passed for passed, _ in results), [why for _, skipped in results for why in skipped]


def kernels(full):
    """The numeric tests with other kernels than this machine's own choice, see kernel_matrix.py."""
    passed, skipped, failures = kernel_matrix.matrix(ROOT / "build", full, int(JOBS))
    if failures:
        raise Failed("\n".join(failures)[:20000] + "\n")
    return passed, skipped


def toolkit():
    """As cmake/cuda.cmake looks for one."""
    if FOR_CMAKE.get("MUSTER_CUDA") == "off":
        return False
    return bool(shutil.which("nvcc")) or any((Path(folder) / "bin/nvcc").exists() for folder in
                                             filter(None, [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), str(ROOT / ".cuda"), "/usr/local/cuda"]))


TREES = {"dev": Tree("dev"), "asan": Tree("asan"), "tsan": Tree("tsan", *TSAN_TARGETS, *(TSAN_CUDA_TARGETS if toolkit() else []))}
ASAN = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
# name -> (the tree it needs, what it does)
COMPILERS = {"lint": (None, lint), "clang": (None, clang)}
PROGRAMS = {
    "unit": ("dev", lambda: ctest("dev", "-LE", "sim")),
    "kernels": ("dev", lambda: kernels(full=False)),
    "sim": ("dev", lambda: ctest("dev", "-L", "sim")),
    "gpu": ("dev", gpu),
    "asan": ("asan", lambda: ctest("asan", "-LE", "sim", env=ASAN)),
    "long": ("dev", long),
}
PROCESSES = {
    "system": ("dev", lambda: pytest("tests/system tests/security", *range(SYSTEM_LANES))),
    "web": ("dev", lambda: pytest("tests/web", SYSTEM_LANES)),
    "attacks": ("dev", attacks),
    "tsan": ("tsan", lambda: ctest("tsan", "-R", TSAN_TESTS, env={"TSAN_OPTIONS": "halt_on_error=1"})),
}
STEPS = {**COMPILERS, **PROGRAMS, **PROCESSES}
ORDER = ["lint", "unit", "kernels", "sim", "gpu", "system", "web", "asan", "tsan", "clang"]
BY_NAME = ["long", "attacks"]  # not of `all`; the first does what the second does, too


def told(failure):
    """A lane goes on after whatever went wrong, our own mistakes included, or other lanes would wait for it for ever."""
    return f"{failure}\n" if isinstance(failure, Failed) else f"{type(failure).__name__}: {failure}\n"


class Report:
    """What lanes say, one at a time, and the sum of it."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, []
        self.ended, self.lock = 0, threading.Lock()

    def step(self, name):
        tree, act = STEPS[name]
        failure, passed, skipped = "", 0, []
        began = time.monotonic()
        try:
            if tree:
                TREES[tree].wait()
                began = time.monotonic()
            passed, skipped = act()
        except Exception as mistake:
            failure = told(mistake)
        word = "FAILED" if failure else "ok"
        with self.lock:
            self.passed, self.failed = self.passed + passed, self.failed + bool(failure)
            self.skipped += [f"{name}: {why}" for why in skipped]
            self.ended += 1
            print(f"{failure}{name}: {word}, {passed} passed, {int(bool(failure))} failed, {len(skipped)} skipped, {time.monotonic() - began:.0f} s", flush=True)

    def tree(self, name):
        began, failure = time.monotonic(), ""
        try:
            TREES[name].make()
        except Exception as mistake:
            failure = told(mistake)
        with self.lock:
            print(f"{failure}  tree {name}: {'FAILED' if failure else 'built'}, {time.monotonic() - began:.0f} s", flush=True)


def main():
    chosen = sys.argv[1:] or ORDER
    for name in chosen:
        if name not in STEPS:
            print(f"test: '{name}' is not a step; there are: {' '.join(ORDER + BY_NAME)}", file=sys.stderr)
            return 2
    report, start = Report(), time.monotonic()
    trees = [tree for tree in TREES if any(STEPS[name][0] == tree for name in chosen)]

    def steps(lane):
        for name in lane:
            if name in chosen:
                report.step(name)

    def compilers():
        steps(["lint"])
        for tree in trees:
            report.tree(tree)
        steps(["clang"])

    lanes = [threading.Thread(target=target, args=args, daemon=True)
             for target, args in ((compilers, ()), (steps, (PROGRAMS,)), (steps, (PROCESSES,)))]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    print(f"all steps: {time.monotonic() - start:.0f} s")
    for why, count in sorted(Counter(report.skipped).items()):
        print(f"skipped: {why}" + (f" ({count} times)" if count > 1 else ""))
    print(f"{report.passed} passed, {report.failed} failed, {len(report.skipped)} skipped")
    return 0 if report.failed == 0 and report.ended == len(set(chosen)) else 1


if __name__ == "__main__":
    sys.exit(main())
