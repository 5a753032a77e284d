"""The geometric distribution: the number of the first success."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import strong, xlog1py


def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k."""
    k, p, loc = strong("geom.logpmf", k, p, loc)
    y = k - loc
    log = xlog1py(y - 1, -p) + jnp.log(p)
    return jnp.where(y <= 0, -np.inf, log)


def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return jnp.exp(logpmf(k, p, loc))


__all__ = ["logpmf", "pmf"]
