"""Checks of derivatives against finite differences, for tests of one's own functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import dtypes, tree
from .api.derivatives import jvp, vjp
from .core.avals import typeof

__all__ = ["check_grads", "check_jvp", "check_vjp"]

# Absolute and relative tolerance by precision, and how far the arguments are moved, for functions
# of order one. In single and double precision as JAX; in half precision its step is lost in
# rounding.
_TOLERANCE = {"bfloat16": 0.2, "float16": 2e-2, "float32": 2e-3, "float64": 1e-5}
_STEP, _HALF_STEP = 1e-4, 1e-2

# A number, a table of numbers by dtype, or None: the ones above.
Tolerance = float | Mapping[Any, float] | None


def _tolerance(given: Tolerance, leaves: Sequence[Any]) -> float:
    """The tolerance of arrays: a number, or of a table by dtype the largest that concerns them."""
    if given is not None and not isinstance(given, Mapping):
        return given
    table = {np.dtype(d).name: t for d, t in (given or {}).items()}
    return max(
        (_tolerance_of(np.asarray(x).dtype.name, table) for x in leaves),
        default=_TOLERANCE["float32"],
    )


def _tolerance_of(name: str, table: Mapping[str, float]) -> float:
    part = {"complex64": "float32", "complex128": "float64"}.get(name, name)
    return table.get(name, _TOLERANCE.get(part, 0.0))


def _random_like(x: Any, rng: np.random.RandomState) -> Any:
    x = np.asarray(x)
    if not dtypes.is_inexact(x.dtype):
        return np.zeros(x.shape, dtypes.float0)
    values = rng.randn(*x.shape)
    if dtypes.is_complex(x.dtype):
        values = values + 1j * rng.randn(*x.shape)
    return np.asarray(values).astype(x.dtype)


def _inner(a: Any, b: Any) -> float:
    """The real inner product of two pytrees."""
    total = 0.0
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if dtypes.is_inexact(x.dtype) and y.dtype != dtypes.float0:
            wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
            total += float(np.real(np.vdot(np.conj(x.astype(wide)), y.astype(wide))))
    return total


def _moved(args: Any, tangents: Any, step: float) -> Any:
    def move(x: Any, t: Any) -> Any:
        x = np.asarray(x)
        return x if np.asarray(t).dtype == dtypes.float0 else (x + step * t).astype(x.dtype)

    return tree.map(move, args, tangents)


def _change(a: Any, b: Any) -> Any:
    """a - b; 0 where they are equal, infinities too: a minimum of nothing does not change."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, np.zeros((), a.dtype), a - b)


def _difference(f: Callable[..., Any], args: Any, tangents: Any, eps: float) -> Any:
    """The directional derivative by central differences."""
    high, low = f(*_moved(args, tangents, eps)), f(*_moved(args, tangents, -eps))
    return tree.map(lambda a, b: _change(np.asarray(a), np.asarray(b)) * (0.5 / eps), high, low)


def _close(a: Any, b: Any, atol: float, rtol: float, message: str) -> None:
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_allclose(
            np.asarray(x, np.complex128),
            np.asarray(y, np.complex128),
            atol=atol,
            rtol=rtol,
            err_msg=message,
        )


def _step(eps: float | None, leaves: Sequence[Any]) -> float:
    if eps is not None:
        return float(eps)  # an array would be promoted with the tangents
    half = any(np.asarray(x).dtype.name in ("float16", "bfloat16") for x in leaves)
    return _HALF_STEP if half else _STEP


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_jvp(args, tangents)` is the value of `f` and its derivative by
    central differences.

    >>> pb.test_util.check_jvp(jnp.sin, lambda p, t: pb.jvp(jnp.sin, p, t), (1.0,))
    """
    args = _arrays(args)
    leaves = tree.leaves(args)
    rng = np.random.RandomState(0)
    tangents = tree.map(lambda x: _random_like(x, rng), args)
    value, tangent = f_jvp(args, tangents)
    tolerance = _tolerance(atol, leaves), _tolerance(rtol, leaves)
    _close(value, f(*args), *tolerance, f"{err_msg}: the value of the jvp")
    expected = _difference(f, args, tangents, _step(eps, leaves))
    _close(tangent, expected, *tolerance, f"{err_msg}: the tangent of the jvp")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_vjp(*args)` gives the value of `f` and a pullback that is the
    adjoint of its derivative.

    >>> pb.test_util.check_vjp(jnp.sin, lambda *args: pb.vjp(jnp.sin, *args), (1.0,))
    """
    args = _arrays(args)
    leaves = tree.leaves(args)
    rng = np.random.RandomState(0)
    value, pull = f_vjp(*args)
    tolerance = _tolerance(atol, leaves), _tolerance(rtol, leaves)
    _close(value, f(*args), *tolerance, f"{err_msg}: the value of the vjp")
    tangents = tree.map(lambda x: _random_like(x, rng), args)
    expected = _difference(f, args, tangents, _step(eps, leaves))
    cotangent = tree.map(lambda x: _random_like(x, rng), value)
    # The pullback of ct along t is ct along the derivative in direction t (with complex numbers
    # unconjugated).
    _close(
        np.asarray(_inner(tangents, pull(cotangent))),
        np.asarray(_inner(expected, cotangent)),
        *tolerance,
        f"{err_msg}: the cotangents of the vjp",
    )


def _arrays(args: Any) -> Any:
    """The arguments as NumPy arrays of the dtypes that they are traced with."""
    return tree.map(lambda x: np.asarray(x).astype(typeof(x).dtype), tuple(args))


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Any = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Checks the derivatives of `f` up to an order, forward ("fwd"), reverse ("rev") and mixed, by
    central differences. `atol`, `rtol`: numbers, or tables of numbers by dtype.

    >>> pb.test_util.check_grads(jnp.sin, (0.5,), order=2)

    AssertionError where they differ; ValueError for other modes.
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if set(modes) - {"fwd", "rev"}:
        raise ValueError(f"check_grads: modes must be 'fwd' or 'rev', got {modes}")
    args = _arrays(args)
    check = functools.partial(_check, atol=atol, rtol=rtol, eps=eps)
    check(f, args, order, modes, "")


def _check(
    f: Callable[..., Any], args: Any, order: int, modes: tuple[str, ...], path: str, **options: Any
) -> None:
    if "fwd" in modes:
        check_jvp(f, lambda x, t: jvp(f, x, t), args, err_msg=f"{path} fwd", **options)
        if order > 1:
            rng = np.random.RandomState(order)
            tangents = tree.map(lambda x: _random_like(x, rng), args)
            _check(
                lambda *xs: jvp(f, xs, tangents), args, order - 1, modes, f"{path} fwd", **options
            )
    if "rev" in modes:
        check_vjp(f, lambda *xs: vjp(f, *xs), args, err_msg=f"{path} rev", **options)
        if order > 1:
            rng = np.random.RandomState(order)
            cts = tree.map(lambda x: _random_like(x, rng), f(*args))
            _check(
                lambda *xs: vjp(f, *xs)[1](cts), args, order - 1, modes, f"{path} rev", **options
            )
