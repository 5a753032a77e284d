"""`__array_namespace_info__`: what the Python array API standard (2024.12) asks a namespace to say
of its devices and dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import config, dtypes
from ..runtime.devices import local_devices

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_REAL, _COMPLEX = ("float32", "float64"), ("complex64", "complex128")
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": (*_SIGNED, *_UNSIGNED, *_REAL, *_COMPLEX),
}


class ArrayNamespaceInfo:
    """The namespace's answers: each a plain value that may be changed freely.

    >>> jnp.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether shapes may depend on values (not under jit), and the largest rank."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: arrays follow the computation until they are put somewhere."""
        return

    def devices(self) -> list[Any]:
        """The devices that arrays can be put on, and None, which means none in particular."""
        return [None, *local_devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of numbers without one, by kind."""
        _check_device(device)
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.canonicalize_dtype(np.complex128),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes by name: those of a kind ("bool", "signed integer", "unsigned
        integer", "integral", "real floating", "complex floating", "numeric"), of a tuple of kinds,
        or all. 64-bit ones are there while x64 is on. Raises KeyError for another kind.
        """
        _check_device(device)
        kinds = (
            kind if isinstance(kind, tuple) else ("bool", "numeric") if kind is None else (kind,)
        )
        found: dict[str, Any] = {}
        for one in kinds:
            if not isinstance(one, str) or one not in _KINDS:
                raise KeyError(
                    f"unsupported kind {one!r}. Fix: one of {', '.join(map(repr, _KINDS))}, or a "
                    "tuple of them."
                )
            found.update({n: np.dtype(n) for n in _KINDS[one] if _is_on(n)})
        return found


def _is_on(name: str) -> bool:
    wide = name in ("int64", "uint64", "float64", "complex128")
    return bool(config.enable_x64.get()) or not wide


def _check_device(device: Any) -> None:
    if device is not None and device not in local_devices():
        raise ValueError(f"unsupported device {device!r}. Fix: one of {local_devices()}, or None.")
