"""The board of this generation: short texts that all ranks of the job share.

    muster.board.put("address", socket.gethostname())
    muster.board.get("address", wait_s=30)

A new generation begins with an empty board. Outside of Muster it is a dictionary of this process.
"""
from __future__ import annotations

from typing import Dict, Optional

from .agent import REQUEST_S, agent

KEY_BYTES, VALUE_BYTES = 256, 16 * 1024
WAIT_SLICE_S = 20.0  # a longer wait is asked for in parts
_alone: Dict[str, str] = {}


def put(key: str, value: str) -> None:
    """Replaces what the key had. ValueError beyond 256 bytes of key and 16 KiB of value."""
    if not 1 <= len(key.encode()) <= KEY_BYTES or len(value.encode()) > VALUE_BYTES:
        raise ValueError(f"a key of {len(key.encode())} and a value of {len(value.encode())} bytes: "
                         f"1 to {KEY_BYTES} and at most {VALUE_BYTES} are possible")
    here = agent()
    if here is None:
        _alone[key] = value
    else:
        here.request({"do": "put", "key": key, "value": value})


def get(key: str, wait_s: float = 0.0) -> Optional[str]:
    """The value, or None where no rank has put one within `wait_s`."""
    here = agent()
    if here is None:
        return _alone.get(key)
    while True:
        part = min(wait_s, WAIT_SLICE_S)
        answer = here.request({"do": "get", "key": key, "wait_s": part}, part + REQUEST_S)
        wait_s -= part
        if answer.get("found"):
            return str(answer.get("value", ""))
        if wait_s <= 0:
            return None
