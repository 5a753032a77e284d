"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import lax, numpy as jnp
from ...numpy.util import literal
from ..special.basic import strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.logpdf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.logpdf(0.5).round(3)
    Array(-1.368, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -(jnp.log(math.pi * scale) + jnp.log1p(z * z))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.pdf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.pdf(0.5).round(3)
    Array(0.255, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.cdf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.cdf(0.5).round(3)
    Array(0.648, dtype=float32, weak_type=True)
    """
    return _cdf(*strong("cauchy.cdf", x, loc, scale))


def _cdf(x: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    return 0.5 + lax.div(literal(x, 1), literal(x, math.pi)) * jnp.arctan(z)


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.logcdf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.logcdf(0.5).round(3)
    Array(-0.435, dtype=float32, weak_type=True)
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.sf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.sf(0.5).round(3)
    Array(0.352, dtype=float32, weak_type=True)
    """
    x, loc, scale = strong("cauchy.sf", x, loc, scale)
    return _cdf(-x, -loc, scale)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.logsf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.logsf(0.5).round(3)
    Array(-1.043, dtype=float32, weak_type=True)
    """
    return jnp.log(sf(x, loc, scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.ppf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.ppf(0.25).round(3)
    Array(-1., dtype=float32, weak_type=True)
    """
    q, loc, scale = strong("cauchy.ppf", q, loc, scale)
    return jnp.tan(math.pi * q - math.pi / 2) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.cauchy.isf`.

    >>> from pullback.scipy.stats import cauchy
    >>> cauchy.isf(0.25).round(3)
    Array(1., dtype=float32, weak_type=True)
    """
    q, loc, scale = strong("cauchy.isf", q, loc, scale)
    return jnp.tan(math.pi / 2 - math.pi * q) * scale + loc


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
