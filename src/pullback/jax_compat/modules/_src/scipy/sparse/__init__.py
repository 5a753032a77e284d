"""`jax._src.scipy.sparse`: what `jax.scipy.sparse` has."""

from __future__ import annotations

from ......scipy import sparse
from ...searched import searched

__getattr__ = searched("jax._src.scipy.sparse", sparse)
