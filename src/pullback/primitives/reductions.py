"""Reductions over axes: product, extremes, logical ones, positions of extremes. The sum is with its
adjoint, in `layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from .builders import add_jaxvals
from .common import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    accepts,
    as_int,
    check_dtype,
    int_tuple,
    requested_dtype,
    zero_of,
)
from .elementwise import convert_element_type, div, eq, mul
from .layout import full_of, reduce_sum, reduced_aval, reduction_batch, reshape
from .shape import concatenate, slice_in_dim, squeeze

__all__ = [
    "argmax", "argmax_p", "argmin", "argmin_p", "reduce_and", "reduce_and_p", "reduce_max",
    "reduce_max_p", "reduce_min", "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_prod",
    "reduce_prod_p", "reduce_sum", "reduce_xor", "reduce_xor_p",
]  # fmt: skip


def _reduction_aval(name: str, kinds: tuple[str, ...]) -> Callable[..., ShapedArray]:
    def rule(operand: Any, *, axes: Any, out_sharding: Any = None) -> ShapedArray:
        shape = reduced_aval(name, operand, axes)
        check_dtype(name, operand.dtype, kinds)
        return ShapedArray(shape, operand.dtype, operand.weak_type)

    return rule


def _logical_aval(name: str) -> Callable[..., ShapedArray]:
    def rule(operand: Any, *, axes: Any) -> ShapedArray:
        if not accepts(operand.dtype, (BOOL, INT)) or dtypes.is_narrow(operand.dtype):
            raise TypeError(
                f"logical reduction requires operand dtype bool or int, got {operand.dtype}."
            )
        return ShapedArray(reduced_aval(name, operand, axes), operand.dtype)

    return rule


def kept_dims(shape: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """The shape with size 1 along the reduced axes."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def _extreme_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The tangent is the mean of the tangents of all elements that attain the extreme."""

    def jvp(primals: Any, tangents: Any, *, axes: Any, **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = get().bind(x, axes=axes, **params)
        if type(t) is Zero:
            return out, zero_of(out)
        aval = typeof(x)
        where = convert_element_type(
            eq(x, reshape(out, kept_dims(aval.shape, axes))), typeof(t).dtype
        )
        count = reduce_sum(where, axes)
        return out, div(reduce_sum(mul(t, where), axes), count)

    return jvp


def _prod_jvp(primals: Any, tangents: Any, *, axes: Any) -> Any:
    """A tree of products of pairs, so that zeros among the factors do no harm."""
    (x,), (t,) = primals, tangents
    if type(t) is Zero:
        out = reduce_prod_p.bind(x, axes=axes)
        return out, zero_of(out)
    for axis in sorted(axes, reverse=True):
        x, t = _prod_tree(x, t, axis)
    return x, t


def _prod_tree(x: Any, t: Any, axis: int) -> tuple[Any, Any]:
    n = typeof(x).shape[axis]
    if n == 0:
        shape = tuple(m for k, m in enumerate(typeof(x).shape) if k != axis)
        return tuple(full_of(typeof(a).update(shape=shape), v) for a, v in ((x, 1), (t, 0)))
    while n > 1:
        half = n // 2
        (x0, x1), (t0, t1) = (
            [slice_in_dim(a, k, k + half, 1, axis) for k in (0, half)] for a in (x, t)
        )
        rest = [slice_in_dim(a, 2 * half, n, 1, axis) for a in (x, t)] if n % 2 else []
        x, t = mul(x0, x1), add_jaxvals(mul(t0, x1), mul(x0, t1))
        if n % 2:
            x, t = (concatenate([a, r], axis) for a, r in zip((x, t), rest))
        n = half + n % 2
    return squeeze(x, (axis,)), squeeze(t, (axis,))


reduce_prod_p: Primitive = Primitive(
    "reduce_prod",
    abstract_eval=_reduction_aval("reduce_prod", (NUMBER,)),
    jvp=_prod_jvp,
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_prod_p),
)
reduce_prod_p.remember_types()
reduce_max_p: Primitive = Primitive(
    "reduce_max",
    abstract_eval=_reduction_aval("reduce_max", ANY),
    jvp=_extreme_jvp(lambda: reduce_max_p),
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_max_p),
)
reduce_max_p.remember_types()
reduce_min_p: Primitive = Primitive(
    "reduce_min",
    abstract_eval=_reduction_aval("reduce_min", ANY),
    jvp=_extreme_jvp(lambda: reduce_min_p),
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_min_p),
)
reduce_min_p.remember_types()
reduce_and_p: Primitive = Primitive(
    "reduce_and",
    abstract_eval=_logical_aval("reduce_and"),
    jvp=No.NOT_DIFFERENTIABLE,
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_and_p),
)
reduce_and_p.remember_types()
reduce_or_p: Primitive = Primitive(
    "reduce_or",
    abstract_eval=_logical_aval("reduce_or"),
    jvp=No.NOT_DIFFERENTIABLE,
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_or_p),
)
reduce_or_p.remember_types()
reduce_xor_p: Primitive = Primitive(
    "reduce_xor",
    abstract_eval=_logical_aval("reduce_xor"),
    jvp=No.NOT_DIFFERENTIABLE,
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: reduce_xor_p),
)
reduce_xor_p.remember_types()


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """The product over `axes`.

    `operand`: an array of numbers; `axes` go from the result, which has its dtype. Raises
    ValueError for axes out of bounds. As `numpy.prod`.

    >>> lax.reduce_prod(jnp.array([2, 3, 4]), (0,))
    Array(24, dtype=int32)
    """
    return reduce_prod_p.bind(operand, axes=int_tuple(axes))


def reduce_max(operand: Any, axes: Sequence[int]) -> Any:
    """The largest element over `axes`; NaN if there is one. Of no elements: -inf, or the least
    integer.

    `operand`: an array; `axes` go from the result. Raises ValueError for axes out of bounds. As
    `numpy.max`.

    >>> lax.reduce_max(jnp.array([[1, 5], [4, 2]]), (0,))
    Array([4, 5], dtype=int32)
    """
    return reduce_max_p.bind(operand, axes=int_tuple(axes))


def reduce_min(operand: Any, axes: Sequence[int]) -> Any:
    """The smallest element over `axes`; NaN if there is one. Of no elements: inf, or the greatest
    integer.

    `operand`: an array; `axes` go from the result. Raises ValueError for axes out of bounds. As
    `numpy.min`.

    >>> lax.reduce_min(jnp.array([[1, 5], [4, 2]]), (0,))
    Array([1, 2], dtype=int32)
    """
    return reduce_min_p.bind(operand, axes=int_tuple(axes))


def _logical_axes(axes: Any) -> tuple[int, ...]:
    """IndexError for axes that are no integers, as in JAX, where they index the shape; other
    reductions say TypeError."""
    try:
        return int_tuple(axes)
    except TypeError as error:
        if type(error) is TypeError and isinstance(axes, Iterable):
            raise IndexError(str(error)) from None
        raise


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """The conjunction over `axes`, of bools or of the bits of integers.

    `operand`: bools or integers; `axes` go from the result. Raises TypeError for other dtypes,
    ValueError for axes out of bounds. As `numpy.bitwise_and.reduce`.

    >>> lax.reduce_and(jnp.array([6, 3]), (0,))
    Array(2, dtype=int32)
    """
    return reduce_and_p.bind(operand, axes=_logical_axes(axes))


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """The disjunction over `axes`, of bools or of the bits of integers.

    `operand`: bools or integers; `axes` go from the result. Raises TypeError for other dtypes,
    ValueError for axes out of bounds. As `numpy.bitwise_or.reduce`.

    >>> lax.reduce_or(jnp.array([[True, False], [False, False]]), (1,))
    Array([ True, False], dtype=bool)
    """
    return reduce_or_p.bind(operand, axes=_logical_axes(axes))


def any_true(mask: Any) -> Any:
    """Is any element true?"""
    return reduce_or(mask, tuple(range(typeof(mask).ndim)))


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """The parity over `axes`, of bools or of the bits of integers.

    `operand`: bools or integers; `axes` go from the result. Raises TypeError for other dtypes,
    ValueError for axes out of bounds. As `numpy.bitwise_xor.reduce`.

    >>> lax.reduce_xor(jnp.array([6, 3]), (0,))
    Array(5, dtype=int32)
    """
    return reduce_xor_p.bind(operand, axes=_logical_axes(axes))


# --- argmax, argmin ---
def _arg_aval(name: str) -> Callable[..., ShapedArray]:
    def rule(operand: Any, *, axes: Any, index_dtype: Any) -> ShapedArray:
        (axis,) = axes
        if not 0 <= axis < operand.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {operand.shape}")
        n = operand.shape[axis]
        if type(n) is int and n < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={operand.shape} axis={axis}"
            )
        check_dtype(name, operand.dtype, (INT, FLOAT, BOOL))
        if not dtypes.is_integer(index_dtype):
            raise TypeError(f"index_dtype must be an integer type, but got {index_dtype.name}")
        return ShapedArray(operand.shape[:axis] + operand.shape[axis + 1 :], index_dtype)

    return rule


def _arg_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = get().bind(*primals, **params)
        return out, zero_of(out)

    return jvp


argmax_p: Primitive = Primitive(
    "argmax",
    abstract_eval=_arg_aval("argmax"),
    jvp=_arg_jvp(lambda: argmax_p),
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: argmax_p),
)
argmax_p.remember_types()
argmin_p: Primitive = Primitive(
    "argmin",
    abstract_eval=_arg_aval("argmin"),
    jvp=_arg_jvp(lambda: argmin_p),
    transpose=No.NOT_LINEAR,
    batch=reduction_batch(lambda: argmin_p),
)
argmin_p.remember_types()


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first largest element along an axis (of the first NaN, if there is one).

    `operand`: a real array; the result lacks `axis` and has the integer dtype `index_dtype`. Raises
    ValueError for an axis out of bounds or of size 0, TypeError for another dtype. As
    `numpy.argmax`.

    >>> lax.argmax(jnp.array([3., 9., 5.]), 0, 'int32')
    Array(1, dtype=int32)
    """
    d = requested_dtype(index_dtype, "argmax")
    return argmax_p.bind(operand, axes=(as_int(axis, "axis"),), index_dtype=d)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the first smallest element along an axis (of the first NaN, if there is one).

    `operand`: a real array; the result lacks `axis` and has the integer dtype `index_dtype`. Raises
    ValueError for an axis out of bounds or of size 0, TypeError for another dtype. As
    `numpy.argmin`.

    >>> lax.argmin(jnp.array([3., 9., 5.]), 0, 'int32')
    Array(0, dtype=int32)
    """
    d = requested_dtype(index_dtype, "argmin")
    return argmin_p.bind(operand, axes=(as_int(axis, "axis"),), index_dtype=d)
