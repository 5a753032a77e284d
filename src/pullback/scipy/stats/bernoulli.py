"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong, xlog1py, xlogy


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k."""
    k, p, loc = strong("bernoulli.logpmf", k, p, loc)
    x = k - loc
    return jnp.where((x < 0) | (x > 1), -np.inf, xlogy(x, p) + xlog1py(1 - x, -p))


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """The probability of a value up to k."""
    k, p = strong("bernoulli.cdf", k, p)
    inside = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return jnp.where(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), np.nan, inside)


def ppf(q: Any, p: Any) -> Any:
    """The value below which the probability is q."""
    q, p = strong("bernoulli.ppf", q, p)
    value = jnp.where(q <= 1 - p, 0 * q, 1)
    return jnp.where(
        jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1), np.nan, value
    )


__all__ = ["cdf", "logpmf", "pmf", "ppf"]
