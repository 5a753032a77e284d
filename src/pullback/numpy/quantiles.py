"""Quantiles, percentiles and medians, with and without NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.placement import asked_sharding
from ..core.avals import typeof
from ..dtypes import default_int
from ..primitives.common import as_array
from . import cumulative, indexing, reductions
from .selecting import number, select_where
from .taking import take_along_axis
from .util import (
    canonical_axes,
    check_arraylike,
    dtype_of,
    literal,
    ndim_of,
    promote_dtypes,
    promote_dtypes_inexact,
    promotes_freely,
    shape_of,
    static_axes,
    to_type,
)

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _one_axis(a: Any, axis: Any, keepdims: bool) -> tuple[Any, int, tuple[int, ...]]:
    """The array with the reduced axes joined into one: (array, that axis, axes that keepdims puts
    back).
    """
    ndim = ndim_of(a)
    if axis is None:
        axes = tuple(range(ndim))
        n: Any = 1
        for m in shape_of(a):
            n = n * m
        return lax.reshape(a, (n,)), 0, axes if keepdims else ()
    if not isinstance(axis, tuple):
        k = canonical_axes(axis, ndim)[0]
        return a, k, (k,) if keepdims else ()
    axes = canonical_axes(axis, ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis: {axis}")
    rest = [k for k in range(ndim) if k not in axes]
    moved = lax.transpose(a, (*rest, *axes))
    n = 1
    for k in axes:
        n = n * shape_of(a)[k]
    return (
        lax.reshape(moved, (*(shape_of(a)[k] for k in rest), n)),
        len(rest),
        tuple(sorted(axes)) if keepdims else (),
    )


def _quantile(
    a: Any, q: Any, axis: Any, method: str, keepdims: bool, squash_nans: bool, weights: Any
) -> Any:
    (a,) = promote_dtypes_inexact(a)
    (q,) = promote_dtypes_inexact(q)  # a level of Python's has the default width
    d = _dtype_of_ranks(dtype_of(a), dtype_of(q))
    if dtypes.is_complex(d):
        raise ValueError(
            "quantile does not support complex input, as the operation is poorly defined."
        )
    q = q if dtype_of(q) == d else to_type(q, d, False)
    alike = method == "inverted_cdf" and weights is None
    if alike:
        weights = lax.full_like(a, 1, dtype=d)
    a = as_array(a)
    own = typeof(a).dtype
    a = to_type(a, d if alike else own, False)
    if ndim_of(q) > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {shape_of(q)}")
    scalar = not ndim_of(a)
    a, k, back = _one_axis(a, axis, keepdims)
    n = shape_of(a)[k]
    if weights is not None:
        out = _weighted(a, q, k, weights, method, squash_nans)
        out = to_type(out, own, False) if alike else out
    else:
        out = _nan_ranks(a, q, k, n, method) if squash_nans else _ranks(a, q, k, n, method)
    if keepdims:
        lead = ndim_of(q)
        if axis is None or isinstance(axis, tuple):
            # As in JAX, a scalar has one axis to keep.
            return lax.expand_dims(out, tuple(b + lead for b in ((0,) if scalar else back)))
        return lax.expand_dims(out, (k + lead,))
    return out


def _dtype_of_ranks(a: Any, q: Any) -> Any:
    """The dtype in which ranks are found: of narrow or half precision they would be off for long
    axes. Floats of 8 bits have no common dtype with others; it is the other's then.
    """
    tiny = [dtypes.itemsize_bits(d) <= 8 for d in (a, q)]
    if tiny[0] != tiny[1]:
        return q if tiny[0] else a
    return promotes_freely(dtypes.promote_types)(a, q)


def _ranks(a: Any, q: Any, k: int, n: int, method: str) -> Any:
    d = typeof(q).dtype
    # One NaN makes the whole slice NaN.
    lost = reductions.any_reduce(lax.ne(a, a), k, None, True)
    a = lax.sort(select_where(lost, np.nan, a), dimension=k)
    places, low_weight, high_weight = _places(
        q,
        lambda: lax.sub(number(n, d), number(1, d)),
        lambda x, top: lax.clamp(number(0, d), x, top),
    )
    low_value, high_value = (_row(a, i, k) for i in places)
    rest = ndim_of(a) - 1
    if ndim_of(q) == 1:
        shape = shape_of(low_value)
        low_weight, high_weight = (
            lax.broadcast_in_dim(w, shape, (0,)) if rest else w for w in (low_weight, high_weight)
        )
    return _interpolate(method, low_value, high_value, low_weight, high_weight)


def _places(q: Any, top: Any, bounded: Any) -> tuple[tuple[Any, Any], Any, Any]:
    """(positions of the elements before and after the ranks, the weight of either); `top()` is the
    last rank, `bounded` keeps ranks up to it.
    """
    at = lax.mul(q, top())
    low, high = lax.floor(at), lax.ceil(at)
    high_weight = lax.sub(at, low)
    low_weight = lax.sub(lax.full_like(high_weight, 1, shape=()), high_weight)
    low, high = bounded(low, top()), bounded(high, top())
    kind = default_int()
    places = lax.convert_element_type(low, kind), lax.convert_element_type(high, kind)
    return places, low_weight, high_weight


def _row(a: Any, i: Any, k: int) -> Any:
    """a[..., i, ...] along axis k; a vector of indices gives a leading axis."""
    shape = shape_of(a)
    rest = tuple(range(len(shape) - 1))
    m = ndim_of(i)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(r + m for r in rest), collapsed_slice_dims=(k,), start_index_map=(k,)
    )
    sizes = tuple(1 if j == k else n for j, n in enumerate(shape))
    columns = lax.broadcast_in_dim(i, (*shape_of(i), 1), tuple(range(m)))
    return lax.gather(a, columns, numbers, sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _interpolate(method: str, low: Any, high: Any, low_weight: Any, high_weight: Any) -> Any:
    if method == "linear":
        d, wide = typeof(low).dtype, typeof(low_weight).dtype
        below = lax.mul(to_type(low, wide, False), low_weight)
        above = lax.mul(to_type(high, wide, False), high_weight)
        return to_type(lax.add(below, above), d, False)
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "nearest":
        half = lax.full_like(high_weight, 0.5)
        near = lax.le(high_weight, half)
        near = (
            lax.broadcast_in_dim(near, shape_of(low), tuple(range(ndim_of(near))))
            if shape_of(near) != shape_of(low) and ndim_of(near)
            else near
        )
        return lax.select(near, low, high)
    return lax.mul(lax.add(low, high), literal(low, 0.5))


def _nan_ranks(a: Any, q: Any, k: int, n: int, method: str) -> Any:
    d = typeof(q).dtype
    # NaN is sorted to the end; each slice has its own number of values.
    a = lax.sort(select_where(lax.ne(a, a), np.nan, a), dimension=k)
    present = lax.bitwise_not(lax.ne(a, a))
    counts = reductions.sum_reduce(present, k, d)
    lead = ndim_of(q)
    shape = (*shape_of(q), *shape_of(counts))
    wide_counts = lax.broadcast_in_dim(counts, shape, tuple(range(lead, len(shape))))
    wide_q = lax.broadcast_in_dim(q, shape, tuple(range(lead)))
    places, low_weight, high_weight = _places(
        wide_q,
        lambda: lax.sub(wide_counts, number(1, d)),
        lambda x, top: lax.max(number(0, d), lax.min(x, top)),
    )
    grid: list[Any] = [
        lax.broadcasted_iota(default_int(), shape, lead + j) for j in range(len(shape) - lead)
    ]

    def pick(i: Any) -> Any:
        return indexing.take_index(a, (*grid[:k], i, *grid[k:]))

    low, high = map(pick, places)
    return _interpolate(method, low, high, low_weight, high_weight)


def _weighted(a: Any, q: Any, k: int, weights: Any, method: str, squash_nans: bool) -> Any:
    """The smallest value whose share of the total weight reaches q."""
    if method != "inverted_cdf":
        fault: type[Exception] = NotImplementedError if method in _METHODS else ValueError
        raise fault(
            f"jnp.quantile: weights are supported only for method='inverted_cdf', got {method!r}."
        )
    n = shape_of(a)[k]
    if dtypes.is_inexact(dtype_of(weights)):
        a, weights = promote_dtypes(a, weights)
    d = typeof(a).dtype
    q = to_type(q, d, False)
    w = to_type(as_array(weights), d, False)
    if ndim_of(w) == 1 and shape_of(w)[0] == n:
        w = lax.broadcast_in_dim(w, shape_of(a), (k,))
    elif shape_of(w) != shape_of(a):
        if w.size != a.size:
            raise ValueError(f"jnp.quantile: weights of shape {shape_of(weights)} do not fit.")
        w = lax.reshape(w, shape_of(a))
    missing = lax.ne(a, a)
    if squash_nans:
        w = lax.select(missing, lax.full_like(w, 0), w)
    keys, w_sorted = lax.sort((a, w), dimension=k, num_keys=1)
    running = cumulative.cumsum(w_sorted, axis=k)
    total = lax.slice_in_dim(running, n - 1, n, axis=k)
    lost = reductions.any_reduce(missing, k, None)

    def one(level: Any) -> Any:
        goal = lax.mul(lax.broadcast_in_dim(level, shape_of(total), ()), total)
        below = lax.lt(
            running, lax.broadcast_in_dim(goal, shape_of(running), tuple(range(ndim_of(running))))
        )
        i = reductions.sum_reduce(below, k, np.int32, True)
        i = lax.min(i, lax.full_like(i, n - 1))
        out = lax.squeeze(take_along_axis(keys, i, k), (k,))
        return out if squash_nans else select_where(lost, np.nan, out)

    if not ndim_of(q):
        return one(q)
    return lax.stack(
        [one(lax.squeeze(lax.slice_in_dim(q, j, j + 1), (0,))) for j in range(shape_of(q)[0])], 0
    )


def _define(name: str, squash_nans: bool) -> Any:
    def run(
        a: Any,
        q: Any,
        axis: Any = None,
        method: str = "linear",
        keepdims: bool = False,
        weights: Any = None,
    ) -> Any:
        return _quantile(a, q, axis, method, keepdims, squash_nans, weights)

    run.__name__ = name
    return jit(run, static_argnames=("axis", "method", "keepdims"))


_plain, _nan = _define("quantile", False), _define("nanquantile", True)


def _refuse_places(name: str, out: Any, overwrite_input: bool) -> None:
    if overwrite_input or out is not None:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None. "
            "Fix: arrays are immutable; use the returned value."
        )


def _checked(
    name: str, a: Any, q: Any, axis: Any, out: Any, overwrite_input: bool, method: str
) -> Any:
    _refuse_places(name, out, overwrite_input)
    check_arraylike(name, a, q)
    if method not in (*_METHODS, "inverted_cdf"):
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or "
            f"'inverted_cdf', got {method!r}"
        )
    return static_axes(axis)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-quantiles (q in [0, 1]) over `axis`; NaN where there is a NaN.

    `q`: a number or a vector, whose axis comes first in the result. `method`: how to choose between
    two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest' or another of NumPy's.
    `weights` need 'inverted_cdf'.

    >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0, 10.0]), jnp.array([0.0, 0.5]))
    Array([1. , 2.5], dtype=float32)
    """
    axis = _checked("quantile", a, q, axis, out, overwrite_input, method)
    more = {} if weights is None else {"weights": weights}
    return _plain(a, q, axis=axis, method=method, keepdims=keepdims, **more)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-quantiles over `axis` of what is not NaN.

    Arguments as for `quantile`; NaN where all are NaN.

    >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    axis = _checked("nanquantile", a, q, axis, out, overwrite_input, method)
    more = {} if weights is None else {"weights": weights}
    return _nan(a, q, axis=axis, method=method, keepdims=keepdims, **more)


def _percent(name: str, quantile_of: Any) -> Any:
    def run(
        a: Any,
        q: Any,
        axis: Any = None,
        method: str = "linear",
        keepdims: bool = False,
        weights: Any = None,
    ) -> Any:
        (q,) = promote_dtypes_inexact(q)
        return quantile_of(
            a, lax.div(q, literal(q, 100)), axis, None, False, method, keepdims, weights=weights
        )

    run.__name__ = name
    return jit(run, static_argnames=("axis", "method", "keepdims"))


_percentile, _nanpercentile = (
    _percent("percentile", quantile),
    _percent("nanpercentile", nanquantile),
)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The q-th percentiles (q in [0, 100]) over `axis`.

    The other arguments are those of `quantile`.

    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0, 10.0]), 75)
    Array(4.75, dtype=float32)
    """
    if out_sharding is not None:
        asked_sharding("percentile", out_sharding)
    axis = _checked("percentile", a, q, axis, out, overwrite_input, method)
    more = {} if weights is None else {"weights": weights}
    return _percentile(a, q, axis=axis, method=method, keepdims=keepdims, **more)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The q-th percentiles over `axis` of what is not NaN.

    Arguments as for `percentile`; NaN where all are NaN.

    >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    axis = _checked("nanpercentile", a, q, axis, out, overwrite_input, method)
    more = {} if weights is None else {"weights": weights}
    return _nanpercentile(a, q, axis=axis, method=method, keepdims=keepdims, **more)


def _middle(name: str, quantile_of: Any, doc: str) -> Any:
    def run(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return quantile_of(a, 0.5, axis, None, False, "midpoint", keepdims)

    run.__name__ = name
    call = jit(run, static_argnames=("axis", "keepdims"))

    def f(
        a: Any,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        keepdims: bool = False,
    ) -> Any:
        _refuse_places(name, out, overwrite_input)
        check_arraylike(name, a)
        return call(a, axis=static_axes(axis), keepdims=keepdims)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


median = _middle(
    "median",
    quantile,
    """The median over `axis`; NaN where there is a NaN.

    `axis`: an int, a tuple, or None for all. Integers give floats. ValueError for complex numbers.

    >>> jnp.median(jnp.array([[5.0, 1.0, 3.0], [4.0, 8.0, 6.0]]), axis=1)
    Array([3., 6.], dtype=float32)
    """,
)
nanmedian = _middle(
    "nanmedian",
    nanquantile,
    """The median over `axis` of what is not NaN.

    Arguments as for `median`; NaN where all are NaN.

    >>> jnp.nanmedian(jnp.array([5.0, jnp.nan, 3.0]))
    Array(4., dtype=float32)
    """,
)
