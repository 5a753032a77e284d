"""Counting: bincount and histograms."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import dtypes
from ..api.placement import lay_out
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_int, as_size
from . import (
    choosing,
    creation,
    index_sets,
    joining,
    manipulation,
    ranges,
    reductions,
    signals,
    sorting,
    ufuncs_more,
)
from .util import check_arraylike, promote_dtypes_inexact


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """How often each of 0, 1, 2, ... occurs in a vector of non-negative integers; with `weights`,
    their sums.

    The result has max(x) + 1 elements, at least `minlength`; `length` fixes it (needed under jit;
    larger values are dropped). Negative values count as 0.

    >>> jnp.bincount(jnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)

    Raises TypeError unless x is integer, ValueError unless it has one axis.
    """
    if out_sharding is not None:
        out = bincount(x, weights, minlength, length=length)
        return lay_out(out, "jnp.bincount", out_sharding)
    check_arraylike("bincount", x)
    array = creation.asarray(x)
    if dtypes.is_bool(typeof(array).dtype):
        array = array.astype(np.int32)
    if not dtypes.is_integer(typeof(array).dtype):
        raise TypeError(
            f"x argument to bincount must have an integer type; got {typeof(array).dtype.name}"
        )
    if typeof(array).ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = as_int(minlength, "minlength")
    if length is None:
        if isinstance(x, Tracer):
            raise ConcretizationTypeError(
                x,
                "The error occurred because of argument 'x' of jnp.bincount. To avoid this error, "
                "pass a static `length` argument.",
            )
        host = np.asarray(array)
        length = max(minlength, int(host.max()) + 1 if host.size else 0)
    else:
        length = as_size(length, "length")
    if weights is None:
        values: Any = np.array(1, default_int())
    else:
        check_arraylike("bincount", weights)
        if np.shape(weights) != typeof(array).shape:
            raise ValueError("shape of weights must match shape of x.")
        values = creation.asarray(weights)
    zeros = creation.zeros((length,), typeof(values).dtype)
    return zeros.at[ufuncs_more.clip(array, 0)].add(values, mode="drop")


def _range(a: Any, bounds: Any) -> tuple[Any, Any]:
    """The least and greatest edge: one apart where they would be equal, (0, 1) for no data."""
    if bounds is None:
        if typeof(a).size == 0:
            return creation.array(0, typeof(a).dtype), creation.array(1, typeof(a).dtype)
        bounds = reductions.min(a), reductions.max(a)
    if len(bounds) != 2:
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {bounds}")
    ends = creation.asarray(bounds, dtype=typeof(a).dtype)
    low = choosing.where(reductions.ptp(ends) == 0, ends[0] - 0.5, ends[0])
    return low, choosing.where(reductions.ptp(ends) == 0, ends[1] + 0.5, ends[1])


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of `histogram`: `bins` equal ones over `range` (by default from the
    least to the greatest element), or `bins` itself.

    Raises NotImplementedError for a named rule.

    >>> jnp.histogram_bin_edges(jnp.array([0.0, 1.0, 4.0]), bins=4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError(
            "string values for `bins` not implemented. Fix: give a number of bins, or their edges."
        )
    check_arraylike("histogram_bin_edges", a)
    (array,) = promote_dtypes_inexact(a)
    array = manipulation.ravel(creation.asarray(array))
    edges = creation.asarray(bins)
    if typeof(edges).ndim == 1:
        return edges.astype(typeof(array).dtype)
    count = as_int(bins, "bins") if not hasattr(bins, "aval") else operator.index(bins)
    low, high = _range(array, range)
    return ranges.linspace(low, high, count + 1, dtype=typeof(array).dtype)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, Any]:
    """(counts, edges): how many elements lie in each bin, the last one closed; with `weights` their
    sums, with `density` integrating to 1.

    >>> jnp.histogram(jnp.array([0., 1., 1.]), bins=2)[0]
    Array([1., 2.], dtype=float32)

    Raises ValueError if the shapes of a and weights differ.
    """
    if weights is None:
        check_arraylike("histogram", a)
        (array,) = promote_dtypes_inexact(a)
        array = creation.asarray(array)
        each = creation.ones_like(array)
    else:
        check_arraylike("histogram", a, weights)
        if np.shape(a) != np.shape(weights):
            raise ValueError("weights should have the same shape as a.")
        array, each = (creation.asarray(x) for x in promote_dtypes_inexact(a, weights))
    edges = histogram_bin_edges(array, bins, range, each)
    array, each = manipulation.ravel(array), manipulation.ravel(each)
    place = sorting.searchsorted(edges, array, side="right")
    place = choosing.where(array == edges[-1], len(edges) - 1, place)
    counts = creation.zeros(len(edges), typeof(each).dtype).at[place].add(each, mode="drop")[1:]
    if density:
        widths = signals.diff(edges)
        counts = counts / widths / reductions.sum(counts)
    return counts, edges


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """(counts, x edges, y edges) of pairs: `histogramdd` of two columns.

    >>> x, y = jnp.array([0.1, 0.9, 0.8]), jnp.array([0.2, 0.7, 0.6])
    >>> counts, x_edges, y_edges = jnp.histogram2d(x, y, bins=2, range=((0, 1), (0, 1)))
    >>> counts
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    check_arraylike("histogram2d", x, y)
    try:
        n = len(bins)
    except TypeError:
        n = 1
    if n not in (1, 2):
        edges = creation.asarray(bins)
        bins = [edges, edges]
    x, y = creation.asarray(x), creation.asarray(y)
    if x.shape != y.shape:
        raise ValueError(
            f"histogram2d: x and y must have the same shape, got {x.shape} and {y.shape}"
        )
    sample = joining.stack([x, y], axis=1)
    counts, edges_ = histogramdd(sample, bins, range, weights, density)
    return counts, edges_[0], edges_[1]


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Any, list[Any]]:
    """(counts, [edges of each axis]) of points (n, d): `bins` is a number, or a number or edges for
    each axis; `range` bounds for each axis.

    Raises ValueError for arguments whose lengths do not fit.

    >>> points = jnp.array([[0.1, 0.2], [0.9, 0.8], [0.9, 0.1]])
    >>> counts, edges = jnp.histogramdd(points, bins=2, range=((0, 1), (0, 1)))
    >>> counts
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    if weights is None:
        check_arraylike("histogramdd", sample)
        (points,) = promote_dtypes_inexact(sample)
        points = creation.asarray(points)
    else:
        check_arraylike("histogramdd", sample, weights)
        points, weights = (creation.asarray(v) for v in promote_dtypes_inexact(sample, weights))
    if typeof(points).ndim != 2:
        raise ValueError(f"histogramdd: sample must have shape (n, d), got {typeof(points).shape}")
    n, d = typeof(points).shape
    if weights is not None and typeof(weights).shape != (n,):
        raise ValueError("should have one weight for each sample.")
    if range is not None and (len(range) != d or any(r is not None and len(r) != 2 for r in range)):
        raise ValueError(
            f"For sample.shape={typeof(points).shape}, range must be a sequence of {d} pairs or "
            f"Nones; got {range=}"
        )
    try:
        per_axis = list(bins)
        if len(per_axis) != d:
            raise ValueError("should be a bin for each dimension.")
    except TypeError:
        per_axis = [bins] * d
    edges, places = [], []
    for k, bin_k in enumerate(per_axis):
        column = points[:, k]
        edge = histogram_bin_edges(column, bin_k, None if range is None else range[k], weights)
        place = sorting.searchsorted(edge, column, side="right")
        edges.append(edge)
        places.append(choosing.where(column == edge[-1], place - 1, place))
    sizes = tuple(len(e) + 1 for e in edges)
    flat = index_sets.ravel_multi_index(tuple(places), sizes, mode="clip")
    counts = bincount(flat, weights, length=int(np.prod(sizes, dtype=np.int64)))
    counts = manipulation.reshape(counts, sizes)[(slice(1, -1),) * d]
    if density:
        counts = counts.astype(typeof(points).dtype)
        counts = counts / reductions.sum(counts)
        for k, edge in enumerate(edges):
            widths = signals.diff(edge)
            counts = counts / manipulation.reshape(widths, [-1 if j == k else 1 for j in _upto(d)])
    return counts, edges


def _upto(n: int) -> list[int]:
    return list(np.arange(n).tolist())


__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
