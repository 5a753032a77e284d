"""`jax._src.config`: the flags, as objects whose `value` is the one in force and which are called
for a block."""

from __future__ import annotations

from typing import Any

from .... import config as _flags
from ....config import (
    make_user_context as make_user_context,
    parse_flags_with_absl as parse_flags_with_absl,
    update as update,
)
from ....core.trace import trace_context as trace_context

config = _flags


class State:
    """A flag. `state.value` is its value here and now; `with state(value): ...` sets it for a
    block."""

    def __init__(self, flag: _flags.Flag) -> None:
        self.flag, self.name, self.__doc__ = flag, flag.name, flag.doc

    @property
    def value(self) -> Any:
        """The value in force in this thread."""
        return self.flag.get()

    def get_global(self) -> Any:
        """The process's value."""
        return self.flag.value

    def get_local(self) -> Any:
        """The value in force in this thread."""
        return self.flag.get()

    def __call__(self, value: Any = True) -> Any:
        return self.flag(value)


def __getattr__(name: str) -> Any:
    for full in (f"jax_{name}", name, f"pullback_{name}"):
        if full in _flags.FLAGS:
            return State(_flags.FLAGS[full])
    raise AttributeError(f"module 'jax._src.config' has no attribute {name!r}")
