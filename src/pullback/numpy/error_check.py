"""Errors that programs note while they run, in a reference, and that are raised when they are asked
for: what the flags jax_error_checking_behavior_* have noted of results that are not numbers, of
divisors that are 0, and of indices out of bounds."""

from __future__ import annotations

import ast
import contextlib
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from .. import config, dtypes, lax, tree
from ..control.refs import new_ref
from ..core import source
from ..core.avals import typeof
from ..core.trace import eval_context, trace_state_clean
from ..primitives.convert import convert_element_type
from ..runtime.meshes import AxisType
from .selecting import select_where as where

NO_ERROR = int(np.iinfo(np.uint32).max)
UNKNOWN = (
    "unknown error: a function that was imported noted an error whose number is none of those it "
    "came with. Fix: export it again."
)
UNKNOWN_TRACEBACK = "Traceback not available: the error's number is not valid."


class JaxValueError(ValueError):
    """An error that a program noted while it ran."""


class Places:
    """Where an error was noted: the frames of users, innermost first, without their variables."""

    __slots__ = ("frames",)

    def __init__(self) -> None:
        frame, self.frames = sys._getframe(1), []
        while frame is not None:
            if not source.is_internal(frame.f_code):
                self.frames.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]

    def traceback(self) -> TracebackType | None:
        """A traceback through these places."""
        found = None
        for code, line in self.frames:
            found = _through(code, line, found)
        return found

    def __str__(self) -> str:
        return "".join(traceback.format_tb(self.traceback()))


def _through(code: CodeType, line: int, rest: TracebackType | None) -> TracebackType | None:
    """A traceback through a line of a function: a program of one line there is run, since frames
    cannot be made otherwise."""
    program = ast.parse("raise error")
    nodes: Any = ast.walk(program)
    for node in nodes:
        if hasattr(node, "lineno"):  # the whole line, so that no part of it is underlined
            node.lineno = node.end_lineno = line
            node.col_offset, node.end_col_offset = 0, 999
    made = compile(program, code.co_filename, "exec").replace(co_name=code.co_name)
    try:
        exec(made, {"error": JaxValueError()})
    except JaxValueError as error:
        inner = error.__traceback__.tb_next  # type: ignore[union-attr]
        assert inner is not None
        return TracebackType(rest, inner.tb_frame, inner.tb_lasti, line)
    return rest


class Noted(threading.local):
    """What was noted in this thread: the reference that holds the first error's number, and the
    errors by number."""

    def __init__(self) -> None:
        self.ref: Any = None

    def get(self) -> Any:
        if self.ref is None:
            with eval_context():
                self.ref = new_ref(np.uint32(NO_ERROR))
        return self.ref


noted = Noted()
# By number: what is said, and where it was noted.
errors: list[tuple[str, Any]] = []
lock = threading.Lock()


def numbered(said: str, where_noted: Any) -> int:
    """The number of a new error."""
    with lock:
        errors.append((said, where_noted))
        return len(errors) - 1


def note(number: Any, pred: Any) -> None:
    """Notes an error's number if `pred` holds and none is noted."""
    ref = noted.get()
    before = ref[...]
    free = before == np.uint32(NO_ERROR)
    ref[...] = where(free & pred, np.uint32(number) if isinstance(number, int) else number, before)


def set_error_if(pred: Any, /, msg: str) -> None:
    """Notes an error, if none is noted yet, should any element of an array of booleans be true when
    the program runs; `raise_if_error` raises it."""
    sharding = getattr(typeof(pred), "sharding", None)
    types = getattr(getattr(sharding, "mesh", None), "axis_types", ()) or ()
    if AxisType.Auto in types:
        warnings.warn(
            "When at least one mesh axis of `pred` is in auto mode, calling `set_error_if` will "
            "cause implicit communication between devices. To avoid this, consider converting the "
            "mesh axis in auto mode to explicit mode.",
            RuntimeWarning,
            stacklevel=2,
        )
    note(numbered(msg, Places()), pred.any())


def raise_if_error() -> None:
    """Raises the error that was noted, as JaxValueError, and forgets it. ValueError in functions
    that are traced.

    >>> jnp.log(-1.0)
    Array(nan, dtype=float32, weak_type=True)
    """
    if not trace_state_clean():
        raise ValueError(
            "raise_if_error() should not be called within a traced context, such as within a "
            "jitted function."
        )
    if noted.ref is None:
        return
    number = int(noted.ref[...])
    if number == NO_ERROR:
        return
    noted.ref[...] = np.uint32(NO_ERROR)
    said, places = errors[number] if number < len(errors) else (UNKNOWN, UNKNOWN_TRACEBACK)
    if isinstance(places, str):
        raise JaxValueError(
            f"{said}\nIt was noted here, before the function was exported:\n{places}"
        )
    raise JaxValueError(said).with_traceback(places.traceback())


class Carried:
    """The number of the error that a function noted, as an array, and its errors by number: what
    `wrap_for_export` adds to the function's results."""

    __slots__ = ("error_code", "error_list")

    def __init__(self, error_code: Any, error_list: list[tuple[str, str]]) -> None:
        self.error_code, self.error_list = error_code, error_list

    def __repr__(self) -> str:
        return f"_ErrorClass(error_code={self.error_code!r}, error_list={self.error_list!r})"


tree.register_pytree_node(
    Carried,
    lambda c: ((c.error_code,), tuple(c.error_list)),
    lambda aux, children: Carried(children[0], list(aux)),
)


def wrap_for_export(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives what `f` gives and the error that it noted."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        outer, first = noted.ref, len(errors)
        noted.ref = new_ref(np.uint32(NO_ERROR))
        try:
            out = f(*args, **kwargs)
            code = noted.ref[...]
        finally:
            noted.ref = outer
        mine = [(said, str(places)) for said, places in errors[first:]]
        relative = where(code == np.uint32(NO_ERROR), code, code - np.uint32(first))
        return out, Carried(relative, mine)

    return wrapped


def unwrap_from_import(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives what the function gave that `wrap_for_export` wrapped, and notes its
    error here."""

    def unwrapped(*args: Any, **kwargs: Any) -> Any:
        out, carried = f(*args, **kwargs)
        with lock:
            first = len(errors)
            errors.extend(carried.error_list)
            errors.append((UNKNOWN, UNKNOWN_TRACEBACK))
        code, count = carried.error_code, len(carried.error_list)
        known = where(code < np.uint32(count), code, np.uint32(count))
        note(convert_element_type(known + np.uint32(first), np.uint32), code != np.uint32(NO_ERROR))
        return out

    return unwrapped


class error_checking_context:
    """A block with errors of its own: what was noted before is there again behind it."""

    def __enter__(self) -> error_checking_context:
        ref = noted.get()
        self.before = ref[...]
        ref[...] = np.uint32(NO_ERROR)
        return self

    def __exit__(self, *exc: Any) -> None:
        noted.ref[...] = self.before


def note_nan(x: Any) -> None:
    """Notes results that are not numbers, if the flag says so."""
    if config.error_checking_behavior_nan.on() and dtypes.is_float(typeof(x).dtype):
        set_error_if(lax.ne(x, x), "NaN encountered")


def note_zero(x: Any) -> None:
    """Notes divisors that are 0, if the flag says so."""
    if config.error_checking_behavior_divide.on():
        set_error_if(lax.eq(x, lax.full_like(x, 0)), "Division by zero encountered")


def note_outside(indices: Any, sizes: Any) -> None:
    """Notes indices beyond the ends of axes of these sizes, if the flag says so."""
    if config.error_checking_behavior_oob.on() and typeof(indices).size:
        every = tuple(range(typeof(indices).ndim - 1))
        low, high = lax.reduce_min(indices, every), lax.reduce_max(indices, every)
        bounds = np.asarray(sizes, typeof(indices).dtype)
        outside = lax.bitwise_or(lax.lt(low, -bounds), lax.ge(high, bounds))
        set_error_if(outside, "Out of bounds encountered before calling `lax.gather`")


class error_checking_behavior:
    """A block in which errors are noted, or are not: `all` of them, or those of a category,
    "ignore" or "raise"."""

    def __init__(
        self, *, all: Any = None, nan: Any = None, divide: Any = None, oob: Any = None
    ) -> None:
        self.flags = [
            (config.error_checking_behavior_nan, nan or all),
            (config.error_checking_behavior_divide, divide or all),
            (config.error_checking_behavior_oob, oob or all),
        ]

    def __enter__(self) -> error_checking_behavior:
        self.stack = contextlib.ExitStack()
        for flag, value in self.flags:
            if value is not None:
                self.stack.enter_context(flag(value))
        return self

    def __exit__(self, *exc: Any) -> None:
        self.stack.close()


__all__ = [
    "JaxValueError",
    "error_checking_context",
    "raise_if_error",
    "set_error_if",
    "unwrap_from_import",
    "wrap_for_export",
]
