"""The files of this repository and the C in them, for the tools that check it."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("tests/", "bench/", "examples/")  # C that is not of the product
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "else", "do", "__attribute__"}


def tracked():
    """Each file that git tracks or would track, sorted."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout
    return sorted({f for f in out.split("\n") if f and (ROOT / f).is_file()})


def strip(text):
    """Comments and string contents blanked, line structure kept."""
    def blank(match):
        s = match.group(0)
        if s.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", s)
        return s[0] + re.sub(r"[^\n]", " ", s[1:-1]) + s[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def product_code():
    """path -> its C, stripped, of each .c and .h of the product."""
    return {f: strip((ROOT / f).read_text()) for f in tracked()
            if f.endswith((".c", ".h")) and not f.startswith(OUTSIDE)}


def read_layers():
    """tools/layers.txt: room -> the rooms that it may include."""
    rooms = {}
    for line in (ROOT / "tools/layers.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            room, _, targets = line.partition("->")
            rooms[room.strip()] = targets.split()
    return rooms


def room_of(path, rooms):
    """The longest room that prefixes the path, or None."""
    best = [r for r in rooms if path == r or path.startswith(r + "/")]
    return max(best, key=len) if best else None


def functions(text):
    """(name, signature, first line, last line) of each function defined in stripped C, by the
    house's layout; lines count from 1."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line != "{":
            continue
        start = i - 1
        while start > 0 and lines[start - 1] and not re.match(r"^[}#]|.*;\s*$|^\s*$", lines[start - 1]):
            start -= 1
        signature = " ".join(lines[start:i])
        match = re.match(r".*?\b(\w+)\s*\((.*)\)\s*(?:__attribute__.*)?$", signature)
        if not match or "=" in signature.split("(")[0] or match.group(1) in KEYWORDS:
            continue
        end = next((j for j in range(i, len(lines)) if lines[j] == "}"), i)
        yield match.group(1), signature, start + 1, end + 1
