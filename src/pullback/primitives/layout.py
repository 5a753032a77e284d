"""Where elements go: broadcast_in_dim and its adjoint reduce_sum, reshape, transpose, squeeze, rev,
iota, and constants.

The base of the families: the rules of all others broadcast, transpose and sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..core import symbolic
from ..core.avals import ShapedArray, Space, typeof
from ..core.build import staged
from ..core.explicit import lay_anew, match_varying, parts_of, said, said_by
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..core.trace import checked_axes
from ..errors import AxisError, incompatible_shapes
from .common import (
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    as_array,
    as_sequence,
    asked_layout,
    canonical_axis,
    canonical_shape,
    check_dtype,
    check_nonnegative,
    const,
    int_tuple,
    is_symbolic,
    requested_dtype,
    size_of,
)  # fmt: skip


def linear_jvp(get: Any) -> Any:
    """The jvp of a linear operation of one operand: itself. `get` returns the primitive."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        p = get()
        out = p.bind(*primals, **params)
        return out, p.bind(*tangents, **params)

    return jvp


def move_batch_front(x: Any, dim: int) -> Any:
    """`x` with its batch axis in front."""
    if dim == 0:
        return x
    ndim = typeof(x).ndim
    return transpose(x, (dim, *(k for k in range(ndim) if k != dim)))


def layout_of(aval: Any, *like: Any) -> Any:
    """The parameter that makes a result lie as this type says, if it or other operands' types say
    anything."""
    if not said[0]:
        return None
    found = said_by([aval, *map(typeof, like)])
    return None if found is None else found.update(spec=type(found.spec)(*parts_of(aval)))


def laid_as(aval: Any, x: Any) -> Any:
    """`x`, of the shape of a type: laid out anew if it lies over other mesh axes than that says."""
    if not said[0] or parts_of(aval) == parts_of(typeof(x)):
        return x
    return lay_anew[0](x, layout_of(aval, x))


def with_axis(sharding: Any, x: Any, dim: int) -> Any:
    """A layout with an axis of a batch in front, which lies as axis `dim` of the operand does."""
    if sharding is None:
        return None
    part = parts_of(typeof(x))[dim]
    return sharding.update(spec=type(sharding.spec)(part, *sharding.spec))


# --- broadcast_in_dim and reduce_sum ---
def _broadcast_in_dim_aval(
    operand: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> ShapedArray:
    check_nonnegative("broadcast_in_dim", "shape", shape)
    ndim = operand.ndim
    if len(shape) < ndim:
        raise TypeError(
            "broadcast_in_dim target broadcast shape must have equal or higher rank to the "
            "operand shape; "
            f"got operand ndim {ndim} and target broadcast ndim {len(shape)}."
        )
    if len(broadcast_dimensions) != ndim:
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; "
            f"got broadcast_dimensions {broadcast_dimensions} for operand ndim {ndim}."
        )
    if any(not 0 <= d < len(shape) for d in broadcast_dimensions):
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, "
            f"got {broadcast_dimensions} for operand ndim {ndim} and shape {shape}."
        )
    if any(
        n is not shape[d] and n != shape[d] and n != 1
        for n, d in zip(operand.shape, broadcast_dimensions)
    ):
        raise TypeError(
            "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their "
            "corresponding dimensions in the "
            f"target broadcast shape; got operand of shape {operand.shape}, target broadcast "
            f"shape {shape}, "
            f"broadcast_dimensions {broadcast_dimensions} "
        )
    if len(set(broadcast_dimensions)) != ndim:
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must not contain duplicates, got "
            f"broadcast_dimensions {broadcast_dimensions}"
        )
    return ShapedArray(shape, operand.dtype, operand.weak_type, memory_space=operand.memory_space)


def _broadcast_in_dim_transpose(
    ct: Any, operand: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(operand.aval)]
    small = operand.aval.shape
    unit = tuple(k for k, d in enumerate(broadcast_dimensions) if small[k] == 1 and shape[d] != 1)
    kept = [d for k, d in enumerate(broadcast_dimensions) if k not in unit]
    summed = tuple(d for d in range(len(shape)) if d not in kept)
    out = reduce_sum(ct, summed) if summed else ct
    order = sorted(kept)
    if order != kept:  # the operand's axes went elsewhere
        out = transpose(out, [order.index(d) for d in kept])
    return [expand_dims(out, unit)]


def _broadcast_in_dim_batch(
    args: Any, dims: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> Any:
    x = move_batch_front(args[0], dims[0])
    new = (typeof(x).shape[0], *shape)
    moved = (0, *(d + 1 for d in broadcast_dimensions))
    lies = with_axis(sharding, x, 0)
    return broadcast_in_dim_p.bind(x, shape=new, broadcast_dimensions=moved, sharding=lies), 0


broadcast_in_dim_p: Primitive = Primitive(
    "broadcast_in_dim",
    abstract_eval=_broadcast_in_dim_aval,
    jvp=linear_jvp(lambda: broadcast_in_dim_p),
    transpose=_broadcast_in_dim_transpose,
    batch=_broadcast_in_dim_batch,
)
broadcast_in_dim_p.remember_types()


def reduced_aval(name: str, operand: Any, axes: Sequence[int]) -> tuple[Any, ...]:
    """The shape that is left after a reduction over `axes`, which are checked."""
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axes' of reduction: {tuple(axes)}")
    if not all(0 <= a < operand.ndim for a in axes):
        raise AxisError(
            f"reduction axes {tuple(axes)} contains out-of-bounds indices for "
            f"{operand.str_short()}."
        )
    gone = frozenset(axes)
    return tuple(n for k, n in enumerate(operand.shape) if k not in gone)


def _reduce_sum_aval(operand: Any, *, axes: Any, out_sharding: Any) -> ShapedArray:
    shape = reduced_aval("reduce_sum", operand, axes)
    check_dtype("reduce_sum", operand.dtype, (NUMBER,))
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _reduce_sum_transpose(ct: Any, operand: Any, *, axes: Any, out_sharding: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(operand.aval)]
    if not axes:
        return [ct]
    shape = operand.aval.shape
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    lies = layout_of(operand.aval, ct)
    return [broadcast_in_dim_p.bind(ct, shape=shape, broadcast_dimensions=kept, sharding=lies)]


def shifted_axes(axes: Sequence[int], dim: int) -> tuple[tuple[int, ...], int]:
    """The axes of a reduction on a batch, and where the batch axis is afterwards."""
    return tuple(a + (a >= dim) for a in axes), dim - sum(a < dim for a in axes)


def reduction_batch(get: Any) -> Any:
    """The batch rule of a reduction with the parameter `axes`."""

    def batch(args: Any, dims: Any, *, axes: Any, **params: Any) -> Any:
        moved, out = shifted_axes(axes, dims[0])
        return get().bind(args[0], axes=moved, **params), out

    return batch


reduce_sum_p: Primitive = Primitive(
    "reduce_sum",
    abstract_eval=_reduce_sum_aval,
    jvp=linear_jvp(lambda: reduce_sum_p),
    transpose=_reduce_sum_transpose,
    batch=reduction_batch(lambda: reduce_sum_p),
)
reduce_sum_p.remember_types()


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The sum over `axes` (non-negative, no duplicates).

    >>> lax.reduce_sum(jnp.ones((2, 3)), (0,))
    Array([2., 2., 2.], dtype=float32)
    """
    axes = int_tuple(axes)
    lies = out_sharding
    if lies is not None:
        left = [n for k, n in enumerate(typeof(operand).shape) if k not in axes]
        lies = asked_layout("reduce_sum", out_sharding, left, True)
    return reduce_sum_p.bind(operand, axes=axes, out_sharding=lies)


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """Broadcasts: axis k of the operand becomes axis `broadcast_dimensions[k]` of the result; sizes
    are equal or 1. The axes may come in any order.

    >>> lax.broadcast_in_dim(jnp.arange(3), (3, 2), (0,)).shape
    (3, 2)
    >>> lax.broadcast_in_dim(jnp.ones((2, 3)), (3, 4, 2), (2, 0)).shape
    (3, 4, 2)

    Raises TypeError if the shapes do not fit, and for an axis that is named twice.
    """
    aval = typeof(operand)
    shape = canonical_shape(shape)
    lies = asked_layout("broadcast_in_dim", out_sharding, shape)
    if (
        aval.ndim == len(shape)
        and lies is None
        and aval.shape == shape
        and _is_range(broadcast_dimensions, len(shape))
    ):
        return staged(as_array(operand))
    dims = int_tuple(broadcast_dimensions)
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims, sharding=lies)


def _is_range(dims: Sequence[int], n: int) -> bool:
    return len(dims) == n and all(k == d for k, d in enumerate(dims))


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """Adds leading axes of the given sizes.

    `operand`: an array; the result has the shape (*sizes, *operand.shape).

    >>> lax.broadcast(jnp.array([1, 2]), (3,))
    Array([[1, 2],
           [1, 2],
           [1, 2]], dtype=int32)
    """
    aval = typeof(operand)
    if not len(sizes) and out_sharding is None:
        return operand if hasattr(operand, "aval") else staged(as_array(operand))
    n = len(sizes)
    return broadcast_in_dim(
        operand,
        (*canonical_shape(sizes), *aval.shape),
        tuple(range(n, n + aval.ndim)),
        out_sharding=out_sharding,
    )


def broadcast_to(x: Any, shape: tuple[Any, ...]) -> Any:
    """`x` broadcast to `shape`, its axes aligned with the last ones."""
    aval = typeof(x)
    if aval.shape == shape:
        return x
    start = len(shape) - aval.ndim
    return broadcast_in_dim(x, shape, tuple(range(start, len(shape))))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Adds leading axes of size 1 up to `rank`; `x` itself if it has more axes than that.

    >>> lax.broadcast_to_rank(jnp.ones(3), 3).shape
    (1, 1, 3)
    """
    ndim = typeof(x).ndim
    if ndim >= rank:
        return x if hasattr(x, "aval") else staged(as_array(x))
    return expand_dims(x, tuple(range(rank - ndim)))


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape that all `shapes` broadcast to, NumPy style. Raises ValueError if there is none.

    As `numpy.broadcast_shapes`.

    >>> lax.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    if any(isinstance(s, int) for s in shapes):
        raise TypeError(f"broadcast_shapes: shapes are sequences of sizes, got {shapes}")
    shapes = tuple(canonical_shape(s) for s in shapes)
    if not shapes:
        return ()
    for s in shapes:
        if any(not is_symbolic(n) and n < 0 for n in s):
            raise TypeError(
                "Only non-negative indices are allowed when broadcasting static shapes, but got "
                f"shape {s}."
            )
    if len({*shapes}) == 1:
        return tuple(shapes[0])
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes)):
        big = [n for n in sizes if is_symbolic(n) or n != 1]
        if any(n is not big[0] and n != big[0] for n in big[1:]):
            raise incompatible_shapes(shapes)
        out.append(big[0] if big else 1)
    return tuple(out)


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """`arr` broadcast to the shape of `like_arr`.

    Sizes of `arr` that are 1 stretch, and axes are added in front. Raises ValueError if the shapes
    do not fit.

    >>> lax.broadcast_like(jnp.array([1, 2]), jnp.zeros((2, 2)))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    arr, shape = as_array(arr), tuple(typeof(like_arr).shape)
    own = typeof(arr).shape
    if len(own) > len(shape) or any(
        m != n and m != 1 for m, n in zip(reversed(own), reversed(shape))
    ):
        raise ValueError(f"an array of shape {own} cannot be broadcast to shape {shape}")
    return broadcast_to(arr, shape)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Adds axes of size 1, at these places of the result. Raises ValueError for duplicates.

    As `numpy.expand_dims`.

    >>> lax.expand_dims(jnp.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    if not len(as_sequence(dimensions, "dimensions")):
        return staged(as_array(array))
    shape = typeof(array).shape
    ndim = len(shape) + len(dimensions)
    places = [canonical_axis(d, ndim) for d in dimensions]
    if len(set(places)) != len(places):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    rest = iter(shape)
    new = tuple(1 if k in places else next(rest) for k in range(ndim))
    return broadcast_in_dim(array, new, tuple(k for k in range(ndim) if k not in places))


# --- squeeze ---
def _squeeze_aval(operand: Any, *, dimensions: Any) -> ShapedArray:
    _check_squeeze(operand.shape, dimensions)
    shape = tuple(n for k, n in enumerate(operand.shape) if k not in dimensions)
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def _check_squeeze(shape: Any, dimensions: Sequence[int]) -> None:
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"dimensions are not unique: {tuple(dimensions)}")
    if any(not 0 <= d < len(shape) for d in dimensions):
        raise ValueError(f"dimensions outside range [0, ndim): {tuple(dimensions)}")
    if any(is_symbolic(shape[d]) or shape[d] != 1 for d in dimensions):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, "
            f"got shape={shape} and dimensions={tuple(dimensions)}. "
            "Fix: squeeze axes of size 1 only; to take one element of an axis, index it."
        )


def _squeeze_batch(args: Any, dims: Any, *, dimensions: Any) -> Any:
    moved, out = shifted_axes(dimensions, dims[0])
    return squeeze_p.bind(args[0], dimensions=moved), out


def _unsqueezed(ct: Any, shape: Any, dimensions: Any) -> Any:
    kept = [d for d in range(len(shape)) if d not in dimensions]
    return broadcast_in_dim(ct, shape, kept)


squeeze_p: Primitive = Primitive(
    "squeeze",
    abstract_eval=_squeeze_aval,
    jvp=linear_jvp(lambda: squeeze_p),
    transpose=lambda ct, x, *, dimensions: [
        Zero(x.aval) if type(ct) is Zero else _unsqueezed(ct, x.aval.shape, dimensions)
    ],
    batch=_squeeze_batch,
)
squeeze_p.remember_types()


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Removes these axes, which must have size 1. Raises ValueError otherwise.

    As `numpy.squeeze`.

    >>> lax.squeeze(jnp.ones((1, 3, 1)), (0,)).shape
    (3, 1)
    """
    shape = typeof(array).shape
    dims = tuple(canonical_axis(d, len(shape)) for d in dimensions)
    if len(set(dims)) != len(dims):
        raise ValueError(f"dimensions are not unique: {tuple(dimensions)}")
    if not dims and hasattr(array, "aval"):
        return array
    return squeeze_p.bind(array, dimensions=dims)


# --- reshape ---
def _reshape_aval(operand: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> ShapedArray:
    if any(type(n) is int and n < 0 for n in new_sizes):
        raise TypeError(f"reshape new_sizes must all be positive, got {tuple(new_sizes)}.")
    if dimensions is not None and sorted(dimensions) != list(range(operand.ndim)):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, "
            f"got dimensions {dimensions} for shape {operand.shape}."
        )
    old, new = size_of(operand.shape), size_of(new_sizes)
    if type(old) is int and type(new) is int:
        same = old == new
    else:
        same = operand.shape == tuple(new_sizes) or bool(old == new)
    if not same:
        raise TypeError(
            f"cannot reshape array of shape {operand.shape} (size {old}) into shape "
            f"{tuple(new_sizes)} (size {new}). Fix: the sizes must have the product {old}; one "
            "may be -1 in jnp.reshape."
        )
    return ShapedArray(new_sizes, operand.dtype, operand.weak_type)


def _reshape_transpose(
    ct: Any, operand: Any, *, new_sizes: Any, dimensions: Any, sharding: Any
) -> list[Any]:
    shape = operand.aval.shape
    if type(ct) is Zero:
        return [Zero(operand.aval)]
    lies = layout_of(operand.aval, ct)
    if dimensions is None:
        if lies is not None:
            return [reshape_p.bind(ct, new_sizes=shape, dimensions=None, sharding=lies)]
        return [reshape(ct, shape)]
    return [transpose(reshape(ct, tuple(shape[d] for d in dimensions)), _inverse(dimensions))]


def _reshape_batch(args: Any, dims: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
    x = move_batch_front(args[0], dims[0])
    if dimensions is not None:
        dimensions = (0, *(d + 1 for d in dimensions))
    new, lies = (typeof(x).shape[0], *new_sizes), with_axis(sharding, x, 0)
    return reshape_p.bind(x, new_sizes=new, dimensions=dimensions, sharding=lies), 0


reshape_p: Primitive = Primitive(
    "reshape",
    abstract_eval=_reshape_aval,
    jvp=linear_jvp(lambda: reshape_p),
    transpose=_reshape_transpose,
    batch=_reshape_batch,
)
reshape_p.remember_types()


def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The elements in row-major order (after transposing to `dimensions`, if given) with a new
    shape of the same size.

    Raises TypeError if the sizes differ; -1 is not accepted (jnp.reshape takes it).

    As `numpy.reshape`.

    >>> lax.reshape(jnp.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    new = canonical_shape(new_sizes)
    aval = typeof(operand)
    lies = asked_layout("reshape", out_sharding, new, True)
    order = None if dimensions is None else int_tuple(dimensions)
    same_order = order is None or order == tuple(range(aval.ndim))
    if new and aval.shape == new and same_order and lies is None and hasattr(operand, "aval"):
        return operand
    return reshape_p.bind(  # a number too: JAX writes an equation for it
        operand, new_sizes=new, dimensions=None if same_order else order, sharding=lies
    )


def as_two_axes(x: Any, axis: int, n: int) -> Any:
    """Axis of size n * m as two, of sizes n and m."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :]))


# --- transpose ---
def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    out = [0] * len(permutation)
    for k, p in enumerate(permutation):
        out[p] = k
    return tuple(out)


def _transpose_aval(operand: Any, *, permutation: Any) -> ShapedArray:
    if sorted(permutation) != list(range(operand.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, "
            f"got permutation {permutation} for operand shape {operand.shape}. "
            f"Fix: name each of the axes 0 to {operand.ndim - 1} once."
        )
    return ShapedArray(
        tuple(operand.shape[p] for p in permutation), operand.dtype, operand.weak_type
    )


def _transpose_batch(args: Any, dims: Any, *, permutation: Any) -> Any:
    b = dims[0]
    return transpose_p.bind(args[0], permutation=(b, *(p + (p >= b) for p in permutation))), 0


transpose_p: Primitive = Primitive(
    "transpose",
    abstract_eval=_transpose_aval,
    jvp=linear_jvp(lambda: transpose_p),
    transpose=lambda ct, x, *, permutation: [
        Zero(x.aval)
        if type(ct) is Zero
        else transpose_p.bind(ct, permutation=_inverse(permutation))
    ],
    batch=_transpose_batch,
)
transpose_p.remember_types()


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Axis k of the result is axis `permutation[k]` of the operand. Raises TypeError if it is not a
    permutation.

    As `numpy.transpose`.

    >>> lax.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = int_tuple(permutation)
    if (
        order == tuple(range(len(order)))
        and hasattr(operand, "aval")
        and operand.aval.ndim == len(order)
    ):
        return operand
    return transpose_p.bind(operand, permutation=order)


# --- rev ---
def _rev_aval(operand: Any, *, dimensions: Any) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    check_nonnegative("rev", "dimensions", dimensions)
    if any(d >= operand.ndim for d in dimensions):
        raise TypeError(
            "rev dimensions must all be less than operand ndim, "
            f"got dimensions {dimensions} for operand ndim {operand.ndim}."
        )
    return ShapedArray(operand.shape, operand.dtype, operand.weak_type)


rev_p: Primitive = Primitive(
    "rev",
    abstract_eval=_rev_aval,
    jvp=linear_jvp(lambda: rev_p),
    transpose=lambda ct, x, *, dimensions: [
        Zero(x.aval) if type(ct) is Zero else rev_p.bind(ct, dimensions=dimensions)
    ],
    batch=lambda args, dims, *, dimensions: (
        rev_p.bind(args[0], dimensions=tuple(d + (d >= dims[0]) for d in dimensions)),
        dims[0],
    ),
)
rev_p.remember_types()


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverses the order of elements along these axes.

    Raises TypeError for dimensions that the operand does not have. As `numpy.flip`.

    >>> lax.rev(jnp.array([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=int_tuple(dimensions))


# --- iota and constants ---
def _iota_aval(*dyn: Any, dtype: Any, shape: Any, dimension: Any, sharding: Any) -> ShapedArray:
    check_dtype("iota", dtype, (INT, FLOAT, COMPLEX))
    check_nonnegative("iota", "shape", shape)
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for "
            f"shape={tuple(shape)}"
        )
    return ShapedArray(shape, dtype)


iota_p: Primitive = Primitive(
    "iota",
    abstract_eval=_iota_aval,
    jvp=No.HOLDS_NO_ARRAYS,
    transpose=No.HOLDS_NO_ARRAYS,
    batch=No.HOLDS_NO_ARRAYS,
)
iota_p.remember_types()


empty2_p: Primitive = Primitive(
    "empty2",
    abstract_eval=lambda *, dtype, memory_space: ShapedArray((), dtype),
    jvp=No.HOLDS_NO_ARRAYS,
    transpose=No.HOLDS_NO_ARRAYS,
    batch=No.HOLDS_NO_ARRAYS,
)


def empty(aval: Any) -> Any:
    """An array of a type whose values nobody reads (they are zeros)."""
    if dtypes.is_extended(aval.dtype) or aval.dtype == dtypes.float0:
        return symbolic.instantiate_zero(aval)
    one = empty2_p.bind(dtype=aval.dtype, memory_space=Space.Device)
    return broadcast_in_dim(one, aval.shape, ()) if aval.shape else one


def iota(dtype: Any, size: int) -> Any:
    """`[0, 1, ..., size - 1]` of a dtype.

    Raises TypeError for a negative size. As `numpy.arange(size)`.

    >>> lax.iota('float32', 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Any:
    """The index along `dimension`, as an array of `shape`.

    Raises ValueError if `shape` has no such dimension. As `numpy.indices(shape)[dimension]`.

    >>> lax.broadcasted_iota('int32', (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    d = requested_dtype(dtype, "broadcasted_iota")
    shape = canonical_shape(shape)
    lies = asked_layout("broadcasted_iota", out_sharding, shape)
    return iota_p.bind(dtype=d, shape=shape, dimension=int(dimension), sharding=lies)


def iota_like(x: Any, dtype: Any, dimension: int) -> Any:
    """The index along `dimension`, in the shape of `x`, and lying as it does."""
    aval = typeof(x)
    return iota_p.bind(
        dtype=dtypes.dtype(dtype), shape=aval.shape, dimension=dimension, sharding=aval._sharding
    )


def scalar_constant(value: Any, dtype: Any) -> Any:
    """A concrete number converted to a dtype on the host: Python's floats as a program converts
    them, NumPy's as NumPy does."""
    if type(value) is not float:
        return np.asarray(value).astype(dtype)[()]
    narrow = value if config.enable_x64.get() else np.float32(value)  # warns if it becomes infinite
    return converted(np.asarray(narrow if dtypes.is_integer(dtype) else value), dtype)[()]


def converted(x: Any, dtype: Any) -> Any:
    """NumPy's array in another dtype, as a program converts: without warnings, and floats become
    the nearest integers towards zero that there are, NaN zero."""
    with np.errstate(all="ignore"):
        if not dtypes.is_integer(dtype) or not dtypes.is_float(x.dtype):
            return x.astype(dtype)
        return saturated(x, dtype)


def saturated(x: Any, dtype: Any) -> Any:
    """NumPy's array of floats as integers: toward zero, clamped to the range; NaN gives 0."""
    info = dtypes.iinfo(dtype)
    wide = x.astype(np.float64)
    low, high = float(info.min), float(int(info.max) + 1)
    whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
    inside = (whole >= low) & (whole < high)
    target = np.uint64 if dtypes.is_unsigned(dtype) else np.int64
    out = np.where(inside, whole, 0.0).astype(target)
    out = np.where(whole >= high, np.asarray(int(info.max), target), out)
    out = np.where(whole < low, np.asarray(int(info.min), target), out)
    return out.astype(dtype)


def _full_zeros(aval: Any) -> Any:
    return full_of(aval, 0)


class aval_like:
    """Lets an aval stand where a value is asked only for its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval


symbolic._make_zeros[0] = _full_zeros


def full_of(aval: Any, value: Any) -> Any:
    """An array of an aval's shape, dtype and weakness filled with a number: the scalar itself if
    the shape is ().
    """
    fill = const(aval_like(aval), value)
    if aval.shape:
        fill = broadcast_in_dim_p.bind(
            fill, shape=aval.shape, broadcast_dimensions=(), sharding=aval._sharding
        )
    return as_varying(fill, aval)


def as_varying(x: Any, aval: Any) -> Any:
    """A new array, made to vary over the manual axes that this type varies over."""
    axes = aval.vma & checked_axes() if said[0] else None
    return match_varying[0](x, axes) if axes else x


def full_as(x: Any, value: Any) -> Any:
    """`full_of` the type of `x`."""
    return full_of(typeof(x), value)


def is_python_scalar(x: Any) -> bool:
    """A number whose conversion can be done now, on the host."""
    return type(x) in dtypes.python_scalar_dtypes or isinstance(x, np.generic)
