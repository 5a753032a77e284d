"""`jax._src`: the few private names that libraries reach for."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """A submodule that nobody has imported yet: in JAX all of them are."""
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"jax._src.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"jax._src.{name}":
                raise
    raise AttributeError(f"module 'jax._src' has no attribute {name!r}")
