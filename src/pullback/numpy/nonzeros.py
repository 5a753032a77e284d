"""Where elements are that are not 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..primitives.common import as_array, as_int, size_of
from . import arithmetic, cumulative, joining, reductions, scatter
from .creation import full
from .manipulation import atleast_1d, ravel, transpose
from .selecting import select_where
from .util import check_arraylike, concrete, literal, ndim_of, shape_of, to_type, unwrap


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The positions of elements that are not 0, an array for each axis. A traced array needs
    `size`: as many, padded with `fill_value`.

    >>> jnp.nonzero(jnp.array([[0, 5], [7, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> jnp.nonzero(jnp.array([0, 5, 7]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    """
    check_arraylike("nonzero", a)
    a = as_array(unwrap(a))
    if not ndim_of(a):
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() "
            "instead."
        )
    if size is None:
        if isinstance(a, Tracer):
            a = a.settled()
        a = concrete(  # where elements are has no derivative
            a,
            "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero "
            "within JAX transformations: jnp.nonzero(x, size=n).",
        )
        if fill_value is None:
            return tuple(as_array(w.astype(default_int())) for w in np.nonzero(np.asarray(a)))
        size = int(np.count_nonzero(np.asarray(a)))  # nothing is filled, but its type counts
    return _nonzero_sized(a, as_int(size, "size"), fill_value)


def _nonzero_sized(a: Any, size: int, fill_value: Any) -> tuple[Any, ...]:
    mask = a if dtypes.is_bool(typeof(a).dtype) else lax.ne(a, literal(a, 0))
    shape = shape_of(a)
    if not size or not size_of(shape):
        return tuple(lax.full((size,), 0, default_int()) for _ in shape)
    # The running count of hits says into which place each falls; counting the elements before
    # each place gives its position.
    hits = cumulative.cumsum(mask)
    empty = lax.full((size,), 0, default_int())
    found = cumulative.cumsum(scatter.update(empty, _clip_jit(hits, 0), 1, "add"))
    out = []
    stride = size_of(shape)
    for n in shape:
        stride //= n
        rows = arithmetic.floor_divide(found, np.array(stride, default_int()))
        out.append(arithmetic.remainder(rows, n))
    if fill_value is None:
        return tuple(out)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(shape)
    bad = [f for f in fills if isinstance(f, list | tuple) or shape_of(f) != ()]
    if len(fills) != len(shape) or bad:
        raise ValueError(
            "nonzero: fill_value must be a scalar or a tuple of length "
            f"{len(shape)}; got {fill_value}"
        )
    missing = lax.ge(lax.iota(default_int(), size), reductions.sum_reduce(mask))
    return tuple(select_where(missing, f, x) for f, x in zip(fills, out, strict=True))


def _clip_low(a: Any, low: Any) -> Any:
    return lax.max(to_type(low, typeof(a).dtype, False), a)


_clip_low.__name__ = "clip"

_clip_jit = jit(_clip_low)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The flat positions of elements that are not 0.

    `size` and `fill_value` as for `nonzero`.

    >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of elements that are not 0, a row for each.

    The shape is (number found, axes of `a`); `size` and `fill_value` as for `nonzero`.

    >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    check_arraylike("argwhere", a)
    found = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if not ndim_of(a):
        return full((shape_of(found[0])[0], 0), 0, default_int())
    return transpose(joining.vstack(found))
