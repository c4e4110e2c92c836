"""What calls raise. Each has libworker's or the coordinator's own sentence."""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """Anything that Muster refuses or cannot do. `code` is libworker's negative number (worker/error.h)
    or, from REST, the HTTP status."""

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code
        self.retry_s = 1.0  # after which a refusal for want of room may be gone


class Unavailable(Error):
    """The other side cannot be reached, or libworker is not installed."""


class NotFound(Error):
    """What was named does not exist."""


class PeerLost(Error):
    """A rank of the communicator died or left: this generation is over."""


class Aborted(Error):
    """Aborted, or refused because the generation is over."""


class Mismatch(Error):
    """Ranks or files do not match: another collective, size or setting."""


class TimedOut(Error):
    """The time limit passed; the sentence names the ranks that have not arrived."""


class Stopped(Error):
    """The job was asked to stop."""


CODES: Dict[int, Type[Error]] = {
    -4: TimedOut, -5: NotFound, -10: Aborted, -14: Unavailable, -32: PeerLost, -33: Mismatch, -35: Stopped,
}


def of_code(code: int, sentence: str) -> Error:
    """The exception for a code of libworker. An invalid argument is also an Error, with its sentence."""
    return CODES.get(code, Error)(sentence or f"libworker returned {code}", code)
