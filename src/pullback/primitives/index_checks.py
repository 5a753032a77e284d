"""What gather's and scatter's dimension numbers are, and must satisfy, in the words users know from
JAX.

Checks stand in the order in which they are reported.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import dtypes


class GatherDimensionNumbers(NamedTuple):
    """What the axes of gather's operands mean.

    offset_dims: axes of the result that run over the window; collapsed_slice_dims: axes of the
    operand whose window has size 1 and is dropped; start_index_map: the operand's axis of each
    component of a start; operand_batching_dims, start_indices_batching_dims: axes in common.

    >>> numbers = lax.GatherDimensionNumbers((1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.array([[1, 2], [3, 4]]), jnp.array([[1]]), numbers, slice_sizes=(1, 2))
    Array([[3, 4]], dtype=int32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """What the axes of scatter's operands mean: as GatherDimensionNumbers, with updates in the
    place of gather's result.

    >>> numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    >>> lax.scatter(jnp.zeros((2, 2)), jnp.array([[1]]), jnp.array([[7., 8.]]), numbers)
    Array([[0., 0.],
           [7., 8.]], dtype=float32)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What becomes of windows out of bounds: moved inside, filled (gather) or dropped (scatter), or
    promised not to occur.

    The `mode` of `lax.gather` and of the scatters; strings are accepted there too.

    >>> lax.GatherScatterMode.from_any('clip').name
    'CLIP'
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """The mode that a name stands for; None is the promise. Raises ValueError for unknown
        names.
        """
        if isinstance(s, GatherScatterMode):
            return s
        if s == "clip":
            return GatherScatterMode.CLIP
        if s is None or s == "promise_in_bounds":
            return GatherScatterMode.PROMISE_IN_BOUNDS
        if s in ("fill", "drop"):
            return GatherScatterMode.FILL_OR_DROP
        if s == "one_hot":
            return GatherScatterMode.ONE_HOT
        raise ValueError(f'Unknown gather mode "{s}"')


def check_gather(dn: Any, operand: Any, indices: Any, slice_sizes: Sequence[Any]) -> None:
    """TypeError where the numbers, the sizes and the shapes do not fit; ValueError for indices that
    are no integers.
    """
    if not hasattr(dn, "offset_dims"):
        raise TypeError(f"gather takes lax.GatherDimensionNumbers, got {dn!r}")
    op, last = "Gather", indices.ndim - 1
    _check_vector_dim(op, indices)
    _check_set(op, "offset_dims", dn.offset_dims, ordered=True)
    rank = last + len(dn.offset_dims)
    for k, d in enumerate(dn.offset_dims):
        if not 0 <= d < rank:
            raise TypeError(
                f"Offset dimension {k} in gather op is out of bounds; got {d}, but should have "
                f"been in [0, {rank})"
            )
    _check_count(op, "start_index_map", dn.start_index_map, indices)
    for k, d in enumerate(dn.start_index_map):
        if not 0 <= d < operand.ndim:
            raise TypeError(
                f"Invalid start_index_map; domain is [0, {operand.ndim}), got: {k}->{d}."
            )
    _check_set(op, "start_index_map", dn.start_index_map)
    _check_set(op, "collapsed_slice_dims", dn.collapsed_slice_dims, operand.ndim, ordered=True)
    _check_set(op, "operand_batching_dims", dn.operand_batching_dims, operand.ndim, ordered=True)
    _check_disjoint(op, dn, "collapsed_slice_dims")
    _check_disjoint(op, dn, "start_index_map")
    _check_batching(op, dn, "start_indices_batching_dims", operand, indices)
    _check_slice_sizes(dn, operand, slice_sizes, nothing_read=0 in indices.shape[:-1])
    _check_integers(indices)


def _check_slice_sizes(dn: Any, operand: Any, sizes: Sequence[Any], nothing_read: bool) -> None:
    """Slices must lie in the operand, unless there are none: no indices, no reads."""
    if len(sizes) != operand.ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension; got: "
            f"len(slice_sizes)={len(sizes)}, input_shape.rank={operand.ndim}"
        )
    dropped = len(dn.collapsed_slice_dims) + len(dn.operand_batching_dims)
    if len(sizes) != len(dn.offset_dims) + dropped:
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension "
            f"or explicitly collapsed/batching; got len(slice_sizes)={len(sizes)}, "
            f"output_slice_sizes={tuple(dn.offset_dims)}, "
            f"collapsed_slice_dims={tuple(dn.collapsed_slice_dims)}, "
            f"operand_batching_dims={tuple(dn.operand_batching_dims)}."
        )
    for k, (size, n) in enumerate(zip(sizes, operand.shape)):
        if type(size) is not int or type(n) is not int:
            continue
        if size < 0 or (size > n and not nothing_read):
            raise TypeError(
                f"Slice size at index {k} in gather op is out of range, must be within "
                f"[0, {n} + 1), got {size}."
            )
    for k, d in enumerate(dn.collapsed_slice_dims):
        if sizes[d] != 1:
            raise TypeError(
                "Gather op can only collapse slice dims with bound 1, but bound is "
                f"{sizes[d]} for index {d} at position {k}."
            )
    for k, d in enumerate(dn.operand_batching_dims):
        if sizes[d] not in (0, 1):
            raise TypeError(
                "Gather op can only have operand batching dims with bound 0/1, but bound is "
                f"{sizes[d]} for index {d} at position {k}."
            )


def check_scatter(dn: Any, operand: Any, indices: Any, updates: Any) -> None:
    """TypeError where the numbers and the shapes do not fit; ValueError for indices that are no
    integers.
    """
    if not hasattr(dn, "update_window_dims"):
        raise TypeError(f"scatters take lax.ScatterDimensionNumbers, got {dn!r}")
    op, window = "Scatter", dn.update_window_dims
    _check_vector_dim(op, indices)
    rank = indices.ndim - 1 + len(window)
    if updates.ndim != rank:
        raise TypeError(f"Updates tensor must be of rank {rank}; got {updates.ndim}.")
    _check_set(op, "update_window_dims", window, updates.ndim, ordered=True)
    _check_set(op, "inserted_window_dims", dn.inserted_window_dims, operand.ndim, ordered=True)
    _check_set(op, "operand_batching_dims", dn.operand_batching_dims, operand.ndim, ordered=True)
    _check_disjoint(op, dn, "inserted_window_dims")
    _check_batching(op, dn, "scatter_indices_batching_dims", operand, indices)
    size = len(window) + len(dn.inserted_window_dims) + len(dn.operand_batching_dims)
    if size != operand.ndim:
        raise TypeError(
            f"Scatter op has window of size {size}; doesn't match operand of rank {operand.ndim}."
        )
    places = dn.scatter_dims_to_operand_dims
    _check_count(op, "scatter_dims_to_operand_dims", places, indices)
    for k, d in enumerate(places):
        if not 0 <= d < operand.ndim:
            raise TypeError(
                f"Invalid scatter_dims_to_operand_dims mapping; domain is [0, {operand.ndim}), "
                f"got: {k}->{d}."
            )
    _check_disjoint(op, dn, "scatter_dims_to_operand_dims")
    _check_set(op, "scatter_dims_to_operand_dims", places)
    _check_updates(dn, operand, indices, updates)
    _check_integers(indices)


def _check_updates(dn: Any, operand: Any, indices: Any, updates: Any) -> None:
    hidden = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    bounds = [n for d, n in enumerate(operand.shape) if d not in hidden]
    batch = [d for d in range(updates.ndim) if d not in dn.update_window_dims]
    theirs = tuple(updates.shape[batch[d]] for d in dn.scatter_indices_batching_dims)
    ours = tuple(operand.shape[d] for d in dn.operand_batching_dims)
    if ours != theirs:
        raise TypeError(
            "Scatter op requires operand batching dimensions and updates batching dimensions to "
            f"have the same shape, got {ours} and {theirs}."
        )
    for d, bound in zip(dn.update_window_dims, bounds):
        n = updates.shape[d]
        if type(n) is int and type(bound) is int and n > bound:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the "
                "corresponding dimensions of operand. "
                f"For dimension {d}, updates bound is {n}, operand bound is {bound}."
            )
    for d, bound in zip(batch, indices.shape):
        if updates.shape[d] != bound:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
                "corresponding dimensions of scatter indices. "
                f"For scatter dimension {d}, updates bound is {updates.shape[d]}, indices bound "
                f"is {bound}."
            )


def _check_integers(indices: Any) -> None:
    if not dtypes.is_integer(indices.dtype):
        raise ValueError(
            "indices must have an integer type, got "
            f"{indices.dtype}. Fix: convert them with .astype('int32')."
        )


def _check_vector_dim(op: str, indices: Any) -> None:
    if indices.ndim < 1:
        raise TypeError(
            f"{op} index leaf dimension must be within [0, rank(indices) + 1). rank(indices) is "
            f"{indices.ndim} and {op.lower()} index leaf dimension is {indices.ndim - 1}."
        )


def _check_set(
    op: str, name: str, dims: Sequence[int], ndim: int | None = None, *, ordered: bool = False
) -> None:
    """Dimensions that are sorted (if `ordered`), all different, and below `ndim` if given."""
    if ordered and list(dims) != sorted(dims):
        raise TypeError(f"{name} in {op.lower()} op must be sorted; got {tuple(dims)}")
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} in {op.lower()} op must not repeat; got: {tuple(dims)}.")
    for d in dims if ndim is not None else ():
        if not 0 <= d < ndim:  # type: ignore[operator]
            raise TypeError(
                f"Invalid {name} set in {op.lower()} op; valid range is [0, {ndim}); got: {d}."
            )


def _check_count(op: str, name: str, dims: Sequence[int], indices: Any) -> None:
    if len(dims) != indices.shape[-1]:
        end = "." if op == "Gather" else ""
        raise TypeError(
            f"{op} op has {len(dims)} elements in {name} and the bound of dimension "
            f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. These two "
            f"numbers must be equal{end}"
        )


def _check_disjoint(op: str, dn: Any, name: str) -> None:
    dims, batching = tuple(getattr(dn, name)), tuple(dn.operand_batching_dims)
    if set(dims) & set(batching):
        raise TypeError(
            f"{name} and operand_batching_dims in {op.lower()} op must be disjoint; got: {dims} "
            f"and {batching}."
        )


def _check_batching(op: str, dn: Any, name: str, operand: Any, indices: Any) -> None:
    """The axes that operand and indices have in common."""
    ours, theirs = tuple(dn.operand_batching_dims), tuple(getattr(dn, name))
    _check_set(op, name, theirs, indices.ndim)
    if indices.ndim - 1 in theirs:
        raise TypeError(
            f"{op} op cannot have the index vector dimension as a batching dimension; got {theirs}."
        )
    if len(ours) != len(theirs):
        space = "" if op == "Gather" else " "  # as JAX prints it
        raise TypeError(
            f"{op} op requires equal numbers of operand_batching_dims and {name}, got {ours} "
            f"and{space}{theirs}."
        )
    sizes = tuple(operand.shape[d] for d in ours)
    wanted = tuple(indices.shape[d] for d in theirs)
    if sizes != wanted:
        raise TypeError(
            f"{op} op requires operand batching dimensions and indices batching dimensions to have "
            f"the same shape, got {sizes} and {wanted}."
        )
