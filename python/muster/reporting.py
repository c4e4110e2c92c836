"""What a program says of its progress: steps, losses, other numbers.

    for step, batch in enumerate(loader, start):
        loss = train(batch)
        muster.report(step + 1, loss=loss, lr=scheduler.get_last_lr()[0])

A report costs some tens of microseconds and never waits. Under Muster it is the job's progress: the
bar, the charts, the detection of hangs, goodput, and a restart budget that progress refunds. Outside
it is logged, at level INFO of the logger "muster".
"""
from __future__ import annotations

import os
import re
import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Deque, Dict, Iterable, Iterator, Mapping, Optional, TypeVar

from .agent import Agent, Place, agent, log

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9_./-]{1,63}")
FIELDS = ("loss", "lr", "tokens_per_second", "samples_per_second")  # of a step's own
SAMPLES_MAX = 64  # in a line
PROGRESS_S = 0.1  # between two reports of `progress`
DEVICE_S = 1.0  # between two readings of a number on a device, by ranks other than 0
_refused_names: Dict[str, bool] = {}
_device_read: Dict[str, float] = {}  # name -> when
_waits: Deque[float] = deque(maxlen=10_000)  # seconds, since the last report of a step
_waiting_used = False


def report(step: Optional[int] = None, *, total_steps: Optional[int] = None,
           metrics: Optional[Mapping[str, Any]] = None, waited_s: Optional[float] = None, **numbers: Any) -> None:
    """`step`: the number of completed steps; None: the numbers belong to the last one. `numbers`, and
    `metrics` for names that are no Python names ("eval/accuracy"), are floats or what float() takes:
    a scalar of numpy, a tensor of one element. Text and other things are left out, with a warning.
    `waited_s`: since the last step this rank waited this long for other ranks; by default what
    `waiting` has measured, if the program uses it.

    All ranks call it: Muster then knows which of them is late. The numbers of rank 0 are the job's;
    the newest of each other rank are in `muster show JOB --ranks`.
    """
    here = agent()
    values = _numbers({**numbers, **(metrics or {})}, here is None or rank() == 0)
    if here is None:
        log("info", "%s%s", "" if step is None else f"step {step} ", " ".join(f"{k}={v}" for k, v in values.items()))
        return
    message: Dict[str, Any] = {"do": "metric"}
    if step is not None:
        message = {"do": "step", "step": int(step)}
        message.update((name, values.pop(name)) for name in FIELDS if name in values)
        if total_steps is not None:
            message["total_steps"] = int(total_steps)
        waited_s = _waited() if waited_s is None else waited_s
        if waited_s is not None:
            message["waited_s"] = waited_s
    elif not values:
        return
    _send(here, message, values)


@contextmanager
def waiting() -> Iterator[None]:
    """What happens inside is waiting for other ranks, as a barrier is: `with muster.waiting(): …`. Of
    ranks that meet in each step this tells which is slow. Work of this rank's own must not be inside,
    nor a wait for its GPU."""
    global _waiting_used
    begun = time.monotonic()
    try:
        yield
    finally:
        _waiting_used = True
        _waits.append(time.monotonic() - begun)


def _waited() -> Optional[float]:
    """None in a program that does not use `waiting`."""
    total = 0.0
    while _waits:
        total += _waits.popleft()
    return total if _waiting_used else None


def _send(here: Agent, message: Dict[str, Any], values: Dict[str, Any]) -> None:
    """In as many lines as the samples need."""
    names = sorted(values)
    room = SAMPLES_MAX - len(message)
    for start in range(0, max(1, len(names)), room):
        part = names[start:start + room]
        if part:
            message["metrics"] = {name: values[name] for name in part}
        here.note(message)
        message = {"do": "metric", **({"step": message["step"]} if "step" in message else {})}


def _is_due(name: str, value: Any) -> bool:
    """Reading a number on a device waits for the device. Of ranks other than 0 the newest is shown and
    no series is kept, so now and then suffices."""
    if getattr(getattr(value, "device", None), "type", "cpu") == "cpu":
        return True
    now = time.monotonic()
    if now - _device_read.get(name, -DEVICE_S) < DEVICE_S:
        return False
    if len(_device_read) >= 1000:
        _device_read.clear()
    _device_read[name] = now
    return True


def _numbers(values: Mapping[str, Any], all_of_them: bool) -> Dict[str, Any]:
    """As JSON has them; NaN and infinities are texts."""
    found: Dict[str, Any] = {}
    for name, value in values.items():
        if value is None or not (all_of_them or _is_due(name, value)):
            continue
        try:
            number = float(value.detach() if hasattr(value, "detach") else value)  # torch warns without it
        except (TypeError, ValueError):
            _refuse(name, f"{type(value).__name__} is no number")
            continue
        if NAME.fullmatch(name) is None:
            _refuse(name, "a name has 1 to 63 of A-Z a-z 0-9 _ . / -")
            continue
        found[name] = number if -float("inf") < number < float("inf") else str(number)
    return found


def _refuse(name: str, why: str) -> None:
    """Once a name: a metric is not worth the end of a training."""
    if len(_refused_names) < 1000 and not _refused_names.setdefault(name, False):
        _refused_names[name] = True
        log("warning", "the metric '%s' is left out: %s", name[:80], why)


def progress(items: Iterable[T], *, total: Optional[int] = None, start: int = 0) -> Iterator[T]:
    """The items, with a report for each that the loop has done with. `start`: steps done by earlier
    runs. `total`: of all runs together; by default `start` and len(items)."""
    if total is None and hasattr(items, "__len__"):
        total = start + len(items)  # type: ignore[arg-type]
    done, told, last = start, start, -PROGRESS_S
    try:
        for item in items:
            yield item
            done += 1
            now = time.monotonic()
            if now - last >= PROGRESS_S:
                report(done, total_steps=total)
                told, last = done, now
    finally:
        if told != done:
            report(done, total_steps=total)


def pause(for_s: float, why: str = "") -> None:
    """No step will be completed for this long, as in an evaluation, and it is no hang. 0 ends it, and
    so does a report of a step."""
    here = agent()
    if here is None:
        log("info", "pause of %g s %s", for_s, why)
    else:
        here.note({"do": "pause", "for_s": for_s, "why": why[:200]})


def done() -> None:
    """The program has reported all that it will."""
    here = agent()
    if here is not None:
        here.note({"do": "done"})


def rank() -> int:
    """This process's: as the agent last said, else of RANK, else 0."""
    here = agent()
    if here is not None and here.place is not None:
        return here.place.rank
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdigit() else 0


def place() -> Optional[Place]:
    """Rank, world, generation and the like, asked of the agent once; None outside of Muster. Calling it
    first thing makes stacks available before the first report."""
    here = agent()
    if here is not None and here.place is None:
        here.learn(here.request({"do": "hello", "protocol": 1}))
    return None if here is None else here.place


def dropped() -> int:
    """Lines of this process and samples that were over a limit, here and at the agent."""
    here = agent()
    return 0 if here is None else here.dropped + here.dropped_there
