"""The geometric distribution: the number of the first success."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong, xlog1py


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k.

    `k`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.geom.logpmf`.

    >>> from pullback.scipy.stats import geom
    >>> geom.logpmf(2, 0.5).round(3)
    Array(-1.386, dtype=float32, weak_type=True)
    """
    k, p, loc = strong("geom.logpmf", k, p, loc, compared=True)
    y = k - loc
    log = xlog1py(y - 1, -p) + jnp.log(p)
    return jnp.where(y <= 0, -np.inf, log)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k.

    `k`, `p`, `loc`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.geom.pmf`.

    >>> from pullback.scipy.stats import geom
    >>> geom.pmf(2, 0.5).round(3)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


__all__ = ["logpmf", "pmf"]
