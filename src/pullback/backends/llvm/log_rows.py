"""Logarithms by rows of a small table: the number c that is nearest of sixteen, and a short series
of what is left. Nothing is divided.

log x = e log 2 + log c + log(1 + r) with r = z / c - 1 for x = 2**e z, |r| <= 1/32. Around 1 c is
1, so that nothing cancels.
"""

from __future__ import annotations

from typing import NamedTuple

from pullback.backends.llvm import coefficients as K
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.pieces import LOG_FIRST, LOG_ROWS_F32, LOG_ROWS_F64
from pullback.backends.llvm.small_tables import look_up

__all__ = ["Parts", "base_two", "parts"]

_MANTISSA, _STEP = 52, 48
_MAGIC = 1.5 * 2.0**52
LN2_HIGH = int(K.LN2[0] * 2.0**40) / 2.0**40


class Parts(NamedTuple):
    """What a logarithm is the sum of: r and what its rounding lost, and e log 2 + log c as a sum of
    two, the first of which is exact."""

    r: Val
    lost: Val
    high: Val
    low: Val


def _split(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    """(e as an integer, z, the row) of positive normal doubles."""
    bits = b.bitcast(x, "i64")
    above = bits - LOG_FIRST
    e = b.ashr(above, _MANTISSA)
    return e, b.bitcast(bits - (e << _MANTISSA), "double"), above >> _STEP


def _as_float(b: Builder, e: Val) -> Val:
    """By the bits of 1.5 * 2**52: AVX2 has no conversion of 64-bit integers."""
    return b.bitcast(e + b.bitcast(b.lit(_MAGIC, "double"), "i64"), "double") - _MAGIC


def parts(b: Builder, x: Val, less: Val | None = None) -> Parts:
    """Of positive normal doubles, divided by 2**less."""
    e, z, row = _split(b, x)
    inverse, c_high, c_low = look_up(b, "log_rows", LOG_ROWS_F64, row)
    # The reciprocal has few bits, but not few enough for an exact difference.
    near = z * inverse
    left, about = _lost(b, z, inverse, near), near - 1.0
    r = b.fma(z, inverse, -1.0) if b.target.fma else about + left
    power = _as_float(b, e) if less is None else _as_float(b, e) - less
    high = b.fma(power, LN2_HIGH, c_high)
    low = b.fma(power, K.LN2[0] - LN2_HIGH, b.fma(power, K.LN2[1], c_low))
    return Parts(r, left - (r - about), high, low)


def _lost(b: Builder, z: Val, inverse: Val, near: Val) -> Val:
    """What the product's rounding lost."""
    if b.target.fma:
        return b.fma(z, inverse, -near)
    high = b.bitcast(b.bitcast(z, "i64") & -(1 << 27), "double")  # 26 bits, times 21
    return (high * inverse - near) + (z - high) * inverse


def base_two(b: Builder, z: Val, row: Val, e: Val) -> tuple[Val, Val]:
    """(r, e + log2 c) for floats 2**e z as doubles: r is exact."""
    inverse, log = look_up(b, "log2_rows", LOG_ROWS_F32, row)
    return b.fma(z, inverse, -1.0), e + log
