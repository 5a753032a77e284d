"""High-level types: values of a library's own types as operands of primitives.

A library says with `register_hitype` what the type of its values is, and defines primitives on them
by subclassing `HiPrimitive`, or `VJPHiPrimitive` with rules of differentiation and mapping of its
own. They are evaluated and traced as any other primitive; what is compiled reads and gives the
arrays that the values are made of (control/high.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..control import high  # noqa: F401  (the rules of the primitives that hold programs)
from ..control.expand import register_inline
from ..core.avals import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    high_types,
    register_typeof,
)
from ..core.effects import control_flow_allowed_effects as control_flow_allowed_effects
from ..core.high import (
    AvalMutableQDD as AvalMutableQDD,
    AvalQDD as AvalQDD,
    cur_qdd as cur_qdd,
)
from ..core.primitive import Primitive
from ..core.refs import AbstractRef as AbstractRef, TransformedRef as TransformedRef
from ..core.symbolic import (
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from ..core.trace import aval_method as aval_method, aval_property as aval_property
from .vjp_primitive import VJPHiPrimitive as VJPHiPrimitive

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiPspec",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "TransformedRef",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]


class HiPspec:
    """How a library's values lie on a mesh, as `in_specs` and `out_specs` name it: the base class
    of such specs. `to_lo()` gives a PartitionSpec for each of the arrays that a value is made of;
    `to_tangent_spec()` and `to_ct_spec()` say how tangents and cotangents lie.

    >>> from pullback.experimental import hijax
    >>> class Pair(hijax.HiPspec):
    ...     to_lo = lambda self: (pullback.P('x'), pullback.P())
    >>> Pair().to_lo()
    (P('x',), P())
    """

    def to_lo(self) -> tuple[Any, ...]:
        raise AssertionError(f"{type(self).__name__} must override to_lo()")

    def to_tangent_spec(self) -> HiPspec:
        raise AssertionError(f"{type(self).__name__} must override to_tangent_spec()")

    def to_ct_spec(self) -> HiPspec:
        raise AssertionError(f"{type(self).__name__} must override to_ct_spec()")


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

    type_state = aval_method(cur_qdd)

    def lo_ty_qdd(self, state: Any, /) -> list[AbstractValue]:
        raise TypeError(f"{type(self).__name__} must define lo_ty_qdd(state)")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define new_from_loval(state, *arrays)")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        raise TypeError(f"{type(self).__name__} must define read_loval(state, value)")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        raise TypeError(f"{type(self).__name__} must define update_from_loval(state, value, ...)")


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
        super().__init__(name, register=False, multiple_results=type(self).multiple_results)
        self.effectful = True
        cls = type(self)
        for kind in ("jvp", "transpose", "batch"):
            if getattr(cls, kind, None) is not getattr(HiPrimitive, kind, None):
                self.rules[kind] = getattr(self, kind)
        own = cls.impl is not Primitive.impl
        self.rules["impl"] = self.impl if own else self.to_lojax
        register_inline(self, self.to_lojax)
        self.rules["abstract_eval"] = self.abstract_eval
        self.rules["of_high_types"] = True

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
    high_types.add(val_cls)
