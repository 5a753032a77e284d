"""Exchange of arrays with other libraries, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .numpy.creation import from_dlpack as _from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An Array over the memory of anything that speaks DLPack (on the CPU); copied if asked to.

    >>> pb.dlpack.from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)

    Raises TypeError for objects without `__dlpack__`, ValueError where `copy` is False and a copy
    is needed.
    """
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Can every library be expected to take arrays of this dtype?

    >>> pb.dlpack.is_supported_dtype("float32"), pb.dlpack.is_supported_dtype(jnp.int4)
    (True, False)
    """
    d = dtypes.dtype(dtype)
    if not isinstance(d, np.dtype):
        return False
    return (d.isbuiltin == 1 and d.kind in "biufc") or d == np.dtype(dtypes.bfloat16)
