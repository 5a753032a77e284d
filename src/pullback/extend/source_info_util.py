"""Where equations come from: the user's line, and the name stack under which they were made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..core import source
from ..core.source import SourceInfo as SourceInfo, register_exclusion as register_exclusion


class NameStack:
    """The names of scopes and transformations around an equation, outermost first.

    >>> str(pb.extend.source_info_util.NameStack(("model",)).extend("layer"))
    'model/layer'
    """

    __slots__ = ("stack",)

    def __init__(self, stack: tuple[str, ...] = ()) -> None:
        self.stack = tuple(stack)

    def extend(self, name: str) -> NameStack:
        return NameStack((*self.stack, name))

    def transform(self, transform_name: str) -> NameStack:
        return NameStack((*self.stack, source.Transform(transform_name)))

    def __getitem__(self, idx: slice) -> NameStack:
        return NameStack(self.stack[idx])

    def __len__(self) -> int:
        return len(self.stack)

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack(self.stack + other.stack)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameStack) and self.stack == other.stack

    def __hash__(self) -> int:
        return hash(self.stack)

    def __str__(self) -> str:
        return source.names_text(self.stack)

    def __repr__(self) -> str:
        return f"NameStack(stack={self.stack})"


def new_name_stack(name: str = "") -> NameStack:
    """A stack with one name on it, or none.

    >>> from pullback.extend import source_info_util
    >>> str(source_info_util.new_name_stack("layer"))
    'layer'
    """
    return NameStack((name,) if name else ())


def current() -> SourceInfo:
    """The user's line that is running now, and the names around it.

    >>> from pullback.extend import source_info_util
    >>> source_info_util.current().name_stack
    ()
    """
    return source.current()


def new_source_info() -> SourceInfo:
    """Of nowhere, under no names.

    >>> from pullback.extend import source_info_util
    >>> source_info_util.summarize(source_info_util.new_source_info())
    'unknown'
    """
    return source.unknown


def current_name_stack() -> NameStack:
    """The names under which equations are being made in this thread.

    >>> from pullback.extend import source_info_util
    >>> with pb.named_scope("layer"):
    ...     print(source_info_util.current_name_stack())
    layer
    """
    return NameStack(source.name_stack())


def extend_name_stack(name: str) -> Any:
    """`with extend_name_stack(name):` equations made inside carry the name.

    >>> from pullback.extend import source_info_util
    >>> with source_info_util.extend_name_stack("layer"):
    ...     print(source_info_util.current_name_stack())
    layer
    """
    return source.extend_name_stack(name)


def transform_name_stack(name: str) -> Any:
    """`with transform_name_stack("vmap"):` equations made inside carry `vmap()`.

    >>> from pullback.extend import source_info_util
    >>> with pb.named_scope("layer"), source_info_util.transform_name_stack("vmap"):
    ...     print(source_info_util.current_name_stack())
    layer/vmap()
    """
    return source.transformed(name)


def set_name_stack(name_stack: NameStack) -> Any:
    """`with set_name_stack(stack):` equations made inside carry these names instead.

    >>> from pullback.extend import source_info_util
    >>> with source_info_util.set_name_stack(source_info_util.new_name_stack("other")):
    ...     print(source_info_util.current_name_stack())
    other
    """
    return source.set_name_stack(name_stack.stack)


def reset_name_stack() -> Any:
    """`with reset_name_stack():` equations made inside carry no names.

    >>> from pullback.extend import source_info_util
    >>> with pb.named_scope("layer"), source_info_util.reset_name_stack():
    ...     print(repr(str(source_info_util.current_name_stack())))
    ''
    """
    return source.set_name_stack(())


@contextlib.contextmanager
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Equations made inside belong to a source location (a SourceInfo; None: wherever they are
    made) and carry the names of `name_stack`.

    >>> from pullback.extend import source_info_util
    >>> here = source_info_util.current()
    >>> with source_info_util.user_context(here):
    ...     program = pb.make_jaxpr(lambda x: x + 1)(1)
    """
    names = current_name_stack() if name_stack is None else name_stack
    with source.using(traceback), source.set_name_stack(names.stack):
        yield


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """`file:line:column (function)`.

    >>> from pullback.extend import source_info_util
    >>> source_info_util.summarize(source_info_util.new_source_info())
    'unknown'
    """
    return source_info.summary()
