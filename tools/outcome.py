"""What a test program's output says of its cases: how many passed, and which were skipped.

Criterion prints a last line "Synthesis: Tested: 3 | Passing: 3 | ..." and, with VERBOSE, a line
"[SKIP]" for each case that was skipped. Programs on tests/lib/check.h print "ok NAME" or "SKIPPED: NAME: why" for
each case. Any other program is one case; a part that it left out is a line "SKIPPED: why", and exit
code 77 is the whole of it.
"""
import re

VERBOSE = {"CRITERION_VERBOSITY_LEVEL": "1"}  # in a program's environment
SKIPPED = 77  # the exit code, as in Automake and ctest
COLOR = re.compile(r"\x1b\[[0-9;]*m")


def read(output, code=0):
    """(cases that passed, why each skipped case was skipped) of a program that did not fail."""
    output = COLOR.sub("", output)
    skipped = [line.strip() for line in re.findall(r"^.*(?:\[SKIP\]|SKIPPED\b).*$", output, re.M)]
    if code == SKIPPED:
        return 0, skipped or ["SKIPPED: no reason given"]
    synthesis = re.findall(r"Synthesis: Tested: \d+ \| Passing: (\d+)", output)
    if synthesis:
        return sum(map(int, synthesis)), skipped
    named = len(re.findall(r"^ok \w+$", output, re.M))
    cases = len(re.findall(r"^SKIPPED: \w+: ", output, re.M))
    return named if named or cases else 1, skipped


def read_log(text, not_run=()):
    """The same of ctest's LastTest.log, summed; each reason begins with its program's name. `not_run`:
    the programs that ctest calls skipped."""
    passed, skipped = 0, []
    for block in re.split(r"^\d+/\d+ Testing: ", text, flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        output = rest.partition("\nOutput:\n")[2].partition("\n<end of output>")[0]
        count, reasons = read(output, SKIPPED if name in not_run else 0)
        passed += count
        skipped += [f"{name}: {reason}" for reason in reasons]
    return passed, skipped
