"""`jax`: Pullback's public names under JAX's module name and version."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pullback

from ...removed import no_attribute
from .. import JAX_VERSION

__version__ = JAX_VERSION
__version_info__ = tuple(int(part) for part in JAX_VERSION.split("."))
__all__ = list(pullback.__all__)

# A package without a folder: its submodules come from the finder alone.
__path__: list[str] = []


def __getattr__(name: str) -> Any:
    if name in pullback.__all__ and name != "version":  # JAX's version is not Pullback's
        value = getattr(pullback, name)
        module = sys.modules.get(f"pullback.{name}")
        if module is not None and module is value:
            sys.modules[f"jax.{name}"] = module
        return value
    if not name.startswith("__") and "jax" in sys.modules:
        try:
            return importlib.import_module(f"jax.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"jax.{name}":
                raise
    raise no_attribute("jax", name)


def __dir__() -> list[str]:
    return sorted({*pullback.__all__, "__version__", "__version_info__"})
