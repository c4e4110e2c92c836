#!/usr/bin/python3
"""House rules as a test: formatting, include arrows, fences around outside libraries, banned
functions, sizes, header contracts, drawings, plain words (tools/words.py), calls that go round
(tools/calls.py), habits that are leaving (tools/limits.py), files that no CMakeLists names, clang-tidy and cppcheck;
of python/ the types (mypy --strict), unused names (pyflakes) and sizes.

    tools/tidy.py [--fast] [--fix]     --fast leaves clang-tidy, cppcheck and mypy out; --fix formats

Exits 1 and names file, line and mend for each finding.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import calls
import limits
import words
from sources import ROOT, functions, read_layers, room_of, strip, tracked

SOURCE_ROOMS = ["common", "coordinator", "agent", "libworker", "cli", "examples", "bench", "tests"]

# Outside library -> the only files that may include it.
FENCES = {
    r"sqlite3\.h": r"coordinator/store/store_sqlite|tests/",
    r"nng/": r"common/env/net_nng",
    r"gnutls/": r"common/env/(tls|seal)|tests/",
    r"microhttpd\.h": r"coordinator/api_rest/http",
    r"zlib\.h": r"coordinator/api_rest/http|tests/",
    r"nvml\.h": r"agent/device/",
    r"jansson\.h": r"common/base/tree|tests/",
    r"yaml\.h": r"common/base/tree",
    r"(nccl|cuda_runtime|cublas\w*|cudnn\w*)\.h": r"libworker/cuda/|tests/cuda/|bench/gpu/",
    r"cblas\.h": r"libworker/kernel/|bench/",
    r"oneapi/": r"libworker/kernel/cpu/onednn",
    r"protobuf-c/": r"common/rpc/|coordinator/api_|agent/link/|libworker/session/|cli/|tests/",
}
BANNED = {
    "strcpy": "str_copy", "strcat": "buf_printf", "sprintf": "snprintf", "vsprintf": "vsnprintf",
    "strtok": "a loop over strcspn", "atoi": "str_parse_i64", "atol": "str_parse_i64",
    "atof": "str_parse_f64", "gets": "fgets", "rand": "rng_next", "srand": "rng_init",
    "gmtime": "gmtime_r", "localtime": "localtime_r", "ctime": "strftime", "asctime": "strftime",
    "strerror_l": "strerror", "system": "posix_spawn", "popen": "posix_spawn", "tmpnam": "mkstemp",
}
LIBRARY_BANNED = {"exit", "printf", "puts", "perror"}
# Functions whose signature somebody else fixed.
FIXED_SIGNATURES = {
    "nng_dialing_call": "slot of env/net.h", "tls_dialer_call": "slot of env/net.h", "net_call": "slot of env/net.h", "rpc_client_call": "the one way to call; a struct would only be filled at each call",
    "on_request": "libmicrohttpd's callback", "tls_web_no_certificate": "GnuTLS' callback", "wk_reduce_scatter": "as NCCL and MPI order it", "shard_carry": "two layouts and two pieces of memory",
}
FILE_MAX, TEST_FILE_MAX, FUNCTION_MAX, PARAMETERS_MAX, COLUMNS_MAX = 600, 900, 70, 5, 100
PYTHON_COLUMNS_MAX = 130  # of python/


def check_arrows(path, text, rooms, used):
    """Includes that tools/layers.txt does not permit; `used` gets each (room, included room)."""
    room = room_of(path, rooms)
    if room is None:
        yield 1, "is in no room of tools/layers.txt"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        quote, name = match.groups()
        for fence, allowed in FENCES.items():
            if re.match(fence, name) and not re.match(allowed, path):
                yield number, f"<{name}> may only be included by {allowed}"
        if name.startswith("proto/"):
            target = "gen"
        elif name.startswith("worker/"):
            target = "libworker/include"
        elif quote == '"':
            if not (ROOT / name).is_file() and "/" in name:
                continue  # generated at build
            if "/" not in name:
                yield number, f'"{name}": include from the repository root'
                continue
            target = room_of(name, rooms) or name
        else:
            continue
        used.add((room, target))
        if target == room or any(target == r or target.startswith(r + "/") for r in rooms[room] if r in ("common", "libworker", "tests", "bench") or r == target):
            continue
        if target in rooms[room]:
            continue
        if room in ("tests", "bench"):
            continue
        yield number, f"{room} must not include {target} (tools/layers.txt)"


def check_unused(rooms, used):
    """Permitted arrows that no include needs. Tests and benches may include everything."""
    lines = (ROOT / "tools/layers.txt").read_text().split("\n")
    for number, line in enumerate(lines, 1):
        room = line.split("->")[0].strip()
        if room in rooms and room not in ("tests", "bench"):
            idle = [target for target in rooms[room] if (room, target) not in used]
            if idle:
                yield "tools/layers.txt", number, f"nothing in {room} includes {' '.join(idle)}: take it out of the line"


def inputs_of(signature):
    """The parameters of a function, without self, outputs and the error."""
    parameters = re.match(r".*?\b\w+\s*\((.*)\)\s*(?:__attribute__.*)?$", signature).group(1)
    parameters = re.sub(r"\([^()]*\)", "", parameters).split(",")
    return [p for p in parameters if not re.search(r"(\bret\w*|\berr|\bself|^\s*void|^)\s*(\[\w*\])?\s*$", p)]


def check_text(path, raw, text):
    limit = TEST_FILE_MAX if path.startswith("tests/") else FILE_MAX
    if raw.count("\n") > limit:
        yield 1, f"{raw.count(chr(10))} lines (limit {limit}): is it still one idea?"
    if not raw.endswith("\n"):
        yield raw.count("\n") + 1, "no newline at the end"
    for number, line in enumerate(raw.split("\n"), 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns (limit {COLUMNS_MAX})"
        if line.rstrip() != line:
            yield number, "space at the end of the line"
        if re.search(r"\b(FIXME|XXX)\b", line) or re.search(r"\bTODO\b(?!\(#\d+\))", line):
            yield number, "finish it, or TODO(#issue)"
    library = not re.match(r"(cli|examples|bench|tests)/|.*/command\.c$|.*/shim\.c$|.*log_stderr", path)
    for number, line in enumerate(text.split("\n"), 1):
        for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", line):
            name = match.group(1)
            if name in BANNED and not path.startswith("tests/") and not line.lstrip().startswith("#"):
                yield number, f"{name}: use {BANNED[name]}"
            if library and (name in LIBRARY_BANNED or re.search(r"\bfprintf\s*\(\s*std(out|err)", line)):
                yield number, f"{name}: library code returns errors; programs print and exit"
    if path.endswith(".c"):
        for name, signature, line, last in functions(text):
            length, parameters = last - line + 1, len(inputs_of(signature))
            if length > FUNCTION_MAX:
                yield line, f"{name} has {length} lines (limit {FUNCTION_MAX})"
            if parameters > PARAMETERS_MAX and name not in FIXED_SIGNATURES and not path.startswith("tests/"):
                yield line, f"{name} takes {parameters} inputs (limit {PARAMETERS_MAX} beside self, outputs and the error)"


def check_header(path, raw):
    if not raw.startswith("/*"):
        yield 1, "a header opens with what it is, who owns it, which thread may call it"
    stem = re.sub(r"\W", "_", "_".join(Path(path).parts[-2:])[:-2]).upper()
    guard = re.search(r"^#ifndef (\w+)", raw, re.M)
    name = Path(path).stem.upper() + "_H"
    if not guard or not guard.group(1).endswith(name):
        yield 1, f"include guard should be {stem}_H, or with more of the path before it"


def check_drawings(raw):
    """A drawing or list in a comment ends with an empty line. Prose right under it at the comment's
    margin, or an arrow in a line that starts there, is what a tool that reflows comments leaves."""
    lines = raw.split("\n")
    for number, (above, line) in enumerate(zip(lines, lines[1:]), 2):
        if not re.match(r"\s*\* [^\s/]", line):
            continue
        indented = re.match(r"\s*\* {3,}\S", above) and line.find("*") == above.find("*")
        if indented and not re.match(r"\s*\* ([-*]|\d+\.) ", line):
            yield number, "a drawing was reflowed here: indent the line like the one above, or put ' *' between"
        elif re.match(r"\s*\* \S.*[─►▲▼│└┘┌┐┤├]", line):
            yield number, "a line of a drawing starts at the margin: indent it by two or more"


def check_built(files):
    """Every .c stands in some CMakeLists of its own folder or one above it, by name or by a GLOB."""
    lists = {f: (ROOT / f).read_text() for f in files if f.endswith("CMakeLists.txt")}
    for path in files:
        if not path.endswith(".c"):
            continue
        folder, found = Path(path).parent, False
        while not found:
            text = lists.get(str(folder / "CMakeLists.txt"), "")
            inside = str(Path(path).relative_to(folder))
            found = any(Path(inside).match(pattern) and inside.count("/") == pattern.count("/")
                        for pattern in re.findall(r"file\(GLOB [^)]*?(\S+\.c)\)", text)) or re.search(rf"\b({re.escape(Path(path).name)}|{re.escape(Path(path).stem.removeprefix('test_').removeprefix('fuzz_'))})\b", text) is not None
            if folder == Path("."):
                break
            folder = folder.parent
        if not found:
            yield path, "no CMakeLists.txt names it"


def run_tool(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check_format(files, fix):
    for i in range(0, len(files), 100):
        batch = files[i:i + 100]
        if fix:
            subprocess.run(["clang-format", "-i", *batch], cwd=ROOT, check=True)
            continue
        code, out = run_tool(["clang-format", "--dry-run", "-Werror", *batch])
        if code:
            for match in re.finditer(r"^(\S+?):(\d+):\d+: error", out, re.M):
                yield match.group(1), int(match.group(2)), "format: run tools/tidy.py --fix"


def check_deep(files):
    database = ROOT / "build"
    sources = [f for f in files if f.endswith(".c") and not f.startswith(("tests/", "bench/"))]
    if not (database / "compile_commands.json").exists():
        yield "build", 1, "configure first: ./dev build"
        return

    def one(source):
        return run_tool(["clang-tidy", "--quiet", "-p", str(database), source])[1]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for out in pool.map(one, sources):
            for match in re.finditer(rf"^{re.escape(str(ROOT))}/(\S+?):(\d+):\d+: (?:warning|error): (.*)$", out, re.M):
                yield match.group(1), int(match.group(2)), match.group(3)
    code, out = run_tool(["cppcheck", "--quiet", "-j", str(os.cpu_count()), "--std=c11", "--error-exitcode=1", "--inline-suppr",
                          "--enable=warning,portability", "--suppress=missingIncludeSystem", "--suppress=unknownMacro", "--suppress=syntaxError", "--suppress=internalAstError", "--suppress=invalidPointerCast", "--template={file}:{line}:{message}",
                          "-I", ".", "-I", "libworker/include", *[f for f in sources]])
    if code:
        for line in out.splitlines():
            match = re.match(r"(\S+?):(\d+):(.*)", line)
            if match:
                yield match.group(1), int(match.group(2)), "cppcheck: " + match.group(3)


def check_python(files, fast):
    """The package in python/. Its __init__.py imports names for others."""
    package = [f for f in files if f.startswith("python/") and f.endswith(".py")]
    for path in package:
        raw = (ROOT / path).read_text()
        if raw.count("\n") > FILE_MAX:
            yield path, 1, f"{raw.count(chr(10))} lines (limit {FILE_MAX}): is it still one idea?"
        if not raw.startswith('"""'):
            yield path, 1, "a module opens with what it is"
        for number, line in enumerate(raw.split("\n"), 1):
            if len(line) > PYTHON_COLUMNS_MAX:
                yield path, number, f"{len(line)} columns (limit {PYTHON_COLUMNS_MAX})"
    _, out = run_tool([sys.executable, "-m", "pyflakes", *(f for f in package if not f.endswith("__init__.py"))])
    for path, number, what in re.findall(r"^(\S+?):(\d+):\d+:? (.*)$", out, re.M):
        yield path, int(number), what
    if fast or not package:
        return
    code, out = run_tool([sys.executable, "-m", "mypy", "--config-file", "python/pyproject.toml", "--cache-dir", "build/mypy", *package])
    found = re.findall(r"^(\S+?):(\d+): error: (.*)$", out, re.M)
    for path, number, what in found:
        yield path, int(number), what
    if code and not found:
        yield "python/pyproject.toml", 1, f"mypy: {out.strip()[-300:]}"


def main():
    fast, fix = "--fast" in sys.argv, "--fix" in sys.argv
    files = tracked()
    rooms = read_layers()
    code = [f for f in files if f.endswith((".c", ".h")) and f.split("/")[0] in SOURCE_ROOMS]
    findings, used = [], set()
    findings += [(f, n, w) for f, n, w in check_format(code, fix)]
    for path in code:
        raw = (ROOT / path).read_text()
        text = strip(raw)
        findings += [(path, n, w) for n, w in check_arrows(path, raw, rooms, used)]
        findings += [(path, n, w) for n, w in check_text(path, raw, text)]
        findings += [(path, n, w) for n, w in check_drawings(raw)]
        if path.endswith(".h"):
            findings += [(path, n, w) for n, w in check_header(path, raw)]
    findings += [(p, 1, w) for p, w in check_built(files)]
    findings += list(check_unused(rooms, used))
    findings += list(check_python(files, fast or fix))
    for tool in (words, calls, limits):
        findings += list(tool.findings())
    if not fast and not fix:
        findings += list(check_deep(code))
    for path, number, what in sorted(set(findings)):
        print(f"{path}:{number}: {what}")
    print(f"lint: {len(code)} files, {len(set(findings))} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
