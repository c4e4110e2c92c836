#!/usr/bin/python3
"""All of Muster's tests, in the order in which they find faults fastest.

    tools/test.py [STEP...]      steps: lint unit sim system web asan tsan clang; none = all

Each step prints one line when it passes and its output when it fails. The last line counts tests.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
PYTHON = "/usr/bin/python3"
# Programs with threads of their own. Criterion does not start under the thread sanitizer.
TSAN_TARGETS = ["test_loop_threads", "unit_session", "net_nng_conformance", "rpc_processes", "comm_suite", "comm_faults", "comm_groups",
                "test_train_ranks", "test_train_reform", "test_train_threads", "test_train_hooks", "test_train_join", "test_train_pair"]
TSAN_TESTS = "^(test_loop_threads|unit_session|net_nng_conformance|rpc_processes|comm_.*_threads|test_train_(ranks|reform|threads|hooks|join|pair))$"


class Failed(Exception):
    pass


def run(command, **more):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    return done.returncode, done.stdout


def build(preset, *targets):
    code, out = run(["cmake", "--preset", preset])
    if code == 0:
        code, out = run(["cmake", "--build", "--preset", preset, "-j", JOBS, *(["--target", *targets] if targets else [])])
    if code:
        errors = [line for line in out.splitlines() if not re.match(r"\[\d+/\d+\] (Building|Linking|Gen)", line)]
        raise Failed("\n".join(errors[:80]))


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


def pytest(*paths):
    present = [p for p in paths if (ROOT / p).exists()]
    if not present:
        raise Failed(f"no tests at {', '.join(paths)}")
    code, out = run([PYTHON, "-m", "pytest", "-q", "-rs", "-x", "--durations=5", *present])
    for line in re.findall(r"^SKIPPED .*$", out, re.M):
        print("   ", line)
    if code:
        raise Failed(out[-12000:])
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped)", out)}
    return counts.get("passed", 0), counts.get("failed", 0), counts.get("skipped", 0)


def step_lint():
    build("dev", "proto")  # clang-tidy reads the generated headers
    code, out = run([PYTHON, "tools/tidy.py"])
    if code:
        raise Failed(out[-8000:])
    return 1, 0, 0


def step_unit():
    build("dev")
    return ctest("dev", "-LE", "sim")


def step_sim():
    build("dev")
    return ctest("dev", "-L", "sim")


def step_system():
    build("dev")
    return pytest("tests/system")


def step_web():
    build("dev")
    return pytest("tests/web")


def step_asan():
    build("asan")
    return ctest("asan", "-LE", "sim", env={"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"})


def step_tsan():
    build("tsan", *TSAN_TARGETS)
    return ctest("tsan", "-R", TSAN_TESTS, env={"TSAN_OPTIONS": "halt_on_error=1"})


def step_clang():
    build("clang")
    return 1, 0, 0


STEPS = {name[5:]: fn for name, fn in list(globals().items()) if name.startswith("step_")}
ORDER = ["lint", "unit", "sim", "system", "web", "asan", "tsan", "clang"]


def main():
    chosen = sys.argv[1:] or ORDER
    for name in chosen:
        if name not in STEPS:
            print(f"test: '{name}' is not a step; there are: {' '.join(ORDER)}", file=sys.stderr)
            return 2
    totals = [0, 0, 0]
    start = time.monotonic()
    for name in chosen:
        began = time.monotonic()
        print(f"{name}: ...", flush=True)
        try:
            counts = STEPS[name]()
            word = "ok"
        except Failed as failure:
            print(failure, flush=True)
            counts, word = (0, 1, 0), "FAILED"
        totals = [a + b for a, b in zip(totals, counts)]
        print(f"{name}: {word}, {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped, {time.monotonic() - began:.0f} s", flush=True)
    print(f"all steps: {time.monotonic() - start:.0f} s")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
