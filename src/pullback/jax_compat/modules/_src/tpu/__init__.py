"""`jax._src.tpu`: linear algebra by products, as processors without other means compute it."""

from __future__ import annotations

from . import linalg as linalg
