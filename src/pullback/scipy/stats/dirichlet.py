"""The Dirichlet distribution on the simplex."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.avals import typeof
from ..special.basic import inexact, xlogy
from ..special.gammas import gammaln


def logpdf(x: Any, alpha: Any) -> Any:
    """The logarithm of the density at x, whose first axis has the size of alpha, or one less (the
    last follows from the sum 1).

    Raises ValueError for shapes that do not fit.

    `x`: (n,) or (n, k), points of the simplex, `alpha`: (n,), positive; the result is float, a
    scalar or (k,). As `scipy.stats.dirichlet.logpdf`.

    >>> from pullback.scipy.stats import dirichlet
    >>> dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), jnp.array([1., 2., 3.])).round(3)
    Array(1.504, dtype=float32)
    """
    x, alpha = inexact("dirichlet.logpdf", x, alpha)
    if typeof(alpha).ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={typeof(alpha).shape}")
    n, k = typeof(alpha).shape[0], typeof(x).shape[0] if typeof(x).ndim else 0
    if k not in (n, n - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={typeof(x).shape}, alpha.shape={typeof(alpha).shape}"
        )
    if k == n - 1:
        x = jnp.concatenate([x, 1 - jnp.sum(x, axis=0, keepdims=True)])
    inside = jnp.all(x > 0, axis=0) & (jnp.abs(jnp.sum(x, axis=0) - 1) < 1e-6)
    shaped = jnp.reshape(alpha, (n,) + (1,) * (typeof(x).ndim - 1))
    scale = jnp.sum(gammaln(alpha)) - gammaln(jnp.sum(alpha))
    log = jnp.sum(xlogy(shaped - 1, x), axis=0) - scale
    return jnp.where(inside, log, -np.inf)


def pdf(x: Any, alpha: Any) -> Any:
    """The density at x.

    `x`: (n,) or (n, k), points of the simplex, `alpha`: (n,), positive; the result is float, a
    scalar or (k,). As `scipy.stats.dirichlet.pdf`.

    >>> from pullback.scipy.stats import dirichlet
    >>> dirichlet.pdf(jnp.array([0.2, 0.3, 0.5]), jnp.array([1., 2., 3.])).round(3)
    Array(4.5, dtype=float32)
    """
    return jnp.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]
