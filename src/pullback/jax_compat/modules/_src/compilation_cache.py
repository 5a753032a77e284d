"""`jax._src.compilation_cache`: whether compiled programs are kept on disk."""

from __future__ import annotations

from ....backends.llvm.cache import disk_cache


def is_persistent_cache_enabled() -> bool:
    """Whether they are."""
    return disk_cache() is not None
