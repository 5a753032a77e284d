"""High-level types in programs: values of a library's own classes, made of arrays.

Some of them never change; others have a state that operations change, whose type (the
quasi-dynamic data, QDD) may change with it. A program keeps for each variable of such a type what
its state's type is at the beginning and at the end: what is compiled takes the arrays of the first
and gives those of the second (control/high.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from .avals import high_types, typeof
from .trace import Tracer, current_trace


@dataclasses.dataclass(frozen=True)
class AvalQDD:
    """A type with the type of its state.

    >>> from pullback.experimental import hijax
    >>> aval = pullback.typeof(1.0)
    >>> hijax.AvalQDD(aval, None).aval is aval
    True
    """

    aval: Any
    qdd: Any

    is_high = property(lambda self: self.aval.is_high)
    has_qdd = True

    def to_tangent_aval(self) -> AvalQDD:
        return AvalQDD(self.aval.to_tangent_aval(), self.qdd.to_tangent_qdd())

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that a value in this state is made of."""
        return list(self.aval.lo_ty_qdd(self.qdd))

    def read_loval(self, val: Any) -> list[Any]:
        """The arrays of a value in this state."""
        return list(self.aval.read_loval(self.qdd, val))

    def new_from_loval(self, *vals: Any) -> Any:
        """A value in this state, of its arrays."""
        return self.aval.new_from_loval(self.qdd, *vals)

    def str_short(self, short_dtypes: bool = False, **options: Any) -> str:
        return str(self.aval.str_short(short_dtypes=short_dtypes))


@dataclasses.dataclass(frozen=True)
class AvalMutableQDD:
    """A type with the holder of the type of its state, which an operation may update.

    >>> from pullback.experimental import hijax
    >>> aval = pullback.typeof(1.0)
    >>> hijax.AvalMutableQDD(aval, None).aval is aval
    True
    """

    aval: Any
    mutable_qdd: Any

    is_high = property(lambda self: self.aval.is_high)
    has_qdd = True


class MutableQDD:
    """The type of a variable's state while its program is written: at first, and now."""

    __slots__ = ("cur_val", "init_val")

    def __init__(self, qdd: Any) -> None:
        self.init_val = self.cur_val = qdd

    def update(self, qdd: Any) -> None:
        self.cur_val = qdd


def is_high_value(x: Any) -> bool:
    """Is `x` a value, traced or not, of a high-level type?"""
    if not high_types:
        return False
    return type(x) in high_types or (isinstance(x, Tracer) and bool(x.aval.is_high))


def cur_qdd(x: Any) -> Any:
    """The type of a value's state now.

    Of values whose state may change: those that have a method `cur_qdd()`, and values of a type
    with state (`MutableHiType`). Raises AttributeError for others.

    >>> from pullback.experimental import cur_qdd
    >>> class Box:
    ...     def cur_qdd(self):
    ...         return 'empty'
    >>> cur_qdd(Box())
    'empty'
    """
    # Programs that are being written know what they have done to it, the innermost one first.
    trace: Any = current_trace()
    while trace is not None:
        held = trace.state_of(x) if hasattr(trace, "state_of") else None
        if held is not None:
            return held.cur_val
        trace = trace.parent_trace
    state = getattr(x, "cur_qdd", None)
    if callable(state):
        return state()
    aval: Any = typeof(x)
    if not aval.has_qdd or isinstance(x, Tracer):
        raise AttributeError(
            f"'{type(x).__name__}' object has no attribute 'cur_qdd': values of type {aval} have "
            "no state. Fix: ask values of a MutableHiType only."
        )
    return aval.type_state


def typeof_now(x: Any) -> Any:
    """The type of a value, with the type of its state if it has one."""
    aval = typeof(x)
    return AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval


def var_type(v: Any, final: bool = False) -> Any:
    """The type of a variable, with that of its state when the program begins or ends."""
    if not v.aval.has_qdd:
        return v.aval
    return AvalQDD(v.aval, v.final_qdd if final else v.initial_qdd)


def held_programs(primitive: Any, params: dict[str, Any]) -> Iterator[tuple[Any, int]]:
    """The programs of an operation with the position of the operand that their first argument
    is."""
    rule = primitive.rules.get("held_programs")
    if rule is not None:
        yield from rule(params)
