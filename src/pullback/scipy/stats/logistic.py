"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from ... import lax, numpy as jnp
from ...numpy.util import literal
from ..special.basic import expit, inexact, logit, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.logpdf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.logpdf(0.5).round(3)
    Array(-1.448, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("logistic.logpdf", x, loc, scale, like=(0, 1, 2))
    two = literal(x, 2)
    half = lax.div((x - loc) / scale, two)
    return lax.neg(two) * jnp.logaddexp(half, -half) - jnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.pdf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.pdf(0.5).round(3)
    Array(0.235, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.cdf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.cdf(0.5).round(3)
    Array(0.622, dtype=float32, weak_type=True)
    """
    x, loc, scale = inexact("logistic.cdf", x, loc, scale)
    return expit((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.sf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.sf(0.5).round(3)
    Array(0.378, dtype=float32, weak_type=True)
    """
    x, loc, scale = inexact("logistic.sf", x, loc, scale)
    return expit(-((x - loc) / scale))


def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is x.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.ppf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.ppf(0.25).round(3)
    Array(-1.099, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is x.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.logistic.isf`.

    >>> from pullback.scipy.stats import logistic
    >>> logistic.isf(0.25).round(3)
    Array(1.099, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("logistic.isf", x, loc, scale)
    return -logit(x) * scale + loc


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
