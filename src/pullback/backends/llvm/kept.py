"""Code of modules of the runtime itself, which are compiled once per machine and kept on disk."""

from __future__ import annotations

from collections.abc import Callable

from pullback.backends.llvm import link, loader
from pullback.backends.llvm.cache import disk_cache
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.workshop import Job

__all__ = ["found_text", "load_text"]


def found_text(key: str) -> loader.Code | JitCode | None:
    """The code that the disk has under a key."""
    cache = disk_cache()
    code: loader.Code | JitCode | None = loader.load_entry(
        cache.get(key) if cache is not None else None
    )
    return code


def load_text(
    text: str | Callable[[], str], target: Target, level: int, key: str, job: Job | None = None
) -> loader.Code | JitCode:
    """Code of a module, through the disk cache; not counted as a kernel. `text` may be a function
    that writes it; `job` is its compilation by a native thread, if there is one."""
    code = found_text(key)
    if code is None:
        if job is not None and job.done:
            obj = job.take()
        else:
            obj = link.assemble(text if isinstance(text, str) else text(), target, level)
        image = loader.link(obj)
        cache = disk_cache()
        if cache is not None:
            cache.put(key, image)
        made: loader.Code | JitCode = loader.load_image(image)
        return made
    return code
