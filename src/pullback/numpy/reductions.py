"""Reductions: sum, prod, max, min, any, all, mean, var, std, average, argmax, argmin,
count_nonzero, ptp.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array
from ..primitives.convert import convert_weak, warn_of_real_parts
from .selecting import number, select_where
from .util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    check_broadcast,
    dtype_of,
    inexact,
    literal,
    ndim_of,
    promote_dtypes_inexact,
    promotes_freely,
    refuse_out,
    shape_of,
    static_axes,
    to_type,
    unwrap,
    user_dtype,
)


def _reduction(
    a: Any,
    name: str,
    op: Callable[..., Any],
    start: Any,
    *,
    axis: Any,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    to_bool: bool = False,
    upcast: bool = False,
    combine: Any = None,
    has_identity: bool = True,
    promote_integers: bool = False,
) -> Any:
    """Reduces over `axis`. `start(dtype)` is the identity, used for `where`; `combine` joins
    `initial`; `upcast` sums half floats in float32.
    """
    check_arraylike(name, a)
    a = unwrap(a)
    shape = shape_of(a)
    axes, named = split_axes(axis, len(shape))
    if named and op not in _ACROSS:
        raise NotImplementedError(
            f"Named reductions not implemented for jnp.{name}(). "
            "Fix: lax.all_gather over the named axis, then a reduction over the new one."
        )
    if initial is None and not has_identity:
        if where is not None:
            check_arraylike(name, a, where)
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask one "
                "has to specify 'initial'"
            )
        if builtins.any(type(shape[k]) is int and shape[k] == 0 for k in axes):
            raise ValueError(
                f"zero-size array to reduction operation {name} which has no identity. "
                f"Fix: pass initial=, as in jnp.{name}(x, initial=0)."
            )
    result_dtype, compute = _dtypes(a, name, dtype, to_bool, upcast, promote_integers)
    if dtypes.is_complex(dtype_of(a)) and not dtypes.is_complex(compute):
        a = as_array(a)
        # Numbers without real part are true too: as NumPy and the array API standard have it.
        if to_bool:
            a = lax.ne(a, np.zeros((), typeof(a).dtype))
        else:
            warn_of_real_parts()
            a = lax.real(a)
    a = (
        to_type(a, compute, False)
        if type(a) in (bool, int, float, complex) or isinstance(a, np.ndarray | np.generic)
        else (convert_weak(a, compute, False))
    )
    if where is not None:
        check_where(name, where)
        a = select_where(where, a, start(compute))
    if dtypes.is_bool(compute) and not named:
        op, combine = _OF_BOOLS.get(op, (op, combine))
    out = getattr(lax, _ACROSS[op])(a, (*named, *axes)) if named else op(a, axes)
    if initial is not None:
        check_arraylike(name, initial)
        if shape_of(initial) != ():
            raise ValueError(
                "initial value must be a scalar. Specified initial value has shape "
                f"{shape_of(initial)}"
            )
        out = combine(to_type(initial, typeof(out).dtype, False), out)
    if keepdims:
        out = lax.expand_dims(out, axes) if axes else out
    return out if typeof(out).dtype == result_dtype else convert_weak(out, result_dtype, False)


# Sums and products of bools that stay bools: (reduction, what joins `initial`).
_OF_BOOLS: dict[Any, tuple[Any, Any]] = {
    lax.reduce_sum: (lax.reduce_or, lax.bitwise_or),
    lax.reduce_prod: (lax.reduce_and, lax.bitwise_and),
}


# Reductions over axes that an enclosing `vmap` or map names, by the name of what in `lax` crosses
# its elements.
_ACROSS: dict[Any, str] = {
    lax.reduce_sum: "psum",
    lax.reduce_max: "pmax",
    lax.reduce_min: "pmin",
}


def split_axes(axis: Any, ndim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """(the positions, the names) among the axes of a reduction."""
    axis = static_axes(axis)
    if isinstance(axis, str):
        return (), (axis,)
    if isinstance(axis, tuple) and builtins.any(isinstance(k, str) for k in axis):
        named = tuple(k for k in axis if isinstance(k, str))
        return _axes(tuple(k for k in axis if not isinstance(k, str)), ndim), named
    return _axes(axis, ndim), ()


def axes_size(axis: Any, shape: tuple[Any, ...]) -> Any:
    """How many elements the axes of a reduction hold together, the named ones counted."""
    axes, named = split_axes(axis, len(shape))
    total: Any = lax.axis_size(named) if named else 1
    for k in axes:
        total = total * shape[k]
    return total


def check_where(name: str, where: Any) -> None:
    """Raises ValueError unless `where` is an array of bools, TypeError if it is no array."""
    check_arraylike(name, where)
    if not dtypes.is_bool(dtype_of(where)):
        raise ValueError(
            f"jnp.{name}: the where argument must be a bool array, got dtype {dtype_of(where).name}"
            ". Fix: compare, as in where=(w != 0)."
        )


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if isinstance(axis, Tracer):
        raise ConcretizationTypeError(
            axis,
            "The axis of a reduction must be an integer or a tuple of integers. "
            "Fix: static_argnames='axis'.",
        )
    axes = canonical_axes(axis, ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return tuple(axes)


def _counted(a: Any) -> Any:
    """What sums and products are made of: bools are numbers of 32 bits, whatever the result."""
    return to_type(unwrap(a), np.dtype("int32"), False) if dtypes.is_bool(dtype_of(a)) else a


def _dtypes(
    a: Any, name: str, dtype: Any, to_bool: bool, upcast: bool, promote_integers: bool
) -> tuple[Any, Any]:
    """(dtype of the result, dtype of the computation)."""
    own = dtype_of(a)
    if to_bool:
        return np.dtype(bool), np.dtype(bool)
    if dtype is not None:
        result = user_dtype(dtype, name)
    elif promote_integers:
        result = _promoted(own)
    else:
        result = own
    compute = result
    if (
        upcast
        and dtypes.is_inexact(result)
        and not dtypes.is_complex(result)
        and dtypes.itemsize_bits(result) < 32
    ):
        compute = np.dtype("float32")
    return result, compute


def _promoted(d: Any) -> Any:
    """The dtype of sums: bools and short integers take the default width."""
    d = dtypes.canonicalize_dtype(d)  # of 64 bits, from where those were on
    if dtypes.is_bool(d):
        return default_int()
    wide = default_int()
    if dtypes.is_unsigned(d):
        return (
            dtypes.canonicalize_dtype(np.uint64)
            if dtypes.itemsize_bits(d) < 8 * wide.itemsize
            else d
        )
    if dtypes.is_integer(d):
        return wide if dtypes.itemsize_bits(d) < 8 * wide.itemsize else d
    return d


def _lowest(d: Any) -> Any:
    if dtypes.is_bool(d):
        return np.bool_(False)
    if dtypes.is_integer(d):
        return number(dtypes.iinfo(d).min, d)
    return number(-np.inf, d)


def _highest(d: Any) -> Any:
    if dtypes.is_bool(d):
        return np.bool_(True)
    if dtypes.is_integer(d):
        return number(dtypes.iinfo(d).max, d)
    return number(np.inf, d)


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over `axis` (an int, a tuple, or None for all). Short integers are summed in the
    default width.

    `keepdims` keeps the reduced axes with size 1; `initial` is added; `where`: a mask of what
    counts; without `promote_integers` short integers are summed as they are. `out` must be
    None.

    >>> jnp.sum(jnp.ones((2, 3)), axis=1)
    Array([3., 3.], dtype=float32)
    """
    refuse_out("sum", out)
    return sum_reduce(a, axis, dtype, keepdims, initial, where, promote_integers)


def sum_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """`sum` without `out`."""
    check_arraylike("sum", a)
    return _reduction(
        _counted(a),
        "sum",
        lax.reduce_sum,
        lambda d: number(0, d),
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        upcast=True,
        combine=lax.add,
        promote_integers=promote_integers,
    )


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over `axis`.

    Short integers are multiplied in the default width.

    `a`: an array; `keepdims` keeps the reduced axes with size 1; `initial` is a factor;
    `where`: a mask of what counts; without `promote_integers` short integers are multiplied
    as they are. `out` must be None.

    >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=1)
    Array([ 2, 12], dtype=int32)
    """
    refuse_out("prod", out)
    return prod_reduce(a, axis, dtype, keepdims, initial, where, promote_integers)


def prod_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """`prod` without `out`."""
    check_arraylike("prod", a)
    return _reduction(
        _counted(a),
        "prod",
        lax.reduce_prod,
        lambda d: number(1, d),
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        upcast=True,
        combine=lax.mul,
        promote_integers=promote_integers,
    )


def max(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over `axis`; NaN if there is one. An empty axis needs `initial`.

    `axis`: an int, a tuple, or None for all. With `where`, only the elements that it marks, and
    `initial` is needed.

    `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.max(jnp.array([[1, 5], [7, 3]]), axis=0)
    Array([7, 5], dtype=int32)
    """
    refuse_out("max", out)
    return max_reduce(a, axis, None, keepdims, initial, where)


def max_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`max` without `out`."""
    return _reduction(
        a,
        "max",
        lax.reduce_max,
        _lowest,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        combine=lax.max,
        has_identity=False,
    )


def min(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over `axis`; NaN if there is one. An empty axis needs `initial`.

    `axis`: an int, a tuple, or None for all. With `where`, only the elements that it marks, and
    `initial` is needed.

    `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.min(jnp.array([[1, 5], [7, 3]]), axis=0)
    Array([1, 3], dtype=int32)
    """
    refuse_out("min", out)
    return min_reduce(a, axis, None, keepdims, initial, where)


def min_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`min` without `out`."""
    return _reduction(
        a,
        "min",
        lax.reduce_min,
        _highest,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        combine=lax.min,
        has_identity=False,
    )


def amax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`max`.

    >>> jnp.amax(jnp.array([1, 5, 3]))
    Array(5, dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`min`.

    >>> jnp.amin(jnp.array([1, 5, 3]))
    Array(1, dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


def all(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Are all elements true (not 0)?

    `axis`: an int, a tuple, or None for all. True over nothing.

    `keepdims` keeps the reduced axes with size 1; `where`: a mask of what counts. `out` must
    be None.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    refuse_out("all", out)
    return all_reduce(a, axis, None, keepdims, None, where)


def all_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`all` without `out`."""
    return _reduction(
        a,
        "all",
        lax.reduce_and,
        lambda d: np.bool_(True),
        axis=axis,
        keepdims=keepdims,
        where=where,
        to_bool=True,
        initial=initial,
        combine=lax.bitwise_and,
    )


def any(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Is one element true (not 0)?

    `axis`: an int, a tuple, or None for all. False over nothing.

    `keepdims` keeps the reduced axes with size 1; `where`: a mask of what counts. `out` must
    be None.

    >>> jnp.any(jnp.array([[0, 0], [0, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    refuse_out("any", out)
    return any_reduce(a, axis, None, keepdims, None, where)


def any_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`any` without `out`."""
    return _reduction(
        a,
        "any",
        lax.reduce_or,
        lambda d: np.bool_(False),
        axis=axis,
        keepdims=keepdims,
        where=where,
        to_bool=True,
        initial=initial,
        combine=lax.bitwise_or,
    )


def logical_xor_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """Whether an odd number of elements is not 0."""
    return _reduction(
        a,
        "logical_xor",
        lax.reduce_xor,
        lambda d: np.bool_(False),
        axis=axis,
        keepdims=keepdims,
        where=where,
        to_bool=True,
        initial=initial,
        combine=lax.bitwise_xor,
    )


def _bitwise(name: str, op: Any, start: int, combine: Any) -> Any:
    def reduce(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        return _reduction(
            a,
            name,
            op,
            lambda d: number(start, d),
            axis=axis,
            dtype=dtype,
            keepdims=keepdims,
            initial=initial,
            where=where,
            combine=combine,
        )

    return reduce


bitwise_and_reduce = _bitwise("bitwise_and", lax.reduce_and, -1, lax.bitwise_and)
bitwise_or_reduce = _bitwise("bitwise_or", lax.reduce_or, 0, lax.bitwise_or)
bitwise_xor_reduce = _bitwise("bitwise_xor", lax.reduce_xor, 0, lax.bitwise_xor)


# --- mean, variance ---
def _count(a: Any, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    """How many elements each result is made of, as a number of `dtype`."""
    shape = shape_of(a)
    if where is not None and (
        ndim_of(where) > len(shape) or check_broadcast([shape_of(where), shape]) != shape
    ):
        raise ValueError(f"where of shape {shape_of(where)} cannot be broadcast to shape {shape}")
    if where is None:
        total = axes_size(axis, shape)
        return (
            number(total, dtype) if type(total) is int else to_type(as_array(total), dtype, False)
        )
    mask = where
    if shape_of(where) != shape:
        axes = tuple(range(len(shape) - ndim_of(where), len(shape)))
        check_broadcast([shape_of(where), shape])
        mask = lax.broadcast_in_dim(where, shape, axes)
    return sum_reduce(mask, axis, dtype, keepdims)


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The arithmetic mean over `axis`; integers give floats.

    `axis`: an int, a tuple, or None for all; `dtype`: in which the sum is made and returned. Over
    nothing: NaN. `where` marks what counts.

    `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.mean(jnp.arange(4))
    Array(1.5, dtype=float32)
    """
    refuse_out("mean", out)
    check_arraylike("mean", a)
    if where is not None:
        check_where("mean", where)
    return _mean(a, static_axes(axis), dtype, keepdims, where)


def _mean(a: Any, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    own = dtype_of(a)
    if dtype is None:
        result = inexact(own)
    else:
        result = user_dtype(dtype, "mean")
    compute = result
    if (
        dtypes.is_inexact(result)
        and not dtypes.is_complex(result)
        and dtypes.itemsize_bits(result) < 32
    ):
        compute = np.dtype("float32")
    count = _count(a, axis, compute, keepdims, where)
    total = sum_reduce(a, axis, compute, keepdims, None, where)
    out = lax.div(total, count if dtypes.is_inexact(compute) else to_type(count, compute, False))
    return out if compute == result else convert_weak(out, result, False)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights` (of the shape of `a`, or one for each index along `axis`);
    with `returned`, also the sum of weights.

    >>> jnp.average(jnp.array([1.0, 2.0, 3.0]), weights=jnp.array([3.0, 1.0, 0.0]))
    Array(1.25, dtype=float32)
    """
    check_arraylike("average", a) if weights is None else check_arraylike("average", a, weights)
    axis = static_axes(axis)
    if weights is None:
        (a,) = promote_dtypes_inexact(a)
        avg = _mean(a, axis, None, keepdims, None)
        if not returned:
            return avg
        shape = shape_of(a)
        n: Any = 1
        for k in _axes(axis, len(shape)):
            n = n * shape[k]
        return avg, lax.full_like(avg, n)
    a, weights = promote_dtypes_inexact(a, weights)
    if shape_of(weights) != shape_of(a):
        weights = _align_weights(a, weights, axis)
    total = sum_reduce(weights, axis, None, keepdims) if ndim_of(weights) == ndim_of(a) else weights
    weighted = sum_reduce(lax.mul(a, weights), axis, None, keepdims)
    avg = lax.div(*_same_shape(weighted, total))
    if not returned:
        return avg
    return avg, _same_shape(avg, total)[1]


def _align_weights(a: Any, weights: Any, axis: Any) -> Any:
    ndim = ndim_of(a)
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    axes = canonical_axes(axis, ndim)
    if ndim_of(weights) == 1 and len(axes) == 1:
        if shape_of(weights)[0] != shape_of(a)[axes[0]]:
            raise ValueError("Length of weights not compatible with specified axis.")
    elif shape_of(weights) != tuple(shape_of(a)[k] for k in axes):
        raise ValueError(
            "1D weights expected when shapes of a and weights differ: weights has shape "
            f"{shape_of(weights)}, and axis {axis} of a has "
            f"{tuple(shape_of(a)[k] for k in axes)}."
        )
    order = tuple(np.argsort(axes))
    weights = lax.transpose(weights, [int(k) for k in order]) if len(order) > 1 else weights
    shape = [1] * ndim
    for k in axes:
        shape[k] = shape_of(a)[k]
    return lax.reshape(weights, tuple(shape))


def _same_shape(x: Any, y: Any) -> list[Any]:
    shape = lax.broadcast_shapes(shape_of(x), shape_of(y))
    return [
        v
        if shape_of(v) == shape
        else lax.broadcast_in_dim(v, shape, tuple(range(len(shape) - ndim_of(v), len(shape))))
        for v in (x, y)
    ]


@promotes_freely
def _var_dtypes(a: Any, dtype: Any) -> tuple[Any, Any]:
    """(dtype of the computation, dtype of the result)."""
    own = dtype_of(a)
    if dtype is not None:
        result = user_dtype(dtype, "var")
        if dtypes.is_bool(result):
            raise TypeError("jnp.var: a variance is no bool. Fix: a float dtype, or none.")
        if dtypes.is_complex(own) and not dtypes.is_complex(result):
            raise ValueError(
                "jax.numpy.var does not yet support real dtype parameters when computing the "
                "variance of an array of "
                "complex values. Fix: leave dtype out."
            )
        compute = dtypes.result_type(own, result)
    else:
        compute = inexact(own)
        result = np.zeros((), compute).real.dtype if dtypes.is_complex(compute) else compute
    if (
        dtypes.is_inexact(compute)
        and not dtypes.is_complex(compute)
        and dtypes.itemsize_bits(compute) < 32
    ):
        compute = np.dtype("float32")
    return compute, result


def _var(
    a: Any, correction: Any, where: Any, mean: Any, axis: Any, dtype: Any, keepdims: bool
) -> Any:
    compute, result = _var_dtypes(a, dtype)
    a = to_type(a, inexact(compute), False)
    if mean is None:
        mean = _mean(a, axis, None, True, where)
    else:
        mean = to_type(mean, inexact(compute), False)
    centered = lax.sub(*_rank_aligned(a, mean))
    if dtypes.is_complex(typeof(centered).dtype):
        squares = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        squares = lax.square(centered)
    real_type = typeof(squares).dtype
    count = _count(a, axis, real_type, False, where)
    normalizer = lax.sub(count, to_type(correction, real_type, False))
    total = sum_reduce(squares, axis, None, keepdims, None, where)
    if where is not None and keepdims and ndim_of(normalizer):
        normalizer = lax.reshape(normalizer, shape_of(total))
    out = lax.div(total, normalizer)
    if typeof(out).dtype != result:
        out = convert_weak(out, result, False)
    return select_where(lax.gt(normalizer, literal(normalizer, 0)), out, np.nan)


def _rank_aligned(x: Any, y: Any) -> list[Any]:
    return [
        x,
        lax.broadcast_to_rank(y, ndim_of(x)) if ndim_of(y) and ndim_of(y) != ndim_of(x) else y,
    ]


def _std(
    a: Any, correction: Any, where: Any, mean: Any, axis: Any, dtype: Any, keepdims: bool
) -> Any:
    if dtype is not None and not dtypes.is_inexact(user_dtype(dtype, "std")):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    return lax.sqrt(_var_jit(a, correction, where, mean, axis=axis, dtype=dtype, keepdims=keepdims))


_var_jit = jit(_var, static_argnames=("axis", "dtype", "keepdims"))
_std_jit = jit(_std, static_argnames=("axis", "dtype", "keepdims"))


def _correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        return ddof
    if not (isinstance(ddof, int) and ddof == 0):
        raise ValueError(f"jnp.{name}: ddof and correction can't be provided simultaneously.")
    return correction


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The variance over `axis`: the mean square distance from the mean, divided by N - ddof (or
    `correction`).

    Integers give floats. With `where`, only the elements that it marks; `mean` saves computing it.

    `a`: an array; `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.var(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array(1.25, dtype=float32)
    """
    refuse_out("var", out)
    check_arraylike("var", a)
    return _var_jit(
        a,
        _correction("var", ddof, correction),
        where,
        mean,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
    )


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The standard deviation over `axis`.

    The square root of `var`.

    >>> jnp.std(jnp.array([1.0, 5.0]), ddof=1)
    Array(2.828427, dtype=float32)
    """
    refuse_out("std", out)
    check_arraylike("std", a)
    return _std_jit(
        a,
        _correction("std", ddof, correction),
        where,
        mean,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
    )


def _count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return sum_reduce(lax.ne(a, literal(a, 0)), axis, default_int(), keepdims)


_count_nonzero.__name__ = "count_nonzero"
_count_nonzero_jit = jit(_count_nonzero, static_argnames=("axis", "keepdims"))


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not 0, over `axis`.

    `axis`: an int, a tuple, or None for all; the result has the default integer type.

    >>> jnp.count_nonzero(jnp.array([[0, 1], [2, 3]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return _count_nonzero_jit(a, axis=static_axes(axis), keepdims=keepdims)


def _ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return lax.sub(max_reduce(a, axis, None, keepdims), min_reduce(a, axis, None, keepdims))


_ptp_jit = jit(_ptp, static_argnames=("axis", "keepdims"))


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest element less the smallest, over `axis`.

    `axis`: an int, a tuple, or None for all.

    >>> jnp.ptp(jnp.array([[1, 5], [7, 3]]), axis=1)
    Array([4, 4], dtype=int32)
    """
    refuse_out("ptp", out)
    check_arraylike("ptp", a)
    return _ptp_jit(a, axis=static_axes(axis), keepdims=keepdims)


# --- positions ---
def _arg(name: str, op: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    check_arraylike(name, a)
    a = as_array(unwrap(a))
    shape = shape_of(a)
    if axis is None:
        flat, k, kept = _ravel(a), 0, tuple(range(len(shape)))
    else:
        k = canonical_axis(axis, len(shape)) if shape or axis not in (0, -1) else 0
        flat, kept = (a, (k,)) if shape else (_ravel(a), ())
    if type(shape_of(flat)[k]) is int and shape_of(flat)[k] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    if dtypes.is_complex(typeof(a).dtype):
        raise TypeError(
            f"jnp.{name}: complex numbers have no order. Fix: use jnp.abs(x), x.real or x.imag."
        )
    out = op(flat, k, default_int())
    return lax.expand_dims(out, kept) if keepdims else out


def _ravel(a: Any) -> Any:
    n: Any = 1
    for m in shape_of(a):
        n = n * m
    return lax.reshape(a, (n,))


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first largest element (of the first NaN), over `axis` or over the flattened
    array.

    `a`: an array; `keepdims` keeps the axis with size 1. `out` must be None.

    >>> jnp.argmax(jnp.array([[1, 5, 2], [7, 3, 7]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    refuse_out("argmax", out)
    return _arg("argmax", lax.argmax, a, axis, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first smallest element (of the first NaN), over `axis` or over the flattened
    array.

    `a`: an array; `keepdims` keeps the axis with size 1. `out` must be None.

    >>> jnp.argmin(jnp.array([[1, 5, 2], [7, 3, 9]]))
    Array(0, dtype=int32)
    """
    refuse_out("argmin", out)
    return _arg("argmin", lax.argmin, a, axis, keepdims)
