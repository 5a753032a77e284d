"""NumPy rules of dot_general and convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...primitives import contract as p, convolution
from .table import rule, widened


@rule(p.dot_general_p)
def _dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    out_dtype = preferred_element_type or dtypes.result_type(lhs.dtype, rhs.dtype)
    if lhs.dtype != rhs.dtype and not dtypes.is_inexact(out_dtype):
        lhs, rhs = widened(lhs).astype(out_dtype), widened(rhs).astype(out_dtype)
    work = sum_dtype(
        out_dtype, dtypes.result_type(lhs.dtype, rhs.dtype) if lhs.dtype != rhs.dtype else lhs.dtype
    )
    lhs, rhs = widened(lhs).astype(work), widened(rhs).astype(work)
    lf, rf = p.free_dims(lhs.ndim, lc, lb), p.free_dims(rhs.ndim, rc, rb)
    batch = tuple(lhs.shape[d] for d in lb)
    k = int(np.prod([lhs.shape[d] for d in lc], dtype=int))
    left = np.transpose(lhs, (*lb, *lf, *lc)).reshape(
        *batch, -1 if lhs.size else _count(lhs, lf), k
    )
    right = np.transpose(rhs, (*rb, *rc, *rf)).reshape(
        *batch, k, -1 if rhs.size else _count(rhs, rf)
    )
    out = np.matmul(left, right)
    shape = (*batch, *(lhs.shape[d] for d in lf), *(rhs.shape[d] for d in rf))
    return out.reshape(shape).astype(out_dtype)


def _count(x: Any, dims: Any) -> int:
    return int(np.prod([x.shape[d] for d in dims], dtype=int))


def sum_dtype(out: Any, operand: Any) -> Any:
    """The dtype in which products are summed."""
    if dtypes.is_bool(operand) and dtypes.is_bool(out):
        return np.dtype(bool)
    if dtypes.is_integer(operand) or dtypes.is_bool(operand):
        if dtypes.is_integer(out):
            return out if out.itemsize >= operand.itemsize else operand
        return out if dtypes.is_inexact(out) and out.itemsize >= 4 else np.dtype(np.float32)
    wide = np.dtype(np.float32) if dtypes.is_float(operand) and operand.itemsize < 4 else operand
    if dtypes.is_inexact(out) and out.itemsize > wide.itemsize:
        return out
    return wide


@rule(convolution.conv_general_dilated_p)
def _conv(
    lhs: Any, rhs: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
    dimension_numbers: Any, feature_group_count: int, batch_group_count: int, precision: Any,
    preferred_element_type: Any, out_sharding: Any,
) -> Any:  # fmt: skip
    specs = dimension_numbers
    work = sum_dtype(preferred_element_type or lhs.dtype, lhs.dtype)
    x = np.transpose(widened(lhs).astype(work), specs.lhs_spec)
    w = np.transpose(widened(rhs).astype(work), specs.rhs_spec)
    x = _spread(x, lhs_dilation, padding)
    if batch_group_count > 1:
        parts = zip(np.split(x, batch_group_count, axis=0), np.split(w, batch_group_count, axis=0))
    else:
        parts = zip(
            np.split(x, feature_group_count, axis=1), np.split(w, feature_group_count, axis=0)
        )
    outs = [_conv_plain(a, b, window_strides, rhs_dilation) for a, b in parts]
    out = np.concatenate(outs, axis=1)
    return np.transpose(out, np.argsort(specs.out_spec))


def _spread(x: Any, dilation: Any, padding: Any) -> Any:
    """Dilates and pads (negative pads cut) the spatial axes."""
    for axis, (d, (low, high)) in enumerate(zip(dilation, padding), start=2):
        n = convolution.dilated(x.shape[axis], d)
        out = np.zeros(
            (*x.shape[:axis], max(low, 0) + n + max(high, 0), *x.shape[axis + 1 :]), x.dtype
        )
        before = (slice(None),) * axis
        out[(*before, slice(max(low, 0), max(low, 0) + n, d))] = x
        x = out[(*before, slice(max(-low, 0), out.shape[axis] - max(-high, 0)))]
    return x


def _conv_plain(x: Any, w: Any, strides: Any, dilation: Any) -> Any:
    """One group: a matrix product for each position in the window."""
    spatial = [
        max(0, (n - convolution.dilated(k, d)) // s + 1)
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilation)
    ]
    out = np.zeros((x.shape[0], w.shape[0], int(np.prod(spatial, dtype=int))), x.dtype)
    if out.size:
        for at in np.ndindex(*w.shape[2:]):
            window = tuple(
                slice(k * d, k * d + (m - 1) * s + 1, s)
                for k, d, m, s in zip(at, dilation, spatial, strides)
            )
            part = x[(slice(None), slice(None), *window)].reshape(*x.shape[:2], out.shape[2])
            out = out + np.matmul(w[(slice(None), slice(None), *at)], part)
    return out.reshape(x.shape[0], w.shape[0], *spatial)
