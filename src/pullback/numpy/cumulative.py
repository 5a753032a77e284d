"""Running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..dtypes import default_int
from ..primitives.common import as_array
from .selecting import number, select_where
from .util import (
    canonical_axis,
    check_arraylike,
    ndim_of,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


def _cumulative(
    a: Any,
    name: str,
    op: Any,
    axis: Any,
    dtype: Any,
    fill: Any = None,
    promote_integers: bool = False,
) -> Any:
    a = as_array(unwrap(a))
    if axis is None:
        n: Any = 1
        for m in shape_of(a):
            n = n * m
        a = lax.reshape(a, (n,))
        axis = 0
    k = canonical_axis(axis, ndim_of(a))
    if fill is not None:
        a = select_where(lax.ne(a, a), number(fill, typeof(a).dtype), a)
    d = typeof(a).dtype
    if dtype is not None:
        d = user_dtype(dtype, name)
    elif dtypes.is_bool(d):
        d = default_int()
    elif promote_integers and dtypes.is_integer(d):
        wide = default_int()
        if dtypes.itemsize_bits(d) < 8 * wide.itemsize:
            d = dtypes.canonicalize_dtype(np.uint64) if dtypes.is_unsigned(d) else wide
    a = to_type(a, d, False)
    if dtypes.is_bool(d):
        # A running sum of bools, kept as bools: computed as integers.
        return lax.ne(
            op(lax.convert_element_type(a, default_int()), axis=k), number(0, default_int())
        )
    return op(a, axis=k)


def _define(name: str, op: Any, fill: Any, doc: str) -> Any:
    def run(a: Any, axis: Any = None, dtype: Any = None) -> Any:
        return _cumulative(a, name, op, axis, dtype, fill)

    run.__name__ = name
    call = jit(run, static_argnames=("axis", "dtype"))

    def f(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        refuse_out(name, out)
        check_arraylike(name, a)
        # As in JAX a number, or what is as weakly typed as one, is an array of one element.
        if axis in (0, -1) and (np.isscalar(a) or (not shape_of(a) and typeof(a).weak_type)):
            axis = None
        return call(a, axis=axis, dtype=dtype)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


cumsum = _define(
    "cumsum",
    lax.cumsum,
    None,
    """The running sum along `axis` (None: of the flattened array).

    Short integers and bools take the default width.

    >>> jnp.cumsum(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([[1, 2],
           [4, 6]], dtype=int32)
    """,
)
cumprod = _define(
    "cumprod",
    lax.cumprod,
    None,
    """The running product along `axis` (None: of the flattened array).

    Short integers and bools take the default width.

    >>> jnp.cumprod(jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """,
)
nancumsum = _define(
    "nancumsum",
    lax.cumsum,
    0,
    """The running sum along `axis`, NaN counted as 0.

    >>> jnp.nancumsum(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 5.], dtype=float32)
    """,
)
nancumprod = _define(
    "nancumprod",
    lax.cumprod,
    1,
    """The running product along `axis`, NaN counted as 1.

    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """,
)


def _cumsum_with_promotion(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _cumulative(a, "cumulative_sum", lax.cumsum, axis, dtype, None, True)


def _cumprod_with_promotion(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _cumulative(a, "cumulative_prod", lax.cumprod, axis, dtype, None, True)


_sum_jit = jit(_cumsum_with_promotion, static_argnames=("axis", "dtype"))
_prod_jit = jit(_cumprod_with_promotion, static_argnames=("axis", "dtype"))


def _standard(
    name: str, op: Any, first: int, x: Any, axis: Any, dtype: Any, include_initial: bool
) -> Any:
    check_arraylike(name, x)
    x = as_array(unwrap(x))
    ndim = ndim_of(x)
    if ndim == 0:
        raise ValueError(
            f"The input must be non-scalar to take a {name.replace('_', ' ')}, however a scalar "
            "value or scalar array was given."
        )
    if axis is None:
        if ndim > 1:
            raise ValueError(
                f"The input array has rank {ndim}, however axis was not set to an explicit value. "
                "The axis argument is only "
                "optional for one-dimensional arrays."
            )
        axis = 0
    k = canonical_axis(axis, ndim)
    out = op(x, axis=k, dtype=dtype)
    if include_initial:
        shape = list(shape_of(out))
        shape[k] = 1
        out = lax.concatenate([lax.full(tuple(shape), first, typeof(out).dtype), out], k)
    return out


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running sum along `axis`; with `include_initial`, a 0 comes first.

    Raises ValueError if an array with more than one axis comes without `axis`.

    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _standard("cumulative_sum", _sum_jit, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The running product along `axis`; with `include_initial`, a 1 comes first. Short integers
    become the default ones, as in the array API standard; in JAX they keep their width.

    Raises ValueError if an array with more than one axis comes without `axis`.

    >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _standard("cumulative_prod", _cumprod_with_promotion, 1, x, axis, dtype, include_initial)
