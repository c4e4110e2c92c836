#!/usr/bin/python3
"""Runs benchmarks: ./dev bench [NAME...], or two builds in turns: ./dev bench NAME... --against BUILD (against.py). One
folder of bench/ is one benchmark: its run.py if it has one, else every program it built into build-release/bench. One
JSON line per figure:

    {"bench","metric","ours","peer","peer_name","ratio","unit","target"}
"""
import subprocess
import sys
from pathlib import Path

import against

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-release"


def programs(name):
    script = ROOT / "bench" / name / "run.py"
    if script.exists():
        return [["/usr/bin/python3", str(script)]]
    return [[str(p)] for p in sorted((BUILD / "bench").glob(f"bench_{name}*")) if p.is_file()]


def main():
    known = sorted(p.name for p in (ROOT / "bench").iterdir() if p.is_dir() and p.name != "__pycache__")
    if "--against" in sys.argv[:-1]:
        at = sys.argv.index("--against")
        return against.main(sys.argv[1:at] + sys.argv[at + 2:], sys.argv[at + 1])
    wanted = sys.argv[1:] or known
    for name in wanted:
        if name not in known:
            print(f"bench: there is no '{name}'; there are: {' '.join(known)}", file=sys.stderr)
            return 2
    failed = False
    for name in wanted:
        found = programs(name)
        if not found:
            print(f"bench {name}: nothing was built for it", file=sys.stderr)
            failed = True
        for command in found:
            failed |= subprocess.run(command, cwd=ROOT).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
