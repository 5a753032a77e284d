"""What a backend is: `compile_program(closed jaxpr) -> Executable`, and the laws of executables.

An executable is called with a list of Arrays of its argument types (and which of them are donated)
and gives a list of new Arrays. It may be called from any thread; it never changes an argument that
was not donated; an error raises the exception that says which line of the user's made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..core.jaxpr import ClosedJaxpr


class Executable(Protocol):
    """A compiled program."""

    name: str

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]: ...

    def as_text(self) -> str: ...

    def memory_analysis(self) -> Any: ...


# The backends by name, in order of preference; each enters itself when it is imported.
compilers: dict[str, Callable[..., Executable]] = {}
_default: list[str] = []


def register_backend(name: str, compiler: Callable[..., Executable], default: bool = False) -> None:
    """Makes a backend known: `compiler(closed, donated, memory_limit)` compiles a program, in the
    knowledge of which arguments may be overwritten and how many bytes it may take (or None)."""
    compilers[name] = compiler
    if default or not _default:
        _default[:] = [name]


# Filled by primitives/keys: makes a value of an extended dtype of the array behind it.
_wrappers: list[Callable[[Any, Any], Any]] = []


def wrap_extended(dtype: Any, base: Any) -> Any:
    """A value of an extended dtype over its physical array."""
    return _wrappers[-1](dtype, base)


def compile_program(
    closed: ClosedJaxpr, donated: Sequence[bool] = (), memory_limit: int | None = None
) -> Executable:
    """Compiles with the default backend."""
    return compilers[_default[0]](closed, donated, memory_limit)
