"""Parameters of a program's own passes, trained by libworker: named arrays of float32.

    with muster.Worker({"optimizer": "adamw"}) as worker:
        model = muster.Model(worker, {"w": w, "b": b}, rate=1e-2)
        while True:
            first, count = worker.split(64)                 # this rank's part of 64 samples
            if not model.join(count):
                break
            x, y = samples(worker.steps * 64 + first, count)
            …
            model.grads["w"] += …                           # of the loss summed over these samples
            model.update(loss)                              # that sum
        sys.exit(worker.close())

What a C program has is here as well: strategies, precision, clipping and optimizers by settings; checkpoints
by `checkpoint.dir`, `checkpoint.every` and `resume_from`; the end by `total_steps`; under Muster elastic in
place, where a lost rank costs no restart of the others. Inside a step nothing but worker.steps may be
counted: a step that broke is done again (worker/parallel.h, docs/data.md "Without a loader").
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from .arrays import F32, memory_of
from .errors import of_code
from .library import Buffer, CustomOptions, OptimizerOptions, library
from .worker import Worker

DIMS_MAX = 4
STOPPED = -35


class Arrays(Mapping[str, Any]):
    """name -> the array where it is now. An array is valid until the step's `update`: ask again after it."""

    def __init__(self, addresses: Any, shapes: Dict[str, Tuple[int, ...]]) -> None:
        self._addresses, self._shapes = addresses, shapes
        self._numbers = {name: number for number, name in enumerate(shapes)}

    def __getitem__(self, name: str) -> Any:
        """Of numpy, or a memoryview of floats without it."""
        shape, address = self._shapes[name], self._addresses[self._numbers[name]]
        if not address:
            raise of_code(-9, f"'{name}' is not there outside of a step: call it between join and update")
        count = 1
        for size in shape:
            count *= size
        memory = ctypes.cast(address, ctypes.POINTER(ctypes.c_float * count)).contents
        try:
            import numpy
        except ImportError:
            return memoryview(memory).cast("B").cast("f", shape=shape)
        return numpy.ctypeslib.as_array(memory).reshape(shape)

    def __setitem__(self, name: str, value: Any) -> None:
        """For `grads["w"] += …`, which has written in place already."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class Model:
    """parameters: initial values, float32 with at most four dimensions; libworker has a copy. rate and
    weight_decay are the optimizer's, whose kind is the setting `optimizer`. mean_of_share: gradients and
    loss are means over this rank's samples, as torch's are, instead of sums.

    It belongs to the worker and ends with it. Error with libworker's sentence."""

    def __init__(self, worker: Worker, parameters: Mapping[str, Any], *, rate: float = 1e-3, weight_decay: float = 0.0,
                 mean_of_share: bool = False) -> None:
        self.worker, self._library = worker, library()
        context = worker._open()
        memories = {name: memory_of(array, False) for name, array in parameters.items()}
        for name, at in memories.items():
            if at.dtype != F32 or not 1 <= len(at.shape) <= DIMS_MAX:
                raise ValueError(f"the parameter '{name}' must be float32 of 1 to {DIMS_MAX} dimensions")
        count = len(memories)
        floats = ctypes.POINTER(ctypes.c_float)
        rows = (Buffer * max(1, count))(*[
            Buffer(name.encode(), len(at.shape), (ctypes.c_int64 * 4)(*at.shape), ctypes.cast(at.address, floats))
            for name, at in memories.items()])
        self._data, self._grads = (floats * max(1, count))(), (floats * max(1, count))()
        options = CustomOptions(count, rows, None, None, self._data, self._grads, mean_of_share)
        self._model = self._library.wk_custom_in(context, ctypes.byref(options))
        adam = OptimizerOptions(rate, weight_decay, 0.0)
        self._optimizer = self._library.wk_optimizer_in(context, ctypes.byref(adam)) if self._model else None
        if self._optimizer:
            self._library.wk_prepare(context, None, 0)
        self._hold: List[Any] = [rows, memories]
        shapes = {name: at.shape for name, at in memories.items()}
        self.data, self.grads = Arrays(self._data, shapes), Arrays(self._grads, shapes)
        self._check()
        self._hold = []

    def _check(self) -> None:
        code = self._library.wk_status(self.worker._open())
        if code and code != STOPPED:
            raise of_code(code, self.worker._sentence())

    def join(self, weight: float) -> bool:
        """Begin a pass over `weight` samples of this rank; all ranks call it, 0 where there are none. False:
        the training has ended, or was asked to stop. A step counts only once worker.steps has risen."""
        more = self._library.wk_join(self.worker._open(), float(weight))
        self._check()
        return bool(more)

    def update(self, loss: float) -> None:
        """The end of the pass: gradients are summed over the ranks, and the optimizer steps."""
        self._library.wk_update(self._optimizer, float(loss))
        self._check()

    @property
    def loss(self) -> float:
        """Of the last step, over all samples of all ranks; NaN before the first."""
        return float(self._library.wk_loss(self.worker._open()))

    def log(self, name: str, value: float) -> None:
        """A value of the last step for the charts; rank 0's counts."""
        self._library.wk_log(self.worker._open(), name.encode(), float(value))

    def gather(self) -> None:
        """Make all parameters readable on this rank until the next join, where a strategy spreads them. All
        ranks call it."""
        self._library.wk_gather_parameters(self._model)
        self._check()

    def save(self) -> None:
        """A checkpoint at the next step, besides those of checkpoint.every. All ranks call it."""
        code = self._library.wk_save(self.worker._open())
        if code:
            raise of_code(code, self.worker._sentence())
