"""Elementary functions: exponentials, logarithms, roots, trigonometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..core.avals import typeof
from .selecting import LOG10_E, number, select_where
from .tables import binary, unary
from .util import dtype_of, literal, promote_args_inexact


def _fabs(x: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        raise TypeError("ufunc 'fabs' does not support complex dtypes. Fix: use jnp.abs.")
    return lax.abs(x)


fabs = unary(
    "fabs",
    _fabs,
    """The absolute value, as a float.

    >>> jnp.fabs(jnp.array([-2, 3]))
    Array([2., 3.], dtype=float32)
    """,
)

exp = unary(
    "exp",
    lax.exp,
    """e to the power x.

    >>> jnp.exp(jnp.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """,
)

log = unary(
    "log",
    lax.log,
    """The natural logarithm; NaN below 0.

    >>> jnp.log(jnp.array([1.0, 10.0, -1.0]))
    Array([0.       , 2.3025851,       nan], dtype=float32)
    """,
)

expm1 = unary(
    "expm1",
    lax.expm1,
    """exp(x) - 1, precise near 0.

    >>> jnp.expm1(jnp.array([1e-8, 1.0]))
    Array([9.9999999e-09, 1.7182817e+00], dtype=float32)
    """,
)

log1p = unary(
    "log1p",
    lax.log1p,
    """log(1 + x), precise near 0.

    >>> jnp.log1p(jnp.array([1e-8, 1.0]))
    Array([1.000000e-08, 6.931472e-01], dtype=float32)
    """,
)

exp2 = unary(
    "exp2",
    lax.exp2,
    """2 to the power x.

    >>> jnp.exp2(jnp.array([3, -1]))
    Array([8. , 0.5], dtype=float32)
    """,
)

sin = unary(
    "sin",
    lax.sin,
    """The sine of radians.

    >>> jnp.sin(jnp.array([0.0, jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """,
)

cos = unary(
    "cos",
    lax.cos,
    """The cosine of radians.

    >>> jnp.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """,
)

tan = unary(
    "tan",
    lax.tan,
    """The tangent of radians.

    >>> jnp.tan(jnp.array([0.0, jnp.pi / 4]))
    Array([0., 1.], dtype=float32)
    """,
)

sinh = unary(
    "sinh",
    lax.sinh,
    """The hyperbolic sine.

    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """,
)

cosh = unary(
    "cosh",
    lax.cosh,
    """The hyperbolic cosine.

    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430806], dtype=float32)
    """,
)

tanh = unary(
    "tanh",
    lax.tanh,
    """The hyperbolic tangent.

    >>> jnp.tanh(jnp.array([0.0, 1.0, 50.0]))
    Array([0.       , 0.7615942, 1.       ], dtype=float32)
    """,
)

arcsin = asin = unary(
    "arcsin",
    lax.asin,
    """The angle in [-pi/2, pi/2] whose sine is x.

    >>> jnp.arcsin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """,
)

arccos = acos = unary(
    "arccos",
    lax.acos,
    """The angle in [0, pi] whose cosine is x.

    >>> jnp.arccos(jnp.array([1.0, 0.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """,
)

arctan = atan = unary(
    "arctan",
    lax.atan,
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> jnp.arctan(jnp.array([1.0, jnp.inf]))
    Array([0.7853982, 1.5707964], dtype=float32)
    """,
)

arcsinh = asinh = unary(
    "arcsinh",
    lax.asinh,
    """The inverse hyperbolic sine.

    >>> jnp.arcsinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """,
)

arctanh = atanh = unary(
    "arctanh",
    lax.atanh,
    """The inverse hyperbolic tangent.

    NaN outside of [-1, 1].

    >>> jnp.arctanh(jnp.array([0.5, 1.0]))
    Array([0.54930615,        inf], dtype=float32)
    """,
)

sqrt = unary(
    "sqrt",
    lax.sqrt,
    """The square root; NaN below 0.

    >>> jnp.sqrt(jnp.array([4, 9, -1]))
    Array([ 2.,  3., nan], dtype=float32)
    """,
)

cbrt = unary(
    "cbrt",
    lax.cbrt,
    """The cube root.

    >>> jnp.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """,
)

reciprocal = unary(
    "reciprocal",
    lambda x: lax.integer_pow(x, -1),
    """1 / x.

    >>> jnp.reciprocal(jnp.array([2, 4]))
    Array([0.5 , 0.25], dtype=float32)
    """,
)


def _acosh(x: Any) -> Any:
    y = lax.acosh(x)
    if dtypes.is_complex(dtype_of(x)):
        # The principal value has a non-negative real part.
        re = lax.real(y)
        y = select_where(lax.lt(re, literal(re, 0)), lax.neg(y), y)
    return y


arccosh = acosh = unary(
    "arccosh",
    _acosh,
    """The inverse hyperbolic cosine.

    NaN below 1.

    >>> jnp.arccosh(jnp.array([1.0, 2.0]))
    Array([0.      , 1.316958], dtype=float32)
    """,
    named=True,
)


def by_parts(f: Callable[[Any], Any], x: Any) -> Any:
    """Applies a function of reals that only scales to the parts of a complex array."""
    if dtypes.is_complex(typeof(x).dtype):
        return lax.complex(f(lax.real(x)), f(lax.imag(x)))
    return f(x)


def _log2(x: Any) -> Any:
    y = lax.log(x)

    def scaled(part: Any) -> Any:
        return lax.div(part, lax.log(number(2, typeof(part).dtype)))

    if not dtypes.is_complex(typeof(y).dtype):
        return scaled(y)
    re, im = lax.real(y), lax.imag(y)
    ln2 = lax.log(number(2, typeof(re).dtype))
    return lax.complex(lax.div(re, ln2), lax.div(im, ln2))


def _log10(x: Any) -> Any:
    y = lax.log(x)
    if not dtypes.is_complex(typeof(y).dtype):
        return lax.mul(y, number(LOG10_E, typeof(y).dtype))
    re, im = lax.real(y), lax.imag(y)
    scale = number(LOG10_E, typeof(re).dtype)
    return lax.complex(lax.mul(re, scale), lax.mul(im, scale))


log2 = unary(
    "log2",
    _log2,
    """The logarithm to base 2.

    >>> jnp.log2(jnp.array([8, 1024]))
    Array([ 3., 10.], dtype=float32)
    """,
)

log10 = unary(
    "log10",
    _log10,
    """The logarithm to base 10.

    >>> jnp.log10(jnp.array([1000.0, 0.1]))
    Array([ 3., -1.], dtype=float32)
    """,
)

deg2rad = radians = unary(
    "deg2rad",
    lambda x: lax.mul(x, literal(x, np.pi / 180)),
    """Degrees to radians.

    >>> jnp.deg2rad(jnp.array([0.0, 180.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """,
)

rad2deg = degrees = unary(
    "rad2deg",
    lambda x: lax.mul(x, literal(x, 180 / np.pi)),
    """Radians to degrees.

    >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """,
)

arctan2 = atan2 = binary(
    "arctan2",
    lax.atan2,
    """The angle of the point (y, x) from the positive x axis: arctan2(y, x).

    >>> jnp.arctan2(jnp.array([1.0, -1.0]), jnp.array([0.0, -1.0]))
    Array([ 1.5707964, -2.3561945], dtype=float32)
    """,
    promote_args_inexact,
)
