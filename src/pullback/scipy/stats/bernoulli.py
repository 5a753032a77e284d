"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong, xlog1py, xlogy


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.bernoulli.logpmf`.

    >>> from pullback.scipy.stats import bernoulli
    >>> bernoulli.logpmf(1, 0.25).round(3)
    Array(-1.386, dtype=float32, weak_type=True)
    """
    k, p, loc = strong("bernoulli.logpmf", k, p, loc, compared=True)
    x = k - loc
    return jnp.where((x < 0) | (x > 1), -np.inf, xlogy(x, p) + xlog1py(1 - x, -p))


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.bernoulli.pmf`.

    >>> from pullback.scipy.stats import bernoulli
    >>> bernoulli.pmf(1, 0.25).round(3)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """The probability of a value up to k.

    `k`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.bernoulli.cdf`.

    >>> from pullback.scipy.stats import bernoulli
    >>> bernoulli.cdf(0, 0.25).round(3)
    Array(0.75, dtype=float32, weak_type=True)
    """
    k, p = strong("bernoulli.cdf", k, p, compared=True)
    inside = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return jnp.where(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), np.nan, inside)


def ppf(q: Any, p: Any) -> Any:
    """The value below which the probability is q.

    `q`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.bernoulli.ppf`.

    >>> from pullback.scipy.stats import bernoulli
    >>> bernoulli.ppf(0.9, 0.25).round(3)
    Array(1., dtype=float32, weak_type=True)
    """
    q, p = strong("bernoulli.ppf", q, p, compared=True)
    value = jnp.where(q <= 1 - p, 0 * q, 1)
    return jnp.where(
        jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1), np.nan, value
    )


__all__ = ["cdf", "logpmf", "pmf", "ppf"]
