"""`jax._src.lazy_loader`: submodules that are imported when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any


def attach(
    package_name: str, submodules: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package writes as its `__getattr__`, `__dir__` and `__all__`."""
    names = list(submodules)

    def get(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package_name}.{name}")
        raise AttributeError(f"module {package_name!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return names

    return get, listed, names
