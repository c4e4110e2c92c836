#!/usr/bin/python3
"""Habits that this code is leaving, counted: each figure has a limit that only goes down.

    tools/limits.py [--list] [KIND...]     --list shows each place; a KIND keeps to one line of the table

Read are the .c and .h of the product: not tests, bench and examples. tools/tidy.py fails when a
figure is above its limit. To lower one: mend some places, run this, and write the new figure here.
Never raise one: mend the new place instead.
"""
import re
import sys

from sources import ROOT, functions, product_code

HEADER_MAX = 120  # lines of a header of one room; libworker/include is for the users of the library

# Headers that are longer today -> their lines.
LONG_HEADERS = {
    "libworker/kernel/cpu/fast_update.h": 273,
    "libworker/kernel/kernel.h": 265,
    "libworker/nn/model.h": 200,
    "libworker/optim/optimizer.h": 186,
}

# kind -> (limit, what is looked for in code without comments and texts, what to write instead)
PATTERNS = {
    "bare sizeof": (0, r"\bsizeof\b\s*[^\s(.]", "sizeof(x)"),
    "rc chain": (37, r"\brc\s*\?\s*rc\s*:", "an early return: if (rc) return rc;"),
    "return rc or": (32, r"\breturn\s+rc\s*(?:\|\||\?)", "an early return, then the call"),
    "rc compared with 0": (47, r"\brc (?:[=!<>]=|[<>]) 0\b", "if (rc) or if (!rc), where a function returns 0 or an error"),
    "array grown by hand": (6, r"\w*capacity \* 2\b", "array_reserve of common/base/array.h"),
}
RETURN = re.compile(r"\breturn\b([^;]*);")
SUM = re.compile(r"\+=([^;]*);")
CONDITION = re.compile(r"^\s*!\w|==|!=|<=|>=|&&|\|\||[^-<]<[^<]|[^->]>[^>]")
PLURAL = re.compile(r"[!=]= 1 \? \"\" : \"s\"")
ONE_WORD_FILES = 5  # a static function's name of one word is counted when it stands in so many files
OTHER_LIMITS = {"comma return": 2, "sum of a condition": 6, "plural by hand": 2, "one-word statics": 5}
MEND = {kind: mend for kind, (_, _, mend) in PATTERNS.items()} | {
    "comma return": "two statements",
    "sum of a condition": "if (condition) n++;",
    "plural by hand": "plural of common/base/str.h",
    "one-word statics": "a name that says what is done to what",
}


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def outside_brackets(expression):
    """An expression without what stands in its brackets; "" when they do not match."""
    while re.search(r"[([{][^][(){}]*[])}]", expression):
        expression = re.sub(r"[([{][^][(){}]*[])}]", "", expression)
    return "" if re.search(r"[][(){}]", expression) else expression


def places_of_text(path, text):
    """(kind, path, line, what) of the kinds that one file shows."""
    for kind, (_, pattern, _) in PATTERNS.items():
        for match in re.finditer(pattern, text):
            yield kind, path, line_of(text, match.start()), match.group(0)
    for match in RETURN.finditer(text):
        if "," in outside_brackets(match.group(1)):
            yield "comma return", path, line_of(text, match.start()), match.group(0)
    for match in SUM.finditer(text):
        sum_of = outside_brackets(match.group(1))
        if CONDITION.search(sum_of) and "?" not in sum_of:
            yield "sum of a condition", path, line_of(text, match.start()), match.group(0)
    raw = (ROOT / path).read_text()
    for match in PLURAL.finditer(raw):
        yield "plural by hand", path, line_of(raw, match.start()), match.group(0)


def one_word_statics(code):
    """(kind, path, line, name) of each, see ONE_WORD_FILES."""
    found = {}
    for path, text in code.items():
        for name, signature, line, _ in functions(text):
            if signature.startswith("static") and "_" not in name:
                found.setdefault(name, {})[path] = line
    for name, files in sorted(found.items()):
        if len(files) >= ONE_WORD_FILES:
            for path, line in files.items():
                yield "one-word statics", path, line, name


def places():
    code = product_code()
    for path, text in code.items():
        yield from places_of_text(path, text)
    yield from one_word_statics(code)


def limits():
    return {kind: limit for kind, (limit, _, _) in PATTERNS.items()} | OTHER_LIMITS


def long_headers():
    """(path, lines) of each header of a room that is longer than HEADER_MAX."""
    for path in product_code():
        if path.endswith(".h") and not path.startswith("libworker/include/"):
            lines = (ROOT / path).read_text().count("\n")
            if lines >= HEADER_MAX:
                yield path, lines


def findings():
    """For tools/tidy.py: (path, line, what) of each figure above its limit, and of its places."""
    found = list(places())
    for kind, limit in limits().items():
        of_kind = [p for p in found if p[0] == kind]
        if len(of_kind) > limit:
            yield "tools/limits.py", 1, (f"{kind}: {len(of_kind)} places (limit {limit}); write {MEND[kind]}; "
                                         f"tools/limits.py --list '{kind}' shows them")
    for path, lines in long_headers():
        limit = LONG_HEADERS.get(path, HEADER_MAX - 1)
        if lines > limit:
            yield path, 1, f"{lines} lines (limit {limit}): a header declares one concern; cut it in two"


def main():
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    found = [p for p in places() if not only or p[0] in only]
    if "--list" in sys.argv:
        for kind, path, line, what in sorted(found, key=lambda p: (p[0], p[3], p[1])):
            print(f"{path}:{line}: {kind}: {' '.join(what.split())}")
    for kind, limit in limits().items():
        if not only or kind in only:
            print(f"{kind:22} {sum(p[0] == kind for p in found):5}   limit {limit}")
    for path, lines in long_headers():
        print(f"long header {path:45} {lines:5}   limit {LONG_HEADERS.get(path, HEADER_MAX - 1)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
