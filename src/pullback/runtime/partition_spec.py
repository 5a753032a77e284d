"""How an array is divided: over which axes of a mesh each of its axes lies, as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class PartitionSpec:
    """For each array axis: the mesh axis (or tuple of them) that it is divided over, or None.

    `unreduced` and `reduced` are sets of mesh axes over which sums are, or were, still to come.

    >>> pb.sharding.PartitionSpec("x", None)
    P('x', None)

    A sequence, but no tuple: `tuple(spec)` is one. TypeError for sets that are none, ValueError
    if they name an axis that divides the array.
    """

    __slots__ = ("__weakref__", "_partitions", "_reduced", "_unreduced")
    UNCONSTRAINED: Any
    _partitions: tuple[Any, ...]
    _unreduced: frozenset[Any]
    _reduced: frozenset[Any]

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        put = object.__setattr__
        put(self, "_partitions", tuple(map(_part, partitions)))
        for name, given in (("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(given, (set, frozenset)):
                raise TypeError(
                    f"{name} argument of PartitionSpec should of type `frozenset` or `set`. Got "
                    f"type {given}"
                )
            put(self, f"_{name}", frozenset(given))
        if unreduced or reduced:
            self._check_sums(unreduced, reduced)

    partitions = property(lambda self: self._partitions)
    unreduced = property(lambda self: self._unreduced)
    reduced = property(lambda self: self._reduced)

    def _check_sums(self, unreduced: Any, reduced: Any) -> None:
        own = {n for part in self._partitions for n in axes_of(part)}
        for name, given in (("unreduced", unreduced), ("reduced", reduced)):
            if None in given:
                raise ValueError(
                    f"{name} cannot contain None. All elements in {name} should refer to the mesh "
                    "axes."
                )
            if own & given:
                raise ValueError(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got "
                    f"partitions: {self._partitions} and {name} axes: {frozenset(given)}"
                )
        if self._unreduced & self._reduced:
            raise ValueError(
                "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got "
                f"unreduced: {self._unreduced} and reduced: {self._reduced}"
            )

    def update(self, partitions: Any = None, unreduced: Any = None, reduced: Any = None) -> Any:
        """This spec with some of its fields exchanged."""
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=self._unreduced if unreduced is None else unreduced,
            reduced=self._reduced if reduced is None else reduced,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self._partitions)) + ("," if len(self) == 1 else "")
        for name in ("unreduced", "reduced"):
            if names := getattr(self, name):
                gap = ", " if inner and not inner.endswith(",") else " " if inner else ""
                inner += f"{gap}{name}={set(names)!r}"
        return f"P({inner})"

    def __reduce__(self) -> Any:
        return _spec, (self._partitions, self._unreduced, self._reduced)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, k: Any) -> Any:
        return self._partitions[k]

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return _spec(
                (*self, *other), self._unreduced | other.unreduced, self._reduced | other.reduced
            )
        if isinstance(other, tuple):
            self._check_joins(other, "__add__")
            return _spec((*self, *other), self._unreduced, self._reduced)
        return NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        self._check_joins(other, "__radd__")
        return _spec((*other, *self), self._unreduced, self._reduced)

    def _check_joins(self, other: Any, method: str) -> None:
        """TypeError for a tuple beside sums that are still to come: it may name their axes."""
        for name in ("unreduced", "reduced"):
            if getattr(self, name):
                raise TypeError(
                    f"other {other} cannot be of instance `tuple` when self {self} has {name} in "
                    f"`{method}` of PartitionSpec. Fix: PartitionSpec{other}"
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and (
            self._partitions == other._partitions
            and self._unreduced == other._unreduced
            and self._reduced == other._reduced
        )

    def __hash__(self) -> int:
        return hash(("PartitionSpec", self._partitions))

    def index(self, value: Any, *rest: Any) -> int:
        return self._partitions.index(value, *rest)

    def count(self, value: Any) -> int:
        return self._partitions.count(value)


def _part(part: Any) -> Any:
    """An entry of a spec: one axis is no tuple of one, and no axis is None."""
    if not isinstance(part, (list, tuple)):
        return part
    for name in part:
        if isinstance(name, (list, tuple)):
            raise ValueError(
                "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                f"{part} and the nested tuple: {name}. Fix: name the mesh axes in one tuple."
            )
    return None if not part else part[0] if len(part) == 1 else tuple(part)


def axes_of(part: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry of a spec."""
    return part if isinstance(part, tuple) else () if part is None else (part,)


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()

    def __deepcopy__(self, memo: Any) -> _Unconstrained:
        return self


def _unconstrained() -> Any:
    return PartitionSpec.UNCONSTRAINED


PartitionSpec.UNCONSTRAINED = _Unconstrained()
