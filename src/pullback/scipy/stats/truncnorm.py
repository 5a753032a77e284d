"""The normal distribution cut off at a and b (in units of scale around loc)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax, numpy as jnp
from ...api.jit import jit
from ...nn.functions import log1mexp
from ..special.basic import inexact, log_ndtr
from . import norm


def _log_difference(high: Any, low: Any) -> Any:
    """log(exp(high) - exp(low))."""
    gap = high - low
    return high + jnp.where(gap > 0, log1mexp(jnp.where(gap > 0, gap, 1)), -np.inf)


def _log_mass(a: Any, b: Any) -> Any:
    """log(P(b) - P(a)), taken in the tail where there is no cancellation."""
    left = b <= 0
    right = a > 0
    a_left, b_left = jnp.where(left, a, -1), jnp.where(left, b, 0)
    a_right, b_right = jnp.where(right, a, 0), jnp.where(right, b, 1)
    in_left = _log_difference(log_ndtr(b_left), log_ndtr(a_left))
    in_right = _log_difference(log_ndtr(-a_right), log_ndtr(-b_right))
    # Of one tail alone nothing, or all, would be left: infinite slopes, which selecting does not
    # take away.
    a_middle, b_middle = jnp.where(left | right, -1, a), jnp.where(left | right, 1, b)
    middle = jnp.log1p(-jnp.exp(log_ndtr(a_middle)) - jnp.exp(log_ndtr(-b_middle)))
    return jnp.where(left, in_left, jnp.where(right, in_right, middle))


@jit
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.logpdf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.logpdf(0.5, -1., 2.).round(3)
    Array(-0.844, dtype=float32)
    """
    x, a, b, loc, scale = inexact("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = norm.logpdf(x, loc, scale) - _log_mass(a, b)
    value = jnp.where((z < a) | (z > b), -np.inf, value)
    return jnp.where(a < b, value, np.nan)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.pdf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.pdf(0.5, -1., 2.).round(3)
    Array(0.43, dtype=float32)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def _between(a: Any, b: Any) -> Any:
    """A point inside, for what lies outside: at an end logarithms have infinite slopes."""
    below, above = jnp.where(jnp.isinf(a), b - 2, a), jnp.where(jnp.isinf(b), a + 2, b)
    return jnp.where(jnp.isinf(a) & jnp.isinf(b), 0, lax.stop_gradient(0.5 * (below + above)))


@jit
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.logcdf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.logcdf(0.5, -1., 2.).round(3)
    Array(-0.429, dtype=float32)
    """
    x, a, b, loc, scale = jnp.broadcast_arrays(*inexact("truncnorm.logcdf", x, a, b, loc, scale))
    z = (x - loc) / scale
    inside = (z > a) & (z < b)
    y = jnp.where(inside, z, _between(a, b))
    value = _log_mass(a, y) - _log_mass(a, b)
    # Near the upper end, by what is missing.
    missing = _log_mass(y, b) - _log_mass(a, b)
    near = value > -0.1
    value = jnp.where(near, jnp.log1p(-jnp.exp(jnp.where(near, missing, -1))), value)
    value = jnp.where(z >= b, 0, jnp.where(z <= a, -np.inf, value))
    return jnp.where((a < b) & ~jnp.isnan(z), value, np.nan)


@jit
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.cdf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.cdf(0.5, -1., 2.).round(3)
    Array(0.651, dtype=float32)
    """
    return jnp.exp(logcdf(x, a, b, loc, scale))


@jit
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.logsf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.logsf(0.5, -1., 2.).round(3)
    Array(-1.052, dtype=float32)
    """
    x, a, b, loc, scale = inexact("truncnorm.logsf", x, a, b, loc, scale)
    return logcdf(-x, -b, -a, -loc, scale)


@jit
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.truncnorm.sf`.

    >>> from pullback.scipy.stats import truncnorm
    >>> truncnorm.sf(0.5, -1., 2.).round(3)
    Array(0.349, dtype=float32)
    """
    return jnp.exp(logsf(x, a, b, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
