"""What `muster run` and `muster logs -f` leave on a terminal: each line of output once and whole, and below them one progress bar."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest
from localcluster import HANG_SECONDS, wait_for
from reporting import program  # noqa: F401: a fixture

BAR = re.compile(r"^([█░]{8,24} )?running(  step \d+/100000)?(  [\dmsh ]+ left)?(  loss \d\.\d{4})?(  [\d.k]+ tok/s|  [\d.e+]+ (steps/s|s/step))?(  world 1)?$")


class Terminal:
    """The rows of a terminal that knows the carriage return, the line feed and "erase to the end of the line"."""

    def __init__(self, columns):
        self.screen, self.program_side = pty.openpty()
        self.rows, self.row, self.column, self.wrapped = [""], 0, 0, 0
        self.bars, self.empty_after_bar, self.rest = [], 0, ""
        self.resize(columns)
        self.reader = threading.Thread(target=self.read, daemon=True)

    def resize(self, columns):
        self.columns = columns
        fcntl.ioctl(self.program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def start(self, words, env):
        child = subprocess.Popen(words, stdin=self.program_side, stdout=self.program_side, stderr=self.program_side, env={**env, "TERM": "xterm"})
        self.reader.start()
        return child

    def read(self):
        partial = b""
        while True:
            try:
                data = partial + os.read(self.screen, 65536)
            except OSError:
                return
            text = data.decode(errors="ignore")
            partial = data[len(text.encode()):]
            text = self.rest + text
            whole, self.rest = re.fullmatch(r"(.*?)(\x1b\[?[\d;?]*)?", text, re.S).groups(default="")
            for part in re.findall(r"\x1b\[[\d;?]*[a-zA-Z]|.", whole, re.S):
                self.feed(part)

    def feed(self, part):
        row = self.rows[self.row]
        if part == "\r":
            if BAR.match(row.rstrip()):
                self.bars.append(row.rstrip())
            self.column = 0
        elif part == "\n":
            self.row, self.column = self.row + 1, 0
            self.rows += [""] * (self.row == len(self.rows))
        elif part == "\x1b[K":
            self.rows[self.row] = row[:self.column]
        elif part.startswith("\x1b"):
            assert part.endswith("m"), f"an escape sequence that this terminal does not know: {part!r}"
        else:
            if self.column == self.columns:
                self.wrapped += 1
                self.row, self.column = self.row + 1, 0
                self.rows += [""] * (self.row == len(self.rows))
                row = ""
            self.rows[self.row] = row[:self.column].ljust(self.column) + part + row[self.column + 1:]
            self.column += 1

    def close(self):
        os.close(self.program_side)
        self.reader.join(HANG_SECONDS)
        os.close(self.screen)


@pytest.fixture
def terminal():
    made = []

    def open_one(columns):
        made.append(Terminal(columns))
        return made[-1]
    yield open_one
    for one in made:
        one.close()


TALKS = '''
import sys
step = 0
while step < LINES or not os.path.exists("ENOUGH"):
    step += 1
    report.note("step", step=step, total_steps=100000, loss=2 + 1 / step, tokens_per_second=12345)
    if step <= LINES:
        print(f"out {step:02}", flush=True)
    if step <= LINES and step % 5 == 0:
        print(f"err {step:02}", file=sys.stderr, flush=True)
    time.sleep(0.1)
'''


def talks(enough, lines=60):
    """A program that prints so many lines and goes on until the file is there."""
    return TALKS.replace("ENOUGH", str(enough)).replace("LINES", str(lines))


def rows_of(screen, first):
    return [row.rstrip() for row in screen.rows if row.startswith(first)]


@pytest.mark.parametrize("columns", [132, 80, 40, 20])
def test_the_bar_stays_below_the_output_and_leaves_no_trace(cluster, program, terminal, columns, tmp_path):
    screen, enough = terminal(columns), tmp_path / "enough"
    child = screen.start([cluster.muster_path, "run", "--name", "t", "--", *program(talks(enough))], cluster.environment())
    wanted = (" left", "step", "loss") if columns >= 80 else ()
    wait_for("a bar", 20, lambda: any(all(word in bar for word in wanted) for bar in screen.bars))
    enough.touch()
    assert child.wait(HANG_SECONDS) == 0
    wait_for("the end on the screen", 5, lambda: any("succeeded" in row for row in screen.rows))
    assert rows_of(screen, "out") == [f"out {step:02}" for step in range(1, 61)], screen.rows
    assert rows_of(screen, "err") == [f"err {step:02}" for step in range(5, 61, 5)], screen.rows
    assert not any("█" in row or "░" in row or " left" in row for row in screen.rows), screen.rows
    assert max(map(len, screen.bars)) < columns, screen.bars


def test_the_bar_is_back_right_after_each_line(cluster, program, terminal, tmp_path):
    """It is not absent until the next look at the job, a second later. A line is printed once the one before it is on the screen."""
    screen = terminal(80)
    child = screen.start([cluster.muster_path, "run", "--name", "t", "--", *program(f'''
        for step in range(1, 31):
            report.note("step", step=step, total_steps=100000, loss=3 - step / 100)
            while not os.path.exists(f"{tmp_path}/{{step}}"):
                time.sleep(0.01)
            print(f"out {{step:02}}", flush=True)
    ''')], cluster.environment())
    wait_for("the first bar", 5, lambda: any(BAR.match(row.rstrip()) for row in screen.rows))
    for step in range(1, 31):
        (tmp_path / str(step)).touch()
        wait_for(f"line {step}", 5, lambda: f"out {step:02}" in [row.rstrip() for row in screen.rows])
    assert child.wait(HANG_SECONDS) == 0
    assert len(screen.bars) > 20, len(screen.bars)  # a look a second makes as many as it took seconds, about 6


def test_the_bar_follows_the_windows_size(cluster, program, terminal, tmp_path):
    screen, enough = terminal(132), tmp_path / "enough"
    child = screen.start([cluster.muster_path, "run", "--name", "t", "--", *program(talks(enough, lines=0))], cluster.environment())
    wait_for("a wide bar", 20, lambda: any(len(bar) > 80 for bar in screen.bars))
    for columns in range(120, 49, -10):
        screen.resize(columns)
    wait_for("a narrow bar", 20, lambda: 30 < len(screen.bars[-1]) < 50)
    assert screen.wrapped == 0, screen.rows
    screen.resize(132)
    wait_for("a wide bar again", 20, lambda: len(screen.bars[-1]) > 80)
    enough.touch()
    assert child.wait(HANG_SECONDS) == 0
