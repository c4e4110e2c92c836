"""libworker, loaded by ctypes: where it is, the shapes of its structs, the types of its functions.

The headers in libworker/include/worker are the contract; the names here are theirs.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, List, Optional, Tuple

from .errors import Unavailable, of_code

INTERFACE = "0.1"  # of the library's SONAME, as of this package's version
NAME = f"libworker.so.{INTERFACE}"


class Setting(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


NOTICE = CFUNCTYPE(None, c_void_p, c_char_p)


class Options(ctypes.Structure):
    _fields_ = [("settings", POINTER(Setting)), ("n_settings", c_int), ("config_file", c_char_p),
                ("notice", NOTICE), ("notice_arg", c_void_p)]


class Buffers(ctypes.Structure):
    _fields_ = [("data_in", c_void_p), ("data_out", c_void_p), ("count", c_size_t), ("dtype", c_int)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Buffer(ctypes.Structure):
    """wk_buffer: a parameter of a model of the program's own."""

    _fields_ = [("name", c_char_p), ("dims", c_int), ("shape", c_int64 * 4), ("initial", POINTER(c_float)),
                ("decay", c_bool), ("narrow", ctypes.c_uint), ("no_decay", c_bool), ("block", c_int)]


class CustomOptions(ctypes.Structure):
    _fields_ = [("count", c_int), ("buffers", POINTER(Buffer)), ("sizes", POINTER(c_size_t)),
                ("names", POINTER(c_char_p)), ("data", POINTER(POINTER(c_float))),
                ("grads", POINTER(POINTER(c_float))), ("mean_of_share", c_bool)]


class OptimizerOptions(ctypes.Structure):
    _fields_ = [("rate", c_double), ("weight_decay", c_double), ("beta2", c_double)]


_WORK = POINTER(c_void_p)  # struct wk_work **
# name -> (result, arguments)
FUNCTIONS: List[Tuple[str, Any, List[Any]]] = [
    ("wk_version_text", c_char_p, []),
    ("wk_open", c_int, [POINTER(Options), POINTER(c_void_p)]),
    ("wk_close", c_int, [c_void_p]),
    ("wk_status", c_int, [c_void_p]),
    ("wk_last_error", c_char_p, [c_void_p]),
    ("wk_last_notice", c_char_p, [c_void_p]),
    ("wk_rank", c_int, [c_void_p]),
    ("wk_world", c_int, [c_void_p]),
    ("wk_local_rank", c_int, [c_void_p]),
    ("wk_generation", c_uint64, [c_void_p]),
    ("wk_steps", c_int64, [c_void_p]),
    ("wk_config_value", c_char_p, [c_void_p, c_char_p]),
    ("wk_config_origin", c_int, [c_void_p, c_char_p]),
    ("wk_communicator", c_void_p, [c_void_p]),
    ("wk_comm_error", c_char_p, [c_void_p]),
    ("wk_all_reduce", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _WORK]),
    ("wk_broadcast", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _WORK]),
    ("wk_all_gather", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, _WORK]),
    ("wk_reduce_scatter", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _WORK]),
    ("wk_barrier", c_int, [c_void_p, _WORK]),
    ("wk_all_to_all", c_int, [c_void_p, POINTER(Buffers), _WORK]),
    ("wk_send", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _WORK]),
    ("wk_recv", c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _WORK]),
    ("wk_wait", c_int, [c_void_p]),
    ("wk_broadcast_object", c_int, [c_void_p, POINTER(Bytes), c_int]),
    ("wk_all_gather_object", c_int, [c_void_p, POINTER(Bytes), POINTER(Bytes)]),
    ("wk_custom_in", c_void_p, [c_void_p, POINTER(CustomOptions)]),
    ("wk_optimizer_new", c_int, [c_void_p, POINTER(OptimizerOptions), POINTER(c_void_p)]),
    ("wk_optimizer_in", c_void_p, [c_void_p, POINTER(OptimizerOptions)]),
    ("wk_prepare", c_int, [c_void_p, c_void_p, c_int]),
    ("wk_join", c_bool, [c_void_p, c_double]),
    ("wk_update", c_int, [c_void_p, c_double]),
    ("wk_gather_parameters", c_int, [c_void_p]),
    ("wk_loss", c_double, [c_void_p]),
    ("wk_log", c_int, [c_void_p, c_char_p, c_double]),
    ("wk_save", c_int, [c_void_p]),
    ("wk_save_wait", c_int, [c_void_p]),
    ("wk_random", c_double, [c_void_p]),
    ("wk_checkpoint_verify", c_int, [c_void_p, c_char_p]),
]


def _places() -> List[str]:
    """Where the library may be: MUSTER_LIBWORKER, the tree or prefix of this package, the system."""
    named = os.environ.get("MUSTER_LIBWORKER")
    if named:
        return [named]
    here = Path(__file__).resolve().parent
    found = [str(here.parent.parent / "build" / NAME)]  # python/muster of a tree that was built
    prefix = here.parents[3] if len(here.parents) > 3 else here.parent  # …/lib/python3/dist-packages/muster
    found += [str(prefix / "lib" / NAME), *map(str, (prefix / "lib").glob(f"*-linux-gnu/{NAME}"))]
    return [path for path in found if os.path.exists(path)] + [NAME]


_loaded: Optional[ctypes.CDLL] = None


def library() -> Any:
    """libworker with typed functions, loaded once. Calls release Python's lock.

    Unavailable names where it was looked for.
    """
    global _loaded
    if _loaded is None:
        reasons = []
        for path in _places():
            try:
                loaded = ctypes.CDLL(path)
                break
            except OSError as error:
                reasons.append(str(error))
        else:
            raise Unavailable("libworker was not found: install Muster's package, or set MUSTER_LIBWORKER to "
                              f"{NAME} ({'; '.join(reasons)})")
        for name, result, arguments in FUNCTIONS:
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        _loaded = loaded
    return _loaded


def free(address: Optional[int]) -> None:
    """Of the C library: for results that libworker's caller owns."""
    release = ctypes.CDLL(None).free
    release.argtypes, release.restype = [c_void_p], None
    release(address)


def check(code: int, sentence: Any) -> None:
    """Nothing for 0; else the exception of that code. `sentence` is bytes or None."""
    if code:
        raise of_code(code, sentence.decode(errors="replace") if sentence else "")
