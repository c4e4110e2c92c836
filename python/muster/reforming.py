"""Training in torch whose world changes while its processes stay.

    loop = muster.torch.Loop("ckpt", total_steps=1000, every=100, model=model, optimizer=optimizer, sampler=sampler)

    def train(loop):                                # called again for each world
        ddp = DistributedDataParallel(model)
        for step in loop:
            …                                       # forward, backward, optimizer.step()

    muster.elastic(train, loop)                     # muster run -N 1..3 -- python3 train.py

A rank is lost: the collective of the others fails, they join the next generation, form a process group of
another port, and the most advanced of them sends its state to the rest. The step that broke is done again.
A node comes back: at the next boundary of a step all join with the new process, which gets the state in the
same way. Nobody but a lost rank starts again. Where there is no Muster it is one call of train.
"""
from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Callable, List, Optional, TypeVar

import torch
import torch.distributed as dist

from .agent import REQUEST_S, Agent, Place, agent, log
from .stopping import EXIT_STOPPED
from .torch import Changed, Loop, leave

T = TypeVar("T")
JOIN_S = 590.0  # an agent answers a join that waits within 10 minutes
FORM_S = 120.0  # for a process group's members to meet
STORE_LOOK_S = 0.005
NEWS_S = 60.0  # after a failed collective, for the news of another generation
LOOK_S = 0.02
_listeners: List[Callable[[Place], None]] = []


def on_resize(function: Callable[[Place], None]) -> None:
    """Call it with the new place each time this process has joined a generation, the first one too, before
    `train` goes on. Only elastic() changes the world of a process that stays."""
    _listeners.append(function)


def elastic(train: Callable[[Loop], T], loop: Loop, *, backend: Optional[str] = None) -> T:
    """train(loop) for each world, until it returns. Make the process group neither before nor inside it:
    it is here, by `backend` (nccl where there are GPUs, else gloo). The body of the loop must call no
    collective after optimizer.step(), as a step then is done or not on all ranks alike.

    SystemExit(75) after a request to stop. Any other exception of `train` ends the program, as does a
    collective that fails while no rank is lost."""
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    found = agent()
    if found is None:
        return _alone(train, loop, backend)
    here: Agent = found
    here.elastic = True
    here.learn(here.request({"do": "hello", "protocol": 1, "elastic": True}))
    at = here.place
    generation = at.generation if at else 0
    while True:
        try:
            at = _join(here, generation, loop.step)
            _form(at, backend)
            loop.share(at.rank, at.world)
            for listener in _listeners:
                listener(at)
            loop.changed, loop.elastic = lambda: _due(here) > 0, True
            return train(loop)
        except Changed:
            pass
        except RuntimeError as error:
            if not _of_collective(error) or not _lost(here, at):
                raise
            log("info", "generation %d is over: %s", at.generation if at else 0, str(error).splitlines()[0])
        finally:
            leave()
        generation = _due(here)


def _alone(train: Callable[[Loop], T], loop: Loop, backend: str) -> T:
    if not dist.is_initialized():
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):
            os.environ.setdefault(name, value)
        dist.init_process_group(backend)
    loop.share(dist.get_rank(), dist.get_world_size())
    return train(loop)


def _due(here: Agent) -> int:
    """The generation to join; 0 while the present one goes on."""
    here.turn()
    due = here.generation_due or 0
    return due if here.place is None or due > here.place.generation else 0


def _join(here: Agent, generation: int, step: int) -> Place:
    """Wait until all members of a generation have joined; this one's place in it."""
    while True:
        answer = here.request({"do": "join", "generation": generation, "step": step}, JOIN_S + REQUEST_S)
        if answer.get("stop"):
            raise SystemExit(EXIT_STOPPED)
        if answer.get("ready"):
            break
        generation = int(answer["generation"])
    here.learn(answer)
    assert here.place is not None
    at = here.place
    os.environ.update({name: str(value) for name, value in {
        "RANK": at.rank, "WORLD_SIZE": at.world, "LOCAL_RANK": at.local_rank, "LOCAL_WORLD_SIZE": at.local_world,
        "NODE_RANK": at.node_rank, "GROUP_RANK": at.node_rank, "GROUP_WORLD_SIZE": at.nodes,
        "MASTER_ADDR": at.master_addr, "MASTER_PORT": at.master_port}.items()})
    return at


def _await_store(at: Place) -> None:
    """Until rank 0 listens, or a store would not: torch tries again only after a second."""
    end = time.monotonic() + FORM_S
    while time.monotonic() < end:
        try:
            socket.create_connection((at.master_addr, at.master_port), 1).close()
            return
        except OSError:
            time.sleep(STORE_LOOK_S)


def _form(at: Place, backend: str) -> None:
    if backend == "nccl":
        torch.cuda.set_device(at.local_rank)
    if at.rank != 0:
        _await_store(at)
    store = dist.TCPStore(at.master_addr, at.master_port, at.world, at.rank == 0, timedelta(seconds=FORM_S))
    dist.init_process_group(backend, store=dist.PrefixStore(str(at.generation), store), rank=at.rank, world_size=at.world)


def _of_collective(error: RuntimeError) -> bool:
    """torch has classes for these since 2.0, and gloo's are plain ones with its name or a socket's."""
    names = ("DistBackendError", "DistNetworkError", "DistStoreError")
    kinds = tuple(getattr(dist, name) for name in names if hasattr(dist, name))
    words = ("gloo", "Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Socket", "store")
    return isinstance(error, kinds) or any(word in str(error) for word in words)


def _lost(here: Agent, at: Optional[Place]) -> bool:
    """Report that ranks are gone and wait for the generation that follows. False: none does.

    gloo does not say which. All others are named, since the coordinator gives up only those whose node's
    connection is lost as well, or whose process ended; a rank that only left the group joins again."""
    if at is not None:
        others = [rank for rank in range(at.world) if rank != at.rank]
        here.note({"do": "lost", "generation": at.generation, "ranks": others})
    end = time.monotonic() + NEWS_S
    while not _due(here):
        if here.stop is not None:
            raise SystemExit(EXIT_STOPPED)
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_S)
    return True
