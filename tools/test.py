#!/usr/bin/python3
"""All of Muster's tests.

    tools/test.py [STEP...]      steps: lint unit kernels sim system web asan tsan clang; none = all
                                 long: what `all` leaves out, only by its name; attacks: the last part of it

Compilers compute, tests of processes mostly wait. So three lanes run side by side, each its steps in
this order, and a step waits for the tree it tests:

    compilers   lint, then the trees that the steps need (dev, asan, tsan), then clang
    programs    unit, kernels, sim, asan, tsan, long
    processes   system (several files at a time), web, attacks

Each step prints one line when it passes and its output when it fails. The last line counts tests.
"""
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernel_matrix

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
PYTHON = "/usr/bin/python3"
COMPILERS_NICE = 5  # a test that waits for the clock goes before a compiler
SYSTEM_LANES = 2
# Begun first, so that none of them runs alone at the end.
LONG_FILES = ["test_moves.py", "test_training.py", "test_bad_input.py", "test_kills.py"]
# Of a handshake, of calls at the coordinator, of workers at an agent, of HTTP.
LONG_FUZZERS, LONG_FUZZ_SECONDS = ["tls", "call", "hub", "rest"], 180
# Programs with threads of their own. Criterion does not start under the thread sanitizer.
TSAN_TARGETS = ["test_loop_threads", "unit_session", "net_nng_conformance", "rpc_processes", "comm_suite", "comm_faults", "comm_groups", "comm_arenas",
                "test_train_ranks", "test_train_reform", "test_train_threads", "test_train_hooks", "test_train_join", "test_train_pair"]
TSAN_TESTS = "^(test_loop_threads|unit_session|net_nng_conformance|rpc_processes|comm_.*_threads|test_train_(ranks|reform|threads|hooks|join|pair))$"


class Failed(Exception):
    pass


def run(command, **more):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    return done.returncode, done.stdout


def compute(*command):
    return run(["nice", "-n", str(COMPILERS_NICE), *command])


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
    """(passed, failed, skipped) of the chosen ctest tests."""
    folder = "build" if preset == "dev" else f"build-{preset}"
    code, out = run(["ctest", "--test-dir", folder, "--output-on-failure", "-j", JOBS, *selection],
                    env={**os.environ, **(env or {})})
    total = re.search(r"(\d+) tests? failed out of (\d+)", out)
    if not total:
        raise Failed(out[-4000:])
    failed, count = int(total.group(1)), int(total.group(2))
    skipped = len(re.findall(r"\*\*\*Skipped", out))
    log = (ROOT / folder / "Testing/Temporary/LastTest.log").read_text(errors="replace") # out has what failed only
    for line in sorted(set(re.findall(r"^.*SKIPPED:? .*$", log, re.M)))[:20]:
        print("   ", line.strip())
    if code or failed:
        start = out.find("***Failed")
        raise Failed(out[max(0, start - 2000):][:20000])
    return count - skipped, 0, skipped


def pytest_file(path, lane, stop=True, **more):
    """(exit code, output); `lane` keeps its ports apart from those of other lanes, see localcluster.py. `stop`: at the first failure."""
    return run([PYTHON, "-m", "pytest", "-q", "-rs", *(["-x"] if stop else []), "--durations=5", "-p", "no:cacheprovider", str(path)],
               env={**os.environ, "TEST_LANE": str(lane), **more})


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
    text = "\n".join(out for _, out in results)
    for line in re.findall(r"^SKIPPED .*$", text, re.M):
        print("   ", line)
    if any(code for code, _ in results):
        raise Failed("\n".join(out[-12000:] for code, out in results if code))
    counts = {"passed": 0, "skipped": 0}
    for number, word in re.findall(r"(\d+) (passed|skipped)\b", "\n".join(out.splitlines()[-1] for _, out in results)):
        counts[word] += int(number)
    return counts["passed"], 0, counts["skipped"]


def attacks():
    """Everything that each role can do, for three minutes each, and of all roles at once for eight: a row each of what was seen.
    MUSTER_ATTACK_S: another number of seconds, to try the command itself; TEST_LANE: another lane."""
    passed, failures = 0, []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table"
        for name, seconds, more in (("test_everything_at_once.py", "180", {}), ("test_everything_from_outside.py", "180", {}),
                                    ("test_everything_together.py", "480", {"MUSTER_ATTACK_ALL": "1"})):
            wanted = {"MUSTER_ATTACK_TABLE": str(table), "MUSTER_ATTACK_COPIES": "2", "MUSTER_ATTACK_S": os.environ.get("MUSTER_ATTACK_S", seconds)}
            shown = table.read_text() if table.exists() else ""
            code, out = pytest_file(ROOT / "tests/security" / name, os.environ.get("TEST_LANE", SYSTEM_LANES), stop=False, **wanted, **more)
            print(table.read_text()[len(shown):] if table.exists() else "", end="", flush=True)
            passed += sum(map(int, re.findall(r"(\d+) passed", out.splitlines()[-1])))
            if code:
                failures.append(out[-12000:])
    if failures:
        raise Failed("\n".join(failures))
    return passed, 0, 0


def lint():
    build("dev", "proto")  # clang-tidy reads the generated headers
    code, out = compute(PYTHON, "tools/tidy.py")
    if code:
        raise Failed(out[-8000:])
    return 1, 0, 0


def clang():
    build("clang")
    return 1, 0, 0


def fuzzers():
    """Those that stand where strangers do, see fuzz.py; the others are in ./dev fuzz."""
    for name in LONG_FUZZERS:
        code, out = compute(PYTHON, "tools/fuzz.py", name, str(LONG_FUZZ_SECONDS))
        if code:
            raise Failed(out[-8000:])
    return len(LONG_FUZZERS), 0, 0


def long():
    return tuple(map(sum, zip(kernels(full=True), fuzzers(), attacks())))


def kernels(full):
    """The numeric tests with other kernels than this machine's own choice, see kernel_matrix.py."""
    count, failures = kernel_matrix.matrix(ROOT / "build", full, int(JOBS))
    if failures:
        raise Failed("\n".join(failures)[:20000] + "\n")
    return count, 0, 0


TREES = {"dev": Tree("dev"), "asan": Tree("asan"), "tsan": Tree("tsan", *TSAN_TARGETS)}
ASAN = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
# name -> (the tree it needs, what it does)
COMPILERS = {"lint": (None, lint), "clang": (None, clang)}
PROGRAMS = {
    "unit": ("dev", lambda: ctest("dev", "-LE", "sim")),
    "kernels": ("dev", lambda: kernels(full=False)),
    "sim": ("dev", lambda: ctest("dev", "-L", "sim")),
    "asan": ("asan", lambda: ctest("asan", "-LE", "sim", env=ASAN)),
    "tsan": ("tsan", lambda: ctest("tsan", "-R", TSAN_TESTS, env={"TSAN_OPTIONS": "halt_on_error=1"})),
    "long": ("dev", long),
}
PROCESSES = {
    "system": ("dev", lambda: pytest("tests/system tests/security", *range(SYSTEM_LANES))),
    "web": ("dev", lambda: pytest("tests/web", SYSTEM_LANES)),
    "attacks": ("dev", attacks),
}
STEPS = {**COMPILERS, **PROGRAMS, **PROCESSES}
ORDER = ["lint", "unit", "kernels", "sim", "system", "web", "asan", "tsan", "clang"]
BY_NAME = ["long", "attacks"]  # not of `all`; the first does what the second does, too


def told(failure):
    """A lane goes on after whatever went wrong, our own mistakes included, or other lanes would wait for it for ever."""
    return f"{failure}\n" if isinstance(failure, Failed) else f"{type(failure).__name__}: {failure}\n"


class Report:
    """What lanes say, one at a time, and the sum of it."""

    def __init__(self):
        self.totals, self.ended, self.lock = [0, 0, 0], 0, threading.Lock()

    def step(self, name):
        tree, act = STEPS[name]
        failure, counts = "", (0, 1, 0)
        began = time.monotonic()
        try:
            if tree:
                TREES[tree].wait()
                began = time.monotonic()
            counts = act()
        except Exception as mistake:
            failure = told(mistake)
        word = "FAILED" if failure else "ok"
        with self.lock:
            self.totals = [a + b for a, b in zip(self.totals, counts)]
            self.ended += 1
            print(f"{failure}{name}: {word}, {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped, {time.monotonic() - began:.0f} s", flush=True)

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
    totals = report.totals
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 0 if totals[1] == 0 and report.ended == len(set(chosen)) else 1


if __name__ == "__main__":
    sys.exit(main())
