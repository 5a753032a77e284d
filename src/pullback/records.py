"""Classes of named values, made in a tenth of the time that `dataclasses` takes: the import of the
package is full of them.

    @record
    class Point:
        x: int
        y: int = 0
        tags: list[str] = made(default_factory=list)

Instances have slots, compare by identity, and are not to be changed (the type checker sees to it).
`@record(eq=True)` compares and hashes by value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["made", "record", "replaced"]

T = TypeVar("T")


class _Made:
    """A default that is made anew for each instance."""

    __slots__ = ("maker",)

    def __init__(self, maker: Callable[[], Any]) -> None:
        self.maker = maker


def made(default_factory: Callable[[], T]) -> T:
    """A field whose default is made anew for each instance."""
    return _Made(default_factory)  # type: ignore[return-value]


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({fields})"


def _reduce(self: Any) -> Any:
    return type(self), tuple([getattr(self, name) for name in self.__slots__])


def _methods(names: list[str], defaults: dict[str, Any], eq: bool) -> dict[str, Any]:
    """`__init__`, and `__eq__` and `__hash__` where values count."""
    parameters, lines = ["self"], []
    space: dict[str, Any] = {"_made": _Made}
    for name in names:
        if name not in defaults:
            parameters.append(name)
            lines.append(f" self.{name} = {name}")
            continue
        space["_" + name] = defaults[name]
        parameters.append(f"{name}=_{name}")
        fresh = isinstance(defaults[name], _Made)
        lines.append(
            f" self.{name} = "
            + (f"_{name}.maker() if {name} is _{name} else {name}" if fresh else name)
        )
    text = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])
    if eq:
        mine, theirs = (
            "(" + "".join(f"{x}.{name}, " for name in names) + ")" for x in ("self", "other")
        )
        text += (
            f"\ndef __eq__(self, other):\n"
            f" return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented\n"
            f"def __hash__(self):\n return hash({mine})"
        )
    exec(text, space)
    found = ("__init__", "__eq__", "__hash__") if eq else ("__init__",)
    return {name: space[name] for name in found}


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(*, eq: bool) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(made,))
def record(cls: Any = None, /, *, eq: bool = False) -> Any:
    """The class decorator; see above."""

    def make(cls: Any) -> Any:
        names = [n for n in cls.__annotations__ if not n.startswith("__")]
        space = dict(vars(cls))
        defaults = {n: space.pop(n) for n in names if n in space}
        for gone in ("__dict__", "__weakref__"):
            space.pop(gone, None)
        space.update(
            __slots__=(*names,), __repr__=_repr, __reduce__=_reduce,
            __match_args__=(*names,), **_methods(names, defaults, eq),
        )  # fmt: skip
        return type(cls)(cls.__name__, cls.__bases__, space)

    return make if cls is None else make(cls)


def replaced(value: T, **changes: Any) -> T:
    """A record with other values in some fields."""
    fields = {name: getattr(value, name) for name in value.__slots__}  # type: ignore[attr-defined]
    return type(value)(**{**fields, **changes})
