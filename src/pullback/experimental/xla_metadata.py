"""Notes on programs for XLA's passes, which are not run here."""

from __future__ import annotations

import contextlib
from typing import Any

from .. import tree
from ..primitives.common import as_array

__all__ = ["set_xla_metadata"]


class _Noted(contextlib.nullcontext[None], contextlib.ContextDecorator):
    """A block, or a function, with notes."""


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Notes `kwargs` on the operations of a block (`with set_xla_metadata(key=value):`), of a
    function (as a decorator), or on those that made the arrays of a pytree `x`, which is given
    back. They change no result.

    >>> from pullback.experimental.xla_metadata import set_xla_metadata
    >>> set_xla_metadata(jnp.arange(3), part="encoder")
    Array([0, 1, 2], dtype=int32)
    """
    return _Noted() if x is None else tree.map(as_array, x)
