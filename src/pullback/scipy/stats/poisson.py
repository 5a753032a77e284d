"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as jnp
from ...api.jit import jit
from ..special.basic import inexact, strong, xlogy
from ..special.gammas import gammaincc, gammaln


def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `mu`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.poisson.logpmf`.

    >>> from pullback.scipy.stats import poisson
    >>> poisson.logpmf(1, 2.).round(3)
    Array(-1.307, dtype=float32, weak_type=True)
    """
    k, mu, loc = inexact("poisson.logpmf", k, mu, loc)
    y = k - loc
    outside = (y < 0) | ((jnp.round(k) != k) & (k == k))
    safe = jnp.where(outside, 0, y)
    return jnp.where(outside, -np.inf, xlogy(safe, mu) - gammaln(safe + 1) - mu)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `mu`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.poisson.pmf`.

    >>> from pullback.scipy.stats import poisson
    >>> poisson.pmf(1, 2.).round(3)
    Array(0.271, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of a value up to k.

    `k`, `mu`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.poisson.cdf`.

    >>> from pullback.scipy.stats import poisson
    >>> poisson.cdf(1, 2.).round(3)
    Array(0.406, dtype=float32, weak_type=True)
    """
    k, mu, loc = strong("poisson.cdf", k, mu, loc)
    y = k - loc
    return jnp.where(y < 0, 0, gammaincc(jnp.floor(1 + jnp.maximum(y, 0)), mu))


@jit
def entropy(mu: Any, loc: Any = 0) -> Any:
    """The entropy, in nats.

    `mu`, `loc`: real arrays, broadcast against each other; the result is float. As
    `scipy.stats.poisson.entropy`.

    >>> from pullback.scipy.stats import poisson
    >>> poisson.entropy(2.).round(3)
    Array(1.705, dtype=float32)
    """
    mu, loc = inexact("poisson.entropy", mu, loc)
    # Up to 100 by summation, above by the asymptotic series.
    small = jnp.where(mu < 100, mu, 1)
    counts = jnp.arange(200).astype(mu.dtype)
    log = xlogy(counts, small[..., None]) - gammaln(counts + 1) - small[..., None]
    direct = -jnp.sum(jnp.exp(log) * log, axis=-1)
    large = jnp.where(mu < 100, 100, mu)
    series = (
        0.5 * jnp.log(2 * math.pi * math.e * large)
        - 1 / (12 * large)
        - 1 / (24 * large**2)
        - 19 / (360 * large**3)
    )
    value = jnp.where(mu < 100, direct, series)
    return jnp.where(mu == 0, 0, jnp.where(mu < 0, np.nan, value)) + 0 * loc


__all__ = ["cdf", "entropy", "logpmf", "pmf"]
