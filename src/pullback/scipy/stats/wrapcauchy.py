"""The wrapped Cauchy distribution on [0, 2 pi]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact


def logpdf(x: Any, c: Any) -> Any:
    """The logarithm of the density at x."""
    x, c = inexact("wrapcauchy.logpdf", x, c)
    log = jnp.log1p(-(c * c)) - math.log(2 * math.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x))
    inside = (x >= 0) & (x <= 2 * math.pi)
    return jnp.where((c > 0) & (c < 1), jnp.where(inside, log, -np.inf), np.nan)


def pdf(x: Any, c: Any) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, c))


__all__ = ["logpdf", "pdf"]
