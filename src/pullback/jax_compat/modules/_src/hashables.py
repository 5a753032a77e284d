"""Names of `jax._src.util`: values with another identity, classes that nothing pretends to be of,
and orders of nodes."""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable, Sequence
from typing import Any, NoReturn


class HashableWrapper:
    """A value that is itself only: hashed and compared by identity unless it can be hashed."""

    def __init__(self, x: Any) -> None:
        self.x = x
        try:
            self.hash = hash(x)
        except TypeError:
            self.hash = id(x)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashableWrapper):
            return False
        return bool(self.x == other.x) if self.hash != id(self.x) else self.x is other.x


class Hashable:
    """A value that can be hashed."""

    __slots__ = ("val",)

    def __init__(self, val: Any) -> None:
        self.val = val

    def __hash__(self) -> int:
        return hash(self.val)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashable) and bool(self.val == other.val)


class Unhashable:
    """A value that cannot be hashed."""

    __slots__ = ("val",)

    def __init__(self, val: Any) -> None:
        self.val = val

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and bool(self.val == other.val)

    __hash__ = None  # type: ignore[assignment]


class StrictABCMeta(ABCMeta):
    """The class of classes of which nothing is an instance that was not made so."""

    def register(cls, subclass: type) -> NoReturn:
        raise NotImplementedError(f"{cls} does not support virtual subclassing")

    __instancecheck__ = type.__instancecheck__


class StrictABC(metaclass=StrictABCMeta):
    """A base class of which nothing is an instance that was not made so."""


def immutable(cls: type) -> type:
    """A class whose instances are not changed."""
    return cls


def toposort(end_nodes: Sequence[Any]) -> list[Any]:
    """The nodes that nodes come from (their `parents`), each behind its parents."""
    order: list[Any] = []
    seen: set[int] = set()

    def visit(node: Any) -> None:
        stack = [(node, iter(node.parents))]
        seen.add(id(node))
        while stack:
            at, parents = stack[-1]
            following = next((p for p in parents if id(p) not in seen), None)
            if following is None:
                order.append(at)
                stack.pop()
            else:
                seen.add(id(following))
                stack.append((following, iter(following.parents)))

    for node in end_nodes:
        if id(node) not in seen:
            visit(node)
    return order


def subs_list2(
    subs1: Sequence[int | None],
    subs2: Sequence[int | None],
    src1: Sequence[Any],
    src2: Sequence[Any],
    base: Sequence[Any],
) -> list[Any]:
    """What the first numbers name in `src1`; where they name nothing, what the second ones name in
    `src2`; and else what is in `base`, in its order."""
    rest = iter(base)
    return [
        src1[a] if a is not None else src2[b] if b is not None else next(rest)
        for a, b in zip(subs1, subs2, strict=True)
    ]


def fun_qual_name(fun: Callable[..., Any]) -> str:
    """The qualified name of a function."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return str(getattr(fun, "__qualname__", getattr(fun, "__name__", str(fun))))


def pprint_bytes(num_bytes: int | float) -> str:
    """A number of bytes for people."""
    units = ("B", "KB", "MB", "GB", "TB")
    size, k = float(num_bytes), 0
    while size >= 1024 and k < len(units) - 1:
        size, k = size / 1024, k + 1
    return f"{size:.2f}{units[k]}"
