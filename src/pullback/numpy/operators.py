"""Python's operators on arrays and tracers: each is the jnp function, or NotImplemented for foreign
operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lax
from ..api.eager import eager, is_lone_integer
from ..api.operators import native_getitem, native_operator
from ..api.recording import LazyPair
from ..core.avals import AbstractValue, high_types, typeof
from ..core.trace import Tracer
from ..runtime.array import ArrayImpl, set_operator
from ..runtime.operands import Policy
from . import arithmetic, comparison, indexing, logic, rounding
from .products import matmul
from .util import promote_args_numeric

_ACCEPTED: tuple[type, ...] = (int, float, complex, np.generic, np.ndarray)


def _operand(other: Any) -> Any:
    """An operand as operators take it: the array that its `__jax_array__` gives if it has one, or
    NotImplemented. Lists, strings and None are none; objects with their own reflected operator go
    first.
    """
    kind = type(other)
    if kind in (int, float, bool, complex) or kind is ArrayImpl:
        return other
    if isinstance(other, Tracer):  # those of high-level types have operators of their own
        return NotImplemented if _is_high(other) else other
    if isinstance(other, _ACCEPTED):
        return other
    if hasattr(other, "__jax_array__"):  # asked first: proxies of arrays may forward an aval too
        return _operand(other.__jax_array__())
    if getattr(other, "__array_ufunc__", True) is None:  # NumPy's sign of operators of their own
        return NotImplemented
    return other if isinstance(getattr(other, "aval", None), AbstractValue) else NotImplemented


# Python would repeat a list as often as an integer array says, and find it unequal to any array. To
# other operators Python itself finds no answer.
_CONTAINERS = (list, tuple, set, dict)
_REJECTED: dict[str, tuple[type, ...]] = {
    "add": (list, tuple),
    "multiply": (list, tuple),
    "eq": _CONTAINERS,
    "ne": _CONTAINERS,
}


def _is_rejected(name: str, x: Any) -> bool:
    """Is it a container without an operator of its own? A subclass may define one."""
    base = next((t for t in _REJECTED.get(name, ()) if isinstance(x, t)), None)
    if base is None:
        return False
    own = f"__{_MIRRORED.get(name, 'r' + _DUNDER.get(name, name))}__"
    return getattr(type(x), own, None) is getattr(base, own, None)


def _is_high(x: Any) -> bool:
    """Is it a tracer of a high-level type?"""
    return bool(high_types) and isinstance(x, Tracer) and bool(x.aval.is_high)


def _own_operator(x: Any, name: str) -> Any:
    """What the high-level type of a tracer says of an operator; None for other values."""
    return getattr(x.aval, name, None) if _is_high(x) else None


def _defer(name: str, x: Any, y: Any) -> Any:
    """An operand that is no array: its own operator may know, unless it is a container."""
    if high_types:
        for prefix, one, other in (("_", x, y), ("_r", y, x)):
            own = _own_operator(one, prefix + _DUNDER.get(name, name))
            if own is not None:
                return own(one, other)
    if _is_rejected(name, x) or _is_rejected(name, y):
        raise TypeError(
            f"unsupported operand type(s) for {_SYMBOLS[name]}: {type(x).__name__!r} and "
            f"{type(y).__name__!r}. Fix: jnp.asarray(...) makes an array of numbers in a container."
        )
    return NotImplemented


def _deferring(name: str, fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def operator(x: Any, y: Any) -> Any:
        left, right = _operand(x), _operand(y)
        if left is NotImplemented or right is NotImplemented:
            return _defer(name, x, y)
        return fun(left, right)

    return operator


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": arithmetic.add_pair,
    "subtract": arithmetic.subtract_pair,
    "multiply": arithmetic.multiply_pair,
    "true_divide": arithmetic.true_divide,
    "floor_divide": arithmetic.floor_divide,
    "remainder": arithmetic.remainder,
    "power": arithmetic.power,
    "matmul": matmul,
    "lshift": logic.left_shift,
    "rshift": logic.right_shift,
    "and": logic.bitwise_and_pair,
    "or": logic.bitwise_or_pair,
    "xor": logic.bitwise_xor_pair,
    "lt": comparison.less,
    "le": comparison.less_equal,
    "eq": comparison.equal,
    "ne": comparison.not_equal,
    "gt": comparison.greater,
    "ge": comparison.greater_equal,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": arithmetic.negative_one,
    "positive": arithmetic.positive,
    "absolute": arithmetic.absolute,
    "invert": logic.invert,
}
_DUNDER = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "matmul": "matmul",
    "lshift": "lshift",
    "rshift": "rshift",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
_SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//",
    "remainder": "%", "power": "** or pow()", "matmul": "@", "lshift": "<<", "rshift": ">>",
    "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">",
    "ge": ">=",
}  # fmt: skip
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_COMPARE = ("lt", "le", "eq", "ne", "gt", "ge")
_UNARY_DUNDER = {"negative": "neg", "positive": "pos", "absolute": "abs", "invert": "invert"}


def _divmod(self: Any, other: Any) -> Any:
    known = _operand(other)
    return arithmetic.divmod(self, known) if known is not NotImplemented else NotImplemented


def _rdivmod(self: Any, other: Any) -> Any:
    known = _operand(other)
    return arithmetic.divmod(known, self) if known is not NotImplemented else NotImplemented


def _round(self: Any, ndigits: int | None = None) -> Any:
    out = rounding.round(self, ndigits or 0)
    # As Python's round: without a number of digits the result is an integer.
    return lax.convert_element_type(out, int) if ndigits is None else out


def _contains(self: Any, other: Any) -> Any:
    """`value in x`, for a vector and a scalar: for anything else Python's question has no one
    meaning."""
    x, y = promote_args_numeric("Array.__contains__", self, other)
    if typeof(x).ndim != 1:
        raise ValueError(
            "Array.__contains__: search array must be one-dimensional, got arr.shape="
            f"{typeof(x).shape}. Fix: (x == value).any()"
        )
    if typeof(y).ndim != 0:
        raise ValueError(
            "Array.__contains__: query value must be a scalar, got query.shape="
            f"{typeof(y).shape}. Fix: jnp.isin(value, x)"
        )
    return lax.reduce_or(lax.eq(x, y), (0,))  # an array: `in` itself asks for its bool


def _reflected(name: str, fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        known = _operand(other)
        if known is NotImplemented or _is_high(self):
            return _defer(name, other, self)
        return fun(known, self)

    return method


def _direct(name: str, fun: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        known = _operand(other)
        if known is NotImplemented or _is_high(self):
            return _defer(name, self, other)
        return fun(self, known)

    return method


def install(cls: Any) -> None:
    """Gives a class (of tracers, or of arrays without native operators) every operator."""
    for name, dunder in _DUNDER.items():
        _set(cls, f"__{dunder}__", _direct(name, BINARY[name]))
        _set(cls, f"__r{dunder}__", _reflected(name, BINARY[name]))
    for name in _COMPARE:
        _set(cls, f"__{name}__", _direct(name, BINARY[name]))
    for name, dunder in _UNARY_DUNDER.items():
        _set(cls, f"__{dunder}__", _unary(dunder, UNARY[name]))
    _set(cls, "__getitem__", indexing.getitem)
    _install_others(cls)


def _unary(dunder: str, fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        own = _own_operator(self, f"_{dunder}") if high_types else None
        return fun(self) if own is None else own(self)

    return method


def _set(cls: Any, name: str, function: Callable[..., Any]) -> None:
    function.__name__ = name
    function.__qualname__ = f"{cls.__name__}.{name}"
    setattr(cls, name, function)


def _install_others(cls: Any) -> None:
    """The operators that arrays have no native slot for."""
    for name, function in (
        ("__divmod__", _divmod),
        ("__rdivmod__", _rdivmod),
        ("__round__", _round),
        ("__contains__", _contains),
    ):
        setattr(cls, name, function)


def install_native() -> None:
    """Gives the Array its operators: what runs when no native entry applies."""
    for name, fun in BINARY.items():
        set_operator(name, native_operator(name, fun, _deferring_lazily(name)))
    # A Python integer is a static power: part of the program, not one of its operands. So is the
    # integer that an array holds alone, whose value is looked at in each call.
    entered = native_operator("power", arithmetic.power, _deferring_lazily("power"))
    lazily = _lazy("power")

    def power(x: Any, y: Any) -> Any:
        if type(y) in (int, bool):
            return lazily(x, y)
        return lazily(x, y) if is_lone_integer(y) else entered(x, y)

    set_operator("power", power)
    for name, one in UNARY.items():
        set_operator(name, native_operator(name, one))
    # Integers in an index are operands, slices are part of the program.
    set_operator("getitem", eager(native_getitem(indexing.getitem), Policy(0, (), True)))
    _install_others(ArrayImpl)


_PLAIN: tuple[type, ...] = (LazyPair, ArrayImpl, float, int)


def _noted(native: Any, otherwise: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    """An operator of values that are written down: see `api/recording.py`."""

    def method(self: Any, other: Any) -> Any:
        if type(other) in _PLAIN:
            return native(other, self) if swap else native(self, other)
        return otherwise(self, other)

    return method


def _lazy(name: str) -> Any:
    """The eager function of an operator."""
    if name not in _lazies:
        static = Policy(-1 if name in ("power", "lshift", "rshift") else 0, (), True)
        _lazies[name] = eager(_twin(BINARY[name]), static)
    return _lazies[name]


_lazies: dict[str, Any] = {}


def _deferring_lazily(name: str) -> Callable[[Any, Any], Any]:
    """What operators of arrays do with operands that have no native entry."""
    native, otherwise = _lazy(name), _deferring(name, BINARY[name])

    def operator(x: Any, y: Any) -> Any:
        if type(y) is LazyPair and type(x) is ArrayImpl:
            return native(x, y)
        return otherwise(x, y)

    return operator


def install_lazy() -> None:
    """Operators of values that are written down: the eager functions."""
    for name, fun in BINARY.items():
        native = _lazy(name)
        dunder = _DUNDER.get(name, name)
        _set(LazyPair, f"__{dunder}__", _noted(native, _direct(name, fun), False))
        if name in _DUNDER:
            _set(LazyPair, f"__r{dunder}__", _noted(native, _reflected(name, fun), True))
    for name, one in UNARY.items():
        _set(LazyPair, f"__{_UNARY_DUNDER[name]}__", eager(_twin(one), Policy(0, (), True)))
    setattr(LazyPair, "__getitem__", eager(_twin(indexing.getitem), Policy(0, (), True)))  # noqa: B010


def _twin(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as another object, so that it has entries of its own."""

    def call(*args: Any) -> Any:
        return fun(*args)

    call.__name__ = getattr(fun, "__name__", "operator")
    return call


def _iterate(self: Any) -> Any:
    own = _own_operator(self, "_iter") if high_types else None
    if own is not None:
        return own(self)
    if not self.shape:  # said by iter() itself, not by the first step
        raise TypeError("iteration over a 0-d array")
    return indexing.iterate(self)


def install_all() -> None:
    """Every operator, on tracers and on arrays."""
    install(Tracer)
    Tracer.__iter__ = _iterate
    install_native()
    install_lazy()
