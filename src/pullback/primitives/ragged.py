"""Products of matrices whose rows belong to groups of unequal sizes (mixtures of experts), as
masked dot_generals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.avals import typeof
from .common import int_tuple
from .contract import dot_general
from .convert import convert_element_type
from .cumulative import cumsum
from .elementwise import bitwise_and, ge, lt, mul, sub
from .layout import broadcast, broadcast_in_dim, iota, transpose

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]


class RaggedDotDimensionNumbers:
    """dot_general's numbers, the axis of lhs that is cut into groups, and the axis of rhs that has
    one matrix a group.

    >>> lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]).lhs_ragged_dimensions
    (0,)
    """

    def __init__(
        self,
        dot_dimension_numbers: Any,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ) -> None:
        (lc, rc), (lb, rb) = dot_dimension_numbers
        self.dot_dimension_numbers = (int_tuple(lc), int_tuple(rc)), (int_tuple(lb), int_tuple(rb))
        self.lhs_ragged_dimensions = int_tuple(lhs_ragged_dimensions)
        self.rhs_group_dimensions = int_tuple(rhs_group_dimensions)

    def _key(self) -> tuple[Any, ...]:
        return (self.dot_dimension_numbers, self.lhs_ragged_dimensions, self.rhs_group_dimensions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedDotDimensionNumbers) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"RaggedDotDimensionNumbers(dot_dimension_numbers={self.dot_dimension_numbers}, "
            f"lhs_ragged_dimensions={self.lhs_ragged_dimensions}, "
            f"rhs_group_dimensions={self.rhs_group_dimensions})"
        )


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Multiplies the rows of `lhs` (m, k) by the matrix of their group: `rhs` is (groups, k, n).

    The first `group_sizes[0]` rows are group 0, and so on; rows after the last group give zeros.

    `group_sizes`: integers (groups,). The result is (m, n). Raises TypeError or ValueError for
    shapes that do not fit.

    >>> rhs = jnp.stack([jnp.eye(2), 10 * jnp.eye(2)])
    >>> lax.ragged_dot(jnp.ones((3, 2)), rhs, jnp.array([1, 2]))
    Array([[ 1.,  1.],
           [10., 10.],
           [10., 10.]], dtype=float32)
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        numbers,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def _member(group_sizes: Any, n: int) -> Any:
    """(..., groups, n) of sizes (..., groups): does element k belong to group g?"""
    sizes = convert_element_type(group_sizes, np.int32)
    shape = typeof(sizes).shape
    axes = tuple(range(len(shape)))
    ends = cumsum(sizes, len(shape) - 1)
    starts = sub(ends, sizes)
    place = broadcast_in_dim(iota(np.int32, n), (*shape, n), (len(shape),))
    after = ge(place, broadcast_in_dim(starts, (*shape, n), axes))
    return bitwise_and(after, lt(place, broadcast_in_dim(ends, (*shape, n), axes)))


def _before_ragged(lhs: Any, numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """The axes of lhs that may have group sizes of their own: batch axes, then those of the ragged
    axis's kind, as far as they come before it.
    """
    (axis,) = numbers.lhs_ragged_dimensions
    (lc, _), (lb, _) = numbers.dot_dimension_numbers
    if axis in lb:
        return lb[: lb.index(axis)]
    if axis in lc:
        return (*lb, *lc[: lc.index(axis)])
    return (*lb, *(d for d in range(axis) if d not in lc and d not in lb))


def _check_ragged(lhs: Any, rhs: Any, sizes: Any, numbers: RaggedDotDimensionNumbers) -> None:
    """TypeError for axes and groups that do not fit."""

    def check(fits: bool, text: str) -> None:
        if not fits:
            raise TypeError(f"ragged_dot_general {text}")

    def axis_of(aval: Any, axis: int, what: str, side: str) -> None:
        check(
            0 <= axis < aval.ndim,
            f"requires {side} {what} dimension numbers to be nonnegative and less than the number "
            f"of axes of the {side} value, got {axis} for {side} of rank {aval.ndim}.",
        )

    ragged, group_axes = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    integers = "requires that group_sizes.dtype is subtype of np.integer."
    check(np.issubdtype(sizes.dtype, np.integer), integers)
    check(len(ragged) == 1, f"expects exactly one lhs ragged dimension, got {ragged}.")
    axis_of(lhs, ragged[0], "ragged", "lhs")
    for axis in group_axes:
        axis_of(rhs, axis, "group", "rhs")
    apart = "requires rhs group dimension numbers to be distinct from contracting and batch "
    check(not set(group_axes) & {*rc, *rb}, f"{apart}dimensions, got {group_axes}.")
    if sizes.ndim == 0:
        raise TypeError(f"expected rank of group_sizes to be >=1, got shape {sizes.shape}.")
    if sizes.ndim > 1:
        want = (*(lhs.shape[d] for d in _before_ragged(lhs, numbers)), sizes.shape[-1])
        if sizes.shape != want:
            raise TypeError(f"expected group_sizes to have shape {want}, got {sizes.shape}.")
    if ragged[0] in (*lc, *lb):
        none = "requires zero group dimensions in the rhs when lhs ragged dimension is contracting"
        check(not group_axes, f"{none} or batch, got {group_axes}.")
        return
    one = "requires exactly one rhs group dimension when lhs ragged dimension is noncontracting"
    check(len(group_axes) == 1, f"{one}, got {group_axes}.")
    groups, found = sizes.shape[-1], rhs.shape[group_axes[0]]
    if groups != found:
        raise TypeError(f"expected rhs group dimension size to be {groups}, got {found}.")


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general` with one axis cut into groups of the given sizes.

    The ragged axis is a free axis of lhs (then each group has its own rhs), a contracted one (then
    the result has a leading group axis), or
    a batch axis (then groups do not matter). `group_sizes`: integers (groups,), or with leading
    axes, where parts of lhs have sizes of their own: its batch axes and the axes of the ragged
    axis's kind that come before it. Raises TypeError for sizes that are no integers or of another
    shape, and for axes that do not fit.

    >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    >>> sizes = jnp.array([1, 2])
    >>> lax.ragged_dot_general(jnp.ones((3, 2)), jnp.ones((2, 2, 4)), sizes, numbers).shape
    (3, 4)
    """
    if group_offset is not None:
        raise ValueError(
            "group_offset is not supported: got a value. Fix: slice rhs and group_sizes first."
        )
    numbers = ragged_dot_dimension_numbers
    _check_ragged(typeof(lhs), typeof(rhs), typeof(group_sizes), numbers)
    (axis,) = numbers.lhs_ragged_dimensions
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if axis in lb:
        return dot_general(lhs, rhs, ((lc, rc), (lb, rb)), **options)
    aval = typeof(lhs)
    sizes = typeof(group_sizes)
    groups = sizes.shape[-1]
    member = convert_element_type(_member(group_sizes, aval.shape[axis]), aval.dtype)
    # Which axis of (groups, *lhs.shape) each axis of `member` is; they are brought in order.
    own = _before_ragged(aval, numbers)[: sizes.ndim - 1]
    places = (*(d + 1 for d in own), 0, axis + 1)
    order = tuple(sorted(range(len(places)), key=places.__getitem__))
    member = broadcast_in_dim(
        transpose(member, order), (groups, *aval.shape), tuple(sorted(places))
    )
    keep = bitwise_and if aval.dtype == bool else mul
    split = keep(broadcast(lhs, (groups,)), member)
    lc, lb = tuple(d + 1 for d in lc), tuple(d + 1 for d in lb)
    if axis + 1 in lc:
        out = dot_general(split, rhs, ((lc, rc), (lb, rb)), **options)
        # (batch, group, free...): the group goes first.
        n = len(lb)
        return transpose(out, (n, *range(n), *range(n + 1, typeof(out).ndim)))
    (group_axis,) = numbers.rhs_group_dimensions
    return dot_general(split, rhs, (((0, *lc), (group_axis, *rc)), (lb, rb)), **options)
