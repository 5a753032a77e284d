"""The beta-binomial distribution: n trials whose probability is beta(a, b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong
from ..special.gammas import betaln


def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k."""
    k, n, a, b, loc = strong("betabinom.logpmf", k, n, a, b, loc)
    y = jnp.floor(k - loc)
    inside = (y >= 0) & (y <= n)
    y = jnp.where(inside, y, 0)
    log = -jnp.log1p(n) - betaln(n - y + 1, y + 1) + betaln(y + a, n - y + b) - betaln(a, b)
    log = jnp.where(inside, log, -np.inf)
    return jnp.where((n >= 0) & (a > 0) & (b > 0), log, np.nan)


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return jnp.exp(logpmf(k, n, a, b, loc))


__all__ = ["logpmf", "pmf"]
