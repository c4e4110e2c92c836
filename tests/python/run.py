#!/usr/bin/python3
"""Runs the tests of the Python package: test_*.py beside this, by unittest, so that any Python can.

    run.py [BUILD [SANITIZERS]]     BUILD has libworker and tests/deal_rows

A line "ok NAME" or "SKIPPED: NAME: why" for each (tools/outcome.py). MUSTER_TEST_PYTHONS names more
Pythons, separated by colons, that run them too. With SANITIZERS, only those that run a program of BUILD:
a library with sanitizers cannot be loaded into an ordinary Python, and the rest is Python's alone.
"""
import os
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN_A_PROGRAM = ["test_sampler.*", "*.test_the_types_and_calls_of_rest_are_of_todays_openapi"]


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        print(f"ok {test._testMethodName}", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {getattr(test, '_testMethodName', test)}: {reason}", flush=True)


def other_pythons(arguments):
    """Exit codes of the same under other Pythons, one after the other."""
    environment = {name: value for name, value in os.environ.items() if name != "MUSTER_TEST_PYTHONS"}
    for python in filter(None, os.environ.get("MUSTER_TEST_PYTHONS", "").split(":")):
        print(f"under {python}", flush=True)
        yield subprocess.run([python, __file__, *arguments], env=environment).returncode


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "build").resolve()
    os.environ["MUSTER_TEST_BUILD"] = str(build)
    os.environ.setdefault("MUSTER_LIBWORKER", str(build / "libworker.so.0.1"))
    loader = unittest.TestLoader()
    if len(sys.argv) > 2:
        loader.testNamePatterns = RUN_A_PROGRAM
    suite = loader.discover(str(HERE))
    result = unittest.TextTestRunner(verbosity=0, resultclass=Result).run(suite)
    others = list(other_pythons(sys.argv[1:]))
    return 0 if result.testsRun and result.wasSuccessful() and not any(others) else 1


if __name__ == "__main__":
    sys.exit(main())
