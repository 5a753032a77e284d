"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as jnp
from ..special.basic import inexact, log_ndtr, ndtr, ndtri, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x."""
    x, loc, scale = strong("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * (z * z + math.log(2 * math.pi)) - jnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x."""
    x, loc, scale = inexact("norm.cdf", x, loc, scale)
    return ndtr((x - loc) / scale)


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x."""
    x, loc, scale = inexact("norm.logcdf", x, loc, scale)
    return log_ndtr((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x."""
    x, loc, scale = inexact("norm.sf", x, loc, scale)
    return ndtr(-(x - loc) / scale)


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x."""
    x, loc, scale = inexact("norm.logsf", x, loc, scale)
    return log_ndtr(-(x - loc) / scale)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q."""
    q, loc, scale = inexact("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is q."""
    q, loc, scale = inexact("norm.isf", q, loc, scale)
    return ndtri(1 - q) * scale + loc


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
