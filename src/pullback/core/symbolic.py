"""Stand-ins that rules meet instead of arrays: zero tangents and the linear operands of a
transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from .avals import AbstractValue, typeof


class Zero:
    """A tangent or cotangent that is known to be zero. Rules never see a materialised zero unless
    they ask for one.

    >>> pb.interpreters.ad.Zero(pb.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"

    @staticmethod
    def from_primal_value(x: Any) -> Zero:
        return Zero(typeof(x).to_tangent_aval())

    def instantiate(self) -> Any:
        return instantiate_zero(self.aval)


class UndefinedPrimal:
    """A linear operand in a transpose rule: its value is not known, only its type.

    >>> operand = pb.interpreters.ad.UndefinedPrimal(pb.typeof(1.0))
    >>> pb.interpreters.ad.is_undefined_primal(operand)
    True
    """

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


class SymbolicZero:
    """What a custom rule with `symbolic_zeros=True` sees in place of a zero tangent. Acts as an
    array type, not as an array.

    >>> @pb.custom_jvp
    ... def f(x, y):
    ...     return x * y
    >>> def rule(primals, tangents):
    ...     print(type(tangents[1]).__name__)
    ...     return f(*primals), primals[1] * tangents[0]
    >>> _ = f.defjvp(rule, symbolic_zeros=True)
    >>> pb.jvp(lambda x: f(x, 3.0), (2.0,), (1.0,))[1]
    SymbolicZero
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(typeof(val).to_tangent_aval())

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def is_undefined_primal(x: Any) -> bool:
    """Does `x` stand for an operand of a transposition that has no value?

    >>> pb.interpreters.ad.is_undefined_primal(1.0)
    False
    """
    return type(x) is UndefinedPrimal


def is_zero(x: Any) -> bool:
    return type(x) is Zero


# Filled by primitives/shape: how to make an array of zeros of an aval (a broadcast, so that it is
# traced and fuses).
_make_zeros: list[Any] = [lambda aval: np.zeros(aval.shape, aval.dtype)]


def instantiate_zero(aval: Any) -> Any:
    """An array of zeros of a type (float0 for types without tangents)."""
    if aval.is_high:
        return aval.vspace_zero()
    if getattr(aval, "dtype", None) == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return _make_zeros[0](aval)


def instantiate_zeros(x: Any) -> Any:
    """`x`, or the array of zeros that a Zero stands for.

    >>> from pullback.experimental import hijax
    >>> hijax.instantiate_zeros(hijax.Zero(pullback.typeof(jnp.ones(2))))
    Array([0., 0.], dtype=float32)
    """
    return instantiate_zero(x.aval) if type(x) is Zero else x
