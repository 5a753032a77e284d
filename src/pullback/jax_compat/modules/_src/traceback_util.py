"""`jax._src.traceback_util`: which files are internal, in tracebacks and in source locations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core import source as _source
from ....core.tracebacks import UnfilteredStackTrace as UnfilteredStackTrace, boundary

# The list itself is public to libraries: they add and remove paths.
_exclude_paths: list[str] = _source._excluded


def register_exclusion(path: str) -> None:
    """Frames of files whose path starts with `path` count as a library's, not the user's."""
    if path not in _exclude_paths:
        _source.register_exclusion(path)


def api_boundary(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`fun`, which errors leave without internal frames."""
    return boundary(fun)


def include_frame(frame: Any) -> bool:
    """Is a frame the user's, rather than a library's?"""
    return not _source.is_internal(frame.f_code)
