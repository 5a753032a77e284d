"""Linked kernels on disk: compiled once per machine, loaded in a tenth of a millisecond afterwards.

The directory is the user's own (mode 0700, owner checked) because what lies in it is executed.
Entries are written
under a temporary name and renamed, carry a checksum, and anything that does not verify is ignored
and rewritten.
`PULLBACK_CACHE_DIR` or the flag jax_compilation_cache_dir names another directory,
`PULLBACK_CACHE=0` or the flag jax_enable_compilation_cache switches the cache off,
`PULLBACK_CACHE_SIZE` bounds it
(bytes, 512 MiB by default); the least recently used entries go first.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
import threading
import time
from functools import lru_cache

from pullback import config
from pullback.backends.llvm.loader import Image
from pullback.backends.llvm.target import llvmlite_version
from pullback.forking import renewed
from pullback.switches import switched_off

try:  # without the cryptography that hashlib brings along
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = [
    "ABI_VERSION", "DiskCache", "Entry", "disk_cache", "forget_caches", "image_key", "kernel_key",
]  # fmt: skip

ABI_VERSION = 2  # of docs/contract.md and of the entries' layout
_MAGIC = b"PBKIMG03"
_SUFFIX = ".kernel"
_TOUCH_AFTER = 3600.0
_SWEEP_EVERY = 64


# Files of loops/ that kept code follows from: canonical texts, and functions that have names.
_WRITERS = ("ir.py", "ops.py", "canon.py", "build.py", "digits.py")


@lru_cache(maxsize=1)
def _source_key() -> str:
    """Identifies the compiler that wrote an entry: our files' sizes and times, the ABI and
    llvmlite's version."""
    here = os.path.dirname(os.path.abspath(__file__))
    loops = os.path.join(os.path.dirname(os.path.dirname(here)), "loops")
    parts = [f"abi{ABI_VERSION}", llvmlite_version()]
    with os.scandir(here) as listing:
        files = [(e.name, e.stat()) for e in listing if e.name.endswith(".py")]
    files += [(n, os.stat(os.path.join(loops, n))) for n in _WRITERS]
    parts += [f"{name}:{info.st_size}:{info.st_mtime_ns}" for name, info in sorted(files)]
    return "|".join(parts)


@lru_cache(maxsize=8)
def _begun(target_key: str) -> blake2b:
    """The hash of what all keys begin with."""
    return blake2b(f"{_source_key()}\0{target_key}\0".encode(), digest_size=20)


def image_key(text: str, target_key: str) -> str:
    """The same for code whose `text` says which files wrote it: those of the compiler are not asked
    for their times."""
    begun = f"abi{ABI_VERSION}|{llvmlite_version()}\0{target_key}\0{text}\0"
    return blake2b(begun.encode(), digest_size=20).hexdigest()


def kernel_key(text: str, target_key: str, options: str = "") -> str:
    """The name of a cache entry: a hash of the canonical text and of all that determines the
    machine code."""
    digest = _begun(target_key).copy()
    digest.update(f"{options}\0{text}\0".encode())
    return digest.hexdigest()


def _pack(image: Image) -> bytes:
    symbols = " ".join(f"{name} {offset}" for name, offset in image.symbols.items())
    absolute = " ".join(map(str, image.absolute))
    header = "\n".join((image.kind, str(int(image.quick)), symbols, absolute)).encode()
    body = struct.pack("<I", len(header)) + header + image.data
    return _MAGIC + blake2b(body, digest_size=16).digest() + body


def _unpack(raw: bytes) -> Image | None:
    if (
        len(raw) < 28
        or raw[:8] != _MAGIC
        or blake2b(raw[24:], digest_size=16).digest() != raw[8:24]
    ):
        return None
    (size,) = struct.unpack_from("<I", raw, 24)
    kind, quick, symbols, absolute = raw[28 : 28 + size].decode().split("\n")
    words = symbols.split()
    return Image(
        raw[28 + size :],
        dict(zip(words[::2], map(int, words[1::2]), strict=True)),
        tuple(map(int, absolute.split())),
        kind,
        int(quick),
    )


class DiskCache:
    """A directory of images. Every failure of the file system means only that a kernel is compiled
    again."""

    def __init__(self, directory: str | os.PathLike[str], limit: int) -> None:
        self.directory = os.fspath(directory)
        self.limit = limit
        self.writes = 0
        self._lock = renewed(threading.Lock())
        self._usable: bool | None = None

    def _ready(self) -> bool:
        if self._usable is None:
            self._usable = self._prepare()
        return self._usable

    def _prepare(self) -> bool:
        try:
            _make_directory(self.directory)
            info = os.lstat(self.directory)
            if not stat.S_ISDIR(info.st_mode):
                return False
            if hasattr(os, "getuid"):
                if info.st_uid != os.getuid():
                    return False
                if info.st_mode & 0o077:
                    os.chmod(self.directory, 0o700)
        except OSError:
            return False
        return True

    def get(self, key: str) -> Image | None:
        """The image of a key, or None."""
        if not self._ready():
            return None
        path = os.path.join(self.directory, key + _SUFFIX)
        try:
            with open(path, "rb") as f:
                info = os.fstat(f.fileno())
                if hasattr(os, "getuid") and info.st_uid != os.getuid():
                    return None
                raw = f.read()
            image = _unpack(raw)
            if image is not None and time.time() - info.st_mtime > _TOUCH_AFTER:
                os.utime(path)
        except (OSError, ValueError, KeyError, struct.error):
            return None
        return image

    def put(self, key: str, image: Image) -> None:
        """Stores an image; never raises. Quick code is stored a while after it was made: where
        there is good code of the same functions by then, that stays."""
        if not self._ready():
            return
        if image.quick:
            known = self.get(key)
            if known and not known.quick and image.symbols.keys() <= known.symbols.keys():
                return
        try:
            name = os.path.join(
                self.directory, f".new-{os.getpid()}-{threading.get_ident()}-{key[:8]}"
            )
            handle = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
            )
            try:
                with os.fdopen(handle, "wb") as f:
                    f.write(_pack(image))
                os.replace(name, os.path.join(self.directory, key + _SUFFIX))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError:
            return
        with self._lock:
            self.writes += 1
            sweep = self.writes % _SWEEP_EVERY == 1
        if sweep:
            self.sweep()

    def sweep(self) -> None:
        """Deletes the least recently used entries above the limit, and temporary files of writers
        that died."""
        entries, total, now = [], 0, time.time()
        try:
            with os.scandir(self.directory) as listing:
                for entry in listing:
                    info = entry.stat(follow_symlinks=False)
                    if entry.name.startswith(".new-") and now - info.st_mtime > _TOUCH_AFTER:
                        os.unlink(entry.path)
                    elif entry.name.endswith(_SUFFIX):
                        entries.append((info.st_mtime, info.st_size, entry.path))
                        total += info.st_size
            for _, size, path in sorted(entries):
                if total <= self.limit:
                    break
                os.unlink(path)
                total -= size
        except OSError:
            return


def _make_directory(path: str) -> None:
    """Makes a directory of ours alone, and those it is in."""
    parent = os.path.dirname(os.path.abspath(path))
    os.makedirs(parent, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def _home(*parts: str) -> str:
    """A path in the user's home directory; RuntimeError where there is none."""
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise RuntimeError("no home directory")
    return os.path.join(home, *parts)


def _default_directory() -> str:
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or _home("AppData", "Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        root = base if os.path.isabs(base) else _home(".cache")
    return os.path.join(root, "pullback", "kernels")


Entry = tuple[DiskCache, str, Image]  # what is to be stored, and under which key
_caches: dict[tuple[str, str], DiskCache] = {}


def forget_caches() -> None:
    """What is known of directories is found anew."""
    _caches.clear()


def _asked_directory() -> str:
    """The directory that the flag jax_compilation_cache_dir names (a part of it, since it must be
    ours alone), or the environment; empty if neither does. Addresses of stores are no paths."""
    path = config.compilation_cache_dir.get()
    if path and "://" not in str(path):
        return os.path.join(str(path), "pullback")
    return os.environ.get("PULLBACK_CACHE_DIR", "")


def disk_cache() -> DiskCache | None:
    """The cache that flags and the environment ask for, or None when it is off."""
    if switched_off("PULLBACK_CACHE"):
        return None
    if not config.enable_compilation_cache.get():
        return None
    directory, size = _asked_directory(), os.environ.get("PULLBACK_CACHE_SIZE", "")
    cache = _caches.get((directory, size))
    if cache is None:
        try:
            path = os.path.expanduser(directory) if directory else _default_directory()
        except RuntimeError:  # no home directory
            return None
        limit = int(size) if size.isdigit() else 512 << 20
        cache = _caches[directory, size] = DiskCache(path, limit)
    return cache
