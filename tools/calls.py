#!/usr/bin/python3
"""The calls between the files of a room, which point one way: a file calls files below it, and none
of those calls it back.

    tools/calls.py [--list] [ROOM...]     --list shows each arrow between files with its calls

A file is a .c with the .h of its name. It calls another one when a function of it calls a function
of the other, uses its name as a value (a callback, a slot of a table) or uses its table. Calls
through a pointer are not seen, nor are calls into other rooms: tools/layers.txt has those.
tools/tidy.py fails when files of a room stand in a circle: move the function that is called upwards
to a file below its callers.
"""
import re
import sys

from sources import functions, product_code, read_layers, room_of

# Not checked: these rooms are to be redesigned as one graph of tensors, which replaces their calls.
EXEMPT = {"libworker/nn", "libworker/kernel"}

WORD = re.compile(r"[A-Za-z_]\w*")
TABLE = re.compile(r"^(?!static\b|extern\b|typedef\b)[A-Za-z_][\w *]*?\b(\w+)(?:\[\w*\])*\s*=", re.M)
STATEMENT = {"return", "else", "case", "goto", "sizeof", "do"}


def unit_of(path):
    """common/base/str.c and str.h -> common/base/str."""
    return re.sub(r"\.[ch]$", "", path)


class File:
    """What one .c or .h defines, and its pieces of code that may use another file."""

    def __init__(self, path, text):
        lines = text.split("\n")
        self.unit, self.public, self.own = unit_of(path), set(), set()
        self.code = []  # (who, is it a function, its words, its text)
        for name, signature, first, last in functions(text):
            static = signature.startswith("static") and not path.endswith(".h")
            (self.own if static else self.public).add(name)
            self.add(name, True, "\n".join(lines[first - 1:last]))
            lines[first - 1:last] = [""] * (last - first + 1)
        rest = "\n".join(lines)
        if path.endswith(".c"):
            self.public |= set(TABLE.findall(rest))
        for match in re.finditer(r"^#define\s+(\w+)((?:.*\\\n)*.*)$", rest, re.M):
            self.add(match.group(1), True, match.group(2))
        for match in re.finditer(r"\b(\w+)(?:\[\w*\])*\s*=\s*(\{[^;]*|&?\w+);", rest):
            self.add(match.group(1), False, match.group(2))

    def add(self, who, is_function, text):
        self.code.append((who, is_function, set(WORD.findall(text)), text))


def is_member(before):
    return before.endswith((".", "->"))


def is_declared(before, after):
    """Whether a word between these texts is a variable or a parameter that is declared there."""
    typed = re.search(r"(\w+)[ *]*$", before)
    return typed and typed.group(1) not in STATEMENT and re.match(r"=(?!=)|[;,)\[:]", after)


def names_it(word, is_function, text):
    """Whether a piece of code means the function or table of that name, and not a member or a
    variable of its own."""
    used = False
    for match in re.finditer(rf"\b{word}\b", text):
        before, after = text[:match.start()].rstrip(), text[match.end():match.end() + 9].lstrip()
        if is_member(before):
            continue
        if is_function and is_declared(before[-60:], after):
            return False
        used = True
    return used


def read_rooms():
    """room -> its files, of each room that is looked at."""
    layers, rooms = read_layers(), {}
    for path, text in product_code().items():
        room = room_of(path, layers)
        if room and room not in EXEMPT:
            rooms.setdefault(room, []).append(File(path, text))
    return rooms


def arrows(files):
    """(user, used) -> "caller -> callee" of each pair of files of a room."""
    owner = {}
    for file in files:
        for name in file.public:
            owner[name] = None if owner.get(name, file.unit) != file.unit else file.unit
    found = {}
    for file in files:
        for who, is_function, words, text in file.code:
            for word in (words & owner.keys()) - file.own:
                used = owner[word]
                if used and used != file.unit and names_it(word, is_function, text):
                    found.setdefault((file.unit, used), []).append(f"{who} -> {word}")
    return found


def components(pairs):
    """The sets of files that reach each other, of two files or more: Tarjan 1972."""
    graph, index, low, stack, found = {}, {}, {}, [], []
    for a, b in pairs:
        graph.setdefault(a, []).append(b)

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return [c for c in found if len(c) > 1]


def shortest_circle(circle, pairs):
    """The arrows of a shortest way from the first file of a circle back to it."""
    ways, seen = [[pair] for pair in sorted(pairs) if pair[0] == circle[0]], set()
    for way in ways:
        at = way[-1][1]
        if at == circle[0]:
            return way
        if at in circle and at not in seen:
            seen.add(at)
            ways += [way + [pair] for pair in sorted(pairs) if pair[0] == at]
    return []


def name_calls(pairs, pair):
    calls = sorted(pairs[pair])
    shown = ", ".join(calls[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
    return f"{pair[0].split('/')[-1]} -> {pair[1].split('/')[-1]} ({shown})"


def findings():
    """For tools/tidy.py: (path, line, what) of each room with a circle."""
    for room, files in sorted(read_rooms().items()):
        pairs = arrows(files)
        for circle in components(pairs):
            way = shortest_circle(circle, pairs)
            yield f"{circle[0]}.c", 1, "calls go round: " + "; ".join(name_calls(pairs, p) for p in way)


def main():
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    for room, files in sorted(read_rooms().items()):
        if only and room not in only:
            continue
        pairs = arrows(files)
        circles = components(pairs)
        print(f"{room}: {len({f.unit for f in files})} files, {len(pairs)} arrows, {sum(map(len, circles))} files in circles")
        for circle in circles:
            print("  circle:", " ".join(u.split("/")[-1] for u in circle))
            print("   ", "; ".join(name_calls(pairs, p) for p in shortest_circle(circle, pairs)))
        if "--list" in sys.argv:
            for pair in sorted(pairs):
                print("  ", name_calls(pairs, pair))
    return 0


if __name__ == "__main__":
    sys.exit(main())
