"""Where this process is, on demand: Python's faulthandler writes it to the agent at SIGUSR2.

faulthandler answers also when a call into C does not return. The agent asks at `muster stacks` and
when the job hangs (docs/report.md, "Stacks").
"""
from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
from typing import Optional

SIGNAL = "USR2"
_offered: Optional[socket.socket] = None


def offer(path: str) -> bool:
    """Open a connection for stacks, instead of an earlier one. False: the program uses the signal
    itself, or the agent is not there; then there are no stacks and no error."""
    global _offered
    number = signal.Signals[f"SIG{SIGNAL}"]
    if _offered is None and signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
        return False
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.connect(path)
        made.send(json.dumps({"do": "stacks", "signal": SIGNAL}).encode() + b"\n")
    except OSError:
        made.close()
        return False
    # The agent reads and the text is short, so a dump does not wait long even so.
    made.setblocking(True)
    faulthandler.register(number, file=made.fileno(), all_threads=True, chain=False)
    if _offered is not None:
        _offered.close()
    _offered = made
    return True


def forget() -> None:
    """In a forked child: the connection is its parent's. The signal is ignored from now on."""
    global _offered
    if _offered is not None:
        number = signal.Signals[f"SIG{SIGNAL}"]
        faulthandler.unregister(number)
        os.close(_offered.detach())
        try:
            signal.signal(number, signal.SIG_IGN)
        except ValueError:  # not the main thread
            pass
    _offered = None
