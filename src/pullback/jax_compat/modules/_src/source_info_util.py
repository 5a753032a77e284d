"""`jax._src.source_info_util`: the user's places in sources, and name stacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from ....core import source as _source
from ....core.tracebacks import (
    JaxStackTraceBeforeTransformation as JaxStackTraceBeforeTransformation,
    has_user_context as has_user_context,
)
from ....extend import source_info_util as _public
from ....extend.source_info_util import *  # noqa: F403
from ....extend.source_info_util import (
    NameStack as NameStack,
    SourceInfo as SourceInfo,
    register_exclusion as register_exclusion,
    summarize as summarize,
)
from .searched import searched

_include_paths: list[str] = []


class Frame(NamedTuple):
    """A place in a source: of a call, or of an operation."""

    file_name: str
    function_name: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int


class Scope(NamedTuple):
    """A name of the user's in a name stack."""

    name: str

    def wrap(self, stack: list[str]) -> None:
        """Adds the name at the front."""
        stack.insert(0, self.name)


class Transform(NamedTuple):
    """A transformation in a name stack."""

    name: str

    def wrap(self, stack: list[str]) -> None:
        """Wraps the name behind it."""
        if stack:
            stack[0] = f"{self.name}({stack[0]})"
        else:
            stack.append(f"{self.name}()")


def register_inclusion(path: str) -> None:
    """Frames of files whose path starts with `path` are the user's, whatever is excluded."""
    _include_paths.append(path)
    _source.register_inclusion(path)


def is_user_filename(filename: str) -> bool:
    """Is a file the user's?"""
    return not _source.is_internal_file(os.path.abspath(filename) if filename else filename)


def raw_frame_to_frame(code: CodeType, lasti: int) -> Frame:
    """The place of an instruction."""
    found = [*code.co_positions()][max(lasti, 0) // 2 : max(lasti, 0) // 2 + 1]
    first, last, start, end = found[0] if found else (code.co_firstlineno, None, None, None)
    line = first or code.co_firstlineno
    name = getattr(code, "co_qualname", code.co_name)
    return Frame(code.co_filename, name, line, start or 0, last or line, end or 0)


def user_frames(traceback: Any) -> Iterator[Frame]:
    """The frames of users in a traceback or in the source information of an equation, innermost
    first."""
    if traceback is None:
        return
    if isinstance(traceback, SourceInfo):
        if traceback.code is not None:
            yield raw_frame_to_frame(traceback.code, traceback.lasti)
        return
    places = []
    while traceback is not None:
        places.append((traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    for code, lasti in reversed(places):
        if not _source.is_internal(code):
            yield raw_frame_to_frame(code, lasti)


def user_frame(traceback: Any) -> Frame | None:
    """The innermost frame of a user's, if there is one."""
    return next(user_frames(traceback), None)


__getattr__ = searched("jax._src.source_info_util", _public)
