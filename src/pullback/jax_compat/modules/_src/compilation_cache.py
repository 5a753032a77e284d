"""`jax._src.compilation_cache`: compiled programs on disk: whether and where they are kept, and
files of executables by key."""

from __future__ import annotations

import importlib.util
import logging
import zlib
from typing import Any

from .... import config as _config
from ....api.serialized import dump_executable, load_executable
from ....backends.llvm.cache import disk_cache
from ....experimental.compilation_cache.compilation_cache import (
    reset_cache as _reset,
    set_cache_dir as set_cache_dir,
)
from ....lazy_imports import lazy_module
from . import cache_key as cache_key
from .compilation_cache_interface import CacheInterface as CacheInterface
from .lru_cache import LRUCache as LRUCache

logger = logging.getLogger("jax._src.compilation_cache")
zstandard: Any = lazy_module("zstandard") if importlib.util.find_spec("zstandard") else None
_TIME_BYTES = 4

_cache: Any = None
_cache_initialized = False


def is_persistent_cache_enabled() -> bool:
    """Whether they are."""
    return disk_cache() is not None


def get_file_cache(path: str) -> tuple[CacheInterface, str] | None:
    """The files of a directory, as a cache."""
    return LRUCache(path, max_size=_config.read("jax_compilation_cache_max_size")), path


def _initialize_cache() -> None:
    global _cache, _cache_initialized
    path = _config.read("jax_compilation_cache_dir")
    if _cache_initialized or not path or not _config.read("jax_enable_compilation_cache"):
        return
    found = get_file_cache(path)
    _cache, _cache_initialized = (found[0] if found else None), True


def initialize_cache(path: Any) -> None:
    """Has programs kept in a directory."""
    set_cache_dir(path)


def is_initialized() -> bool:
    """Is there a directory that is used?"""
    return _cache_initialized


def is_cache_used(backend: Any) -> bool:
    """Are executables kept in files?"""
    return _get_cache(backend) is not None


def reset_cache() -> None:
    """Forgets which directory is used; what is in it stays."""
    global _cache, _cache_initialized
    _cache, _cache_initialized = None, False
    _reset()


def _get_cache(backend: Any) -> CacheInterface | None:
    _initialize_cache()
    return _cache  # type: ignore[no-any-return]


def get_cache_key(
    module: Any,
    devices: Any,
    compile_options: Any,
    backend: Any,
    ignore_callbacks: Any = cache_key.IgnoreCallbacks.NO,
) -> str:
    """The name of a program's file."""
    how = "zlib" if zstandard is None else "zstandard"
    return cache_key.get(module, devices, compile_options, backend, how, ignore_callbacks)


def compress_executable(executable: bytes) -> bytes:
    """Bytes in less room."""
    if zstandard is None:
        return zlib.compress(executable)
    return bytes(zstandard.ZstdCompressor().compress(executable))


def decompress_executable(executable: bytes) -> bytes:
    """What `compress_executable` was given."""
    if zstandard is None:
        return zlib.decompress(executable)
    return bytes(zstandard.ZstdDecompressor().decompress(executable))


def combine_executable_and_time(serialized_executable: bytes, compile_time: int) -> bytes:
    """How long a compilation took, in seconds, and what it gave."""
    return int(compile_time).to_bytes(_TIME_BYTES, byteorder="big") + serialized_executable


def extract_executable_and_time(executable_and_time: bytes) -> tuple[bytes, int]:
    """The inverse of `combine_executable_and_time`."""
    head, rest = executable_and_time[:_TIME_BYTES], executable_and_time[_TIME_BYTES:]
    return rest, int.from_bytes(head, byteorder="big")


def put_executable_and_time(
    cache_key: str, module_name: str, executable: Any, backend: Any, compile_time: int
) -> None:
    """Keeps an executable under a name."""
    cache = _get_cache(backend)
    if cache is None:
        logger.debug("no cache for the executable of %s", module_name)
        return
    made = combine_executable_and_time(dump_executable(executable), compile_time)
    cache.put(cache_key, compress_executable(made))


def get_executable_and_time(
    cache_key: str, compile_options: Any, backend: Any, executable_devices: Any = None
) -> tuple[Any, int | None]:
    """The executable of a name and how long its compilation took; Nones if there is none."""
    cache = _get_cache(backend)
    kept = None if cache is None else cache.get(cache_key)
    if kept is None:
        return None, None
    data, seconds = extract_executable_and_time(decompress_executable(kept))
    return load_executable(data), seconds


def is_executable_in_cache(backend: Any, cache_key: str) -> bool:
    """Is there an executable of that name?"""
    cache = _get_cache(backend)
    return cache is not None and cache.get(cache_key) is not None
