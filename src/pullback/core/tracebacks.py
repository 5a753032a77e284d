"""What users see of tracebacks: their own frames, as the flag `traceback_filtering` says."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from .. import config
from .source import SourceInfo, is_internal, using

F = TypeVar("F", bound=Callable[..., Any])

_REMOVED = (
    "--------------------\nFor simplicity, Pullback has removed its internal frames from the "
    "traceback. Set JAX_TRACEBACK_FILTERING=off to include these."
)


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback has lost its internal frames, under
    `traceback_filtering="remove_frames"`: says and has all of them."""


class JaxStackTraceBeforeTransformation(Exception):
    """The cause of an error of a transformed operation: says where the user wrote it."""


def has_user_context(error: BaseException) -> bool:
    """Does an error say where the operation was written that failed?"""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, JaxStackTraceBeforeTransformation):
            return True
        at = at.__cause__
    return False


class replaying(using):
    """`using`, where operations are computed or transposed that were traced before: their errors
    say where they were written, which no frame does any more."""

    __slots__ = ()

    def __exit__(self, *raised: Any) -> None:
        using.__exit__(self)
        error = raised[1]
        if error is not None and isinstance(error, Exception) and self.info:
            _say_where(error, self.info)


def _say_where(error: Exception, info: SourceInfo) -> None:
    if info.code is None or has_user_context(error):
        return
    place = JaxStackTraceBeforeTransformation(
        f"{type(error).__name__}: {error}\n\nThe operation that failed, once transformed, was "
        f"written at {info.summary()}."
    )
    place.__cause__, place.__context__ = error.__cause__, error.__context__
    place.__suppress_context__ = error.__suppress_context__
    error.__cause__ = place


def boundary(fun: F) -> F:
    """`fun`, which users call: errors leave it without the frames that are of no interest to
    them."""

    @functools.wraps(fun)
    def entered(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise  # as it is now: a bare `raise` adds no frame

    return entered  # type: ignore[return-value]


def _frames(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def _kept(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without internal frames."""
    frames = list(_frames(tb))
    kept = [t for t in frames if not is_internal(t.tb_frame.f_code)]
    if len(kept) == len(frames):
        return tb
    found = None
    for t in reversed(kept):
        found = TracebackType(found, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return found


def filter_traceback(error: BaseException) -> None:
    """Does with the internal frames of an error that passes through what the flag says."""
    mode = config.traceback_filtering.get()
    if mode == "off" or "internal error in pullback" in str(error):
        return
    if mode == "tracebackhide":
        for t in _frames(error.__traceback__):
            if is_internal(t.tb_frame.f_code):
                t.tb_frame.f_locals["__tracebackhide__"] = True
        return
    if mode == "remove_frames":
        _keep_as_cause(error)
    hide_internal_frames(error, mode != "remove_frames")


def _keep_as_cause(error: BaseException) -> None:
    """What an error's traceback was becomes its cause."""
    if isinstance(error.__cause__, UnfilteredStackTrace):
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    whole = UnfilteredStackTrace(
        f"{frames}{type(error).__name__}: {error}\n\nThe stack trace above has internal frames of "
        "Pullback, which are left out below."
    )
    whole.__cause__, whole.__context__ = error.__cause__, error.__context__
    whole.__suppress_context__ = error.__suppress_context__
    whole.__traceback__ = error.__traceback__
    error.__cause__ = whole


def hide_internal_frames(error: BaseException, say_so: bool = True) -> None:
    """Leaves the user's frames in the traceback of an error, and of those that led to it. Our own
    faults keep all frames."""
    found: BaseException | None = error
    seen: set[int] = set()
    shortened = False
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if not isinstance(found, UnfilteredStackTrace) and (
            "internal error in pullback" not in str(found)
        ):
            before = found.__traceback__
            found.__traceback__ = _kept(before)
            shortened = shortened or found.__traceback__ is not before
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    if shortened and say_so and _REMOVED not in getattr(error, "__notes__", ()):
        error.add_note(_REMOVED)


def _install_hook() -> None:
    """What Python prints of an error that ends the program has no frames of ours."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, tb: Any) -> None:
        if config.traceback_filtering.get() != "off":
            with contextlib.suppress(Exception):  # rather a long traceback than none
                if any(not is_internal(t.tb_frame.f_code) for t in _frames(tb)):
                    hide_internal_frames(error)
                    tb = error.__traceback__
        show(kind, error, tb)

    sys.excepthook = excepthook


_install_hook()
