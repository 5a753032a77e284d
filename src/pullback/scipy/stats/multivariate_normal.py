"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as jnp
from ...core.avals import typeof
from ...primitives import linalg as lax_linalg
from ..special.basic import inexact


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """The logarithm of the density at x, vectors along the last axis; `cov` a matrix, or a
    variance.

    Raises ValueError for shapes that do not fit, NotImplementedError for allow_singular.

    `x`: (..., d), `mean`: (..., d) or a scalar, `cov`: (..., d, d) or a scalar; the result is
    float, (...). As `scipy.stats.multivariate_normal.logpdf`.

    >>> from pullback.scipy.stats import multivariate_normal
    >>> multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(3)
    Array(-1.838, dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf. Fix: leave it out, or add a "
            "small multiple of the identity to cov."
        )
    x, mean, cov = inexact("multivariate_normal.logpdf", x, mean, cov)
    if not typeof(mean).shape:
        return -0.5 * jnp.square(x - mean) / cov - 0.5 * (math.log(2 * math.pi) + jnp.log(cov))
    n = typeof(mean).shape[-1]
    if not typeof(cov).shape:
        y = x - mean
        return -0.5 * jnp.sum(y * y, axis=-1) / cov - n / 2 * (math.log(2 * math.pi) + jnp.log(cov))
    if typeof(cov).ndim < 2 or typeof(cov).shape[-2:] != (n, n):
        raise ValueError("multivariate_normal.logpdf got incompatible shapes")
    factor = lax_linalg.cholesky(cov)
    batch = jnp.broadcast_shapes(
        typeof(x).shape[:-1], typeof(mean).shape[:-1], typeof(factor).shape[:-2]
    )
    y = jnp.broadcast_to(x - mean, (*batch, n))
    wide = jnp.broadcast_to(factor, (*batch, n, n))
    z = lax_linalg.triangular_solve(wide, y[..., None], left_side=True, lower=True)[..., 0]
    logdet = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-1, axis2=-2)), axis=-1)
    return -0.5 * jnp.sum(z * z, axis=-1) - n / 2 * math.log(2 * math.pi) - logdet


def pdf(x: Any, mean: Any, cov: Any) -> Any:
    """The density at x.

    `x`: (..., d), `mean`: (..., d) or a scalar, `cov`: (..., d, d) or a scalar; the result is
    float, (...). As `scipy.stats.multivariate_normal.pdf`.

    >>> from pullback.scipy.stats import multivariate_normal
    >>> multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(3)
    Array(0.159, dtype=float32)
    """
    return jnp.exp(logpdf(x, mean, cov))


__all__ = ["logpdf", "pdf"]
