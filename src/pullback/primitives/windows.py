"""Reductions over windows that slide along an array: sums, extremes, and what the derivative of an
extreme needs.

out[p] = reduction over k of x[p * stride + k * window_dilation - low], x dilated by base_dilation
and padded with the identity
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .builders import batch_size, full_batch
from .common import ANY, NUMBER, check_dtype, zero_of
from .convolution import dilated, padtype_to_pads
from .elementwise import ge_p, gt, le_p, lt, select
from .layout import linear_jvp
from .shape import pad, slice

__all__ = [
    "reduce_window_max_p",
    "reduce_window_min_p",
    "reduce_window_shape_tuple",
    "reduce_window_sum_p",
    "select_and_gather_add_p",
    "select_and_scatter_add_p",
]


def reduce_window_shape_tuple(
    operand_shape: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> tuple[Any, ...]:
    """The shape of a reduction over windows.

    Arguments are tuples of ints, one a dimension; `padding` holds pairs (low, high).

    >>> lax.reduce_window_shape_tuple((8,), (2,), (2,), [(0, 0)])
    (4,)
    """
    n = len(operand_shape)
    if not all(s > 0 for s in window_strides):
        raise ValueError(f"window_strides must be positive, got {tuple(window_strides)}")
    base, window = base_dilation or (1,) * n, window_dilation or (1,) * n
    wide = [dilated(m, d) for m, d in zip(operand_shape, base)]
    kernel = [dilated(k, d) for k, d in zip(window_dimensions, window)]
    pads = padtype_to_pads(operand_shape, kernel, window_strides, padding)
    sizes = (m + lo + hi - k for m, k, (lo, hi) in zip(wide, kernel, pads))
    return tuple(
        (max(0, m // s + 1) if type(m) is int else m // s + 1)
        for m, s in zip(sizes, window_strides)
    )


def check_window(
    name: str,
    shape: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> None:
    """Raises TypeError, naming the argument, unless the window fits an operand of this shape;
    ValueError for another number of pads."""
    if len(shape) != len(window_dimensions):
        raise TypeError(
            f"{name} got the wrong number of window_dimensions for operand: "
            f"got operand shape {tuple(shape)} with window_dimensions {tuple(window_dimensions)}."
        )
    for what, given in (
        ("window_dimensions", window_dimensions),
        ("window_strides", window_strides),
        ("base_dilation", base_dilation),
        ("window_dilation", window_dilation),
    ):
        if any(v <= 0 for v in given):
            raise TypeError(
                f"{name} {what} must have every element be strictly positive, got {tuple(given)}."
            )
        if what != "window_dimensions" and len(given) != len(window_dimensions):
            raise TypeError(
                f"{name} got inconsistent {what} and window_dimensions: "
                f"got {what} {tuple(given)} and window_dimensions {tuple(window_dimensions)}."
            )
    if len(padding) != len(window_dimensions):
        raise ValueError(
            f"{name} got the wrong number of padding pairs: got padding {tuple(padding)} "
            f"with window_dimensions {tuple(window_dimensions)}."
        )


def _aval(name: str, kinds: tuple[str, ...]) -> Callable[..., ShapedArray]:
    def rule(x: Any, **params: Any) -> ShapedArray:
        check_dtype(name, x.dtype, kinds)
        check_window(name, x.shape, **params)
        return ShapedArray(reduce_window_shape_tuple(x.shape, **params), x.dtype, x.weak_type)

    return rule


def batched_window(params: dict[str, Any], at: int) -> dict[str, Any]:
    """The parameters of a window with one more axis, of size 1."""
    plain = {
        "window_dimensions": 1,
        "window_strides": 1,
        "padding": (0, 0),
        "base_dilation": 1,
        "window_dilation": 1,
    }
    out = dict(params)
    for name, value in plain.items():
        if name in params:
            out[name] = (*params[name][:at], value, *params[name][at:])
    return out


def _batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        return get().bind(args[0], **batched_window(params, dims[0])), dims[0]

    return batch


def _sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    """The sum, for each input, of the cotangents of the windows that hold it: a sum over windows of
    ct, dilated by the stride.
    """
    if type(ct) is Zero:
        return [Zero(x.aval)]
    config = []
    for n, m, k, s, (low, _), bd, wd in zip(
        x.aval.shape,
        typeof(ct).shape,
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        params["base_dilation"],
        params["window_dilation"],
    ):
        wide, window = dilated(n, bd), dilated(k, wd)
        start = window - 1 - low
        config.append((start, wide + window - 1 - dilated(m, s) - start, s - 1))
    ct = pad(ct, np.zeros((), typeof(ct).dtype)[()], config)
    ones = (1,) * len(config)
    return [
        reduce_window_sum_p.bind(
            ct,
            window_dimensions=params["window_dimensions"],
            window_strides=params["base_dilation"],
            padding=((0, 0),) * len(config),
            base_dilation=ones,
            window_dilation=params["window_dilation"],
        )
    ]


def window_slices(x: Any, fill: Any, params: dict[str, Any]) -> list[Any]:
    """For each position in the window, the elements that are there, of all windows."""
    out = reduce_window_shape_tuple(typeof(x).shape, **params)
    config = [(lo, hi, d - 1) for (lo, hi), d in zip(params["padding"], params["base_dilation"])]
    if any(c != (0, 0, 0) for c in config):
        x = pad(x, fill, config)
    strides, dilation = params["window_strides"], params["window_dilation"]
    parts = []
    for at in itertools.product(*map(range, params["window_dimensions"])):
        # No window may fit along an axis, and then its positions need not be there either.
        starts = [k * d if m else 0 for k, d, m in zip(at, dilation, out)]
        limits = [lo + (m - 1) * s + 1 if m else lo for lo, m, s in zip(starts, out, strides)]
        parts.append(slice(x, starts, limits, strides))
    return parts


def extreme_fill(dtype: Any, larger: bool) -> Any:
    """The identity of max (or min) as a scalar of a dtype."""
    if dtypes.is_bool(dtype):
        return np.bool_(not larger)
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        return np.asarray(int(info.min if larger else info.max)).astype(dtype)[()]
    return np.asarray(-np.inf if larger else np.inf).astype(dtype)[()]


def _extreme_jvp(get: Callable[[], Primitive], larger: bool) -> Callable[..., Any]:
    """The tangent of the first element of the window that attains the extreme."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = get().bind(x, **params)
        if type(t) is Zero:
            return out, zero_of(out)
        if all(d == 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            return out, select_and_gather_add_p.bind(
                t, x, select_prim=ge_p if larger else le_p, **params
            )
        d = typeof(x).dtype
        xs = window_slices(x, extreme_fill(d, larger), params)
        ts = window_slices(t, np.zeros((), d)[()], params)
        best, tangent = xs[0], ts[0]
        for other, t_other in zip(xs[1:], ts[1:]):
            better = gt(other, best) if larger else lt(other, best)
            best, tangent = select(better, other, best), select(better, t_other, tangent)
        return out, tangent

    return jvp


reduce_window_sum_p: Primitive = Primitive(
    "reduce_window_sum",
    abstract_eval=_aval("reduce_window_sum", (NUMBER,)),
    jvp=linear_jvp(lambda: reduce_window_sum_p),
    transpose=_sum_transpose,
    batch=_batch(lambda: reduce_window_sum_p),
)
reduce_window_max_p: Primitive = Primitive(
    "reduce_window_max",
    abstract_eval=_aval("reduce_window_max", ANY),
    jvp=_extreme_jvp(lambda: reduce_window_max_p, True),
    transpose=No.NOT_LINEAR,
    batch=_batch(lambda: reduce_window_max_p),
)
reduce_window_min_p: Primitive = Primitive(
    "reduce_window_min",
    abstract_eval=_aval("reduce_window_min", ANY),
    jvp=_extreme_jvp(lambda: reduce_window_min_p, False),
    transpose=No.NOT_LINEAR,
    batch=_batch(lambda: reduce_window_min_p),
)


# --- select_and_gather_add and select_and_scatter_add are adjoint ---
def _gather_aval(tangents: Any, operand: Any, *, select_prim: Any, **params: Any) -> ShapedArray:
    if tangents.shape != operand.shape:
        raise TypeError(
            f"select_and_gather_add tangents and operand shapes must match, got {tangents.shape} "
            f"and {operand.shape}."
        )
    check_window("select_and_gather_add", operand.shape, **params)
    return ShapedArray(
        reduce_window_shape_tuple(operand.shape, **params), tangents.dtype, tangents.weak_type
    )


def _first_linear_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """Linear in the first operand; the second only says where."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = get().bind(*primals, **params)
        t = tangents[0]
        return out, zero_of(out) if type(t) is Zero else get().bind(t, primals[1], **params)

    return jvp


def _pair_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        size = batch_size(args, dims)
        a, b = (full_batch(x, d, size) for x, d in zip(args, dims))
        return get().bind(a, b, **batched_window(params, 0)), 0

    return batch


def _gather_transpose(
    ct: Any, tangents: Any, operand: Any, *, base_dilation: Any, window_dilation: Any, **params: Any
) -> list[Any]:
    if type(tangents) is not UndefinedPrimal or type(ct) is Zero:
        return [Zero(tangents.aval) if type(tangents) is UndefinedPrimal else None, None]
    return [select_and_scatter_add_p.bind(ct, operand, **params), None]


select_and_gather_add_p: Primitive = Primitive(
    "select_and_gather_add",
    abstract_eval=_gather_aval,
    jvp=_first_linear_jvp(lambda: select_and_gather_add_p),
    transpose=_gather_transpose,
    batch=_pair_batch(lambda: select_and_gather_add_p),
)


def _scatter_aval(source: Any, operand: Any, *, select_prim: Any, **params: Any) -> ShapedArray:
    ones = (1,) * operand.ndim
    check_window(
        "select_and_scatter_add", operand.shape, **params, base_dilation=ones, window_dilation=ones
    )
    want = reduce_window_shape_tuple(operand.shape, **params)
    if source.shape != want:
        raise TypeError(
            f"select_and_scatter_add source must have the shape of the windows, {want}, got "
            f"{source.shape}."
        )
    return ShapedArray(operand.shape, source.dtype, source.weak_type)


def _scatter_transpose(ct: Any, source: Any, operand: Any, **params: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(source.aval), None]
    ones = (1,) * typeof(operand).ndim
    return [
        select_and_gather_add_p.bind(
            ct, operand, **params, base_dilation=ones, window_dilation=ones
        ),
        None,
    ]


select_and_scatter_add_p: Primitive = Primitive(
    "select_and_scatter_add",
    abstract_eval=_scatter_aval,
    jvp=_first_linear_jvp(lambda: select_and_scatter_add_p),
    transpose=_scatter_transpose,
    batch=_pair_batch(lambda: select_and_scatter_add_p),
)
