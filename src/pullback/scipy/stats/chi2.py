"""The chi-squared distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax, numpy as jnp
from ...numpy.util import literal
from ..special.basic import strong, xlogy
from ..special.gammas import gammainc, gammaincc, gammaln
from .tails import log_probability


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.logpdf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.logpdf(0.5, 3.).round(3)
    Array(-1.516, dtype=float32, weak_type=True)
    """
    x, df, loc, scale = strong("chi2.logpdf", x, df, loc, scale)
    y = (x - loc) / scale
    inside = ~(x < loc)
    half = df / 2
    log = (
        xlogy(half - 1, jnp.where(inside, y, 1))
        - y / 2
        - half * math.log(2)
        - gammaln(half)
        - jnp.log(scale)
    )
    return jnp.where(inside, log, -np.inf)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.pdf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.pdf(0.5, 3.).round(3)
    Array(0.22, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.cdf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.cdf(0.5, 3.).round(3)
    Array(0.081, dtype=float32, weak_type=True)
    """
    x, df, loc, scale = strong("chi2.cdf", x, df, loc, scale, like=(0, 3))
    return gammainc(df / 2, _halved(x, loc, scale))


def _halved(x: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / (scale * 2)
    return lax.clamp(literal(z, 0), z, literal(z, np.inf))


def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.logcdf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.logcdf(0.5, 3.).round(3)
    Array(-2.512, dtype=float32, weak_type=True)
    """
    return log_probability(cdf(x, df, loc, scale), sf(x, df, loc, scale))


def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.sf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.sf(0.5, 3.).round(3)
    Array(0.919, dtype=float32, weak_type=True)
    """
    x, df, loc, scale = strong("chi2.sf", x, df, loc, scale, like=(0, 3))
    return gammaincc(df / 2, _halved(x, loc, scale))


def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.chi2.logsf`.

    >>> from pullback.scipy.stats import chi2
    >>> chi2.logsf(0.5, 3.).round(3)
    Array(-0.085, dtype=float32, weak_type=True)
    """
    return log_probability(sf(x, df, loc, scale), cdf(x, df, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
