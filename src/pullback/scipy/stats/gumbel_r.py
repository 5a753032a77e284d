"""The right-skewed Gumbel distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...nn.functions import log1mexp
from ..special.basic import ordered, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.logpdf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.logpdf(0.5).round(3)
    Array(-1.107, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    log = jnp.where(z == -np.inf, -np.inf, -z - jnp.exp(-z) - jnp.log(scale))
    return jnp.where(scale > 0, log, np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.pdf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.pdf(0.5).round(3)
    Array(0.331, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.cdf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.cdf(0.5).round(3)
    Array(0.545, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_r.cdf", x, loc, scale)
    return jnp.exp(logcdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.logcdf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.logcdf(0.5).round(3)
    Array(-0.607, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_r.logcdf", x, loc, scale)
    positive = scale > 0
    return jnp.where(positive, -jnp.exp(-((x - loc) / scale)), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.sf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.sf(0.5).round(3)
    Array(0.455, dtype=float32, weak_type=True)
    """
    ordered("gumbel_r.sf", x, loc, scale)
    x, loc, scale = strong("gumbel_r.sf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.expm1(-jnp.exp(-(x - loc) / scale)), np.nan)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.logsf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.logsf(0.5).round(3)
    Array(-0.788, dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("gumbel_r.logsf", x, loc, scale)
    return jnp.where(scale > 0, log1mexp(jnp.exp(-(x - loc) / scale)), np.nan)


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is p.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gumbel_r.ppf`.

    >>> from pullback.scipy.stats import gumbel_r
    >>> gumbel_r.ppf(0.25).round(3)
    Array(-0.327, dtype=float32, weak_type=True)
    """
    p, loc, scale = ordered("gumbel_r.ppf", p, loc, scale)
    return jnp.where((p > 0) & (p < 1), loc - scale * jnp.log(-jnp.log(p)), np.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
