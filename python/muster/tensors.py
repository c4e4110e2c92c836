"""Named arrays in one file, without pickle: safetensors, which every library reads.

    save("weights.safetensors", {"w": array, "b": other}, {"step": "120"})
    arrays = load("weights.safetensors")                # of numpy, mapped from the file

The format: 8 bytes little-endian of the header's length, the header in JSON, then the data
(huggingface/safetensors, "Format"). Values are little-endian and contiguous. Any thread.
"""
from __future__ import annotations

import ctypes
import json
import mmap
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .arrays import BYTES, memory_of
from .errors import Error

TYPES = ("F32", "F64", "F16", "BF16", "I32", "I64", "U8", "BOOL")  # by the numbers of arrays.py
NUMPY = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I32": "<i4", "I64": "<i8", "U8": "u1", "BOOL": "?"}
HEADER_BYTES = 100 << 20  # the format's own limit
ALIGN = 8  # of the data's beginning


def save(path: "os.PathLike[str] | str", arrays: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write the file; `muster.checkpoint` makes it whole or absent. Arrays are those that muster.Worker takes."""
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    memories, at = [], 0
    for name, array in arrays.items():
        memory = memory_of(array, False)
        size = memory.elements * BYTES[memory.dtype]
        header[name] = {"dtype": TYPES[memory.dtype], "shape": list(memory.shape), "data_offsets": [at, at + size]}
        memories.append((memory, size))
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGN)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for memory, size in memories:
            if size:
                out.write((ctypes.c_char * size).from_address(memory.address))


def metadata(path: "os.PathLike[str] | str") -> Dict[str, str]:
    """The texts that save was given."""
    with open(path, "rb") as file:
        return dict(_header(file, path)[0].get("__metadata__", {}))


def load(path: "os.PathLike[str] | str") -> Dict[str, Any]:
    """name -> array: of numpy, or a memoryview without it; read-only, and read from the file as it is used.
    Error for a file that is no such file, whose parts overlap or lie outside of it, or in bf16, which numpy
    lacks."""
    with open(path, "rb") as file:
        header, start = _header(file, path)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = memoryview(mapped)[start:]
    parts: List[Tuple[int, int]] = []
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = _place(entry, name, len(view), path)
            parts.append((first, last))
            found[name] = _array(view[first:last], entry)
    parts.sort()
    for (_, end), (begin, _) in zip(parts, parts[1:]):
        if begin < end:
            raise Error(f"{path}: two arrays overlap at byte {begin}")
    return found


def _header(file: Any, path: Any) -> Tuple[Dict[str, Any], int]:
    size = int.from_bytes(file.read(8), "little")
    if not 2 <= size <= min(HEADER_BYTES, os.fstat(file.fileno()).st_size - 8):
        raise Error(f"{path} is no safetensors file: its header would have {size} bytes")
    try:
        header = json.loads(file.read(size))
    except ValueError as error:
        raise Error(f"{path}: the header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise Error(f"{path}: the header is no object")
    return header, 8 + size


def _place(entry: Any, name: str, size: int, path: Any) -> Tuple[int, int]:
    try:
        kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        elements = 1
        for length in shape:
            elements *= length
        fits = (all(type(n) is int and n >= 0 for n in (*shape, first, last)) and first <= last <= size
                and last - first == elements * BYTES[TYPES.index(kind)])
    except (KeyError, TypeError, ValueError):
        raise Error(f"{path}: '{name}' is described wrongly") from None
    if not fits:
        raise Error(f"{path}: '{name}' does not have the bytes of its shape inside of the file")
    if kind not in NUMPY:
        raise Error(f"{path}: '{name}' is {kind}, which numpy has no type for")
    return first, last


def _array(view: memoryview, entry: Dict[str, Any]) -> Any:
    try:
        import numpy
    except ImportError:
        code = {"F32": "f", "F64": "d", "F16": "e", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?"}[entry["dtype"]]
        return view.cast(code, shape=entry["shape"]) if entry["shape"] and len(view) else view.cast(code)
    return numpy.frombuffer(view, dtype=NUMPY[entry["dtype"]]).reshape(entry["shape"])
