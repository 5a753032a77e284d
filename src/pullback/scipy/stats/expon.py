"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...nn.functions import log1mexp
from ..special.basic import aligned, ordered


def _minus_z(x: Any, loc: Any, scale: Any) -> Any:
    """(loc - x) / scale; 0 below loc."""
    below = x < loc
    return jnp.where(below, 0, jnp.where(below, 0, loc - x) / scale)


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.logpdf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.logpdf(0.5).round(3)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("expon.logpdf", x, loc, scale)
    size = jnp.log(scale)
    log = -((x - loc) / scale + size)
    return jnp.where(x < loc, -np.inf, log)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.pdf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.pdf(0.5).round(3)
    Array(0.607, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.cdf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.cdf(0.5).round(3)
    Array(0.393, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("expon.cdf", x, loc, scale)
    return 0 - jnp.expm1(_minus_z(x, loc, scale))  # not -0 below loc


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.logcdf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.logcdf(0.5).round(3)
    Array(-0.933, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("expon.logcdf", x, loc, scale)
    z = _minus_z(x, loc, scale)
    empty = z == 0
    return jnp.where(empty, -np.inf, log1mexp(jnp.where(empty, 1, -z)))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.sf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.sf(0.5).round(3)
    Array(0.607, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("expon.sf", x, loc, scale)
    return jnp.exp(_minus_z(x, loc, scale))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.logsf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.logsf(0.5).round(3)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("expon.logsf", x, loc, scale)
    return _minus_z(x, loc, scale)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.expon.ppf`.

    >>> from pullback.scipy.stats import expon
    >>> expon.ppf(0.25).round(3)
    Array(0.288, dtype=float32, weak_type=True)
    """
    q, loc, scale = aligned("expon.ppf", q, loc, scale)
    inside = (q >= 0) & (q <= 1)
    return jnp.where(inside, loc - scale * jnp.log1p(-jnp.where(inside, q, 0)), np.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
