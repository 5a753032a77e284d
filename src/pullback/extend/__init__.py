"""What libraries that extend Pullback use: programs and primitives, wrapped functions, generators
of random bits, source locations, the xla backend.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = frozenset(
    "backend core linear_util lowering mlir pallas random sharding source_info_util xla".split()
)


def __getattr__(name: str) -> Any:
    """A submodule that nobody has imported yet."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
