"""`jax._src.layout`: layouts of arrays in memory."""

from __future__ import annotations

from .... import sharding
from ....experimental import layout
from ....runtime import layouts
from .searched import searched

__getattr__ = searched("jax._src.layout", layout, layouts, sharding)
