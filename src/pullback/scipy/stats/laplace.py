"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from ... import numpy as jnp
from ..special.basic import ordered, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.laplace.logpdf`.

    >>> from pullback.scipy.stats import laplace
    >>> laplace.logpdf(0.5).round(3)
    Array(-1.193, dtype=float32, weak_type=True)
    """
    ordered("laplace.logpdf", x, loc, scale)
    x, loc, scale = strong("laplace.logpdf", x, loc, scale)
    return -(jnp.abs(x - loc) / scale + jnp.log(2 * scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.laplace.pdf`.

    >>> from pullback.scipy.stats import laplace
    >>> laplace.pdf(0.5).round(3)
    Array(0.303, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.laplace.cdf`.

    >>> from pullback.scipy.stats import laplace
    >>> laplace.cdf(0.5).round(3)
    Array(0.697, dtype=float32, weak_type=True)
    """
    ordered("laplace.cdf", x, loc, scale)
    x, loc, scale = strong("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    below = z <= 0
    half = 0.5 * jnp.exp(jnp.where(below, z, -z))
    return jnp.where(below, half, 1 - half)


__all__ = ["cdf", "logpdf", "pdf"]
