"""Arithmetic, comparison, bits, selection and conversion, element by element. The functions of the
mathematics library are in `maths`.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .builders import (
    add_any_p as add_any_p,
    add_jaxvals as add_jaxvals,
    add_tangents as add_tangents,
    batch_lies,
    batch_size,
    binary,
    broadcast_to_shape,
    full_batch,
    jvp_of,
    linear_unary,
    nary_batch,
    unary,
    unbroadcast,
)
from .common import (
    ANY,
    BOOL,
    COMPLEX,
    EXTENDED,
    F32,
    F64,
    FLOAT,
    INT,
    NUM,
    SIGNED,
    accepts,
    check_dtype,
    check_same_dtypes,
    complex_dtype,
    const,
    nary_aval,
    real_dtype,
    zero_of,
)
from .convert import (
    bitcast_convert_type as bitcast_convert_type,
    bitcast_convert_type_p as bitcast_convert_type_p,
    convert_element_type as convert_element_type,
    convert_element_type_p as convert_element_type_p,
    convert_weak as convert_weak,
    copy as copy,
    copy_p as copy_p,
    optimization_barrier as optimization_barrier,
    optimization_barrier_p as optimization_barrier_p,
    reduce_precision as reduce_precision,
    reduce_precision_p as reduce_precision_p,
    stop_gradient as stop_gradient,
    stop_gradient_p as stop_gradient_p,
)
from .layout import broadcast_in_dim, full_as

_TO_BOOL = lambda d: np.dtype(bool)


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves.

    The second argument of `lax.round`.

    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# --- arithmetic ---
def _add_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(a.aval, ct) if type(a) is UndefinedPrimal else None for a in (x, y)]


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    cx = unbroadcast(x.aval, ct) if type(x) is UndefinedPrimal else None
    if type(y) is not UndefinedPrimal:
        return [cx, None]
    return [cx, Zero(y.aval) if type(ct) is Zero else unbroadcast(y.aval, neg(ct))]


def _mul_transpose(ct: Any, x: Any, y: Any, *, out_dtype: Any = None) -> list[Any]:
    linear: Any = x if type(x) is UndefinedPrimal else y
    if type(ct) is Zero:
        return [Zero(a.aval) if a is linear else None for a in (x, y)]
    out = None if out_dtype is None else linear.aval.dtype
    if linear is x:
        return [unbroadcast(x.aval, mul(ct, y, out_dtype=out)), None]
    return [None, unbroadcast(y.aval, mul(x, ct, out_dtype=out))]


def _div_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [Zero(x.aval) if type(ct) is Zero else unbroadcast(x.aval, div(ct, y)), None]


add_p = binary(
    "add",
    NUM,
    lambda t, z, x, y: t,
    lambda t, z, x, y: t,
    transpose=_add_transpose,
    jvp=lambda primals, tangents: _add_jvp(primals, tangents),
)
sub_p = binary(
    "sub",
    NUM,
    lambda t, z, x, y: t,
    lambda t, z, x, y: neg(t),
    transpose=_sub_transpose,
    jvp=lambda primals, tangents: _sub_jvp(primals, tangents),
)


def _add_jvp(primals: Any, tangents: Any) -> Any:
    out = add_p.bind(*primals)
    if any(type(t) is Zero for t in tangents):
        t = tangents[1] if type(tangents[0]) is Zero else tangents[0]
        return out, t if type(t) is Zero else broadcast_to_shape(t, typeof(out).shape)
    return out, add_p.bind(*tangents)


def _sub_jvp(primals: Any, tangents: Any) -> Any:
    out = sub_p.bind(*primals)
    tx, ty = tangents
    if type(ty) is Zero:
        return out, zero_of(out) if type(tx) is Zero else broadcast_to_shape(tx, typeof(out).shape)
    if type(tx) is Zero:
        return out, broadcast_to_shape(neg(ty), typeof(out).shape)
    return out, sub_p.bind(tx, ty)


def _mul_aval(x: Any, y: Any, *, out_dtype: Any = None) -> ShapedArray:
    if out_dtype is None:
        return _mul_same(x, y)
    for a in (x, y):
        check_dtype("mul", a.dtype, NUM)
    return _mul_same(*(a.update(dtype=out_dtype, weak_type=False) for a in (x, y)))


_mul_same = nary_aval("mul", (NUM, NUM))
mul_p: Primitive = Primitive(
    "mul",
    abstract_eval=_mul_aval,
    jvp=jvp_of(
        lambda: mul_p,
        lambda t, z, x, y, out_dtype: mul_p.bind(t, y, out_dtype=out_dtype),
        lambda t, z, x, y, out_dtype: mul_p.bind(x, t, out_dtype=out_dtype),
    ),
    transpose=_mul_transpose,
    batch=nary_batch(lambda: mul_p),
)
mul_p.remember_types()
div_p = binary(
    "div",
    NUM,
    lambda t, z, x, y: div(t, y),
    lambda t, z, x, y: mul(mul(neg(t), x), integer_pow(y, -2)),
    transpose=_div_transpose,
)
# x - y * trunc(x / y): the quotient is piecewise constant.
rem_p = binary(
    "rem",
    (INT, FLOAT),
    lambda t, z, x, y: t,
    lambda t, z, x, y: mul(neg(t), mul(sign(div(x, y)), floor(abs(div(x, y))))),
)
mulhi_p = binary("mulhi", (INT,), None, None)


def share(x: Any, z: Any, y: Any) -> Any:
    """1 where x is the one chosen as z, 1/2 where x and y tie, else 0."""
    one = select(eq(x, z), full_as(z, 1), full_as(z, 0))
    return div(one, select(eq(y, z), full_as(z, 2), full_as(z, 1)))


max_p = binary(
    "max", ANY, lambda t, z, x, y: mul(t, share(x, z, y)), lambda t, z, x, y: mul(t, share(y, z, x))
)
min_p = binary(
    "min", ANY, lambda t, z, x, y: mul(t, share(x, z, y)), lambda t, z, x, y: mul(t, share(y, z, x))
)
neg_p = linear_unary("neg", NUM, lambda ct: neg(ct))


def _abs_derivative(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(typeof(x).dtype):
        return select(ge(x, const(x, 0)), t, neg(t))
    size = convert_element_type(y, typeof(x).dtype)
    zero = eq(size, const(size, 0))
    return real(mul(t, div(conj(x), select(zero, full_as(size, 1), size))))


abs_p = unary("abs", (FLOAT, COMPLEX, SIGNED), _abs_derivative, result=real_dtype)
sign_p = unary("sign", NUM, No.NOT_DIFFERENTIABLE)
floor_p = unary("floor", (FLOAT,), No.NOT_DIFFERENTIABLE)
ceil_p = unary("ceil", (FLOAT,), No.NOT_DIFFERENTIABLE)
round_p = unary("round", (FLOAT,), No.NOT_DIFFERENTIABLE)
is_finite_p = unary("is_finite", (FLOAT,), No.NOT_DIFFERENTIABLE, result=_TO_BOOL)
nextafter_p = binary("nextafter", (FLOAT,), None, None, jvp=No.NOT_DIFFERENTIABLE)
square_p = unary("square", NUM, lambda t, y, x: mul(t, mul(const(x, 2), x)))


def _integer_pow_aval(x: Any, *, y: int) -> ShapedArray:
    check_dtype("integer_pow", x.dtype, NUM)
    if y < 0 and dtypes.is_integer(x.dtype):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x.str_short()}, {y}). "
            "Fix: convert x to a float first, such as x.astype('float32')."
        )
    return ShapedArray(x.shape, x.dtype, x.weak_type)


def _integer_pow_derivative(t: Any, z: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return zero_of(z)
    if y == 1:
        return t
    return mul(t, mul(const(x, y), x if y == 2 else integer_pow(x, y - 1)))


def _whole_exponent(x: Any, *, y: Any) -> None:
    if y != int(y):
        raise TypeError(
            f"integer_pow takes a whole number as its exponent, got {y}. Fix: use lax.pow."
        )


integer_pow_p: Primitive = Primitive(
    "integer_pow",
    abstract_eval=_integer_pow_aval,
    jvp=jvp_of(lambda: integer_pow_p, _integer_pow_derivative),
    transpose=lambda ct, x, *, y: [ct if y == 1 else _not_linear("integer_pow")],
    batch=lambda args, dims, *, y: (integer_pow_p.bind(args[0], y=y), dims[0]),
    computable=_whole_exponent,
)
integer_pow_p.remember_types()


def _not_linear(name: str) -> Any:
    raise ValueError(
        f"internal error in pullback: {name} is not linear in its operand, and was transposed"
    )


def _pow_aval(x: Any, y: Any) -> ShapedArray:
    integral = accepts(y.dtype, (INT,))
    out = _pow_any(x, y)
    if not integral:
        check_same_dtypes("pow", (x, y))
    return out


def _pow_d0(t: Any, z: Any, x: Any, y: Any) -> Any:
    """y * x**(y - 1); for an integer exponent 0 the derivative is 0 everywhere, also at x = 0."""
    if dtypes.is_integer(typeof(y).dtype):
        ye = convert_element_type(y, typeof(x).dtype)
        one, is_zero = full_as(ye, 1), eq(ye, const(ye, 0))
        factor = mul(select(is_zero, one, ye), pow(x, sub(ye, one)))
        shape = typeof(z).shape
        factor, is_zero = broadcast_to_shape(factor, shape), broadcast_to_shape(is_zero, shape)
        return mul(t, select(is_zero, full_as(factor, 0), factor))
    x, y = (convert_element_type(v, typeof(v).dtype) for v in (x, y))  # not weakly typed
    return mul(t, mul(y, pow(x, sub(y, full_as(y, 1)))))


def _pow_d1(t: Any, z: Any, x: Any, y: Any) -> Any:
    """log(x) * z, where z = 0 at x = 0 must win over log's -inf."""
    return mul(t, mul(log(select(eq(x, const(x, 0)), full_as(x, 1), x)), z))


log_p = unary("log", (FLOAT, COMPLEX), lambda t, y, x, *, accuracy=None: div(t, x))
_pow_any = nary_aval("pow", ((FLOAT, COMPLEX), (INT, FLOAT, COMPLEX)), same_dtypes=False)
pow_p: Primitive = Primitive(
    "pow",
    abstract_eval=_pow_aval,
    jvp=jvp_of(lambda: pow_p, _pow_d0, _pow_d1),
    transpose=No.NOT_LINEAR,
    batch=nary_batch(lambda: pow_p),
)
pow_p.remember_types()


# --- complex numbers ---
def _zero_part(ct: Any) -> Any:
    """The other part of a complex cotangent: of a firm type, and so the whole is, as in JAX."""
    return typeof(ct).dtype.type(0)


real_p = linear_unary("real", (COMPLEX,), lambda ct: complex(ct, _zero_part(ct)), result=real_dtype)
imag_p = linear_unary(
    "imag", (COMPLEX,), lambda ct: complex(_zero_part(ct), neg(ct)), result=real_dtype
)


def _complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(a.aval) if type(a) is UndefinedPrimal else None for a in (x, y)]
    return [
        unbroadcast(x.aval, real(ct)) if type(x) is UndefinedPrimal else None,
        unbroadcast(y.aval, imag(neg(ct))) if type(y) is UndefinedPrimal else None,
    ]


def _complex_jvp(primals: Any, tangents: Any) -> Any:
    out = complex_p.bind(*primals)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    parts = [const(x, 0) if type(t) is Zero else t for x, t in zip(primals, tangents)]
    return out, broadcast_to_shape(complex_p.bind(*parts), typeof(out).shape)


complex_p = binary(
    "complex",
    (F32, F64),
    None,
    None,
    result=complex_dtype,
    transpose=_complex_transpose,
    jvp=_complex_jvp,
)
conj_p = linear_unary(
    "conj",
    (F32, COMPLEX, F64),
    lambda ct, *, input_dtype: conj(ct) if dtypes.is_complex(input_dtype) else real(ct),
    result=complex_dtype,
)

# --- bits ---
and_p = binary("and", (INT, BOOL), None, None)
or_p = binary("or", (INT, BOOL), None, None)
xor_p = binary("xor", (INT, BOOL), None, None)
not_p = unary("not", (INT, BOOL), No.NOT_DIFFERENTIABLE)
shift_left_p = binary("shift_left", (INT,), None, None)
shift_right_arithmetic_p = binary("shift_right_arithmetic", (INT,), None, None)
shift_right_logical_p = binary("shift_right_logical", (INT,), None, None)
population_count_p = unary("population_count", (INT,), No.NOT_DIFFERENTIABLE)
clz_p = unary("clz", (INT,), No.NOT_DIFFERENTIABLE)

# --- comparison ---
eq_p = binary("eq", (*ANY, EXTENDED), None, None, result=_TO_BOOL)
ne_p = binary("ne", (*ANY, EXTENDED), None, None, result=_TO_BOOL)
lt_p = binary("lt", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
le_p = binary("le", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
gt_p = binary("gt", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
ge_p = binary("ge", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
# The total order of IEEE 754: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN; that of other numbers.
eq_to_p = binary("eq_to", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
le_to_p = binary("le_to", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)
lt_to_p = binary("lt_to", (INT, FLOAT, BOOL), None, None, result=_TO_BOOL)


# --- selection ---
def _select_n_aval(which: Any, *cases: Any) -> ShapedArray:
    if not cases:
        raise TypeError("select must have at least one case")
    if not accepts(which.dtype, (BOOL, INT)):
        raise TypeError(f"select `which` must be boolean or integer type, got {which.dtype}.")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    first = cases[0].shape
    if any(c.shape != first for c in cases[1:]):
        raise TypeError(
            "select cases must have the same shapes, got "
            f"[{', '.join(str(c.shape) for c in cases)}]."
        )
    if which.shape and which.shape != first:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, "
            f"got `which` shape {which.shape} but case shape {first}."
        )
    check_same_dtypes("select", cases)
    return ShapedArray(first, cases[0].dtype, all(c.weak_type for c in cases))


def _select_n_jvp(primals: Any, tangents: Any) -> Any:
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    ts = tangents[1:]
    if all(type(t) is Zero for t in ts):
        return out, zero_of(out)
    zeros = full_as(next(t for t in ts if type(t) is not Zero), 0)
    return out, select_n_p.bind(which, *(zeros if type(t) is Zero else t for t in ts))


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    if type(ct) is Zero:
        return [None, *(Zero(c.aval) if type(c) is UndefinedPrimal else None for c in cases)]
    zeros = full_as(ct, 0)
    return [
        None,
        *(
            select_n_p.bind(which, *(ct if j == k else zeros for j in range(len(cases))))
            if type(c) is UndefinedPrimal
            else None
            for k, c in enumerate(cases)
        ),
    ]


def _select_n_batch(args: Any, dims: Any) -> Any:
    which, *cases = args
    w_dim, *c_dims = dims
    w = typeof(which)
    first = c_dims[0]
    if all(d == first for d in c_dims) and first is not None:
        shapes = {typeof(c).shape for c in cases}
        if len(shapes) == 1 and (
            (w_dim is None and not w.ndim) or (w_dim == first and w.shape in shapes)
        ):
            return select_n_p.bind(which, *cases), first
    size, lies = batch_size(args, dims), batch_lies(args, dims)
    cases = [full_batch(c, d, size, lies) for c, d in zip(cases, c_dims)]
    if w_dim is None and not w.ndim:
        return select_n_p.bind(which, *cases), 0
    which = full_batch(which, w_dim, size, lies)
    shape = typeof(cases[0]).shape
    if typeof(which).ndim != len(shape):
        which = broadcast_in_dim(which, shape, (0,))
    return select_n_p.bind(which, *cases), 0


select_n_p: Primitive = Primitive(
    "select_n",
    abstract_eval=_select_n_aval,
    jvp=_select_n_jvp,
    transpose=_select_n_transpose,
    batch=_select_n_batch,
)
select_n_p.remember_types()


def _clamp_aval(low: Any, x: Any, high: Any) -> ShapedArray:
    check_same_dtypes("clamp", (low, x, high))
    if low.shape and low.shape != x.shape:
        raise TypeError(
            "clamp requires min.shape == operand.shape or min.shape == (), "
            f"got min.shape={low.shape}, operand.shape={x.shape}."
        )
    if high.shape and high.shape != x.shape:
        raise TypeError(
            "clamp requires max.shape == operand.shape or max.shape == (), "
            f"got max.shape={high.shape}, operand.shape={x.shape}."
        )
    check_dtype("clamp", x.dtype, ANY)
    return ShapedArray(x.shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _masked(mask: Any, t: Any, out: Any) -> Any:
    shape = typeof(out).shape
    t = broadcast_to_shape(t, shape)
    return select(broadcast_to_shape(mask, shape), t, full_as(t, 0))


def _clamp_batch(args: Any, dims: Any) -> Any:
    low, x, high = args
    avals = [typeof(a) for a in args]
    if dims[1] is not None and all(
        (d is None and not a.ndim) or (d == dims[1] and a.shape == avals[1].shape)
        for a, d in zip(avals, dims)
    ):
        return clamp_p.bind(low, x, high), dims[1]
    size = batch_size(args, dims)
    x = full_batch(x, dims[1], size)
    shape = typeof(x).shape

    def widen(b: Any, d: int | None) -> Any:
        if d is None and not typeof(b).ndim:
            return broadcast_in_dim(b, shape, ())
        b = full_batch(b, d, size)
        return b if typeof(b).ndim == len(shape) else broadcast_in_dim(b, shape, (0,))

    return clamp_p.bind(widen(low, dims[0]), x, widen(high, dims[2])), 0


clamp_p: Primitive = Primitive(
    "clamp",
    abstract_eval=_clamp_aval,
    jvp=jvp_of(
        lambda: clamp_p,
        lambda t, z, low, x, high: _masked(bitwise_and(gt(low, x), lt(low, high)), t, z),
        lambda t, z, low, x, high: _masked(bitwise_and(gt(x, low), lt(x, high)), t, z),
        lambda t, z, low, x, high: _masked(lt(high, x), t, z),
    ),
    transpose=No.NOT_LINEAR,
    batch=_clamp_batch,
)
clamp_p.remember_types()

# --- what users call ---


def add(x: Any, y: Any) -> Any:
    """The sum, element by element. Dtypes must be equal; a scalar joins any shape.

    Raises TypeError for unequal dtypes or shapes; axes of size 1 do stretch, ranks must be equal.
    `jnp.add` promotes and broadcasts.

    >>> lax.add(jnp.array([1, 2]), jnp.array([10, 20]))
    Array([11, 22], dtype=int32)
    >>> lax.add(jnp.array([1, 2]), 5)
    Array([6, 7], dtype=int32)
    """
    return add_p.bind(x, y)


def sub(x: Any, y: Any) -> Any:
    """The difference.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. As `numpy.subtract`.

    >>> lax.sub(jnp.array([5, 7]), 2)
    Array([3, 5], dtype=int32)
    """
    return sub_p.bind(x, y)


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product; of the operands converted to `out_dtype`, if one is given.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. As `numpy.multiply`.

    >>> lax.mul(jnp.array([2, 3]), jnp.array([4, 5]))
    Array([ 8, 15], dtype=int32)
    """
    if out_dtype is None:
        return mul_p.bind(x, y, out_dtype=None)
    return mul_p.bind(x, y, out_dtype=dtypes.dtype(out_dtype))


def div(x: Any, y: Any) -> Any:
    """The quotient; for integers, rounded toward zero.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. An integer divided by zero gives -1 (all bits), as XLA
    defines it. As C's division; `numpy.divide` for floats.

    >>> lax.div(jnp.array([7, -7]), 2)
    Array([ 3, -3], dtype=int32)
    >>> lax.div(1., 4.)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return div_p.bind(x, y)


def rem(x: Any, y: Any) -> Any:
    """The remainder, with the sign of x.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. As C's `%` and `numpy.fmod`.

    >>> lax.rem(jnp.array([7, -7]), 4)
    Array([ 3, -3], dtype=int32)
    """
    return rem_p.bind(x, y)


def max(x: Any, y: Any) -> Any:
    """The larger of two; NaN if either is NaN.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. As `numpy.maximum`; complex numbers are ordered by real, then
    imaginary part.

    >>> lax.max(jnp.array([1., 5.]), jnp.array([2., jnp.nan]))
    Array([ 2., nan], dtype=float32)
    """
    return max_p.bind(x, y)


def min(x: Any, y: Any) -> Any:
    """The smaller of two; NaN if either is NaN.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. As `numpy.minimum`; complex numbers are ordered by real, then
    imaginary part.

    >>> lax.min(jnp.array([1., 5.]), jnp.array([2., jnp.nan]))
    Array([ 1., nan], dtype=float32)
    """
    return min_p.bind(x, y)


def nextafter(x1: Any, x2: Any) -> Any:
    """The float next to x toward y.

    The operands are floats of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `numpy.nextafter`.

    >>> float(lax.nextafter(jnp.float32(1), jnp.float32(2))) - 1
    1.1920928955078125e-07
    """
    return nextafter_p.bind(x1, x2)


def complex(x: Any, y: Any) -> Any:
    """The complex number with these real and imaginary parts.

    `x`, `y`: float32 or float64 arrays of one dtype; the result is complex64 or complex128. Raises
    TypeError for other dtypes.

    >>> lax.complex(jnp.array([1., 2.]), jnp.array([0., -1.]))
    Array([1.+0.j, 2.-1.j], dtype=complex64)
    """
    return complex_p.bind(x, y)


def bitwise_and(x: Any, y: Any) -> Any:
    """Bitwise (logical for bool) and.

    The operands are integers or bools of one dtype and one rank, with sizes that are equal or 1; a
    scalar joins any shape. Raises TypeError otherwise.

    >>> lax.bitwise_and(jnp.array([6, 5]), jnp.array([3, 4]))
    Array([2, 4], dtype=int32)
    """
    return and_p.bind(x, y)


def bitwise_or(x: Any, y: Any) -> Any:
    """Bitwise (logical for bool) or.

    The operands are integers or bools of one dtype and one rank, with sizes that are equal or 1; a
    scalar joins any shape. Raises TypeError otherwise.

    >>> lax.bitwise_or(jnp.array([6, 5]), jnp.array([3, 4]))
    Array([7, 5], dtype=int32)
    """
    return or_p.bind(x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """Bitwise (logical for bool) exclusive or.

    The operands are integers or bools of one dtype and one rank, with sizes that are equal or 1; a
    scalar joins any shape. Raises TypeError otherwise.

    >>> lax.bitwise_xor(jnp.array([6, 5]), jnp.array([3, 4]))
    Array([5, 1], dtype=int32)
    """
    return xor_p.bind(x, y)


def shift_left(x: Any, y: Any) -> Any:
    """x shifted left by y bits; 0 from the width on.

    The operands are integers of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `numpy.left_shift`.

    >>> lax.shift_left(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    return shift_left_p.bind(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """x shifted right by y bits, filled with the sign.

    The operands are integers of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `numpy.right_shift` of signed integers.

    >>> lax.shift_right_arithmetic(jnp.array([-8, 8]), 1)
    Array([-4,  4], dtype=int32)
    """
    return shift_right_arithmetic_p.bind(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """x shifted right by y bits, filled with 0.

    The operands are integers of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise. As `numpy.right_shift` of unsigned integers.

    >>> lax.shift_right_logical(jnp.array([-8, 8], dtype='int8'), jnp.int8(1))
    Array([124,   4], dtype=int8)
    """
    return shift_right_logical_p.bind(x, y)


def eq(x: Any, y: Any) -> Any:
    """x == y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. NaN equals nothing. As
    `numpy.equal`.

    >>> lax.eq(jnp.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return eq_p.bind(x, y)


def ne(x: Any, y: Any) -> Any:
    """x != y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. NaN differs from everything.
    As `numpy.not_equal`.

    >>> lax.ne(jnp.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return ne_p.bind(x, y)


def lt(x: Any, y: Any) -> Any:
    """x < y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. False where either is NaN. As
    `numpy.less`.

    >>> lax.lt(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """
    return lt_p.bind(x, y)


def le(x: Any, y: Any) -> Any:
    """x <= y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. False where either is NaN. As
    `numpy.less_equal`.

    >>> lax.le(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """
    return le_p.bind(x, y)


def gt(x: Any, y: Any) -> Any:
    """x > y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. False where either is NaN. As
    `numpy.greater`.

    >>> lax.gt(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """
    return gt_p.bind(x, y)


def ge(x: Any, y: Any) -> Any:
    """x >= y.

    The operands have one dtype and one rank, and sizes that are equal or 1; a scalar joins any
    shape. Raises TypeError otherwise. The result is an array of bool. False where either is NaN. As
    `numpy.greater_equal`.

    >>> lax.ge(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """
    return ge_p.bind(x, y)


def neg(x: Any) -> Any:
    """`-x`, element by element.

    `x`: an array of numbers (not bool) of any shape; the result has its shape and dtype. Raises
    TypeError for bool. As `numpy.negative`.

    >>> lax.neg(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return neg_p.bind(x)


def sign(x: Any) -> Any:
    """The sign: -1, 0 or 1 (NaN for NaN); x / |x| for complex numbers.

    `x`: an array of numbers (not bool) of any shape; the result has its shape and dtype. Raises
    TypeError for bool. As `numpy.sign`.

    >>> lax.sign(jnp.array([-2., 0., 3.]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return sign_p.bind(x)


def floor(x: Any) -> Any:
    """The largest whole number not above x.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `numpy.floor`.

    >>> lax.floor(jnp.array([-1.5, 1.2]))
    Array([-2.,  1.], dtype=float32)
    """
    return floor_p.bind(x)


def ceil(x: Any) -> Any:
    """The smallest whole number not below x.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `numpy.ceil`.

    >>> lax.ceil(jnp.array([-1.5, 1.2]))
    Array([-1.,  2.], dtype=float32)
    """
    return ceil_p.bind(x)


def is_finite(x: Any) -> Any:
    """Is x neither infinite nor NaN?

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes. As `numpy.isfinite`.

    >>> lax.is_finite(jnp.array([1., jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return is_finite_p.bind(x)


def square(x: Any) -> Any:
    """`x * x`.

    `x`: an array of numbers (not bool) of any shape; the result has its shape and dtype. Raises
    TypeError for bool. As `numpy.square`.

    >>> lax.square(jnp.array([2, -3]))
    Array([4, 9], dtype=int32)
    """
    return square_p.bind(x)


def abs(x: Any) -> Any:
    """The absolute value; the modulus of a complex number, as a real.

    `x`: an array of signed numbers of any shape. Raises TypeError for unsigned integers and bool.
    As `numpy.abs`.

    >>> lax.abs(jnp.array([-2., 3.]))
    Array([2., 3.], dtype=float32)
    """
    return abs_p.bind(x)


def real(x: Any) -> Any:
    """The real part of a complex array.

    `x`: complex; the result is float of half its width. Raises TypeError for other dtypes. As
    `numpy.real`.

    >>> lax.real(jnp.array([1 + 2j, 3.]))
    Array([1., 3.], dtype=float32)
    """
    return real_p.bind(x)


def imag(x: Any) -> Any:
    """The imaginary part of a complex array.

    `x`: complex; the result is float of half its width. Raises TypeError for other dtypes. As
    `numpy.imag`.

    >>> lax.imag(jnp.array([1 + 2j, 3.]))
    Array([2., 0.], dtype=float32)
    """
    return imag_p.bind(x)


def population_count(x: Any) -> Any:
    """The number of bits that are set.

    `x`: an integer array of any shape; the result has its shape and dtype. Raises TypeError for
    other dtypes. As `numpy.bitwise_count` of unsigned integers.

    >>> lax.population_count(jnp.array([0, 7, 255]))
    Array([0, 3, 8], dtype=int32)
    """
    return population_count_p.bind(x)


def clz(x: Any) -> Any:
    """The number of leading zero bits.

    `x`: an integer array of any shape; the result has its shape and dtype. Raises TypeError for
    other dtypes.

    >>> lax.clz(jnp.array([1, 255], dtype='uint8'))
    Array([7, 0], dtype=uint8)
    """
    return clz_p.bind(x)


def bitwise_not(x: Any) -> Any:
    """Every bit flipped (logical not for bool).

    `x`: an integer or bool array. Raises TypeError for other dtypes.

    >>> lax.bitwise_not(jnp.array([0, 1, -1]))
    Array([-1, -2,  0], dtype=int32)
    """
    return not_p.bind(x)


def mulhi(x: Any, y: Any, /) -> Any:
    """The high half of the double-width product of integers.

    The operands are integers of one dtype and one rank, with sizes that are equal or 1; a scalar
    joins any shape. Raises TypeError otherwise.

    >>> lax.mulhi(jnp.array([200], dtype='uint8'), jnp.array([3], dtype='uint8'))
    Array([2], dtype=uint8)
    """
    return mulhi_p.bind(x, y)


def conj(x: Any) -> Any:
    """The complex conjugate; real operands become complex.

    `x`: a float32, float64 or complex array. Raises TypeError for other dtypes. As `numpy.conj`.

    >>> lax.conj(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    return conj_p.bind(x, input_dtype=typeof(x).dtype)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest whole number; halves go away from zero, or to even.

    `x`: a float array of any shape; the result has its shape and dtype. Raises TypeError for other
    dtypes.

    >>> lax.round(jnp.array([0.5, 1.5, 2.5]))
    Array([1., 2., 3.], dtype=float32)
    >>> lax.round(jnp.array([0.5, 1.5, 2.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2., 2.], dtype=float32)
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def log(x: Any, *, accuracy: Any = None) -> Any:
    """The natural logarithm.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. -inf at 0, NaN below. As `numpy.log`.

    >>> lax.log(jnp.array([1., 0.]))
    Array([  0., -inf], dtype=float32)
    """
    return log_p.bind(x, accuracy=accuracy)


def integer_pow(x: Any, y: int) -> Any:
    """x to a constant whole power.

    `x`: an array of numbers; `y`: a Python int. Raises TypeError for a negative `y` of an integer
    `x`.

    >>> lax.integer_pow(jnp.array([2., 3.]), -2).round(3)
    Array([0.25 , 0.111], dtype=float32)
    """
    return integer_pow_p.bind(x, y=y)


def pow(x: Any, y: Any) -> Any:
    """x to the power y, which may be an integer array. x is inexact.

    `y` has the dtype of `x`, or is an integer array; shapes as of `lax.mul`. Raises TypeError for
    an integer `x`. As `numpy.power`.

    >>> lax.pow(jnp.array([2., 9.]), jnp.array([3., 0.5]))
    Array([8., 3.], dtype=float32)
    """
    return pow_p.bind(x, y)


def reciprocal(x: Any) -> Any:
    """1 / x.

    `x`: a float or complex array of any shape; the result has its shape and dtype. Raises TypeError
    for other dtypes. As `numpy.reciprocal`.

    >>> lax.reciprocal(jnp.array([2., 4.]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred`, else `on_false`; `pred` is a scalar or has the shape of both.

    `pred`: bool; the choices have one shape and dtype. Raises TypeError otherwise. As
    `numpy.where`, without broadcasting.

    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([10, 20]))
    Array([ 1, 20], dtype=int32)
    """
    return select_n_p.bind(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Any:
    """`cases[which]`, element by element; an index out of range is clamped. `which` is a bool for
    two cases.

    >>> lax.select_n(jnp.array([0, 1]), jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array([1., 4.], dtype=float32)
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return select_n_p.bind(which, *cases)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to [min, max]; the bounds are scalars or have the shape of x.

    `min`, `x`, `max` have one dtype. Raises TypeError for unequal dtypes or shapes. As
    `numpy.clip`, in another order.

    >>> lax.clamp(0., jnp.array([-1., 0.5, 2.]), 1.)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clamp_p.bind(min, x, max)
