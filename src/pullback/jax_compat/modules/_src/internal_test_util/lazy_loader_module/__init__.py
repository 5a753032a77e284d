"""A package whose module is imported when it is first asked for: what the tests of `lazy_loader`
look at."""

from __future__ import annotations

from ...lazy_loader import attach

__getattr__, __dir__, __all__ = attach(
    "jax._src.internal_test_util.lazy_loader_module", ["lazy_test_submodule"]
)
