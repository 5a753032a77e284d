"""DLPack capsules: dtypes that NumPy has no DLPack code for, exported and taken over all the same.

NumPy makes and consumes the capsules. An extension dtype (bfloat16, the float8 kinds) travels as
unsigned integers of its size, and only the type code in the capsule says what they are: it is
written into the capsule after NumPy made it, and taken out of it before NumPy sees it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from pullback import dtypes

# DLDataTypeCode of the standard's header; all of these are one byte wide, bfloat16 is two.
_CODES = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
_NAMES = {code: name for name, code in _CODES.items()}
_UINT = 1
# Where the DLTensor starts in a capsule's struct, and its dtype's code in the DLTensor.
_TENSORS = ((b"dltensor", 0), (b"dltensor_versioned", 32))
_CODE = 20


def has_code(dtype: np.dtype[Any]) -> bool:
    """Has this extension dtype a type code in DLPack?"""
    return dtype.name in _CODES


def relabel(capsule: Any, dtype: np.dtype[Any]) -> Any:
    """A capsule of unsigned integers becomes one of an extension dtype."""
    _code_of(capsule).value = _CODES[dtype.name]
    return capsule


def _code_of(capsule: Any) -> ctypes.c_uint8:
    for name, start in _TENSORS:
        if ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name):
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            return ctypes.c_uint8.from_address(get(capsule, name) + start + _CODE)
    raise TypeError(f"from_dlpack: __dlpack__ must return an unused DLPack capsule, got {capsule}")


class _Relabelled:
    """An exporter whose capsules NumPy understands; `dtype` is what they really hold."""

    def __init__(self, exporter: Any) -> None:
        self.exporter, self.dtype = exporter, None

    def __dlpack_device__(self) -> Any:
        return self.exporter.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self.exporter.__dlpack__(**asked)
        code = _code_of(capsule)
        name = _NAMES.get(code.value)
        if name is not None:
            self.dtype, code.value = np.dtype(getattr(ml_dtypes, name)), _UINT
        return capsule


def view_of(exporter: Any, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """What another library exports, as a NumPy array over the same memory. Raises TypeError for
    what exports nothing, ValueError where `copy` is False and its memory cannot be an Array's.
    """
    if not (hasattr(exporter, "__dlpack__") and hasattr(exporter, "__dlpack_device__")):
        raise TypeError(
            "The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods, "
            f"got {type(exporter)}. Fix: pass the array, not a capsule or a list."
        )
    proxy: Any = _Relabelled(exporter)
    x = np.from_dlpack(proxy)
    if proxy.dtype is not None:
        x = x.view(proxy.dtype)
    canonical = dtypes.canonicalize_dtype(x.dtype)
    if copy is False and (canonical != x.dtype or not x.flags.c_contiguous):
        raise ValueError(
            f"Specified input which requires a copy since its dtype {x.dtype} or its strides "
            f"{x.strides} are not an Array's. However copy=False. Set copy=True or copy=None to "
            "perform the requested operation."
        )
    return np.asarray(x, canonical)


def check_copied(asked: Any, lies: Any, copy: bool | None) -> None:
    """Raises ValueError where `copy` is False and an array goes to another device than its own."""
    if copy is False:
        raise ValueError(
            f"Specified device={asked!r} which requires a copy since the source device is "
            f"{lies!r}, however copy=False. Set copy=True or copy=None to perform the requested "
            "operation."
        )
