"""The functions of the mathematics library, element by element, each with its derivative."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from ..core.avals import typeof
from ..errors import MissingRuleError
from .builders import binary, unary
from .common import COMPLEX, FLOAT, const
from .elementwise import abs, add, div, gt, integer_pow, log, mul, neg, select, sign, square, sub
from .layout import full_as

_REAL = (FLOAT,)
_INEXACT = (FLOAT, COMPLEX)


class Tolerance:
    """An error bound that a function may be computed to: absolute, relative, or in units in the
    last place.

    `atol`, `rtol`: floats; `ulps`: an int. Raises ValueError if one is negative, or all are 0. An
    `accuracy=` of elementary functions.

    >>> lax.exp(0., accuracy=lax.Tolerance(ulps=2))
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if atol < 0.0 or rtol < 0.0 or ulps < 0.0:
            raise ValueError("Tolerances must be non-negative.")
        if atol == 0.0 and rtol == 0.0 and ulps == 0:
            raise ValueError("At least one of atol, rtol, or ulps must be set.")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tolerance) and (self.atol, self.rtol, self.ulps) == (
            other.atol,
            other.rtol,
            other.ulps,
        )

    def __hash__(self) -> int:
        return hash((self.atol, self.rtol, self.ulps))

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


class AccuracyMode(enum.Enum):
    """Named accuracies: the most exact, or the default.

    An `accuracy=` of elementary functions.

    >>> lax.exp(0., accuracy=lax.AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


def _bessel_i1e_derivative(t: Any, y: Any, x: Any) -> Any:
    """i0e(x) - i1e(x) (sign(x) + 1 / x), which is 1/2 at 0."""
    eps = np.finfo(np.float64 if typeof(x).dtype == np.float64 else np.float32).eps
    away = gt(abs(x), const(x, eps))
    safe = select(away, x, full_as(x, eps))
    slope = sub(bessel_i0e(safe), mul(y, add(sign(safe), integer_pow(safe, -1))))
    return mul(t, select(away, slope, full_as(x, 0.5)))


exp_p = unary("exp", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, y))
exp2_p = unary("exp2", _INEXACT, lambda t, y, x, *, accuracy=None: mul(log(const(x, 2)), mul(t, y)))
log1p_p = unary("log1p", _INEXACT, lambda t, y, x, *, accuracy=None: div(t, add(x, const(x, 1))))
expm1_p = unary("expm1", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, add(y, const(y, 1))))
sqrt_p = unary("sqrt", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, div(const(x, 0.5), y)))
rsqrt_p = unary(
    "rsqrt", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, mul(const(x, -0.5), div(y, x)))
)
cbrt_p = unary(
    "cbrt",
    _REAL,
    lambda t, y, x, *, accuracy=None: mul(t, mul(const(x, 1 / 3), integer_pow(y, -2))),
)
sin_p = unary("sin", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, cos(x)))
cos_p = unary("cos", _INEXACT, lambda t, y, x, *, accuracy=None: neg(mul(t, sin(x))))
tan_p = unary(
    "tan", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, add(const(x, 1), square(y)))
)
tanh_p = unary(
    "tanh", _INEXACT, lambda t, y, x, *, accuracy=None: mul(add(t, mul(t, y)), sub(const(x, 1), y))
)
logistic_p = unary(
    "logistic", _INEXACT, lambda t, y, x, *, accuracy=None: mul(t, mul(y, sub(const(x, 1), y)))
)
asin_p = unary("asin", _INEXACT, lambda t, y, x: mul(t, rsqrt(sub(const(x, 1), square(x)))))
acos_p = unary("acos", _INEXACT, lambda t, y, x: mul(t, neg(rsqrt(sub(const(x, 1), square(x))))))
atan_p = unary("atan", _INEXACT, lambda t, y, x: div(t, add(const(x, 1), square(x))))
sinh_p = unary("sinh", _INEXACT, lambda t, y, x: mul(t, cosh(x)))
cosh_p = unary("cosh", _INEXACT, lambda t, y, x: mul(t, sinh(x)))
asinh_p = unary("asinh", _INEXACT, lambda t, y, x: mul(t, rsqrt(add(square(x), const(x, 1)))))
acosh_p = unary("acosh", _INEXACT, lambda t, y, x: mul(t, rsqrt(sub(square(x), const(x, 1)))))
atanh_p = unary(
    "atanh",
    _INEXACT,
    lambda t, y, x: mul(integer_pow(add(const(x, 1), x), -1), div(t, sub(const(x, 1), x))),
)
erf_p = unary(
    "erf",
    _REAL,
    lambda t, y, x, *, accuracy=None: mul(
        const(x, 2 / math.sqrt(math.pi)), mul(t, exp(neg(square(x))))
    ),
)
erfc_p = unary(
    "erfc",
    _REAL,
    lambda t, y, x: mul(const(x, -2 / math.sqrt(math.pi)), mul(t, exp(neg(square(x))))),
)
erf_inv_p = unary(
    "erf_inv",
    _REAL,
    lambda t, y, x, *, accuracy=None: mul(const(x, math.sqrt(math.pi) / 2), mul(t, exp(square(y)))),
)
lgamma_p = unary("lgamma", _REAL, lambda t, y, x: mul(t, digamma(x)))
digamma_p = unary("digamma", _REAL, lambda t, y, x: mul(t, polygamma(const(x, 1), x)))
bessel_i0e_p = unary(
    "bessel_i0e", _REAL, lambda t, y, x: mul(t, sub(bessel_i1e(x), mul(sign(x), y)))
)
bessel_i1e_p = unary("bessel_i1e", _REAL, lambda t, y, x: _bessel_i1e_derivative(t, y, x))
atan2_p = binary(
    "atan2",
    _INEXACT,
    lambda t, z, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, z, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)


def _no_order(t: Any, z: Any, m: Any, x: Any) -> Any:
    raise ValueError(
        "polygamma gradient with respect to m is not supported: it is an order, a whole number. "
        "Fix: lax.stop_gradient(m)."
    )


def _no_exponent(t: Any, z: Any, x: Any, q: Any) -> Any:
    raise MissingRuleError(
        "Differentiation rule for 'zeta' not implemented with respect to its first operand. "
        "Fix: lax.stop_gradient(x)."
    )


polygamma_p = binary(
    "polygamma", _REAL, _no_order, lambda t, z, m, x: mul(t, polygamma(add(m, const(m, 1)), x))
)
zeta_p = binary(
    "zeta",
    _REAL,
    _no_exponent,
    lambda t, z, x, q: mul(t, mul(neg(x), zeta(add(x, const(x, 1)), q))),
)


def exp(x: Any, *, accuracy: Any = None) -> Any:
    """e to the power x.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.exp`.

    >>> lax.exp(jnp.array([0., 1.])).round(3)
    Array([1.   , 2.718], dtype=float32)
    """
    return exp_p.bind(x, accuracy=accuracy)


def exp2(x: Any, *, accuracy: Any = None) -> Any:
    """2 to the power x.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.exp2`.

    >>> lax.exp2(jnp.array([3., -1.]))
    Array([8. , 0.5], dtype=float32)
    """
    return exp2_p.bind(x, accuracy=accuracy)


def log1p(x: Any, *, accuracy: Any = None) -> Any:
    """log(1 + x), exact near 0.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.log1p`.

    >>> lax.log1p(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.693], dtype=float32)
    """
    return log1p_p.bind(x, accuracy=accuracy)


def expm1(x: Any, *, accuracy: Any = None) -> Any:
    """exp(x) - 1, exact near 0.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.expm1`.

    >>> float(lax.expm1(1e-8)) > 0
    True
    """
    return expm1_p.bind(x, accuracy=accuracy)


def sqrt(x: Any, *, accuracy: Any = None) -> Any:
    """The square root.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. NaN of negative floats. As `numpy.sqrt`.

    >>> lax.sqrt(jnp.array([4., 2.])).round(3)
    Array([2.   , 1.414], dtype=float32)
    """
    return sqrt_p.bind(x, accuracy=accuracy)


def rsqrt(x: Any, *, accuracy: Any = None) -> Any:
    """1 / sqrt(x).

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes.

    >>> lax.rsqrt(jnp.array([4., 16.]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return rsqrt_p.bind(x, accuracy=accuracy)


def cbrt(x: Any, *, accuracy: Any = None) -> Any:
    """The cube root.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `numpy.cbrt`.

    >>> lax.cbrt(jnp.array([8., -27.])).round(3)
    Array([ 2., -3.], dtype=float32)
    """
    return cbrt_p.bind(x, accuracy=accuracy)


def sin(x: Any, *, accuracy: Any = None) -> Any:
    """The sine, of radians.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.sin`.

    >>> lax.sin(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.841], dtype=float32)
    """
    return sin_p.bind(x, accuracy=accuracy)


def cos(x: Any, *, accuracy: Any = None) -> Any:
    """The cosine, of radians.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.cos`.

    >>> lax.cos(jnp.array([0., 1.])).round(3)
    Array([1.  , 0.54], dtype=float32)
    """
    return cos_p.bind(x, accuracy=accuracy)


def tan(x: Any, *, accuracy: Any = None) -> Any:
    """The tangent, of radians.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.tan`.

    >>> lax.tan(jnp.array([0., 1.])).round(3)
    Array([0.   , 1.557], dtype=float32)
    """
    return tan_p.bind(x, accuracy=accuracy)


def tanh(x: Any, *, accuracy: Any = None) -> Any:
    """The hyperbolic tangent.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.tanh`.

    >>> lax.tanh(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.762], dtype=float32)
    """
    return tanh_p.bind(x, accuracy=accuracy)


def logistic(x: Any, *, accuracy: Any = None) -> Any:
    """1 / (1 + exp(-x)).

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `scipy.special.expit`.

    >>> lax.logistic(jnp.array([0., 2.])).round(3)
    Array([0.5  , 0.881], dtype=float32)
    """
    return logistic_p.bind(x, accuracy=accuracy)


def asin(x: Any) -> Any:
    """The inverse sine, in [-pi/2, pi/2].

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arcsin`.

    >>> lax.asin(jnp.array([0., 1.])).round(3)
    Array([0.   , 1.571], dtype=float32)
    """
    return asin_p.bind(x)


def acos(x: Any) -> Any:
    """The inverse cosine, in [0, pi].

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arccos`.

    >>> lax.acos(jnp.array([1., 0.])).round(3)
    Array([0.   , 1.571], dtype=float32)
    """
    return acos_p.bind(x)


def atan(x: Any) -> Any:
    """The inverse tangent, in [-pi/2, pi/2].

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arctan`.

    >>> lax.atan(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.785], dtype=float32)
    """
    return atan_p.bind(x)


def sinh(x: Any) -> Any:
    """The hyperbolic sine.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.sinh`.

    >>> lax.sinh(jnp.array([0., 1.])).round(3)
    Array([0.   , 1.175], dtype=float32)
    """
    return sinh_p.bind(x)


def cosh(x: Any) -> Any:
    """The hyperbolic cosine.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.cosh`.

    >>> lax.cosh(jnp.array([0., 1.])).round(3)
    Array([1.   , 1.543], dtype=float32)
    """
    return cosh_p.bind(x)


def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arcsinh`.

    >>> lax.asinh(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.881], dtype=float32)
    """
    return asinh_p.bind(x)


def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arccosh`.

    >>> lax.acosh(jnp.array([1., 2.])).round(3)
    Array([0.   , 1.317], dtype=float32)
    """
    return acosh_p.bind(x)


def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.arctanh`.

    >>> lax.atanh(jnp.array([0., 0.5])).round(3)
    Array([0.   , 0.549], dtype=float32)
    """
    return atanh_p.bind(x)


def erf(x: Any) -> Any:
    """The error function.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.erf`.

    >>> lax.erf(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.843], dtype=float32)
    """
    return erf_p.bind(x)


def erfc(x: Any) -> Any:
    """1 - erf(x), exact for large x.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.erfc`.

    >>> lax.erfc(jnp.array([0., 1.])).round(3)
    Array([1.   , 0.157], dtype=float32)
    """
    return erfc_p.bind(x)


def erf_inv(x: Any) -> Any:
    """The inverse of erf.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.erfinv`: infinite at -1 and 1, NaN beyond.

    >>> lax.erf_inv(jnp.array([0., 0.5, 1.])).round(3)
    Array([0.   , 0.477,   inf], dtype=float32)
    """
    return erf_inv_p.bind(x)


def lgamma(x: Any) -> Any:
    """log |gamma(x)|.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.gammaln`.

    >>> lax.lgamma(jnp.array([1., 4.])).round(3)
    Array([0.   , 1.792], dtype=float32)
    """
    return lgamma_p.bind(x)


def digamma(x: Any) -> Any:
    """The derivative of log gamma.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.digamma`.

    >>> lax.digamma(jnp.array([1., 2.])).round(3)
    Array([-0.577,  0.423], dtype=float32)
    """
    return digamma_p.bind(x)


def bessel_i0e(x: Any) -> Any:
    """exp(-|x|) times the modified Bessel function of order 0.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.i0e`.

    >>> lax.bessel_i0e(jnp.array([0., 1.])).round(3)
    Array([1.   , 0.466], dtype=float32)
    """
    return bessel_i0e_p.bind(x)


def bessel_i1e(x: Any) -> Any:
    """exp(-|x|) times the modified Bessel function of order 1.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `scipy.special.i1e`.

    >>> lax.bessel_i1e(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.208], dtype=float32)
    """
    return bessel_i1e_p.bind(x)


def atan2(x: Any, y: Any) -> Any:
    """The angle of the point (y, x), in [-pi, pi].

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `numpy.arctan2`; the first argument is the
    ordinate.

    >>> lax.atan2(jnp.array([1., 0.]), jnp.array([1., -1.])).round(3)
    Array([0.785, 3.142], dtype=float32)
    """
    return atan2_p.bind(x, y)


def polygamma(m: Any, x: Any) -> Any:
    """The derivative of order m of digamma, at x.

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. `m` holds whole numbers. As
    `scipy.special.polygamma`.

    >>> lax.polygamma(1., 1.).round(3)
    Array(1.645, dtype=float32, weak_type=True)
    """
    return polygamma_p.bind(m, x)


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function: the sum of (k + q)**-x.

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `scipy.special.zeta`.

    >>> lax.zeta(2., 1.).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return zeta_p.bind(x, q)
