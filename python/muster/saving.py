"""Checkpoints that are whole or absent, and known to Muster.

    with muster.checkpoint("ckpt/step-120", step=120) as folder:
        torch.save(model.state_dict(), folder / "model.pt")

    path = muster.latest("ckpt")        # of an earlier run of this job; None begins at step 0

The block writes into a folder of a temporary name. At its end every file is synced, the folder gets
its name in one rename, and the agent hears of it: then `muster ckpt` lists it and a restart resumes
from it. A block that raises leaves nothing behind, and what had that name before stays.
"""
from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple, Union

from . import board
from .agent import Agent, agent, log
from .errors import Aborted, Error, TimedOut
from .reporting import rank

AnyPath = Union[str, "os.PathLike[str]"]
RANKS_S = 600.0  # how long rank 0 waits for the other ranks' parts, and they for it
TEMPORARY = ".tmp"
FAILED = "failed"  # on the board, instead of what a rank waits for
_turns: Dict[str, int] = {}  # path -> checkpoints that this process began there


@contextmanager
def checkpoint(path: AnyPath, step: Optional[int] = None, *, shared: bool = False) -> Iterator[Path]:
    """A new empty folder to write into; whole under `path` after the block.

    step    its number of completed steps; by default the last one reported
    shared  all ranks call it and write into one folder, on storage that all of them reach: rank 0
            gives the name once all ranks have left their blocks. Otherwise one rank calls it

    Aborted if this generation is over: another one may be writing there. OSError as files raise it.
    """
    target = Path(os.path.abspath(path))
    parts = _Parts(target) if shared else None
    leads = parts is None or parts.leads
    here = agent() if leads else None
    folder: Optional[Path] = None
    try:
        if leads:
            _begin(here, target, step)
            folder = _temporary(target)
            folder.mkdir(parents=True)
        if parts is not None:
            folder = parts.meet(folder)
        assert folder is not None
        yield folder
        sync(folder)
        if parts is None or parts.arrive():
            give_name(folder, target)
    except BaseException:
        if leads and folder is not None:
            _remove(folder)
            _note(here, _line("failed", target, step))
        if parts is not None:
            parts.fail()
        raise
    try:
        if leads:
            _whole(here, target, step)
    except Aborted:
        if parts is not None:
            parts.fail()
        raise
    if parts is not None:
        parts.end()


def saved(path: AnyPath, step: Optional[int] = None) -> None:
    """Tell Muster of a checkpoint that another library wrote and finished: its files are synced, then it is
    one to resume from. One rank calls it. Aborted if this generation is over."""
    target = Path(os.path.abspath(path))
    sync(target)
    _whole(agent(), target, step)


def latest(folder: Optional[AnyPath] = None) -> Optional[Path]:
    """The newest whole checkpoint to resume from, or None. Under Muster the job's own; before it has one,
    what the job's `resume_from` says. Outside, and for `resume_from: latest`, the newest folder in
    `checkpoint.dir`, else in `folder`, that a block of `checkpoint` could have made."""
    found, looks = named()
    folder = os.environ.get("MUSTER_CHECKPOINT_DIR") or folder if agent() else folder
    if found or not looks or folder is None or not os.path.isdir(folder):
        return found
    whole = [entry for entry in Path(folder).iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    return max(whole, key=_age) if whole else None


def home(folder: AnyPath) -> Path:
    """`folder`, or the job's checkpoint.dir if that is another one: Muster resumes from nothing outside."""
    job = os.environ.get("MUSTER_CHECKPOINT_DIR")
    if agent() is None or not job:
        return Path(folder)
    job = os.path.abspath(job)
    inside = os.path.commonpath([os.path.abspath(folder), job]) == job
    return Path(folder if inside else job)


def named() -> Tuple[Optional[Path], bool]:
    """The checkpoint that Muster or the job names, if any; else whether the newest of a folder is meant."""
    here = agent()
    path = here.request({"do": "latest"}).get("path") if here is not None else None
    start = os.environ.get("MUSTER_RESUME_FROM") or ("" if here is not None else "latest")
    if not path and start != "latest":
        path = start
    return Path(path) if path else None, start == "latest"


def _age(folder: Path) -> Tuple[int, str]:
    return folder.stat().st_mtime_ns, folder.name


# The folder.


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}-{os.getpid()}-{os.urandom(4).hex()}{TEMPORARY}")


def _remove(folder: Path) -> None:
    import shutil  # a slow import, and only needed here
    shutil.rmtree(folder, ignore_errors=True)


def sync(folder: Path) -> None:
    """Every file and folder below it, to the disk."""
    for root, _, files in os.walk(folder):
        for name in [*files, ""]:
            path = os.path.join(root, name) if name else root
            if os.path.islink(path):
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def give_name(folder: Path, target: Path) -> None:
    """Give the folder its name. One that has it already is exchanged with the new one, so that there is
    a whole one at every moment, and then removed."""
    if target.exists():
        if not _exchange(folder, target):
            aside = target.with_name(f".{target.name}-{os.urandom(4).hex()}.old")
            os.rename(target, aside)
            os.rename(folder, target)
            folder = aside
        _remove(folder)
    else:
        os.rename(folder, target)
    _sync_one(target.parent)


def _sync_one(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """renameat2(2) with RENAME_EXCHANGE; False where the file system cannot do that."""
    at_cwd, exchange = -100, 2
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


# What the agent hears.


def _line(state: str, target: Path, step: Optional[int]) -> Dict[str, Any]:
    message: Dict[str, Any] = {"do": "checkpoint", "state": state, "path": str(target)}
    if step is not None:
        message["step"] = step
    return message


def _begin(here: Optional[Agent], target: Path, step: Optional[int]) -> None:
    """An agent that is away does not keep a program from saving; one that refuses does."""
    if here is None:
        return
    try:
        here.request(_line("begin", target, step))
    except TimedOut as error:
        log("warning", "saving %s without having asked: %s", target, error)
    except Aborted:
        raise
    except Error as error:
        log("warning", "the agent on saving %s: %s", target, error)


def _note(here: Optional[Agent], message: Dict[str, Any]) -> None:
    if here is not None:
        here.note(message)


def _whole(here: Optional[Agent], target: Path, step: Optional[int]) -> None:
    if here is None:
        log("info", "checkpoint %s%s", target, "" if step is None else f" of step {step}")
        return
    message = {**_line("whole", target, step), "bytes": sum(_sizes(target))}
    try:
        prune = here.request(message).get("prune")
    except Aborted:
        raise
    except Error as error:
        log("warning", "the checkpoint %s is on disk, and Muster does not know it: %s", target, error)
        return
    for path in prune if isinstance(prune, list) else []:
        _prune(Path(str(path)), target)


def _prune(path: Path, target: Path) -> None:
    """Only beside the checkpoint that was just made: nothing else is ours to remove."""
    if path.parent == target.parent and path != target and path.is_dir() and not path.is_symlink():
        _remove(path)


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, files in os.walk(folder):
        for name in files:
            yield os.lstat(os.path.join(root, name)).st_size


class _Parts:
    """A checkpoint that all ranks write: they meet on the board of the generation.

    Rank 0 puts the name of the folder, each rank that it has "arrived", and rank 0 that it is
    "whole". A rank that fails says so instead, which ends the wait of the others.
    """

    def __init__(self, target: Path) -> None:
        here = agent()
        at = here.place if here is not None else None
        self.rank = rank()
        self.world = at.world if at is not None else int(os.environ.get("WORLD_SIZE", "1"))
        self.leads = self.rank == 0
        if here is None and self.world > 1:
            raise Error("a checkpoint of several ranks meets on Muster's board, and outside of Muster there is none")
        turn = _turns[str(target)] = _turns.get(str(target), 0) + 1
        self.key = f"ckpt/{hashlib.sha256(str(target).encode()).hexdigest()[:16]}/{turn}"
        self.target = target

    def meet(self, folder: Optional[Path]) -> Path:
        """The folder that rank 0 made, on every rank."""
        if folder is not None:
            board.put(f"{self.key}/folder", str(folder))
            return folder
        name = self._wait("folder")
        if name == FAILED:
            raise Error(f"rank 0 could not begin {self.target}")
        return Path(name)

    def arrive(self) -> bool:
        """Whether this rank is to give the name: rank 0, once all others have arrived."""
        if not self.leads:
            board.put(f"{self.key}/{self.rank}", "arrived")
            return False
        failed = [other for other in range(1, self.world) if self._wait(str(other)) == FAILED]
        if failed:
            raise Error(f"rank {failed[0]} could not write its part of {self.target}")
        return True

    def end(self) -> None:
        if self.leads:
            board.put(f"{self.key}/end", "whole")
        elif self._wait("end") == FAILED:
            raise Error(f"rank 0 could not finish {self.target}")

    def fail(self) -> None:
        """Best effort: the program is about to hear of another error."""
        try:
            for name in ("folder", "end") if self.leads else (str(self.rank),):
                board.put(f"{self.key}/{name}", FAILED)
        except Error as error:
            log("warning", "the other ranks were not told: %s", error)

    def _wait(self, name: str) -> str:
        found = board.get(f"{self.key}/{name}", wait_s=RANKS_S)
        if found is None:
            raise TimedOut(f"{self.target}: the other ranks did not come within {RANKS_S:g} s")
        return found
