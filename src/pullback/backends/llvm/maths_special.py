"""Error functions, gamma functions and Bessel functions as vector IR, and the table of all
elementary functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.backends.llvm import coefficients as K, maths, maths_float
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.maths import (
    INF,
    NAN,
    exp_parts,
    horner,
    log,
    rint,
    scale_by,
    table,
    two_prod,
    widened,
)

__all__ = ["FUNCTIONS", "emit"]

PI = 3.141592653589793
HALF_LOG_2PI = 0.9189385332046728


def _exp_minus_square(b: Builder, a: Val) -> Val:
    """exp(-a^2), with the square's rounding error put into the exponent."""
    p, low = two_prod(b, a, a)
    r, k = exp_parts(b, -p)
    return scale_by(b, b.fma(r + 1.0, -low, r) + 1.0, k)


def _erfc_positive(b: Builder, a: Val) -> Val:
    """erfc on [0, inf): exp(-a^2) / (1 + 2a) times a polynomial in (a - 4) / (a + 4)."""
    a = b.select(
        a > (10.25 if a.t == "float" else 27.3), 10.25 if a.t == "float" else 27.3, a, like=a.t
    )
    t = (a - 4.0) / (a + 4.0)
    return _exp_minus_square(b, a) * (horner(b, t, table("ERFC", a)) / b.fma(a, 2.0, 1.0))


def _erf_near(b: Builder, x: Val) -> Val:
    z = x * x
    return b.fma(x, horner(b, z, table("ERF", x)), x)


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


def erf(b: Builder, x: Val) -> Val:
    if x.t == "float":
        return _erf_f32(b, x)
    a = b.fabs(x)
    far = b.copysign(1.0 - _erfc_positive(b, a), x)
    return b.select(a < 1.0, _erf_near(b, x), far)


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
        horner(b, w - 3.0, table("ERFINV_A", x)),
        horner(b, s - 3.25, table("ERFINV_B", x)),
    )
    ratio = b.select(w < 16.5, ratio, horner(b, s - 5.0, K.ERFINV_C_F64))
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
    below 0.
    """
    a = b.fabs(x)
    large, small = a >= 8.0, a < 1.0
    y = b.select(large, 1.5, b.select(small, a + 1.0, a), like=x.t)
    product: Val = b.lit(1.0, x.t)
    for _ in range(6):
        more = y > 2.5
        y = b.select(more, y - 1.0, y)
        product = b.select(more, product * y, product)
    l = log(b, b.select(large | small, a, product))
    near = (y - 1.0) * (y - 2.0) * horner(b, y - 1.75, K.LGAMMA_F64)
    near = b.select(small, near - l, near + l)
    u = 1.0 / b.select(large, a, 8.0)
    far = b.fma(a - 0.5, l - 1.0, horner(b, u * u, _STIRLING) * u + (HALF_LOG_2PI - 0.5))
    value = b.select(large, b.select(a > 1.0e306, a * (l - 1.0), far), near)
    sine, _ = _sin_cos_pi(b, a)
    whole = rint(b, a).eq(a)
    reflected = log(b, PI / (a * b.fabs(sine))) - value
    tiny = a < 1.0e-300
    reflected = b.select(tiny, value, reflected)
    value = b.select(x < 0.0, b.select(whole, INF, reflected, like=x.t), value)
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
    near = from_root * horner(b, y - 1.5, K.DIGAMMA_F64) + num / den
    u = 1.0 / b.select(large, a, 10.0)
    far = log(b, a) - b.fma(u * u, horner(b, u * u, _DIGAMMA), u * 0.5)
    value = b.select(large, far, near)
    sine, cosine = _sin_cos_pi(b, x)
    reflected = value - PI * cosine / sine
    pole = negative & rint(b, x).eq(x)
    return b.select(pole | x.eq(0.0), NAN, b.select(negative, reflected, value), like=x.t)


def _bessel(b: Builder, x: Val, order: int) -> Val:
    """exp(-|x|) I_n(x)."""
    a = b.fabs(x)
    near = horner(b, a * 0.25 - 1.0, K.I1_SMALL_F64 if order else K.I0_SMALL_F64)
    if order:
        near = near * a
    large = b.select(a > 8.0, a, 8.0)
    u = 1.0 / large
    far = horner(b, u, K.I1_LARGE_F64 if order else K.I0_LARGE_F64) * b.sqrt(u)
    value = b.select(a > 8.0, far, near)
    value = b.select(x.is_nan(), NAN, value, like=x.t)
    return b.copysign(value, x) if order else value


FUNCTIONS: dict[str, Callable[..., Val]] = {
    **maths.FUNCTIONS,
    "erf": erf,
    "erfc": erfc,
    "erf_inv": erf_inv,
    "lgamma": widened(_lgamma),
    "digamma": widened(_digamma),
    "bessel_i0e": widened(lambda b, x: _bessel(b, x, 0)),
    "bessel_i1e": widened(lambda b, x: _bessel(b, x, 1)),
}


def emit(b: Builder, op: str, args: Sequence[Val]) -> Val:
    """A function by its operator name."""
    if args[0].t == "float" and op in maths_float.FUNCTIONS:
        return maths_float.FUNCTIONS[op](b, *args)
    return FUNCTIONS[op](b, *args)
