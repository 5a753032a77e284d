"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.avals import typeof
from ...numpy.util import to_type
from ..special.basic import aligned, ordered


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.uniform.logpdf`.

    >>> from pullback.scipy.stats import uniform
    >>> uniform.logpdf(0.5).round(3)
    Array(-0., dtype=float32, weak_type=True)
    """
    x, loc, scale = ordered("uniform.logpdf", x, loc, scale)
    log = -jnp.log(scale)
    return jnp.where((x > loc + scale) | (x < loc), -np.inf, log)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density at x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.uniform.pdf`.

    >>> from pullback.scipy.stats import uniform
    >>> uniform.pdf(0.5).round(3)
    Array(1., dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value up to x.

    `x`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.uniform.cdf`.

    >>> from pullback.scipy.stats import uniform
    >>> uniform.cdf(0.5).round(3)
    Array(0.5, dtype=float32)
    """
    x, loc, scale = ordered("uniform.cdf", x, loc, scale)
    inside = (x >= loc) & (x <= loc + scale)
    out = jnp.where(inside, (x - loc) / scale, jnp.where((x >= loc) & (x > loc + scale), 1, 0))
    out = jnp.where(jnp.isnan(x), np.nan, out)
    return to_type(out, typeof(out).dtype, False)


def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The value below which the probability is q.

    `q`, `loc`, `scale`: real arrays, broadcast against one another; the result is float. As
    `scipy.stats.uniform.ppf`.

    >>> from pullback.scipy.stats import uniform
    >>> uniform.ppf(0.25).round(3)
    Array(0.25, dtype=float32, weak_type=True)
    """
    q, loc, scale = aligned("uniform.ppf", q, loc, scale)
    return jnp.where(jnp.isnan(q) | (q < 0) | (q > 1), np.nan, loc + scale * q)


__all__ = ["cdf", "logpdf", "pdf", "ppf"]
