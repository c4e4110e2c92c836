"""A program that reports by docs/report.md, for tests: a plain socket and lines of JSON."""
import json
import textwrap

import pytest

CLIENT = '''
import json, os, socket, sys, time

class Report:
    """One connection: notes, requests, and the events that came meanwhile."""
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["MUSTER_REPORT_SOCKET"])
        self.lines, self.events, self.last = self.socket.makefile("r"), [], 0

    def note(self, do, **members):
        self.socket.sendall(json.dumps({"do": do, **members}).encode() + b"\\n")

    def ask(self, do, **members):
        self.last += 1
        self.note(do, id=self.last, **members)
        while True:
            line = json.loads(self.lines.readline())
            if line.get("id") == self.last:
                return line
            self.events.append(line)

    def event(self, name):
        while not any(e.get("event") == name for e in self.events):
            self.events.append(json.loads(self.lines.readline()))
        return next(e for e in self.events if e.get("event") == name)

report = Report()
'''


@pytest.fixture
def program(tmp_path):
    def write(body):
        path = tmp_path / "program.py"
        path.write_text(CLIENT + textwrap.dedent(body))
        return ["python3", str(path)]
    return write


def lines(cluster, job):
    done = cluster.muster("logs", "-o", "json", job, check=True)
    return [json.loads(line["text"]) for line in json.loads(done.stdout)["lines"]]
