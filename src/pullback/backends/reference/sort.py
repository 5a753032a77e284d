"""Sorting in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...primitives import sort
from .table import is_narrow, rule, widened


def _total_order(x: Any) -> Any:
    """Integers that order floats by their bits: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    if is_narrow(x.dtype):
        x = x.astype(np.float32)
    if x.dtype.kind != "f":
        return widened(x)
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, np.iinfo(bits.dtype).max ^ bits, bits)


@rule(sort.sort_p)
def sort_operands(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    keys = [widened(x) for x in operands[:num_keys]]
    if num_keys == 1:
        order = np.argsort(keys[0], axis=dimension, kind="stable")
    else:
        order = np.lexsort(keys[::-1], axis=dimension)
    return [np.take_along_axis(x, order, axis=dimension) for x in operands]


def _largest(operand: Any, k: int, axis: int, largest: bool = True) -> Any:
    ranks = _total_order(operand)
    if ranks.dtype == bool:
        ranks = ranks.astype(np.int8)
    # Descending and stable: the complement reverses the order of integers without overflow.
    order = np.argsort(~ranks if largest else ranks, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(operand, order, axis=axis), order.astype(np.int32)]


@rule(sort.top_k_p)
def top_k(operand: Any, *, k: int, axis: int) -> Any:
    return _largest(operand, k, axis)


@rule(sort.approx_top_k_p)
def approx_top_k(
    operand: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **_: Any
) -> Any:
    return _largest(operand, k, reduction_dimension, is_max_k)
