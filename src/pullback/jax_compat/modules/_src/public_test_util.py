"""`jax._src.public_test_util`: what `jax.test_util` has, and comparisons by tolerance of dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import dtypes, tree
from ....test_util import check_grads as check_grads, check_jvp as check_jvp, check_vjp as check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

# How far two arrays of one element may lie apart, absolutely and relatively; integers not at all.
_BY_NAME = {
    "float4_e2m1fn": 1.0,
    "float8_e8m0fnu": 1.0,
    "bfloat16": 1e-2,
    "float16": 1e-3,
    "float32": 1e-6,
    "float64": 1e-15,
    "complex64": 1e-6,
    "complex128": 1e-15,
}
_FLOAT8 = 1e-1
_default_tolerance: dict[Any, float] = {dtypes.float0: 0} | {
    d: _BY_NAME.get(d.name, _FLOAT8 if dtypes.is_inexact(d) else 0)
    for d in dtypes.ALL_DTYPES
    if not d.name.startswith("float6_")
}


def default_tolerance() -> dict[Any, float]:
    """Tolerance by dtype."""
    return _default_tolerance


def tolerance(dtype: Any, tol: Any = None) -> Any:
    """The tolerance of a dtype: `tol`, a number or a table by dtype, or else the default."""
    if tol is not None and not isinstance(tol, dict):
        return tol
    given = {np.dtype(d): t for d, t in (tol or {}).items()}
    dtype = dtypes.canonicalize_dtype(np.dtype(dtype))
    return given.get(dtype, _default_tolerance[dtype])


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """AssertionError unless two pytrees of arrays are of the same shapes and close to each other.

    `atol`, `rtol`: numbers, or tables by dtype; the more lenient operand decides. Both are of a
    single element: they grow with the arrays, because reductions' errors do.
    """
    tree.map(lambda x, y: _check_close(x, y, atol, rtol, err_msg), xs, ys)


def _check_close(x: Any, y: Any, atol: Any, rtol: Any, err_msg: str) -> None:
    assert np.shape(x) == np.shape(y), f"{np.shape(x)} and {np.shape(y)}. {err_msg}"
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype == y.dtype == dtypes.float0:
        return
    # NumPy's own tolerance where ours is none: that is nearly none for integers.
    limits = {
        name: most * x.size
        for name, most in (("atol", _most(x, y, atol)), ("rtol", _most(x, y, rtol)))
        if most
    }
    np.testing.assert_allclose(_native(x), _native(y), err_msg=err_msg, **limits)


def _most(x: Any, y: Any, tol: Any) -> Any:
    return max(tolerance(x.dtype, tol), tolerance(y.dtype, tol))


def _native(x: Any) -> Any:
    """`x` in a dtype of NumPy's own: its comparisons know no others."""
    if x.dtype.isbuiltin == 1:
        return x
    return x.astype(np.float32 if dtypes.is_inexact(x.dtype) else np.int32)


# How far numerical derivatives lie from ours, by dtype.
default_gradient_tolerance: dict[Any, float] = {
    d: {"float4_e2m1fn": 1.0, "float8_e8m0fnu": 1.0, "bfloat16": 1e-1, "float16": 1e-2,
        "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3, "complex128": 1e-5}.get(d.name, 1e-1)
    for d in _default_tolerance if d.kind not in "biu" and d.names is None and "int" not in d.name
}  # fmt: skip
EPS = 1e-4  # the step of numerical derivatives


def is_python_scalar(val: Any) -> bool:
    """Is it a number of Python's own?"""
    return not isinstance(val, np.generic) and isinstance(val, (bool, int, float, complex))


def _like(x: Any, value: Any) -> Any:
    """Of the dtype, or the type, that `x` has."""
    if is_python_scalar(x):
        return type(x)(value)
    return np.asarray(value, dtype=x.dtype)


def _of_leaves(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda xs, *rest: tree.map(lambda x, *ys: _like(x, op(x, *ys)), xs, *rest)


add, sub, conj = _of_leaves(np.add), _of_leaves(np.subtract), _of_leaves(np.conj)


def scalar_mul(xs: Any, a: Any) -> Any:
    """A pytree, its leaves times a number."""
    return tree.map(lambda x: _like(x, np.multiply(x, a)), xs)


def inner_prod(xs: Any, ys: Any) -> Any:
    """The sum of the products of the leaves' elements, its real part."""
    parts = tree.map(lambda x, y: np.real(np.vdot(x, y)), xs, ys)
    return functools.reduce(np.add, tree.leaves(parts))


def rand_like(rng: Any, x: Any) -> Any:
    """Normal numbers of an array's shape and dtype."""
    shape, dtype = np.shape(x), dtypes.dtype(x) if is_python_scalar(x) else x.dtype
    drawn = np.asarray(rng.randn(*shape))
    if dtypes.is_complex(dtype):
        drawn = drawn + 1j * np.asarray(rng.randn(*shape))
    out = np.asarray(drawn).astype(dtype)
    return out.item() if is_python_scalar(x) else out


def numerical_jvp(f: Callable[..., Any], primals: Any, tangents: Any, eps: float = EPS) -> Any:
    """A derivative along tangents, by central differences."""
    delta = scalar_mul(tangents, eps)
    above, below = f(*add(primals, delta)), f(*sub(primals, delta))
    return scalar_mul(sub(above, below), 0.5 / eps)


def _merge_tolerance(tol: Any, default: dict[Any, Any]) -> Any:
    """A table of tolerances, what it lacks being the default's."""
    if tol is None:
        return default
    if not isinstance(tol, dict):
        return tol
    return {**default, **{np.dtype(d): t for d, t in tol.items()}}
