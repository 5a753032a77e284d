"""NumPy rules of arithmetic, comparison, bits, selection and conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...primitives import builders, convert, elementwise
from ...primitives.layout import saturated
from .table import RULES, computed, is_narrow, is_tiny_int, rule, widened

p = elementwise


def _binary(primitive: Any, fn: Callable[..., Any]) -> None:
    RULES[primitive] = computed(lambda x, y, **params: fn(x, y))


def _unary(primitive: Any, fn: Callable[..., Any]) -> None:
    RULES[primitive] = computed(lambda x, **params: fn(x))


def _is_int(x: Any) -> bool:
    return x.dtype.kind in "iu"


def _div(x: Any, y: Any) -> Any:
    """Integers: toward zero; by zero all bits are set; the least integer over -1 is itself."""
    if x.dtype.kind == "c":
        return _complex_div(x, y)
    if not _is_int(x):
        return x / y
    x, y = np.broadcast_arrays(x, y)
    zero = y == 0
    minus = (y == -1) if x.dtype.kind == "i" else np.zeros(y.shape, bool)
    safe = np.where(zero | minus, np.ones_like(y), y)
    q = x // safe
    r = x - q * safe
    q = q + ((r != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    return np.where(zero, np.asarray(-1).astype(x.dtype), np.where(minus, -x, q))


def _complex_div(x: Any, y: Any) -> Any:
    """NumPy's quotient, with C's infinities (C99, G.5.1)."""
    x, y = np.broadcast_arrays(x, y)
    out = np.array(x / y)

    def signs(where: Any, z: Any) -> tuple[Any, Any]:
        return tuple(
            np.where(where, np.copysign(np.isinf(part).astype(part.dtype), part), part)
            for part in (z.real, z.imag)
        )

    none = np.isnan(out.real) & np.isnan(out.imag)
    grows = none & np.isinf(x) & np.isfinite(y)
    vanishes = none & np.isfinite(x) & np.isinf(y)
    (a, b), (c, d) = signs(grows, x), signs(vanishes, y)
    scale = np.where(grows, np.inf, 0).astype(a.dtype)
    zero = (y == 0) & ~(np.isnan(x.real) & np.isnan(x.imag))
    pole = np.copysign(np.array(np.inf, a.dtype), y.real)
    for part, special, at_pole in (
        (out.real, scale * (a * c + b * d), pole * x.real),
        (out.imag, scale * (b * c - a * d), pole * x.imag),
    ):
        part[...] = np.where(zero, at_pole, np.where(grows | vanishes, special, part))
    return out


def _rem(x: Any, y: Any) -> Any:
    if not _is_int(x):
        return np.fmod(x, y)
    x, y = np.broadcast_arrays(x, y)
    zero = y == 0
    minus = (y == -1) if x.dtype.kind == "i" else np.zeros(y.shape, bool)
    safe = np.where(zero | minus, np.ones_like(y), y)
    return np.where(zero, x, np.where(minus, np.zeros_like(x), np.fmod(x, safe)))


def _ordered(x: Any, y: Any, larger: bool) -> Any:
    """max or min: NaN wins, and -0 < 0; complex numbers go by real, then imaginary part."""
    if x.dtype.kind == "c":
        first = (x.real > y.real) | ((x.real == y.real) & (x.imag >= y.imag))
        return np.where(first == larger, x, y)
    out = np.maximum(x, y) if larger else np.minimum(x, y)
    if x.dtype.kind == "f":
        zeros = (x == 0) & (y == 0)
        if zeros.any():
            sign = (np.signbit(x) & np.signbit(y)) if larger else (np.signbit(x) | np.signbit(y))
            out = np.where(zeros, np.where(sign, -np.zeros_like(out), np.zeros_like(out)), out)
    return out


def _sign(x: Any) -> Any:
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(
            size == 0, np.zeros_like(x), x / np.where(size == 0, np.ones_like(size), size)
        )
    if x.dtype.kind == "f":
        return np.where(x == 0, x, np.sign(x))
    return np.sign(x)


def _mulhi(x: Any, y: Any) -> Any:
    bits = x.dtype.itemsize * 8
    out = (x.astype(object) * y.astype(object)) >> bits
    return np.asarray(out, object).astype(x.dtype)


def _integer_pow(x: Any, y: int) -> Any:
    y = int(y)  # may be a float that is whole
    if y == 0:
        return np.ones_like(x)
    out, base, n = None, x, abs(y)
    while n:
        if n & 1:
            out = base if out is None else out * base
        n >>= 1
        if n:
            base = base * base
    return out if y > 0 else 1 / out  # type: ignore[operator]


def _pow(x: Any, y: Any) -> Any:
    if _is_int(y):
        y = y.astype(x.dtype)
    return np.power(x, y)


def _shift(fn: Callable[..., Any], fill: Callable[..., Any], logical: bool) -> Callable[..., Any]:
    def shift(x: Any, y: Any) -> Any:
        x, y = np.broadcast_arrays(x, y)
        bits = x.dtype.itemsize * 8
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        far = y.view(unsigned) >= bits if y.dtype.kind == "i" else y >= bits
        by = np.where(far, np.zeros_like(y), y)
        work = x.astype(unsigned) if logical else x
        out = fn(work, by.astype(work.dtype)).astype(x.dtype)
        return np.where(far, fill(x), out)

    return shift


def _shift_arithmetic(x: Any, y: Any) -> Any:
    """The sign comes in from the left, that of the bits where the type has none."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    fill = lambda v: np.where(v < 0, np.asarray(-1, v.dtype), np.zeros_like(v))
    shift = _shift(np.right_shift, fill, False)
    return shift(x.view(signed), y.view(signed)).view(x.dtype)


def _round(x: Any, rounding_method: Any) -> Any:
    if rounding_method == p.RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


def _clz(x: Any) -> Any:
    bits = x.dtype.itemsize * 8
    u = x.astype(np.dtype(f"u{x.dtype.itemsize}"))
    out = np.full(x.shape, bits, np.int64)
    for k in range(bits):
        out[((u >> np.asarray(k, u.dtype)) & np.asarray(1, u.dtype)).astype(bool)] = bits - 1 - k
    return out.astype(x.dtype)


def _order_key(x: Any) -> Any:
    """An integer that is ordered as the floats are in the total order."""
    if x.dtype.kind in "iub":
        return x
    bits = x.dtype.itemsize * 8
    u = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(
        u < 0,
        ~u & np.asarray(2 ** (bits - 1) - 1, u.dtype) | np.asarray(-(2 ** (bits - 1)), u.dtype),
        u,
    )


def _total(fn: Callable[..., Any]) -> Callable[..., Any]:
    def compare(x: Any, y: Any, **params: Any) -> Any:
        kx, ky = _order_key(x), _order_key(y)
        return fn(kx, ky)

    return compare


for _prim, _fn in (
    (p.add_p, np.add), (p.sub_p, np.subtract), (p.div_p, _div), (p.rem_p, _rem), (p.max_p, lambda x,
    y: _ordered(x, y, True)), (p.min_p, lambda x, y: _ordered(x, y, False)), (p.mulhi_p, _mulhi),
    (p.pow_p, _pow), (p.complex_p, lambda x, y: _complex(x, y)), (p.and_p, np.bitwise_and), (p.or_p,
    np.bitwise_or), (p.xor_p, np.bitwise_xor), (p.shift_left_p, _shift(np.left_shift, np.zeros_like,
    False)), (p.shift_right_logical_p, _shift(np.right_shift, np.zeros_like, True)),
    (p.shift_right_arithmetic_p, _shift_arithmetic), (p.eq_p, np.equal), (p.ne_p,
    np.not_equal), (p.lt_p, np.less), (p.le_p, np.less_equal), (p.gt_p, np.greater), (p.ge_p,
    np.greater_equal), (builders.add_any_p, lambda x, y: np.logical_or(x, y) if x.dtype == bool else
    x + y),
):  # fmt: skip
    _binary(_prim, _fn)

for _prim, _one in (
    (p.neg_p, np.negative), (p.sign_p, _sign), (p.floor_p, np.floor), (p.ceil_p, np.ceil),
    (p.is_finite_p, np.isfinite), (p.abs_p, np.abs), (p.square_p, lambda x: x * x), (p.real_p,
    np.real), (p.imag_p, np.imag), (p.not_p, np.invert), (p.clz_p, _clz), (p.population_count_p,
    lambda x: _popcount(x)), (p.conj_p, np.conj), (p.log_p, np.log),
):  # fmt: skip
    _unary(_prim, _one)

RULES[p.integer_pow_p] = computed(_integer_pow)
RULES[p.round_p] = computed(_round)
RULES[p.lt_to_p] = _total(np.less)
RULES[p.le_to_p] = _total(np.less_equal)
RULES[p.eq_to_p] = _total(np.equal)


def _complex(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


def _popcount(x: Any) -> Any:
    as_bytes = np.asarray(x, order="C").reshape(*x.shape, 1).view(np.uint8)
    return np.unpackbits(as_bytes, axis=-1).sum(axis=-1, dtype=np.int64).astype(x.dtype)


@rule(p.nextafter_p)
def _nextafter(x: Any, y: Any) -> Any:
    return np.nextafter(x, y)


@rule(p.mul_p)
def _mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        return x.astype(out_dtype) * y.astype(out_dtype)
    return widened(x) * widened(y)


@rule(p.select_n_p)
def _select_n(which: Any, *cases: Any) -> Any:
    index = np.clip(which.astype(np.int64), 0, len(cases) - 1)
    out = np.array(cases[0])
    for k in range(1, len(cases)):
        out = np.where(index == k, cases[k], out).astype(cases[0].dtype)
    return out


@rule(p.clamp_p)
def _clamp(low: Any, x: Any, high: Any) -> Any:
    low, x, high = map(widened, (low, x, high))
    return _ordered(_ordered(low, x, True), high, False)


# --- conversion ---
def _wrap(x: Any, dtype: Any) -> Any:
    """An integer modulo the range of a narrower type."""
    if not is_tiny_int(dtype):
        return x.astype(dtype)
    bits = dtypes.itemsize_bits(dtype)
    low = x.astype(np.int64) & ((1 << bits) - 1)
    if not dtypes.is_unsigned(dtype):
        low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low.astype(np.int8).astype(dtype)


@rule(convert.convert_element_type_p)
def _convert(x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> Any:
    if x.dtype == new_dtype or not isinstance(new_dtype, np.dtype):
        return x
    if x.dtype.kind == "c" and new_dtype.kind != "c":
        x = x.real
    if dtypes.is_bool(new_dtype):
        return widened(x) != 0
    if dtypes.is_integer(new_dtype):
        if dtypes.is_float(x.dtype):
            return saturated(x, new_dtype)
        return _wrap(widened(x), new_dtype)
    if is_narrow(new_dtype):
        return widened(x).astype(np.float32).astype(new_dtype)
    return widened(x).astype(new_dtype)


@rule(convert.bitcast_convert_type_p)
def _bitcast(x: Any, *, new_dtype: Any) -> Any:
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old < 8 or new < 8:
        return _bitcast_tiny(x, new_dtype, old, new)
    x = np.asarray(x, order="C")
    if old == new:
        return x.view(new_dtype)
    if old > new:
        return x.reshape(*x.shape, 1).view(new_dtype)
    return x.view(new_dtype).reshape(x.shape[:-1])


def _bitcast_tiny(x: Any, new_dtype: Any, old: int, new: int) -> Any:
    """Types of fewer than 8 bits: through arrays of bits, the lowest first."""
    words = (
        x.view(np.uint8)
        if x.dtype.itemsize == 1
        else np.asarray(x, order="C").reshape(*x.shape, 1).view(np.uint8)
    )
    words = words.reshape(*x.shape, x.dtype.itemsize)
    bits = np.unpackbits(words, axis=-1, bitorder="little")[..., :old]
    shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
    bits = bits.reshape(*shape, new)
    if new < 8:
        whole = np.zeros((*shape, 8), np.uint8)
        whole[..., :new] = bits
        out = np.packbits(whole, axis=-1, bitorder="little").reshape(shape)
        return _wrap(out, new_dtype)
    packed = np.packbits(bits, axis=-1, bitorder="little")
    return np.asarray(packed, order="C").view(new_dtype).reshape(shape)


@rule(convert.reduce_precision_p)
def _reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    work = widened(x)
    width, m_bits = (64, 52) if work.dtype == np.float64 else (32, 23)
    e_bits = width - 1 - m_bits
    u = np.dtype(f"u{width // 8}")
    bits = work.view(u) if work.flags.c_contiguous else np.asarray(work, order="C").view(u)
    drop = m_bits - mantissa_bits
    one = u.type(1)
    if drop > 0:
        last = (bits >> u.type(drop)) & one
        bits = (bits + (u.type((1 << (drop - 1)) - 1) + last)) & ~u.type((1 << drop) - 1)
    if exponent_bits < e_bits:
        bias, old_bias = (1 << (exponent_bits - 1)) - 1, (1 << (e_bits - 1)) - 1
        exponent = (bits >> u.type(m_bits)) & u.type((1 << e_bits) - 1)
        sign = bits & u.type(1 << (width - 1))
        infinite = u.type(((1 << e_bits) - 1) << m_bits)
        bits = np.where(exponent > u.type(old_bias + bias), sign | infinite, bits)
        bits = np.where(exponent <= u.type(old_bias - bias), sign, bits)
    return np.where(np.isnan(work), work, bits.view(work.dtype))


for _prim in (convert.copy_p, convert.stop_gradient_p, convert.stage_p):
    RULES[_prim] = lambda x: x
RULES[convert.optimization_barrier_p] = lambda *xs: list(xs)
