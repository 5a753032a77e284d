"""The wrapped Cauchy distribution on [0, 2 pi]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import ordered


def logpdf(x: Any, c: Any) -> Any:
    """The logarithm of the density at x.

    `x`, `c`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.wrapcauchy.logpdf`.

    >>> from pullback.scipy.stats import wrapcauchy
    >>> wrapcauchy.logpdf(0.5, 0.5).round(3)
    Array(-1.138, dtype=float32, weak_type=True)
    """
    x, c = ordered("wrapcauchy.logpdf", x, c)
    log = jnp.log1p(-(c * c)) - math.log(2 * math.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x))
    inside = ~((x < 0) | (x > 2 * math.pi))
    return jnp.where((c > 0) & (c < 1), jnp.where(inside, log, -np.inf), np.nan)


def pdf(x: Any, c: Any) -> Any:
    """The density at x.

    `x`, `c`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.wrapcauchy.pdf`.

    >>> from pullback.scipy.stats import wrapcauchy
    >>> wrapcauchy.pdf(0.5, 0.5).round(3)
    Array(0.321, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, c))


__all__ = ["logpdf", "pdf"]
