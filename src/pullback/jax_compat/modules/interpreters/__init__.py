"""`jax.interpreters`: the open tables of rules."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """A submodule that nobody has imported yet: `import jax` loads them all."""
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"jax.interpreters.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"jax.interpreters.{name}":
                raise
    raise AttributeError(f"module 'jax.interpreters' has no attribute {name!r}")
