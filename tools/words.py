#!/usr/bin/python3
"""Plain words, measured: dialect words and long sentences, room by room.

    tools/words.py [--list] [PATH...]     --list shows each place; a PATH keeps to a file or folder

STYLE.md, "Plain words", has the rules. Three kinds of text are read: comments (.c and .h outside
tests, bench and examples), documents (docs/*.md, README.md, CHANGELOG.md) and the texts of the
command line (the strings of cli/). A sentence ends at '.', '!' or '?', or with its paragraph.
tools/tidy.py fails when a figure is above its limit below.
"""
import re
import sys

from sources import OUTSIDE, ROOT, tracked

# The limits only go down. To lower one: mend some text, run tools/words.py, and write what its line
# "all" says, rounded up. Never raise one: mend the new sentence instead.
#            dialect words per 1,000 words | sentences above SENTENCE_MAX words
LIMITS = {
    "comments":  (0.7, 6),
    "documents": (0.5, 2),
    "help":      (0.6, 2),
}
SENTENCE_MAX = 30

# Words that stand for one of the field's own, or for a subject that is missing.
DIALECT = re.compile(r"\b(?:" + "|".join("""
    anew whoever whom whose nobody everybody somebody behind told tell tells said says say stands
    stood lies lie goes gone gives give taken takes come comes came heed hears heard judged wronged
    meant likewise thereby wants mended mend hold holds so.long so.many so.far.as by.now by.then
    other.than for.want.of sees.to
    """.split()) + r")\b")
WORD = re.compile(r"[A-Za-z']+")


def room_of(path):
    """common/base/str.h -> common/base; cli/main.c -> cli."""
    return "/".join(path.split("/")[:-1][:2]) or path


def paragraphs(lines):
    """(line number, text) of each run of prose; an indented line, a list item and a drawing start
    a new one. `lines` are (line number, text with its indent)."""
    start, words, depth = 0, [], 0
    for number, line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        drawing = re.search(r"[─►▲▼│└┘┌┐┤├]|->|<-| {3,}\S", text)
        if not text or drawing or re.match(r"([-*]|\d+\.) ", text) or (indent >= 2 and indent != depth):
            if words:
                yield start, " ".join(words)
            start, words = number, []
        depth = indent
        if text and not drawing:
            if not words:
                start = number
            words.append(text)
    if words:
        yield start, " ".join(words)


def comments(raw):
    """(line number, text) of each paragraph of the comments of a C file."""
    for match in re.finditer(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', raw, re.S):
        text = match.group(0)
        if not text.startswith("/*"):
            continue
        first = raw.count("\n", 0, match.start()) + 1
        lines = re.sub(r"\s*\*/$", "", text[2:]).split("\n")
        lines = [lines[0].strip()] + [re.sub(r"^\s*\*? ?", "", line) for line in lines[1:]]
        yield from paragraphs(list(enumerate(lines, first)))


def documents(raw):
    """(line number, text) of each paragraph, list item and table cell of a Markdown file."""
    raw = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), raw, flags=re.S | re.M)
    raw = re.sub(r"`[^`\n]*`", "code", re.sub(r"\]\([^)\n]*\)", "]", raw))
    run = []
    for number, line in enumerate(raw.split("\n") + [""], 1):
        if line.startswith("|") or line.startswith("#"):
            for cell in line.strip("|#").split("|"):
                run += [(number, ""), (number, cell.strip())]
            run.append((number, ""))
        else:
            run.append((number, line.strip()))
    yield from paragraphs(run)


def strings(raw):
    """(line number, text) of each string literal of some words; neighbours are one."""
    blank = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), raw, flags=re.S)
    one = r'"(?:\\.|[^"\\\n])*"'
    for match in re.finditer(rf"{one}(?:\s*{one})*", blank):
        text = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group(0)))
        line = raw.count("\n", 0, match.start()) + 1
        for part in text.replace('\\"', '"').split("\\n"):
            if len(WORD.findall(part)) > 2:
                yield line, part


def texts():
    """(kind, path, line number, paragraph) of all the prose there is."""
    for path in tracked():
        if path.endswith((".c", ".h")) and not path.startswith(OUTSIDE):
            raw = (ROOT / path).read_text()
            for line, text in comments(raw):
                yield "comments", path, line, text
            if path.startswith("cli/"):
                for line, text in strings(raw):
                    yield "help", path, line, text
        elif re.match(r"docs/.*\.md$|(README|CHANGELOG)\.md$", path):
            for line, text in documents((ROOT / path).read_text()):
                yield "documents", path, line, text


def measure(only=()):
    """Totals per (kind, room) and per (kind, "all"): [words, dialect words, long sentences]; and
    the places: (path, line, what)."""
    totals, places = {}, []
    for kind, path, line, text in texts():
        if only and not any(path == o or path.startswith(o.rstrip("/") + "/") for o in only):
            continue
        words = len(WORD.findall(text))
        odd = DIALECT.findall(text.lower())
        sentences = [s for s in re.split(r"(?<=[.!?])[)\"]?\s+", text) if len(s.split()) > SENTENCE_MAX]
        for room in (room_of(path), "all"):
            total = totals.setdefault((kind, room), [0, 0, 0])
            for i, count in enumerate((words, len(odd), len(sentences))):
                total[i] += count
        if odd:
            places.append((path, line, "dialect: " + ", ".join(odd)))
        places += [(path, line, f"{len(s.split())} words: {s[:60]} ...") for s in sentences]
    return totals, places


def per_thousand(total):
    return 1000 * total[1] / max(1, total[0])


def findings():
    """For tools/tidy.py: (path, line, what) of each figure above its limit."""
    totals, _ = measure()
    for kind, (dialect, long) in LIMITS.items():
        total = totals.get((kind, "all"), [0, 0, 0])
        if per_thousand(total) > dialect:
            yield "tools/words.py", 1, (f"{kind}: {per_thousand(total):.2f} dialect words per 1,000 "
                                        f"(limit {dialect}); see tools/words.py --list, STYLE.md")
        if total[2] > long:
            yield "tools/words.py", 1, (f"{kind}: {total[2]} sentences above {SENTENCE_MAX} words "
                                        f"(limit {long}); see tools/words.py --list, STYLE.md")


def main():
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    totals, places = measure(only)
    if "--list" in sys.argv:
        for path, line, what in sorted(places):
            print(f"{path}:{line}: {what}")
    print(f"{'kind':10} {'room':26} {'words':>7} {'dialect':>8} {'per 1000':>9} {'long':>5}")
    for (kind, room), total in sorted(totals.items(), key=lambda t: (t[0][0], t[0][1] == "all", t[0])):
        print(f"{kind:10} {room:26} {total[0]:7} {total[1]:8} {per_thousand(total):9.1f} {total[2]:5}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
