"""Whether the program is to stop, and how long it may take.

    if muster.should_stop():
        with muster.checkpoint("ckpt/last") as folder:
            save(folder)
        sys.exit(muster.EXIT_STOPPED)

A job is asked to stop when it is cancelled, preempted, drained or moved. Then the agent says so on its
connection and sends SIGTERM; SIGKILL follows after the grace. Ranks learn it at slightly different
steps. A program with collectives must leave its loop in the same step on all ranks:
`muster.torch.should_stop()` agrees on that.
"""
from __future__ import annotations

import signal
import threading
import time
from typing import Any, Optional

from .agent import Stop, agent

EXIT_STOPPED = 75  # as libworker's programs end after a stop request: Muster does not count it as a failure
_signalled: Optional[Stop] = None
_watching = False


def should_stop() -> bool:
    """Whether to save and end. Never waits; some microseconds, so that each step can ask.

    The first call from the main thread takes SIGTERM as a request to stop, where the program has no
    handler of its own. So call it early, before the loop, or a SIGTERM ends the process at once.
    """
    return _stop() is not None


def grace_left() -> float:
    """Seconds until SIGKILL; infinite without a stop request, or where no grace is known. Never below 0."""
    stop = _stop()
    return max(0.0, stop.ends - time.monotonic()) if stop else float("inf")


def stop_reason() -> str:
    """A sentence, or "" without a stop request."""
    stop = _stop()
    return stop.reason if stop else ""


def _stop() -> Optional[Stop]:
    _watch()
    here = agent()
    if here is not None:
        here.turn()
        if here.stop is not None:
            return here.stop
    return _signalled


def _watch() -> None:
    global _watching
    if not _watching and threading.current_thread() is threading.main_thread():
        _watching = True
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _on_signal)


def take_signal() -> None:
    """SIGTERM is a request to stop from here on, whatever a library's handler does with it. For callbacks
    of libraries whose handler would end the training, or wait for other ranks; from the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _on_signal)


def _on_signal(number: int, frame: Any) -> None:
    global _signalled
    _signalled = Stop("SIGTERM", float("inf"))
