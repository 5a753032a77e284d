"""The beta-binomial distribution: n trials whose probability is beta(a, b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...api.jit import jit
from ..special.basic import strong
from ..special.gammas import betaln


@jit
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `n`, `a`, `b`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.betabinom.logpmf`.

    >>> from pullback.scipy.stats import betabinom
    >>> betabinom.logpmf(1, 4, 2., 3.).round(3)
    Array(-1.253, dtype=float32, weak_type=True)
    """
    k, n, a, b, loc = strong("betabinom.logpmf", k, n, a, b, loc, like=(0, 4))
    y = jnp.floor(k) - loc
    inside = ~((y < 0) | (y > n))
    y = jnp.where(inside, y, 0)
    log = -jnp.log1p(n) - betaln(n - y + 1, y + 1) + betaln(y + a, n - y + b) - betaln(a, b)
    log = jnp.where(inside, log, -np.inf)
    return jnp.where((n >= 0) & (a > 0) & (b > 0), log, np.nan)


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `n`, `a`, `b`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.betabinom.pmf`.

    >>> from pullback.scipy.stats import betabinom
    >>> betabinom.pmf(1, 4, 2., 3.).round(3)
    Array(0.286, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, a, b, loc))


__all__ = ["logpmf", "pmf"]
