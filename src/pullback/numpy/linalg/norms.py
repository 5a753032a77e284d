"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import dtypes
from ...api.jit import jit
from ...core.avals import typeof
from .. import (
    arithmetic,
    choosing,
    comparison,
    complex_parts,
    creation,
    elementary,
    manipulation,
    reductions,
)
from ..util import canonical_axes, check_arraylike, static_axes
from .common import inexact
from .factor import svd
from .systems import inv


@functools.partial(jit, static_argnames=("p",))
def cond(x: Any, p: Any = None) -> Any:
    """The condition number: of the 2-norm by singular values (p None, 2, -2), else norm(x, p) *
    norm(inv(x), p).

    Raises ValueError below two axes.

    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 0.5]]))
    Array(8., dtype=float32)
    """
    check_arraylike("jnp.linalg.cond", x)
    arr = creation.asarray(x)
    if typeof(arr).ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={typeof(arr).shape}"
        )
    if 0 in typeof(arr).shape[-2:]:
        raise ValueError(
            f"jnp.linalg.cond: input array must not be empty; got arr.shape={typeof(arr).shape}"
        )
    if p is None or p in (2, -2):
        s = svd(arr, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    (arr,) = inexact("cond", arr)
    rows, columns = typeof(arr).shape[-2:]
    if rows != columns:
        raise ValueError(
            f"jnp.linalg.cond: for {p=}, array must be square; got arr.shape={typeof(arr).shape}"
        )
    r = norm(arr, ord=p, axis=(-2, -1)) * norm(inv(arr), ord=p, axis=(-2, -1))
    # Singular, not NaN: infinite.
    unknown = comparison.isnan(r) & ~reductions.any(comparison.isnan(arr), axis=(-2, -1))
    return choosing.where(unknown, np.inf, r)


@functools.partial(jit, static_argnames=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors (one axis) or matrices (two axes); by default of all elements, the root
    of the sum of squares.

    Vectors: any number, inf, -inf, 0 (how many are not 0). Matrices: "fro", "nuc", 1, -1, 2, -2,
    inf, -inf.

    `x`: an array; `ord`: which norm; `keepdims` keeps the axes with size 1.

    >>> pb.numpy.linalg.norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)

    Raises ValueError for another order or number of axes.
    """
    (x,) = inexact("norm", x)
    ndim = typeof(x).ndim
    if axis is None:
        if ord is None:
            return elementary.sqrt(
                reductions.sum(complex_parts.real(x * complex_parts.conj(x)), keepdims=keepdims)
            )
        axis = tuple(range(ndim))
    axes = canonical_axes(axis, ndim)
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axis': {axes}")
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, "
        "or two axes to compute a matrix-norm."
    )


def _vector_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if ord is None or (not isinstance(ord, str) and ord == 2):
        return elementary.sqrt(
            reductions.sum(
                complex_parts.real(x * complex_parts.conj(x)), axis=axis, keepdims=keepdims
            )
        )
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord == np.inf:
        return reductions.max(arithmetic.abs(x), axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return reductions.min(arithmetic.abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        real = np.zeros((), typeof(x).dtype).real.dtype
        return reductions.sum(x != 0, dtype=real, axis=axis, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(arithmetic.abs(x), axis=axis, keepdims=keepdims)
    size = arithmetic.abs(x)
    dtype = typeof(size).dtype
    total = reductions.sum(size ** creation.asarray(ord, dtype), axis=axis, keepdims=keepdims)
    return arithmetic.power(total, creation.asarray(1.0 / ord, dtype))


def _matrix_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axis
    if ord is None or ord in ("f", "fro"):
        return elementary.sqrt(
            reductions.sum(
                complex_parts.real(x * complex_parts.conj(x)), axis=axis, keepdims=keepdims
            )
        )
    if ord in (1, -1, np.inf, -np.inf) and not isinstance(ord, str):
        inner, outer = (row, column) if ord in (1, -1) else (column, row)
        if not keepdims and outer > inner:
            outer -= 1
        sums = reductions.sum(arithmetic.abs(x), axis=inner, keepdims=keepdims)
        return (
            reductions.max(sums, axis=outer, keepdims=keepdims, initial=0)
            if ord in (1, np.inf)
            else reductions.min(sums, axis=outer, keepdims=keepdims)
        )
    if ord in ("nuc", 2, -2):
        s = svd(manipulation.moveaxis(x, axis, (-2, -1)), compute_uv=False)
        if ord == "nuc":
            y = reductions.sum(s, axis=-1)
        else:
            y = reductions.max(s, axis=-1, initial=0) if ord == 2 else reductions.min(s, axis=-1)
        return manipulation.expand_dims(y, axis) if keepdims else y
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of the elements along `axis` (one, several, or None for all), taken as one
    vector.

    >>> jnp.linalg.vector_norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    check_arraylike("jnp.linalg.vector_norm", x)
    x, axis = creation.asarray(x), static_axes(axis)
    ndim = typeof(x).ndim
    if not dtypes.is_inexact(typeof(x).dtype):
        if not isinstance(ord, str) and ord in (1, np.inf, -np.inf):  # exact: whole numbers
            size, keep = arithmetic.abs(x), {"axis": axis, "keepdims": keepdims}
            if ord == 1:
                return reductions.sum(size, **keep)
            return (reductions.max if ord > 0 else reductions.min)(size, **keep)
        x = x.astype(dtypes.default_float())
    axes = canonical_axes(axis, ndim)
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axis': {axes}")
    return _vector_norm(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two axes.

    `ord`: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf. Raises ValueError for fewer than two axes.

    >>> jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
    Array(5., dtype=float32)
    """
    check_arraylike("jnp.linalg.matrix_norm", x)
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))
