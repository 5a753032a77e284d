"""`jax._src.lax_reference`: what the operations of `lax` compute, in NumPy and SciPy, for tests."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ....lazy_imports import lazy_module

_special: Any = lazy_module("scipy.special")
_Pads = Sequence[tuple[int, int]]

# ---- operations that NumPy has

neg, sign, floor, ceil, is_finite = np.negative, np.sign, np.floor, np.ceil, np.isfinite
exp, exp2, expm1, log, log1p = np.exp, np.exp2, np.expm1, np.log, np.log1p
sin, cos, tan, sinh, cosh, tanh = np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh
asin, acos, atan, atan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
asinh, acosh, atanh = np.arcsinh, np.arccosh, np.arctanh
sqrt, cbrt, square, reciprocal = np.sqrt, np.cbrt, np.square, np.reciprocal
nextafter, real, imag, abs, pow = np.nextafter, np.real, np.imag, np.absolute, np.power
bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
bitwise_not, add, sub, max, min = np.invert, np.add, np.subtract, np.maximum, np.minimum
shift_left, shift_right_arithmetic = np.left_shift, np.right_shift
eq, ne, ge, gt, le, lt = (
    np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less
)  # fmt: skip
dot, transpose, squeeze, select, sum = np.dot, np.transpose, np.squeeze, np.where, np.sum
sort = np.sort


def conj(x: Any) -> Any:
    """The conjugate, as a complex number."""
    return np.conj(np.asarray(x) + np.complex64(0))


def complex(x: Any, y: Any) -> Any:
    """A complex number of two parts."""
    return x + np.complex64(1j) * y


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    one = np.asarray(1, np.asarray(x).dtype)
    return one / (one + np.exp(-x))


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return np.asarray(1, np.asarray(x).dtype) / np.sqrt(x)


def round(x: Any) -> Any:
    """To the next integer; halves away from zero."""
    half = np.copysign(np.asarray(0.5, x.dtype), x)
    return np.trunc(x + half).astype(x.dtype)


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product, computed in `out_dtype` if one is given."""
    if out_dtype is None:
        return np.multiply(x, y)
    return np.multiply(np.asarray(x).astype(out_dtype), np.asarray(y).astype(out_dtype))


def div(lhs: Any, rhs: Any) -> Any:
    """The quotient; that of integers without its fraction."""
    if not np.issubdtype(np.result_type(lhs), np.integer):
        return np.divide(lhs, rhs)
    quotient = np.floor_divide(lhs, rhs)
    inexact = (np.remainder(lhs, rhs) != 0) & ((np.sign(lhs) * np.sign(rhs)) < 0)
    return (quotient + inexact).astype(np.asarray(lhs).dtype)


def rem(lhs: Any, rhs: Any) -> Any:
    """The remainder, of the dividend's sign."""
    return np.fmod(lhs, rhs).astype(np.asarray(lhs).dtype)


def _bits(x: Any) -> np.ndarray:
    """The bits of integers along a last axis, the lowest first."""
    x = np.asarray(x)
    return np.unpackbits(
        np.ascontiguousarray(x)[..., None].view(np.uint8), axis=-1, bitorder="little"
    )


def population_count(x: Any) -> Any:
    """How many bits are set."""
    return _bits(x).sum(-1).astype(np.asarray(x).dtype)


def clz(x: Any) -> Any:
    """How many zeros stand above the highest bit that is set."""
    bits = _bits(x)[..., ::-1]
    first = np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1])
    return first.astype(np.asarray(x).dtype)


def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the bits of products."""
    dtype = np.result_type(x, y)
    wide = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    high = np.asarray(wide // (1 << dtype.itemsize * 8), dtype=object)
    return high.astype(dtype)


def _by_scipy(name: str) -> Callable[..., Any]:
    """A function of SciPy's, its results in the operands' dtype."""

    def function(*args: Any) -> Any:
        dtype = np.asarray(args[0]).dtype
        wide = [np.asarray(a, np.float32 if dtype.itemsize < 4 else dtype) for a in args]
        return np.asarray(getattr(_special, name)(*wide)).astype(dtype)

    return function


lgamma, digamma, betainc = _by_scipy("gammaln"), _by_scipy("digamma"), _by_scipy("betainc")
igamma, igammac = _by_scipy("gammainc"), _by_scipy("gammaincc")
erf, erfc, erf_inv = _by_scipy("erf"), _by_scipy("erfc"), _by_scipy("erfinv")
bessel_i0e, bessel_i1e = _by_scipy("i0e"), _by_scipy("i1e")


# ---- representations


def convert_element_type(operand: Any, dtype: Any) -> Any:
    """In another dtype."""
    return np.asarray(operand, dtype=dtype)


def bitcast_convert_type(operand: Any, dtype: Any) -> Any:
    """The same bits as another dtype: narrower ones along a new last axis, wider ones from one."""
    operand, to = np.asarray(operand), np.dtype(dtype)
    old, new = (_width(d) for d in (operand.dtype, to))
    if old == new:
        return operand.view(to)
    if old < new:
        if old == 4:
            operand = _pairs_joined(operand)
        return np.ascontiguousarray(operand).view(to)[..., 0]
    narrow = np.dtype(np.uint8) if new == 4 else to
    pieces = np.ascontiguousarray(operand)[..., None].view(narrow)
    return _halves(pieces, to) if new == 4 else pieces


def _width(dtype: np.dtype) -> int:
    four = dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
    return 4 if four else dtype.itemsize * 8


def _pairs_joined(x: np.ndarray) -> np.ndarray:
    low, high = x[..., ::2].view(np.uint8) & 15, x[..., 1::2].view(np.uint8) & 15
    return np.asarray(low | (high << 4), np.uint8)


def _halves(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    out = np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])
    return out.astype(ml_dtypes.uint4).view(dtype)


def clamp(min: Any, operand: Any, max: Any) -> Any:
    """Between two bounds."""
    return np.clip(operand, np.clip(min, None, max), max).astype(np.asarray(operand).dtype)


# ---- shapes


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Arrays after each other along an axis."""
    return np.concatenate(operands, axis=dimension)


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Repeated along new leading axes."""
    return np.broadcast_to(operand, (*sizes, *np.shape(operand)))


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """Repeated to a shape, of which the operand's axes are given ones."""
    full = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, np.shape(operand), strict=True):
        full[axis] = size
    return np.broadcast_to(np.reshape(operand, full), shape)


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Any:
    """In another shape, the axes turned before."""
    turned = operand if dimensions is None else np.transpose(operand, dimensions)
    return np.reshape(turned, new_sizes)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Turned round along axes."""
    return np.flip(np.asarray(operand), tuple(dimensions))


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """A part of an array."""
    steps = [1] * len(start_indices) if strides is None else strides
    places = map(builtins.slice, start_indices, limit_indices, steps)
    return operand[tuple(places)]


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Any:
    """A part of an array, moved so that it lies within."""
    return np.array(operand[_within(operand, start_indices, slice_sizes)])


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """An array with a part replaced."""
    out = np.array(operand)
    out[_within(operand, start_indices, np.shape(update))] = update
    return out


def _within(operand: Any, start: Any, sizes: Sequence[int]) -> tuple[Any, ...]:
    firsts = np.clip(start, 0, np.subtract(np.shape(operand), sizes))
    return tuple(builtins.slice(int(s), int(s) + n) for s, n in zip(firsts, sizes, strict=True))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """With values around elements and between them; negative pads cut."""
    low_high = [(low, high) for low, high, _ in padding_config]
    spread = _dilate(operand, [inner + 1 for *_, inner in padding_config], padding_value)
    return _pad(spread, low_high, padding_value)


def _pad(arr: Any, pads: _Pads, pad_value: Any) -> Any:
    grown = [(builtins.max(a, 0), builtins.max(b, 0)) for a, b in pads]
    arr = np.asarray(arr)
    out = np.pad(arr, grown, mode="constant", constant_values=pad_value).astype(arr.dtype)
    cut = (
        builtins.slice(builtins.max(-a, 0), builtins.max(n - builtins.max(-b, 0), 0))
        for (a, b), n in zip(pads, out.shape, strict=True)
    )
    return out[tuple(cut)]


def _dilate(operand: Any, factors: Sequence[int], fill_value: Any = 0) -> Any:
    operand = np.asarray(operand)
    sizes = [(n - 1) * f + 1 if n else 0 for n, f in zip(operand.shape, factors, strict=True)]
    out = np.full(sizes, fill_value, operand.dtype)
    out[tuple(builtins.slice(None, None, f) for f in factors)] = operand
    return out


# ---- products


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    """Sums of products along pairs of axes, for each element of others."""
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers
    letters = iter(range(np.ndim(lhs) + np.ndim(rhs)))
    left: Any = [next(letters) for _ in range(np.ndim(lhs))]
    right: Any = [next(letters) for _ in range(np.ndim(rhs))]
    for a, b in (*zip(lhs_sum, rhs_sum, strict=True), *zip(lhs_batch, rhs_batch, strict=True)):
        right[b] = left[a]
    out = [left[a] for a in lhs_batch]
    out += [x for a, x in enumerate(left) if a not in (*lhs_sum, *lhs_batch)]
    out += [x for b, x in enumerate(right) if b not in (*rhs_sum, *rhs_batch)]
    dtype = np.result_type(lhs, rhs)
    if dtype.kind in "biufc":
        return np.asarray(np.einsum(lhs, left, rhs, right, out), dtype)
    wide: list[Any] = [
        np.asarray(x, np.float32) for x in (lhs, rhs)
    ]  # einsum knows NumPy's own only
    products: Any = np.einsum(wide[0], left, wide[1], right, out)
    return products.astype(dtype)


def ragged_dot(lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    """Groups of rows, each times a matrix of its own."""
    ends = np.cumsum(group_sizes)
    out = np.zeros((lhs.shape[0], rhs.shape[2]), np.asarray(lhs).dtype)
    for matrix, end, size in zip(rhs, ends, group_sizes, strict=True):
        out[end - size : end] = lhs[end - size : end] @ matrix
    return out


def padtype_to_pads(
    in_shape: Sequence[int],
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The pads that "SAME" or "VALID" is."""
    if padding.upper() == "VALID":
        return [(0, 0)] * len(in_shape)
    if padding.upper() not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"unknown padding type {padding!r}")
    lower, pads = padding.upper() == "SAME_LOWER", []
    for size, window, stride in zip(in_shape, filter_shape, window_strides, strict=True):
        count = -(-size // stride)
        total = builtins.max((count - 1) * stride + window - size, 0)
        small = total // 2
        pads.append((total - small, small) if lower else (small, total - small))
    return pads


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: str) -> Any:
    """Convolution of (batch, feature, space) with (out, in, space)."""
    pads = padtype_to_pads(lhs.shape[2:], rhs.shape[2:], window_strides, padding)
    return _conv(lhs, rhs, window_strides, pads)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
) -> Any:
    """Convolution with pads and dilations, of arrays in the usual order of axes."""
    spread_lhs = _dilate(lhs, (1, 1, *(lhs_dilation or (1,) * (lhs.ndim - 2))))
    spread_rhs = _dilate(rhs, (1, 1, *(rhs_dilation or (1,) * (rhs.ndim - 2))))
    return _conv(spread_lhs, spread_rhs, window_strides, padding)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
) -> Any:
    """Convolution with pads, dilations and any order of axes."""
    lhs_perm, rhs_perm, out_perm = _conv_general_permutations(dimension_numbers)
    lhs, rhs = np.transpose(lhs, lhs_perm), np.transpose(rhs, rhs_perm)
    if isinstance(padding, str):
        space = [(n - 1) * d + 1 for n, d in zip(rhs.shape[2:], rhs_dilation, strict=True)]
        padding = padtype_to_pads(lhs.shape[2:], space, window_strides, padding)
    out = conv_with_general_padding(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)
    return np.transpose(out, np.argsort(out_perm))


def _conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[list[int], ...]:
    """From the order of axes that letters say to the usual one."""
    lhs, rhs, out = dimension_numbers
    space = [k for k, c in enumerate(rhs) if c not in "OI"]
    in_order = [rhs[k] for k in space]
    return (
        [lhs.index("N"), lhs.index("C"), *(lhs.index(c) for c in in_order)],
        [rhs.index("O"), rhs.index("I"), *space],
        [out.index("N"), out.index("C"), *(out.index(c) for c in in_order)],
    )


def _conv(lhs: Any, rhs: Any, strides: Sequence[int], pads: _Pads) -> Any:
    view, axes, rhs_axes, out_axes = _conv_view(lhs, rhs.shape, strides, pads, 0.0)
    dtype = np.asarray(lhs).dtype
    if dtype.kind not in "biufc":
        view, rhs = view.astype(np.float32), np.asarray(rhs, np.float32)
    return np.asarray(np.einsum(view, axes, rhs, rhs_axes, out_axes)).astype(dtype)


def _conv_view(
    lhs: Any,
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    pads: _Pads,
    pad_value: Any,
) -> tuple[Any, list[int], list[int], list[int]]:
    """The windows of an array along new last axes, and the axes that an einsum calls them by."""
    padded = _pad(lhs, [(0, 0), (0, 0), *pads], pad_value)
    n = len(window_strides)
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, tuple(rhs_shape[2:]), axis=tuple(range(2, 2 + n))
    )[(builtins.slice(None),) * 2 + tuple(builtins.slice(None, None, s) for s in window_strides)]
    batch, feature, out, space = 0, 1, 2, list(range(3, 3 + n))
    inner = list(range(3 + n, 3 + 2 * n))
    return (
        windows,
        [batch, feature, *space, *inner],
        [out, feature, *inner],
        [batch, out, *space],
    )


# ---- reductions and sorting


def _one_by_one(computation: Callable[..., Any], init: Any, rows: np.ndarray) -> np.ndarray:
    """The last axis, combined from left to right."""
    dtype = rows.dtype
    out = np.full(rows.shape[:-1], init, dtype)
    for k in range(rows.shape[-1]):
        out = np.asarray(computation(out, rows[..., k])).astype(dtype)
    return out


def reduce(
    operand: Any, init_value: Any, computation: Callable[..., Any], dimensions: Sequence[int]
) -> Any:
    """Axes combined by a function of two values."""
    operand = np.asarray(operand)
    kept = [a for a in range(operand.ndim) if a not in dimensions]
    sizes = [operand.shape[a] for a in kept]
    length = math.prod(operand.shape[a] for a in dimensions)
    rows = np.transpose(operand, [*kept, *dimensions]).reshape(*sizes, length)
    return _one_by_one(computation, init_value, rows)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | _Pads,
    base_dilation: Sequence[int] | None,
) -> Any:
    """Windows combined by a function of two values."""
    operand = np.asarray(operand)
    if base_dilation is not None:
        operand = _dilate(operand, base_dilation, init_value)
    if isinstance(padding, str):
        padding = padtype_to_pads(operand.shape, window_dimensions, window_strides, padding)
    padded = _pad(operand, padding, init_value)
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(window_dimensions))
    windows = windows[tuple(builtins.slice(None, None, s) for s in window_strides)]
    rows = windows.reshape(*windows.shape[: operand.ndim], -1)
    return _one_by_one(computation, init_value, rows)


def sort_key_val(keys: Any, values: Any, dimension: int = -1) -> tuple[Any, Any]:
    """Keys in order, and values in the order of their keys; equal keys stay as they are."""
    order = np.argsort(keys, axis=dimension, kind="stable")
    return tuple(np.take_along_axis(x, order, dimension) for x in (keys, values))  # type: ignore[return-value]


def top_k(operand: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The k largest elements along an axis and their places; the first of equal ones first."""
    operand = np.moveaxis(np.asarray(operand), axis, -1)
    flipped = np.flip(operand, -1)
    order = np.flip(np.argsort(flipped, axis=-1, kind="stable"), -1)
    places = (operand.shape[-1] - 1 - order)[..., :k].astype(np.int32)
    best = np.take_along_axis(operand, places, -1)
    return np.moveaxis(best, -1, axis), np.moveaxis(places, -1, axis)
