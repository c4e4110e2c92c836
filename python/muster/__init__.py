"""Muster for Python: report, save, stop, deal samples, talk to other ranks and to the coordinator.

Pure Python without dependencies; `import muster` imports almost nothing, and each name loads its
module when it is first used. Outside of Muster everything does nothing, or its part of one process,
and logs by the logger "muster". docs/python.md is the guide.
"""
from __future__ import annotations

TYPE_CHECKING = False  # typing's own, without its import, which takes longer than all of this

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any, Dict, List

    from . import board as board
    from . import torch as torch
    from .agent import Place as Place
    from .client import Client as Client
    from .client import submit as submit
    from .errors import Aborted as Aborted
    from .errors import Error as Error
    from .errors import Mismatch as Mismatch
    from .errors import NotFound as NotFound
    from .errors import PeerLost as PeerLost
    from .errors import Stopped as Stopped
    from .errors import TimedOut as TimedOut
    from .errors import Unavailable as Unavailable
    from .launch import run as run
    from .model import Model as Model
    from .reforming import elastic as elastic
    from .reforming import on_resize as on_resize
    from .reporting import done as done
    from .reporting import pause as pause
    from .reporting import place as place
    from .reporting import progress as progress
    from .reporting import report as report
    from .reporting import waiting as waiting
    from .sampler import BatchSampler as BatchSampler
    from .sampler import Sampler as Sampler
    from .saving import checkpoint as checkpoint
    from .saving import latest as latest
    from .saving import saved as saved
    from .stopping import EXIT_STOPPED as EXIT_STOPPED
    from .stopping import grace_left as grace_left
    from .stopping import should_stop as should_stop
    from .stopping import stop_reason as stop_reason
    from .worker import Work as Work
    from .worker import Worker as Worker

# name -> the module that has it; "" for a module itself
_HOMES: Dict[str, str] = {
    "board": "", "Place": "agent",
    **dict.fromkeys(("Aborted", "Error", "Mismatch", "NotFound", "PeerLost", "Stopped", "TimedOut", "Unavailable"), "errors"),
    "run": "launch", **dict.fromkeys(("Client", "submit"), "client"),
    **dict.fromkeys(("done", "pause", "place", "progress", "report", "waiting"), "reporting"),
    **dict.fromkeys(("BatchSampler", "Sampler"), "sampler"),
    **dict.fromkeys(("checkpoint", "latest", "saved"), "saving"),
    **dict.fromkeys(("EXIT_STOPPED", "grace_left", "should_stop", "stop_reason"), "stopping"),
    "Model": "model", **dict.fromkeys(("elastic", "on_resize"), "reforming"),
    **dict.fromkeys(("Work", "Worker"), "worker"),
}
__all__ = sorted(_HOMES)
# Of these packages' users: `muster.torch` works without a second import.
_HOMES.update(dict.fromkeys(("accelerate", "lightning", "torch", "transformers"), ""))


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'muster' has no attribute '{name}'")
    from importlib import import_module
    value = import_module(f".{home or name}", __name__)
    if home:
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
