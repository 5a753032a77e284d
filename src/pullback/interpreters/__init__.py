"""The open tables of rules, and what interpreters of programs are made of, under JAX's names."""

from __future__ import annotations

import importlib
from typing import Any

from ..lax import all_primitives as _all_primitives  # noqa: F401 (the tables have their rules)

_MODULES = frozenset("ad batching mlir partial_eval pxla traceback_util xla".split())


def __getattr__(name: str) -> Any:
    """A submodule that nobody has imported yet."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
