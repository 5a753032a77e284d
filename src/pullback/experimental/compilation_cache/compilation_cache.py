"""Compiled code on disk: where it is kept."""

from __future__ import annotations

import os
from typing import Any

from ... import config
from ...backends.llvm.cache import forget_caches

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: Any) -> None:
    """Code that is compiled from now on is kept in the directory `path` (in a part of it that is
    made, and for this user alone), and looked for there; None: where it was without this.

    The same as `config.update("jax_compilation_cache_dir", path)`. TypeError if it is no path.

    >>> from pullback.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.set_cache_dir("/tmp/compiled")
    >>> pb.config.jax_compilation_cache_dir
    '/tmp/compiled'
    >>> compilation_cache.set_cache_dir(None)
    """
    config.update("jax_compilation_cache_dir", None if path is None else os.fspath(path))


def reset_cache() -> None:
    """Directories that were found unusable are looked at again; what is in them stays.

    >>> from pullback.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.reset_cache()
    """
    forget_caches()
