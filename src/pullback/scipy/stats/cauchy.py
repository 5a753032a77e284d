"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as jnp
from ..special.basic import strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x."""
    x, loc, scale = strong("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.log(math.pi * scale) - jnp.log1p(z * z)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x."""
    x, loc, scale = strong("cauchy.cdf", x, loc, scale)
    return 0.5 + jnp.arctan((x - loc) / scale) / math.pi


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x."""
    return jnp.log(cdf(x, loc, scale))


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x."""
    x, loc, scale = strong("cauchy.sf", x, loc, scale)
    return 0.5 - jnp.arctan((x - loc) / scale) / math.pi


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x."""
    return jnp.log(sf(x, loc, scale))


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q."""
    q, loc, scale = strong("cauchy.ppf", q, loc, scale)
    return jnp.tan(math.pi * (q - 0.5)) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is q."""
    q, loc, scale = strong("cauchy.isf", q, loc, scale)
    return jnp.tan(math.pi * (0.5 - q)) * scale + loc


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
