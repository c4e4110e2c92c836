"""The connection of this process to its node's agent: lines of JSON over a Unix socket.

docs/report.md has the protocol. One connection a process, made at the first use and again after the
agent was restarted. Notes never wait: what the socket does not take is queued up to QUEUE_BYTES, and
beyond that dropped and counted. Requests wait, up to their time limit.

A note does not wait for a lock either. Where another thread holds it, or a signal handler interrupted
the one that does, the line goes to an inbox, which the holder empties before it is done.

Any thread. After a fork the child has a connection of its own. Outside of Muster, where
MUSTER_REPORT_SOCKET is absent, `agent()` is None and the callers log instead.
"""
from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Deque, Dict, Iterator, NamedTuple, Optional

from . import __version__, stacks
from .errors import Aborted, Error, NotFound, TimedOut, Unavailable

SOCKET_VARIABLE = "MUSTER_REPORT_SOCKET"
PROTOCOL = 1
LINE_BYTES = 32 * 1024  # a longer line would be skipped by the agent
QUEUE_BYTES = 64 * 1024  # lines that wait for the socket
INBOX_LINES = 1000  # lines that wait for the holder of the lock
TURNS_MAX = 4  # one thread does no more for the others' lines
READ_BYTES = 256 * 1024  # read at once; the next turn goes on
INPUT_BYTES = 1024 * 1024  # a longer line of the agent ends the connection
RETRY_S = 1.0  # between two tries to connect
REQUEST_S = 10.0  # how long a request waits for its answer
CLOSE_S = 0.1  # how long the end of the process waits for what is queued
SLICE_S = 0.05  # another thread may have read a request's answer


class Place(NamedTuple):
    """Of this process in its job, as the agent last said."""

    job: str
    generation: int
    rank: int
    world: int
    local_rank: int
    local_world: int
    node_rank: int
    nodes: int
    restarts: int
    master_addr: str
    master_port: int


class Stop(NamedTuple):
    """The job was asked to stop. `ends` is in time.monotonic(); infinite where no grace is known."""

    reason: str
    ends: float


_ERRORS = {"ABORTED": Aborted, "NOT_FOUND": NotFound, "UNAVAILABLE": Unavailable}


class Agent:
    """Made by `agent()`. `path` is the socket's."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.dropped = 0  # lines that this process dropped
        self.dropped_there = 0  # lines and samples that the agent dropped
        self.place: Optional[Place] = None  # once hello was answered
        self.latest: Optional[str] = None  # as hello's answer said
        self.stop: Optional[Stop] = None
        self.generation_due: Optional[int] = None  # an elastic program is to join it
        self.elastic = False
        self._lock = threading.Lock()
        self._inbox: Deque[bytes] = deque()
        self._warnings: Deque[str] = deque(maxlen=10)  # logged without the lock: a handler may wait
        self._socket: Optional[socket.socket] = None
        self._tried = -RETRY_S
        self._ids = 0
        self._queue: Deque[bytes] = deque()
        self._queued, self._sent = 0, 0  # bytes in the queue; of its first line those that were sent
        self._input = bytearray()
        self._answers: Dict[int, Any] = {}  # id -> the answer, None while it is awaited

    # Notes and requests.

    def note(self, message: Dict[str, Any]) -> None:
        """Queue a line and send what can be sent now; what has no room is counted in `dropped`. Never waits."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if len(self._inbox) < INBOX_LINES:
            self._inbox.append(line if len(line) <= LINE_BYTES else b"")
        else:
            self.dropped += 1
        self.turn()

    def request(self, message: Dict[str, Any], limit_s: float = REQUEST_S) -> Dict[str, Any]:
        """The answer. TimedOut, Unavailable, Aborted, or Error with the agent's sentence."""
        end = time.monotonic() + limit_s
        with self._held(limit_s):
            self._ids += 1
            number = self._ids
            line = json.dumps({**message, "id": number}, separators=(",", ":")).encode() + b"\n"
            if len(line) > LINE_BYTES:
                raise Error(f"a request of {len(line)} bytes: at most {LINE_BYTES} are possible")
            self._answers[number] = None
            self._take_in()  # notes that were made before it
            self._queue.append(line)  # callers wait for their requests, so these bound themselves
            self._queued += len(line)
        try:
            answer = self._await(number, end, limit_s)
        finally:
            with self._held(limit_s):
                self._answers.pop(number, None)
                self._forget_line(line)
            self.turn()
        if "error" in answer:
            raise _error_of(answer["error"])
        return answer

    @contextmanager
    def _held(self, limit_s: float) -> Iterator[None]:
        """The lock. A signal handler that interrupted its holder would wait for ever."""
        if not self._lock.acquire(timeout=max(0.0, limit_s)):
            raise TimedOut(f"the connection was in use for {limit_s:g} s: a signal handler can report, not ask")
        try:
            yield
        finally:
            self._lock.release()

    def _await(self, number: int, end: float, limit_s: float) -> Dict[str, Any]:
        """Until the answer is there. What was lost with a connection is no longer awaited."""
        while True:
            with self._held(limit_s):
                self._turn()
                answer, descriptor = self._answers.get(number), self._socket
                if answer is not None:
                    return dict(answer)
            left = end - time.monotonic()
            if left <= 0:
                raise TimedOut(f"no answer of the agent within {limit_s:g} s") if descriptor else _away(self.path)
            _wait(descriptor, bool(self._queue), min(left, SLICE_S))

    def _forget_line(self, line: bytes) -> None:
        """A request that ended before its line was sent is not sent later."""
        if line in self._queue and not (self._sent and self._queue[0] == line):
            self._queue.remove(line)
            self._queued -= len(line)

    def turn(self) -> None:
        """Read what has arrived and send what waits, without waiting. Another turn under way does it all."""
        for _ in range(TURNS_MAX):
            if not self._lock.acquire(blocking=False):
                return
            try:
                self._turn()
            finally:
                self._lock.release()
            self._warn()
            if not self._inbox:  # else lines came that found the lock held
                return

    def _warn(self) -> None:
        while self._warnings:
            try:
                log("warning", "the agent refused a report: %s", self._warnings.popleft())
            except IndexError:  # another thread took it
                return

    # The connection. The lock is held.

    def _put(self, line: bytes) -> bool:
        if not line:
            return False
        if self._queued + len(line) > QUEUE_BYTES and self._socket is not None:
            self._flush()
        if self._queued + len(line) > QUEUE_BYTES:
            return False
        self._queue.append(line)
        self._queued += len(line)
        return True

    def _take_in(self) -> None:
        """The inbox's lines; those that come meanwhile are of the next turn."""
        for _ in range(len(self._inbox)):
            self.dropped += not self._put(self._inbox.popleft())

    def _turn(self) -> None:
        self._take_in()
        if self._socket is None and not self._connect():
            return
        self._read()
        self._flush()
        stacks.settle()

    def _connect(self) -> bool:
        now = time.monotonic()
        if now - self._tried < RETRY_S:
            return False
        self._tried = now
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.connect(self.path)
        except OSError:
            made.close()
            return False
        self._socket = made
        self._ids += 1
        self._answers[self._ids] = _HELLO
        self._queue.appendleft(json.dumps(self._hello(self._ids)).encode() + b"\n")
        self._queued += len(self._queue[0])
        stacks.offer(self.path)
        return True

    def _hello(self, number: int) -> Dict[str, Any]:
        hello: Dict[str, Any] = {"do": "hello", "id": number, "protocol": PROTOCOL, "client": f"muster for Python {__version__}"}
        if self.elastic:
            hello["elastic"] = True
        return hello

    def _flush(self) -> None:
        while self._queue and self._socket is not None:
            try:
                count = self._socket.send(memoryview(self._queue[0])[self._sent:])
            except BlockingIOError:
                return
            except OSError:
                self._lose()
                return
            self._sent += count
            if self._sent == len(self._queue[0]):
                self._queued -= len(self._queue.popleft())
                self._sent = 0

    def _read(self) -> None:
        for _ in range(READ_BYTES // 65536):
            if self._socket is None:
                return
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data or len(self._input) + len(data) > INPUT_BYTES:
                self._lose()
                return
            *lines, rest = (bytes(self._input) + data).split(b"\n")
            self._input = bytearray(rest)
            for line in lines:
                self._heard(line)

    def _lose(self) -> None:
        """The agent has gone. Whole lines wait for the next connection; awaited answers are asked again
        by nobody: their requests end with their limit."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._input.clear()
        self._sent = 0
        self._answers = {number: answer for number, answer in self._answers.items() if answer is not _HELLO}

    # What the agent says.

    def _heard(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if isinstance(number, int):
            if self._answers.get(number) is _HELLO:
                del self._answers[number]
                self.learn(message)
            elif number in self._answers:
                self._answers[number] = message
        elif "event" in message:
            self._event(message)
        elif "error" in message:
            self._warnings.append(str(_error_of(message["error"])))

    def learn(self, message: Dict[str, Any]) -> None:
        """Of the answers to hello and join."""
        try:
            self.place = Place(**{name: message[name] for name in Place._fields})
        except KeyError:
            return
        latest = message.get("latest")
        self.latest = latest if isinstance(latest, str) else None
        if message.get("stop"):
            self._stop(message)

    def _event(self, message: Dict[str, Any]) -> None:
        if message["event"] == "stop":
            self._stop(message)
        elif message["event"] == "generation" and isinstance(message.get("generation"), int):
            self.generation_due = message["generation"]
        elif message["event"] == "dropped" and isinstance(message.get("count"), int):
            self.dropped_there = message["count"]

    def _stop(self, message: Dict[str, Any]) -> None:
        grace = message.get("grace_s")
        ends = time.monotonic() + grace if isinstance(grace, (int, float)) else float("inf")
        self.stop = Stop(str(message.get("reason") or "the job was asked to stop"), ends)

    def close(self) -> None:
        """Send what waits, within CLOSE_S, and end the connection."""
        end = time.monotonic() + CLOSE_S
        while (self._queue or self._inbox) and time.monotonic() < end and self._lock.acquire(timeout=CLOSE_S):
            try:
                self._turn()
                descriptor = self._socket
            finally:
                self._lock.release()
            if descriptor is None:
                break
            _wait(descriptor, bool(self._queue), 0.01)
        self.forget()

    def forget(self) -> None:
        """Drop the connection without a word; what a forked child does with its parent's."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


_HELLO: Any = {}  # in _answers: the answer to hello, which no caller awaits


def _error_of(error: Any) -> Error:
    if not isinstance(error, dict):
        return Error("the agent refused it without a reason")
    message, hint = str(error.get("message", "refused")), error.get("hint")
    return _ERRORS.get(str(error.get("code")), Error)(f"{message}: {hint}" if hint else message)


def _away(path: str) -> Unavailable:
    return Unavailable(f"the agent does not answer at {path}: it may be starting again")


def _wait(descriptor: Optional[socket.socket], sends: bool, seconds: float) -> None:
    """Until the socket can be read, or written where something waits; another thread may close it."""
    try:
        if descriptor is None or descriptor.fileno() < 0:
            time.sleep(seconds)
        else:
            select.select([descriptor], [descriptor] if sends else [], [], seconds)
    except (OSError, ValueError):
        time.sleep(SLICE_S / 10)


_agent: Optional[Agent] = None
_made = threading.Lock()


def agent() -> Optional[Agent]:
    """This process's connection; None outside of Muster."""
    global _agent
    if _agent is None:
        path = os.environ.get(SOCKET_VARIABLE)
        if not path:
            return None
        with _made:
            if _agent is None:
                import atexit
                _agent = Agent(path)
                atexit.register(_at_exit)
    return _agent


def _at_exit() -> None:
    if _agent is not None:
        _agent.close()


def _after_fork() -> None:
    """In the child: its parent's connection is not its own."""
    global _agent, _made
    _made = threading.Lock()
    if _agent is not None:
        _agent.forget()
        stacks.forget()
        _agent = None


os.register_at_fork(after_in_child=_after_fork)


def log(level: str, text: str, *values: Any) -> None:
    """By the logger "muster", imported when it is first needed."""
    import logging
    logging.getLogger("muster").log(getattr(logging, level.upper()), text, *values)
