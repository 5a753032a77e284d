"""`jax._src.tpu.linalg`: polar factors and what is made of them."""

from __future__ import annotations

from ......lax import polar
from . import stack as stack, svd as svd

qdwh = polar
