"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as jnp
from ..special.basic import strong
from ..special.gammas import gammaln


def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.t.logpdf`.

    >>> from pullback.scipy.stats import t
    >>> t.logpdf(0.5, 3.).round(3)
    Array(-1.161, dtype=float32, weak_type=True)
    """
    x, df, loc, scale = strong("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = df / 2
    above = half + 0.5
    root = jnp.log(scale * scale * math.pi * df) / 2
    normaliser = gammaln(half) + root - gammaln(above)
    return -(normaliser + above * jnp.log1p(z * z / df))


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `df`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.t.pdf`.

    >>> from pullback.scipy.stats import t
    >>> t.pdf(0.5, 3.).round(3)
    Array(0.313, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


__all__ = ["logpdf", "pdf"]
