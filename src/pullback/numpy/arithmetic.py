"""Arithmetic: sums, products, quotients and remainders, powers, signs."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import config, dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.build import is_staged
from ..core.trace import Tracer
from ..primitives.common import as_array
from ..runtime.array import Array
from .selecting import number, select_where
from .tables import binary, noting, noting_nan, unary
from .util import (
    check_arraylike,
    literal,
    one_array,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_numeric,
    shape_of,
    to_type,
    unwrap,
)

nextafter = binary(
    "nextafter",
    lax.nextafter,
    """The float next to x toward y.

    >>> jnp.nextafter(1.0, 2.0) > 1
    Array(True, dtype=bool, weak_type=True)
    """,
    promote_args_inexact,
)


def _add(x: Any, y: Any) -> Any:
    return lax.bitwise_or(x, y) if dtypes.is_bool(typeof(x).dtype) else lax.add(x, y)


def _multiply(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y) if dtypes.is_bool(typeof(x).dtype) else lax.mul(x, y)


add_pair = binary(
    "add",
    _add,
    """The sum; `or` for bools.

    >>> jnp.add(jnp.array([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32, weak_type=True)
    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    """,
)

subtract_pair = binary(
    "subtract",
    lax.sub,
    """The difference.

    >>> jnp.subtract(jnp.array([[5], [6]]), jnp.array([1, 2]))
    Array([[4, 3],
           [5, 4]], dtype=int32)
    """,
)

_product = binary(
    "multiply",
    _multiply,
    """The product; `and` for bools.

    >>> jnp.multiply(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 8], dtype=int32)
    """,
)

_masked_product = jit(_product, inline=True)


def multiply_pair(x1: Any, x2: Any, /) -> Any:
    # Conversion and product are one program outside of jit too: a mask selects (see numerics.md).
    masked = (_is_mask(x1) and _is_inexact(x2)) or (_is_mask(x2) and _is_inexact(x1))
    return _masked_product(x1, x2) if masked and not is_staged() else _product(x1, x2)


multiply_pair.__name__ = multiply_pair.__qualname__ = "multiply"

multiply_pair.__doc__ = _product.__doc__


def _is_mask(x: Any) -> bool:
    return dtypes.is_bool(getattr(x, "dtype", None)) and isinstance(x, _VALUES)


def _is_inexact(x: Any) -> bool:
    if type(x) in (float, complex):
        return True
    return dtypes.is_inexact(getattr(x, "dtype", None)) and isinstance(x, _VALUES)


_VALUES = (Array, Tracer, np.ndarray, np.generic)

true_divide = binary(
    "true_divide",
    lax.div,
    """The quotient, as a float.

    >>> jnp.true_divide(jnp.array([1, 3]), 2)
    Array([0.5, 1.5], dtype=float32)
    """,
    promote_args_inexact,
)

negative_one = unary(
    "negative",
    lax.neg,
    """-x.

    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """,
    promote_args,
)

square = unary(
    "square",
    lax.square,
    """x * x.

    >>> jnp.square(jnp.array([3, -4]))
    Array([ 9, 16], dtype=int32)
    """,
    promote_args_numeric,
)


def divide(x1: Any, x2: Any, /) -> Any:
    """The quotient, as a float.

    Numbers are divided as NumPy divides them: 1 / 0 is inf, 0 / 0 is NaN.

    >>> jnp.divide(jnp.array([1, 0]), jnp.array([0, 0]))
    Array([inf, nan], dtype=float32)
    """
    return true_divide(x1, x2)


def positive(x: Any, /) -> Any:
    """x itself.

    Shape and dtype stay; a list is no array: TypeError.

    >>> jnp.positive(jnp.array([-1, 2]))
    Array([-1,  2], dtype=int32)
    """
    return one_array("positive", x)


def absolute(x: Any, /) -> Any:
    """The absolute value; the modulus of complex numbers.

    The result of a complex array is real.

    >>> jnp.absolute(jnp.array([-1, 2]))
    Array([1, 2], dtype=int32)
    >>> jnp.abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    x = one_array("absolute", x)
    dtype = typeof(x).dtype
    return x if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype) else lax.abs(x)


abs = absolute


def _sign_op(x: Any) -> Any:
    return lax.sign(x)


sign = unary(
    "sign",
    _sign_op,
    """-1, 0 or 1 by the sign; x / |x| for complex numbers.

        >>> jnp.sign(jnp.array([-3.0, 0.0, 5.0]))
        Array([-1.,  0.,  1.], dtype=float32)
        """,
    promote_args,
)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The largest integer not above the quotient.

    The dtype is the promoted one; integers divided by 0 give no error.

    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    check_arraylike("floor_divide", x1, x2)
    return _floor_divide_jit(x1, x2)


def _floor_divide(x1: Any, x2: Any) -> Any:
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    if config.noting:
        noting.note_zero(x2)
    dtype = typeof(x1).dtype
    if dtypes.is_unsigned(dtype):
        return lax.div(x1, x2)
    if dtypes.is_integer(dtype):
        q = lax.div(x1, x2)
        differ = lax.ne(lax.sign(x1), lax.sign(x2))
        inexact_ = lax.bitwise_and(differ, lax.ne(lax.rem(x1, x2), number(0, dtype)))
        return select_where(inexact_, lax.sub(q, to_type(1, dtype, typeof(q).weak_type)), q)
    if dtypes.is_complex(dtype):
        raise TypeError(
            "floor_divide does not support complex-valued inputs. Fix: divide the real and "
            "imaginary parts."
        )
    return _float_divmod(x1, x2)[0]


_floor_divide.__name__ = "floor_divide"

_floor_divide_jit = jit(_floor_divide)


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    mod = lax.rem(x1, x2)
    whole = select_where(lax.eq(x2, literal(x2, 0)), x1, lax.sub(x1, mod))
    div = lax.div(whole, x2)
    wrong = lax.bitwise_and(lax.ne(mod, literal(mod, 0)), lax.ne(lax.sign(x2), lax.sign(mod)))
    mod = _zero_signed_as(_select(wrong, lax.add(mod, x2), mod), x2)
    div = _select(wrong, lax.sub(div, to_type(1.0, typeof(div).dtype, typeof(div).weak_type)), div)
    div = lax.round(div)
    # A quotient of 0 is signed as x1 / x2 is, which `whole` (x1 - x1 there) has forgotten.
    zero = lax.mul(lax.mul(lax.sign(x1), lax.sign(x2)), _zero_of(div))
    return _select(lax.eq(div, _zero_of(div)), zero, div), mod


def _zero_of(x: Any) -> Any:
    """A zero as weakly typed as x: what is made with it is of x's type."""
    return to_type(0.0, typeof(x).dtype, typeof(x).weak_type)


def _zero_signed_as(r: Any, divisor: Any) -> Any:
    """The remainder r, a zero with the sign of the divisor: as in Python, NumPy and the array API
    standard (JAX keeps the dividend's). Sums with zeros, so that the derivative stays what it is.
    """
    zero, shape = _zero_of(r), shape_of(r)
    below = lax.lt(divisor, literal(divisor, 0))
    if shape_of(below) not in ((), shape):
        below = lax.broadcast_in_dim(below, shape, tuple(range(len(shape))))
    return _select(below, lax.neg(lax.sub(zero, r)), lax.add(r, zero))


def _select(mask: Any, x: Any, y: Any) -> Any:
    return lax.select(mask, x, y)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """(floor_divide, remainder).

    A tuple; both results have the broadcast shape and the promoted dtype.

    >>> jnp.divmod(jnp.array([7, -7]), 3)
    (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    check_arraylike("divmod", x1, x2)
    return _divmod_jit(x1, x2)  # type: ignore[no-any-return]


def _divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if dtypes.is_integer(typeof(x1).dtype):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


_divmod.__name__ = "divmod"

_divmod_jit = jit(_divmod)


def remainder(x1: Any, x2: Any, /) -> Any:
    """The remainder of floor division: it has the sign of the divisor.

    The shapes broadcast; the dtype is the promoted one. Division by 0 gives NaN for floats.

    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    check_arraylike("remainder", x1, x2)
    return _remainder_jit(x1, x2)


def _remainder(x1: Any, x2: Any) -> Any:
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    if config.noting:
        noting.note_zero(x2)
    dtype = typeof(x1).dtype
    if dtypes.is_integer(dtype):
        # Division by zero has no defined result in machine code.
        zero = lax.eq(x2, literal(x2, 0))
        one = literal(x2, 1) if not shape_of(x2) else lax.full_like(x2, 1)
        x2 = select_where(zero, one, x2)
    r = lax.rem(x1, x2)
    not_zero = lax.ne(r, literal(r, 0))
    differ = lax.ne(lax.lt(r, literal(r, 0)), lax.lt(x2, literal(x2, 0)))
    r = lax.select(lax.bitwise_and(differ, not_zero), lax.add(r, x2), r)
    r = _zero_signed_as(r, x2) if dtypes.is_float(dtype) else r
    return noting_nan(r) if config.noting else r


_remainder.__name__ = "remainder"

_remainder_jit = jit(_remainder)


def mod(x1: Any, x2: Any, /) -> Any:
    """The remainder of floor division: it has the sign of the divisor.

    The same as `remainder`.

    `x1`, `x2`: real numbers that broadcast.

    >>> jnp.mod(-1.5, 1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return remainder(x1, x2)


@jit
def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder with the sign of the dividend, as in C.

    The shapes broadcast; the dtype is the promoted one.

    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    check_arraylike("fmod", x1, x2)
    x1, x2 = unwrap(x1), unwrap(x2)
    if dtypes.is_integer(dtypes.result_type(x1, x2)):
        x2 = select_where(
            lax.eq(x2, literal(x2, 0)),
            literal(x2, 1) if not shape_of(x2) else lax.full_like(x2, 1),
            x2,
        )
    r = lax.rem(*promote_args_numeric("fmod", x1, x2))
    return noting_nan(r) if config.noting else r


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2. An integer scalar whose value is known is a static power: it leaves the
    type of x1 as it is, and works on integers too (if not negative).

    >>> jnp.power(jnp.arange(4), 2)
    Array([0, 1, 4, 9], dtype=int32)
    """
    check_arraylike("power", x1, x2)
    x1, x2 = unwrap(x1), unwrap(x2)
    if _is_known_integer(x2):
        x1 = promote_dtypes_numeric(x1)[0]
        return lax.integer_pow(x1, operator.index(int(x2)))
    return _power(x1, as_array(x2) if isinstance(x2, np.ndarray) else x2)  # one constant


def _is_known_integer(x: Any) -> bool:
    if isinstance(x, (int, np.integer)):
        return True
    if isinstance(x, Tracer) or not isinstance(x, np.ndarray | Array):
        return False
    array: Any = x
    return bool(array.ndim == 0 and array.dtype.kind in "iu")


def pow(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2.

    Raises TypeError for integers to a negative power that is a Python number.

    >>> jnp.pow(jnp.array([1, 2, 3]), 2)
    Array([1, 4, 9], dtype=int32)
    """
    return power(x1, x2)


def _power(x1: Any, x2: Any) -> Any:
    d1, d2 = typeof(x1).dtype, typeof(x2).dtype
    if dtypes.is_bool(d2) and typeof(x1).weak_type and dtypes.is_integer(d1):
        x1 = to_type(x1, d1, False)  # what a bool is promoted to is not weak
    if not dtypes.is_inexact(d2) and dtypes.is_inexact(d1) and not dtypes.is_bool(d2):
        # Integer exponents keep their derivative (and their sign) exact.
        x1_, _ = promote_args_numeric("power", x1, x2)
        return _power_shapes(x1_, x2)
    x1, x2 = promote_args_numeric("power", x1, x2)
    if not dtypes.is_integer(typeof(x1).dtype):
        return _power_shapes(x1, x2)
    return _integer_power(x1, x2)


def _power_shapes(x1: Any, x2: Any) -> Any:
    if shape_of(x1) != shape_of(x2) and shape_of(x2) and len(shape_of(x1)) > len(shape_of(x2)):
        x2 = lax.broadcast_to_rank(x2, len(shape_of(x1)))
    return noting_nan(lax.pow(x1, x2)) if config.noting else lax.pow(x1, x2)


def _integer_power(x1: Any, x2: Any) -> Any:
    # Squaring, bit by bit of the exponent; 0 to a negative power is 0 (there is no infinity).
    zero, one = literal(x1, 0), literal(x1, 1)
    kind = typeof(x1).dtype.type
    is_zero = lax.bitwise_and(lax.eq(x1, zero), lax.ne(x2, zero))
    acc = select_where(is_zero, kind(0), kind(1))  # never weak, and so no result is
    # Six bits reach every power of an integer other than 0, 1 and -1 that does not overflow 64
    # bits.
    for _ in range(6):
        acc = select_where(lax.bitwise_and(x2, one), lax.mul(acc, x1), acc)
        x1 = lax.mul(x1, x1)
        x2 = lax.shift_right_logical(x2, one)
    return acc


def float_power(x: Any, y: Any, /) -> Any:
    """x to the power y, as a float.

    The shapes broadcast; integers become floats.

    >>> jnp.float_power(2, jnp.array([-1, 3]))
    Array([0.5, 8. ], dtype=float32)
    """
    found = lax.pow(*promote_args_inexact("float_power", x, y))
    return noting_nan(found) if config.noting else found
