"""The binomial distribution: successes in n trials of probability p."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact, xlog1py, xlogy
from ..special.gammas import gammaln


def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `n`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.binom.logpmf`.

    >>> from pullback.scipy.stats import binom
    >>> binom.logpmf(2, 4, 0.5).round(3)
    Array(-0.981, dtype=float32, weak_type=True)
    """
    k, n, p, loc = inexact("binom.logpmf", k, n, p, loc)
    y = k - loc
    # For a number of trials that is no integer the formula holds up to n + 1, where its pole is.
    inside = ~((y < 0) | (y >= n + 1))
    y = jnp.where(inside, y, 0)
    log = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1) + xlogy(y, p) + xlog1py(n - y, -p)
    return jnp.where(inside, log, -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `n`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.binom.pmf`.

    >>> from pullback.scipy.stats import binom
    >>> binom.pmf(2, 4, 0.5).round(3)
    Array(0.375, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]
