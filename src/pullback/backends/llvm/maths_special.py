"""Error functions, gamma functions and Bessel functions as vector IR, and the table of all
elementary functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.backends.llvm import coefficients as K, maths, maths_float, maths_xla
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.maths import (
    EXP_ZERO,
    INF,
    NAN,
    SHAPES,
    exp_parts,
    horner,
    log,
    nothing_below,
    polynomial,
    rint,
    scale_by,
    table,
    two_prod,
    widened,
)
from pullback.backends.llvm.pieces import ERFC_PIECES, ERFC_WIDTH
from pullback.backends.llvm.small_tables import look_up

__all__ = ["FUNCTIONS", "emit"]

PI = 3.141592653589793
HALF_LOG_2PI = 0.9189385332046728


def _exp_minus_square(b: Builder, a: Val) -> Val:
    """exp(-a^2), with the square's rounding error put into the exponent."""
    p, low = two_prod(b, a, a)
    r, k = exp_parts(b, -p)
    value = b.fma(r + 1.0, -low, r) + 1.0
    return scale_by(b, nothing_below(b, EXP_ZERO[a.t] - 0.1, -p, value), k)


def _erfc_positive(b: Builder, a: Val) -> Val:
    """erfc on [0, inf): exp(-a^2) / (1 + 2a) times a polynomial in (a - 4) / (a + 4)."""
    a = b.select(
        a > (10.25 if a.t == "float" else 27.3), 10.25 if a.t == "float" else 27.3, a, like=a.t
    )
    t = (a - 4.0) / (a + 4.0)
    return _exp_minus_square(b, a) * (polynomial(b, t, table("ERFC", a)) / b.fma(a, 2.0, 1.0))


def _erf_near(b: Builder, x: Val) -> Val:
    z = x * x
    return b.fma(x, polynomial(b, z, table("ERF", x)), x)


# A rational function in x^2, as Eigen and XLA have it; +-1 from 3.8325 on. Within 5 ulp, and what
# truncated normal numbers and JAX's gelu are made of, to the bit.
_ERF_P = (
    1.128379143519084, 0.18520832239976145, 0.050955695062380861, 0.0034082910107109506,
    0.00022905065861350646,
)  # fmt: skip
_ERF_Q = (
    1.0, 0.49746925110067538, 0.11098505178285362, 0.014070470171167667, 0.0010179625278914885,
    0.000023547966471313185, -1.1791602954361697e-7,
)  # fmt: skip
_ERF_ONE = 3.832506856900711848


def _erf_f32(b: Builder, x: Val) -> Val:
    near = maths.clamp(b, x, -_ERF_ONE, _ERF_ONE)
    z = near * near
    return near * horner(b, z, _ERF_P) / horner(b, z, _ERF_Q)


def _erf_far(b: Builder, a: Val) -> Val:
    """erf of doubles from 1 on, as 1 less a polynomial of the piece that they are in: no
    exponential and no division, for which a loop that carries a number would wait."""
    inside = b.select(a > _ERF_LAST, _ERF_LAST, a)
    raised = b.fma(inside, 1.0 / ERFC_WIDTH, SHAPES["double"].magic)
    k = b.bitcast(raised, "i64")
    left = b.fma(raised - SHAPES["double"].magic, -ERFC_WIDTH, inside)
    return 1.0 - polynomial(b, left, look_up(b, "erfc_pieces", ERFC_PIECES, k))


_ERF_LAST = 6.0  # erf is 1 from 5.9 on


def erf(b: Builder, x: Val) -> Val:
    if x.t == "float":
        return _erf_f32(b, x)
    a, near = b.fabs(x), _erf_near(b, x)

    def beyond() -> list[Val]:
        return [b.select(a < 1.0, near, b.copysign(_erf_far(b, a), x))]

    return b.if_else(b.any_lane(~(a < 1.0)), beyond, lambda: [near])[0]


def erfc(b: Builder, x: Val) -> Val:
    a = b.fabs(x)
    r = _erfc_positive(b, a)
    far = b.select(x < 0.0, 2.0 - r, r)
    return b.select(a < 0.5, 1.0 - _erf_near(b, x), far)


# Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2011), single precision.
_ERFINV_CENTRE = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
    -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_ERFINV_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
    0.00134934322, 0.000100950558, -0.000200214257,
)  # fmt: skip


_ERFINV_CENTRAL = 0.993  # of x^2: w is 4.962 there, and its rounding leaves it below 5


def _erf_inv_f32(b: Builder, x: Val) -> Val:
    """Giles's polynomials in w = -log(1 - x^2), x^2 rounded: what JAX's normal numbers are made
    of, to the bit. Within 3 ulp of erf_inv of the number whose square is the rounded one.

    Seven uniform numbers in two thousand are in the tails, and so are one, NaN and what is beyond:
    vectors without them go without the root and the second polynomial.
    """
    t = x * x
    inside = maths.log1p_inside(b, -t)

    def central(w: Val) -> Val:
        return horner(b, w - 2.5, _ERFINV_CENTRE)

    def anywhere() -> list[Val]:
        w = -maths.log1p_anywhere(b, -t, inside)
        s = b.sqrt(b.select(w < 1.0, 1.0, w, like=x.t))
        ratio = b.select(w < 5.0, central(w), horner(b, s - 3.0, _ERFINV_TAIL))
        return [b.select(b.fabs(x).eq(1.0), b.copysign(INF, x), ratio * x)]

    outside = b.any_lane(~(t < _ERFINV_CENTRAL))
    return b.if_else(outside, anywhere, lambda: [central(-inside) * x])[0]


def erf_inv(b: Builder, x: Val) -> Val:
    """x times a polynomial in w = -log(1 - x^2), in the tails in sqrt(w)."""
    if x.t == "float":
        return _erf_inv_f32(b, x)
    a = b.fabs(x)
    w = -log(b, (1.0 - a) * (1.0 + a))
    s = b.sqrt(b.select(w < 1.0, 1.0, w, like=x.t))
    ratio = b.select(
        w < 6.25,
        polynomial(b, w - 3.0, table("ERFINV_A", x)),
        polynomial(b, s - 3.25, table("ERFINV_B", x)),
    )
    ratio = b.select(w < 16.5, ratio, polynomial(b, s - 5.0, K.ERFINV_C_F64))
    return b.select(a.eq(1.0), b.copysign(INF, x), ratio * x)


# Stirling's series: B_2k / (2k (2k - 1)) over odd powers of 1/x; and B_2k / 2k for digamma.
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
    43867 / 244188,
    -174611 / 125400,
)
_DIGAMMA = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364,
    -174611 / 6600,
)  # fmt: skip


def _sin_cos_pi(b: Builder, x: Val) -> tuple[Val, Val]:
    """(sin, cos) of pi times the distance from the nearest integer, without the sign that the
    integer gives."""
    f = x - rint(b, x)
    return maths.sin(b, f * PI), maths.cos(b, f * PI)


def _lgamma(b: Builder, x: Val) -> Val:
    """log |gamma|: Stirling's series from 8, the recurrence down to [1, 2.5], reflection
    below 0; of these, vectors go without what none of their numbers needs."""
    a = b.fabs(x)
    large, small = a >= 8.0, a < 1.0
    y = b.select(large, 1.5, b.select(small, a + 1.0, a), like=x.t)
    product: Val = b.lit(1.0, x.t)
    for _ in range(6):
        more = y > 2.5
        y = b.select(more, y - 1.0, y)
        product = b.select(more, product * y, product)
    l = log(b, b.select(large | small, a, product))
    near = (y - 1.0) * (y - 2.0) * polynomial(b, y - 1.75, K.LGAMMA_F64)
    near = b.select(small, near - l, near + l)

    def beyond() -> list[Val]:
        u = 1.0 / b.select(large, a, 8.0)
        series = polynomial(b, u * u, _STIRLING) * u + (HALF_LOG_2PI - 0.5)
        far = b.fma(a - 0.5, l - 1.0, series)
        return [b.select(large, b.select(a > 1.0e306, a * (l - 1.0), far), near)]

    value = b.if_else(b.any_lane(large), beyond, lambda: [near])[0]

    def reflected() -> list[Val]:
        sine, _ = _sin_cos_pi(b, a)
        mirrored = log(b, PI / (a * b.fabs(sine))) - value
        mirrored = b.select(a < 1.0e-300, value, mirrored)
        mirrored = b.select(rint(b, a).eq(a), INF, mirrored, like=x.t)
        return [b.select(x < 0.0, mirrored, value)]

    value = b.if_else(b.any_lane(x < 0.0), reflected, lambda: [value])[0]
    value = b.select(a.eq(0.0) | a.eq(INF), INF, value, like=x.t)
    return b.select(x.is_nan(), NAN, value, like=x.t)


def _digamma(b: Builder, x: Val) -> Val:
    """The asymptotic series from 10, else the recurrence to [1, 2], where it is (x - root) times a
    polynomial."""
    negative = x < 0.0
    a = b.select(negative, 1.0 - x, x)
    large, small = a >= 10.0, a < 1.0
    y = b.select(large, 1.5, b.select(small, a + 1.0, a), like=x.t)
    num, den = b.lit(0.0, x.t), b.lit(1.0, x.t)
    for _ in range(8):
        more = y > 2.0
        y = b.select(more, y - 1.0, y)
        num = b.select(more, b.fma(num, y, den), num)
        den = b.select(more, den * y, den)
    num = b.select(small, -1.0, num, like=x.t)
    den = b.select(small, a, den)
    from_root = (y - K.DIGAMMA_ROOT[0]) - K.DIGAMMA_ROOT[1]
    near = from_root * polynomial(b, y - 1.5, K.DIGAMMA_F64) + num / den

    def beyond() -> list[Val]:
        u = 1.0 / b.select(large, a, 10.0)
        far = log(b, a) - b.fma(u * u, polynomial(b, u * u, _DIGAMMA), u * 0.5)
        return [b.select(large, far, near)]

    value = b.if_else(b.any_lane(large), beyond, lambda: [near])[0]

    def reflected() -> list[Val]:
        sine, cosine = _sin_cos_pi(b, x)
        return [b.select(negative, value - PI * cosine / sine, value)]

    value = b.if_else(b.any_lane(negative), reflected, lambda: [value])[0]
    pole = negative & rint(b, x).eq(x)
    return b.select(pole | x.eq(0.0), NAN, value, like=x.t)


def _bessel(b: Builder, x: Val, order: int, kind: str) -> Val:
    """exp(-|x|) I_n(x), as exactly as a type needs it."""
    small, large = (getattr(K, f"I{order}_{part}_{kind}") for part in ("SMALL", "LARGE"))
    a = b.fabs(x)
    near = polynomial(b, b.select(a > 8.0, 0.0, a, like=x.t) * 0.25 - 1.0, small)
    if order:
        near = near * a

    def anywhere() -> list[Val]:
        u = 1.0 / b.select(a > 8.0, a, 8.0)
        return [b.select(a > 8.0, polynomial(b, u, large) * b.sqrt(u), near)]

    value = b.if_else(b.any_lane(a > 8.0), anywhere, lambda: [near])[0]
    value = b.select(x.is_nan(), NAN, value, like=x.t)
    return b.copysign(value, x) if order else value


def _bessel_of(order: int) -> Callable[..., Val]:
    """In f64 for f32 too, with as many terms as that needs."""
    rough = widened(lambda b, x: _bessel(b, x, order, "F32"))
    return lambda b, x: _bessel(b, x, order, "F64") if x.t == "double" else rough(b, x)


# ---- Hurwitz's zeta function, and the derivatives of digamma, which are made of it

# B_2k / (2k)!, the coefficients of the Euler-Maclaurin formula.
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)  # fmt: skip
_VANISHED = 500.0  # exponents from here on: what follows the first terms is zero

Power = Callable[[Builder, Val, Val], Val]


class _Series:
    """How a zeta function is summed: so many terms one by one, the rest by so many terms of the
    Euler-Maclaurin formula."""

    def __init__(self, power: Power, alone: int, formula: int) -> None:
        self.power, self.alone, self.formula = power, alone, formula

    def positive(self, b: Builder, x: Val, q: Val) -> Val:
        """The sum of (q + k)**-x over k = 0, 1, ..., for x > 1, q > 0."""
        zero, at = _as_wide(b, b.lit(0.0, x.t), x, q), _as_wide(b, q, x, q)

        def term(_: Val, so_far: list[Val]) -> list[Val]:
            a, total, _ = so_far
            now = self.power(b, a, -x)
            return [a + 1.0, total + now, now]

        a, total, last = b.loop(0, self.alone + 1, 1, [at, zero, zero], term)
        a, y = a - 1.0, b.select(x > _VANISHED, _VANISHED, x, like=x.t)
        inverse = 1.0 / a
        squared = inverse * inverse
        rest: Val = b.lit(_EULER_MACLAURIN[self.formula - 1], x.t)
        for k in range(self.formula - 1, 0, -1):
            factor = (y + float(2 * k - 1)) * (y + float(2 * k)) * squared
            rest = b.fma(rest, factor, _EULER_MACLAURIN[k - 1])
        return b.fma(last, b.fma(rest * y, inverse, a / (x - 1.0)) - 0.5, total)

    def anywhere(self, b: Builder, x: Val, q: Val) -> Val:
        """The same for q < 0 too, where x must be whole: the terms before q + k > 0 are, but for
        their sign, those of a sum that begins at 1 - q + floor(q), less those from 1 - q on."""
        below = q < 0.0
        first = self.positive(b, x, b.select(below, q - maths.floor(b, q), q))

        def reflected() -> list[Val]:
            near = b.select(below, maths.ceil(b, q) - q, 1.0, like=x.t)
            far = b.select(below, 1.0 - q, 1.0, like=x.t)

            def add(_: Val, so_far: list[Val]) -> list[Val]:
                q, sign, total = so_far
                return [far, -sign, b.fma(sign, self.positive(b, x, q), total)]

            sign = b.select(_is_odd(b, x), -1.0, 1.0, like=x.t)
            start = [_as_wide(b, v, x, q) for v in (near, sign, first)]
            return [b.select(below, b.loop(0, 2, 1, start, add)[2], first)]

        return b.if_else(b.any_lane(below), reflected, lambda: [first])[0]


def _as_wide(b: Builder, v: Val, *like: Val) -> Val:
    """A value in as many lanes as the widest of some others have."""
    width, count = max(x.n for x in like), max(len(x.regs) for x in like)
    regs = b.spread(v, width)
    return Val(b, v.t, width, tuple(regs[k % len(regs)] for k in range(count)))


def _is_odd(b: Builder, x: Val) -> Val:
    """Of whole numbers."""
    half = x * 0.5
    return rint(b, half).ne(half)


def _zeta(b: Builder, x: Val, q: Val, how: _Series) -> Val:
    whole = rint(b, x).eq(x)
    fine = (x > 1.0) & (x < INF) & (q > -INF) & (q < INF)
    pole = (q <= 0.0) & maths.floor(b, q).eq(q)
    usual = fine & ~pole & (whole | (q > 0.0))
    value = how.anywhere(b, b.select(usual, x, 2.0), b.select(usual, q, 1.0))
    value = b.select(usual, value, NAN, like=x.t)
    infinite = pole & (x >= 0.0) & (x < INF) & whole & ~_is_odd(b, x)
    return b.select(infinite | x.eq(1.0), INF, value, like=x.t)


_FACTORS = 10  # of a factorial, multiplied one by one


def _factorial(b: Builder, m: Val) -> Val:
    """m! of a whole number."""
    product, y = b.lit(1.0, m.t), m
    for _ in range(_FACTORS):
        more = y > 1.0
        product = b.select(more, product * y, product)
        y = b.select(more, y - 1.0, y)

    def rest() -> list[Val]:
        return [product * maths.exp(b, _lgamma(b, y + 1.0))]

    return b.if_else(b.any_lane(y > 1.0), rest, lambda: [product])[0]


def _polygamma(b: Builder, m: Val, x: Val, how: _Series) -> Val:
    """(-1)**(m + 1) m! zeta(m + 1, x) for whole m above 0, digamma(x) for m = 0."""
    if m.c is not None and m.c >= 1.0 and m.c == int(m.c) < _FACTORS:
        known = int(m.c)
        factor = float(math.factorial(known)) * (1 if known % 2 else -1)
        return _zeta(b, b.lit(known + 1.0, m.t), x, how) * factor
    whole = (m >= 0.0) & (m < INF) & rint(b, m).eq(m)
    order = b.select(whole, m, 1.0, like=m.t)
    value = _factorial(b, order) * _zeta(b, order + 1.0, x, how)
    value = b.select(_is_odd(b, order), value, -value)
    none = order.eq(0.0)
    value = b.if_else(
        b.any_lane(none), lambda: [b.select(none, _digamma(b, x), value)], lambda: [value]
    )[0]
    return b.select(whole, value, NAN, like=m.t)


def _as_double(b: Builder, x: Val) -> Val:
    return b.lit(x.c, "double") if x.c is not None else b.cast("fpext", x, "double")


def _summed(f: Callable[..., Val]) -> Callable[..., Val]:
    """A function of zeta sums in the precision that its type needs."""

    def both(b: Builder, x: Val, y: Val) -> Val:
        if x.t == "double":
            return f(b, x, y, _EXACT)
        wide = [_as_double(b, v) for v in (x, y)]
        return b.cast("fptrunc", f(b, *wide, _FLOAT), "float")

    return both


def _as_xla(f: Callable[..., Val], own: Callable[..., Val]) -> Callable[..., Val]:
    """XLA's function where the machine fuses. Elsewhere JAX's differ from its own on one that
    does, and ours is more accurate."""
    return lambda b, *xs: (f if b.target.fma else own)(b, *xs)


_EXACT = _Series(maths.pow_usual, 10, 12)
_FLOAT = _Series(maths_float.pow_wide, 6, 5)

FUNCTIONS: dict[str, Callable[..., Val]] = {
    **maths.FUNCTIONS,
    "erf": erf,
    "erfc": erfc,
    "erf_inv": erf_inv,
    "lgamma": widened(_lgamma),
    "digamma": widened(_digamma),
    "bessel_i0e": _bessel_of(0),
    "bessel_i1e": _bessel_of(1),
    "xla_erf": _as_xla(maths_xla.erf, erf),
    "xla_erf_inv": _as_xla(maths_xla.erf_inv, erf_inv),
    "xla_exp": _as_xla(maths_xla.exp, maths.exp),
    "xla_log": _as_xla(maths_xla.log, log),
    "xla_log1p": _as_xla(maths_xla.log1p, maths.log1p),
    "near_log1p": _as_xla(maths_xla.log1p_near, maths.log1p),
    "xla_pow": _as_xla(maths_xla.pow_, maths.pow_),
    "xla_rsqrt": _as_xla(maths_xla.rsqrt, maths.rsqrt),
    "zeta": _summed(_zeta),
    "polygamma": _summed(_polygamma),
}


TOGETHER = 4  # vectors that a function computes side by side: their numbers fit into registers
_OF_MANY = {"log1p": 2}  # functions that have two polynomials and a logarithm side by side


# Functions that are quicker of a number in two lanes than of the number alone: what they make of
# its bits stays in vector registers; the way to others and back takes as long as three operations.
_QUICKER_IN_LANES = frozenset(
    ("pow", "log", "cbrt", "tan", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
     "atanh", "lgamma", "digamma", "rem")
)  # fmt: skip
_LANES = 2


def emit(b: Builder, op: str, args: Sequence[Val]) -> Val:
    """A function by its operator name."""
    f = (maths_float.FUNCTIONS if args[0].t == "float" else FUNCTIONS).get(op) or FUNCTIONS[op]
    alone = all(a.n == len(a.regs) == 1 for a in args) and any(a.c is None for a in args)
    if alone and op in _QUICKER_IN_LANES and not b.brief:
        wide = f(b, *(b.splat(a, _LANES) for a in args))
        return Val(b, wide.t, 1, (b.extract(wide.regs[0], wide.t, _LANES, 0),))
    count, most = max(len(a.regs) for a in args), _OF_MANY.get(op, TOGETHER)
    if count <= most:
        return f(b, *args)

    def some(a: Val, k: int) -> Val:
        return a if len(a.regs) == 1 else Val(b, a.t, a.n, a.regs[k : k + most])

    parts = [f(b, *(some(a, k) for a in args)) for k in range(0, count, most)]
    return Val(b, parts[0].t, parts[0].n, tuple(r for part in parts for r in part.regs))
