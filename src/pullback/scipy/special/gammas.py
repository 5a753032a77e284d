"""The gamma and beta functions and their relatives."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...core.avals import typeof
from ...numpy.util import check_arraylike, promotes_freely, shown_as
from ...primitives.common import as_int
from ...primitives.convert import convert_weak
from .basic import horner, inexact, known, real, together


def gammaln(x: Any) -> Any:
    """log |Gamma(x)|.

    >>> pb.scipy.special.gammaln(1.)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = real("gammaln", x, error=TypeError)
    return lax.lgamma(x)


def loggamma(x: Any) -> Any:
    """log Gamma(x), NaN where that is not real: below 0 (and at 0). Of complex x the principal
    branch, which is continuous but for a cut along the negative axis.

    Integers are converted to float. As `scipy.special.loggamma`.

    >>> from pullback.scipy import special
    >>> special.loggamma(jnp.array([4., -0.5])).round(3)
    Array([1.792,   nan], dtype=float32)
    """
    (x,) = inexact("loggamma", x)
    if dtypes.is_complex(typeof(x).dtype):
        return _complex_loggamma(x)
    return jnp.where(x > 0, lax.lgamma(x), jnp.nan)


@jit
@shown_as("_complex_loggamma_scipy")
def _complex_loggamma(z: Any) -> Any:
    """In the upper half plane, and by symmetry in the lower one."""
    below = jnp.signbit(z.imag)
    z = jnp.where(below, jnp.conj(z), z)
    left = z.real < 0.5
    right = jnp.where(left, 1 - z, z)
    # Stirling's series needs a large argument: Gamma(z) = Gamma(z + n) / (z (z + 1) ...).
    shift = 10
    steps = sum(jnp.log(right + k) for k in range(shift))
    w = right + shift
    series = horner(_STIRLING, 1 / (w * w)) / w
    value = (w - 0.5) * jnp.log(w) - w + 0.5 * math.log(2 * math.pi) + series - steps
    # Gamma(z) Gamma(1 - z) = pi / sin(pi z), with the sine's logarithm continuous above the axis.
    sine = -1j * np.pi * z + (0.5j * np.pi - math.log(2)) + jnp.log(_one_less_turn(z))
    value = jnp.where(left, math.log(math.pi) - sine - value, value)
    value = jnp.where(below, jnp.conj(value), value)
    pole = (z.imag == 0) & (z.real <= 0) & (z.real == jnp.floor(z.real))
    return jnp.where(pole, complex(np.nan, np.nan), value)


def _one_less_turn(z: Any) -> Any:
    """1 - exp(2 pi i z), also where that is small: beside the integers."""
    angle = 2 * np.pi * (z.real - jnp.round(z.real))
    size = jnp.exp(-2 * np.pi * z.imag)
    rest = size * 2 * jnp.sin(angle / 2) ** 2 - jnp.expm1(-2 * np.pi * z.imag)
    return lax.complex(rest, -size * jnp.sin(angle))


@jit
def gammasgn(x: Any) -> Any:
    """The sign of Gamma(x): NaN at negative integers, that of x at zero.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.gammasgn`.

    >>> from pullback.scipy import special
    >>> special.gammasgn(jnp.array([2., -0.5]))
    Array([ 1., -1.], dtype=float32)
    """
    (x,) = real("gammasgn", x)
    floor = lax.floor(x)
    negative = x < 0
    pole = (negative & (x == floor)) | jnp.isnan(x)
    odd = (negative & (jnp.remainder(floor, 2) != 0)) | ((x == 0) & jnp.signbit(x))
    out = jnp.where(odd, lax.full_like(x, -1), lax.full_like(x, 1))
    out = jnp.where(pole, lax.full_like(x, np.nan), out)
    return lax.convert_element_type(out, typeof(x).dtype)


def gamma(x: Any) -> Any:
    """The gamma function, of complex arguments too.

    Integers are converted to float; the result has the shape of `x`. As `scipy.special.gamma`.

    >>> from pullback.scipy import special
    >>> special.gamma(jnp.array([0.5, 5.])).round(3)
    Array([ 1.772, 24.   ], dtype=float32)
    """
    (x,) = inexact("gamma", x)
    if dtypes.is_complex(typeof(x).dtype):
        return lax.exp(_complex_loggamma(x))
    return gammasgn(x) * lax.exp(lax.lgamma(x))


def digamma(x: Any) -> Any:
    """The derivative of gammaln.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.digamma`.

    >>> from pullback.scipy import special
    >>> special.digamma(jnp.array([1., 2.])).round(3)
    Array([-0.577,  0.423], dtype=float32)
    """
    (x,) = real("digamma", x, error=TypeError)
    return lax.digamma(x)


def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma.

    Raises ValueError unless n is integer.

    `x`: a real array; it broadcasts against `n`, the result is float. As `scipy.special.polygamma`,
    but NaN, as JAX's, at infinity and, where n is even, at the poles.

    >>> from pullback.scipy import special
    >>> special.polygamma(1, jnp.array([1., 2.])).round(3)
    Array([1.645, 0.645], dtype=float32)
    """
    check_arraylike("polygamma", n, x)
    if not dtypes.is_integer(typeof(jnp.asarray(n)).dtype):
        raise ValueError(
            "Argument `n` to polygamma must be of integer type. Got dtype "
            f"{typeof(jnp.asarray(n)).dtype.name}."
        )
    n, x = together("polygamma", *real("polygamma", n, x))
    even = jnp.remainder(n, 2) == 0
    lost = (even & (x <= 0) & (jnp.floor(x) == x)) | ((n > 0) & (x == np.inf))
    return jnp.where(lost, np.nan, lax.polygamma(n, x))


def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function, the sum of 1 / (k + q)^x; Riemann's for q None.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.zeta`.

    >>> from pullback.scipy import special
    >>> special.zeta(2., jnp.array([1., 2.])).round(3)
    Array([1.645, 0.645], dtype=float32)
    """
    if q is None:
        (x,) = real("zeta", x, error=TypeError)
        q = lax.full_like(x, 1)
    else:
        x, q = real("zeta", x, q, error=TypeError)
    return _zeta(*together("zeta", x, q))


def _zeta_value(x: Any, q: Any) -> Any:
    return lax.zeta(x, q)


_zeta_value.__name__ = "zeta"  # as programs name it
_zeta = custom_jvp(_zeta_value)


def _bernoulli_numbers(n: int) -> list[Fraction]:
    numbers = [Fraction(1)]
    for k in range(1, n + 1):
        numbers.append(
            -sum((math.comb(k + 1, j) * numbers[j] for j in range(k)), Fraction(0)) / (k + 1)
        )
    return numbers


_ZETA_TERMS = 10  # that are added one by one, before Euler and Maclaurin's formula for the rest
# B(2j) / (2j)! for j = 1, 2, ... 12
_MACLAURIN = [
    float(b / math.factorial(2 * j)) for j, b in enumerate(_bernoulli_numbers(24)[::2]) if j
]


def _zeta_slope(x: Any, q: Any) -> Any:
    """The derivative by x of the sum of (k + q)^-x, for x above 1 and positive q; else NaN."""
    wide = x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.float32)
    defined = (x > 1) & (q > 0) & (x < np.inf) & (q < np.inf)
    s, q = (jnp.where(defined, v, 2).astype(wide)[..., None] for v in (x, q))
    base = q + np.arange(_ZETA_TERMS, dtype=wide)
    first = -(jnp.log(base) * base**-s).sum(-1)
    a = q + np.array(_ZETA_TERMS, wide)
    # B(2j)/(2j)! s (s + 1) ... (s + 2j - 2) / a^(2j - 1): a product and the sum of its slopes.
    rising = s + np.arange(2 * len(_MACLAURIN) - 1, dtype=wide)
    terms = jnp.cumprod(rising / a, axis=-1)[..., ::2] * np.array(_MACLAURIN, wide)
    slopes = terms * jnp.cumsum(1 / rising, axis=-1)[..., ::2]
    a, s = a[..., 0], s[..., 0]
    rest = a / (s - 1) + 0.5 + terms.sum(-1)
    rest_slope = slopes.sum(-1) - a / (s - 1) ** 2
    slope = first + a**-s * (rest_slope - jnp.log(a) * rest)
    beyond = jnp.where((x == 1) & (q[..., 0] > 0), -np.inf, np.nan)
    return jnp.where(defined, slope, beyond).astype(x.dtype)


_zeta.defjvps(
    lambda t, z, x, q: t * _zeta_slope(x, q),
    lambda t, z, x, q: t * (-x * zeta(x + 1, q)),
)


def gammainc(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.gammainc`.

    >>> from pullback.scipy import special
    >>> special.gammainc(1., jnp.array([0., 1.])).round(3)
    Array([0.   , 0.632], dtype=float32)
    """
    a, x = together("gammainc", *real("gammainc", a, x, error=TypeError))
    return lax.igamma(a, x)


def gammaincc(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.gammaincc`.

    >>> from pullback.scipy import special
    >>> special.gammaincc(1., jnp.array([0., 1.])).round(3)
    Array([1.   , 0.368], dtype=float32)
    """
    a, x = together("gammaincc", *real("gammaincc", a, x, error=TypeError))
    return lax.igammac(a, x)


@promotes_freely
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the d-variate gamma function.

    Raises TypeError unless d is a known integer (ConcretizationTypeError for a traced one).

    `a`: a real array; the result is float. As `scipy.special.multigammaln`.

    >>> from pullback.scipy import special
    >>> special.multigammaln(3., 2).round(3)
    Array(1.55, dtype=float32)
    """
    d = known(int, d, "d", "multigammaln")
    of_bools = dtypes.is_bool(dtypes.result_type(a))
    (a,) = real("multigammaln", a, error=TypeError)
    if of_bools:  # the constant of bools is of the default type, and decides
        a = a.astype(dtypes.default_float())
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    steps = jnp.arange(d, dtype=typeof(a).dtype) / 2
    return jnp.sum(lax.lgamma(a[..., None] - steps), axis=-1) + jnp.asarray(
        constant, typeof(a).dtype
    )


# The asymptotic series of log Gamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2: B_2k / (2k (2k -
# 1)).
_STIRLING = [-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12]


def betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)|, without the cancellation of large arguments.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.betaln`.

    >>> from pullback.scipy import special
    >>> special.betaln(2., 3.).round(3)
    Array(-2.485, dtype=float32, weak_type=True)
    """
    a, b = real("betaln", a, b, error=TypeError)
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    plain = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    # For large b: lgamma(b) - lgamma(a + b) by the difference of Stirling's series.
    large = jnp.where(b < 8, 8, b)
    small = jnp.where(b < 8, 1, a)
    whole = large + small

    def stirling(x: Any) -> Any:
        return horner(_STIRLING, 1 / (x * x)) / x

    u = -(large + (small - 0.5)) * jnp.log1p(small / large)
    difference = stirling(large) - stirling(whole) + u - small * (jnp.log(large) - 1)
    return jnp.where(b < 8, plain, lax.lgamma(small) + difference)


def beta(a: Any, b: Any) -> Any:
    """The beta function.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.beta`.

    >>> from pullback.scipy import special
    >>> special.beta(2., 3.).round(4)
    Array(0.0833, dtype=float32)
    """
    a, b = real("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * lax.exp(betaln(a, b))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. `x` lies in [0, 1]. As `scipy.special.betainc`.

    >>> from pullback.scipy import special
    >>> special.betainc(1., 2., 0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    a, b, x = together("betainc", *real("betainc", a, b, x))
    return lax.betainc(a, b, x)


def factorial(n: Any, exact: bool = False) -> Any:
    """n!, 0 for negative n.

    Raises NotImplementedError for exact=True.

    `n`: a real array; the result is float. As `scipy.special.factorial`.

    >>> from pullback.scipy import special
    >>> special.factorial(jnp.array([0, 3, 5])).round(2)
    Array([  1.,   6., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError("factorial with exact=True. Fix: math.factorial, or exact=False.")
    (n,) = real("factorial", n, error=TypeError)
    return jnp.where(n < 0, 0, lax.exp(lax.lgamma(n + 1)))


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """How many subsets of k there are of N things; with `repetition`, multisets.

    >>> pb.scipy.special.comb(5, 2)
    Array(10., dtype=float32, weak_type=True)
    """
    N, k = real("comb", N, k, error=TypeError)
    if repetition:
        return comb(N + k - 1, k)
    valid = (k >= 0) & (N >= 0) & (k <= N)
    n1, k1 = jnp.where(valid, N, 1), jnp.where(valid, k, 0)
    whole = (n1 == jnp.round(n1)) & (k1 == jnp.round(k1))
    value = jnp.exp(-jnp.log1p(n1) - betaln(n1 - k1 + 1, k1 + 1))
    few = whole & (value < 2.0 ** (20 if typeof(value).dtype != np.float64 else 48))
    parts = jnp.where(few, jnp.round(value) - value, 0)  # of infinity there are none
    return jnp.where(valid, value + lax.stop_gradient(parts), 0)


@custom_jvp
def poch(z: Any, m: Any) -> Any:
    """Gamma(z + m) / Gamma(z), the rising factorial.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.poch`.

    >>> from pullback.scipy import special
    >>> special.poch(2., 3.).round(3)
    Array(24., dtype=float32)
    """
    z, m = real("poch", z, m)
    sign = gammasgn(z) * gammasgn(z + m)
    safe = jnp.where(m == 0, 1, z)
    return jnp.where(m == 0, 1, sign * lax.exp(lax.lgamma(safe + m) - lax.lgamma(safe)))


poch.defjvps(
    lambda t, out, z, m: t * (lax.digamma(jnp.asarray(z + m)) - lax.digamma(jnp.asarray(z))) * out,
    lambda t, out, z, m: t * lax.digamma(jnp.asarray(z + m)) * out,
)


def bernoulli(n: int) -> Any:
    """The Bernoulli numbers B_0 ... B_n, with B_1 = -1/2.

    Raises ValueError if n is negative, ConcretizationTypeError if it is traced.

    `n`: a Python int; the result is float, (n + 1,). As `scipy.special.bernoulli`.

    >>> from pullback.scipy import special
    >>> special.bernoulli(4).round(4)
    Array([ 1.    , -0.5   ,  0.1667,  0.    , -0.0333], dtype=float32)
    """
    n = known(lambda n: as_int(n, "n"), n, "n", "bernoulli")
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    numbers = np.array([float(b) for b in _bernoulli_numbers(n)])
    return jnp.asarray(numbers, dtype=dtypes.default_float())


# Coefficients of the Cephes library's approximation of the dilogarithm (S. Moshier).
_A = [
    4.65128586073990045278e-5,
    7.31589045238094711071e-3,
    1.33847639578309018650e-1,
    8.79691311754530315341e-1,
    2.71149851196553469920e0,
    4.25697156008121755724e0,
    3.29771340985225106936e0,
    1.0,
]
_B = [
    6.90990488912553276999e-4,
    2.54043763932544379113e-2,
    2.82974860602568089943e-1,
    1.41172597751831069617e0,
    3.63800533345137075418e0,
    5.03278880143316990390e0,
    3.54771340985225096217e0,
    9.99999999999999998740e-1,
]


@custom_jvp
@jit
@shown_as("_piecewise")
def _spence(x: Any) -> Any:
    inverted = x > 1.5
    y = jnp.where(x > 2, 1 / x, x)
    reflected = (y < 0.5) & ~((x > 1.5) & (x <= 2))
    w = jnp.where((x > 1.5) & (x <= 2), 1 / y - 1, jnp.where(reflected, -y, y - 1))
    value = -w * horner(_A, w) / horner(_B, w)
    value = jnp.where(reflected, np.pi**2 / 6 - jnp.log(y) * jnp.log1p(-y) - value, value)
    log = jnp.log(y)
    value = jnp.where(inverted, -0.5 * log * log - value, value)
    value = jnp.where(x == 1, 0, jnp.where(x == 0, np.pi**2 / 6, value))
    return jnp.where((x < 0) | jnp.isnan(x), np.nan, value)


_spence.defjvps(
    lambda t, out, x: t * jnp.where(x == 1, -1, jnp.log(x) / (1 - jnp.where(x == 1, 2, x)))
)


def spence(x: Any) -> Any:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x (the dilogarithm of 1
    - x).

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. NaN for negative `x`. As `scipy.special.spence`.

    >>> from pullback.scipy import special
    >>> special.spence(jnp.array([0., 1.])).round(3)
    Array([1.645, 0.   ], dtype=float32)
    """
    x = jnp.asarray(x)
    dtype = typeof(x).dtype
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise TypeError(
            f"x.dtype={dtype.name} is not supported, see docstring for supported types. Fix: "
            "float32 or float64."
        )
    (x,) = inexact("spence", x)
    return _spence(convert_weak(x, dtype, False))
