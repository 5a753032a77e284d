"""`select_and_scatter`: for each window one element is chosen, and a source combined into it.

Its rules are those of the program that it stands for: a fold over the window that keeps the chosen
value and where it was, then a loop over the windows that combines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.avals import ShapedArray, typeof
from ..core.jaxpr import ClosedJaxpr, Jaxpr
from ..core.primitive import No, Primitive
from ..core.symbolic import instantiate_zeros
from ..primitives.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim
from ..primitives.elementwise import bitwise_and, bitwise_not, bitwise_or, ge, select
from ..primitives.layout import broadcast_in_dim, iota, reshape
from ..primitives.windows import check_window, reduce_window_shape_tuple, window_slices
from ..transforms.batch import batch_flat, matchaxis
from ..transforms.jvp import jvp_flat
from .reduction import _elementwise
from .scan import scan

__all__ = ["select_and_scatter_p"]


def _window(ndim: int, params: dict[str, Any]) -> dict[str, Any]:
    ones = (1,) * ndim
    return {
        "window_dimensions": params["window_dimensions"],
        "window_strides": params["window_strides"],
        "padding": params["padding"],
        "base_dilation": ones,
        "window_dilation": ones,
    }


def _aval(operand: Any, source: Any, init_value: Any, **params: Any) -> ShapedArray:
    window = _window(operand.ndim, params)
    check_window("select_and_scatter", operand.shape, **window)
    want = reduce_window_shape_tuple(operand.shape, **window)
    if source.shape != want:
        raise TypeError(
            f"select_and_scatter source must have the shape of the windows, {want}, got "
            f"{source.shape}."
        )
    if init_value.shape != ():
        raise TypeError(f"select_and_scatter init_value must be a scalar, got {init_value.shape}.")
    return ShapedArray(operand.shape, source.dtype)


def _scalar(jaxpr: Jaxpr, consts: Any) -> ClosedJaxpr:
    return ClosedJaxpr(jaxpr, consts)


def _chosen(operand: Any, keeps: ClosedJaxpr, window: dict[str, Any]) -> Any:
    """For each window, the position in the flat operand of the element that is kept; -1 where the
    window holds padding alone.
    """
    shape = typeof(operand).shape
    n = int(np.prod(shape, dtype=np.int64))
    places = reshape(iota(np.dtype("int32"), n), shape)
    values = window_slices(operand, np.zeros((), typeof(operand).dtype)[()], window)
    where = window_slices(places, np.int32(-1), window)
    best, at = values[0], where[0]
    for value, place in zip(values[1:], where[1:], strict=True):
        there = ge(place, _like(place, 0))
        (keep,) = _elementwise(keeps, [best, value])
        none_yet = bitwise_not(ge(at, _like(at, 0)))
        take = bitwise_and(there, bitwise_or(none_yet, bitwise_not(keep)))
        best, at = select(take, value, best), select(take, place, at)
    return at


def _like(x: Any, value: int) -> Any:
    return broadcast_in_dim(np.int32(value), typeof(x).shape, ())


def run(
    operand: Any,
    source: Any,
    init_value: Any,
    *,
    select_jaxpr: Jaxpr,
    select_consts: Sequence[Any],
    scatter_jaxpr: Jaxpr,
    scatter_consts: Sequence[Any],
    **params: Any,
) -> Any:
    """What the primitive computes."""
    shape = typeof(operand).shape
    combine = _scalar(scatter_jaxpr, scatter_consts)
    window = _window(len(shape), params)
    at = _chosen(operand, _scalar(select_jaxpr, select_consts), window)
    n, m = (int(np.prod(typeof(x).shape, dtype=np.int64)) for x in (operand, source))
    start = broadcast_in_dim(init_value, (n,), ())

    def step(result: Any, window_at: Any) -> Any:
        place, value = window_at
        there = ge(place, np.int32(0))
        place = select(there, place, np.int32(0))
        old = dynamic_index_in_dim(result, place, 0, keepdims=False)
        (new,) = _elementwise(combine, [old, value])
        new = select(there, new, old)
        return dynamic_update_index_in_dim(result, new, place, 0), None

    if n == 0 or m == 0:
        return reshape(start, shape)
    result, _ = scan(step, start, (reshape(at, (m,)), reshape(source, (m,))))
    return reshape(result, shape)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (out,), (dot,) = jvp_flat(lambda *xs: [run(*xs, **params)], primals, tangents)
    return out, instantiate_zeros(dot)


def _batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    if all(d is None for d in dims):
        return None
    (out,), (d,) = batch_flat(lambda *xs: [run(*xs, **params)], args, dims, axis)
    return matchaxis(axis.size, d, 0, out), 0


select_and_scatter_p = Primitive(
    "select_and_scatter",
    abstract_eval=_aval,
    impl=lambda *args, **params: run(*args, **params),
    jvp=_jvp,
    transpose=No.NOT_LINEAR,
    axis_batch=_batch,
)
