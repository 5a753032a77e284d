"""Which files are internal, in tracebacks and in source locations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import source as _source
from ..core.tracebacks import UnfilteredStackTrace as UnfilteredStackTrace, boundary as _boundary

__all__ = ["UnfilteredStackTrace", "api_boundary", "include_frame", "register_exclusion"]

# The list itself is public to libraries: they add and remove paths.
_exclude_paths: list[str] = _source._excluded


def register_exclusion(path: str) -> None:
    """Frames of files whose path starts with `path` count as a library's, not the user's.

    >>> from pullback.interpreters import traceback_util
    >>> traceback_util.register_exclusion("/opt/library/")
    """
    if path not in _exclude_paths:
        _source.register_exclusion(path)


def api_boundary(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`fun`, which errors leave without internal frames. `options` are JAX's, for reproducing
    errors.

    >>> from pullback.interpreters import traceback_util
    >>> traceback_util.api_boundary(abs)(-1)
    1
    """
    return _boundary(fun)


def include_frame(frame: Any) -> bool:
    """Is a frame the user's, rather than a library's?

    >>> import sys
    >>> from pullback.interpreters import traceback_util
    >>> traceback_util.include_frame(sys._getframe())
    True
    """
    return not _source.is_internal(frame.f_code)
