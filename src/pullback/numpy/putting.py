"""Arrays with other elements at given positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..primitives.common import as_array, size_of
from . import cumulative, scatter
from .index_sets import unravel_index
from .manipulation import ravel, reshape, tile
from .selecting import number
from .taking import take
from .util import (
    canonical_axis,
    check_arraylike,
    dtype_of,
    literal,
    ndim_of,
    shape_of,
    to_type,
    unwrap,
)


def _refuse_inplace(
    name: str, inplace: bool, call: str, error: type[Exception] = ValueError
) -> None:
    if inplace:
        raise error(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are immutable, "
            "must use inplace=False. Pass inplace=False to instead return an updated array. "
            f"Fix: x = jnp.{call}."
        )


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of `a` with the values `v` (repeated as needed) at flat positions `ind`. `mode`:
    'clip' (the default) or 'wrap'.

    `inplace=False` must be given: arrays cannot be changed.

    >>> jnp.put(jnp.zeros(4), jnp.array([0, 2]), jnp.array([5.0, 6.0]), inplace=False)
    Array([5., 0., 6., 0.], dtype=float32)
    """
    _refuse_inplace("put", inplace, "put(x, ind, v, inplace=False)")
    check_arraylike("put", a, ind, v)
    a, ind, v = as_array(unwrap(a)), ravel(ind), ravel(v)
    if not size_of(shape_of(a)) or not shape_of(ind)[0] or not shape_of(v)[0]:
        return a
    n, m = size_of(shape_of(a)), shape_of(ind)[0]
    if shape_of(v)[0] < m:
        v = tile(v, -(-m // shape_of(v)[0]))
    v = lax.slice_in_dim(v, 0, m) if shape_of(v)[0] != m else v
    if mode is None:
        how: str = "drop"
    elif mode == "clip":
        ind, how = lax.clamp(literal(ind, 0), ind, literal(ind, n - 1)), "drop"
    elif mode == "wrap":
        r = lax.rem(ind, lax.full_like(ind, n))
        ind, how = (
            lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, lax.full_like(r, n)), r),
            "drop",
        )
    elif mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.put is not supported. Fix: use mode='clip' or 'wrap'."
        )
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    if mode is None:
        where_: tuple[Any, ...] = unravel_index(ind, shape_of(a))
        return scatter.update(a, where_, v, "set", mode=how)
    return reshape(scatter.update(ravel(a), ind, v, "set", mode=how), shape_of(a))


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of `arr` with the values `vals`, one after another and repeated, where `mask`
    is true.

    `inplace=False` must be given: arrays cannot be changed.

    >>> x = jnp.arange(5)
    >>> jnp.place(x, x > 2, jnp.array([0]), inplace=False)
    Array([0, 1, 2, 0, 0], dtype=int32)
    """
    check_arraylike("place", arr, mask, vals)
    _refuse_inplace("place", inplace, "place(x, mask, vals, inplace=False)")
    arr, mask, vals = as_array(unwrap(arr)), as_array(unwrap(mask)), ravel(vals)
    if size_of(shape_of(arr)) != size_of(shape_of(mask)):
        raise ValueError("place: arr and mask must be the same size")
    if not shape_of(vals)[0]:
        raise ValueError("Cannot place values from an empty array")
    if not size_of(shape_of(arr)):
        return arr
    flat = ravel(mask)
    hit = flat if dtypes.is_bool(typeof(flat).dtype) else lax.ne(flat, literal(flat, 0))
    # The k-th hit takes the k-th value.
    order = lax.sub(cumulative.cumsum(hit), number(1, dtype_of(cumulative.cumsum(hit))))
    which = lax.rem(
        lax.max(order, lax.full_like(order, 0)), lax.full_like(order, shape_of(vals)[0])
    )
    scatter.warn_unsafe(arr, vals)
    values = to_type(take(vals, which, mode="clip"), typeof(arr).dtype, typeof(arr).weak_type)
    return reshape(lax.select(hit, values, ravel(arr)), shape_of(arr))


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any, mode: Any) -> Any:
    arr, indices = as_array(unwrap(arr)), as_array(unwrap(indices))
    shape = shape_of(arr)
    flat = axis is None
    if flat:
        arr, axis = ravel(arr), 0
    k = canonical_axis(axis, ndim_of(arr))
    if ndim_of(indices) != ndim_of(arr):
        raise ValueError(
            f"put_along_axis arguments 'arr' and 'indices' must have same ndim. Got {ndim_of(arr)} "
            f"and {ndim_of(indices)}."
        )
    own = lax.broadcast_shapes(
        tuple(1 if j == k else n for j, n in enumerate(shape_of(arr))), shape_of(indices)
    )
    values = as_array(unwrap(values))
    values = (
        lax.broadcast_in_dim(values, own, tuple(range(len(own) - ndim_of(values), len(own))))
        if shape_of(values) != own
        else values
    )
    grid: list[Any] = []
    for j, n in enumerate(own):
        if j == k:
            grid.append(indices)
        else:
            grid.append(
                lax.broadcast_in_dim(
                    lax.iota(np.int32, n), tuple(n if i == j else 1 for i in range(len(own))), (j,)
                )
            )
    out = scatter.update(arr, tuple(grid), values, "set", mode=mode)
    return reshape(out, shape) if flat else out


_put_along_axis.__name__ = "put_along_axis"

_put_along_axis_jit = jit(_put_along_axis, static_argnames=("axis", "mode"))


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Any:
    """A copy of `arr` with `values` at the positions that `indices` name along `axis`.

    `inplace=False` must be given: arrays cannot be changed.

    >>> x = jnp.array([[1, 2, 3], [4, 5, 6]])
    >>> jnp.put_along_axis(x, jnp.array([[0], [2]]), 0, axis=1, inplace=False)
    Array([[0, 2, 3],
           [4, 5, 0]], dtype=int32)
    """
    _refuse_inplace(
        "put_along_axis", inplace, "put_along_axis(x, indices, values, axis, inplace=False)"
    )
    check_arraylike("put_along_axis", arr, indices, values)
    return _put_along_axis_jit(arr, indices, values, axis=axis, mode=mode)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of `a` with `val` on the main diagonal.

    `inplace=False` must be given: arrays cannot be changed. `wrap`: the diagonal of a tall matrix
    starts again.

    >>> jnp.fill_diagonal(jnp.zeros((2, 3)), 5.0, inplace=False)
    Array([[5., 0., 0.],
           [0., 5., 0.]], dtype=float32)
    """
    call = "fill_diagonal(x, val, inplace=False)"
    _refuse_inplace("fill_diagonal", inplace, call, NotImplementedError)
    check_arraylike("fill_diagonal", a, val)
    a = as_array(unwrap(a))
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    val = as_array(unwrap(val))
    n = min(shape)
    if wrap:
        raise NotImplementedError(
            "wrap=True is not implemented, must be wrap=False. Fix: index with x.at[i, i % "
            "n].set(val)."
        )
    if ndim_of(val):
        flat = ravel(val)
        val = take(
            flat,
            lax.rem(lax.iota(np.int32, n), lax.full((n,), shape_of(flat)[0], np.int32)),
            mode="clip",
        )
    i = lax.iota(np.int32, n)
    return scatter.update(a, (i,) * len(shape), val, "set")
