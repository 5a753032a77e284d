"""High-level types: values of a library's own types as operands of primitives.

A library says with `register_hitype` what the type of its values is, and defines primitives on them
by subclassing `HiPrimitive`. They are evaluated and traced as any other primitive; what a program
that is compiled reads and gives are arrays, so that a high-level value does not cross the border of
`jit`: it is made and read inside, or outside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..control.expand import register_inline
from ..core.avals import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    register_typeof,
    typeof,
)
from ..core.effects import control_flow_allowed_effects as control_flow_allowed_effects
from ..core.primitive import Primitive
from ..core.refs import AbstractRef as AbstractRef
from ..core.symbolic import (
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from ..core.trace import aval_method as aval_method, aval_property as aval_property

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]


class HiType(AbstractValue):
    """The type of a library's values, which are made of arrays and never change.

    `lo_ty()` gives the types of the arrays, `lower_val(value)` the arrays themselves, and
    `raise_val(*arrays)` a value of them.

    See `register_hitype`.

    >>> from pullback.experimental import hijax
    >>> class Pair(hijax.HiType):
    ...     lo_ty = lambda self: [pullback.typeof(1.0)] * 2
    >>> len(Pair().lo_ty())
    2
    """

    is_high = True
    has_qdd = False

    def lo_ty(self) -> list[AbstractValue]:
        raise TypeError(f"{type(self).__name__} must define lo_ty()")

    def lower_val(self, hi_val: Any) -> list[Any]:
        raise TypeError(f"{type(self).__name__} must define lower_val(value)")

    def raise_val(self, *lo_vals: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define raise_val(*arrays)")

    def vspace_zero(self) -> Any:
        raise TypeError(f"{type(self).__name__} must define vspace_zero()")

    def vspace_add(self, x: Any, y: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define vspace_add(x, y)")


class MutableHiType(AbstractValue):
    """The type of a library's values that change: their state has a type of its own, the
    quasi-dynamic data (QDD).

    See `HiType`, of which it is the kin for values that change.

    >>> from pullback.experimental import hijax
    >>> issubclass(hijax.MutableHiType, hijax.AbstractValue)
    True
    """

    is_high = True
    has_qdd = True
    is_writer = False

    @property
    def type_state(self) -> Any:
        raise TypeError(f"{type(self).__name__} must define type_state")

    def lo_ty_qdd(self, state: Any, /) -> list[AbstractValue]:
        raise TypeError(f"{type(self).__name__} must define lo_ty_qdd(state)")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define new_from_loval(state, *arrays)")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        raise TypeError(f"{type(self).__name__} must define read_loval(state, value)")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        raise TypeError(f"{type(self).__name__} must define update_from_loval(state, value, ...)")


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


class HiPrimitive(Primitive):
    """A primitive whose rules are its methods: `abstract_eval` (giving types and effects),
    `to_lojax` (what it does, in other operations), `impl`, `jvp` and `transpose`.

    >>> from pullback.experimental import hijax
    >>> class Shout(hijax.HiPrimitive):
    ...     def abstract_eval(self, x):
    ...         return x, set()
    ...
    ...     def to_lojax(self, x):
    ...         return 10 * x
    >>> pullback.jit(Shout('shout').bind)(jnp.float32(2))
    Array(20., dtype=float32)
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, register=False)
        self.effectful = True
        cls = type(self)
        for kind in ("jvp", "transpose", "batch"):
            if getattr(cls, kind, None) is not getattr(HiPrimitive, kind, None):
                self.rules[kind] = getattr(self, kind)
        own = cls.impl is not Primitive.impl
        self.rules["impl"] = self.impl if own else self.to_lojax
        register_inline(self, self.to_lojax)
        self.rules["abstract_eval"] = self.abstract_eval

    def is_high(self, *avals: Any, **params: Any) -> bool:
        return False

    def is_effectful(self, params: dict[str, Any]) -> bool:
        return False

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        raise TypeError(f"the primitive '{self.name}' must define abstract_eval(*types)")

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        raise TypeError(f"the primitive '{self.name}' must define to_lojax(*values)")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise TypeError(f"the primitive '{self.name}' must define jvp(primals, tangents)")

    def transpose(self, *args: Any, **params: Any) -> Any:
        raise TypeError(f"the primitive '{self.name}' must define transpose(ct, *args)")


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Values of the class `val_cls` are operands of primitives; `typeof_fn(value)` is their
    type.

    >>> from pullback.experimental import hijax
    >>> class Name:
    ...     pass
    >>> class NameType(hijax.HiType):
    ...     __eq__ = lambda self, other: type(other) is NameType
    ...     __hash__ = lambda self: 0
    ...     str_short = lambda self, short_dtypes=False, **options: 'name'
    >>> hijax.register_hitype(Name, lambda value: NameType())
    >>> pullback.typeof(Name())
    NameType()
    """
    register_typeof(val_cls, typeof_fn)


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
    state = getattr(x, "cur_qdd", None)
    if callable(state):
        return state()
    aval: Any = typeof(x)
    if not aval.has_qdd:
        raise AttributeError(
            f"'{type(x).__name__}' object has no attribute 'cur_qdd': values of type {aval} have "
            "no state. Fix: ask values of a MutableHiType only."
        )
    return aval.type_state
