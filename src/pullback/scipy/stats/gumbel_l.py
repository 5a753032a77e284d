"""The left-skewed Gumbel distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...nn.functions import log1mexp
from ..special.basic import ordered


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.logpdf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.logpdf(0.5).round(3)
    Array(-1.149, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    log = jnp.where(z == np.inf, -np.inf, z - jnp.exp(z) - jnp.log(scale))
    return jnp.where(scale > 0, log, np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.pdf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.pdf(0.5).round(3)
    Array(0.317, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.cdf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.cdf(0.5).round(3)
    Array(0.808, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_l.cdf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.expm1(-jnp.exp((x - loc) / scale)), np.nan)


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.logcdf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.logcdf(0.5).round(3)
    Array(-0.214, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_l.logcdf", x, loc, scale)
    return jnp.where(scale > 0, log1mexp(jnp.exp((x - loc) / scale)), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.sf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.sf(0.5).round(3)
    Array(0.192, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_l.sf", x, loc, scale)
    return jnp.exp(logsf(x, loc, scale))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.logsf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.logsf(0.5).round(3)
    Array(-1.649, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_l.logsf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.exp((x - loc) / scale), np.nan)


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is p.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_l.ppf`.

    >>> from pullback.scipy.stats import gumbel_l
    >>> gumbel_l.ppf(0.25).round(3)
    Array(-1.246, dtype=float32, weak_type=True)
    """
    p, loc, scale = ordered("gumbel_l.ppf", p, loc, scale)
    return jnp.where((p > 0) & (p < 1), loc + scale * jnp.log(-jnp.log1p(-p)), np.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
