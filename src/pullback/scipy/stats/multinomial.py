"""The multinomial distribution: counts of n trials with probabilities p along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ... import numpy as jnp
from ...core.avals import typeof
from ..special.basic import inexact, xlogy
from ..special.gammas import gammaln


def logpmf(x: Any, n: Any, p: Any) -> Any:
    """The logarithm of the probability of the counts x; -inf unless they are not negative and their
    sum is n.
    """
    (p,) = inexact("multinomial.logpmf", p)
    x, n = jnp.asarray(x), jnp.asarray(n)
    if not (dtypes.is_integer(typeof(x).dtype) and dtypes.is_integer(typeof(n).dtype)):
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
    """The probability of the counts x."""
    return jnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
