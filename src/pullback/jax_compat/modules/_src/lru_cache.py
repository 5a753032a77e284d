"""`jax._src.lru_cache`: values in a directory, of bounded size; what was not asked for longest goes
first. Bounded ones need the package filelock."""

from __future__ import annotations

import importlib.util
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ....lazy_imports import lazy_module
from .compilation_cache_interface import CacheInterface

filelock: Any = lazy_module("filelock") if importlib.util.find_spec("filelock") else None

_CACHE_SUFFIX = "-cache"
_ATIME_SUFFIX = "-atime"


def _is_local_filesystem(path: str) -> bool:
    """Is it a path on this machine?"""
    return path.startswith("file://") or "://" not in path


class LRUCache(CacheInterface):
    """Values in the directory `path`, `max_size` bytes at most; -1 for no bound. Who comes while
    another writes waits `lock_timeout_secs`. RuntimeError if there is a bound and no filelock.
    """

    def __init__(self, path: str, *, max_size: int, lock_timeout_secs: float | None = 10) -> None:
        self.path = self._path = Path(path.removeprefix("file://"))
        self.path.mkdir(parents=True, exist_ok=True)
        self.eviction_enabled = max_size != -1
        if not self.eviction_enabled:
            return
        if filelock is None:
            raise RuntimeError(
                "A bound of the cache's size (jax_compilation_cache_max_size) needs the package "
                "filelock. Fix: pip install filelock"
            )
        self.max_size = max_size
        self.lock_timeout_secs = lock_timeout_secs
        self.lock_path = self.path / ".lockfile"
        kind = filelock.FileLock if _is_local_filesystem(path) else filelock.SoftFileLock
        self.lock = kind(self.lock_path)

    def _locked(self) -> Any:
        """A block that one process at a time is in."""
        if not self.eviction_enabled:
            return nullcontext()
        return self.lock.acquire(timeout=self.lock_timeout_secs)

    def _paths(self, key: str) -> tuple[Path, Path]:
        if not key:
            raise ValueError("key cannot be empty")
        return self.path / f"{key}{_CACHE_SUFFIX}", self.path / f"{key}{_ATIME_SUFFIX}"

    def get(self, key: str) -> bytes | None:
        """The value of a key; None if there is none. ValueError for the empty key."""
        kept, asked = self._paths(key)
        with self._locked():
            if not kept.exists():
                return None
            value = kept.read_bytes()
            if self.eviction_enabled:
                asked.write_bytes(_now())
            return value

    def put(self, key: str, value: bytes) -> None:
        """Keeps a value, unless the key has one; others go if there is no room. A value that is
        larger than the cache is not kept, with a warning. ValueError for the empty key."""
        kept, asked = self._paths(key)
        if self.eviction_enabled and len(value) > self.max_size:
            warnings.warn(
                f"Cache value for key {key!r} of size {len(value)} bytes exceeds the maximum cache "
                f"size of {self.max_size} bytes",
                stacklevel=2,
            )
            return
        with self._locked():
            if kept.exists():
                return
            self._evict_if_needed(additional_size=len(value))
            kept.write_bytes(value)
            if self.eviction_enabled:
                asked.write_bytes(_now())

    def _evict_if_needed(self, *, additional_size: int = 0) -> None:
        """Makes room for a value."""
        if not self.eviction_enabled:
            return
        entries = []
        for kept in self.path.glob(f"*{_CACHE_SUFFIX}"):
            asked = self.path / (kept.name.removesuffix(_CACHE_SUFFIX) + _ATIME_SUFFIX)
            when = int.from_bytes(asked.read_bytes(), "little") if asked.exists() else 0
            entries.append((when, kept, asked, kept.stat().st_size))
        entries.sort(key=lambda e: e[0])
        total = sum(size for *_, size in entries)
        for _, kept, asked, size in entries:
            if total + additional_size <= self.max_size:
                return
            kept.unlink()
            asked.unlink(missing_ok=True)
            total -= size


def _now() -> bytes:
    return time.time_ns().to_bytes(8, "little")
