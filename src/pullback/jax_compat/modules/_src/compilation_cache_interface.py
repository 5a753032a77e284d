"""`jax._src.compilation_cache_interface`: what a cache of compiled programs offers."""

from __future__ import annotations

import abc
import os
from pathlib import Path


class CacheInterface(abc.ABC):
    """A cache: values, which are bytes, by keys, which are text."""

    _path: Path | os.PathLike[str]

    @abc.abstractmethod
    def get(self, key: str) -> bytes | None:
        """The value of a key; None if there is none."""

    @abc.abstractmethod
    def put(self, key: str, value: bytes) -> None:
        """Keeps a value."""
