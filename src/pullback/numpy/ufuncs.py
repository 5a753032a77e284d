"""Elementwise functions of one and two arrays: arithmetic, powers, exponentials, trigonometry,
comparison, bits, logic.
"""

# Longer than other files: one short function for each of NumPy's, most of it signatures and
# examples.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, dtypes, lax
from ..api.jit import jit
from ..config import lazy_module
from ..control.custom import custom_jvp
from ..core.avals import typeof
from ..core.build import is_staged, staged
from ..core.trace import Tracer
from ..primitives.common import as_array
from ..primitives.shape import full_like as filled_like
from ..runtime.array import Array
from . import reductions
from .selecting import LOG10_E, number, select_where
from .ufunc_api import BuiltinUfunc as ufunc
from .util import (
    check_arraylike,
    dtype_of,
    literal,
    ndim_of,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
    promote_dtypes_numeric,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)

noting: Any = lazy_module("pullback.numpy.error_check")
cumulative: Any = lazy_module("pullback.numpy.cumulative")
scatter: Any = lazy_module("pullback.numpy.scatter")

# What all functions of a table have in common; it stands between summary and example.
_FLOATS = """
    `x`: an array or number of any shape; integers and bools are taken as floats. The result has
    the shape of `x`."""
_ANY = """
    `x`: an array or number of any shape. The result has the shape of `x`."""
_PAIRS = """
    `x1`, `x2`: arrays or numbers, promoted to one dtype and broadcast. Raises TypeError if their
    shapes do not fit."""

# Functions whose results that are not numbers are noted under the flag
# jax_error_checking_behavior_nan.
_NAN_IS_NOTED = frozenset(
    "log log1p log2 log10 sin cos tan arcsin arccos arccosh arctanh sqrt add subtract "
    "true_divide".split()
)


def _documented(doc: str, about: str) -> str:
    """A docstring of a table's entry, with what is true of the whole table."""
    summary, blank, example = doc.partition("\n\n")
    return f"{summary}\n{about}{blank}{example}"


def _unary(
    name: str,
    op: Callable[[Any], Any],
    doc: str,
    promote: Any = promote_args_inexact,
    named: bool = False,
) -> Any:
    noted = name in _NAN_IS_NOTED

    def f(x: Any, /) -> Any:
        if config.noting and noted:
            return _noting_nan(op(*promote(name, x)))
        return op(*promote(name, x))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(doc, _FLOATS if promote is promote_args_inexact else _ANY)
    return jit(f) if named else f


def _binary(name: str, op: Callable[[Any, Any], Any], doc: str, promote: Any = promote_args) -> Any:
    noted = name in _NAN_IS_NOTED

    def f(x1: Any, x2: Any, /) -> Any:
        if config.noting and noted:
            x1, x2 = promote(name, x1, x2)
            if name == "true_divide":
                noting.note_zero(x2)
            return _noting_nan(op(x1, x2))
        return op(*promote(name, x1, x2))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(doc, _PAIRS)
    return f


def _noting_nan(x: Any) -> Any:
    noting.note_nan(x)
    return x


def _array(name: str, x: Any) -> Any:
    check_arraylike(name, x)
    return as_array(unwrap(x))


# --- exponentials, logarithms, trigonometry: floats ---
def _fabs(x: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        raise TypeError("ufunc 'fabs' does not support complex dtypes. Fix: use jnp.abs.")
    return lax.abs(x)


fabs = _unary(
    "fabs",
    _fabs,
    """The absolute value, as a float.

    >>> jnp.fabs(jnp.array([-2, 3]))
    Array([2., 3.], dtype=float32)
    """,
)
exp = _unary(
    "exp",
    lax.exp,
    """e to the power x.

    >>> jnp.exp(jnp.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """,
)
log = _unary(
    "log",
    lax.log,
    """The natural logarithm; NaN below 0.

    >>> jnp.log(jnp.array([1.0, 10.0, -1.0]))
    Array([0.       , 2.3025851,       nan], dtype=float32)
    """,
)
expm1 = _unary(
    "expm1",
    lax.expm1,
    """exp(x) - 1, precise near 0.

    >>> jnp.expm1(jnp.array([1e-8, 1.0]))
    Array([9.9999999e-09, 1.7182817e+00], dtype=float32)
    """,
)
log1p = _unary(
    "log1p",
    lax.log1p,
    """log(1 + x), precise near 0.

    >>> jnp.log1p(jnp.array([1e-8, 1.0]))
    Array([1.000000e-08, 6.931472e-01], dtype=float32)
    """,
)
exp2 = _unary(
    "exp2",
    lax.exp2,
    """2 to the power x.

    >>> jnp.exp2(jnp.array([3, -1]))
    Array([8. , 0.5], dtype=float32)
    """,
)
sin = _unary(
    "sin",
    lax.sin,
    """The sine of radians.

    >>> jnp.sin(jnp.array([0.0, jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """,
)
cos = _unary(
    "cos",
    lax.cos,
    """The cosine of radians.

    >>> jnp.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """,
)
tan = _unary(
    "tan",
    lax.tan,
    """The tangent of radians.

    >>> jnp.tan(jnp.array([0.0, jnp.pi / 4]))
    Array([0., 1.], dtype=float32)
    """,
)
sinh = _unary(
    "sinh",
    lax.sinh,
    """The hyperbolic sine.

    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """,
)
cosh = _unary(
    "cosh",
    lax.cosh,
    """The hyperbolic cosine.

    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430806], dtype=float32)
    """,
)
tanh = _unary(
    "tanh",
    lax.tanh,
    """The hyperbolic tangent.

    >>> jnp.tanh(jnp.array([0.0, 1.0, 50.0]))
    Array([0.       , 0.7615942, 1.       ], dtype=float32)
    """,
)
arcsin = asin = _unary(
    "arcsin",
    lax.asin,
    """The angle in [-pi/2, pi/2] whose sine is x.

    >>> jnp.arcsin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """,
)
arccos = acos = _unary(
    "arccos",
    lax.acos,
    """The angle in [0, pi] whose cosine is x.

    >>> jnp.arccos(jnp.array([1.0, 0.0]))
    Array([0.       , 1.5707964], dtype=float32)
    """,
)
arctan = atan = _unary(
    "arctan",
    lax.atan,
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> jnp.arctan(jnp.array([1.0, jnp.inf]))
    Array([0.7853982, 1.5707964], dtype=float32)
    """,
)
arcsinh = asinh = _unary(
    "arcsinh",
    lax.asinh,
    """The inverse hyperbolic sine.

    >>> jnp.arcsinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """,
)
arctanh = atanh = _unary(
    "arctanh",
    lax.atanh,
    """The inverse hyperbolic tangent.

    NaN outside of [-1, 1].

    >>> jnp.arctanh(jnp.array([0.5, 1.0]))
    Array([0.54930615,        inf], dtype=float32)
    """,
)
sqrt = _unary(
    "sqrt",
    lax.sqrt,
    """The square root; NaN below 0.

    >>> jnp.sqrt(jnp.array([4, 9, -1]))
    Array([ 2.,  3., nan], dtype=float32)
    """,
)
cbrt = _unary(
    "cbrt",
    lax.cbrt,
    """The cube root.

    >>> jnp.cbrt(jnp.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """,
)
reciprocal = _unary(
    "reciprocal",
    lambda x: lax.integer_pow(x, -1),
    """1 / x.

    >>> jnp.reciprocal(jnp.array([2, 4]))
    Array([0.5 , 0.25], dtype=float32)
    """,
)


def _acosh(x: Any) -> Any:
    y = lax.acosh(x)
    if dtypes.is_complex(dtype_of(x)):
        # The principal value has a non-negative real part.
        re = lax.real(y)
        y = select_where(lax.lt(re, literal(re, 0)), lax.neg(y), y)
    return y


arccosh = acosh = _unary(
    "arccosh",
    _acosh,
    """The inverse hyperbolic cosine.

    NaN below 1.

    >>> jnp.arccosh(jnp.array([1.0, 2.0]))
    Array([0.      , 1.316958], dtype=float32)
    """,
    named=True,
)


def _by_parts(f: Callable[[Any], Any], x: Any) -> Any:
    """Applies a function of reals that only scales to the parts of a complex array."""
    if dtypes.is_complex(typeof(x).dtype):
        return lax.complex(f(lax.real(x)), f(lax.imag(x)))
    return f(x)


def _log2(x: Any) -> Any:
    y = lax.log(x)

    def scaled(part: Any) -> Any:
        return lax.div(part, lax.log(number(2, typeof(part).dtype)))

    if not dtypes.is_complex(typeof(y).dtype):
        return scaled(y)
    re, im = lax.real(y), lax.imag(y)
    ln2 = lax.log(number(2, typeof(re).dtype))
    return lax.complex(lax.div(re, ln2), lax.div(im, ln2))


def _log10(x: Any) -> Any:
    y = lax.log(x)
    if not dtypes.is_complex(typeof(y).dtype):
        return lax.mul(y, number(LOG10_E, typeof(y).dtype))
    re, im = lax.real(y), lax.imag(y)
    scale = number(LOG10_E, typeof(re).dtype)
    return lax.complex(lax.mul(re, scale), lax.mul(im, scale))


log2 = _unary(
    "log2",
    _log2,
    """The logarithm to base 2.

    >>> jnp.log2(jnp.array([8, 1024]))
    Array([ 3., 10.], dtype=float32)
    """,
)
log10 = _unary(
    "log10",
    _log10,
    """The logarithm to base 10.

    >>> jnp.log10(jnp.array([1000.0, 0.1]))
    Array([ 3., -1.], dtype=float32)
    """,
)
deg2rad = radians = _unary(
    "deg2rad",
    lambda x: lax.mul(x, literal(x, np.pi / 180)),
    """Degrees to radians.

    >>> jnp.deg2rad(jnp.array([0.0, 180.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """,
)
rad2deg = degrees = _unary(
    "rad2deg",
    lambda x: lax.mul(x, literal(x, 180 / np.pi)),
    """Radians to degrees.

    >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """,
)
arctan2 = atan2 = _binary(
    "arctan2",
    lax.atan2,
    """The angle of the point (y, x) from the positive x axis: arctan2(y, x).

    >>> jnp.arctan2(jnp.array([1.0, -1.0]), jnp.array([0.0, -1.0]))
    Array([ 1.5707964, -2.3561945], dtype=float32)
    """,
    promote_args_inexact,
)
nextafter = _binary(
    "nextafter",
    lax.nextafter,
    """The float next to x toward y.

    >>> jnp.nextafter(1.0, 2.0) > 1
    Array(True, dtype=bool, weak_type=True)
    """,
    promote_args_inexact,
)


# --- arithmetic ---
def _add(x: Any, y: Any) -> Any:
    return lax.bitwise_or(x, y) if dtypes.is_bool(typeof(x).dtype) else lax.add(x, y)


def _multiply(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y) if dtypes.is_bool(typeof(x).dtype) else lax.mul(x, y)


_add2 = _binary(
    "add",
    _add,
    """The sum; `or` for bools.

    >>> jnp.add(jnp.array([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32, weak_type=True)
    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    """,
)
_subtract2 = _binary(
    "subtract",
    lax.sub,
    """The difference.

    >>> jnp.subtract(jnp.array([[5], [6]]), jnp.array([1, 2]))
    Array([[4, 3],
           [5, 4]], dtype=int32)
    """,
)
_product = _binary(
    "multiply",
    _multiply,
    """The product; `and` for bools.

    >>> jnp.multiply(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 8], dtype=int32)
    """,
)
_masked_product = jit(_product, inline=True)


def _multiply2(x1: Any, x2: Any, /) -> Any:
    # Conversion and product are one program outside of jit too: a mask selects (see numerics.md).
    masked = (_is_mask(x1) and _is_inexact(x2)) or (_is_mask(x2) and _is_inexact(x1))
    return _masked_product(x1, x2) if masked and not is_staged() else _product(x1, x2)


_multiply2.__name__ = _multiply2.__qualname__ = "multiply"
_multiply2.__doc__ = _product.__doc__


def _is_mask(x: Any) -> bool:
    return dtypes.is_bool(getattr(x, "dtype", None)) and isinstance(x, _VALUES)


def _is_inexact(x: Any) -> bool:
    if type(x) in (float, complex):
        return True
    return dtypes.is_inexact(getattr(x, "dtype", None)) and isinstance(x, _VALUES)


_VALUES = (Array, Tracer, np.ndarray, np.generic)
true_divide = _binary(
    "true_divide",
    lax.div,
    """The quotient, as a float.

    >>> jnp.true_divide(jnp.array([1, 3]), 2)
    Array([0.5, 1.5], dtype=float32)
    """,
    promote_args_inexact,
)
_negative1 = _unary(
    "negative",
    lax.neg,
    """-x.

    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """,
    promote_args,
)
square = _unary(
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
    return _array("positive", x)


def absolute(x: Any, /) -> Any:
    """The absolute value; the modulus of complex numbers.

    The result of a complex array is real.

    >>> jnp.absolute(jnp.array([-1, 2]))
    Array([1, 2], dtype=int32)
    >>> jnp.abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    x = _array("absolute", x)
    dtype = typeof(x).dtype
    return x if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype) else lax.abs(x)


abs = absolute


def _sign_op(x: Any) -> Any:
    return lax.sign(x)


sign = _unary(
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
    return _noting_nan(r) if config.noting else r


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
    return _noting_nan(r) if config.noting else r


# --- powers ---
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
    return _noting_nan(lax.pow(x1, x2)) if config.noting else lax.pow(x1, x2)


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
    return _noting_nan(found) if config.noting else found


# --- rounding ---
def _rounding(name: str, op: Callable[[Any], Any], doc: str) -> Any:
    def f(x: Any, /) -> Any:
        x = _array(name, x)
        d = typeof(x).dtype
        return x if dtypes.is_integer(d) or dtypes.is_bool(d) else op(x)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(doc, _ANY)
    return f


floor = _rounding(
    "floor",
    lax.floor,
    """The largest whole number not above x.

    >>> jnp.floor(jnp.array([1.2, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """,
)
ceil = _rounding(
    "ceil",
    lax.ceil,
    """The smallest whole number not below x.

    >>> jnp.ceil(jnp.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """,
)


@jit
def trunc(x: Any) -> Any:
    """The whole number next to x toward 0.

    Integers are returned as they are.

    >>> jnp.trunc(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    x = _array("trunc", x)
    if dtypes.is_integer(typeof(x).dtype) or dtypes.is_bool(typeof(x).dtype):
        return x
    return select_where(lax.lt(x, literal(x, 0)), lax.ceil(x), lax.floor(x))


@jit
def rint(x: Any, /) -> Any:
    """The nearest whole number; halves go to the even one.

    Integers become floats.

    >>> jnp.rint(jnp.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    """
    check_arraylike("rint", x)
    dtype = typeof(x).dtype
    if dtypes.is_bool(dtype) or dtypes.is_integer(dtype):
        return to_type(unwrap(x), dtypes.default_float(), False)
    if dtypes.is_complex(dtype):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _round(a: Any, decimals: int = 0, out: None = None) -> Any:
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to jnp.round is not supported. Fix: use the returned array."
        )
    dtype = dtype_of(a)
    if dtypes.is_integer(dtype):
        if decimals < 0:
            raise NotImplementedError(
                "integer np.round not implemented for decimals < 0. Fix: a // 10**n * 10**n."
            )
        return as_array(a)
    if dtypes.is_bool(dtype):
        raise ValueError(
            "round: a bool array has nothing to round. Fix: convert it with x.astype(int)."
        )

    def real_round(x: Any) -> Any:
        if decimals == 0:
            return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
        wide = typeof(x).dtype
        if decimals > np.log10(float(dtypes.finfo(max(wide, np.dtype("float32"))).max)):
            return x  # no digit of any number is as far behind the point
        scale = literal(x, 10.0**decimals)
        if wide == np.float16:
            y = lax.div(
                lax.round(
                    lax.mul(lax.convert_element_type(x, np.float32), np.float32(10.0**decimals)),
                    lax.RoundingMethod.TO_NEAREST_EVEN,
                ),
                np.float32(10.0**decimals),
            )
            return lax.convert_element_type(y, wide)
        return lax.div(lax.round(lax.mul(x, scale), lax.RoundingMethod.TO_NEAREST_EVEN), scale)

    return _by_parts(real_round, a)


_round.__name__ = "round"
_round_jit = jit(_round, static_argnames=("decimals", "out"))


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to a number of decimals; halves go to the even neighbour.

    The dtype is that of `a`, but for Python numbers.

    `out` must be None.

    >>> jnp.round(jnp.array([0.5, 1.5, 2.25]), 1)
    Array([0.5, 1.5, 2.2], dtype=float32)
    """
    check_arraylike("round", a)
    decimals = operator.index(decimals)
    refuse_out("round", out)
    return _round_jit(a, decimals, None)


def around(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to a number of decimals; halves go to the even neighbour.

    The dtype is that of `a`.

    >>> jnp.around(jnp.array([1.25, 2.678]), 1)
    Array([1.2, 2.7], dtype=float32)
    """
    check_arraylike("around", a)
    decimals = operator.index(decimals)
    refuse_out("around", out)
    return _around_jit(a, decimals)


def _around(a: Any, decimals: int) -> Any:
    return round(a, decimals)


_around.__name__ = "around"
_around_jit = jit(_around, static_argnames=("decimals",))


# --- parts of complex numbers ---
def conjugate(x: Any, /) -> Any:
    """The complex conjugate; real arrays unchanged.

    Shape and dtype are those of `x`.

    >>> jnp.conjugate(jnp.array([1 + 2j, 3.0]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    x = _array("conjugate", x)
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def conj(x: Any, /) -> Any:
    """The complex conjugate; real arrays unchanged.

    `x`: any numbers.

    >>> jnp.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conjugate(x)


def real(val: Any, /) -> Any:
    """The real part.

    The result has the real dtype that belongs to the argument's.

    >>> jnp.real(jnp.array([1 + 2j, 3.0]))
    Array([1., 3.], dtype=float32)
    """
    val = _array("real", val)
    return lax.real(val) if dtypes.is_complex(typeof(val).dtype) else staged(val)


def imag(val: Any, /) -> Any:
    """The imaginary part: zeros for real arrays.

    The result has the real dtype that belongs to the argument's.

    >>> jnp.imag(jnp.array([1 + 2j, 3.0]))
    Array([2., 0.], dtype=float32)
    """
    val = _array("imag", val)
    return lax.imag(val) if dtypes.is_complex(typeof(val).dtype) else filled_like(val, 0)


def _angle(z: Any, deg: bool = False) -> Any:
    if dtypes.is_complex(typeof(z).dtype):
        out = lax.atan2(imag(z), real(z))
    else:
        (re,) = promote_dtypes_inexact(z)
        if not dtypes.is_inexact(typeof(z).dtype):
            re = to_type(re, dtypes.default_float(), False)
        if not ndim_of(re):  # as in JAX, a scalar meets the zero of the default type
            re = to_type(re, dtypes.promote_types(typeof(re).dtype, dtypes.default_float()), False)
        out = lax.atan2(lax.full_like(re, 0), re)
    return rad2deg(out) if deg else out


_angle.__name__ = "angle"
_angle_jit = jit(_angle, static_argnames=("deg",))


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians (degrees if `deg`).

    >>> jnp.angle(jnp.array([1.0, 1j, -1.0]), deg=True)
    Array([  0.,  90., 180.], dtype=float32)
    """
    check_arraylike("angle", z)
    return _angle_jit(z, deg)


@jit
def iscomplex(x: Any) -> Any:
    """Is the imaginary part not 0?

    The result is an array of bools; see `iscomplexobj` for a question about the dtype.

    >>> jnp.iscomplex(jnp.array([1 + 1j, 2 + 0j]))
    Array([ True, False], dtype=bool)
    """
    i = imag(x)
    return lax.ne(i, literal(i, 0))


@jit
def isreal(x: Any) -> Any:
    """Is the imaginary part 0?

    The result is an array of bools; see `isrealobj` for a question about the dtype.

    >>> jnp.isreal(jnp.array([1 + 1j, 2 + 0j]))
    Array([False,  True], dtype=bool)
    """
    i = imag(x)
    return lax.eq(i, literal(i, 0))


# --- comparison ---
def _ordering(name: str, op: Callable[[Any, Any], Any], doc: str) -> Any:
    def f(x: Any, y: Any, /) -> Any:
        x, y = promote_args(name, x, y)
        if not dtypes.is_complex(typeof(x).dtype):
            return op(x, y)
        # Complex numbers are ordered by their real parts, then by their imaginary ones.
        same = lax.eq(lax.real(x), lax.real(y))
        by_imag = op(lax.imag(x), lax.imag(y))
        return lax.select(same, by_imag, op(lax.real(x), lax.real(y)))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(doc, _PAIRS)
    return f


greater = _ordering(
    "greater",
    lax.gt,
    """x > y.

    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal = _ordering(
    "greater_equal",
    lax.ge,
    """x >= y.

    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)
less = _ordering(
    "less",
    lax.lt,
    """x < y.

    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal = _ordering(
    "less_equal",
    lax.le,
    """x <= y.

    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)
equal = _binary(
    "equal",
    lax.eq,
    """x == y.

    >>> jnp.equal(jnp.array([1, 2]), jnp.array([1.0, 3.0]))
    Array([ True, False], dtype=bool)
    """,
)
not_equal = _binary(
    "not_equal",
    lax.ne,
    """x != y.

    >>> jnp.not_equal(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """,
)
_maximum2 = _binary(
    "maximum",
    lax.max,
    """The larger; NaN if either is NaN.

    >>> jnp.maximum(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([ 2., nan,  3.], dtype=float32)
    """,
)
_minimum2 = _binary(
    "minimum",
    lax.min,
    """The smaller; NaN if either is NaN.

    >>> jnp.minimum(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([ 1., nan,  2.], dtype=float32)
    """,
)


# --- bits and logic ---
_bitwise_and2 = _binary(
    "bitwise_and",
    lax.bitwise_and,
    """Bitwise and.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_and(0b1100, 0b1010)
    Array(8, dtype=int32, weak_type=True)
    """,
)
_bitwise_or2 = _binary(
    "bitwise_or",
    lax.bitwise_or,
    """Bitwise or.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_or(0b1100, 0b1010)
    Array(14, dtype=int32, weak_type=True)
    """,
)
_bitwise_xor2 = _binary(
    "bitwise_xor",
    lax.bitwise_xor,
    """Bitwise exclusive or.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_xor(0b1100, 0b1010)
    Array(6, dtype=int32, weak_type=True)
    """,
)
left_shift = bitwise_left_shift = _binary(
    "left_shift",
    lax.shift_left,
    """x shifted left by y bits.

        >>> jnp.left_shift(jnp.array([1, 3]), 2)
        Array([ 4, 12], dtype=int32)
        """,
    promote_args_numeric,
)
invert = bitwise_not = bitwise_invert = _unary(
    "invert",
    lax.bitwise_not,
    """Every bit flipped; `not` for bools.

    >>> jnp.bitwise_not(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """,
    promote_args,
)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 shifted right by x2 bits; signed integers keep their sign.

    `x1`, `x2`: integers whose shapes broadcast, else TypeError.

    >>> jnp.right_shift(jnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    unsigned = dtypes.is_unsigned(typeof(x1).dtype)
    return lax.shift_right_logical(x1, x2) if unsigned else lax.shift_right_arithmetic(x1, x2)


bitwise_right_shift = right_shift


@jit
def bitwise_count(x: Any, /) -> Any:
    """The number of bits set in |x|, as uint8.

    `x`: integers of any shape, else TypeError.

    >>> jnp.bitwise_count(jnp.array([0, 7, -8]))
    Array([0, 3, 1], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    if dtypes.is_signed(typeof(x).dtype):
        x = lax.abs(x)
    return lax.convert_element_type(lax.population_count(x), np.uint8)


def _as_bools(name: str, *args: Any) -> list[Any]:
    out = []
    for x in promote_args(name, *args):
        bool_already = dtypes.is_bool(typeof(x).dtype)
        out.append(x if bool_already else lax.ne(x, literal(x, 0)))
    return out


def _logical(name: str, op: Callable[..., Any], doc: str) -> Any:
    def f(*args: Any) -> Any:
        return op(*_as_bools(name, *args))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(doc, _PAIRS)
    return f


_logical_and2 = _logical(
    "logical_and",
    lax.bitwise_and,
    """Are both true (not 0)?

    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """,
)
_logical_or2 = _logical(
    "logical_or",
    lax.bitwise_or,
    """Is one true (not 0)?

    >>> jnp.logical_or(jnp.array([0, 1]), jnp.array([0.0, 0.0]))
    Array([False,  True], dtype=bool)
    """,
)
_logical_xor2 = _logical(
    "logical_xor",
    lax.bitwise_xor,
    """Is exactly one true (not 0)?

    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
)


def logical_not(x: Any, /) -> Any:
    """Is x 0?

    The result is an array of bools of the shape of `x`.

    >>> jnp.logical_not(jnp.array([0, 3]))
    Array([ True, False], dtype=bool)
    """
    return lax.bitwise_not(*_as_bools("logical_not", x))


# --- kinds of numbers ---
def isfinite(x: Any, /) -> Any:
    """Is x neither infinite nor NaN?

    The result is an array of bools; integers are always finite.

    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x = _array("isfinite", x)
    dtype = typeof(x).dtype
    if dtypes.is_float(dtype):
        return lax.is_finite(x)
    if dtypes.is_complex(dtype):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return filled_like(x, True, dtype=np.bool_)


def _infinite(x: Any) -> Any:
    m = lax.abs(x)
    return lax.eq(m, number(np.inf, typeof(m).dtype))


@jit
def isinf(x: Any, /) -> Any:
    """Is x infinite?

    The result is an array of bools; a complex number is infinite if one of its parts is.

    >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    x = _array("isinf", x)
    dtype = typeof(x).dtype
    if dtypes.is_float(dtype):
        return _infinite(x)
    if dtypes.is_complex(dtype):
        re, im = lax.real(x), lax.imag(x)
        return lax.bitwise_or(_infinite(re), _infinite(im))
    return lax.full_like(x, False, dtype=np.bool_)


def _signed_infinity(name: str, value: float) -> Any:
    def f(x: Any, /, out: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(
                f"The 'out' argument to jnp.{name} is not supported. Fix: use the returned array."
            )
        x = _array(name, x)
        dtype = typeof(x).dtype
        if dtypes.is_float(dtype):
            return lax.eq(x, number(value, dtype))
        if dtypes.is_complex(dtype):
            raise ValueError(
                f"{name} is not well defined for complex dtypes. Fix: look at x.real and x.imag."
            )
        return lax.full_like(x, False, dtype=np.bool_)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = _documented(
        f"""Is x {"minus" if value < 0 else "plus"} infinity? False for integers.

    >>> jnp.{name}(jnp.array([{value}, 1.0]))
    Array([ True, False], dtype=bool)
    """.replace("inf,", "jnp.inf,"),
        _ANY,
    )
    return f


isposinf = _signed_infinity("isposinf", np.inf)
isneginf = _signed_infinity("isneginf", -np.inf)


def isnan(x: Any, /) -> Any:
    """Is x NaN?

    The result is an array of bools; a complex number is NaN if one of its parts is.

    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = _array("isnan", x)
    return lax.ne(x, x)


# --- ufunc objects ---
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
            a, b = promote_args(how, a, b)
            a = to_type(a, typeof(a).dtype, False)
        if how in _OF_BOOLS and is_bools(a):
            return scatter.update(a, indices, to_type(b, np.dtype(bool), False), _OF_BOOLS[how])
        return scatter.update(a, indices, b, how)

    return at


add = ufunc(
    _add2,
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
    _multiply2,
    2,
    1,
    name="multiply",
    nargs=2,
    identity=1,
    reduce=_reduce_by(reductions.prod_reduce),
    accumulate=_accumulate_by("cumprod"),
    at=_at_by("multiply"),
)
subtract = ufunc(_subtract2, 2, 1, name="subtract", nargs=2, at=_at_by("subtract"))
maximum = ufunc(
    _maximum2,
    2,
    1,
    name="maximum",
    nargs=2,
    reduce=_reduce_by(reductions.max_reduce),
    at=_at_by("max", True),
)
minimum = ufunc(
    _minimum2,
    2,
    1,
    name="minimum",
    nargs=2,
    reduce=_reduce_by(reductions.min_reduce),
    at=_at_by("min", True),
)
negative = ufunc(_negative1, 1, 1, name="negative", nargs=1)
bitwise_and = ufunc(
    _bitwise_and2,
    2,
    1,
    name="bitwise_and",
    nargs=2,
    identity=-1,
    reduce=_reduce_by(reductions.bitwise_and_reduce),
)
bitwise_or = ufunc(
    _bitwise_or2,
    2,
    1,
    name="bitwise_or",
    nargs=2,
    identity=0,
    reduce=_reduce_by(reductions.bitwise_or_reduce),
)
bitwise_xor = ufunc(
    _bitwise_xor2,
    2,
    1,
    name="bitwise_xor",
    nargs=2,
    identity=0,
    reduce=_reduce_by(reductions.bitwise_xor_reduce),
)
logical_and = ufunc(
    _logical_and2,
    2,
    1,
    name="logical_and",
    nargs=2,
    identity=True,
    reduce=_reduce_by(_of_truth_values(reductions.all_reduce)),
)
logical_or = ufunc(
    _logical_or2,
    2,
    1,
    name="logical_or",
    nargs=2,
    identity=False,
    reduce=_reduce_by(_of_truth_values(reductions.any_reduce)),
)
logical_xor = ufunc(_logical_xor2, 2, 1, name="logical_xor", nargs=2, identity=False)


# --- logarithms of sums ---
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


_logaddexp_c = _custom("logaddexp", _logaddexp, lambda x: lax.exp(x))
logaddexp_rule = _logaddexp_c.jvp  # (primals, tangents) -> (result, tangent)
_logaddexp2_c = _custom("logaddexp2", _logaddexp2, lambda x: lax.exp2(x))
_logaddexp_f = _binary(
    "logaddexp",
    lambda x, y: _logaddexp_c(x, y),
    """log(exp(x) + exp(y)), without overflow.

    >>> jnp.logaddexp(1000.0, jnp.array([0.0, 1000.0]))
    Array([1000.    , 1000.6932], dtype=float32)
    """,
    promote_args_inexact,
)
_logaddexp2_f = _binary(
    "logaddexp2",
    lambda x, y: _logaddexp2_c(x, y),
    """log2(2**x + 2**y), without overflow.

    >>> jnp.logaddexp2(3.0, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """,
    promote_args_inexact,
)
logaddexp = ufunc(_logaddexp_f, 2, 1, name="logaddexp", nargs=2, identity=-np.inf)
logaddexp2 = ufunc(_logaddexp2_f, 2, 1, name="logaddexp2", nargs=2, identity=-np.inf)
