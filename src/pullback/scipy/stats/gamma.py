"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax, numpy as jnp
from ...numpy.util import literal
from ..special.basic import inexact, strong, xlogy
from ..special.gammas import gammainc, gammaincc, gammaln
from .tails import log_probability


def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.logpdf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.logpdf(0.5, 2.).round(3)
    Array(-1.193, dtype=float32, weak_type=True)
    """
    x, a, loc, scale = strong("gamma.logpdf", x, a, loc, scale)
    inside = ~(x < loc)  # a negative scale has no density: NaN from its logarithm
    y = (x - loc) / scale
    y = jnp.where(inside, y, 1)
    log = xlogy(a - 1, y) - y - (gammaln(a) + jnp.log(scale))
    return jnp.where(inside, log, -np.inf)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.pdf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.pdf(0.5, 2.).round(3)
    Array(0.303, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.cdf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.cdf(0.5, 2.).round(3)
    Array(0.09, dtype=float32, weak_type=True)
    """
    x, a, loc, scale = strong("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    return gammainc(a, lax.clamp(literal(z, 0), z, literal(z, np.inf)))


def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.logcdf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.logcdf(0.5, 2.).round(3)
    Array(-2.406, dtype=float32, weak_type=True)
    """
    return log_probability(cdf(x, a, loc, scale), sf(x, a, loc, scale))


def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.sf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.sf(0.5, 2.).round(3)
    Array(0.91, dtype=float32, weak_type=True)
    """
    x, a, loc, scale = inexact("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    below = z < 0
    return jnp.where(below, 1, gammaincc(a, jnp.where(below, 1, z)))


def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `a`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gamma.logsf`.

    >>> from pullback.scipy.stats import gamma
    >>> gamma.logsf(0.5, 2.).round(3)
    Array(-0.095, dtype=float32, weak_type=True)
    """
    return log_probability(sf(x, a, loc, scale), cdf(x, a, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
