"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as jnp
from ..special.basic import inexact, log_ndtr, ndtr, ndtri, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.logpdf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.logpdf(0.5).round(3)
    Array(-1.044, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("norm.logpdf", x, loc, scale)
    variance = jnp.square(scale)
    normaliser = jnp.log(2 * math.pi * variance)
    return (normaliser + jnp.square(x - loc) / variance) / -2


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.pdf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.pdf(0.5).round(3)
    Array(0.352, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.cdf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.cdf(0.5).round(3)
    Array(0.691, dtype=float32)
    """
    x, loc, scale = inexact("norm.cdf", x, loc, scale)
    return ndtr((x - loc) / scale)


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.logcdf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.logcdf(0.5).round(3)
    Array(-0.369, dtype=float32)
    """
    x, loc, scale = inexact("norm.logcdf", x, loc, scale)
    return log_ndtr((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.sf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.sf(0.5).round(3)
    Array(0.309, dtype=float32)
    """
    x, loc, scale = inexact("norm.sf", x, loc, scale)
    return ndtr((-x - -loc) / scale)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.logsf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.logsf(0.5).round(3)
    Array(-1.176, dtype=float32)
    """
    x, loc, scale = inexact("norm.logsf", x, loc, scale)
    return log_ndtr((-x - -loc) / scale)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.ppf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.ppf(0.25).round(3)
    Array(-0.674, dtype=float32)
    """
    (q,) = inexact("norm.ppf", q)
    return jnp.asarray(ndtri(q) * scale + loc, float)


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.norm.isf`.

    >>> from pullback.scipy.stats import norm
    >>> norm.isf(0.25).round(3)
    Array(0.674, dtype=float32)
    """
    (q,) = inexact("norm.isf", q)
    return jnp.asarray(-ndtri(q) * scale + loc, float)


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
