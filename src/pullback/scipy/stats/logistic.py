"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from ... import numpy as jnp
from ..special.basic import expit, inexact, logit, strong


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x."""
    x, loc, scale = strong("logistic.logpdf", x, loc, scale)
    half = (x - loc) / (2 * scale)
    return -2 * jnp.logaddexp(half, -half) - jnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x."""
    x, loc, scale = inexact("logistic.cdf", x, loc, scale)
    return expit((x - loc) / scale)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x."""
    x, loc, scale = inexact("logistic.sf", x, loc, scale)
    return expit(-(x - loc) / scale)


def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is x."""
    x, loc, scale = strong("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value above which the probability is x."""
    x, loc, scale = strong("logistic.isf", x, loc, scale)
    return -logit(x) * scale + loc


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
