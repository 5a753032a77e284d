"""Integration of sampled functions."""

from __future__ import annotations

import functools
from typing import Any

from .. import numpy as jnp
from ..api.jit import jit

__all__ = ["trapezoid"]


@functools.partial(jit, static_argnames=("axis",))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples along `axis` by the trapezoidal rule, at the points `x` or with
    spacing `dx`.

    >>> pb.scipy.integrate.trapezoid(jnp.array([0., 1., 2.]))
    Array(2., dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)
