"""Sorting, partial sorting, and search in sorted arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.vmap import vmap
from ..core.avals import typeof
from ..dtypes import default_int
from ..primitives.common import as_int, requested_dtype
from ..primitives.layout import iota_like
from . import (
    arithmetic,
    choosing,
    comparison,
    creation,
    joining,
    manipulation,
    reductions,
)
from .selecting import number
from .util import (
    canonical_axis,
    check_arraylike,
    index_dtype,
    promote_dtypes,
    promote_dtypes_inexact,
    promotes_freely,
)


def _checked(name: str, a: Any, kind: Any, order: Any) -> Any:
    check_arraylike(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    return creation.asarray(a)


def _whole(a: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None:
        return manipulation.ravel(a), 0
    return a, canonical_axis(axis, typeof(a).ndim)


@functools.partial(jit, static_argnames=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """A sorted copy of an array along `axis` (None: of all elements). NaN is last; with
    `descending`, first.

    `a`: an array; `stable`: equal elements keep their order.

    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)

    Raises ValueError for an axis out of range, TypeError for `kind` and `order`.
    """
    x, axis = _whole(_checked("sort", a, kind, order), axis)
    out = lax.sort(x, dimension=axis, is_stable=stable)
    return lax.rev(out, (axis,)) if descending else out


@functools.partial(jit, static_argnames=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The indices that sort an array along `axis`, equal elements in their order if `stable`.

    `a`: an array. `kind` must be None; with `descending` the largest comes first.

    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    x, axis = _whole(_checked("argsort", a, kind, order), axis)
    kind_of_index = default_int() if dtype is None else dtypes.canonicalize_dtype(dtype)
    places = iota_like(x, kind_of_index, axis)
    # Descending and stable: sort the reversed array, so that reversing the result puts equal
    # elements back in order.
    turn = descending and stable
    if turn:
        x, places = lax.rev(x, (axis,)), lax.rev(places, (axis,))
    _, out = lax.sort((x, places), dimension=axis, is_stable=stable, num_keys=1)
    return lax.rev(out, (axis,)) if descending else out


@jit
@promotes_freely
def sort_complex(a: Any) -> Any:
    """The array sorted along its last axis, as complex numbers: by real part, then by imaginary
    part.

    >>> jnp.sort_complex(jnp.array([2, 1 + 1j, 1 - 1j]))
    Array([1.-1.j, 1.+1.j, 2.+0.j], dtype=complex64)
    """
    check_arraylike("sort_complex", a)
    x, axis = _whole(creation.asarray(a), -1)
    x = lax.sort(x, dimension=axis, is_stable=True)
    (inexact,) = promote_dtypes_inexact(x)  # integers become the default float first
    return lax.convert_element_type(inexact, dtypes.result_type(inexact, np.complex64))


@functools.partial(jit, static_argnames=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last key first.

    `keys`: a sequence of arrays of one shape, or an array whose first axis numbers them. The result
    has the shape of one key.

    >>> jnp.lexsort((jnp.array([2, 1, 3]), jnp.array([1, 1, 0])))
    Array([2, 1, 0], dtype=int32)

    Raises TypeError without keys, ValueError if their shapes differ.
    """
    keys = tuple(creation.asarray(k) for k in keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shapes = {typeof(k).shape for k in keys}
    if len(shapes) > 1:
        raise ValueError("all keys need to be the same shape")
    shape = shapes.pop()
    if not shape:
        return creation.array(0, dtype=default_int())
    axis = canonical_axis(axis, len(shape))
    places = iota_like(keys[0], default_int(), axis)
    return lax.sort((*keys[::-1], places), dimension=axis, num_keys=len(keys))[-1]


def _partition_axis(name: str, a: Any, kth: int, axis: int) -> tuple[Any, int, int]:
    check_arraylike(name, a)
    x = creation.asarray(a)
    if dtypes.is_complex(typeof(x).dtype):
        raise NotImplementedError(
            f"jnp.{name} for complex dtype is not implemented. Fix: jnp.sort."
        )
    axis = canonical_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[axis]
    kth = as_int(kth, "kth")
    if not -n <= kth < n:
        raise ValueError(f"index {kth} is out of bounds for array of dimension {n}")
    return x, axis, kth % n


@functools.partial(jit, static_argnames=("kth", "axis"))
def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """A copy in which element `kth` along `axis` is where sorting puts it, smaller ones before it
    (sorted), others after it (the largest first).

    >>> jnp.partition(jnp.array([5, 2, 9, 1]), 1)
    Array([1, 2, 9, 5], dtype=int32)
    """
    x, axis, kth = _partition_axis("partition", a, kth, axis)
    ordered = lax.sort(x, dimension=axis, is_stable=True)
    low, high = _cut(ordered, kth + 1, axis)
    return lax.concatenate((low, lax.rev(high, (axis,))), axis)


def _cut(x: Any, at: int, axis: int) -> tuple[Any, Any]:
    n = typeof(x).shape[axis]
    return lax.slice_in_dim(x, 0, at, axis=axis), lax.slice_in_dim(x, at, n, axis=axis)


@functools.partial(jit, static_argnames=("kth", "axis"))
def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The indices of a partition: of the `kth` + 1 smallest elements in order, then of the others
    as they stand.

    >>> jnp.argpartition(jnp.array([5, 2, 9, 1]), 1)
    Array([3, 1, 0, 2], dtype=int32)
    """
    x, axis, kth = _partition_axis("argpartition", a, kth, axis)
    places = iota_like(x, np.dtype(np.int32), axis)
    _, order = lax.sort((x, places), dimension=axis, is_stable=True, num_keys=1)
    low, high = _cut(order, kth + 1, axis)
    return lax.concatenate((low, lax.sort(high, dimension=axis, is_stable=True)), axis)


# --- search ---
def _before(a: Any, b: Any, equal: bool) -> Any:
    """a < b (a <= b with `equal`) in the order in which arrays are sorted: -0 equals 0, NaN is
    greatest and equals itself.
    """
    if dtypes.is_complex(typeof(a).dtype):
        return comparison.less_equal(a, b) if equal else comparison.less(a, b)
    return (lax.le_to_p if equal else lax.lt_to_p).bind(_canonical(a), _canonical(b))


def _canonical(x: Any) -> Any:
    d = typeof(x).dtype
    if not dtypes.is_float(d):
        return x
    one_zero = lax.select(lax.eq(x, number(0, d)), lax.full_like(x, 0), x)
    return lax.select(lax.ne(x, x), lax.full_like(x, np.nan), one_zero)


@functools.partial(jit, static_argnames=("side", "dtype", "unroll"))
def _searchsorted_scan_impl(a: Any, v: Any, side: str, dtype: Any, unroll: bool) -> Any:
    if typeof(v).ndim:  # each value alone
        return vmap(lambda x: _searchsorted_scan_impl(a, x, side, dtype, unroll))(v)
    n = typeof(a).shape[0]
    word = np.dtype("uint32") if n < 2**32 - 1 else np.dtype("uint64")

    def halve(state: Any, _: Any) -> Any:
        low, high = state
        middle = lax.add(low, arithmetic.floor_divide(lax.sub(high, low), 2))
        left = _before(v, a[middle], side == "left")
        return (lax.select(left, low, middle), lax.select(left, middle, high)), ()

    steps = int(np.ceil(np.log2(n + 1)))
    start = (word.type(0), word.type(n))
    (_, found), _ = lax.scan(halve, start, (), steps, unroll=steps if unroll else 1)
    return lax.convert_element_type(found, dtype)


@functools.partial(jit, static_argnames=("side", "dtype"))
def _searchsorted_compare_all_impl(a: Any, v: Any, side: str, dtype: Any) -> Any:
    v = lax.expand_dims(_canonical(v), (0,))
    a = lax.expand_dims(_canonical(a), tuple(range(1, typeof(v).ndim)))
    compare = (lax.lt_to_p, lax.le_to_p)[side != "left"].bind
    if dtypes.is_complex(typeof(a).dtype):
        compare = comparison.less if side == "left" else comparison.less_equal
    return reductions.sum(compare(a, v).astype(dtype), axis=0, dtype=dtype)


@functools.partial(jit, static_argnames=("side", "dtype"))
def _searchsorted_sort_impl(a: Any, v: Any, side: str, dtype: Any) -> Any:
    flat = manipulation.ravel(v)
    n, m = typeof(a).shape[0], typeof(flat).shape[0]
    # Ranks among both, less ranks among the queries alone, are counts of table elements.
    both = joining.concatenate([flat, a] if side == "left" else [a, flat])
    rank = _rank(both, dtype)[slice(0, m) if side == "left" else slice(n, None)]
    out = rank - _rank(flat, dtype)
    return manipulation.reshape(out, typeof(v).shape)


def _rank(x: Any, dtype: Any) -> Any:
    places = lax.iota(dtype, typeof(x).shape[0])
    zeros = lax.full_like(places, 0)
    return zeros.at[lax.sort_key_val(x, places)[1]].set(places)


@functools.partial(jit, static_argnames=("side", "method"))
def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """The index at which each value of `v` goes into the sorted vector `a` to keep it sorted; of
    equal ones, before or after by `side`.

    `method`: "scan" (binary search), "scan_unrolled", "sort", "compare_all". `sorter` gives the
    indices that sort `a`.

    >>> jnp.searchsorted(jnp.array([1, 2, 2, 3]), 2, side="right")
    Array(3, dtype=int32)

    Raises ValueError for an unknown side or method, or if `a` has not one axis.
    """
    if sorter is None:
        check_arraylike("searchsorted", a, v)
    else:
        check_arraylike("searchsorted", a, v, sorter)
    if side not in ("left", "right"):
        raise ValueError(
            f"side={side!r} is an invalid value for keyword 'side'. Expected 'left' or 'right'."
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"method={method!r} is an invalid value for keyword 'method'. Expected 'sort', 'scan', "
            "'scan_unrolled', or 'compare_all'."
        )
    a, v = (creation.asarray(x) for x in promote_dtypes(a, v))
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    if sorter is not None:
        a = a[sorter]
    n = typeof(a).shape[0]
    dtype = index_dtype(n)
    if type(n) is int and n > np.iinfo(dtype).max:
        requested_dtype(np.int64, "searchsorted")  # which warns
        raise OverflowError(f"Python integer {n} out of bounds for {dtype.name}")
    if n == 0:
        return creation.zeros(typeof(v).shape, dtype)
    if method == "sort":
        return _searchsorted_sort_impl(a, v, side=side, dtype=dtype)
    if method == "compare_all":
        return _searchsorted_compare_all_impl(a, v, side=side, dtype=dtype)
    return _searchsorted_scan_impl(a, v, side=side, dtype=dtype, unroll=method == "scan_unrolled")


@functools.partial(jit, static_argnames=("right", "method"))
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The index of the bin of each element of `x`; `bins` are monotonic edges. `right`: bins
    include their right edge.

    >>> jnp.digitize(jnp.array([0.5, 1.5]), jnp.array([0., 1., 2.]))
    Array([1, 2], dtype=int32)

    Raises ValueError unless bins has one axis.
    """
    check_arraylike("digitize", x, bins)
    edges, x = creation.asarray(bins), creation.asarray(x)
    if typeof(edges).ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got bins={bins}")
    n = typeof(edges).shape[0]
    if n == 0:
        return creation.zeros(typeof(x).shape, np.int32)
    side = "right" if not right else "left"
    how = "scan" if method is None else method
    rises = edges[-1] >= edges[0]
    up = searchsorted(edges, x, side=side, method=how)
    down = n - searchsorted(edges[::-1], x, side=side, method=how)
    return choosing.where(rises, up, down)


__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
]
