"""Names that JAX keeps under `jax.experimental`."""

from __future__ import annotations

import importlib
from typing import Any

from ..primitives.callback import io_callback as io_callback
from . import compilation_cache as compilation_cache

__all__ = ["io_callback"]

_LAZY = {"cur_qdd": "hijax", "primal_tangent_dtype": "primal_tangent"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
