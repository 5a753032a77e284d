"""The multinomial distribution: counts of n trials with probabilities p along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes, numpy as jnp
from ...core.avals import typeof
from ..special.basic import inexact, xlogy
from ..special.gammas import gammaln


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """The logarithm of the probability of the counts x; -inf unless they are not negative and their
    sum is n.

    `x`: integers (..., k), `n`: integers (...), `p`: (k,), floats that sum to 1; the result is
    float, (...). As `scipy.stats.multinomial.logpmf`.

    >>> from pullback.scipy.stats import multinomial
    >>> multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5])).round(3)
    Array(-0.981, dtype=float32)
    """
    (p,) = inexact("multinomial.logpmf", p)
    x, n = jnp.asarray(x), jnp.asarray(n)
    if not dtypes.is_integer(jnp.result_type(x, n)):
        raise ValueError(
            "x and n must be of integer type; got "
            f"x.dtype={typeof(x).dtype.name}, n.dtype={typeof(n).dtype.name}"
        )
    counts = x.astype(typeof(p).dtype)
    log = gammaln(n.astype(typeof(p).dtype) + 1) + jnp.sum(
        xlogy(counts, p) - gammaln(counts + 1), axis=-1
    )
    return jnp.where(jnp.equal(jnp.sum(x, axis=-1), n) & jnp.all(x >= 0, axis=-1), log, -np.inf)


def pmf(x: Any, n: Any, p: Any) -> Any:
    """The probability of the counts x.

    `x`: integers (..., k), `n`: integers (...), `p`: (k,), floats that sum to 1; the result is
    float, (...). As `scipy.stats.multinomial.pmf`.

    >>> from pullback.scipy.stats import multinomial
    >>> multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5])).round(3)
    Array(0.375, dtype=float32)
    """
    return jnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
