"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import ordered, strong


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.logpdf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.logpdf(2., 2.).round(3)
    Array(-1.386, dtype=float32, weak_type=True)
    """
    x, b, loc, scale = strong("pareto.logpdf", x, b, loc, scale, compared=True)
    z = (x - loc) / scale
    outside = x < loc + scale
    log = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.where(outside, 1, z))
    return jnp.where(outside, -np.inf, log)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.pdf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.pdf(2., 2.).round(3)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.cdf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.cdf(2., 2.).round(3)
    Array(0.75, dtype=float32, weak_type=True)
    """
    x, b, loc, scale = strong("pareto.cdf", x, b, loc, scale, compared=True)
    z = (x - loc) / scale
    outside = x < loc + scale
    return jnp.where(outside, 0, 1 - jnp.where(outside, 1, z) ** (-b))


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.logcdf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.logcdf(2., 2.).round(3)
    Array(-0.288, dtype=float32, weak_type=True)
    """
    x, b, loc, scale = ordered("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    outside = x < loc + scale
    held = jnp.where(outside, 2, z)  # at 1 the logarithm's slope is infinite
    return jnp.where(outside, -np.inf, jnp.log1p(-(held ** (-b))))


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.sf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.sf(2., 2.).round(3)
    Array(0.25, dtype=float32, weak_type=True)
    """
    x, b, loc, scale = strong("pareto.sf", x, b, loc, scale, compared=True)
    z = (x - loc) / scale
    outside = x < loc + scale
    z = jnp.where(z < 0, np.nan, z)  # of a negative scale
    z = jnp.where(b != b, np.nan, jnp.where(outside, 1, z))  # 1 to no power is a power of 1
    return jnp.where(outside, 1, z ** (-b))


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.logsf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.logsf(2., 2.).round(3)
    Array(-1.386, dtype=float32, weak_type=True)
    """
    x, b, loc, scale = strong("pareto.logsf", x, b, loc, scale, compared=True)
    z = (x - loc) / scale
    outside = x < loc + scale
    return jnp.where(outside, 0, -b * jnp.log(jnp.where(outside, 1, z)))


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q.

    `q`, `b`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.pareto.ppf`.

    >>> from pullback.scipy.stats import pareto
    >>> pareto.ppf(0.25, 2.).round(3)
    Array(1.155, dtype=float32, weak_type=True)
    """
    q, b, loc, scale = strong("pareto.ppf", q, b, loc, scale)
    return jnp.where((q >= 0) & (q <= 1), (1 - q) ** (-1 / b) * scale + loc, np.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
