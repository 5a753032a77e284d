"""LAPACK and BLAS: the addresses of the routines that SciPy brings, and calls of them from Python.

Kernels name a routine by the `Call` of a statement whose attribute `fortran` is its form: a letter
an argument.

    s    a scalar, passed by address              c    a character, passed by address
    p    a buffer                                 o    a buffer and an offset into it, in elements
    n    a null pointer

Results (LAPACK's `info`) follow, by address. All integers are 32 bits wide.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.forking import renewed
from pullback.lazy_imports import lazy_module

__all__ = ["NAMES", "OWN_THREADS", "address", "call", "is_routine", "library_threads", "routine"]

OWN_THREADS = 512  # rows or columns from which on the library's own threads are left to it

_lapack: Any = lazy_module("scipy.linalg.cython_lapack")
_blas: Any = lazy_module("scipy.linalg.cython_blas")

_REAL = "geev gehrd geqp3 geqrf gesdd gesvd getrf gees gtsv orgqr ormqr potrf syevd sytrd trsm gemm"
_COMPLEX = "geev gehrd geqp3 geqrf gesdd gesvd getrf gees gtsv ungqr unmqr potrf heevd hetrd trsm"
_BLAS = frozenset({"trsm", "gemm"})
# In a fixed order: each has a fixed place in the table of functions, which cached kernels name.
NAMES = tuple(
    p + name
    for prefixes, names in (("sd", _REAL), ("cz", _COMPLEX + " gemm"))
    for name in names.split()
    for p in prefixes
)
_KNOWN = frozenset(NAMES)

_lock = renewed(threading.Lock())
_addresses: dict[str, int] = {}
_opened: list[ctypes.CDLL | None] = []
_threads: list[tuple[int, int]] = []


def is_routine(name: str) -> bool:
    """Whether a function's name is that of a routine of LAPACK or BLAS."""
    return name in _KNOWN


def routine(dtype: str, name: str, complex_name: str = "") -> str:
    """The routine for a dtype of the loop IR (f32, f64, c64, c128); some have another name for
    complex numbers."""
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[dtype]
    return letter + (complex_name or name if dtype[0] == "c" else name)


def _library() -> ctypes.CDLL | None:
    """The library that SciPy's wheels bring, opened by itself: importing scipy.linalg for its
    pointers takes fifty times longer. None where SciPy was put together in another way."""
    if not _opened:
        found = None
        spec = importlib.util.find_spec("scipy")
        if spec is not None and spec.origin is not None:
            home = os.path.dirname(spec.origin)
            places = (os.path.join(os.path.dirname(home), "scipy.libs"), home + "/.dylibs")
            names = [n for p in places for n in sorted(glob.glob(p + "/libscipy_openblas[-.]*"))]
            for path in names[:1]:
                try:
                    found = ctypes.CDLL(path)
                except OSError:
                    found = None
        _opened.append(found)
    return _opened[0]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _find(name: str) -> int:
    library = _library()
    symbol = getattr(library, f"scipy_{name}_", None)
    if symbol is not None:
        return ctypes.cast(symbol, ctypes.c_void_p).value or 0
    module = _blas if name[1:] in _BLAS else _lapack
    capsule = module.__pyx_capi__[name]
    return int(_capsule_pointer(capsule, _capsule_name(capsule)))


def address(name: str) -> int:
    """The address of a routine, found on first use.

    Raises KeyError for a routine that SciPy does not export.
    """
    found = _addresses.get(name)
    if found is None:
        with _lock:
            found = _addresses[name] = _find(name)
    return found


def library_threads() -> tuple[int, int]:
    """The address of the function that sets the number of threads that the library itself uses,
    and that number before our first call; zeros if there is none or a single thread."""
    if not _threads:
        library = _library()
        get = getattr(library, "scipy_openblas_get_num_threads", None)
        put = getattr(library, "scipy_openblas_set_num_threads", None)
        if get is None or put is None or (usual := int(get())) < 2:
            _threads.append((0, 0))
        else:
            _threads.append((ctypes.cast(put, ctypes.c_void_p).value or 0, usual))
    return _threads[0]


def _pointer(x: Any) -> Any:
    return ctypes.c_void_p(x.ctypes.data)


def call(name: str, form: str, args: Sequence[Any], results: int = 1) -> list[int]:
    """Calls a routine with NumPy scalars and arrays in the form that the module's text says; its
    results (LAPACK's `info`)."""
    kept: list[Any] = []
    pointers: list[Any] = []
    given = iter(args)
    for letter in form:
        if letter == "n":
            pointers.append(None)
            continue
        value = next(given)
        if letter in "sc":
            value = np.array(value)
            kept.append(value)
            pointers.append(_pointer(value))
        elif letter == "o":
            flat = value.reshape(-1)
            pointers.append(ctypes.c_void_p(flat.ctypes.data + int(next(given)) * flat.itemsize))
        else:
            pointers.append(_pointer(value))
    outs = [ctypes.c_int32(0) for _ in range(results)]
    lengths = [ctypes.c_int64(1)] * form.count("c")
    function: Callable[..., Any] = ctypes.CFUNCTYPE(None)(address(name))
    function(*pointers, *map(ctypes.byref, outs), *lengths)
    return [x.value for x in outs]
