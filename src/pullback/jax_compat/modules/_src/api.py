"""`jax._src.api`: the transformations."""

from __future__ import annotations

from typing import Any

import pullback

from ....api.derivatives import _check_scalar as _check_scalar
from ....api.jacobians import std_basis as _std_basis  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in pullback.__all__:
        return getattr(pullback, name)
    raise AttributeError(f"module 'jax._src.api' has no attribute {name!r}")
