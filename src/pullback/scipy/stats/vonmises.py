"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as jnp
from ..special.basic import inexact
from ..special.bessel import i0e


def logpdf(x: Any, kappa: Any) -> Any:
    """The logarithm of the density at x."""
    x, kappa = inexact("vonmises.logpdf", x, kappa)
    return jnp.where(
        kappa > 0, kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * i0e(kappa)), np.nan
    )


def pdf(x: Any, kappa: Any) -> Any:
    """The density at x."""
    return jnp.exp(logpdf(x, kappa))


__all__ = ["logpdf", "pdf"]
