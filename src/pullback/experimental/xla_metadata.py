"""Notes on programs for XLA's passes, which are not run here."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any

from .. import tree
from ..primitives.common import as_array

__all__ = ["set_xla_metadata"]


_notes: contextvars.ContextVar[dict[str, Any]] = contextvars.ContextVar("notes")


def current_notes() -> dict[str, Any]:
    """The notes of the blocks around."""
    return _notes.get({})


class _Noted(contextlib.ContextDecorator):
    """A block, or a function, with notes; None takes one of those around away."""

    def __init__(self, notes: dict[str, Any]) -> None:
        self.notes = notes

    def _recreate_cm(self) -> _Noted:  # each call of a decorated function has its own
        return _Noted(self.notes)

    def __enter__(self) -> None:
        notes = {**_notes.get({}), **self.notes}
        self.token = _notes.set({k: v for k, v in notes.items() if v is not None})

    def __exit__(self, *exc: Any) -> None:
        _notes.reset(self.token)


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Notes `kwargs` on the operations of a block (`with set_xla_metadata(key=value):`), of a
    function (as a decorator), or on those that made the arrays of a pytree `x`, which is given
    back. They change no result.

    >>> from pullback.experimental.xla_metadata import set_xla_metadata
    >>> set_xla_metadata(jnp.arange(3), part="encoder")
    Array([0, 1, 2], dtype=int32)
    """
    return _Noted(kwargs) if x is None else tree.map(as_array, x)
