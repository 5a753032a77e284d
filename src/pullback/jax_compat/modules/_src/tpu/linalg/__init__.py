"""`jax._src.tpu.linalg`: polar factors and what is made of them."""

from __future__ import annotations

from . import qdwh as qdwh, stack as stack, svd as svd
