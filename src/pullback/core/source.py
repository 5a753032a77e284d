"""Where in the user's code an equation was made. Frames of this package are never the answer."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# contextlib enters the package's own generators, and no user means it.
_excluded: list[str] = [PACKAGE_DIR, contextlib.__file__]
_included: list[str] = []
# By file: code objects are hashed by all that they hold.
_internal: set[str] = set()
_users: set[str] = set()


def register_exclusion(path: str) -> None:
    """Frames of files whose path starts with `path` are internal too.

    >>> from pullback.extend import source_info_util
    >>> source_info_util.register_exclusion("/opt/my_library/")
    """
    _excluded.append(path)
    _internal.clear()
    _users.clear()


def register_inclusion(path: str) -> None:
    """Frames of files whose path starts with `path` are the user's, whatever is excluded."""
    _included.append(path)
    _internal.clear()
    _users.clear()


def is_internal(code: CodeType) -> bool:
    """Does this code belong to the package (or to a registered library)?"""
    return is_internal_file(code.co_filename)


def is_internal_file(name: str) -> bool:
    """Does this file belong to the package (or to a registered library)?"""
    if name in _internal:
        return True
    if name in _users:
        return False
    internal = name.startswith((*_excluded, "<frozen")) and not name.startswith((*_included,))
    (_internal if internal else _users).add(name)
    return internal


class SourceInfo:
    """The user's frame of an equation (code and instruction, resolved to a line only when asked)
    and its name stack.

    >>> from pullback.extend import source_info_util
    >>> program = pb.make_jaxpr(lambda x: x + 1)(1)
    >>> isinstance(program.eqns[0].source_info, source_info_util.SourceInfo)
    True
    """

    __slots__ = ("code", "lasti", "name_stack")

    def __init__(self, code: CodeType | None, lasti: int, name_stack: tuple[str, ...]) -> None:
        self.code, self.lasti, self.name_stack = code, lasti, name_stack

    @property
    def traceback(self) -> SourceInfo:
        """What `user_frame` and `summarize` take: only the user's frame is kept of a traceback."""
        return self

    @property
    def file(self) -> str:
        return self.code.co_filename if self.code else "<unknown>"

    @property
    def function(self) -> str:
        return self.code.co_qualname if self.code else "<unknown>"

    def position(self) -> tuple[int, int]:
        """Line (from 1) and column (from 0) of the instruction."""
        if self.code is None:
            return 0, 0
        at = self.lasti // 2
        for k, (start, _, column, _) in enumerate(self.code.co_positions()):
            if k == at:
                return start or self.code.co_firstlineno, column or 0
        return self.code.co_firstlineno, 0

    @property
    def line(self) -> int:
        return self.position()[0]

    def summary(self) -> str:
        """`file:line:column (function)`, as jaxprs print it with source_info=True."""
        if self.code is None:
            return "unknown"
        line, column = self.position()
        return f"{self.file}:{line}:{column} ({self.function})"

    def __repr__(self) -> str:
        return f"SourceInfo({self.summary()})"


class Transform(str):
    """The name of a transformation among those of scopes: it is written around what follows."""

    __slots__ = ()


def names_text(names: Iterable[str]) -> str:
    """Names as a path, the outermost first; `outer/jvp(vmap(inner))` for the scopes `outer` and
    `inner` with two transformations between them."""
    parts: list[str] = []
    around: list[str] = []
    for name in names:
        if isinstance(name, Transform):
            around.append(name)
        else:
            parts.append(f"{'('.join([*around, name])}{')' * len(around)}")
            around = []
    if around:
        parts.append(f"{'('.join([*around, ''])}{')' * len(around)}")
    return "/".join(parts)


class Names(tuple[str, ...]):
    """Names of scopes and transformations, the outermost first; as text, a path."""

    __slots__ = ()

    def __str__(self) -> str:
        return names_text(self)


class _Local(threading.local):
    name_stack: Names = Names()
    override: SourceInfo | None = None


_local = _Local()
unknown = SourceInfo(None, 0, ())


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame that is not internal."""
    found: FrameType | None = frame or sys._getframe(1)
    while found is not None and is_internal(found.f_code):
        found = found.f_back
    return found


def current(depth: int = 1) -> SourceInfo:
    """The source info of whatever is being traced now; at least `depth` frames are not the
    user's."""
    override, names = _local.override, _local.name_stack
    if override is not None:
        if override.name_stack == names:
            return override
        return SourceInfo(override.code, override.lasti, names)
    frame: FrameType | None = sys._getframe(depth)
    internal, users = _internal, _users
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name in users or (name not in internal and not is_internal(code)):
            return SourceInfo(code, frame.f_lasti, names)
        frame = frame.f_back
    return SourceInfo(None, 0, names)


def inner(info: SourceInfo, depth: int) -> SourceInfo:
    """The same place without its `depth` outermost names."""
    return SourceInfo(info.code, info.lasti, Names(info.name_stack[depth:]))


class using:
    """Equations made inside belong to this place, and their names follow those in force (used when
    a program is replayed): a class, since a program is transposed with one for each equation."""

    __slots__ = ("before", "info", "names")

    def __init__(self, info: SourceInfo | None) -> None:
        self.info = info

    def __enter__(self) -> None:
        self.before, self.names = _local.override, _local.name_stack
        info = _local.override = self.info
        if info is not None and info.name_stack:
            _local.name_stack = Names((*self.names, *info.name_stack))

    def __exit__(self, *_: object) -> None:
        _local.override, _local.name_stack = self.before, self.names


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Equations made inside belong to the place that is current."""
    before = _local.override
    _local.override = current(2)
    try:
        yield
    finally:
        _local.override = before


class transformed:
    """`with transformed("jvp"):` equations made inside are those of a transformed function."""

    __slots__ = ("before", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.before = _local.name_stack
        _local.name_stack = Names((*self.before, Transform(self.name)))

    def __exit__(self, *exc: Any) -> None:
        _local.name_stack = self.before


@contextlib.contextmanager
def extend_name_stack(name: str) -> Iterator[None]:
    """Equations made inside carry `name` in their name stack (`named_scope`)."""
    before = _local.name_stack
    _local.name_stack = Names((*before, name))
    try:
        yield
    finally:
        _local.name_stack = before


@contextlib.contextmanager
def set_name_stack(names: tuple[str, ...]) -> Iterator[None]:
    """Equations made inside carry these names and no others."""
    before = _local.name_stack
    _local.name_stack = Names(names)
    try:
        yield
    finally:
        _local.name_stack = before


def name_stack() -> Names:
    """The names under which equations are being made in this thread."""
    return _local.name_stack


def user_summary() -> str:
    """`file:line (function)` of the user's code that is running now."""
    return current().summary()


def names_of(fun: Any) -> tuple[str, str]:
    """The name and the qualified name of a callable: a partial has those of its function, and what
    has none is said to be unnamed. Callables that answer for any attribute (a model whose fields
    are computed from its names, say) have no name that is not text.
    """
    while isinstance(fun, functools.partial) and not hasattr(fun, "__name__"):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    if not isinstance(name, str):
        name = "<unnamed function>"
    qualified = getattr(fun, "__qualname__", name)
    return name, qualified if isinstance(qualified, str) else name


# What a wrapper takes over, besides its names.
_ASSIGNED = tuple(a for a in functools.WRAPPER_ASSIGNMENTS if a not in ("__name__", "__qualname__"))


def take_names(
    fun: Any, updated: tuple[str, ...] = functools.WRAPPER_UPDATES, about: str = ""
) -> Callable[[Any], Any]:
    """`functools.wraps(fun)`, for callables without names too: transformed, they are called as
    `names_of` says. `about`, with the name in the place of `{}`, opens the docstring.
    """

    def named(wrapper: Any) -> Any:
        try:
            functools.update_wrapper(wrapper, fun, _ASSIGNED, updated)
        except (AttributeError, TypeError):  # attributes of the wrong kind, such as annotations
            wrapper.__wrapped__ = fun
        wrapper.__name__, wrapper.__qualname__ = names_of(fun)
        if about:
            own = getattr(fun, "__doc__", None)
            said = about.format(wrapper.__name__)
            wrapper.__doc__ = f"{said}\n\nOriginal documentation:\n\n{own}" if own else said
        return wrapper

    return named
