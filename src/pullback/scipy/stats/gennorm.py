"""The generalised normal distribution of shape beta."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact
from ..special.gammas import gammaincc, gammaln


def logpdf(x: Any, beta: Any) -> Any:
    """The logarithm of the density at x.

    `x`, `beta`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gennorm.logpdf`.

    >>> from pullback.scipy.stats import gennorm
    >>> gennorm.logpdf(0.5, 1.).round(3)
    Array(-1.193, dtype=float32, weak_type=True)
    """
    x, beta = inexact("gennorm.logpdf", x, beta)
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def pdf(x: Any, beta: Any) -> Any:
    """The density at x.

    `x`, `beta`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gennorm.pdf`.

    >>> from pullback.scipy.stats import gennorm
    >>> gennorm.pdf(0.5, 1.).round(3)
    Array(0.303, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, beta))


def cdf(x: Any, beta: Any) -> Any:
    """The probability of a value up to x.

    `x`, `beta`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.gennorm.cdf`.

    >>> from pullback.scipy.stats import gennorm
    >>> gennorm.cdf(0.5, 1.).round(3)
    Array(0.697, dtype=float32, weak_type=True)
    """
    x, beta = inexact("gennorm.cdf", x, beta)
    above = 0.5 * gammaincc(1 / beta, jnp.abs(x) ** beta)
    return jnp.where(beta > 0, jnp.where(x < 0, above, 1 - above), np.nan)


__all__ = ["cdf", "logpdf", "pdf"]
