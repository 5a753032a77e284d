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

The `__init__` is a template that is compiled once for each number of fields; a class gets a copy
with the names of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
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


def _template(fields: int, fresh: tuple[int, ...]) -> Any:
    """The `__init__` of a class with so many fields `f0, f1, ...`; `fresh` are those whose default
    is made anew."""
    found = _templates.get((fields, fresh))
    if found is not None:
        return found
    names = [f"f{k}" for k in range(fields)]
    lines = [
        f" self.{f} = {f}" + (f".maker() if {f}.__class__ is _Made else {f}" * (k in fresh))
        for k, f in enumerate(names)
    ]
    space: dict[str, Any] = {"_Made": _Made}
    exec(f"def __init__(self, {', '.join(names)}):\n" + "\n".join(lines or [" pass"]), space)
    found = _templates[fields, fresh] = space["__init__"]
    return found


def _init(cls: Any, names: list[str], defaults: dict[str, Any]) -> Any:
    """`__init__`: a template's code, with the names of this class."""
    given = [k for k, name in enumerate(names) if name in defaults]
    if given and given != list(range(given[0], len(names))):
        raise TypeError(f"{cls.__name__}: a field without a default follows one with a default")
    fresh = tuple([k for k in given if isinstance(defaults[names[k]], _Made)])
    template = _template(len(names), fresh)
    mine = {f"f{k}": name for k, name in enumerate(names)}
    code = template.__code__
    code = code.replace(
        co_names=tuple([mine.get(n, n) for n in code.co_names]),
        co_varnames=tuple([mine.get(n, n) for n in code.co_varnames]),
    )
    made = FunctionType(code, template.__globals__, "__init__")
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__defaults__ = tuple([defaults[names[k]] for k in given]) or None
    return made


def _by_value(names: list[str]) -> dict[str, Any]:
    """`__eq__` and `__hash__` of classes whose values count."""
    values = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


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
            __slots__=(*names, "__weakref__") if weak else (*names,),
            __repr__=space.get("__repr__", _repr),
            __reduce__=_reduce, __match_args__=(*names,), __init__=_init(cls, names, defaults),
            **(_by_value(names) if eq else {}),
        )  # fmt: skip
        return type(cls)(cls.__name__, cls.__bases__, space)

    return make if cls is None else make(cls)


def replaced(value: T, **changes: Any) -> T:
    """A record with other values in some fields."""
    fields = {name: getattr(value, name) for name in value.__match_args__}  # type: ignore[attr-defined]
    return type(value)(**{**fields, **changes})
