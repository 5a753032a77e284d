"""Foreign code in programs: functions that XLA calls by their registered names. Needs jaxlib (`pip
install pullback[xla]`).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from .backends.xla.client import evaluated_alone
from .backends.xla.library import (
    include_dir as include_dir,
    own_errors,
    xla_client as _xla,
)
from .backends.xla.stablehlo.foreign import (
    build_ffi_lowering_function as build_ffi_lowering_function,
    ffi_lowering as ffi_lowering,
)
from .control.foreign import ffi_call as ffi_call, ffi_call_p

__all__ = [
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]

ffi_call_p.def_impl(functools.partial(evaluated_alone, ffi_call_p))


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Makes a function of foreign code known to XLA by a name.

    `fn`: a capsule of its address (`pycapsule`), or a dictionary of capsules, one a stage.
    `api_version`: 1 for XLA's typed interface, 0 for the older one. JaxRuntimeError for anything
    else, and for a name that another function has.

    >>> from jaxlib import lapack
    >>> name, capsule, _ = lapack.registrations()["cpu"][0]
    >>> pb.ffi.register_ffi_target("my_" + name, capsule)
    """
    with own_errors():
        _xla.register_custom_call_target(name, fn, platform, api_version, **kwargs)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that a function computes each element of a batch by itself, so that devices may share
    the batch.

    >>> pb.ffi.register_ffi_target_as_batch_partitionable("my_function")
    """
    _xla.register_custom_call_as_batch_partitionable(name)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Makes a type of foreign code's state known to XLA by a name: a dictionary of capsules, with
    `type_id` and, if there is one, `type_info`. JaxRuntimeError for anything else.

    >>> pb.ffi.register_ffi_type("my_state", 3)
    Traceback (most recent call last):
        ...
    pullback.errors.JaxRuntimeError: INVALID_ARGUMENT: ...
    """
    with own_errors():
        _xla.register_custom_type(name, type_registration, platform=platform)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """The former `register_ffi_type`: ValueError, jaxlib has it no more.

    >>> pb.ffi.register_ffi_type_id("my_state", 3)
    Traceback (most recent call last):
        ...
    ValueError: register_ffi_type_id is not supported by this jaxlib. Fix: register_ffi_type(...).
    """
    raise ValueError(
        "register_ffi_type_id is not supported by this jaxlib. Fix: register_ffi_type(...)."
    )


def pycapsule(funcptr: Any) -> Any:
    """The address of a function (of ctypes, or a number) as a capsule.

    >>> import ctypes
    >>> type(pb.ffi.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    address = ctypes.cast(funcptr, ctypes.c_void_p) if not isinstance(funcptr, int) else funcptr
    return new(address, None, None)
