"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact
from ..special.bessel import i0e


def logpdf(x: Any, kappa: Any) -> Any:
    """The logarithm of the density at x.

    `x`, `kappa`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.vonmises.logpdf`.

    >>> from pullback.scipy.stats import vonmises
    >>> vonmises.logpdf(0.5, 2.).round(3)
    Array(-0.907, dtype=float32, weak_type=True)
    """
    x, kappa = inexact("vonmises.logpdf", x, kappa)
    return jnp.where(
        kappa > 0, kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * i0e(kappa)), np.nan
    )


def pdf(x: Any, kappa: Any) -> Any:
    """The density at x.

    `x`, `kappa`, `loc`, `scale`: real arrays, broadcast against one another; the result is float.
    As `scipy.stats.vonmises.pdf`.

    >>> from pullback.scipy.stats import vonmises
    >>> vonmises.pdf(0.5, 2.).round(3)
    Array(0.404, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, kappa))


__all__ = ["logpdf", "pdf"]
