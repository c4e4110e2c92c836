"""Memory of arrays, as libworker takes it: an address, a count of elements and a type.

numpy arrays and everything with the buffer protocol (bytearray, array.array, memoryview), torch
tensors on the CPU, and other libraries' arrays by DLPack where numpy is at hand.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, NamedTuple, Optional, Tuple

# As enum wk_dtype.
F32, F64, F16, BF16, I32, I64, U8, BOOL = range(8)
BYTES = (4, 8, 2, 2, 4, 8, 1, 1)
NAMES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
_FORMATS: Dict[str, int] = {"f": F32, "d": F64, "e": F16, "i": I32, "q": I64, "B": U8, "c": U8, "?": BOOL}
_CONTIGUOUS, _FORMAT, _WRITABLE = 0x38, 0x4, 0x1  # PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE


class Memory(NamedTuple):
    """Of an array. It is valid while `owner` lives."""

    address: int
    elements: int
    dtype: int
    shape: Tuple[int, ...]
    owner: Any


class _PyBuffer(ctypes.Structure):
    """Py_buffer, the same in every CPython 3."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _Held:
    """A buffer that its exporter keeps in place until this is forgotten."""

    def __init__(self, array: Any, flags: int) -> None:
        self.view = _PyBuffer()
        self.held = False
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), ctypes.byref(self.view), ctypes.c_int(flags))
        self.held = True

    def __del__(self) -> None:
        if self.held:
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self.view))


def is_torch(array: Any) -> bool:
    """Whether it is a torch tensor, without importing torch."""
    return type(array).__module__.split(".")[0] == "torch" or hasattr(array, "data_ptr")


def memory_of(array: Any, writable: bool) -> Memory:
    """TypeError for an array that is no memory of this process, ValueError for one with gaps, of a
    type that libworker has not, or that must be written and cannot."""
    if is_torch(array):
        return _of_tensor(array)
    try:
        memoryview(array)
    except TypeError:
        return _by_dlpack(array, writable)
    return _of_buffer(array, writable)


def _of_tensor(tensor: Any) -> Memory:
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor on {tensor.device}: libworker's collectives for Python take tensors on the CPU")
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous: pass tensor.contiguous()")
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in NAMES:
        raise ValueError(f"elements of type {name}: one of {', '.join(NAMES)} is possible")
    return Memory(tensor.data_ptr(), tensor.numel(), NAMES.index(name), tuple(tensor.shape), tensor)


def _of_buffer(array: Any, writable: bool) -> Memory:
    try:
        held = _Held(array, _CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
    except (BufferError, ValueError) as error:
        raise ValueError(f"{type(array).__name__}: {error}") from None
    view = held.view
    code = (view.format or b"B").decode().lstrip("@=<")
    if code == "l":  # of the machine's own size
        code = "q" if view.itemsize == 8 else "i"
    dtype = _FORMATS.get(code)
    if dtype is None or BYTES[dtype] != view.itemsize:
        raise ValueError(f"elements of format '{code}': one of {', '.join(NAMES)} is possible")
    sizes = ctypes.cast(view.shape, ctypes.POINTER(ctypes.c_ssize_t))
    shape = tuple(sizes[i] for i in range(view.ndim)) if view.shape else (view.len // view.itemsize,)
    return Memory(view.buf or 0, view.len // view.itemsize, dtype, shape, held)


def _by_dlpack(array: Any, writable: bool) -> Memory:
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"{type(array).__name__} is no array: numpy's, torch's, or one with the buffer protocol or DLPack")
    try:
        import numpy
    except ImportError:
        raise TypeError(f"{type(array).__name__}: an array by DLPack needs numpy") from None
    return _of_buffer(numpy.from_dlpack(array), writable)


def empty_like(array: Any, shape: Tuple[int, ...], out: Optional[Any] = None) -> Any:
    """`out`, or a new array of that shape, of the library and type of `array`."""
    if out is not None:
        return out
    if is_torch(array):
        return array.new_empty(shape)
    try:
        import numpy
    except ImportError:
        raise TypeError("without numpy the result needs a place: pass out=") from None
    return numpy.empty(shape, dtype=numpy.asarray(array).dtype)
