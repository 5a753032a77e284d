"""Elementwise functions that are built from others: limits, closeness, floating-point parts,
integers, special functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.derivatives import jvp
from ..api.jit import jit
from ..control.custom_jvp import custom_jvp
from ..core.avals import typeof
from ..primitives.common import as_array
from . import creation, reductions
from .comparison import equal, greater, isinf, isnan, less
from .elementary import exp2
from .selecting import select_where
from .ufuncs import maximum, minimum
from .util import (
    check_arraylike,
    dtype_of,
    given,
    is_arraylike,
    literal,
    promote_args,
    promote_args_inexact,
    promote_dtypes_inexact,
    promote_shapes,
    promotes_freely,
    shape_of,
    to_type,
    unwrap,
)


# --- limits ---
def _clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    if max is None and min is None:
        return as_array(unwrap(arr))
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return arr


_clip.__name__ = "clip"
clip_jit = jit(_clip)  # without the checks of arguments


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """`arr` limited to [min, max]; None leaves a side open.

    The three broadcast and are promoted to one dtype. Raises ValueError for complex numbers, which
    have no order.

    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_arraylike("clip", arr)
    given = [x for x in (arr, min, max) if x is not None]
    check_arraylike("clip", *given)
    if any(dtypes.is_complex(dtype_of(x)) for x in given):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. "
            "Complex values have no ordering and "
            "cannot be clipped. Fix: clip jnp.real(x) and jnp.imag(x)."
        )
    kwargs = {k: v for k, v in (("min", min), ("max", max)) if v is not None}
    positional = [kwargs.pop("min")] if "min" in kwargs else []
    return clip_jit(arr, *positional, **kwargs)


@jit
def fmax(x1: Any, x2: Any) -> Any:
    """The larger of two, ignoring NaN.

    The dtype is the promoted one; NaN where both are NaN.

    >>> jnp.fmax(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([2., 2., 3.], dtype=float32)
    """
    check_arraylike("fmax", x1, x2)
    keep = lax.bitwise_or(*promote_args("fmax", greater(x1, x2), isnan(x2)))
    return select_where(keep, x1, x2)


@jit
def fmin(x1: Any, x2: Any) -> Any:
    """The smaller of two, ignoring NaN.

    The dtype is the promoted one; NaN where both are NaN.

    >>> jnp.fmin(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([1., 2., 2.], dtype=float32)
    """
    check_arraylike("fmin", x1, x2)
    keep = lax.bitwise_or(*promote_args("fmin", less(x1, x2), isnan(x2)))
    return select_where(keep, x1, x2)


# --- closeness ---
def _isclose_inexact(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    real_type = (
        np.zeros((), typeof(a).dtype).real.dtype
        if dtypes.is_complex(typeof(a).dtype)
        else typeof(a).dtype
    )
    rtol, atol = to_type(rtol, real_type, False), to_type(atol, real_type, False)
    both_nan = lax.bitwise_and(lax.ne(a, a), lax.ne(b, b))
    if dtypes.is_complex(typeof(b).dtype):
        finite = lax.bitwise_and(lax.is_finite(lax.real(b)), lax.is_finite(lax.imag(b)))
    else:
        finite = lax.is_finite(b)
    distance = lax.abs(lax.sub(a, b))
    bound = lax.add(atol, lax.mul(rtol, lax.abs(b)))
    close = lax.le(distance, bound)
    equal = lax.eq(a, b)
    out = lax.bitwise_or(equal, lax.bitwise_and(finite, close))
    if not is_arraylike(equal_nan) or isinstance(equal_nan, bool | int):  # None is false too
        return lax.bitwise_or(out, both_nan) if equal_nan else out
    return select_where(equal_nan, lax.bitwise_or(out, both_nan), out)


def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    a, b = promote_args("isclose", a, b)
    dtype = typeof(a).dtype
    if isinstance(dtype, dtypes.ExtendedDType):  # keys have no distance
        return equal(a, b)
    if dtypes.is_bool(dtype) or dtypes.is_integer(dtype):
        a, b = promote_dtypes_inexact(a, b)
    return _isclose_inexact(a, b, rtol, atol, equal_nan)


_isclose.__name__ = "isclose"
isclose = jit(_isclose, static_argnames=("equal_nan",))
isclose.__doc__ = """|a - b| <= atol + rtol * |b|, element by element; infinities are close to
    themselves.

    The result is an array of bools of the broadcast shape.

    >>> jnp.isclose(jnp.array([1.0, 2.0]), jnp.array([1.000001, 2.1]))
    Array([ True, False], dtype=bool)
    """


def _allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    check_arraylike("allclose", a, b)
    close = isclose(a, b, rtol, atol, equal_nan)
    return lax.reduce_and(close, tuple(range(len(shape_of(close)))))


_allclose.__name__ = "allclose"
allclose = jit(_allclose, static_argnames=("equal_nan",))
allclose.__doc__ = """Are all elements close? See `isclose`.

    One bool, as an array.

    >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.000001, 2.0]))
    Array(True, dtype=bool)
    """


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Have both the same shape and the same elements?

    With `equal_nan`, NaNs are equal. Raises ValueError or TypeError for what cannot be made an
    array.

    >>> jnp.array_equal(jnp.array([1, 2]), [1, 2])
    Array(True, dtype=bool)
    >>> jnp.array_equal(jnp.array([1, 2]), [[1, 2]])
    Array(False, dtype=bool)
    """
    a1, a2 = _made_array(a1), _made_array(a2)
    if shape_of(a1) != shape_of(a2):
        return as_array(np.bool_(False))
    x, y = promote_args("array_equal", a1, a2)
    same = lax.eq(x, y)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(x, x), lax.ne(y, y)))
    return reductions.all_reduce(same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Are the elements the same after broadcasting?

    One bool, as an array; False where the shapes do not broadcast.

    >>> jnp.array_equiv(jnp.array([1, 2]), jnp.array([[1, 2], [1, 2]]))
    Array(True, dtype=bool)
    """
    a1, a2 = _made_array(a1), _made_array(a2)
    try:
        lax.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return as_array(np.bool_(False))
    return reductions.all_reduce(_same(a1, a2))


@promotes_freely
def _same(a1: Any, a2: Any) -> Any:
    return lax.eq(*promote_args("array_equiv", a1, a2))


def _made_array(x: Any) -> Any:
    """`x`, made an array if it is a container of numbers."""
    try:
        check_arraylike("array_equal", x)
        return unwrap(x)
    except TypeError:
        return creation.asarray(x)


def _nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    check_arraylike("nan_to_num", x)
    x = as_array(unwrap(x))
    dtype = typeof(x).dtype
    if dtypes.is_complex(dtype):
        return lax.complex(
            _nan_to_num_jit(lax.real(x), nan=nan, **given(posinf=posinf, neginf=neginf)),
            _nan_to_num_jit(lax.imag(x), nan=nan, **given(posinf=posinf, neginf=neginf)),
        )
    if not dtypes.is_float(dtype):
        return x
    info = dtypes.finfo(dtype)
    posinf = info.max if posinf is None else posinf
    neginf = info.min if neginf is None else neginf
    # A replacement may be a list of numbers, too.
    nan, posinf, neginf = (
        to_type(creation.asarray(v) if isinstance(v, list | tuple) else v, dtype, False)
        for v in (nan, posinf, neginf)
    )
    out = select_where(lax.ne(x, x), nan, x)
    out = select_where(lax.eq(out, literal(out, np.inf)), posinf, out)
    return select_where(lax.eq(out, literal(out, -np.inf)), neginf, out)


_nan_to_num.__name__ = "nan_to_num"
_nan_to_num_jit = jit(_nan_to_num, static_argnames=("copy",))


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """NaN replaced by `nan`, infinities by the largest finite numbers (or `posinf`, `neginf`).

    >>> jnp.nan_to_num(jnp.array([jnp.nan, jnp.inf, 2.0]), posinf=99.0)
    Array([ 0., 99.,  2.], dtype=float32)
    """
    check_arraylike("nan_to_num", x)
    kwargs = given(posinf=posinf, neginf=neginf)
    if not (type(nan) is float and nan == 0.0):
        kwargs["nan"] = nan
    return _nan_to_num_jit(x, **kwargs)


# --- the parts of a float ---
_FLOAT_BITS = {2: (np.int16, 5, 10), 4: (np.int32, 8, 23), 8: (np.int64, 11, 52)}


@jit
def signbit(x: Any, /) -> Any:
    """Is the sign bit set (also for -0.0 and NaN)?

    The result is an array of bools of the shape of `x`; False for unsigned integers.

    >>> jnp.signbit(jnp.array([-1.0, -0.0, 0.0]))
    Array([ True,  True, False], dtype=bool)
    """
    (x,) = promote_args("signbit", x)
    dtype = typeof(x).dtype
    if dtypes.is_integer(dtype):
        return lax.lt(x, np.zeros((), dtype)[()])
    if dtypes.is_bool(dtype):
        return lax.full_like(x, False)
    if not dtypes.is_float(dtype):
        raise ValueError(
            f"jax.numpy.signbit is not well defined for {dtype.name}. Fix: look at x.real and "
            "x.imag."
        )
    info = dtypes.finfo(dtype)
    if info.bits not in (16, 32, 64):
        raise ValueError(
            f"jax.numpy.signbit does not support {dtype.name}. Fix: convert to float32 first."
        )
    bits = np.dtype(f"int{info.bits}")
    word = lax.bitcast_convert_type(x, bits)
    return lax.convert_element_type(
        lax.shift_right_arithmetic(word, literal(word, info.bits - 1)), np.bool_
    )


@jit
def copysign(x1: Any, x2: Any, /) -> Any:
    """The magnitude of x1 with the sign of x2.

    Floats of the broadcast shape; integers become floats.

    >>> jnp.copysign(3.0, jnp.array([-1.0, 0.0, -0.0]))
    Array([-3.,  3., -3.], dtype=float32)
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if dtypes.is_complex(typeof(x1).dtype):
        raise TypeError(
            "copysign does not support complex-valued inputs. Fix: use x.real and x.imag."
        )
    negative = signbit(x2)
    return select_where(negative, lax.neg(lax.abs(x1)), lax.abs(x1))


@jit
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """(fractional part, whole part), both with the sign of x.

    A tuple of floats of the shape of `x`. Raises TypeError for complex numbers.

    >>> jnp.modf(jnp.array([1.5, -2.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to jnp.modf is not supported. Fix: use the returned arrays."
        )
    (x,) = promote_args_inexact("modf", x)
    whole = select_where(lax.ge(x, literal(x, 0)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


def _frexp_parts(x: Any) -> tuple[Any, Any]:
    dtype = typeof(x).dtype
    if dtype == dtypes._BF16:
        word_type, exponent_bits, mantissa_bits = np.int16, 8, 7
    else:
        word_type, exponent_bits, mantissa_bits = _FLOAT_BITS[dtype.itemsize]  # type: ignore[assignment]
    bias = 2 ** (exponent_bits - 1) - 1
    info = dtypes.finfo(dtype)
    # Subnormal numbers are scaled up first.
    small = lax.lt(lax.abs(x), literal(x, info.smallest_normal))
    y = select_where(small, lax.mul(x, literal(x, 2.0**mantissa_bits)), x)
    counter = np.int64 if word_type is np.int64 else np.int32
    shift = select_where(small, counter(-mantissa_bits), counter(0))
    word = lax.bitcast_convert_type(y, word_type)
    mask = 2**exponent_bits - 1
    field = lax.bitwise_and(
        lax.shift_right_arithmetic(word, word_type(mantissa_bits)), word_type(mask)
    )
    exponent = lax.add(lax.sub(field, word_type(bias)), word_type(1))
    exponent = lax.add(shift, lax.convert_element_type(exponent, counter))
    cleared = lax.bitwise_and(word, word_type(~(mask << mantissa_bits)))
    mantissa = lax.bitcast_convert_type(
        lax.bitwise_or(cleared, word_type((bias - 1) << mantissa_bits)), dtype
    )
    as_it_is = lax.bitwise_or(lax.bitwise_or(isinf(x), lax.ne(x, x)), lax.eq(x, literal(x, 0)))
    exponent = select_where(as_it_is, lax.full_like(exponent, 0), exponent)
    return select_where(as_it_is, x, mantissa), lax.convert_element_type(exponent, np.int32)


_frexp_parts.__name__ = "_frexp"
_frexp = custom_jvp(_frexp_parts)


def _frexp_jvp(primals: Any, tangents: Any) -> Any:
    # The mantissa is x * 2**-exponent, and the exponent is locally constant.
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    scale = exp2(lax.neg(lax.convert_element_type(exponent, typeof(x).dtype)))
    return (mantissa, exponent), (lax.mul(t, scale), np.zeros(shape_of(exponent), dtypes.float0))


_frexp.defjvp(_frexp_jvp)


@jit
def frexp(x: Any, /) -> tuple[Any, Any]:
    """(mantissa in [0.5, 1), exponent): x = mantissa * 2**exponent.

    A tuple: floats and int32, both of the shape of `x`. Raises TypeError for complex numbers.

    >>> jnp.frexp(jnp.array([8.0, 0.75]))
    (Array([0.5 , 0.75], dtype=float32), Array([4, 0], dtype=int32))
    """
    check_arraylike("frexp", x)
    (x,) = promote_dtypes_inexact(x)
    if dtypes.is_complex(typeof(x).dtype):
        raise TypeError("frexp does not support complex-valued inputs. Fix: use x.real and x.imag.")
    return _frexp(x)  # type: ignore[no-any-return]


@jit
def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2 for an integer x2, without intermediate overflow.

    Raises ValueError unless `x2` is an integer.

    >>> jnp.ldexp(jnp.array([0.5, 0.75]), jnp.array([4, 0]))
    Array([8.  , 0.75], dtype=float32)
    """
    check_arraylike("ldexp", x1, x2)
    if not (dtypes.is_integer(dtype_of(x2)) or dtypes.is_bool(dtype_of(x2))):
        raise ValueError(
            f"ldexp not supported for input types {(dtype_of(x1), dtype_of(x2))}. Fix: x2 must be "
            "an integer array."
        )
    if dtypes.is_complex(dtype_of(x1)):
        raise ValueError(
            f"ldexp not supported for input types {(dtype_of(x1), dtype_of(x2))}. Fix: x1 must be "
            "real."
        )
    (x1,) = promote_args_inexact("ldexp", x1)
    x1, x2 = promote_shapes("ldexp", x1, to_type(x2, typeof(x1).dtype, False))
    mantissa, exponent = frexp(x1)
    total = lax.add(lax.convert_element_type(exponent, typeof(x1).dtype), x2)
    # A mantissa in [1, 2) and an exponent one smaller: 2**total itself may overflow where the
    # product does not.
    positive = lax.gt(total, literal(total, 0))
    mantissa = select_where(positive, lax.mul(mantissa, literal(mantissa, 2)), mantissa)
    positive = lax.gt(total, literal(total, 0))
    total = select_where(positive, lax.sub(total, literal(total, 1)), total)
    product = lax.mul(mantissa, lax.pow(literal(total, 2), total))
    return select_where(lax.bitwise_or(isinf(x1), lax.eq(x1, literal(x1, 0))), x1, product)


def spacing(x: Any, /) -> Any:
    """The distance to the next float away from zero.

    Floats of the shape of `x`, with the sign of `x`. Raises ValueError for complex numbers.

    >>> jnp.spacing(jnp.array([1.0, 1024.0]))
    Array([1.1920929e-07, 1.2207031e-04], dtype=float32)
    """
    (x,) = promote_args_inexact("spacing", x)
    dtype = typeof(x).dtype
    x = to_type(x, dtype, False)
    if dtypes.is_complex(dtype):
        raise ValueError("spacing is not defined for complex inputs. Fix: use x.real and x.imag.")
    # NumPy's half floats are measured upwards, whatever their sign; all others away from zero.
    half = dtype == np.dtype("float16")
    ahead = lax.full_like(x, np.inf) if half else copysign(literal(x, np.inf), x)
    step = lax.sub(lax.nextafter(x, ahead), x)
    if half:
        return step
    zero = lax.eq(step, literal(step, 0))
    tiny = copysign(literal(x, dtypes.finfo(dtype).smallest_subnormal), x)
    return select_where(zero, tiny, step)


# --- others ---
def _ones(like: Any) -> Any:
    return lax.full(shape_of(like), 1, typeof(like).dtype) if shape_of(like) else literal(like, 1)


@jit
def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1**2 + x2**2), without overflow.

    Floats of the broadcast shape. Raises ValueError for complex numbers.

    >>> jnp.hypot(jnp.array([3.0, 1e30]), jnp.array([4.0, 0.0]))
    Array([5.e+00, 1.e+30], dtype=float32)
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if dtypes.is_complex(typeof(x1).dtype):
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. Fix: use jnp.abs of each."
        )
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinite = lax.bitwise_or(lax.eq(x1, literal(x1, np.inf)), lax.eq(x2, literal(x2, np.inf)))
    high, low = maximum(x1, x2), minimum(x1, x2)
    zero = lax.eq(high, literal(high, 0))
    ratio = lax.div(low, select_where(lax.eq(high, literal(high, 0)), _ones(high), high))
    length = lax.mul(high, lax.sqrt(lax.add(literal(ratio, 1), lax.square(ratio))))
    return select_where(infinite, literal(high, np.inf), select_where(zero, high, length))


@jit
def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 below 0, x2 at 0, 1 above 0.

    Floats of the broadcast shape; NaN where x1 is NaN.

    >>> jnp.heaviside(jnp.array([-2.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("heaviside", x1, x2)
    x1, x2 = promote_dtypes_inexact(x1, x2)
    negative, positive = lax.lt(x1, literal(x1, 0)), lax.gt(x1, literal(x1, 0))
    at_zero = select_where(lax.ne(x1, x1), x1, x2)
    return select_where(negative, literal(x1, 0), select_where(positive, literal(x1, 1), at_zero))


def _gcd_done(state: Any) -> Any:
    y = state[1]
    return lax.reduce_or(lax.ne(y, literal(y, 0)), tuple(range(len(shape_of(y)))))


def _gcd_step(state: Any) -> Any:
    x, y = state
    a = select_where(lax.ne(y, literal(y, 0)), y, x)
    b = select_where(lax.ne(y, literal(y, 0)), lax.rem(x, y), literal(x, 0))
    return select_where(lax.lt(a, b), b, a), select_where(lax.lt(a, b), a, b)


def _integers(name: str, *args: Any) -> list[Any]:
    check_arraylike(name, *args)
    out = promote_args(name, *args)
    if not dtypes.is_integer(typeof(out[0]).dtype):
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers.")
    return out


def _magnitude(x: Any) -> Any:
    return x if dtypes.is_unsigned(typeof(x).dtype) else lax.abs(x)


@jit
def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor of integers.

    The arguments broadcast. Raises ValueError unless both are integers.

    >>> jnp.gcd(jnp.array([12, 7]), 18)
    Array([6, 1], dtype=int32)
    """
    x1, x2 = _integers("gcd", x1, x2)
    shape = lax.broadcast_shapes(shape_of(x1), shape_of(x2))
    x1, x2 = (
        v
        if shape_of(v) == shape
        else lax.broadcast_in_dim(v, shape, tuple(range(len(shape) - len(shape_of(v)), len(shape))))
        for v in (x1, x2)
    )
    out, _ = lax.while_loop(_gcd_done, _gcd_step, (_magnitude(x1), _magnitude(x2)))
    return out


@jit
def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple of integers.

    The arguments broadcast. Raises ValueError unless both are integers.

    >>> jnp.lcm(jnp.array([4, 6]), 10)
    Array([20, 30], dtype=int32)
    """
    x1, x2 = _integers("lcm", x1, x2)
    x1, x2 = _magnitude(x1), _magnitude(x2)
    d = gcd(x1, x2)
    zero = lax.eq(d, literal(d, 0))
    safe = select_where(zero, literal(d, 1), d)
    return select_where(
        zero,
        literal(d, 0),
        lax.mul(*promote_args("lcm", x1, lax.div(*promote_args("lcm", x2, safe)))),
    )


# sin(x)/x at 0 and its derivatives there: the Taylor series 1 - x**2/6 + x**4/120 - ..., one term
# per order.
def _sinc_series(k: int) -> Any:
    def series(x: Any) -> Any:
        value = 0.0 if k % 2 else (-1.0) ** (k // 2) / (k + 1)
        return lax.add(lax.mul(x, literal(x, 0)), literal(x, value))

    series.__name__ = "_sinc_maclaurin"
    wrapped = custom_jvp(series)

    def _sinc_maclaurin_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return wrapped(x), lax.mul(_sinc_at_zero(k + 1)(x), t)

    wrapped.defjvp(_sinc_maclaurin_jvp)
    return wrapped


_sinc_orders: dict[int, Any] = {}


def _sinc_at_zero(k: int) -> Any:
    """The k-th derivative of sin(x)/x at 0, with derivatives of every order itself."""
    found = _sinc_orders.get(k)
    if found is None:
        found = _sinc_orders[k] = _sinc_series(k)
    return found


@jit
def sinc(x: Any, /) -> Any:
    """sin(pi x) / (pi x), and 1 at 0; differentiable there to every order.

    Floats of the shape of `x`; integers become floats.

    >>> jnp.sinc(jnp.array([0.0, 0.5, 1.0]))
    Array([ 1.0000000e+00,  6.3661975e-01, -2.7827534e-08], dtype=float32)
    """
    (x,) = promote_args_inexact("sinc", x)
    zero = lax.eq(x, literal(x, 0))
    pi_x = lax.mul(literal(x, np.pi), x)
    safe = select_where(zero, literal(x, 1), pi_x)
    at_zero = _sinc_at_zero(0)(pi_x)
    return select_where(zero, at_zero, lax.div(lax.sin(safe), safe))


def _i0_value(x: Any) -> Any:
    magnitude = lax.abs(x)
    return lax.mul(lax.exp(magnitude), lax.bessel_i0e(magnitude))


_i0_value.__name__ = "_i0"
_i0 = custom_jvp(_i0_value)


def _i0_jvp(primals: Any, tangents: Any) -> Any:
    # d I0(x) = I1(x) dx; written through the derivative of i0e so that higher orders follow.
    out, t = jvp(_i0_value, primals, tangents)
    return out, select_where(lax.eq(primals[0], literal(primals[0], 0)), literal(primals[0], 0), t)


_i0.defjvp(_i0_jvp)


@jit
def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 0.

    Floats of the shape of `x`; integers become floats. ValueError for complex numbers.

    >>> jnp.i0(jnp.array([0.0, 1.0]))
    Array([1.       , 1.2660658], dtype=float32)
    """
    (x,) = promote_args_inexact("i0", x)
    if not dtypes.is_float(typeof(x).dtype):
        raise ValueError("Unsupported input type to jax.numpy.i0: it takes real numbers.")
    return _i0(x)
