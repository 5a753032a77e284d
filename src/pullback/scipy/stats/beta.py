"""The beta distribution on [0, 1], moved and scaled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax, numpy as jnp
from ...numpy.util import literal
from ..special.basic import strong, xlog1py, xlogy
from ..special.gammas import betainc, betaln
from .tails import log_probability


def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.logpdf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.logpdf(0.25, 2., 3.).round(3)
    Array(0.523, dtype=float32, weak_type=True)
    """
    x, a, b, loc, scale = strong("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    inside = (y >= 0) & (y <= 1)
    held = jnp.where(inside, y, 0.5)
    log = xlogy(a - 1, held) + xlog1py(b - 1, -held) - betaln(a, b) - jnp.log(scale)
    log = jnp.where(inside, log, jnp.where(jnp.isnan(y), np.nan, -np.inf))
    return jnp.where((a > 0) & (b > 0) & (scale > 0), log, np.nan)


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.pdf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.pdf(0.25, 2., 3.).round(3)
    Array(1.688, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.cdf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.cdf(0.25, 2., 3.).round(3)
    Array(0.262, dtype=float32, weak_type=True)
    """
    x, a, b, loc, scale = strong("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, _inside(x, loc, scale))


def _inside(x: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    return lax.clamp(literal(z, 0), z, literal(z, 1))


def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.logcdf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.logcdf(0.25, 2., 3.).round(3)
    Array(-1.34, dtype=float32, weak_type=True)
    """
    return log_probability(cdf(x, a, b, loc, scale), sf(x, a, b, loc, scale))


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.sf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.sf(0.25, 2., 3.).round(3)
    Array(0.738, dtype=float32, weak_type=True)
    """
    x, a, b, loc, scale = strong("beta.sf", x, a, b, loc, scale)
    z = _inside(x, loc, scale)
    near = z < 1e-8  # 1 - z would lose them
    from_start = 1 - betainc(a, b, jnp.where(near, z, 0.5))
    return jnp.where(near, from_start, betainc(b, a, 1 - jnp.where(near, 0.5, z)))


def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `a`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.beta.logsf`.

    >>> from pullback.scipy.stats import beta
    >>> beta.logsf(0.25, 2., 3.).round(3)
    Array(-0.303, dtype=float32, weak_type=True)
    """
    return log_probability(sf(x, a, b, loc, scale), cdf(x, a, b, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
