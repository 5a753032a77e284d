"""Averages and how far elements are from them: mean, average, var, std."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..errors import TypePromotionError
from ..primitives.common import as_array
from ..primitives.convert import convert_weak
from .reductions import axes_size, check_where, reduced_axes, sum_reduce
from .selecting import number, select_where
from .util import (
    canonical_axes,
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
    user_dtype,
)


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
        dtype is None
        and dtypes.is_inexact(result)
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
        for k in reduced_axes(axis, len(shape)):
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


def _common(own: Any, asked: Any) -> Any:
    """The common dtype; where there is none, as of narrow numbers, that which holds more."""
    try:
        return dtypes.result_type(own, asked)
    except TypePromotionError:
        wide = max(own, asked, key=lambda d: (dtypes.is_inexact(d), dtypes.itemsize_bits(d)))
        if wide == own and not dtypes.is_inexact(own):
            raise
        return wide


@promotes_freely
def var_dtypes(a: Any, dtype: Any) -> tuple[Any, Any]:
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
        compute = _common(own, result)
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
    compute, result = var_dtypes(a, dtype)
    a = to_type(a, inexact(compute), False)
    if mean is None:
        mean = _mean(a, axis, None, True, where)
    else:
        mean = to_type(mean, inexact(compute), False)
    centered = lax.sub(*rank_aligned(a, mean))
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


def rank_aligned(x: Any, y: Any) -> list[Any]:
    return [
        x,
        lax.broadcast_to_rank(y, ndim_of(x)) if ndim_of(y) and ndim_of(y) != ndim_of(x) else y,
    ]


def _std(
    a: Any, correction: Any, where: Any, mean: Any, axis: Any, dtype: Any, keepdims: bool
) -> Any:
    asked, dtype = dtype, user_dtype(dtype, "std")
    if dtype is not None and not dtypes.is_inexact(dtype):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {asked}")
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
