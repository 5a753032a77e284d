"""Slices whose starts are values: reading and writing them, and `index_take`.

A start that would take the slice beyond the array is moved back, so that the slice has its size;
negative starts count from the end. Under a batch of starts these are a gather and a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, is_valid_value, typeof
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from .builders import batch_size
from .common import (
    as_array,
    canonical_axis,
    canonical_shape,
    check_same_dtypes,
    const,
    zero_of,
)
from .convert import convert_element_type
from .elementwise import add, div, lt, mul, select, select_n, sub
from .index import gather, gather_p, scatter_p
from .index_checks import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .layout import broadcast_in_dim, expand_dims, full_of, squeeze
from .shape import concatenate, slice as slice


def _check_dynamic(name: str, operand: Any, starts: Sequence[Any]) -> None:
    if len(starts) != operand.ndim:
        raise TypeError(
            f"{name} start_indices must have one entry per dimension of the operand; got "
            f"{len(starts)} for shape {operand.shape}."
        )
    if any(s.shape for s in starts):
        raise TypeError(
            f"start_indices arguments to {name} must be scalars,  got indices {tuple(starts)}"
        )
    if starts and (
        not dtypes.is_integer(starts[0].dtype) or any(s.dtype != starts[0].dtype for s in starts)
    ):
        kinds = ", ".join(str(s.dtype) for s in starts)
        colon = ":" if name == "dynamic_slice" else ""  # as JAX prints it
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, got{colon} {kinds}"
        )


def _dynamic_slice_aval(operand: Any, *starts: Any, slice_sizes: Any) -> ShapedArray:
    _check_dynamic("dynamic_slice", operand, starts)
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            f"slice_sizes must have one entry per dimension of the operand; got {slice_sizes} for "
            f"{operand.shape}."
        )
    if any(type(n) is int and type(m) is int and n > m for n, m in zip(slice_sizes, operand.shape)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{tuple(slice_sizes)} for operand shape {operand.shape} (dynamic_slice). "
            "Fix: ask for at most the operand's sizes, or pad the operand."
        )
    if any(type(n) is int and n < 0 for n in slice_sizes):
        raise TypeError(
            "slice slice_sizes must be greater than or equal to zero, got slice_sizes of "
            f"{tuple(slice_sizes)}."
        )
    return ShapedArray(slice_sizes, operand.dtype, operand.weak_type)


def _dynamic_slice_jvp(primals: Any, tangents: Any, *, slice_sizes: Any) -> Any:
    if type(tangents[0]) is Zero:
        out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
        return out, zero_of(out)
    t_out = dynamic_slice_p.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)
    return dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes), t_out


def _dynamic_slice_transpose(ct: Any, operand: Any, *starts: Any, slice_sizes: Any) -> list[Any]:
    none = [None] * len(starts)
    if type(ct) is Zero:
        return [Zero(operand.aval), *none]
    return [dynamic_update_slice_p.bind(full_of(operand.aval, 0), ct, *starts), *none]


def _joined_starts(starts: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int | None]:
    """Scalar starts, perhaps batched, as one array whose last axis has the components."""
    if all(d is None for d in dims):
        parts = [broadcast_in_dim(s, (1,), ()) for s in starts]
        return concatenate(parts, 0), None
    n = batch_size(starts, dims)
    parts = [
        broadcast_in_dim(s, (n, 1), ()) if d is None else broadcast_in_dim(s, (n, 1), (0,))
        for s, d in zip(starts, dims)
    ]
    return concatenate(parts, 1), 0


def _dynamic_slice_batch(args: Any, dims: Any, *, slice_sizes: Any) -> Any:
    operand, *starts = args
    ndim = len(slice_sizes)
    if not ndim:
        return operand, dims[0]
    indices, sd = _joined_starts(starts, dims[1:])
    axes = tuple(range(ndim))
    return gather_p.rules["batch"](
        (operand, indices),
        (dims[0], sd),
        dimension_numbers=GatherDimensionNumbers(axes, (), axes),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


dynamic_slice_p = Primitive(
    "dynamic_slice",
    abstract_eval=_dynamic_slice_aval,
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
)
dynamic_slice_p.remember_types()


def _update_aval(operand: Any, update: Any, *starts: Any) -> ShapedArray:
    check_same_dtypes("dynamic_update_slice", [operand, update])
    if operand.ndim != update.ndim:
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, got update shape "
            f"{update.shape} for operand shape {operand.shape}."
        )
    _check_dynamic("dynamic_update_slice", operand, starts)
    if any(
        type(n) is int and type(m) is int and n > m for n, m in zip(update.shape, operand.shape)
    ):
        raise TypeError(
            "dynamic_update_slice update shape must be smaller than operand shape, got update "
            "shape "
            f"{update.shape} for operand shape {operand.shape}."
        )
    return ShapedArray(operand.shape, operand.dtype)


def _update_jvp(primals: Any, tangents: Any) -> Any:
    _operand, _update, *starts = primals
    out = dynamic_update_slice_p.bind(*primals)
    t_operand, t_update = tangents[:2]
    if type(t_operand) is Zero and type(t_update) is Zero:
        return out, zero_of(out)
    return out, dynamic_update_slice_p.bind(
        instantiate_zeros(t_operand), instantiate_zeros(t_update), *starts
    )


def _update_transpose(ct: Any, operand: Any, update: Any, *starts: Any) -> list[Any]:
    none = [None] * len(starts)
    linear = [type(x) is UndefinedPrimal for x in (operand, update)]
    if type(ct) is Zero:
        return [
            *(Zero(x.aval) if lin else None for x, lin in zip((operand, update), linear)),
            *none,
        ]
    aval = update.aval if linear[1] else typeof(update)
    ct_operand = dynamic_update_slice_p.bind(ct, full_of(aval, 0), *starts) if linear[0] else None
    ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape) if linear[1] else None
    return [ct_operand, ct_update, *none]


def _update_batch(args: Any, dims: Any) -> Any:
    operand, update, *starts = args
    ndim = typeof(update).ndim - (dims[1] is not None)
    if not ndim:  # as strong as the operand
        return convert_element_type(update, typeof(update).dtype), dims[1]
    indices, sd = _joined_starts(starts, dims[2:])
    axes = tuple(range(ndim))
    return scatter_p.rules["batch"](
        (operand, indices, update),
        (dims[0], sd, dims[1]),
        update_jaxpr=None,
        update_consts=(),
        dimension_numbers=ScatterDimensionNumbers(axes, (), axes),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice",
    abstract_eval=_update_aval,
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
)
dynamic_update_slice_p.remember_types()


def _starts(
    name: str, operand: Any, starts: Any, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """Start indices as scalars of one dtype, negative ones counted from the end."""
    aval = typeof(operand)
    if isinstance(starts, (tuple, list)):
        parts = list(starts)
    else:
        vector = typeof(starts)
        if vector.ndim != 1:
            raise ValueError(
                f"{name}: start_indices must be a sequence of scalars or a vector, got shape "
                f"{vector.shape}"
            )
        parts = [squeeze(slice(starts, (k,), (k + 1,), (1,)), (0,)) for k in range(vector.shape[0])]
    if len(parts) != aval.ndim:
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(parts)} vs "
            f"{aval.shape})"
        )
    allowed = (
        [allow_negative] * aval.ndim if isinstance(allow_negative, bool) else list(allow_negative)
    )
    parts = [
        _brought_in(p, n, ok) if type(p) is int else p
        for p, n, ok in zip(parts, aval.shape, allowed, strict=True)
    ]
    parts = _wide_enough(parts, aval.shape)
    dtype = _index_dtype(parts)
    return [
        _from_end(_as_index(p, dtype), n, ok)
        for p, n, ok in zip(parts, aval.shape, allowed, strict=True)
    ]


def _wide_enough(parts: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """Indices of 8 and 16 bits as int32, if an axis has more elements than they count: from its end
    they would not be counted rightly."""
    dtype = _index_dtype(parts)
    if not dtypes.is_integer(dtype) or dtypes.itemsize_bits(dtype) > 16:
        return list(parts)
    if all(type(n) is int and n <= dtypes.iinfo(dtype).max for n in shape):
        return list(parts)
    return [p if type(p) is int else convert_element_type(p, np.dtype("int32")) for p in parts]


def _brought_in(p: int, n: Any, allowed: bool) -> int:
    """A number of Python's as an index: one that is too large for an operand wraps around, as if it
    were an array's.

    Raises OverflowError beyond 64 bits, ValueError for a negative one where none is allowed.
    """
    if p < 0 and not allowed:
        raise ValueError(
            f"Index {p} is out of bounds for dimension {n} if allow_negative_indices=False"
        )
    if is_valid_value(p):
        return p
    counted = p + n if p < 0 and allowed and type(n) is int else p
    return int(np.asarray(counted).astype(dtypes.default_int()))


def _index_dtype(parts: Sequence[Any]) -> Any:
    """The dtype of Python integers among the starts: that of the others."""
    for p in parts:
        if not isinstance(p, int):
            return typeof(p).dtype
    return dtypes.default_int()


def _as_index(p: Any, dtype: Any) -> Any:
    if type(p) is int and dtypes.is_integer(dtype):
        return dtype.type(p)
    if isinstance(p, np.ndarray) and p.ndim == 0:
        return p[()]
    return p


def _from_end(p: Any, n: Any, allowed: bool) -> Any:
    d = typeof(p).dtype
    if not allowed and isinstance(p, np.generic) and p < 0:  # type: ignore[operator]
        raise ValueError(
            f"Index {p} is out of bounds for dimension {n} if allow_negative_indices=False"
        )
    if not allowed or not dtypes.is_signed(d):
        return p
    if isinstance(p, np.generic) and type(n) is int:
        return type(p)(int(p) + n) if p < 0 else p  # type: ignore[operator]
    size = d.type(n) if type(n) is int else n
    negative = lt(p, const(p, 0))
    return select_n(negative, p, add(convert_element_type(p, d), size))


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The window of `slice_sizes` at a start given by values. A start too near the end is moved so
    that the window fits.

    `start_indices`: an integer scalar for each axis; `slice_sizes`: Python ints. Raises TypeError
    for sizes larger than the array, ValueError for another number of indices.

    >>> lax.dynamic_slice(jnp.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    operand = as_array(operand)
    starts = _starts("dynamic_slice", operand, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=canonical_shape(slice_sizes))


def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """`operand` with `update` in the window at a start given by values. A start too near the end is
    moved so that the window fits.

    `update`: of the rank and dtype of `operand`, no larger along any axis: TypeError otherwise.
    `start_indices`: an integer scalar for each axis.

    >>> lax.dynamic_update_slice(jnp.zeros(4), jnp.array([1., 2.]), (3,))
    Array([0., 0., 1., 2.], dtype=float32)
    """
    operand = as_array(operand)
    starts = _starts("dynamic_update_slice", operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_slice` along one axis.

    `start_index`: an integer scalar; `slice_size`: a Python int. A start too near the end is moved.
    Raises TypeError for a slice larger than the axis.

    >>> lax.dynamic_slice_in_dim(jnp.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    operand = as_array(operand)
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    starts: list[Any] = [0] * len(shape)
    starts[axis] = start_index
    sizes = (*shape[:axis], slice_size, *shape[axis + 1 :])
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """The element (a slice of one) of `operand` at a dynamic index along one axis.

    `index`: an integer scalar, moved inside the array if it is out of bounds; the axis stays with
    size 1 if `keepdims`.

    >>> lax.dynamic_index_in_dim(jnp.array([10, 20, 30]), 1, keepdims=False)
    Array(20, dtype=int32)
    """
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return out if keepdims else squeeze(out, (canonical_axis(axis, typeof(operand).ndim),))


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`dynamic_update_slice` along one axis.

    `start_index`: an integer scalar; `update` has the rank and dtype of `operand`: TypeError
    otherwise.

    >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.array([1., 2.]), 1, 0)
    Array([0., 1., 2., 0.], dtype=float32)
    """
    operand = as_array(operand)
    ndim = typeof(operand).ndim
    starts: list[Any] = [0] * ndim
    starts[canonical_axis(axis, ndim)] = start_index
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """`operand` with `update` at a dynamic index along one axis; `update` may lack that axis.

    `index`: an integer scalar, moved inside the array if it is out of bounds. Raises TypeError for
    dtypes or shapes that do not fit.

    >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 7., 1, 0)
    Array([0., 7., 0.], dtype=float32)
    """
    operand = as_array(operand)
    ndim = typeof(operand).ndim
    axis = canonical_axis(axis, ndim)
    if typeof(update).ndim != ndim:
        if typeof(update).ndim + 1 != ndim:
            raise TypeError(
                f"update must have the rank of the operand or one less; got {typeof(update).shape} "
                f"for {typeof(operand).shape}"
            )
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Any:
    """Elements of `src` at points: `idxs` has one vector of indices per axis of `axes`; indices
    wrap around.

    `idxs`: integer arrays of one shape (n,), one for each axis; the result is (n, ...).

    >>> x = jnp.arange(6).reshape(2, 3)
    >>> lax.index_take(x, (jnp.array([0, 1]), jnp.array([2, 0])), (0, 1)).ravel()
    Array([2, 3], dtype=int32)
    """
    shape = typeof(src).shape
    if len(idxs) != len(axes):
        raise ValueError(f"index_take: {len(idxs)} vectors of indices for {len(axes)} axes")
    axes = tuple(canonical_axis(a, len(shape)) for a in axes)
    columns = [expand_dims(_wrapped(i, shape[a]), (1,)) for i, a in zip(idxs, axes, strict=True)]
    indices = concatenate(columns, 1)
    sizes = tuple(1 if d in axes else n for d, n in enumerate(shape))
    offset = tuple(range(1, len(shape) - len(axes) + 1))
    numbers = GatherDimensionNumbers(offset, tuple(sorted(axes)), tuple(axes))
    return gather(src, indices, numbers, sizes)


def _wrapped(i: Any, n: int) -> Any:
    """Indices modulo a size, in 0 ... n-1."""
    i = as_array(i)
    d = typeof(i).dtype
    size = d.type(n)
    quotient = div(i, size)
    r = sub(i, mul(quotient, size))
    return select(lt(r, d.type(0)), add(r, size), r) if dtypes.is_signed(d) else r


__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
    "index_take",
]
