"""For loops in torch: stopping together, data in our order, and the whole of a loop's bookkeeping.

    loop = muster.torch.Loop("ckpt", total_steps=1000, every=100, model=model, optimizer=optimizer)
    for step in loop:
        …                                   # forward, backward, optimizer.step()
        loop.report(loss=loss)

resumes from the newest checkpoint, reports each step, saves every 100 steps and at the end, and when
the job is asked to stop saves and ends the program, on all ranks in the same step. It runs with and
without torch.distributed, and with and without Muster. Every rank runs it.
"""
from __future__ import annotations

import atexit
import errno
import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from . import stopping
from .agent import log
from .errors import Aborted
from .reporting import report
from .sampler import BatchSampler
from .saving import AnyPath, checkpoint, home, latest

STATE = "state.pt"  # in a checkpoint of Loop
PASSES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)  # what a disk refuses for a while
AGAIN_S, AGAIN_MOST_S = 1.0, 60.0  # until a checkpoint that the disk refused is tried again; twice as long each time
LAST_S = 600.0  # the last one is tried for this long, or for the grace


def _together() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def _device() -> Any:
    """Where this process group's tensors are."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")


def should_stop() -> bool:
    """muster.should_stop of any rank, known to all in the same step. All ranks call it: one all-reduce
    of 4 bytes."""
    stop = stopping.should_stop()
    if not _together():
        return stop
    flag = torch.tensor([int(stop)], dtype=torch.int32, device=_device())
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag.item():
        atexit.register(leave)
    return bool(flag.item())


def leave() -> None:
    """End this process's part of the process group, which ends what others wait for in it. Threads of a
    group that is left to the interpreter's end may abort the process."""
    if dist.is_initialized():
        try:
            dist.destroy_process_group()
        except RuntimeError as error:
            log("info", "leaving the process group: %s", error)


class _Kept:
    """A file for torch.save, which turns a full disk into words about zip files, or aborts. The first refusal is kept."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.refusal: Optional[OSError] = None

    def write(self, data: Any) -> int:
        if self.refusal is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.refusal = error
        return len(data)

    def flush(self) -> None:
        if self.refusal is None:
            try:
                self.file.flush()
            except OSError as error:
                self.refusal = error


def _write(state: Any, path: AnyPath) -> None:
    """OSError with the path where it cannot be written."""
    try:
        with open(path, "wb") as file:
            kept = _Kept(file)
            torch.save(state, kept)
            if kept.refusal is not None:
                raise kept.refusal
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), os.fspath(path)) from error


class Stream(IterableDataset):
    """dataset[i] for the samples of a BatchSampler, in its order: this rank's share of each global
    batch is one item, made by `collate` (torch's default) from the list of its samples.

        for batch in DataLoader(muster.torch.Stream(dataset, sampler), batch_size=None, num_workers=2):
            …
            sampler.commit()

    The workers of a DataLoader take batches in turn, so the order stays. Use batch_size=None.
    """

    def __init__(self, dataset: Any, sampler: BatchSampler, collate: Optional[Callable[[List[Any]], Any]] = None) -> None:
        from torch.utils.data import default_collate
        self.dataset, self.sampler = dataset, sampler
        self.collate = collate or default_collate

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        turn, turns = (worker.id, worker.num_workers) if worker else (0, 1)
        for number, deal in enumerate(self.sampler.deals()):
            if number % turns == turn:
                yield self.collate([self.dataset[index] for index in self.sampler.indices(deal)])


class Changed(BaseException):
    """Leaves a loop at the boundary of a step, because the world changes (muster.elastic)."""


class Loop:
    """folder: of the checkpoints, where the job has no checkpoint.dir. Every `every` steps, or `every_s`
    seconds, one is written; None: only at the end and on a stop. parts: what has state_dict and
    load_state_dict, by name (a model in DistributedDataParallel is saved without its wrapper, so any world
    loads it). Rank 0 writes them all with torch.save; sharded models need muster.checkpoint(shared=True)
    and torch.distributed.checkpoint.
    """

    def __init__(self, folder: AnyPath, *, total_steps: Optional[int] = None, every: Optional[int] = None,
                 every_s: Optional[float] = None, **parts: Any) -> None:
        self.folder, self.total_steps = home(folder), total_steps
        if self.main and self.folder != Path(folder):
            log("warning", "checkpoints are in %s, the job's checkpoint.dir, not in %s", self.folder, folder)
        self.every, self.every_s = every, every_s
        self.parts = {name: getattr(part, "module", part) for name, part in parts.items()}
        self.step = 0  # completed ones
        self.changed: Callable[[], bool] = lambda: False  # muster.elastic asks the agent
        self.elastic = False  # some ranks may leave while the others stay
        self._numbers: Dict[str, Any] = {}
        self._saved, self._saved_at = -1, time.monotonic()
        self._again_s, self._again_at = AGAIN_S, 0.0  # 0: the disk has refused nothing
        stopping.should_stop()  # SIGTERM is a request to stop from here on
        self._resume()

    @property
    def main(self) -> bool:
        return not _together() or dist.get_rank() == 0

    def share(self, rank: int, world: int) -> None:
        """In a world that was just formed: samplers get their place, and all ranks the state of the one that
        has completed most steps. All ranks call it."""
        for part in self.parts.values():
            if isinstance(part, BatchSampler):
                part.rank, part.world = rank, world
        if not _together():
            return
        steps: List[Any] = [None] * world
        dist.all_gather_object(steps, self.step)
        if len(set(steps)) > 1:
            source = steps.index(max(steps))
            state: List[Any] = [self._state() if rank == source else None]
            dist.broadcast_object_list(state, src=source, device=_device())
            self._load(state[0])

    def _state(self) -> Dict[str, Any]:
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        return {"step": self.step, "parts": parts}

    def _load(self, state: Dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        self.step = int(state["step"])

    def _resume(self) -> None:
        found: List[Any] = [str(latest(self.folder) or "") if self.main else ""]
        if _together():
            dist.broadcast_object_list(found, src=0, device=_device())
        if not found[0]:
            return
        state = torch.load(Path(found[0]) / STATE, map_location="cpu")
        missing = sorted(set(self.parts) ^ set(state["parts"]))
        if missing:
            raise ValueError(f"{found[0]} and this loop differ in the parts {', '.join(missing)}")
        self._load(state)
        self._saved = self.step

    def report(self, **numbers: Any) -> None:
        """Numbers of the present step. They are sent when it is completed."""
        self._numbers.update(numbers)

    def save(self) -> None:
        """Write a checkpoint of the completed steps, unless there is one. All ranks may call it. OSError where it has no room."""
        if self._saved != self.step and self.main:
            try:
                with checkpoint(self.folder / f"step-{self.step:08}", self.step) as folder:
                    _write(self._state(), folder / STATE)
            except Aborted:
                if not self.elastic:
                    raise
                raise Changed from None  # a newer generation forms: it saves
        self._saved, self._saved_at = self.step, time.monotonic()
        self._again_s, self._again_at = AGAIN_S, 0.0

    def _try(self, end: float) -> None:
        """Save. A full disk ends no training: it is tried again after a later step, or until `end` where there is none."""
        while True:
            try:
                return self.save()
            except OSError as error:
                if error.errno not in PASSES:
                    raise
                left, then = end - time.monotonic(), "it is tried again" if end else "training continues; a later step is saved"
                if end and left <= 0:
                    raise
                log("warning", "the checkpoint of step %d was not written: %s; %s", self.step, error, then)
                self._again_at = time.monotonic() + self._again_s
                self._again_s = min(2 * self._again_s, AGAIN_MOST_S)
                if not end:
                    return None
                time.sleep(max(0.0, min(left, self._again_at - time.monotonic())))

    def _last(self) -> float:
        """Until when the last checkpoint is tried."""
        return time.monotonic() + min(LAST_S, stopping.grace_left())

    def _due(self) -> bool:
        # Only rank 0 saves, so its clock alone decides.
        if self._again_at:
            return time.monotonic() >= self._again_at
        return bool(self.every and self.step % self.every == 0 or
                    self.every_s and time.monotonic() - self._saved_at >= self.every_s)

    def _agree(self, mine: bool) -> Tuple[bool, bool]:
        """From whether this rank is to stop: whether all stop now, and whether all part now, some to leave and the others to form
        the next generation. An elastic world trains until each rank knows which of the two it is: one that goes alone breaks
        the step of the others."""
        if not self.elastic or not _together():
            return should_stop(), False
        flags = torch.tensor([int(mine), int(not mine and self.changed())], dtype=torch.int32, device=_device())
        dist.all_reduce(flags)
        stops, leaves = flags.tolist()
        world = dist.get_world_size()
        return stops == world, stops < world and stops + leaves == world

    def __iter__(self) -> Iterator[int]:
        """The numbers of the steps to do, from 0. SystemExit(75) after a request to stop, when the
        state is saved."""
        while self.total_steps is None or self.step < self.total_steps:
            if self.changed() and not _together():
                raise Changed
            yield self.step
            self.step += 1
            numbers, self._numbers = self._numbers, {}
            report(self.step, total_steps=self.total_steps, **numbers)
            mine = stopping.should_stop()
            stop, parts = self._agree(mine)
            if parts and not mine:
                raise Changed
            if parts:
                raise SystemExit(stopping.EXIT_STOPPED)  # the others have the state
            if stop or self.step == self.total_steps:
                self._try(self._last())
            elif self._due():
                self._try(0.0)
            if stop:
                if _together():
                    dist.barrier()  # no rank ends while rank 0 writes
                raise SystemExit(stopping.EXIT_STOPPED)
        if self.total_steps is not None:
            self._try(self._last())  # unless it was saved, or its generation ended just then
