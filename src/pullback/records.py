"""Classes of named values, made in a fiftieth of the time that `dataclasses` takes: the import of
the package is full of them.

    @record
    class Point:
        x: int
        y: int = 0
        tags: list[str] = made(default_factory=list)

Instances have slots, compare by identity, and are not to be changed (the type checker sees to it).
`@record(eq=True)` compares and hashes by value, `frozen=False` says that fields may be set,
`weak=True` that there may be weak references.

The methods are templates that are compiled once for each number of fields; a class gets a copy with
the names of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
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
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({fields})"


def _reduce(self: Any) -> Any:
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])


_templates: dict[Any, Any] = {}


def _template(kind: str, fields: int, fresh: tuple[int, ...] = ()) -> Any:
    """The function `kind` of a class with so many fields `f0, f1, ...`; `fresh` are the fields
    whose default is made anew."""
    found = _templates.get((kind, fields, fresh))
    if found is not None:
        return found
    names = [f"f{k}" for k in range(fields)]
    if kind == "__init__":
        lines = [
            f" self.{f} = {f}" + (f".maker() if {f}.__class__ is _Made else {f}" * (k in fresh))
            for k, f in enumerate(names)
        ]
        text = f"def __init__(self, {', '.join(names)}):\n" + "\n".join(lines or [" pass"])
    else:
        mine, theirs = ("(" + "".join(f"{x}.{f}, " for f in names) + ")" for x in ("self", "other"))
        text = {
            "__eq__": f"def __eq__(self, other):\n return {mine} == {theirs} "
            "if other.__class__ is self.__class__ else NotImplemented",
            "__hash__": f"def __hash__(self):\n return hash({mine})",
        }[kind]
    space: dict[str, Any] = {"_Made": _Made}
    exec(text, space)
    found = _templates[kind, fields, fresh] = space[kind]
    return found


def _methods(cls: Any, names: list[str], defaults: dict[str, Any], eq: bool) -> dict[str, Any]:
    """`__init__`, and `__eq__` and `__hash__` where values count."""
    given = [k for k, name in enumerate(names) if name in defaults]
    if given and given != list(range(given[0], len(names))):
        raise TypeError(f"{cls.__name__}: a field without a default follows one with a default")
    fresh = tuple([k for k in given if isinstance(defaults[names[k]], _Made)])
    mine = {f"f{k}": name for k, name in enumerate(names)}
    out = {}
    for kind in ("__init__", "__eq__", "__hash__") if eq else ("__init__",):
        made = _template(kind, len(names), fresh if kind == "__init__" else ())
        code = made.__code__
        code = code.replace(
            co_names=tuple([mine.get(n, n) for n in code.co_names]),
            co_varnames=tuple([mine.get(n, n) for n in code.co_varnames]),
        )
        out[kind] = FunctionType(code, made.__globals__, kind)
        out[kind].__qualname__ = f"{cls.__qualname__}.{kind}"
    if given:
        out["__init__"].__defaults__ = tuple([defaults[names[k]] for k in given])
    return out


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(
    *, eq: bool = ..., frozen: bool = ..., weak: bool = ...
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(made,))
def record(cls: Any = None, /, *, eq: bool = False, frozen: bool = True, weak: bool = False) -> Any:
    """The class decorator; see above."""

    def make(cls: Any) -> Any:
        names = [n for n in cls.__annotations__ if not n.startswith("__")]
        space = dict(vars(cls))
        defaults = {n: space.pop(n) for n in names if n in space}
        for gone in ("__dict__", "__weakref__"):
            space.pop(gone, None)
        space.update(
            __slots__=(*names, "__weakref__") if weak else (*names,), __repr__=_repr,
            __reduce__=_reduce, __match_args__=(*names,), **_methods(cls, names, defaults, eq),
        )  # fmt: skip
        return type(cls)(cls.__name__, cls.__bases__, space)

    return make if cls is None else make(cls)


def replaced(value: T, **changes: Any) -> T:
    """A record with other values in some fields."""
    fields = {name: getattr(value, name) for name in value.__match_args__}  # type: ignore[attr-defined]
    return type(value)(**{**fields, **changes})
