"""Cutting, joining and padding arrays, and making constant ones. The movement of axes is in
`layout`, whose names are here too.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, is_valid_value, typeof
from ..core.build import is_staged
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from .builders import batch_size, full_batch
from .common import (
    as_int,
    as_sequence,
    as_size,
    axis_error,
    canonical_axis,
    canonical_shape,
    canonical_size,
    check_nonnegative,
    check_same_dtypes,
    is_symbolic,
    laid_out,
    layers,
    requested_dtype,
    size_of,
    zero_of,
)  # fmt: skip
from .dims import dim_as_value_p
from .elementwise import convert_element_type, convert_weak, select, sub
from .layout import (
    as_varying,
    broadcast,
    broadcast_in_dim,
    broadcast_in_dim_p,
    broadcast_like,
    broadcast_shapes,
    broadcast_to,
    broadcast_to_rank,
    broadcasted_iota,
    expand_dims,
    full_as,
    full_of,
    iota,
    iota_p,
    is_python_scalar,
    linear_jvp,
    move_batch_front,
    reduce_sum,
    reduce_sum_p,
    reduced_aval,
    reduction_batch,
    reshape,
    reshape_p,
    rev,
    rev_p,
    scalar_constant,
    shifted_axes,
    squeeze,
    squeeze_p,
    transpose,
    transpose_p,
)  # fmt: skip

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_like", "broadcast_shapes",
    "broadcast_to", "broadcast_to_rank", "broadcasted_iota", "collapse", "concatenate",
    "concatenate_p", "dtype", "empty", "expand_dims", "full", "full_as", "full_like", "full_of",
    "index_in_dim", "iota", "iota_p", "move_batch_front", "pad", "pad_p", "reduce_sum",
    "reduce_sum_p", "reduced_aval", "reduction_batch", "reshape", "reshape_p", "rev", "rev_p",
    "shape_as_value", "shifted_axes", "slice", "slice_in_dim", "slice_p", "split", "split_p",
    "squeeze", "squeeze_p", "stack", "stack_p", "tile", "tile_p", "transpose", "transpose_p",
    "unstack", "unstack_p",
]  # fmt: skip


# --- slice and pad are adjoint ---
def _stride_size(n: Any, stride: int) -> Any:
    return n if stride == 1 else -(-n // stride)


def _slice_aval(
    operand: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> ShapedArray:
    shape = operand.shape
    for what, given in (("start_indices", start_indices), ("limit_indices", limit_indices)):
        if len(given) != len(shape):
            raise TypeError(
                f"slice {what} must have length equal to the number of dimensions of the operand, "
                f"got indices {tuple(given)} for operand shape {shape}."
            )
    check_nonnegative("slice", "start_indices", start_indices)
    for n, start, limit in zip(shape, start_indices, limit_indices):
        if not limit <= n:
            raise TypeError(
                "slice limit_indices must be less than or equal to operand shape, "
                f"got limit_indices {tuple(limit_indices)} for operand shape {shape}."
            )
        if not start <= limit:
            raise TypeError(
                "slice limit_indices must be greater than or equal to start_indices, "
                f"got start_indices {tuple(start_indices)} and limit_indices "
                f"{tuple(limit_indices)}."
            )
    sizes = [limit - start for start, limit in zip(start_indices, limit_indices)]
    if strides is not None:
        if len(strides) != len(shape):
            raise TypeError(
                "slice strides must have length equal to the number of dimensions of the operand, "
                f"got strides {tuple(strides)} for operand shape {shape}."
            )
        if not all(s > 0 for s in strides):
            raise TypeError(f"slice strides must be positive, got {tuple(strides)}")
        sizes = [_stride_size(n, s) for n, s in zip(sizes, strides)]
    return ShapedArray(tuple(sizes), operand.dtype, operand.weak_type)


def _slice_transpose(
    ct: Any, operand: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(operand.aval)]
    shape = operand.aval.shape
    if strides is None or all(s == 1 for s in strides):
        config = tuple((lo, n - hi, 0) for lo, hi, n in zip(start_indices, limit_indices, shape))
    else:
        # The last element taken is at start + stride * (size - 1); what is after it is padding.
        sizes = typeof(ct).shape
        config = tuple(
            (lo, n - (lo if m == 0 else lo + s * (m - 1) + 1), s - 1)
            for lo, n, m, s in zip(start_indices, shape, sizes, strides)
        )
    return [pad(ct, _zero_scalar(ct), config)]


def _zero_scalar(like: Any) -> Any:
    return full_of(typeof(like).update(shape=(), weak_type=False), 0)


def _slice_batch(
    args: Any, dims: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Any:
    (x,), (d,) = args, dims
    n = typeof(x).shape[d]
    starts, limits = _insert(start_indices, d, 0), _insert(limit_indices, d, n)
    steps = None if strides is None else _insert(strides, d, 1)
    return slice_p.bind(x, start_indices=starts, limit_indices=limits, strides=steps), d


def _insert(values: Any, at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at:])


slice_p: Primitive = Primitive(
    "slice",
    abstract_eval=_slice_aval,
    jvp=linear_jvp(lambda: slice_p),
    transpose=_slice_transpose,
    batch=_slice_batch,
)
slice_p.remember_types()


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """`operand[start:limit:stride]` on each axis, with constant bounds that are inside the array.
    Raises TypeError otherwise.

    >>> lax.slice(jnp.arange(6.), (1,), (6,), (2,))
    Array([1., 3., 5.], dtype=float32)
    """
    return slice_p.bind(
        operand,
        start_indices=tuple(map(canonical_size, start_indices)),
        limit_indices=tuple(map(canonical_size, limit_indices)),
        strides=None if strides is None else tuple(as_size(s, "a stride") for s in strides),
    )


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """`slice` along one axis; None is the end of the array, negative bounds count from it.

    Bounds and `stride` are Python ints. As `operand[..., start:limit:stride, ...]`.

    >>> lax.slice_in_dim(jnp.arange(6), 1, -1, 2)
    Array([1, 3], dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    n = shape[axis]
    start = 0 if start_index is None else canonical_size(start_index)
    limit = n if limit_index is None else canonical_size(limit_index)
    if type(start) is int and start < 0:
        start = start + n
    if type(limit) is int and limit < 0:
        limit = limit + n
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, as_size(stride, "stride")
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Element `index` along one axis, which stays (with size 1) if `keepdims`. Raises IndexError
    out of bounds.

    `index`: a Python int, from the end if negative.

    >>> lax.index_in_dim(jnp.array([10, 20, 30]), -1, keepdims=False)
    Array(30, dtype=int32)
    """
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape))
    index, n = as_size(index, "index"), shape[axis]
    if type(n) is int and type(index) is int and not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
    at = index + n if index < 0 else index
    out = slice_in_dim(operand, at, at + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


def _padded_size(n: Any, low: int, high: int, interior: int) -> Any:
    between = 0 if not interior else interior * (n - 1 if is_symbolic(n) or n > 0 else 0)
    return low + high + n + between


def _pad_aval(operand: Any, padding_value: Any, *, padding_config: Any) -> ShapedArray:
    if len(padding_config) != operand.ndim:
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, "
            f"got padding_config {padding_config} for operand shape {operand.shape}"
        )
    if operand.dtype != padding_value.dtype:
        raise TypeError(
            f"pad operand and padding_value must be same dtype: got {operand.dtype} and "
            f"{padding_value.dtype}."
        )
    if padding_value.shape:
        raise ValueError(
            f"padding_value must be a scalar; got np.shape(padding_value)={padding_value.shape}"
        )
    if any(i < 0 for _, _, i in padding_config):
        raise ValueError(
            "interior padding in padding_config must be nonnegative, got padding_config "
            f"{padding_config}"
        )
    shape = tuple(_padded_size(n, *c) for n, c in zip(operand.shape, padding_config))
    if any(type(n) is int and n < 0 for n in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, "
            f"for padding_config {padding_config} and operand shape {operand.shape}"
        )
    return ShapedArray(shape, operand.dtype, operand.weak_type and padding_value.weak_type)


def _pad_jvp(primals: Any, tangents: Any, *, padding_config: Any) -> Any:
    out = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    x, v = (instantiate_zeros(t) for t in tangents)
    return out, pad_p.bind(x, v, padding_config=padding_config)


def _pad_transpose(ct: Any, operand: Any, value: Any, *, padding_config: Any) -> list[Any]:
    linear = [type(a) is UndefinedPrimal for a in (operand, value)]
    if type(ct) is Zero:
        return [Zero(a.aval) if lin else None for a, lin in zip((operand, value), linear)]
    undone = None
    if linear[0] or linear[1]:
        cut = tuple((-lo, -hi, 0) for lo, hi, _ in padding_config)
        if any(lo or hi for lo, hi, _ in padding_config):
            undone = pad(ct, _zero_scalar(ct), cut)
        else:
            undone = ct
        if any(i for _, _, i in padding_config):
            shape = typeof(undone).shape
            undone = slice(
                undone, (0,) * len(shape), shape, tuple(i + 1 for _, _, i in padding_config)
            )
    axes = tuple(range(len(padding_config)))
    cv = sub(reduce_sum(ct, axes), reduce_sum(undone, axes)) if linear[1] else None
    return [undone if linear[0] else None, cv]


def _pad_batch(args: Any, dims: Any, *, padding_config: Any) -> Any:
    (x, v), (dx, dv) = args, dims
    if dv is None:
        return pad_p.bind(x, v, padding_config=_insert(padding_config, dx, (0, 0, 0))), dx
    # A padding value per element of the batch: pad with zeros, and select by the padding of a mask.
    if dx is None:
        x, dx = full_batch(x, None, batch_size(args, dims)), 0
    config = _insert(padding_config, dx, (0, 0, 0))
    padded = pad(x, _zero_scalar(x), config)
    mask = pad(full_of(typeof(x).update(dtype=_BOOL, weak_type=False), True), _false(), config)
    values = broadcast_in_dim(v, typeof(padded).shape, (dx,))
    return select(mask, padded, values), dx


_BOOL = dtypes.dtype("bool")


def _false() -> Any:
    return scalar_constant(False, _BOOL)


pad_p: Primitive = Primitive(
    "pad", abstract_eval=_pad_aval, jvp=_pad_jvp, transpose=_pad_transpose, batch=_pad_batch
)
pad_p.remember_types()


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Pads each axis by (low, high, interior) elements; negative low and high cut instead.

    >>> lax.pad(jnp.array([1., 2.]), 0., [(1, 0, 1)])
    Array([0., 1., 0., 2.], dtype=float32)
    """
    if not all(isinstance(c, Sized) and len(c) == 3 for c in padding_config):
        raise ValueError(
            "padding_config must have (low, high, interior) for each axis of operand, got "
            f"padding_config {padding_config} for operand shape {np.shape(operand)}"
        )
    config = tuple(tuple(canonical_size(n) for n in c) for c in padding_config)
    return pad_p.bind(operand, padding_value, padding_config=config)


# --- concatenate and split, stack and unstack are adjoint ---
def _concatenate_aval(*operands: Any, dimension: int) -> ShapedArray:
    if not operands:
        raise TypeError("concatenate expects at least one operand, got 0.")
    shapes = ", ".join(str(o.shape) for o in operands)
    if len({o.ndim for o in operands}) != 1:
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}."
        )
    first = operands[0]
    if not 0 <= dimension < first.ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}."
        )
    rest = [o.shape[:dimension] + o.shape[dimension + 1 :] for o in operands]
    if any(r != rest[0] for r in rest[1:]):
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            "being concatenated: "
            f"concatenating along dimension {dimension} for shapes {shapes}. "
            "Fix: choose another axis, or make the other sizes equal (slice or pad)."
        )
    check_same_dtypes("concatenate", operands)
    total: Any = sum(o.shape[dimension] for o in operands)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return ShapedArray(shape, first.dtype, all(o.weak_type for o in operands))


def _joined_jvp(get: Any) -> Any:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = get().bind(*primals, **params)
        return out, get().bind(*map(instantiate_zeros, tangents), **params)

    return jvp


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list[Any]:
    linear = [type(o) is UndefinedPrimal for o in operands]
    if type(ct) is Zero:
        return [Zero(o.aval) if lin else None for o, lin in zip(operands, linear)]
    sizes = tuple(
        (o.aval if lin else typeof(o)).shape[dimension] for o, lin in zip(operands, linear)
    )
    if any(map(is_symbolic, sizes)):
        parts, start = [], 0
        for n in sizes:
            parts.append(slice_in_dim(ct, start, start + n, 1, dimension))
            start = start + n
    else:
        parts = split_p.bind(ct, sizes=sizes, axis=dimension)
    return [part if lin else None for part, lin in zip(parts, linear)]


def _joined_batch(get: Any, name: str) -> Any:
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        size = batch_size(args, dims)
        args = [full_batch(x, d, size) for x, d in zip(args, dims)]
        return get().bind(*args, **{name: params[name] + 1}), 0

    return batch


concatenate_p: Primitive = Primitive(
    "concatenate",
    abstract_eval=_concatenate_aval,
    jvp=_joined_jvp(lambda: concatenate_p),
    transpose=_concatenate_transpose,
    batch=_joined_batch(lambda: concatenate_p, "dimension"),
)
concatenate_p.remember_types()


def concatenate(operands: Any, dimension: int) -> Any:
    """Joins arrays of one dtype along an axis; their other sizes must be equal. Raises TypeError
    otherwise.

    Raises ValueError if there are no operands. As `numpy.concatenate`, without promotion.

    >>> lax.concatenate([jnp.array([1, 2]), jnp.array([3])], 0)
    Array([1, 2, 3], dtype=int32)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if (
        len(operands) == 1
        and hasattr(operands[0], "aval")
        and 0 <= dimension < operands[0].aval.ndim
    ):
        return operands[0]
    dimension = as_int(dimension, "dimension")
    if len(operands) > _MANY and not is_staged():
        _concatenate_aval(*map(typeof, operands), dimension=dimension)  # what is wrong with all
        return _joined_in_groups(operands, dimension)
    return concatenate_p.bind(*operands, dimension=dimension)


# A program of thousands of operands is long to compile: where nobody reads it, more than so many
# are joined in groups, whose programs are alike.
_MANY, _GROUP = 128, 64


def _joined_in_groups(operands: list[Any], dimension: int) -> Any:
    while len(operands) > _MANY:
        groups = [operands[k : k + _GROUP] for k in range(0, len(operands), _GROUP)]
        operands = [concatenate_p.bind(*group, dimension=dimension) for group in groups]
    return concatenate_p.bind(*operands, dimension=dimension)


def _split_aval(operand: Any, *, sizes: Any, axis: int) -> list[ShapedArray]:
    shape = operand.shape
    if not 0 <= axis < len(shape):
        raise axis_error(axis, len(shape))
    if any(type(n) is int and n < 0 for n in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {list(sizes)}")
    total: Any = sum(sizes)
    if total is not shape[axis] and total != shape[axis]:
        raise ValueError(
            f"Sum of sizes {total} must be equal to dimension {axis} of the operand shape "
            f"{list(shape)}"
        )
    return [
        ShapedArray((*shape[:axis], n, *shape[axis + 1 :]), operand.dtype, operand.weak_type)
        for n in sizes
    ]


def _parted_jvp(get: Any) -> Any:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        return get().bind(*primals, **params), get().bind(*tangents, **params)

    return jvp


def _split_transpose(cts: Any, operand: Any, *, sizes: Any, axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(operand.aval)]
    return [concatenate([instantiate_zeros(ct) for ct in cts], axis)]


def _split_batch(args: Any, dims: Any, *, sizes: Any, axis: int) -> Any:
    (x,), (d,) = args, dims
    outs = split_p.bind(x, sizes=sizes, axis=axis + (axis >= d))
    return outs, [d] * len(outs)


split_p: Primitive = Primitive(
    "split",
    abstract_eval=_split_aval,
    jvp=_parted_jvp(lambda: split_p),
    transpose=_split_transpose,
    batch=_split_batch,
    multiple_results=True,
)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> Any:
    """Cuts an array along an axis into parts of these sizes, which must add up. Raises ValueError
    otherwise.

    As `numpy.split`, with sizes in the place of points.

    >>> lax.split(jnp.arange(5), (2, 3))
    [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    sizes = tuple(map(canonical_size, as_sequence(sizes, "sizes")))
    return split_p.bind(operand, sizes=sizes, axis=canonical_axis(axis, typeof(operand).ndim))


def _stack_aval(*operands: Any, axis: int) -> ShapedArray:
    shapes = ", ".join(str(o.shape) for o in operands)
    if len({o.ndim for o in operands}) != 1:
        raise ValueError(f"Cannot stack arrays with different numbers of dimensions: got {shapes}.")
    first = operands[0]
    if any(o.shape != first.shape for o in operands[1:]):
        raise ValueError(f"Cannot stack arrays with different shapes: got {shapes}.")
    check_same_dtypes("stack", operands)
    if not 0 <= axis <= first.ndim:
        raise axis_error(axis, first.ndim + 1)
    shape = _insert(first.shape, axis, len(operands))
    return ShapedArray(shape, first.dtype, all(o.weak_type for o in operands))


def _stack_transpose(ct: Any, *operands: Any, axis: int) -> list[Any]:
    linear = [type(o) is UndefinedPrimal for o in operands]
    if type(ct) is Zero:
        return [Zero(o.aval) if lin else None for o, lin in zip(operands, linear)]
    return [part if lin else None for part, lin in zip(unstack_p.bind(ct, axis=axis), linear)]


stack_p: Primitive = Primitive(
    "stack",
    abstract_eval=_stack_aval,
    jvp=_joined_jvp(lambda: stack_p),
    transpose=_stack_transpose,
    batch=_joined_batch(lambda: stack_p, "axis"),
)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Joins arrays of one shape and dtype along a new axis.

    Raises ValueError for unequal shapes, IndexError if there is none. As `numpy.stack`.

    >>> lax.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    operands = list(operands)
    if not operands:
        raise IndexError("lax.stack needs at least one array; got an empty sequence for `operands`")
    axis = canonical_axis(axis, typeof(operands[0]).ndim + 1)
    if len(operands) > _MANY and not is_staged():
        _stack_aval(*map(typeof, operands), axis=axis)  # what is wrong with all of them
        groups = [operands[k : k + _GROUP] for k in range(0, len(operands), _GROUP)]
        return _joined_in_groups([stack_p.bind(*group, axis=axis) for group in groups], axis)
    return stack_p.bind(*operands, axis=axis)


def _unstack_aval(operand: Any, *, axis: int) -> list[ShapedArray]:
    if not 0 <= axis < operand.ndim:
        raise axis_error(axis, operand.ndim)
    shape = operand.shape[:axis] + operand.shape[axis + 1 :]
    return [
        ShapedArray(shape, operand.dtype, operand.weak_type) for _ in range(operand.shape[axis])
    ]


def _unstack_transpose(cts: Any, operand: Any, *, axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(operand.aval)]
    return [stack_p.bind(*map(instantiate_zeros, cts), axis=axis)]


def _unstack_batch(args: Any, dims: Any, *, axis: int) -> Any:
    (x,), (d,) = args, dims
    outs = unstack_p.bind(x, axis=axis + (axis >= d))
    return outs, [d - (axis < d)] * len(outs)


unstack_p: Primitive = Primitive(
    "unstack",
    abstract_eval=_unstack_aval,
    jvp=_parted_jvp(lambda: unstack_p),
    transpose=_unstack_transpose,
    batch=_unstack_batch,
    multiple_results=True,
)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The elements of an array along an axis, which is gone from them.

    Raises ValueError for an axis out of bounds. As `numpy.unstack`.

    >>> lax.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    return tuple(unstack_p.bind(x, axis=canonical_axis(axis, typeof(x).ndim)))


# --- tile ---
def _tile_aval(operand: Any, *, reps: Any) -> ShapedArray:
    if len(reps) != operand.ndim:
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and "
            f"x.ndim={operand.ndim}."
        )
    check_nonnegative("tile", "reps", reps)
    return ShapedArray(
        tuple(n * r for n, r in zip(operand.shape, reps)), operand.dtype, operand.weak_type
    )


def _tile_transpose(ct: Any, operand: Any, *, reps: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(operand.aval)]
    shape = [m for pair in zip(reps, operand.aval.shape) for m in pair]
    return [reduce_sum(reshape(ct, shape), tuple(range(0, len(shape), 2)))]


tile_p: Primitive = Primitive(
    "tile",
    abstract_eval=_tile_aval,
    jvp=linear_jvp(lambda: tile_p),
    transpose=_tile_transpose,
    batch=lambda args, dims, *, reps: (
        tile_p.bind(args[0], reps=_insert(reps, dims[0], 1)),
        dims[0],
    ),
)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The array repeated `reps[k]` times along axis k.

    `reps`: an int for each axis: TypeError otherwise. As `numpy.tile`.

    >>> lax.tile(jnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int32)
    """
    return tile_p.bind(operand, reps=tuple(map(canonical_size, as_sequence(reps, "reps"))))


# --- constants ---
def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of one number. Without a dtype it has the type (and weakness) of the number.

    >>> lax.full((2,), 7.)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    shape = canonical_shape(shape)
    if sharding is not None:
        return _with_sharding(full(shape, fill_value, dtype), sharding)
    fill_value = _in_reach(fill_value, dtype)
    aval = typeof(fill_value)
    if aval.shape:
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}."
        )
    if dtype is None:
        return broadcast(fill_value, shape)
    want = requested_dtype(dtype, "full")
    if dtypes.is_extended(want) and aval.dtype != want:
        return key_filler[0](shape, fill_value, want)
    return broadcast(_fill(fill_value, want, False), shape)


def _with_sharding(x: Any, sharding: Any) -> Any:
    """A new array, placed as asked; it is not weakly typed then."""
    return layers["sharding"](convert_weak(x, typeof(x).dtype, False), sharding)


def _no_keys(shape: Any, value: Any, dtype: Any) -> Any:
    raise TypeError(f"internal error in pullback: no arrays of {dtype.name} are known yet")


# Keys whose words are all one number: `(shape, number, dtype) -> array`; primitives/rng sets it.
key_filler: list[Any] = [_no_keys]


def _in_reach(value: Any, dtype: Any) -> Any:
    """A number that arrays are filled with: Python's integers that are no operands, for they are
    too large, wrap around in the dtype of the array (None: in the default one)."""
    if not isinstance(value, int) or is_valid_value(value):
        return value
    want = dtypes.default_int() if dtype is None else requested_dtype(dtype, "full")
    if type(value) is not int:  # numbers of derived classes must fit: OverflowError
        return np.array(value, want)[()]
    made = np.asarray(value).astype(want)[()]  # OverflowError beyond 64 bits
    return int(made) if dtype is None else made


def _fill(value: Any, dtype: Any, weak: bool) -> Any:
    if is_python_scalar(value) and not dtypes.is_extended(dtype):
        if type(value) is complex and not (dtypes.is_complex(dtype) or dtypes.is_bool(dtype)):
            raise TypeError(
                f"the complex number {value} is no element of {dtype.name} arrays. Fix: take its "
                "real part, or give a complex dtype."
            )
        if weak and typeof(value).weak_type and typeof(value).dtype == dtype:
            return value
        if not weak:
            return scalar_constant(value, dtype)
    return convert_weak(value, dtype, weak)


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array of one number with the shape and dtype of `x`, unless others are given.

    As `numpy.full_like`.

    >>> lax.full_like(jnp.zeros(2, 'int32'), 7)
    Array([7, 7], dtype=int32)
    """
    if sharding is not None:
        return _with_sharding(full_like(x, fill_value, dtype, shape), sharding)
    x = 0 if type(x) is int else x  # of any size
    says = hasattr(x, "aval") or getattr(x, "manual_axis_type", None) is not None
    known = typeof(x) if says or not hasattr(x, "shape") else None
    x_shape = x.shape if known is None else known.shape
    x_dtype = x.dtype if known is None else known.dtype
    weak = dtype is None and (dtypes.is_weakly_typed(x) if known is None else known.weak_type)
    fill_value = _in_reach(fill_value, x_dtype if dtype is None else dtype)
    value = typeof(fill_value)
    if value.shape:
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {value.shape}."
        )
    if dtype is None:  # nobody asked for the width of an array of NumPy's
        want = x_dtype if dtypes.is_extended(x_dtype) else dtypes.canonicalize_dtype(x_dtype)
    else:
        want = requested_dtype(dtype, "full_like")
    to_shape = x_shape if shape is None else canonical_shape(shape)
    if dtypes.is_extended(want) and value.dtype != want:
        return key_filler[0](to_shape, fill_value, want)
    lies = known._sharding if known is not None and to_shape == x_shape else None
    if lies is not None:  # as `x` does
        return broadcast_in_dim_p.bind(
            _fill(fill_value, want, weak), shape=to_shape, broadcast_dimensions=(), sharding=lies
        )
    made = broadcast(_fill(fill_value, want, weak), to_shape)
    return made if known is None else as_varying(made, known)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of unspecified contents (zeros).

    As `numpy.empty`; do not rely on the contents.

    >>> lax.empty((2, 3), 'float32').shape
    (2, 3)
    """
    out = full(shape, 0, dtype)
    return out if out_sharding is None else laid_out(out, "empty", out_sharding)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Axes start..stop merged into one.

    >>> lax.collapse(jnp.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = typeof(operand).shape
    start, stop, _ = _py_slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise ValueError(
            "Invalid dimension range passed to collapse: "
            f"{shape}[{start_dimension}:{stop_dimension}]"
        )
    return reshape(operand, (*shape[:start], size_of(shape[start:stop]), *shape[stop:]))


_py_slice = builtins.slice


def shape_as_value(shape: Any) -> Any:
    """A shape as a one-dimensional integer array: int32, or wider if x64 is on and a size is a
    symbol or does not fit. NumPy's, if all sizes are known.

    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    shape = canonical_shape(shape)
    fits = all(type(n) is int and n < 2**31 for n in shape)
    dtype = np.dtype("int32") if fits else dtypes.default_int()
    if not shape:
        return full((0,), 0, dtype)
    if all(type(n) is int for n in shape):
        return np.array(shape, dtype)
    sizes = [scalar_constant(n, dtype) if type(n) is int else _as_value(n, dtype) for n in shape]
    return stack(sizes)


def _as_value(size: Any, dtype: Any) -> Any:
    return convert_element_type(dim_as_value_p.bind(dim=size), dtype)


def dtype(x: Any) -> Any:
    """The dtype that arrays made of `x` have; of a dtype or scalar type, the one it stands for.

    >>> lax.dtype(1.0), lax.dtype(np.float64)
    (dtype('float32'), dtype('float32'))

    Raises TypeError if `x` has no dtype, ValueError for None.
    """
    if x is None:
        raise ValueError("Invalid argument to dtype: None. Fix: name a dtype, such as jnp.float32.")
    if isinstance(x, (type, str, np.dtype, dtypes.ExtendedDType)):
        return dtypes.canonicalize_dtype(x, allow_extended_dtype=True)
    if not is_valid_value(x):
        raise TypeError(f"Cannot determine dtype of {x}. Fix: pass an array, a number or a dtype.")
    return typeof(x).dtype
