"""Elementary functions as vector IR: exponentials, logarithms, powers, trigonometry, hyperbolics,
rounding, remainder.

Every function works on scalars and vectors of f32 and f64 alike, without branches except where an
argument is huge
(trigonometry, through the table's `rem_pio2`) or a quotient is (`rem`). Methods: argument reduction
in two or three parts,
a near-minimax polynomial (coefficients.py, from tools/derive_maths.py), reconstruction with one
rounding at the end where it
matters. Functions of f32 that end in f64 are in maths_float.py. Accuracy is tested in
tests/test_llvm_maths.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from pullback.backends.llvm import coefficients as K, log_rows, x86
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.literals import BITS
from pullback.backends.llvm.pieces import LOG1P_F64, LOG1P_TAIL_F64
from pullback.backends.llvm.table import TABLE, function_offset

__all__ = [
    "EXP_ZERO",
    "FUNCTIONS",
    "exp_parts",
    "horner",
    "log_double",
    "nearer_root",
    "nothing_below",
    "polynomial",
    "rint",
    "round_away",
    "scale_by",
    "two_prod",
    "widened",
]

INF = float("inf")
NAN = float("nan")


class Shape:
    """The layout of a float type."""

    def __init__(
        self, t: str, i: str, mantissa: int, bias: int, magic: float, least: float
    ) -> None:
        self.t, self.i, self.mantissa, self.bias = t, i, mantissa, bias
        self.magic, self.least = magic, least
        self.bits = 32 if t == "float" else 64


SHAPES = {
    "float": Shape("float", "i32", 23, 127, 1.5 * 2.0**23, 2.0**-126),
    "double": Shape("double", "i64", 52, 1023, 1.5 * 2.0**52, 2.0**-1022),
}


def table(name: str, x: Val) -> Sequence[float]:
    """A coefficient set for the type of x."""
    found: Sequence[float] = getattr(K, f"{name}_{'F32' if x.t == 'float' else 'F64'}")
    return found


def horner(b: Builder, x: Val, coefficients: Sequence[float]) -> Val:
    """A polynomial, constant coefficient first, in the order of operations that other libraries
    have, where ours are their bits."""
    result: Val = b.lit(coefficients[-1], x.t)
    for c in reversed(coefficients[:-1]):
        result = b.fma(result, x, c)
    return result


# The largest power by which `polynomial` takes one apart. Powers of small numbers must not be
# denormal, which cost Intel's processors a hundred times an operation's time.
_LARGEST_POWER = {"float": 2, "double": 8}


def polynomial(b: Builder, x: Val, coefficients: Sequence[float | Val]) -> Val:
    """A polynomial, constant coefficient first, in few steps that wait for one another (Estrin's
    scheme): loops whose steps do wait for one another take half the time, and a product more for
    every power is lost among the rest where they do not."""
    count, power = len(coefficients), 1
    if count == 1:
        only = coefficients[0]
        return only if isinstance(only, Val) else b.lit(only, x.t)
    most = _LARGEST_POWER[x.t]
    times = x
    while 3 * power < count and power < most:
        power, times = 2 * power, times * times
    high, low = coefficients[power:], coefficients[:power]
    return b.fma(polynomial(b, x, high), times, polynomial(b, x, low))


def widened(f: Callable[..., Val]) -> Callable[..., Val]:
    """An f64 algorithm that serves f32 as well."""

    def both(b: Builder, *args: Val) -> Val:
        if args[0].t == "double":
            return f(b, *args)
        return b.cast("fptrunc", f(b, *(b.cast("fpext", a, "double") for a in args)), "float")

    return both


def _split(value: float, keep: int) -> float:
    """The leading bits of a double."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return float(struct.unpack("<d", struct.pack("<Q", bits & -(1 << (53 - keep))))[0])


def _floats_of(parts: Sequence[float], count: int) -> tuple[float, ...]:
    """So many floats, each the nearest to what is left of a sum of doubles."""
    found: list[float] = []
    for _ in range(count):
        left = math.fsum((*parts, *(-f for f in found)))
        found.append(struct.unpack("<f", struct.pack("<f", left))[0])
    return tuple(found)


_LN2 = {
    "float": (_split(K.LN2[0], 15), K.LN2[0] - _split(K.LN2[0], 15)),
    "double": (_split(K.LN2[0], 40), (K.LN2[0] - _split(K.LN2[0], 40)) + K.LN2[1]),
}


def pow2(b: Builder, n: Val, s: Shape) -> Val:
    """2.0 ** n for integers n in the normal range."""
    return b.bitcast((n + s.bias) << s.mantissa, s.t)


def scale_by(b: Builder, x: Val, n: Val, same: Val | None = None) -> Val:
    """x * 2**n, which may go beyond the exponent range; rounds once. `same` is n as a float."""
    s = SHAPES[x.t]
    if b.target.masks:
        whole = b.cast("sitofp", n, x.t) if same is None else same
        scaled = x86.scalef(b, x, whole)
        if scaled is not None:
            return scaled
    half = b.ashr(n, 1)
    return x * pow2(b, half, s) * pow2(b, n - half, s)


def clamp(b: Builder, x: Val, lo: float, hi: float) -> Val:
    """x within bounds; NaN stays. Written as x86's max and min do it: one instruction each."""
    above = b.select(x < lo, lo, x, like=x.t)
    return b.select(above > hi, hi, above, like=x.t)


def nearest(b: Builder, x: Val, factor: float) -> tuple[Val, Val]:
    """The integer nearest to x * factor, as a float and as an integer (both by adding 1.5 *
    2**mantissa)."""
    s = SHAPES[x.t]
    t = b.fma(x, factor, s.magic)
    return t - s.magic, b.bitcast(t, s.i) - b.bitcast(b.lit(s.magic, s.t), s.i)


# ---- exponentials


def exp_parts(b: Builder, x: Val, low: Val | None = None) -> tuple[Val, Val]:
    """(e**r - 1, n) with x + low = n ln 2 + r, for x in the range of n."""
    return _exp_parts(b, x, low)[:2]


def _exp_parts(b: Builder, x: Val, low: Val | None = None) -> tuple[Val, Val, Val]:
    """The same, and n as a float."""
    hi, lo = _LN2[x.t]
    n, k = nearest(b, x, K.LOG2E[0])
    r = b.fma(-n, hi, x)
    r = b.fma(-n, lo, r)
    if low is not None:
        r = r + low
    return b.fma(r * r, polynomial(b, r, table("EXP", x)), r), k, n


_LN2_CEPHES = (0.693359375, -2.12194440e-4)  # their sum

# float32: Cephes's polynomial and its splitting of ln 2, which XLA has too: JAX's bits.
_EXP_CEPHES = (
    5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3,
    1.9875691500e-4,
)  # fmt: skip


def _exp_parts_f32(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    n, k = nearest(b, x, K.LOG2E[0])
    r = b.fma(-n, _LN2_CEPHES[0], x)
    r = b.fma(-n, _LN2_CEPHES[1], r)
    return b.fma(horner(b, r, _EXP_CEPHES), r * r, r), k, n


_EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
EXP_ZERO = {"float": -103.9721, "double": -745.1333}  # below, half of the least denormal is more
_EXP2_ZERO = {"float": -150.0, "double": -1075.0}


def nothing_below(b: Builder, bound: float, x: Val, value: Val) -> Val:
    """The value, or 0 where x is below the bound: what underflows would cost Intel's processors a
    hundred times an operation's time, and masked elements (exp of -1e9) are many."""
    return b.select(x < bound, 0.0, value, like=x.t)


def exp(b: Builder, x: Val) -> Val:
    parts = _exp_parts_f32 if x.t == "float" else _exp_parts
    low, high = _EXP_RANGE[x.t]
    # Below, a zero is scaled, by whatever power: one instruction makes a zero of it for any.
    y = b.select(x > high, high, x, like=x.t) if x86.scales(b, x) else clamp(b, x, low, high)
    p, k, n = parts(b, y)
    return scale_by(b, nothing_below(b, EXP_ZERO[x.t], x, p + 1.0), k, n)


def exp2(b: Builder, x: Val) -> Val:
    lo, hi = (-151.0, 129.0) if x.t == "float" else (-1076.0, 1025.0)
    y = clamp(b, x, lo, hi)
    n, k = nearest(b, y, 1.0)
    r = (y - n) * K.LN2[0]
    p = b.fma(r * r, polynomial(b, r, table("EXP", y)), r)
    return scale_by(b, nothing_below(b, _EXP2_ZERO[x.t], x, p + 1.0), k, n)


def expm1(b: Builder, x: Val) -> Val:
    """2 (e**r - 1) 2**(k-1) + 2 (2**(k-1) - 1/2): exact subtraction, no overflow before the end."""
    s = SHAPES[x.t]
    y = clamp(b, x, -40.0, _EXP_RANGE[x.t][1])
    p, k = exp_parts(b, y)
    h = pow2(b, k - 1, s)
    result = b.fma(p, h, h - 0.5) * 2.0
    return b.select(b.fabs(x) < 2.0**-54, x, result)


def logistic(b: Builder, x: Val) -> Val:
    z = exp(b, -b.fabs(x))
    return b.select(x < 0.0, z, 1.0, like=x.t) / (z + 1.0)


# ---- logarithms


def log_split(b: Builder, x: Val) -> tuple[Val, Val]:
    """(e, m) with x = 2**e m, m in [sqrt(1/2), sqrt(2)), for normal x; e as a float."""
    s = SHAPES[x.t]
    root = 0x3F3504F3 if x.t == "float" else 0x3FE6A09E667F3BCD
    bits = b.bitcast(x, s.i)
    e = b.ashr(bits - root, s.mantissa)
    m = b.bitcast(bits - (e << s.mantissa), s.t)
    return _small_int_to_float(b, e, s), m


def _small_int_to_float(b: Builder, e: Val, s: Shape) -> Val:
    """By the bits of 1.5 * 2**mantissa: AVX2 has no conversion of 64-bit integers."""
    magic = b.bitcast(b.lit(s.magic, s.t), s.i)
    return b.bitcast(e + magic, s.t) - s.magic


def _log_sum(b: Builder, e: Val, m: Val, extra: Val | None = None) -> Val:
    """e ln 2 + log(m) + extra: with s = f/(2+f), log(1+f) = f - s (f - z P(z)), z = s^2."""
    hi, lo = _LN2[m.t]
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    inner = s * (f - z * polynomial(b, z, table("LOG", m)))
    tail = e * lo if extra is None else b.fma(e, lo, extra)
    return b.fma(e, hi, f - (inner - tail))


def _log_f64(b: Builder, x: Val, less: Val | None = None, extra: Val | None = None) -> Val:
    """log(x) - less log 2 + extra of positive normal doubles."""
    if not b.target.masks:  # lanes that read a table one by one take longer than a division
        e, m = log_split(b, x)
        return _log_sum(b, e if less is None else e - less, m, extra)
    p = log_rows.parts(b, x, less)
    total, rest = _fast_two_sum(p.high, p.r)  # of which the first is larger, or 0
    low = rest + (p.low + p.lost)
    if extra is not None:
        low = low + extra
    return total + b.fma(p.r * p.r, polynomial(b, p.r, LOG1P_F64), low)


# float32 logarithms are those of Moshier's Cephes library, in the order of operations that XLA has
# on CPUs, so that random numbers made of logarithms are JAX's to the bit. Within 1.2 ulp.
_LOG_CEPHES = (
    (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1),
    (-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1),
    (2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
LOG1P_P = (
    2.0039553499201281259648e1, 5.7112963590585538103336e1, 6.0949667980987787057556e1,
    2.9911919328553073277375e1, 6.5787325942061044846969, 4.9854102823193375972212e-1,
    4.5270000862445199635215e-5,
)  # fmt: skip
LOG1P_Q = (
    6.0118660497603843919306e1, 2.1642788614495947685003e2, 3.0909872225312059774938e2,
    2.2176239823732856465394e2, 8.3047565967967209469434e1, 1.5062909083469192043167e1, 1.0,
)  # fmt: skip


def _log_sum_f32(b: Builder, e: Val, m: Val) -> Val:
    """e ln 2 + log(m)."""
    hi, lo = _LN2_CEPHES
    r = m - 1.0
    z = r * r
    cube = z * r
    first, second, third = (b.fma(b.fma(r, c0, c1), r, c2) for c0, c1, c2 in _LOG_CEPHES)
    y = b.fma(b.fma(first, cube, second), cube, third)
    y = b.fma(y, cube, e * lo)
    return b.fma(e, hi, b.fma(z, -0.5, r) + y)


def _log1p_small_f32(b: Builder, x: Val) -> Val:
    """log(1 + x) for |x| < sqrt(2) - 1. What is tiny is its own result, with its sign if it is
    zero: its powers underflow."""
    y = b.select(b.fabs(x) < 2.0**-30, -0.0, x, like=x.t)
    z = y * y
    ratio = horner(b, y, LOG1P_P) / horner(b, y, LOG1P_Q)
    return x + b.fma(z, -0.5, (y * z) * ratio)


def log(b: Builder, x: Val) -> Val:
    """Vectors of ordinary numbers go without what others need."""
    s = SHAPES[x.t]
    up = float(s.mantissa + 2)
    odd = b.any_lane(~((x >= s.least) & (x < INF)))

    def raised() -> list[Val]:
        tiny = x < s.least
        return [b.select(tiny, x * 2.0**up, x), b.select(tiny, up, 0.0, like=x.t)]

    usual, less = b.if_else(odd, raised, lambda: [x, b.lit(0.0, x.t)])
    if x.t == "float":
        e, m = log_split(b, usual)
        result = _log_sum_f32(b, e - less, m)
    else:
        result = _log_f64(b, usual, less)

    def special() -> list[Val]:
        rest = b.select(x.eq(INF), INF, NAN, like=x.t)
        rest = b.select(x.eq(0.0), -INF, rest, like=x.t)
        return [b.select((x > 0.0) & (x < INF), result, rest)]

    return b.if_else(odd, special, lambda: [result])[0]


def log1p(b: Builder, x: Val) -> Val:
    """log of u = 1 + x; in float64 corrected by what the addition lost. Vectors of finite numbers
    above -1 go without what others need."""
    odd = b.any_lane(~((x > -1.0) & (x < INF)))
    inside = log1p_inside(b, x)
    return b.if_else(odd, lambda: [log1p_anywhere(b, x, inside)], lambda: [inside])[0]


def log1p_inside(b: Builder, x: Val) -> Val:
    """log1p of a finite x above -1."""
    u = x + 1.0
    if x.t == "float":
        e, m = log_split(b, u)
        small = b.fabs(x) < math.sqrt(2) - 1
        return b.select(small, _log1p_small_f32(b, x), _log_sum_f32(b, e, m))
    lost = b.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    return b.select(x.eq(0.0), x, _log_f64(b, u, extra=lost))


def log1p_anywhere(b: Builder, x: Val, inside: Val) -> Val:
    """log1p of any x, given what log1p_inside makes of it."""
    odd = b.select(x.eq(-1.0), -INF, b.select(x.eq(INF), INF, NAN, like=x.t), like=x.t)
    return b.select((x > -1.0) & (x < INF), inside, odd)


# ---- exact products, powers


def two_prod(b: Builder, x: Val, y: Val) -> tuple[Val, Val]:
    """x * y as an unevaluated sum."""
    p = x * y
    if b.target.fma:
        return p, b.fma(x, y, -p)
    s = SHAPES[x.t]
    keep = -(1 << (s.mantissa // 2 + 1))
    xh, yh = (b.bitcast(b.bitcast(v, s.i) & keep, s.t) for v in b.coerce((x, y)))
    xl, yl = x - xh, y - yh
    return p, xl * yl - (((p - xh * yh) - xl * yh) - xh * yl)


def _fast_two_sum(x: Val, y: Val) -> tuple[Val, Val]:
    s = x + y
    return s, y - (s - x)


def log_double(b: Builder, x: Val, less: Val | None = None) -> tuple[Val, Val]:
    """log(x) - less log 2 for positive normal doubles as a sum of two: about 2**-64 relative."""
    p = log_rows.parts(b, x, less)
    square = p.r * p.r
    half, half_low = two_prod(b, p.r, p.r * -0.5)
    first, rest = _fast_two_sum(p.high, p.r)  # of which the first is larger, or 0
    total, more = _fast_two_sum(first, half)
    lost = b.fma(-p.r, p.lost, p.lost)
    low = ((rest + more) + (half_low + lost)) + p.low
    low = b.fma(square * p.r, polynomial(b, p.r, LOG1P_TAIL_F64), low)
    return _fast_two_sum(total, low)


def pow_usual(b: Builder, x: Val, y: Val) -> Val:
    """x**y for finite x > 0."""
    tiny = x < SHAPES["double"].least
    x = b.select(tiny, x * 2.0**54, x)
    return _pow_careful(b, y, *log_double(b, x, b.select(tiny, 54.0, 0.0, like=x.t)))


def _pow_careful(b: Builder, y: Val, l_hi: Val, l_lo: Val) -> Val:
    """e**(y l), which may over- and underflow."""
    p, p_low = two_prod(b, y, l_hi)
    p_low = b.fma(y, l_lo, p_low)
    fits = b.fabs(p) < 800.0
    p_low = b.select(fits, p_low, 0.0)
    q = clamp(b, p, -746.0, 710.0)
    r, k = exp_parts(b, q, b.select(q.eq(p), p_low, 0.0))
    return scale_by(b, nothing_below(b, -745.5, p, r + 1.0), k)


def _pow_quick(b: Builder, y: Val, l_hi: Val, l_lo: Val) -> Val:
    """The same where |y l| is below 700: the result is normal."""
    p, p_low = two_prod(b, y, l_hi)
    r, k = exp_parts(b, p, b.fma(y, l_lo, p_low))
    return b.bitcast(b.bitcast(r + 1.0, "i64") + (k << 52), "double")


def pow_(b: Builder, x: Val, y: Val) -> Val:
    """Vectors of ordinary numbers with ordinary powers go without what others need."""
    odd = ~((x >= SHAPES["double"].least) & (x < INF))
    a = b.fabs(x)

    def raised() -> list[Val]:
        tiny = a < SHAPES["double"].least
        inside = b.select((a > 0.0) & (a < INF), b.select(tiny, a * 2.0**54, a), 1.0)
        return [inside, b.select(tiny, 54.0, 0.0, like=x.t)]

    base, less = b.if_else(b.any_lane(odd), raised, lambda: [x, b.lit(0.0, x.t)])
    log = log_double(b, base, less)
    careful = b.any_lane(odd | ~(b.fabs(y * log[0]) < 700.0))
    special = lambda: [pow_specials(b, x, y, a, _pow_careful(b, y, *log))]
    return b.if_else(careful, special, lambda: [_pow_quick(b, y, *log)])[0]


def pow_specials(b: Builder, x: Val, y: Val, a: Val, value: Val) -> Val:
    """C's pow: zeros, infinities, negative bases, 1 ** NaN and NaN ** 0."""
    whole = rint(b, y).eq(y) | b.fabs(y).eq(INF)
    half = y * 0.5
    odd = rint(b, y).eq(y) & rint(b, half).ne(half)
    grows = b.select(a > 1.0, y > 0.0, y < 0.0)
    limit = b.select(grows, INF, 0.0, like=x.t)
    edge = a.eq(0.0) | a.eq(INF) | b.fabs(y).eq(INF)
    value = b.select(edge, b.select(a.eq(1.0), 1.0, limit, like=x.t), value)
    negative = b.bitcast(x, SHAPES[x.t].i) < 0
    value = b.select(negative & odd, -value, value)
    value = b.select((x < 0.0) & ~whole & a.ne(INF), NAN, value, like=x.t)
    value = b.select(x.is_nan() | y.is_nan(), NAN, value, like=x.t)
    return b.select(y.eq(0.0) | x.eq(1.0), 1.0, value, like=x.t)


def cbrt(b: Builder, x: Val) -> Val:
    """The reciprocal cube root without a division; the root from it by a Newton step whose cube is
    exact."""
    a = b.fabs(x)
    tiny, huge = a < 2.0**-1000, a > 2.0**1000
    a = b.select(tiny, a * 2.0**54, b.select(huge, a * 2.0**-54, a))
    high = b.cast("trunc", b.bitcast(a, "i64") >> 32, "i32")
    third = b.cast("fptosi", b.cast("sitofp", high, "double") * (1.0 / 3.0), "i32")
    about = b.lit(_CBRT_START, "i32") - third
    r = b.bitcast(b.cast("zext", about, "i64") << 32, "double")  # within a few hundredths
    for _ in range(2):
        r = nearer_root(b, a, r)
    square = r * r
    t = a * square
    p, p_low = two_prod(b, t, t)
    q, q_low = two_prod(b, p, t)
    left = ((a - q) - q_low) - p_low * t
    t = b.fma(left, square * (1.0 / 3.0), t)
    t = b.select(tiny, t * 2.0**-18, b.select(huge, t * 2.0**18, t))
    ordinary = (a > 0.0) & (a < INF)
    return b.select(ordinary, b.copysign(t, x), x)


_CBRT_START = round(4 / 3 * (1023 - 0.0503) * 2**20)


def nearer_root(b: Builder, a: Val, r: Val) -> Val:
    """A better reciprocal cube root of a than r: with e = 1 - a r**3 the root is
    r (1 - e)**(-1/3); what is left is a sixth of e**3."""
    e = b.fma(-(a * r), r * r, 1.0)
    return b.fma(r * e, b.fma(e, 2.0 / 9.0, 1.0 / 3.0), r)


# ---- rounding, remainder


def rint(b: Builder, x: Val) -> Val:
    """To the nearest integer, ties to even."""
    if b.target.rounding:
        return b.call("rint", x)
    big = 2.0 ** SHAPES[x.t].mantissa
    a = b.fabs(x)
    return b.select(a < big, b.copysign((a + big) - big, x), x)


def trunc(b: Builder, x: Val) -> Val:
    if b.target.rounding:
        return b.call("trunc", x)
    a = b.fabs(x)
    r = rint(b, a)
    return b.copysign(b.select(r > a, r - 1.0, r), x)


def floor(b: Builder, x: Val) -> Val:
    if b.target.rounding:
        return b.call("floor", x)
    r = rint(b, x)
    return b.copysign(b.select(r > x, r - 1.0, r), x)


def ceil(b: Builder, x: Val) -> Val:
    if b.target.rounding:
        return b.call("ceil", x)
    r = rint(b, x)
    return b.copysign(b.select(r < x, r + 1.0, r), x)


def round_away(b: Builder, x: Val) -> Val:
    """To the nearest integer, ties away from zero."""
    t = trunc(b, x)
    return b.select(b.fabs(x - t) >= 0.5, t + b.copysign(1.0, x), t)


def rem(b: Builder, x: Val, y: Val) -> Val:
    """C's fmod, exactly: at once where no lane's quotient is large."""
    if b.brief or not b.target.fma:
        return _rem_in_pieces(b, x, y)
    s = SHAPES[x.t]
    a, d = b.fabs(x), b.fabs(y)
    inverse = 1.0 / d if b.stays(y) else None  # of a loop's steps, once before them
    quotient = a / d if inverse is None else a * inverse
    # Reciprocals of huge divisors are denormal.
    large = ~((quotient < 2.0**21) & (d < 2.0 ** (s.bias - 3)))

    def at_once() -> list[Val]:
        """The nearest integer to a quotient that is off by a quarter at most: what is left is a
        multiple of the divisor's last place, or the dividend's, and no larger than three quarters
        of the divisor, so that the product and both sums are exact."""
        about = quotient + s.magic if inverse is None else b.fma(a, inverse, s.magic)
        left = b.fma(-(about - s.magic), d, a)
        return [b.copysign(b.select(left < 0.0, left + d, left), x)]

    return b.if_else(b.any_lane(large), lambda: [_rem_in_pieces(b, x, y)], at_once)[0]


def _rem_in_pieces(b: Builder, x: Val, y: Val) -> Val:
    """The same by pieces of the quotient below 2**22 (f32: in f64, 2**26), largest first."""
    if x.t == "float":
        exact = _rem_in_pieces(b, b.cast("fpext", x, "double"), b.cast("fpext", y, "double"))
        return b.cast("fptrunc", exact, "float")
    a, d = b.fabs(x), b.fabs(y)
    fine = (a < INF) & (d > 0.0)
    tiny = d < 2.0**-960  # lift both, so that the steps below stay normal
    liftable = tiny & (a < 2.0**-800)
    a1 = b.select(liftable, a * 2.0**120, a)
    d1 = b.select(liftable, d * 2.0**120, d)
    width = max(a1.n, d1.n)
    count = max(len(a1.regs), len(d1.regs))

    def wide(v: Val) -> Val:
        regs = b.spread(v, width)
        return Val(b, v.t, width, tuple(regs[k % len(regs)] for k in range(count)))

    divisor = wide(b.select(fine & (d < INF), d1, INF, like=x.t))
    start = wide(b.select(fine, a1, 0.0, like=x.t))

    def more(c: list[Val]) -> Val:
        return b.any_lane(c[0] >= divisor)

    def step(c: list[Val]) -> list[Val]:
        r = c[0]
        gap = _exponent(b, r) - _exponent(b, divisor)
        lift = b.select(gap > 22, gap - 22, 0, like="i64")
        half = lift >> 1
        t = divisor * pow2(b, half, SHAPES["double"]) * pow2(b, lift - half, SHAPES["double"])
        q = trunc(b, r / t)
        p, low = two_prod(b, q, t)
        left = (r - p) - low
        left = b.select(left < 0.0, left + t, left)
        left = b.select(left >= t, left - t, left)
        return [b.select(r >= divisor, left, r)]

    r = b.while_loop([start], more, step)[0]
    r = b.select(liftable, r * 2.0**-120, r)
    r = b.copysign(r, x)
    return b.select(fine & ~y.is_nan() & ~x.is_nan(), b.select(d.eq(INF), x, r), NAN, like=x.t)


def _exponent(b: Builder, x: Val) -> Val:
    return b.bitcast(x, "i64") >> 52


# ---- trigonometry


_BIG = 2.0**19
_A = _split(K.PIO2[0], 33)
_B = _split((K.PIO2[0] - _A) + K.PIO2[1], 33)
_C = ((K.PIO2[0] - _A) - _B) + K.PIO2[1]
_LARGE = 2.0**12  # of floats: up to here the quadrant is found in floats
_PIO2_FLOATS = _floats_of(K.PIO2[:2], 3)


def _reduce(b: Builder, x: Val, count: int = 3) -> list[Val]:
    """Quadrant, high and low of a double modulo pi/2, or the first `count` of them."""
    n, q = nearest(b, x, 2.0 / 3.141592653589793)
    if b.target.fma:
        r0 = b.fma(-n, K.PIO2[0], x)
        hi = b.fma(-n, K.PIO2[1], r0)
        low = [b.fma(-n, K.PIO2[2], b.fma(-n, K.PIO2[1], r0 - hi))] if count == 3 else []
    else:
        r0 = x - n * _A
        w = n * _B
        r1 = r0 - w
        v = n * _C - ((r0 - r1) - w)
        hi = r1 - v
        low = [(r1 - hi) - v] if count == 3 else []
    quick = [q, hi, *low]
    big = (b.fabs(x) > _BIG) & (b.fabs(x) < INF)

    def slow() -> list[Val]:
        if _is_number(x):
            return _rem_pio2(b, x, count)
        got = one_by_one(b, lambda v: _rem_pio2(b, v, count), b.select(big, x, 1.0e9))
        return [b.select(big, g, f) for g, f in zip(got, quick, strict=True)]

    return b.if_else(b.any_lane(big), slow, lambda: quick)


def _rem_pio2(b: Builder, x: Val, count: int) -> list[Val]:
    """The same of one number, by the table's function."""
    pair = b.alloca(16, 16)
    f_table = b.load("ptr", b.gep(Val(b, "ptr", 1, ("%ctx",)), TABLE))
    f = b.load("ptr", b.gep(f_table, function_offset("rem_pio2")))
    q = b.impure(f"call i64 {f.regs[0]}(double {x.regs[0]}, ptr {pair.regs[0]})", "i64")
    return [q, *(b.load("double", b.gep(pair, 8 * k)) for k in range(count - 1))]


def _is_number(x: Val) -> bool:
    return x.n == len(x.regs) == 1


def one_by_one(b: Builder, f: Callable[[Val], list[Val]], x: Val) -> list[Val]:
    """A function's results, each lane of `x` by itself, through memory."""
    n, width = x.n, len(x.regs)

    def row(t: str) -> Val:
        return b.alloca(BITS[t] // 8 * n * width)

    def places(t: str, row: Val) -> list[str]:
        """Where the registers' lanes lie."""
        size = BITS[t] // 8 * n
        return [f"ptr {b.gep(row, k * size).regs[0]}, align {BITS[t] // 8}" for k in range(width)]

    given, made = row(x.t), []
    for reg, place in zip(x.regs, places(x.t, given), strict=True):
        b.line(f"store {b.ty(x.t, n)} {reg}, {place}")

    def lane(i: Val, _: list[Val]) -> list[Val]:
        for v in f(b.load(x.t, b.gep(given, i, BITS[x.t] // 8))):
            made.append((v.t, row(v.t)))
            b.store(v, b.gep(made[-1][1], i, BITS[v.t] // 8))
        return []

    b.loop(0, n * width, 1, [], lane)
    return [
        Val(b, t, n, tuple(b.impure_reg(f"load {b.ty(t, n)}, {at}") for at in places(t, row)))
        for t, row in made
    ]


def _reduce_float(b: Builder, x: Val) -> tuple[Val, Val]:
    """(quadrant, argument) of a float modulo pi/2: in floats where it is not large and the machine
    fuses. The first difference is exact then, so one rounding is left, as of a double's."""

    def in_doubles(x: Val) -> list[Val]:
        q, hi = _reduce(b, b.cast("fpext", x, "double"), 2)
        return [b.cast("trunc", q, "i32"), b.cast("fptrunc", hi, "float")]

    if not b.target.fma:
        q, r = in_doubles(x)
        return q, r
    n, q = nearest(b, x, 2.0 / 3.141592653589793)
    r = x
    for part in _PIO2_FLOATS:
        r = b.fma(-n, part, r)
    large = b.fabs(x) > _LARGE

    def careful() -> list[Val]:
        # Doubles in the lanes of floats are the largest part of what LLVM has to do for a sine.
        alone = b.brief and not _is_number(x)
        wide = one_by_one(b, in_doubles, x) if alone else in_doubles(x)
        return [b.select(large, d, f) for d, f in zip(wide, (q, r), strict=True)]

    outs = b.if_else(b.any_lane(large), careful, lambda: [q, r])
    return outs[0], outs[1]


def _sin_cos_pieces(b: Builder, x: Val) -> tuple[Val, Val, Val]:
    """(quadrant as an integer of x's width, sine, cosine) of the reduced argument."""
    if x.t == "float":
        q, r = _reduce_float(b, x)
        z = r * r
        sine = b.fma(r * z, polynomial(b, z, K.SIN_F32), r)
        cosine = b.fma(z * z, polynomial(b, z, K.COS_F32), b.fma(z, -0.5, 1.0))
        return q, sine, cosine
    q, hi, lo = _reduce(b, x)
    return (q, *_sin_cos_double(b, hi, lo))


def _sin_cos_double(b: Builder, hi: Val, lo: Val) -> tuple[Val, Val]:
    z = hi * hi
    sine = hi + b.fma(hi * z, polynomial(b, z, K.SIN_F64), lo * b.fma(z, -0.5, 1.0))
    h = z * 0.5
    w = 1.0 - h
    cosine = w + (((1.0 - w) - h) + b.fma(z * z, polynomial(b, z, K.COS_F64), -(hi * lo)))
    return sine, cosine


def _turn(b: Builder, q: Val, sine: Val, cosine: Val) -> Val:
    """sin(q pi/2 + r)."""
    s = SHAPES[sine.t]
    value = b.select((q & 1).ne(0), cosine, sine)
    flip = (q & 2) << (s.bits - 2)
    return b.bitcast(b.bitcast(value, s.i) ^ flip, s.t)


def sin(b: Builder, x: Val) -> Val:
    q, s, c = _sin_cos_pieces(b, x)
    return b.select(x.eq(0.0), x, _turn(b, q, s, c))


def cos(b: Builder, x: Val) -> Val:
    q, s, c = _sin_cos_pieces(b, x)
    return _turn(b, q + 1, s, c)


def tan(b: Builder, x: Val) -> Val:
    q, s, c = _sin_cos_pieces(b, x)
    odd = (q & 1).ne(0)
    value = b.select(odd, -c, s) / b.select(odd, s, c)
    return b.select(x.eq(0.0), x, value)


def _asin_core(b: Builder, x: Val) -> Val:
    z = x * x
    return b.fma(x * z, polynomial(b, z, table("ASIN", x)), x)


def asin(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    far = a > 0.5
    y = b.select(far, b.sqrt((1.0 - a) * 0.5), a)
    core = _asin_core(b, y)
    value = b.select(far, (K.PIO2[1] - 2.0 * core) + K.PIO2[0], core)
    return b.copysign(value, x)


def acos(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    far = a > 0.5
    y = b.select(far, b.sqrt((1.0 - a) * 0.5), x)
    core = _asin_core(b, y)
    twice = core * 2.0
    away = b.select(x < 0.0, (2.0 * K.PIO2[0] - twice) + 2.0 * K.PIO2[1], twice)
    return b.select(far, away, K.PIO2[0] - (core - K.PIO2[1]))


def atan2(b: Builder, y: Val, x: Val) -> Val:
    """atan of the smaller over the larger, past tan(pi/8) turned by pi/4, then put in its
    octant.
    """
    ay, ax = b.fabs(y), b.fabs(x)
    swap = ay > ax
    big, small = b.select(swap, ay, ax), b.select(swap, ax, ay)
    both_inf = small.eq(INF)
    huge = big > 2.0 ** (SHAPES[x.t].bias - 3)
    factor = b.select(huge, 0.125, 1.0, like=x.t)
    big, small = b.select(both_inf, 1.0, big * factor), b.select(both_inf, 1.0, small * factor)
    far = small > big * 0.4142135623730951
    num = b.select(far, small - big, small)
    den = b.select(far, small + big, big)
    t = num / b.select(den.eq(0.0), 1.0, den)
    t = b.select(big.eq(INF), 0.0, t)
    z = t * t
    core = b.fma(t * z, polynomial(b, z, table("ATAN", x)), t)
    quarter = b.select(far, K.PIO2[0] * 0.5, 0.0, like=x.t)
    angle = quarter + b.select(far, core + K.PIO2[1] * 0.5, core)
    angle = b.select(swap, (K.PIO2[0] - angle) + K.PIO2[1], angle)
    left = b.bitcast(x, SHAPES[x.t].i) < 0
    angle = b.select(left, (2.0 * K.PIO2[0] - angle) + 2.0 * K.PIO2[1], angle)
    return b.select(x.is_nan() | y.is_nan(), NAN, b.copysign(angle, y), like=x.t)


def atan(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    over, middle = a > 2.414213562373095, a > 0.4142135623730951
    num = b.select(over, -1.0, b.select(middle, a - 1.0, a), like=x.t)
    den = b.select(over, a, b.select(middle, a + 1.0, 1.0, like=x.t))
    t = num / den
    t = b.select(a.eq(INF), 0.0, t)
    z = t * t
    core = b.fma(t * z, polynomial(b, z, table("ATAN", x)), t)
    base = b.select(over, K.PIO2[0], b.select(middle, K.PIO2[0] * 0.5, 0.0, like=x.t), like=x.t)
    low = b.select(over, K.PIO2[1], b.select(middle, K.PIO2[1] * 0.5, 0.0, like=x.t), like=x.t)
    return b.copysign(base + (core + low), x)


# ---- hyperbolics


def tanh(b: Builder, x: Val) -> Val:
    """float32: f / (f + 2) with f = e**2a - 1 for a = |x|, as 2**k (e**r - 1) + (2**k - 1): the
    second term is exact, f loses no digits near zero, and half the work does. float64: a series
    near zero, where that formula would round three times."""
    a = b.fabs(x)
    if x.t == "float":
        p, k = exp_parts(b, b.select(a > 22.0, 22.0, a, like=x.t) * 2.0)
        scale = pow2(b, k, SHAPES[x.t])
        f = b.fma(p, scale, scale - 1.0)
        return b.copysign(f / (f + 2.0), x)
    z = x * x
    near = b.fma(x * z, polynomial(b, z, table("TANH", x)), x)

    def beyond() -> list[Val]:
        e = exp(b, clamp(b, a, 0.0, 22.0) * 2.0)
        return [b.select(a < 0.625, near, b.copysign(1.0 - 2.0 / (e + 1.0), x))]

    value = b.if_else(b.any_lane(~(a < 0.625)), beyond, lambda: [near])[0]
    return b.select(x.eq(0.0), x, value)


def _half_exp(b: Builder, a: Val) -> Val:
    """e**a / 2 for a >= 0, without overflow before the result overflows."""
    p, k = exp_parts(b, clamp(b, a, 0.0, _EXP_RANGE[a.t][1] + 1.0))
    return scale_by(b, p + 1.0, k - 1)


def sinh(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    z = x * x
    near = b.fma(x * z, polynomial(b, z, table("SINH", x)), x)
    h = _half_exp(b, a)
    far = b.copysign(h - 0.25 / h, x)
    return b.select(a < 1.0, near, far)


def cosh(b: Builder, x: Val) -> Val:
    h = _half_exp(b, b.fabs(x))
    return h + 0.25 / h


def _asinh(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    z = a * a
    near = b.fma(x * z, polynomial(b, z, K.ASINH_F64), x)
    huge = a > 2.0**28
    inner = a + z / (b.sqrt(z + 1.0) + 1.0)
    far = log1p(b, b.select(huge, a - 1.0, inner)) + b.select(huge, K.LN2[0], 0.0, like=x.t)
    return b.select(x.eq(0.0), x, b.select(a < 0.5, near, b.copysign(far, x)))


def _acosh(b: Builder, x: Val) -> Val:
    t = x - 1.0
    huge = x > 2.0**28
    inner = t + b.sqrt(t * 2.0 + t * t)
    value = log1p(b, b.select(huge, x - 1.0, inner)) + b.select(huge, K.LN2[0], 0.0, like=x.t)
    return b.select(x < 1.0, NAN, value, like=x.t)


def _atanh(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    value = log1p(b, a * 2.0 / (1.0 - a)) * 0.5
    value = b.select(a < 1.0, value, b.select(a.eq(1.0), INF, NAN, like=x.t), like=x.t)
    return b.select(x.eq(0.0), x, b.copysign(value, x))


def sqrt(b: Builder, x: Val) -> Val:
    return b.sqrt(x)


def rsqrt(b: Builder, x: Val) -> Val:
    return 1.0 / b.sqrt(x)


FUNCTIONS: dict[str, Callable[..., Val]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "logistic": logistic,
    "pow": pow_,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "cbrt": cbrt,
    "sin": sin,
    "cos": cos,
    "tan": widened(tan),
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "atan2": atan2,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "rem": rem,
}
