"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k."""
    k, p, loc = inexact("bernoulli.logpmf", k, p, loc)
    x = k - loc
    terms = jnp.where(x == 0, jnp.log1p(-p), jnp.where(x == 1, jnp.log(p), -np.inf))
    return jnp.where((p >= 0) & (p <= 1), terms, np.nan)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: Any, p: Any) -> Any:
    """The probability of a value up to k."""
    k, p = inexact("bernoulli.cdf", k, p)
    inside = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)).astype(p.dtype)
    return jnp.where(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), np.nan, inside)


def ppf(q: Any, p: Any) -> Any:
    """The value below which the probability is q."""
    q, p = inexact("bernoulli.ppf", q, p)
    value = jnp.where(q <= 1 - p, 0, 1).astype(q.dtype)
    return jnp.where(
        jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1), np.nan, value
    )


__all__ = ["cdf", "logpmf", "pmf", "ppf"]
