"""`jax._src.scipy`: what `jax.scipy` has."""

from __future__ import annotations

from ..... import scipy
from ..searched import searched

__getattr__ = searched("jax._src.scipy", scipy)
