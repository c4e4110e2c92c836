"""A rank of libworker: its place, its settings, and collectives with the other ranks.

    with muster.Worker() as worker:
        worker.all_reduce(array)                # numpy, torch on the CPU, bytearray, …
        names = worker.gather_object(os.uname().nodename)

It runs alone, under torchrun, mpirun or Slurm, and under Muster, as a C program does: the ranks find
each other by the environment. Sums are made in rank order, so the bits depend only on data and world.

Every rank calls the same operations in the same order; if one differs, all raise Mismatch. Every
wait ends: PeerLost where a rank died, TimedOut, Aborted. After that the worker stays failed: end the
program and let Muster start it again, or train with `muster.Model`, which forms a new generation.

One thread at a time. A call waits inside C and gives other Python threads their turn.
"""
from __future__ import annotations

import ctypes
import pickle
from typing import Any, List, Mapping, Optional, Tuple, Type

from . import arrays
from .arrays import Memory, empty_like, memory_of
from .errors import Error, PeerLost, of_code
from .library import NOTICE, Buffers, Bytes, Options, Setting, check, free, library
from .sampler import share

OPERATIONS = {"sum": 0, "mean": 1, "max": 2, "min": 3}
ORIGINS = ("default", "file", "environment", "code", "job")


def _operation(name: str) -> int:
    if name not in OPERATIONS:
        raise ValueError(f"op '{name}': one of {', '.join(OPERATIONS)} is possible")
    return OPERATIONS[name]


class Work:
    """An operation under way. Its arrays belong to it until `wait`, which every Work needs once."""

    def __init__(self, worker: "Worker", handle: Any, hold: Any, result: Any) -> None:
        self._worker, self._handle, self._hold, self._result = worker, handle, hold, result

    def wait(self) -> Any:
        """The operation's result, or its error. A second call returns the result again."""
        handle, self._handle = self._handle, None
        if handle:
            code = library().wk_wait(handle)
            self._hold = None
            self._worker._check_comm(code)
        return self._result

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().wk_wait(self._handle)  # its arrays must not go before it


class Worker:
    """settings: values from the program, stronger than the environment: {"strategy": "zero1"}.
    config_file: YAML; otherwise MUSTER_CONFIG. on_notice: called with sentences about events that
    did not end the training, from any thread; otherwise they go to standard error.

    Error with libworker's sentence where a setting is refused or the ranks do not find each other.
    """

    def __init__(self, settings: Optional[Mapping[str, Any]] = None, config_file: Optional[str] = None,
                 on_notice: Any = None) -> None:
        self._library = library()
        self._context = ctypes.c_void_p()
        texts = [(name.encode(), _setting_text(value).encode()) for name, value in (settings or {}).items()]
        rows = (Setting * max(1, len(texts)))(*[Setting(name, value) for name, value in texts])
        # Kept: libworker calls it until wk_close.
        self._notice: Any = NOTICE(lambda _, text: on_notice(text.decode(errors="replace"))) if on_notice else NOTICE(0)
        options = Options(rows, len(texts), config_file.encode() if config_file else None, self._notice, None)
        code = self._library.wk_open(ctypes.byref(options), ctypes.byref(self._context))
        if code:
            sentence = self._sentence()
            self.close()
            raise of_code(code, sentence)

    def _sentence(self) -> str:
        text: bytes = self._library.wk_last_error(self._context)
        return text.decode(errors="replace") if text else ""

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: Any) -> None:
        self.close()

    def close(self) -> int:
        """Save the last state, leave the other ranks. The exit code for sys.exit: 0, 1 after an
        error, 75 stopped, 76 another rank ended, 78 refused before the first step."""
        context, self._context = self._context, ctypes.c_void_p()
        return int(self._library.wk_close(context)) if context else 0

    def _open(self) -> Any:
        if not self._context:
            raise Error("the worker is closed")
        return self._context

    @property
    def rank(self) -> int:
        return int(self._library.wk_rank(self._open()))

    @property
    def world(self) -> int:
        return int(self._library.wk_world(self._open()))

    @property
    def local_rank(self) -> int:
        return int(self._library.wk_local_rank(self._open()))

    @property
    def generation(self) -> int:
        return int(self._library.wk_generation(self._open()))

    @property
    def steps(self) -> int:
        """Completed, over all runs."""
        return int(self._library.wk_steps(self._open()))

    def split(self, total: int) -> Tuple[int, int]:
        """(first, count): this rank's contiguous part of 0 … total-1."""
        return share(total, self.rank, self.world)

    def setting(self, name: str) -> str:
        """The value of a setting ("checkpoint.every") as text. KeyError for an unknown name."""
        value = self._library.wk_config_value(self._open(), name.encode())
        if value is None:
            raise KeyError(f"no setting is called '{name}'")
        return str(value.decode())

    def origin(self, name: str) -> str:
        """Where that value is from: default, file, environment, code or job."""
        self.setting(name)
        return ORIGINS[self._library.wk_config_origin(self._open(), name.encode())]

    def verify(self, path: str) -> None:
        """Check every byte of a checkpoint of libworker against its digests."""
        code = self._library.wk_checkpoint_verify(self._open(), path.encode())
        if code:
            sentence = self._library.wk_last_notice(self._open()).decode(errors="replace")
            raise of_code(code, sentence or f"{path} is not a whole checkpoint")

    # Collectives.

    def _comm(self) -> Any:
        comm = self._library.wk_communicator(self._open())
        if not comm:
            raise PeerLost(self._sentence() or "this generation has no communicator", -32)
        return comm

    def _check_comm(self, code: int) -> None:
        if code:
            comm = self._library.wk_communicator(self._open())
            check(code, self._library.wk_comm_error(comm) if comm else self._sentence().encode())

    def all_reduce(self, array: Any, op: str = "sum") -> Any:
        """Every element becomes the reduction over all ranks, in place. op: sum, mean, max, min.
        Returns the array."""
        at = memory_of(array, True)
        self._check_comm(self._library.wk_all_reduce(self._comm(), at.address, at.elements, at.dtype, _operation(op), None))
        return array

    def start_all_reduce(self, array: Any, op: str = "sum") -> Work:
        """all_reduce on libworker's own thread, while this one goes on."""
        at, handle = memory_of(array, True), ctypes.c_void_p()
        self._check_comm(self._library.wk_all_reduce(self._comm(), at.address, at.elements, at.dtype, _operation(op),
                                                     ctypes.byref(handle)))
        return Work(self, handle, (array, at), array)

    def broadcast(self, array: Any, root: int = 0) -> Any:
        """Every rank's array becomes root's, in place. Returns it."""
        at = memory_of(array, True)
        self._check_comm(self._library.wk_broadcast(self._comm(), at.address, at.elements, at.dtype, root, None))
        return array

    def all_gather(self, array: Any, out: Any = None) -> Any:
        """[world, *shape]: the array of each rank, in rank order."""
        at = memory_of(array, False)
        out = empty_like(array, (self.world, *at.shape), out)
        to = self._like(out, at, at.elements * self.world)
        self._check_comm(self._library.wk_all_gather(self._comm(), at.address, to.address, at.elements, at.dtype, None))
        return out

    def reduce_scatter(self, array: Any, out: Any = None, op: str = "sum") -> Any:
        """Row `rank` of the reduction of all ranks' [world, …] arrays."""
        at = memory_of(array, False)
        if not at.shape or at.shape[0] != self.world:
            raise ValueError(f"an array of shape {list(at.shape)}: its first dimension must be the world, {self.world}")
        out = empty_like(array, at.shape[1:], out)
        to = self._like(out, at, at.elements // self.world)
        self._check_comm(self._library.wk_reduce_scatter(self._comm(), at.address, to.address, to.elements, at.dtype,
                                                         _operation(op), None))
        return out

    def all_to_all(self, array: Any, out: Any = None) -> Any:
        """[world, …] to the same shape: row p of the result is row `rank` of rank p's array."""
        at = memory_of(array, False)
        if not at.shape or at.shape[0] != self.world:
            raise ValueError(f"an array of shape {list(at.shape)}: its first dimension must be the world, {self.world}")
        out = empty_like(array, at.shape, out)
        to = self._like(out, at, at.elements)
        buffers = Buffers(at.address, to.address, at.elements // self.world, at.dtype)
        self._check_comm(self._library.wk_all_to_all(self._comm(), ctypes.byref(buffers), None))
        return out

    def send(self, array: Any, to: int) -> None:
        """To the rank that calls recv with as many elements of this type."""
        at = memory_of(array, False)
        self._check_comm(self._library.wk_send(self._comm(), at.address, at.elements, at.dtype, to, None))

    def recv(self, array: Any, source: int) -> Any:
        """Into the array, from the rank that calls send. Returns it."""
        at = memory_of(array, True)
        self._check_comm(self._library.wk_recv(self._comm(), at.address, at.elements, at.dtype, source, None))
        return array

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self._check_comm(self._library.wk_barrier(self._comm(), None))

    @staticmethod
    def _like(out: Any, at: Memory, elements: int) -> Memory:
        to = memory_of(out, True)
        if to.dtype != at.dtype or to.elements != elements:
            raise ValueError(f"out has {to.elements} elements of {arrays.NAMES[to.dtype]}: "
                             f"{elements} of {arrays.NAMES[at.dtype]} are needed")
        return to

    def gather_object(self, value: Any) -> List[Any]:
        """The objects of all ranks, in rank order, on every rank. By pickle: ranks trust each other."""
        world = self.world
        own, all_ = _Packed(value), (Bytes * world)()
        self._check_comm(self._library.wk_all_gather_object(self._comm(), ctypes.byref(own.bytes), all_))
        try:
            return [pickle.loads(ctypes.string_at(one.data, one.bytes)) for one in all_]
        finally:
            free(all_[0].data)

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Root's object, on every rank. By pickle."""
        own = _Packed(value if self.rank == root else None)
        at = own.bytes if self.rank == root else Bytes(None, 0)
        self._check_comm(self._library.wk_broadcast_object(self._comm(), ctypes.byref(at), root))
        if self.rank == root:
            return value
        try:
            return pickle.loads(ctypes.string_at(at.data, at.bytes))
        finally:
            free(at.data)


class _Packed:
    """An object's pickle, as wk_bytes."""

    def __init__(self, value: Any) -> None:
        self.text = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        self.bytes = Bytes(ctypes.cast(ctypes.c_char_p(self.text), ctypes.c_void_p), len(self.text))


def _setting_text(value: Any) -> str:
    """As in the environment: true, false, 4, text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


