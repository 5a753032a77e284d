"""The negative binomial distribution: failures before n successes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong, xlog1py, xlogy
from ..special.gammas import gammaln


def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `n`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.nbinom.logpmf`.

    >>> from pullback.scipy.stats import nbinom
    >>> nbinom.logpmf(2, 3, 0.5).round(4)
    Array(-1.674, dtype=float32, weak_type=True)
    """
    k, n, p, loc = strong("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    inside = ~(y < 0)
    y = jnp.where(inside, y, 0)
    log = gammaln(y + n) - gammaln(y + 1) - gammaln(n) + xlogy(n, p) + xlog1py(y, -p)
    return jnp.where(inside, log, -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `n`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.nbinom.pmf`.

    >>> from pullback.scipy.stats import nbinom
    >>> nbinom.pmf(2, 3, 0.5).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]
