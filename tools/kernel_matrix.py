#!/usr/bin/python3
"""The numeric tests with every kernel that this machine can run.

    tools/kernel_matrix.py [--full] [--build FOLDER] [--list]

libworker has a table of kernels per instruction set, OpenBLAS one per CPU it knows; another machine
pairs others than this one. MUSTER_KERNELS and OPENBLAS_CORETYPE choose both here. The subset takes
each of our tables with OpenBLAS's own choice, and each of OpenBLAS's with our best table, through
the programs of FEW. --full takes that subset through every program of ctest's label `numeric` and
the units of nn and optim, and every pair through FEW. A combination that fails is printed with how
to run it again; with --full each pair is printed when it is done, with what failed.
"""
import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import outcome

ROOT = Path(__file__).resolve().parent.parent
# What the kernels of OpenBLAS 0.3 need of a CPU: the flags of /proc/cpuinfo.
CORES = {
    "Prescott": "pni", "Core2": "ssse3", "Penryn": "sse4_1", "Nehalem": "sse4_2",
    "Sandybridge": "avx", "Haswell": "avx2 fma", "Zen": "avx2 fma",
    "SkylakeX": "avx512f avx512bw avx512dq avx512vl avx512cd",
    "Cooperlake": "avx512f avx512bw avx512dq avx512vl avx512cd avx512_bf16",
    "SapphireRapids": "avx512f avx512bw avx512dq avx512vl avx512cd avx512_bf16 amx_tile amx_bf16",
}
TABLES = {
    "reference": "", "cpu-own": "", "cpu-base": "", "cpu-avx2": "avx2 fma",
    "cpu-avx512": "avx2 fma avx512f avx512bw avx512dq avx512vl",
}
FEW = "^(numeric_(model|models|kernels|reference)|unit_optim_(papers|reference|optimizer|groups)|unit_nn_(model|generate))$"
ALL = "^(numeric_.*|test_train_.*|unit_optim_.*|unit_nn_.*)$"
TEST_LIMIT_S = 900
ASK = "import ctypes; f = ctypes.CDLL('libopenblas.so.0').openblas_get_corename; f.restype = ctypes.c_char_p; print(f().decode())"


def flags():
    """The instruction sets of this CPU, as Linux calls them."""
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return set(found.group(1).split()) if found else set()


def core_taken(name):
    """Whether this OpenBLAS has kernels of that name; another choice would repeat a test."""
    try:
        ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return False
    done = subprocess.run([sys.executable, "-c", ASK], env={**os.environ, "OPENBLAS_CORETYPE": name},
                          capture_output=True, text=True)
    return done.stdout.strip().lower() == name.lower()


def runnable(table):
    return [name for name, needs in table.items() if set(needs.split()) <= flags()]


def plan(full):
    """[((our table or "", OpenBLAS's kernels or ""), programs)]; "" is what the machine chooses."""
    tables, cores = runnable(TABLES), [core for core in runnable(CORES) if core_taken(core)]
    subset = [(table, "") for table in tables[:-1]] + [("", core) for core in cores]
    if not full:
        return [(pair, FEW) for pair in subset]
    return [(pair, ALL) for pair in subset] + [((table, core), FEW) for table in tables[:-1] for core in cores]


def describe(pair):
    return f"{pair[0] or 'the best table'}, OpenBLAS's {pair[1] or 'own choice'}"


def environment(pair):
    return {name: value for name, value in zip(("MUSTER_KERNELS", "OPENBLAS_CORETYPE"), pair) if value}


def programs(folder, pattern):
    """name -> command of the tests of ctest that match."""
    out = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1", "-R", pattern],
                         capture_output=True, text=True, check=True).stdout
    return {test["name"]: test["command"] for test in json.loads(out)["tests"] if "command" in test}


def run(job):
    """One program with one pair: (cases that passed, why others were skipped, what failed or None)."""
    name, command, pair = job
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=TEST_LIMIT_S, env={**os.environ, **outcome.VERBOSE, **environment(pair)})
        code, out = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, out = "none in time", str(late.stdout)
    settings = " ".join(f"{key}={value}" for key, value in environment(pair).items())
    if code in (0, outcome.SKIPPED):
        passed, skipped = outcome.read(out, code)
        return passed, [f"{settings} {name}: {why}" for why in skipped], None
    return 0, [], f"{name}: exit {code}; again: {settings} {' '.join(command)}\n{out[-3000:]}"


def matrix(folder, full, jobs):
    """(cases that passed, why others were skipped, what failed) of the tests in a build folder."""
    chosen = {pattern: programs(folder, pattern) for pattern in ((FEW, ALL) if full else (FEW,))}
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [(pair, [pool.submit(run, (name, command, pair)) for name, command in chosen[pattern].items()])
                   for pair, pattern in plan(full)]
        for pair, futures in waiting:
            done = [future.result() for future in futures]
            results += done
            if full:
                failed = [text for _, _, text in done if text]
                print(f"    {describe(pair)}: {sum(passed for passed, _, _ in done)} passed, "
                      f"{len(failed)} of {len(done)} programs failed", flush=True)
                for text in failed:
                    print(f"      {text.splitlines()[0]}", flush=True)
    return (sum(passed for passed, _, _ in results), [why for _, skipped, _ in results for why in skipped],
            [text for _, _, text in results if text])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every pair, every numeric test")
    parser.add_argument("--build", default="build", help="build folder (build)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="programs at a time")
    parser.add_argument("--list", action="store_true", help="only say which pairs there are")
    options = parser.parse_args()
    if options.list:
        for pair, pattern in plan(options.full):
            print(f"{describe(pair)}{'' if pattern == FEW else ', all numeric tests'}")
        return 0
    passed, skipped, failures = matrix(ROOT / options.build, options.full, options.jobs)
    print("\n".join(failures + skipped + [f"{passed} passed, {len(failures)} programs failed, {len(skipped)} skipped"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
