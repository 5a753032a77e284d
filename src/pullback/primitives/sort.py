"""Sorting: sort of several operands by leading ones, and the largest elements. Derivatives follow
the permutation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..errors import JaxRuntimeError
from .builders import batch_size
from .common import as_array, as_int, canonical_axis, is_symbolic, zero_of
from .index import gather
from .index_checks import GatherDimensionNumbers
from .layout import broadcast_in_dim, broadcasted_iota, expand_dims, transpose
from .shape import slice as slice_


def _along(x: Any, order: Any, axis: int) -> Any:
    """`x` permuted along one axis by indices of the same rank: a gather that has all other axes in
    common.
    """
    ndim = typeof(x).ndim
    if 0 in typeof(x).shape:  # no slice of one element fits into an empty array
        return slice_(x, (0,) * ndim, typeof(order).shape)
    others = tuple(d for d in range(ndim) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(x, expand_dims(order, (ndim,)), numbers, (1,) * ndim)


# --- sort ---
def _sort_aval(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    shapes = [x.shape for x in operands]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(
            f"Arguments to sort must have equal shapes, got: {' '.join(map(str, shapes))}"
        )
    return [ShapedArray(x.shape, x.dtype, x.weak_type) for x in operands]


def _sort_jvp(
    primals: Any, tangents: Any, *, dimension: int, is_stable: bool, num_keys: int
) -> Any:
    shape = typeof(primals[0]).shape
    places = broadcasted_iota(np.uint32, shape, dimension)
    params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
    *outs, order = sort_p.bind(*primals, places, **params)
    moved = [
        zero_of(out) if type(t) is Zero else _along(t, order, dimension)
        for t, out in zip(tangents, outs, strict=True)
    ]
    return outs, moved


def _sort_batch(args: Any, dims: Any, *, dimension: int, is_stable: bool, num_keys: int) -> Any:
    first = next((x, d) for x, d in zip(args, dims) if d is not None)
    at = first[1]
    n = batch_size(args, dims)
    parts = [_at_axis(x, d, at, n) for x, d in zip(args, dims)]
    moved = dimension + (at <= dimension)
    outs = sort_p.bind(*parts, dimension=moved, is_stable=is_stable, num_keys=num_keys)
    return outs, [at] * len(outs)


def _at_axis(x: Any, d: int | None, at: int, n: Any) -> Any:
    """An operand with its batch axis at `at`, made if it has none."""
    shape = typeof(x).shape
    if d is None:
        full = (*shape[:at], n, *shape[at:])
        return broadcast_in_dim(x, full, tuple(k for k in range(len(full)) if k != at))
    if d == at:
        return x
    order = [k for k in range(len(shape)) if k != d]
    order.insert(at, d)
    return transpose(x, order)


sort_p = Primitive(
    "sort",
    abstract_eval=_sort_aval,
    jvp=_sort_jvp,
    transpose=No.NOT_LINEAR,
    batch=_sort_batch,
    multiple_results=True,
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorts along one axis, ascending; several operands are ordered by the first `num_keys` of
    them, lexicographically.

    NaNs come last; 0.0 and -0.0 are equal.

    `operand`: an array, or a tuple of arrays of one shape: TypeError for other shapes, ValueError
    for a dimension out of bounds. `is_stable`: a bool. As `numpy.sort` and `numpy.lexsort`.

    >>> lax.sort((jnp.array([3, 1, 2]), jnp.array([30, 10, 20])))
    (Array([1, 2, 3], dtype=int32), Array([10, 20, 30], dtype=int32))
    """
    many = isinstance(operand, Sequence)
    operands = list(operand) if many else [operand]
    if not operands:
        raise TypeError("Sort requires at least one operand")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(operands)}")
    for x in operands[:num_keys]:
        if dtypes.is_extended(typeof(x).dtype):
            raise TypeError(
                f"sort: elements of dtype {typeof(x).dtype.name} have no order. Fix: sort "
                "random.key_data(keys)."
            )
    axis = canonical_axis(dimension, typeof(operands[0]).ndim)
    if not isinstance(is_stable, bool):
        raise TypeError(f"sort: whether it is stable must be a bool, got {is_stable!r}.")
    outs = sort_p.bind(*operands, dimension=axis, is_stable=is_stable, num_keys=num_keys)
    return tuple(outs) if many else outs[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Sorts `keys` along one axis, and `values` alike.

    `keys`, `values`: arrays of one shape. Raises TypeError for other shapes.

    >>> lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([30, 10, 20]))
    (Array([1, 2, 3], dtype=int32), Array([10, 20, 30], dtype=int32))
    """
    out = sort((keys, values), dimension, is_stable, num_keys=1)
    return out[0], out[1]


# --- top_k ---
def _check_k(name: str, operand: Any, k: int, axis: int) -> None:
    if dtypes.is_complex(operand.dtype):
        raise ValueError(f"{name} is not compatible with complex inputs.")
    if k < 0:
        raise ValueError(f"k argument to {name} must be nonnegative, got {k}")
    n = operand.shape[axis]
    if k > n:
        raise ValueError(
            f"k argument to {name} must be no larger than size along axis; got k={k} with "
            f"shape={list(operand.shape)} and axis={axis}"
        )


_INT32_MAX = 2**31 - 1


def _top_k_aval(operand: Any, *, k: int, axis: int) -> list[ShapedArray]:
    _check_k("top_k", operand, k, axis)
    n = operand.shape[axis]
    if type(n) is int and n > _INT32_MAX + 1:
        raise ValueError(
            "top_k returns int32 indices, which will overflow for array dimensions larger than "
            f"the maximum int32 ({_INT32_MAX}). Got operand.shape={operand.shape}. Fix: take the "
            "best of parts, and then of these."
        )
    shape = (*operand.shape[:axis], k, *operand.shape[axis + 1 :])
    return [
        ShapedArray(shape, operand.dtype, operand.weak_type),
        ShapedArray(shape, np.dtype("int32"), operand.weak_type),  # as in JAX
    ]


def _top_k_jvp(primals: Any, tangents: Any, *, k: int, axis: int) -> Any:
    values, order = top_k_p.bind(*primals, k=k, axis=axis)
    t = tangents[0]
    return [values, order], [
        zero_of(values) if type(t) is Zero else _along(t, order, axis),
        zero_of(order),
    ]


def _top_k_batch(args: Any, dims: Any, *, k: int, axis: int) -> Any:
    (d,) = dims
    return top_k_p.bind(args[0], k=k, axis=axis + (d <= axis)), [d, d]


top_k_p = Primitive(
    "top_k",
    abstract_eval=_top_k_aval,
    jvp=_top_k_jvp,
    transpose=No.NOT_LINEAR,
    batch=_top_k_batch,
    multiple_results=True,
)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The `k` largest elements along an axis, descending, and their indices. Of equals the first
    comes first; NaN is the largest.

    `operand`: an array of numbers; the indices are int32. Raises ValueError if `k` exceeds the size
    of the axis. `k` may be a size with a name, as `x.shape[0] // 2` where programs are exported.

    >>> lax.top_k(jnp.array([3., 9., 5.]), 2)
    [Array([9., 5.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    operand = as_array(operand)
    axis = canonical_axis(axis, typeof(operand).ndim)
    if not (is_symbolic(k) or hasattr(k, "__index__")):
        raise TypeError(f"k argument to top_k must be an integer, got {k!r}")
    count: Any = k if is_symbolic(k) else as_int(k, "k")
    return top_k_p.bind(operand, k=count, axis=axis)  # type: ignore[no-any-return]


# --- approx_top_k: on CPUs it is exact ---
def _check_recall(n: Any, recall_target: float, override: int) -> None:
    if not 0 < recall_target <= 1:
        raise JaxRuntimeError(f"recall_target must be in (0, 1], got {recall_target}")
    if override != -1 and type(n) is int and override < n:
        raise JaxRuntimeError(
            "reduction_input_size_override must be -1 or at least the size of the reduced "
            f"dimension, {n}; got {override}"
        )


def candidates(shape: Sequence[Any], axis: int, k: int, recall_target: float, override: int) -> int:
    """How many elements `aggregate_to_topk=False` gives. Elements fall into bins, of which each
    keeps its best; with m bins, each of the k best is kept with a probability of about
    exp((1 - k) / m) (Chern et al., "TPU-KNN", 2022). Bins come in tiles, and are halved while they
    are enough.
    """
    n, tile = shape[axis], 1024 if len(shape) == 1 else 128
    if n <= tile:
        return n  # type: ignore[no-any-return]
    if k == 1:
        return tile
    whole = n if override < 0 else override  # of which the operand may be a part
    loss = -math.log(recall_target)
    bins = min(max(int((k - 1) / loss), tile), whole) if loss else whole
    halvings = (whole // bins).bit_length() - 1
    if not halvings:
        return n  # type: ignore[no-any-return]
    halvings = min(halvings, (n // tile - 1).bit_length())
    found: int = -(n // -tile // 2**halvings) * tile
    if found > shape[axis]:
        raise JaxRuntimeError(
            f"reduction_input_size_override={override} asks for {found} candidates of "
            f"{shape[axis]} elements; leave it out, or set aggregate_to_topk=True"
        )
    return found


def _approx_aval(
    operand: Any,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    is_max_k: bool,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[ShapedArray]:
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    if not operand.shape:
        raise TypeError(f"approx_top_k operand must have >= 1 dimension, got {operand.shape}")
    if not dtypes.is_float(operand.dtype):
        raise ValueError("operand must be a floating type")
    axis = canonical_axis(reduction_dimension, operand.ndim)
    if operand.shape[axis] < k:
        raise ValueError(
            f"k must be smaller than the size of reduction_dim {axis}, got k = {k}, size = "
            f"{operand.shape[axis]}"
        )
    _check_recall(operand.shape[axis], recall_target, reduction_input_size_override)
    if not aggregate_to_topk:
        k = candidates(operand.shape, axis, k, recall_target, reduction_input_size_override)
    shape = (*operand.shape[:axis], k, *operand.shape[axis + 1 :])
    return [
        ShapedArray(shape, operand.dtype, operand.weak_type),
        ShapedArray(shape, np.dtype("int32"), operand.weak_type),
    ]


def _approx_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    values, order = approx_top_k_p.bind(*primals, **params)
    axis = canonical_axis(params["reduction_dimension"], typeof(values).ndim)
    t = tangents[0]
    return [values, order], [
        zero_of(values) if type(t) is Zero else _along(t, order, axis),
        zero_of(order),
    ]


def _approx_batch(args: Any, dims: Any, *, reduction_dimension: int, **params: Any) -> Any:
    (d,) = dims
    axis = canonical_axis(reduction_dimension, typeof(args[0]).ndim - 1)
    return approx_top_k_p.bind(args[0], reduction_dimension=axis + (d <= axis), **params), [d, d]


approx_top_k_p = Primitive(
    "approx_top_k",
    abstract_eval=_approx_aval,
    jvp=_approx_jvp,
    transpose=No.NOT_LINEAR,
    batch=_approx_batch,
    multiple_results=True,
)


def _approx(is_max_k: bool) -> Callable[..., Any]:
    def approx(
        operand: Any,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
    ) -> list[Any]:
        out: list[Any] = approx_top_k_p.bind(
            as_array(operand),
            k=k,
            reduction_dimension=reduction_dimension,
            recall_target=recall_target,
            is_max_k=is_max_k,
            reduction_input_size_override=reduction_input_size_override,
            aggregate_to_topk=aggregate_to_topk,
        )
        return out

    name = "approx_max_k" if is_max_k else "approx_min_k"
    approx.__name__ = approx.__qualname__ = name
    what = "largest" if is_max_k else "smallest"
    shown = "[9., 5.]" if is_max_k else "[3., 5.]"
    where = "[1, 2]" if is_max_k else "[0, 2]"
    approx.__doc__ = f"""[the `k` {what} elements along an axis, their indices]; exact on CPUs,
    where `recall_target` is met trivially.

    `operand`: a float array; the results have `k` elements along `reduction_dimension` (more, if
    not `aggregate_to_topk`), the indices are int32. Raises TypeError for a scalar, ValueError if
    `k` exceeds the axis's size, JaxRuntimeError for a `recall_target` outside (0, 1].

    >>> lax.{name}(jnp.array([3., 9., 5.]), 2)
    [Array({shown}, dtype=float32), Array({where}, dtype=int32)]
    """
    return approx


approx_max_k = _approx(True)
approx_min_k = _approx(False)
