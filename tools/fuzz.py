#!/usr/bin/python3
"""Fuzzes the parsers that meet foreign bytes: ./dev fuzz [TARGET [SECONDS]].

Targets are the fuzz_* programs of tests/fuzz, built by clang with libFuzzer, ASan and UBSan in
build-fuzz. New inputs that reach new code stay in build-fuzz/corpus; a crash prints its input.
"""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    seconds = sys.argv[2] if len(sys.argv) > 2 else "30"
    names = sorted(p.stem for p in (ROOT / "tests/fuzz").glob("fuzz_*.c"))
    if wanted and f"fuzz_{wanted.removeprefix('fuzz_')}" not in names:
        print(f"fuzz: no target '{wanted}'; there are: {' '.join(n[5:] for n in names)}", file=sys.stderr)
        return 2
    build = ROOT / "build-fuzz"
    subprocess.run(["cmake", "-G", "Ninja", "-B", build, "-S", ROOT, "-DCMAKE_C_COMPILER=clang", "-DMUSTER_FUZZ=ON",
                    "-DMUSTER_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"], check=True, stdout=subprocess.DEVNULL)
    chosen = [f"fuzz_{wanted.removeprefix('fuzz_')}"] if wanted else names
    subprocess.run(["ninja", "-C", build, *chosen], check=True, stdout=subprocess.DEVNULL)
    for name in chosen:
        corpus = build / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = ROOT / "tests/fuzz/corpus" / name.removeprefix("fuzz_")
        print(f"{name}: {seconds} s", flush=True)
        command = [str(build / "tests" / name), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1", str(corpus)]
        if seeds.is_dir():
            command.append(str(seeds))
        done = subprocess.run(command, cwd=build, capture_output=True, text=True, errors="replace")
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-6000:])
            return 1
        print("\n".join(line for line in done.stderr.splitlines() if line.startswith("stat::number") or line.startswith("stat::average")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
