"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact


def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x."""
    x, b, loc, scale = inexact("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    log = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.where(inside, z, 1))
    return jnp.where(inside, log, -np.inf)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x."""
    x, b, loc, scale = inexact("pareto.cdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    return jnp.where(inside, 1 - jnp.where(inside, z, 1) ** (-b), 0)


def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value up to x."""
    x, b, loc, scale = inexact("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    return jnp.where(inside, jnp.log1p(-(jnp.where(inside, z, 1) ** (-b))), -np.inf)


def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value above x."""
    x, b, loc, scale = inexact("pareto.sf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    return jnp.where(inside, jnp.where(inside, z, 1) ** (-b), 1)


def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the probability of a value above x."""
    x, b, loc, scale = inexact("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    inside = z >= 1
    return jnp.where(inside, -b * jnp.log(jnp.where(inside, z, 1)), 0)


def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q."""
    q, b, loc, scale = inexact("pareto.ppf", q, b, loc, scale)
    return jnp.where((q >= 0) & (q <= 1), (1 - q) ** (-1 / b) * scale + loc, np.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
