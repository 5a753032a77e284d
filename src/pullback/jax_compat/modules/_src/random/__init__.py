"""`jax._src.random`: the generators of random bits."""

from __future__ import annotations

from ..... import random
from .....primitives import rng
from ..searched import searched

__getattr__ = searched("jax._src.random", random, rng)
