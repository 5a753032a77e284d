"""Functions of two arrays that are objects with methods: `reduce`, `accumulate`, `at`, `outer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..control.custom_jvp import custom_jvp
from ..core.avals import typeof
from ..lazy_imports import lazy_module
from . import reductions
from .arithmetic import add_pair, multiply_pair, negative_one, subtract_pair
from .comparison import maximum_pair, minimum_pair
from .elementary import exp2
from .logic import (
    bitwise_and_pair,
    bitwise_or_pair,
    bitwise_xor_pair,
    logical_and_pair,
    logical_or_pair,
    logical_xor_pair,
)
from .tables import binary
from .ufunc_api import BuiltinUfunc as ufunc
from .util import (
    check_arraylike,
    literal,
    promote_args_inexact,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    to_type,
    user_dtype,
)

cumulative: Any = lazy_module("pullback.numpy.cumulative")

scatter: Any = lazy_module("pullback.numpy.scatter")

nn_functions: Any = lazy_module("pullback.nn.functions")


def _reduce_by(fun: Any) -> Any:
    def reduce(
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        return fun(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _of_truth_values(fun: Any) -> Any:
    """A reduction of truth values; a dtype, of integers or bools, is that of the result."""

    def reduce(a: Any, dtype: Any = None, **more: Any) -> Any:
        result = fun(a, **more)
        return result if dtype is None else to_type(result, _logical_dtype(dtype), False)

    return reduce


def _logical_dtype(dtype: Any) -> Any:
    kind = user_dtype(dtype, "reduce")
    if dtypes.is_bool(kind) or dtypes.is_integer(kind):
        return kind
    raise TypeError(
        f"reductions by logical functions give bools or integers, got dtype={kind}. Fix: "
        "convert the result."
    )


def _accumulate_by(name: str) -> Any:
    def accumulate(a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        return getattr(cumulative, name)(a, axis=axis, dtype=dtype)

    return accumulate


# Bools are added by "or" and multiplied by "and": the largest and the smallest.
_OF_BOOLS = {"add": "max", "multiply": "min"}


def is_bools(a: Any) -> bool:
    """Has an array the dtype bool?"""
    return dtypes.is_bool(typeof(a).dtype)


def _at_by(how: str, promote: bool = False) -> Any:
    def at(a: Any, indices: Any, b: Any = None) -> Any:
        if promote:
            check_arraylike(f"{how}imum.at", a, b)
            a, b = promote_dtypes(a, b)
            a = to_type(a, typeof(a).dtype, False)
        if how in _OF_BOOLS and is_bools(a):
            return scatter.update(a, indices, to_type(b, np.dtype(bool), False), _OF_BOOLS[how])
        return scatter.update(a, indices, b, how)

    return at


add = ufunc(
    add_pair,
    2,
    1,
    name="add",
    nargs=2,
    identity=0,
    reduce=_reduce_by(reductions.sum_reduce),
    accumulate=_accumulate_by("cumsum"),
    at=_at_by("add"),
)

multiply = ufunc(
    multiply_pair,
    2,
    1,
    name="multiply",
    nargs=2,
    identity=1,
    reduce=_reduce_by(reductions.prod_reduce),
    accumulate=_accumulate_by("cumprod"),
    at=_at_by("multiply"),
)

subtract = ufunc(subtract_pair, 2, 1, name="subtract", nargs=2, at=_at_by("subtract"))

maximum = ufunc(
    maximum_pair,
    2,
    1,
    name="maximum",
    nargs=2,
    reduce=_reduce_by(reductions.max_reduce),
    at=_at_by("max", True),
)

minimum = ufunc(
    minimum_pair,
    2,
    1,
    name="minimum",
    nargs=2,
    reduce=_reduce_by(reductions.min_reduce),
    at=_at_by("min", True),
)

negative = ufunc(negative_one, 1, 1, name="negative", nargs=1)

bitwise_and = ufunc(
    bitwise_and_pair,
    2,
    1,
    name="bitwise_and",
    nargs=2,
    identity=-1,
    reduce=_reduce_by(reductions.bitwise_and_reduce),
)

bitwise_or = ufunc(
    bitwise_or_pair,
    2,
    1,
    name="bitwise_or",
    nargs=2,
    identity=0,
    reduce=_reduce_by(reductions.bitwise_or_reduce),
)

bitwise_xor = ufunc(
    bitwise_xor_pair,
    2,
    1,
    name="bitwise_xor",
    nargs=2,
    identity=0,
    reduce=_reduce_by(reductions.bitwise_xor_reduce),
)

logical_and = ufunc(
    logical_and_pair,
    2,
    1,
    name="logical_and",
    nargs=2,
    identity=True,
    reduce=_reduce_by(_of_truth_values(reductions.all_reduce)),
)

logical_or = ufunc(
    logical_or_pair,
    2,
    1,
    name="logical_or",
    nargs=2,
    identity=False,
    reduce=_reduce_by(_of_truth_values(reductions.any_reduce)),
)

logical_xor = ufunc(
    logical_xor_pair,
    2,
    1,
    name="logical_xor",
    nargs=2,
    identity=False,
    reduce=_reduce_by(_of_truth_values(reductions.logical_xor_reduce)),
)


def _wrap_angle(x: Any) -> Any:
    """An angle brought into [-pi, pi)."""
    two_pi = literal(x, 2 * np.pi)
    m = lax.rem(lax.add(x, literal(x, np.pi)), two_pi)
    m = lax.select(lax.lt(m, literal(m, 0)), lax.add(m, two_pi), m)
    return lax.sub(m, literal(m, np.pi))


def _logaddexp(x1: Any, x2: Any) -> Any:
    high = lax.max(x1, x2)
    if dtypes.is_complex(typeof(high).dtype):
        delta = lax.sub(lax.add(x1, x2), lax.mul(high, literal(high, 2)))
        out = lax.add(high, lax.log1p(lax.exp(delta)))
        return lax.complex(lax.real(out), _wrap_angle(lax.imag(out)))
    delta = lax.sub(x1, x2)
    # Two equal infinities: their difference is NaN, their sum is the answer.
    return lax.select(
        lax.ne(delta, delta),
        lax.add(x1, x2),
        lax.add(high, lax.log1p(lax.exp(lax.neg(lax.abs(delta))))),
    )


def _logaddexp2(x1: Any, x2: Any) -> Any:
    high = lax.max(x1, x2)
    if dtypes.is_complex(typeof(high).dtype):
        delta = lax.sub(lax.add(x1, x2), lax.mul(high, literal(high, 2)))
        out = lax.add(high, lax.div(lax.log1p(exp2(delta)), literal(high, np.log(2))))
        return lax.complex(lax.real(out), _wrap_angle(lax.imag(out)))
    delta = lax.sub(x1, x2)
    lost, total = lax.ne(delta, delta), lax.add(x1, x2)
    tail = lax.log1p(lax.exp2(lax.neg(lax.abs(delta))))
    return lax.select(lost, total, lax.add(high, lax.mul(literal(tail, 1 / np.log(2)), tail)))


def _logaddexp_rule(fun: Any, power_of: Callable[[Any], Any]) -> Any:
    def rule(primals: Any, tangents: Any) -> Any:
        # d log(e^a + e^b) = e^(a - out) da + e^(b - out) db, where JAX takes an infinity for 0.
        x1, x2 = primals
        t1, t2 = (promote_dtypes_inexact(t)[0] for t in tangents)
        out = fun(x1, x2)

        def finite(x: Any) -> Any:
            part = lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x
            infinite = lax.eq(part, literal(part, np.inf))
            zero = lax.full_like(x, 0) if shape_of(x) else literal(x, 0)
            return lax.select(infinite, zero, x)

        def weight(x: Any) -> Any:
            return power_of(lax.sub(finite(x), finite(out)))

        return out, lax.add(lax.mul(t1, weight(x1)), lax.mul(t2, weight(x2)))

    return rule


def _custom(name: str, fun: Any, power_of: Callable[[Any], Any]) -> Any:
    fun.__name__ = name
    wrapped = custom_jvp(fun)
    rule = _logaddexp_rule(wrapped, power_of)
    rule.__name__ = f"_{name}_jvp"
    wrapped.defjvp(rule)
    return wrapped


_logaddexp_own = _custom("logaddexp", _logaddexp, lambda x: lax.exp(x))

logaddexp_rule = _logaddexp_own.jvp  # (primals, tangents) -> (result, tangent)

_logaddexp2_own = _custom("logaddexp2", _logaddexp2, lambda x: lax.exp2(x))

_logaddexp_pair = binary(
    "logaddexp",
    lambda x, y: _logaddexp_own(x, y),
    """log(exp(x) + exp(y)), without overflow.

    >>> jnp.logaddexp(1000.0, jnp.array([0.0, 1000.0]))
    Array([1000.    , 1000.6932], dtype=float32)
    """,
    promote_args_inexact,
)

_logaddexp2_pair = binary(
    "logaddexp2",
    lambda x, y: _logaddexp2_own(x, y),
    """log2(2**x + 2**y), without overflow.

    >>> jnp.logaddexp2(3.0, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """,
    promote_args_inexact,
)


def _log_sum_by(base: float) -> Any:
    """Logarithms of sums of powers of `base`: of all elements at once, not pair by pair. The result
    is of the operand's dtype whatever is asked for, as in JAX.
    """
    scale = float(np.log(base))

    def scaled(x: Any) -> Any:
        return x if scale == 1 else lax.mul(*promote_dtypes(x, scale))

    def reduce(
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        user_dtype(dtype, "reduce")  # only checked
        first = None if initial is None else scaled(initial)
        result = nn_functions.logsumexp(scaled(a), axis, keepdims=keepdims, where=where)
        if first is not None:
            result = _logaddexp_own(*promote_dtypes_inexact(first, result))
        return result if scale == 1 else lax.div(result, literal(result, scale))

    return reduce


logaddexp = ufunc(
    _logaddexp_pair,
    2,
    1,
    name="logaddexp",
    nargs=2,
    identity=-np.inf,
    reduce=_log_sum_by(np.e),
)

logaddexp2 = ufunc(
    _logaddexp2_pair,
    2,
    1,
    name="logaddexp2",
    nargs=2,
    identity=-np.inf,
    reduce=_log_sum_by(2),
)
