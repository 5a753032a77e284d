"""Unique elements, and arrays as sets. Results whose size depends on the values need `size=` under
jit.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_int
from ..primitives.convert import convert_weak, stop_gradient
from . import (
    choosing,
    creation,
    cumulative,
    joining,
    manipulation,
    nonzeros,
    ranges,
    reductions,
    signals,
    sorting,
    taking,
    ufuncs_more,
)
from .sorting import lexsort
from .util import canonical_axis, check_arraylike, literal, promote_dtypes, shown_as, to_type


def _value(x: Any) -> Any:
    """The value, without its derivative: an array, where only derivatives are asked for."""
    if isinstance(x, Tracer):
        x = stop_gradient(x)
        x = x.settled() if isinstance(x, Tracer) else x
    return x


def _concrete(x: Any, name: str) -> None:
    if isinstance(x, Tracer):
        raise ConcretizationTypeError(
            x,
            f"The error arose in jnp.{name}(): the size of the result depends on values. To make "
            f"jnp.{name}() compatible with JIT and "
            "other transforms, you can specify a concrete value for the size argument, which will "
            "determine the output size.",
        )


def _host(*arrays: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in arrays]


# --- unique ---
@functools.partial(jit, static_argnames=("axis", "equal_nan"))
def _unique_sorted_mask(ar: Any, axis: int, equal_nan: bool) -> Any:
    """(the slices along `axis`, sorted; where each is the first of its kind; the permutation)."""
    moved = manipulation.moveaxis(ar, axis, 0)
    n = typeof(moved).shape[0]
    flat = manipulation.reshape(moved, (n, int(np.prod(typeof(moved).shape[1:], dtype=np.int64))))
    width = typeof(flat).shape[1]
    if width == 0 or n == 0:
        return moved, ranges.arange(n) == 0, ranges.arange(n)
    order = lexsort(tuple(flat[:, k] for k in range(width))[::-1])
    rows = flat[order]
    here, before = rows[1:], rows[:-1]
    differs = lax.ne(here, before)
    if equal_nan and dtypes.is_inexact(typeof(rows).dtype):
        differs = differs & ~(lax.ne(here, here) & lax.ne(before, before))
    first = joining.concatenate([creation.ones((1,), bool), reductions.any(differs, axis=1)])
    return moved[order], first, order


@functools.partial(jit, static_argnames=("equal_nan",))
@shown_as("_unique_sorted_mask")
def _sorted_values(ar: Any, equal_nan: bool) -> Any:
    """The same for values alone: equal ones need no order, so that no permutation is made."""
    rows = sorting.sort(ar)
    differs = lax.ne(rows[1:], rows[:-1])
    if equal_nan and dtypes.is_inexact(typeof(rows).dtype):
        differs = differs & ~(lax.ne(rows[1:], rows[1:]) & lax.ne(rows[:-1], rows[:-1]))
    head = creation.ones((min(1, typeof(rows).shape[0]),), bool)
    return rows, joining.concatenate([head, differs]), None


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements (or slices along `axis`), sorted; with the index of the first of each,
    the way back, and how many there are.

    `size` fixes the number of results (needed under jit): more are cut off, fewer are padded with
    `fill_value` (by default the least).

    >>> jnp.unique(jnp.array([3, 1, 1]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([2, 1], dtype=int32))

    Raises ConcretizationTypeError under jit without `size`.
    """
    check_arraylike("unique", ar)
    if size is None:
        # The places of distinct elements jump: as in JAX the derivative is zero, and a value that
        # is differentiated is as good as another.
        ar = _value(ar)
        _concrete(ar, "unique")
    array = creation.asarray(ar)
    shape = typeof(array).shape
    if axis is None:
        flat, along = manipulation.ravel(array), 0
    else:
        flat, along = array, canonical_axis(axis, len(shape))
    if dtypes.is_complex(typeof(flat).dtype):
        flat = to_type(flat, typeof(flat).dtype, False)  # only those in parts are
    n = typeof(flat).shape[along]
    plain = typeof(flat).ndim == 1 and not (return_index or return_inverse)
    rows, first, order = (
        _sorted_values(flat, equal_nan) if plain else _unique_sorted_mask(flat, along, equal_nan)
    )
    wanted = (return_index, return_inverse, return_counts)
    inverse_shape = shape if axis is None else (n,)
    if size is None and isinstance(typeof(rows).dtype, np.dtype):
        found = _all_unique(rows, first, order, along, wanted, inverse_shape)
    else:
        count = int(np.count_nonzero(np.asarray(first))) if size is None else as_int(size, "size")
        found = _some_unique(
            rows, first, order, along, wanted, inverse_shape, count, size is not None, fill_value
        )
    return found[0] if len(found) == 1 else tuple(found)


Wanted = tuple[bool, bool, bool]  # first indices, the way back, counts


def _all_unique(
    rows: Any, first: Any, order: Any, along: int, wanted: Wanted, inverse_shape: Any
) -> list[Any]:
    """As many as there are: a size that nothing should be compiled for."""
    mask = np.asarray(first)
    places = np.flatnonzero(mask)
    results: list[Any] = [np.moveaxis(np.asarray(rows)[places], 0, along)]
    kind = default_int()
    if wanted[0]:
        results.append(np.asarray(order)[places].astype(kind))
    if wanted[1]:
        way = np.empty(mask.shape, kind)
        way[np.asarray(order)] = np.cumsum(mask) - 1
        results.append(way.reshape(inverse_shape))
    if wanted[2]:
        results.append(np.diff(places, append=len(mask)).astype(kind))
    return [_like(rows, results[0]), *map(creation.asarray, results[1:])]


def _some_unique(
    rows: Any, first: Any, order: Any, along: int, wanted: Wanted, inverse_shape: Any, size: int,
    padded: bool, fill_value: Any,
) -> list[Any]:  # fmt: skip
    """`size` of them."""
    n, dtype = typeof(rows).shape[0], typeof(rows).dtype
    if n == 0 and size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value must be "
            "specified"
        )
    if n:
        places = nonzeros.nonzero(first, size=size)[0]
        values = rows[places]
    else:
        nothing = creation.zeros((0,), default_int())  # the fill has no index, and no count
        fill = 0 if fill_value is None else fill_value
        values = creation.full((size, *typeof(rows).shape[1:]), fill, dtype)
        if typeof(rows).weak_type:
            values = convert_weak(values, None, True)
    if padded and fill_value is not None and n:
        real = ranges.arange(size) < reductions.sum(first)
        real = lax.expand_dims(real, tuple(range(1, typeof(values).ndim)))
        values = choosing.where(real, values, _filler(fill_value, dtype))
    results = [manipulation.moveaxis(values, 0, along)]
    if wanted[0]:
        results.append(order[places] if n else nothing)
    if wanted[1]:
        way = creation.zeros((n,), default_int())
        if n:
            way = way.at[order].set(cumulative.cumsum(first, dtype=default_int()) - 1)
        results.append(manipulation.reshape(way, inverse_shape))
    if wanted[2] and not n:
        results.append(nothing)
    elif wanted[2]:
        starts = (
            nonzeros.nonzero(first, size=size + 1, fill_value=n)[0]
            if padded
            else joining.append(places, default_int().type(n))
        )
        starts = starts.at[-1].set(n) if padded and size >= n else starts
        results.append(signals.diff(starts))
    return results


class _UniqueAllResult(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class _UniqueCountsResult(NamedTuple):
    values: Any
    counts: Any


class _UniqueInverseResult(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> _UniqueAllResult:
    """The distinct elements, their first indices, the way back and their counts; NaNs are all
    distinct.

    >>> jnp.unique_all(jnp.array([3, 1, 3])).values
    Array([1, 3], dtype=int32)
    """
    check_arraylike("unique_all", x)
    return _UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> _UniqueCountsResult:
    """The distinct elements and their counts; NaNs are all distinct.

    A named tuple (values, counts); `size` and `fill_value` as for `unique`.

    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    check_arraylike("unique_counts", x)
    return _UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> _UniqueInverseResult:
    """The distinct elements and the way back; NaNs are all distinct.

    A named tuple (values, inverse_indices), the second of the shape of `x`; `size` and `fill_value`
    as for `unique`.

    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    check_arraylike("unique_inverse", x)
    return _UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements; NaNs are all distinct.

    `size` and `fill_value` as for `unique`.

    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    check_arraylike("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# --- membership ---
@functools.partial(jit, static_argnames=("invert",))
def _in1d(a: Any, b: Any, invert: bool) -> Any:
    if invert:
        return reductions.all(lax.expand_dims(a, (1,)) != lax.expand_dims(b, (0,)), axis=1)
    return reductions.any(lax.expand_dims(a, (1,)) == lax.expand_dims(b, (0,)), axis=1)


@functools.partial(jit, static_argnames=("invert",))
def _in_sorted(a: Any, b: Any, invert: bool) -> Any:
    table = sorting.sort(b)
    place = sorting.searchsorted(table, a)
    found = taking.take(table, place, mode="clip") == a
    return ~found if invert else found


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Any:
    """Whether each element is among `test_elements` (with `invert`, whether it is not). NaN is in
    nothing.

    >>> jnp.isin(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([False,  True], dtype=bool)

    Raises ValueError for a method other than "auto", "compare_all", "binary_search" or "sort".
    """
    check_arraylike("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"method={method!r} is not implemented; options are 'compare_all', 'binary_search', "
            "'sort', and 'auto'"
        )
    a, b = (creation.asarray(x) for x in promote_dtypes(element, test_elements))
    shape = typeof(a).shape
    a, b = manipulation.ravel(a), manipulation.ravel(b)
    n, m = typeof(a).shape[0], typeof(b).shape[0]
    large = method in ("binary_search", "sort") or (method == "auto" and n * m > 2**18 and m > 64)
    out = (_in_sorted if large and m else _in1d)(a, b, invert)
    return manipulation.reshape(out, shape)


# --- sets ---
def _pair(name: str, ar1: Any, ar2: Any, size: int | None) -> tuple[Any, Any]:
    check_arraylike(name, ar1, ar2)
    if size is None:
        ar1, ar2 = _value(ar1), _value(ar2)
        _concrete(ar1, name)
        _concrete(ar2, name)
    a, b = promote_dtypes(ar1, ar2)
    return manipulation.ravel(creation.asarray(a)), manipulation.ravel(creation.asarray(b))


def _filler(value: Any, dtype: Any) -> Any:
    """What fills up a result of a size; integers wrap around."""
    return (
        lax.full((), value, dtype) if type(value) is int else creation.asarray(value, dtype=dtype)
    )


def _filled(values: Any, real: Any, fill_value: Any) -> Any:
    """The values where they are real, else `fill_value`, if there is one; its dtype counts as an
    operand's does.
    """
    if fill_value is None:
        return values
    return choosing.where(real, values, fill_value)


def _like(values: Any, found: Any) -> Any:
    """Some of the values, of their dtype and as weak (sorted complex numbers are not, in JAX)."""
    aval = typeof(values)
    weak = aval.weak_type and not dtypes.is_complex(aval.dtype)
    return convert_weak(creation.asarray(found), aval.dtype, weak)


def _select(values: Any, mask: Any, size: int | None, fill_value: Any) -> Any:
    """The values under a mask: all of them, or `size` of them, padded with fill_value."""
    if size is None:
        return _like(values, np.asarray(values)[np.asarray(mask)])
    places = nonzeros.nonzero(mask, size=size)[0]
    real = ranges.arange(size) < reductions.sum(mask)
    fill = _filler(0 if fill_value is None else fill_value, typeof(values).dtype)
    return (
        choosing.where(real, values[places], fill)
        if typeof(values).shape[0]
        else creation.full((size,), fill, typeof(values).dtype)
    )


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of both arrays, sorted. `size`, `fill_value`: as for `unique`.

    >>> jnp.union1d(jnp.array([1, 3]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    a, b = _pair("union1d", ar1, ar2, size)
    return unique(joining.concatenate([a, b]), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements of the first array that are not in the second, sorted; padded with 0 or
    `fill_value` to `size`.

    >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    check_arraylike("setdiff1d", ar1, ar2)
    a = manipulation.ravel(ar1)  # the result is made of its elements, in its own dtype
    n = typeof(a).shape[0]
    if not n:
        return lax.full_like(a, 0 if fill_value is None else fill_value, shape=(size or 0,))
    _, b = _pair("setdiff1d", ar1, ar2, size)
    if size is None:
        if not assume_unique:
            a = unique(a)
        return _select(a, isin(a, b, invert=True), None, fill_value)
    mask = isin(a, b, invert=True)
    if not assume_unique:
        a, first, _ = _unique_sorted_mask(a, 0, True)
        mask = first & isin(a, b, invert=True)
    return _like(a, _select(a, mask, size, fill_value))


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements that are in one array only, sorted; padded with 0 or `fill_value` to `size`.

    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    a, b = _pair("setxor1d", ar1, ar2, size)
    return (_setxor1d if size is None else _setxor1d_size)(a, b, assume_unique, size, fill_value)


def _setxor1d(a: Any, b: Any, assume_unique: bool, size: int | None, fill_value: Any) -> Any:
    if assume_unique:  # what equals no neighbour, whatever the caller promised
        values = sorting.sort(joining.concatenate([a, b]))
        end = creation.ones((min(1, typeof(values).shape[0]),), bool)
        differs = lax.ne(values[1:], values[:-1])
        alone = joining.concatenate([end, differs]) & joining.concatenate([differs, end])
    else:
        a_rows, a_first, _ = _unique_sorted_mask(a, 0, True)
        b_rows, b_first, _ = _unique_sorted_mask(b, 0, True)
        values = joining.concatenate([a_rows, b_rows])
        alone = joining.concatenate([
            a_first & isin(a_rows, b_rows, invert=True),
            b_first & isin(b_rows, a_rows, invert=True),
        ])  # fmt: skip
        order = sorting.argsort(values)
        values, alone = values[order], alone[order]
    found = _select(values, alone, size, None)
    if size is None or (not size and fill_value is None):
        return found
    real = ranges.arange(size) < reductions.sum(alone)
    # Sorted: the least is the first, 0 if none is.
    return _filled(found, real, found[0] if fill_value is None else fill_value)


_setxor1d_size = jit(shown_as("_setxor1d_size")(_setxor1d), static_argnums=(2, 3))


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements that are in both arrays, sorted; with `return_indices`, also their first indices
    in each.

    `size` fixes the number of results (needed under jit): padded with `fill_value` (by default the
    least of the result, 0 if it is empty), and the indices with the length of their array.

    >>> jnp.intersect1d(jnp.array([1, 2, 3]), jnp.array([3, 2, 7]))
    Array([2, 3], dtype=int32)
    """
    a, b = _pair("intersect1d", ar1, ar2, size)
    if size is None:
        common, first, second = np.intersect1d(  # type: ignore[call-overload]
            *_host(a, b), assume_unique=assume_unique, return_indices=True
        )
        values = _like(a, common)
        if return_indices:
            return (
                values,
                creation.asarray(first.astype(default_int())),
                creation.asarray(second.astype(default_int())),
            )
        return values
    values, *indices = _intersect1d_size(a, b, size, return_indices, fill_value)
    return (values, *indices) if return_indices else values


@functools.partial(jit, static_argnums=(2, 3))
def _intersect1d_size(a: Any, b: Any, size: int, return_indices: bool, fill_value: Any) -> Any:
    """(values, and their places in both arrays if these are asked for)."""
    n, m = typeof(a).shape[0], typeof(b).shape[0]
    a = convert_weak(a, typeof(a).dtype, False)
    if not (n and m and size):
        none = [lax.full((size,), k, default_int()) for k in (n, m)]
        values = _filled(lax.full_like(a, 0, shape=(size,)), False, fill_value)
        return (values, *none)
    rows, new, order = _unique_sorted_mask(a, 0, True)
    mask = isin(rows, b) & new
    places = nonzeros.nonzero(mask, size=size)[0]
    real = ranges.arange(size) < reductions.sum(mask)
    found = rows[places]
    least = choosing.where(real[0], found[0], literal(found, 0))
    values = _filled(found, real, least if fill_value is None else fill_value)
    if not return_indices:
        return (values,)
    b_rows, _, b_order = _unique_sorted_mask(b, 0, True)
    where_b = b_order[ufuncs_more.clip(sorting.searchsorted(b_rows, found), 0, max(m - 1, 0))]
    return (
        values,
        choosing.where(real, order[places], n),
        choosing.where(real, where_b, m),
    )


__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
