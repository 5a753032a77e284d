"""`jax._src.scipy.optimize`: what `jax.scipy.optimize` has."""

from __future__ import annotations

from ......scipy import optimize
from ...searched import searched

__getattr__ = searched("jax._src.scipy.optimize", optimize)
