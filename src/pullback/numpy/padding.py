"""`pad`, in all of NumPy's modes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.dims import DimExpr
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError
from ..lazy_imports import lazy_module
from ..primitives.common import as_array
from . import averages, reductions
from .joining import concatenate
from .manipulation import flip
from .ranges import linspace
from .util import check_arraylike, ndim_of, shape_of, to_type, unwrap

quantiles: Any = lazy_module("pullback.numpy.quantiles")  # for medians

_ALLOWED: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
    "empty": (),
}


def _pairs(value: Any, ndim: int, name: str) -> Any:
    """A number, a pair, or a pair for each axis, as an (ndim, 2) array or nested tuple of traced
    values.
    """
    if any(isinstance(v, Tracer) for v in _flat(value)):
        return _traced_pairs(value, ndim, name)
    values = np.asarray(value)
    try:
        if values.ndim == 2 and values.shape[1] == 1:
            raise ValueError("a pair has two numbers")
        return np.broadcast_to(values, (ndim, 2))
    except ValueError:
        raise ValueError(
            f"jnp.pad: {name} with ndim={ndim} has unsupported shape {values.shape}. Valid shapes "
            f"are ({ndim}, 2), (1, 2), (2,), (1,), or ()."
        ) from None


def _flat(value: Any) -> list[Any]:
    return [y for v in value for y in _flat(v)] if isinstance(value, list | tuple) else [value]


def _traced_pairs(value: Any, ndim: int, name: str) -> Any:
    if not isinstance(value, list | tuple):
        shape = shape_of(value)
        if shape == ():
            return [[value, value]] * ndim
        value = list(value) if len(shape) == 1 else [list(v) for v in value]
    if len(value) == 2 and not isinstance(value[0], list | tuple):
        return [list(value)] * ndim
    if len(value) == 1:
        return _traced_pairs(value[0], ndim, name)
    if len(value) != ndim:
        raise ValueError(f"jnp.pad: {name} has {len(value)} entries for {ndim} axes")
    return [list(v) for v in value]


def _widths(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    if isinstance(pad_width, dict):
        full: list[Any] = [(0, 0)] * ndim
        for k, w in pad_width.items():
            if not -ndim <= k < ndim:
                raise ValueError(f"axis {k} is out of bounds for array of dimension {ndim}")
            full[k % ndim] = (w, w) if not isinstance(w, list | tuple) else tuple(w)
        pad_width = full
    for w in _flat(pad_width):
        if isinstance(w, Tracer):
            raise ConcretizationTypeError(w, "jnp.pad: the widths must be static.")
    if any(isinstance(w, DimExpr) for w in _flat(pad_width)):
        return tuple((low, high) for low, high in _traced_pairs(pad_width, ndim, "pad_width"))
    pairs = _pairs(pad_width, ndim, "pad_width")
    if pairs.size and pairs.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    return tuple((operator.index(a), operator.index(b)) for a, b in pairs.tolist())


def _edge(a: Any, k: int, low: int, high: int) -> list[Any]:
    n = shape_of(a)[k]
    parts = []
    if low:
        parts.append(_repeat_one(lax.slice_in_dim(a, 0, 1, axis=k), low, k))
    parts.append(a)
    if high:
        parts.append(_repeat_one(lax.slice_in_dim(a, n - 1, n, axis=k), high, k))
    return parts


def _repeat_one(a: Any, times: int, k: int) -> Any:
    """A slice of size 1 along axis k, repeated."""
    shape = shape_of(a)
    wide = (*shape[: k + 1], times, *shape[k + 1 :])
    out = lax.broadcast_in_dim(a, wide, tuple(j for j in range(len(wide)) if j != k + 1))
    return lax.reshape(out, (*shape[:k], times, *shape[k + 1 :]))


def _pad_edge(a: Any, widths: Any) -> Any:
    for k, (low, high) in enumerate(widths):
        a = _join(_edge(a, k, low, high), k)
    return a


def _join(parts: list[Any], k: int) -> Any:
    return lax.concatenate(parts, k) if len(parts) > 1 else parts[0]


def _pad_constant(a: Any, widths: Any, values: Any) -> Any:
    """`values`: a number, or a pair of numbers for each axis."""
    d, weak = typeof(a).dtype, typeof(a).weak_type
    if not isinstance(values, list):
        config = [(low, high, 0) for low, high in widths]
        return lax.pad(a, to_type(values, d, weak), config)
    for k, (low, high) in enumerate(widths):
        nothing = [(0, 0, 0)] * ndim_of(a)
        nothing[k] = (low, 0, 0)
        a = lax.pad(a, to_type(values[k][0], d, weak), nothing)
        nothing[k] = (0, high, 0)
        a = lax.pad(a, to_type(values[k][1], d, weak), nothing)
    return a


def _has_none(values: Any) -> bool:
    return values is None or (isinstance(values, list | tuple) and any(map(_has_none, values)))


def _constants(values: Any, ndim: int) -> Any:
    """Constants as a number, or as nested lists of numbers. ValueError for None among them."""
    if _has_none(values):
        raise ValueError(
            "None is not a valid value for jnp.array: the constant_values of pad are numbers. Fix: "
            "write 0 where an axis is not padded."
        )
    if not isinstance(values, list | tuple) and not shape_of(values):
        return values
    pairs = _pairs(values, ndim, "constant_values")
    if isinstance(pairs, np.ndarray):
        if pairs.size and (pairs == pairs.flat[0]).all():
            return pairs.flat[0].item()
        return pairs.tolist()
    return pairs


def _pad_wrap(a: Any, widths: Any) -> Any:
    for k, (low, high) in enumerate(widths):
        n = shape_of(a)[k]
        if not n:
            raise ValueError(
                f"can't extend empty axis {k} using modes other than 'constant' or 'empty'"
            )
        times_low, rest_low = divmod(low, n)
        times_high, rest_high = divmod(high, n)
        parts = [lax.slice_in_dim(a, n - rest_low, n, axis=k)] if rest_low else []
        parts += [a] * (times_low + 1 + times_high)
        parts += [lax.slice_in_dim(a, 0, rest_high, axis=k)] if rest_high else []
        a = _join(parts, k)
    return a


def _pad_mirror(a: Any, widths: Any, mode: str, reflect_type: str) -> Any:
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"jnp.pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    for k, (low, high) in enumerate(widths):
        n = shape_of(a)[k]
        if not n and (low or high):
            raise ValueError(
                f"can't extend empty axis {k} using modes other than 'constant' or 'empty'"
            )
        if n <= 1 and mode == "reflect":
            a = _join(_edge(a, k, low, high), k) if n else a
            continue
        a = _mirror_one(a, k, low, True, mode, reflect_type)
        a = _mirror_one(a, k, high, False, mode, reflect_type)
    return a


def _mirror_one(a: Any, k: int, width: int, before: bool, mode: str, reflect_type: str) -> Any:
    """One side: as often as needed, a mirror image of what there is, which grows each time."""
    skip = 1 if mode == "reflect" else 0
    n = shape_of(a)[k]
    while width > 0:
        m = shape_of(a)[k]
        take = min(width, n - skip)
        if before:
            edge = lax.slice_in_dim(a, 0, 1, axis=k)
            image = flip(lax.slice_in_dim(a, skip, take + skip, axis=k), k)
        else:
            edge = lax.slice_in_dim(a, m - 1, m, axis=k)
            image = flip(lax.slice_in_dim(a, m - take - skip, m - skip, axis=k), k)
        if reflect_type == "odd":
            twice = lax.mul(lax.full_like(edge, 2), edge)
            image = lax.sub(
                lax.broadcast_in_dim(twice, shape_of(image), tuple(range(ndim_of(image)))), image
            )
        a = lax.concatenate([image, a] if before else [a, image], k)
        width -= take
    return a


def _pad_ramp(a: Any, widths: Any, end_values: Any) -> Any:
    pairs = _pairs(end_values, ndim_of(a), "end_values")
    d, weak = typeof(a).dtype, typeof(a).weak_type
    for k, (low, high) in enumerate(widths):
        n = shape_of(a)[k]
        first = lax.squeeze(lax.slice_in_dim(a, 0, 1, axis=k), (k,))
        last = lax.squeeze(lax.slice_in_dim(a, n - 1, n, axis=k), (k,))
        before = linspace(pairs[k][0], first, low, endpoint=False, dtype=d, axis=k)
        after = flip(linspace(pairs[k][1], last, high, endpoint=False, dtype=d, axis=k), k)
        a = concatenate([to_type(before, d, weak), a, to_type(after, d, weak)], k)
    return a


def _pad_stat(a: Any, widths: Any, stat_length: Any, stat: Callable[..., Any]) -> Any:
    d, weak = typeof(a).dtype, typeof(a).weak_type
    lengths = None if stat_length is None else _pairs(stat_length, ndim_of(a), "stat_length")
    for k, (low, high) in enumerate(widths):
        n = shape_of(a)[k]
        if lengths is None:
            left = right = stat(a, axis=k, keepdims=True)
        else:
            if any(int(m) <= 0 for m in lengths[k]):
                raise ValueError("stat_length of 0 yields no value for padding")
            sizes = [min(int(m), n) for m in lengths[k]]
            left = stat(lax.slice_in_dim(a, 0, sizes[0], axis=k), axis=k, keepdims=True)
            right = stat(lax.slice_in_dim(a, n - sizes[1], n, axis=k), axis=k, keepdims=True)
        if dtypes.is_integer(d):
            left, right = (
                lax.round(v, lax.RoundingMethod.TO_NEAREST_EVEN)
                if dtypes.is_float(typeof(v).dtype)
                else v
                for v in (left, right)
            )
        left, right = to_type(left, d, weak), to_type(right, d, weak)
        a = _join([_repeat_one(left, low, k), a, _repeat_one(right, high, k)], k)
    return a


def _pad(
    a: Any,
    widths: Any,
    mode: str,
    constant_values: Any,
    stat_length: Any,
    end_values: Any,
    reflect_type: str,
) -> Any:
    a = as_array(unwrap(a))
    if mode == "constant":
        return _pad_constant(a, widths, constant_values)
    if mode == "empty":
        return _pad_constant(a, widths, 0)
    if mode == "edge":
        for k, w in enumerate(widths):
            if not shape_of(a)[k] and any(w):
                raise ValueError(
                    f"can't extend empty axis {k} using modes other than 'constant' or 'empty'"
                )
        return _pad_edge(a, widths)
    if mode == "wrap":
        return _pad_wrap(a, widths)
    if mode in ("reflect", "symmetric"):
        return _pad_mirror(a, widths, mode, reflect_type)
    if mode == "linear_ramp":
        return _pad_ramp(a, widths, end_values)
    stats: dict[str, Any] = {
        "maximum": reductions.max,
        "minimum": reductions.min,
        "mean": averages.mean,
    }
    return _pad_stat(a, widths, stat_length, stats.get(mode) or quantiles.median)


_STATIC = ("widths", "mode", "stat_length", "end_values", "reflect_type")
_pad_jit = jit(_pad, static_argnames=_STATIC)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """`array` with borders: `pad_width` is a number, (before, after), or such a pair for each axis
    (or a dict of axes).

    Modes: constant (constant_values), edge, linear_ramp (end_values), maximum/minimum/mean/median
    (stat_length), reflect/symmetric (reflect_type), wrap, empty, or a function as for numpy.pad.

    >>> jnp.pad(jnp.arange(3), 1, mode='edge')
    Array([0, 0, 1, 2, 2], dtype=int32)
    """
    check_arraylike("pad", array)
    ndim = ndim_of(array)
    widths = _widths(pad_width, ndim)
    if callable(mode):
        return _pad_function(as_array(unwrap(array)), widths, mode, kwargs)
    if mode not in _ALLOWED:
        raise NotImplementedError(
            f"Unimplemented padding mode '{mode}' for np.pad. Fix: use one of {sorted(_ALLOWED)}."
        )
    unknown = set(kwargs) - set(_ALLOWED[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if any(low < 0 or high < 0 for low, high in widths):
        raise ValueError("index can't contain negative values")
    values = _constants(kwargs.get("constant_values", 0), ndim)
    ends = kwargs.get("end_values", 0)
    ends = (
        tuple(map(tuple, ends))
        if isinstance(ends, list | tuple) and isinstance(ends[0], list | tuple)
        else (tuple(ends) if isinstance(ends, list | tuple) else ends)
    )
    length = kwargs.get("stat_length")
    length = (
        tuple(map(tuple, length))
        if isinstance(length, list | tuple) and isinstance(length[0], list | tuple)
        else (tuple(length) if isinstance(length, list | tuple) else length)
    )
    return _pad_jit(
        array,
        widths=widths,
        mode=mode,
        constant_values=values,
        stat_length=length,
        end_values=ends,
        reflect_type=kwargs.get("reflect_type", "even"),
    )


def _pad_function(a: Any, widths: Any, func: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    """Each row along each axis is given to `func(row, (before, after), axis, kwargs)`, which
    returns the padded row.
    """
    from_here = _pad_constant(a, widths, 0)
    for k, w in enumerate(widths):
        moved = lax.transpose(from_here, (*(j for j in range(ndim_of(from_here)) if j != k), k))
        rows = lax.reshape(moved, (int(np.prod(shape_of(moved)[:-1])), shape_of(moved)[-1]))
        done = [
            func(lax.squeeze(lax.slice_in_dim(rows, i, i + 1), (0,)), w, k, kwargs)
            for i in range(shape_of(rows)[0])
        ]
        joined = lax.reshape(
            lax.concatenate([lax.expand_dims(r, (0,)) for r in done], 0), shape_of(moved)
        )
        order = list(range(ndim_of(joined) - 1))
        order.insert(k, ndim_of(joined) - 1)
        from_here = lax.transpose(joined, order)
    return from_here
