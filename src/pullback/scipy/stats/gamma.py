"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact, strong, xlogy
from ..special.gammas import gammainc, gammaincc, gammaln


def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x."""
    x, a, loc, scale = strong("gamma.logpdf", x, a, loc, scale)
    y = (x - loc) / scale
    inside = y >= 0
    log = xlogy(a - 1, jnp.where(inside, y, 1)) - y - gammaln(a) - jnp.log(scale)
    return jnp.where(inside, log, -np.inf)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x."""
    x, a, loc, scale = strong("gamma.cdf", x, a, loc, scale)
    return gammainc(a, jnp.maximum((x - loc) / scale, 0))


def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x."""
    return jnp.log(cdf(x, a, loc, scale))


def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x."""
    x, a, loc, scale = inexact("gamma.sf", x, a, loc, scale)
    return gammaincc(a, jnp.maximum((x - loc) / scale, 0))


def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x."""
    return jnp.log(sf(x, a, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
