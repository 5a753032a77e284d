"""Names of a private module that are elsewhere under the same names."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def searched(name: str, *modules: ModuleType) -> Callable[[str], Any]:
    """A module's `__getattr__`, which looks into others in their order."""

    def get(wanted: str) -> Any:
        if not wanted.startswith("__"):
            for module in modules:
                if hasattr(module, wanted):
                    return getattr(module, wanted)
        raise AttributeError(f"module {name!r} has no attribute {wanted!r}")

    return get
