"""Exchange of arrays with other libraries, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .runtime.array import make_array

__all__ = ["from_dlpack", "is_supported_dtype"]


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An Array over the memory of anything that speaks DLPack (on the CPU); copied if asked to.

    >>> from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)

    Raises TypeError for objects without `__dlpack__`.
    """
    if not hasattr(external_array, "__dlpack__"):
        raise TypeError(
            "from_dlpack takes an array with __dlpack__ and __dlpack_device__, got "
            f"{type(external_array)}. Fix: pass the array, not a capsule."
        )
    x = np.from_dlpack(external_array)
    return make_array(x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False), copy=bool(copy))


def is_supported_dtype(dtype: Any) -> bool:
    """Can arrays of this dtype be exchanged?"""
    d = dtypes.dtype(dtype)
    return isinstance(d, np.dtype) and (d.kind in "biufc" or d == np.dtype(dtypes.bfloat16))
