"""Functions of f32 that are computed in f64 as far as a rounded float needs it: powers, cube roots,
inverse hyperbolics. Within 0.503 ulp, for half the work of the f64 functions.
"""

from __future__ import annotations

from collections.abc import Callable

from pullback.backends.llvm import coefficients as K
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.log_rows import base_two
from pullback.backends.llvm.maths import (
    INF,
    NAN,
    SHAPES,
    clamp,
    log_split,
    nearer_root,
    polynomial,
    pow_specials,
)
from pullback.backends.llvm.pieces import LOG1P_F32

__all__ = ["FUNCTIONS", "pow_wide"]


def _quotient(b: Builder, x: Val, y: Val) -> Val:
    """x / y of doubles to about 2**-46, for y in the normal range of floats: a quotient of floats
    and Newton's step take half the time of one of doubles."""
    r = b.cast("fpext", 1.0 / b.cast("fptrunc", y, "float"), "double")
    q = x * r
    return b.fma(r, b.fma(-q, y, x), q)


def _exponent_of(b: Builder, x: Val) -> tuple[Val, Val]:
    """(e, m) with x = 2**e m, m in [sqrt(1/2), sqrt(2)), for a positive normal float; e an
    integer."""
    bits = b.bitcast(x, "i32")
    e = b.ashr(bits - 0x3F3504F3, 23)
    return e, b.bitcast(bits - (e << 23), "float")


def _rise(b: Builder, m: Val) -> Val:
    """(m - 1) / (m + 1) to 2**-51 for doubles from sqrt(1/2) to sqrt(2): an estimate of 1 / (m + 1)
    that is off by e < 2**-13 of it, times (1 + e) (1 + e**2). What follows does not wait for a
    division, and vectors do not wait for its unit."""
    f = m - 1.0
    estimate = polynomial(b, m, K.HALF_F32)
    e = b.fma(-(m + 1.0), estimate, 1.0)
    about = f * estimate
    about = b.fma(about, e, about)
    return b.fma(about, e * e, about)


def _log2(b: Builder, e: Val, s: Val) -> Val:
    """log2 of 2**e (1 + s) / (1 - s) for doubles, |s| up to 0.172, to 2**-43 of it where e is 0:
    floats made of it do not tell it from the truth. Exact for powers of two."""
    z = s * s
    return b.fma(s * z, polynomial(b, z, K.LOG2_F32), b.fma(s, 2.0 * K.LOG2E[0], e))


def _log_scaled(b: Builder, x: Val, y: Val, about: Val) -> Val:
    """log(x / y) for doubles whose quotient is `about` a positive normal float."""
    e, _ = _exponent_of(b, about)
    down = b.bitcast((1023 - b.cast("sext", e, "i64")) << 52, "double")
    x = x * down
    return _log2(b, b.cast("sitofp", e, "double"), _quotient(b, x - y, x + y)) * K.LN2[0]


def _exp2(b: Builder, t: Val) -> Val:
    """2**t for doubles from -1021 to 1023, as exactly as a float needs it; exact for whole
    numbers. The exponent is added to the power's own."""
    raised = t + SHAPES["double"].magic
    r = t - (raised - SHAPES["double"].magic)
    power = polynomial(b, r, (1.0, *K.EXP2_F32))
    return b.bitcast(b.bitcast(power, "i64") + (b.bitcast(raised, "i64") << 52), "double")


def pow_(b: Builder, x: Val, y: Val) -> Val:
    """Through f64, whose base-2 logarithm has all the bits that a result below 2**128 needs; exact
    for powers of two. Vectors of ordinary numbers with ordinary powers go without the others'
    rules."""
    odd = ~((x >= 2.0**-126) & (x < INF))
    none = b.lit(0, "i32")

    def usual() -> list[Val]:
        a = b.fabs(x)
        tiny = a < 2.0**-126
        inside = b.select((a > 0.0) & (a < INF), b.select(tiny, a * 2.0**24, a), 1.0)
        return [inside, b.select(tiny, b.lit(24, "i32"), none)]

    base, less = b.if_else(b.any_lane(odd), usual, lambda: [x, none])
    t = b.cast("fpext", y, "double") * _log2_of_float(b, base, less)

    def special() -> list[Val]:
        value = b.cast("fptrunc", _exp2(b, clamp(b, t, -300.0, 300.0)), "float")
        return [pow_specials(b, x, y, b.fabs(x), value)]

    usual_power = lambda: [b.cast("fptrunc", _exp2(b, t), "float")]
    return b.if_else(b.any_lane(odd | ~(b.fabs(t) < 300.0)), special, usual_power)[0]


_LOG_FIRST = 0x3F340000  # of a float, 45/64: where pieces.LOG_FIRST is


def _log2_of_float(b: Builder, x: Val, less: Val) -> Val:
    """log2(x) - less of positive normal floats as doubles, to 2**-44 of it."""
    bits = b.bitcast(x, "i32")
    above = bits - _LOG_FIRST
    e = b.ashr(above, 23)
    z = b.cast("fpext", b.bitcast(bits - (e << 23), "float"), "double")
    row = b.cast("zext", above >> 19, "i64")
    r, whole = base_two(b, z, row, b.cast("sitofp", e - less, "double"))
    return b.fma(r, polynomial(b, r, LOG1P_F32), whole)


def pow_wide(b: Builder, x: Val, y: Val) -> Val:
    """x**y for doubles, x > 0, as exactly as a float needs it: to 2**-43 of the exponent."""
    e, m = log_split(b, x)
    return _exp2(b, clamp(b, y * _log2(b, e, _rise(b, m)), -1021.0, 1023.0))


def cbrt(b: Builder, x: Val) -> Val:
    """The reciprocal cube root without a division; the root from it in f64."""
    a = b.fabs(x)
    tiny = a < 2.0**-126
    a = b.select(tiny, a * 2.0**24, a)
    third = b.cast("fptosi", b.cast("sitofp", b.bitcast(a, "i32"), "float") * (1.0 / 3.0), "i32")
    r = b.bitcast(b.lit(0x54A21D2A, "i32") - third, "float")  # within a few hundredths
    for _ in range(2):
        r = nearer_root(b, a, r)
    a64, r64 = (b.cast("fpext", v, "double") for v in (a, r))
    square = r64 * r64
    t = a64 * square
    t = b.fma(b.fma(t * t, t, -a64), square * (-1.0 / 3.0), t)
    root = b.cast("fptrunc", t, "float")
    root = b.select(tiny, root * 2.0**-8, root)
    return b.select((a > 0.0) & (a < INF), b.copysign(root, x), x)


def asinh(b: Builder, x: Val) -> Val:
    """Through f64, where log(a + sqrt(a**2 + 1)) has all the bits down to 2**-12."""
    a = b.fabs(x)
    value = _log_of_pair(b, b.select(a < INF, a, 1.0), 0.25)
    near = b.fma(a * a, a * (-1.0 / 6.0), a)
    value = b.copysign(b.select(a < 2.0**-12, near, value), x)
    return b.select(a < INF, value, x)


def acosh(b: Builder, x: Val) -> Val:
    """Through f64: log(x + sqrt(x**2 - 1)), whose square of a float is exact."""
    inside = (x > 1.0) & (x < INF)
    value = _log_of_pair(b, b.select(inside, x, 2.0), -0.25)
    odd = b.select(x.eq(1.0), 0.0, b.select(x.eq(INF), INF, NAN, like=x.t), like=x.t)
    return b.select(inside, value, odd)


def _log_of_pair(b: Builder, x: Val, quarter: float) -> Val:
    """log(x + sqrt(x**2 + 4 quarter)), from half of that, which is in the range of floats."""
    half = b.cast("fpext", x, "double") * 0.5
    total = half + b.sqrt(b.fma(half, half, quarter))
    e, m = log_split(b, total)
    return b.cast("fptrunc", _log2(b, e + 1.0, _rise(b, m)) * K.LN2[0], "float")


def atanh(b: Builder, x: Val) -> Val:
    """Through f64, where log((1 + a) / (1 - a)) has all the bits down to 2**-12."""
    a = b.fabs(x)
    inside = b.select(a < 1.0, a, 0.0)
    wide = b.cast("fpext", inside, "double")
    about = (inside + 1.0) / (1.0 - inside)
    value = _log_scaled(b, wide + 1.0, 1.0 - wide, about) * 0.5
    near = b.fma(a * a, a * (1.0 / 3.0), a)
    value = b.select(a < 2.0**-12, near, b.cast("fptrunc", value, "float"))
    value = b.select(a < 1.0, value, b.select(a.eq(1.0), INF, NAN, like=x.t), like=x.t)
    return b.copysign(value, x)


FUNCTIONS: dict[str, Callable[..., Val]] = {
    "pow": pow_,
    "cbrt": cbrt,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
