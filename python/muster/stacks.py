"""Where this process is, on demand: Python's faulthandler writes it to the agent at SIGUSR2.

faulthandler answers also when a call into C does not return. The agent asks at `muster stacks` and
when the job hangs (docs/report.md, "Stacks").

The dump is many pieces of a few bytes. They go into a pipe of the agent's, which holds 64 KiB of them.
Until it has arrived they go into the connection, which holds fewer. Neither blocks this process: what
has no room is lost.
"""
from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
from typing import Optional

SIGNAL = "USR2"
ANSWER_BYTES = 4096  # read at once
_offered: Optional[socket.socket] = None
_awaits_pipe = False
_pipe = -1


def offer(path: str) -> bool:
    """Open a connection for stacks, instead of an earlier one. False: the program uses the signal
    itself, or the agent is not there; then there are no stacks and no error."""
    global _offered, _awaits_pipe
    number = signal.Signals[f"SIG{SIGNAL}"]
    if _offered is None and signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
        return False
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    try:
        made.connect(path)
        made.send(json.dumps({"do": "stacks", "signal": SIGNAL, "pipe": True}).encode() + b"\n")
    except OSError:
        made.close()
        return False
    _register(made.fileno())
    if _offered is not None:
        _offered.close()
    _close_pipe()
    _offered, _awaits_pipe = made, True
    return True


def settle() -> None:
    """Write to the agent's pipe from now on, if it has arrived. Never waits."""
    global _awaits_pipe, _pipe
    if not _awaits_pipe or _offered is None:
        return
    try:
        text, messages, _, _ = _offered.recvmsg(ANSWER_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return
    except OSError:
        text, messages = b"", []
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            _pipe = int.from_bytes(data[:4], sys.byteorder)
            _register(_pipe)
    _awaits_pipe = bool(text) and _pipe < 0


def _register(descriptor: int) -> None:
    faulthandler.register(signal.Signals[f"SIG{SIGNAL}"], file=descriptor, all_threads=True, chain=False)


def _close_pipe() -> None:
    global _pipe
    if _pipe >= 0:
        os.close(_pipe)
    _pipe = -1


def forget() -> None:
    """In a forked child: the connection is its parent's. The signal is ignored from now on."""
    global _offered, _awaits_pipe
    if _offered is not None:
        number = signal.Signals[f"SIG{SIGNAL}"]
        faulthandler.unregister(number)
        os.close(_offered.detach())
        _close_pipe()
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:  # not the main thread
            pass
    _offered, _awaits_pipe = None, False
