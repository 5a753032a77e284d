"""Exchanges over several named axes of which `vmap` maps one: they are done one axis after the
other, each as an exchange over one axis alone.

The instances are numbered row-major over the axes, the first name being the slowest. Functions take
a value and its mapped axis (or None) and give such a pair.

And exchanges within groups of the instances along an axis: `Group` says whom each instance sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.avals import typeof
from ..core.primitive import Primitive
from ..core.trace import axis_size
from .builders import full_batch
from .dynamic_slice import index_take
from .elementwise import add, eq, mul, select
from .layout import full_as, iota, move_batch_front, reduce_sum, reshape, transpose
from .shape import broadcast_in_dim

__all__ = [
    "Group",
    "all_to_all_in_turn",
    "check_groups",
    "gather_in_turn",
    "permute_in_turn",
    "scatter_in_turn",
]

Pair = tuple[Any, "int | None"]


def _step(p: Primitive, axis: Any, pair: Pair, **params: Any) -> Pair:
    """The exchange over one of the axes."""
    x, d = pair
    found = p.rules["axis_batch"](axis, (x,), (d,), **params, axis_index_groups=None)
    return (p.bind(x, **params, axis_index_groups=None), None) if found is None else found


def _shaped(pair: Pair, change: Callable[[tuple[int, ...]], Sequence[int]]) -> Pair:
    """Reshapes what one instance has."""
    x, d = pair
    if d is None:
        return reshape(x, tuple(change(typeof(x).shape))), None
    x = move_batch_front(x, d)
    size, *shape = typeof(x).shape
    return reshape(x, (size, *change(tuple(shape)))), 0


def gather_in_turn(p: Primitive, axis: Any, pair: Pair, names: Any, at: int, tiled: bool) -> Pair:
    """all_gather: the last axis first, so that the first is the slowest of the gathered ones."""
    for name in reversed(names):
        params = {"all_gather_dimension": at, "axis_size": axis_size(name), "tiled": tiled}
        pair = _step(p, axis, pair, axis_name=(name,), **params)
    if tiled:
        return pair
    n = len(names)
    return _shaped(pair, lambda s: (*s[:at], math.prod(s[at : at + n]), *s[at + n :]))


def scatter_in_turn(p: Primitive, axis: Any, pair: Pair, names: Any, at: int, tiled: bool) -> Pair:
    """psum_scatter: the first axis first, whose parts are the longest."""
    sizes = [axis_size(name) for name in names]
    if not tiled:
        pair = _shaped(pair, lambda s: (*s[:at], *sizes, *s[at + 1 :]))
    for name, size in zip(names, sizes, strict=True):
        params = {"scatter_dimension": at, "axis_size": size, "tiled": tiled}
        pair = _step(p, axis, pair, axis_name=(name,), **params)
    return pair


def all_to_all_in_turn(
    p: Primitive, axis: Any, pair: Pair, names: Any, split: int, concat: int, tiled: bool
) -> Pair:
    """all_to_all: the split axis gets an axis for each name, along which instances exchange; then
    these axes, which now count senders, join the concatenated one."""
    sizes, n = [axis_size(name) for name in names], len(names)
    total = math.prod(sizes)
    pair = _shaped(pair, lambda s: (*s[:split], *sizes, s[split] // total, *s[split + 1 :]))
    for k, name in enumerate(names):
        where = {"split_axis": split + k, "concat_axis": split + k}
        pair = _step(p, axis, pair, axis_name=(name,), tiled=tiled, **where)
    x, d = pair
    if split != concat:
        first = split + (d is not None)
        x = x if d is None else move_batch_front(x, d)
        d = None if d is None else 0
        senders = list(range(first, first + n))
        others = [k for k in range(typeof(x).ndim) if k not in senders]
        target = concat + (d is not None)
        x = transpose(x, [*others[:target], *senders, *others[target:]])
    joined = lambda s: (*s[:concat], math.prod(s[concat : concat + n + 1]), *s[concat + n + 1 :])
    return _shaped((x, d), joined)


def _index(axis: Any, names: Any, index_p: Primitive) -> Any:
    """The number of each instance along the mapped axis."""
    total: Any = np.zeros(axis.size, np.int32)
    for name in names:
        own = iota(np.int32, axis.size)
        if name != axis.name:
            own = broadcast_in_dim(index_p.bind(axis_name=name), (axis.size,), ())
        total = add(mul(total, np.full(axis.size, axis_size(name), np.int32)), own)
    return total


def permute_in_turn(
    gather_p: Primitive, index_p: Primitive, axis: Any, pair: Pair, names: Any, perm: Any
) -> Pair:
    """ppermute: each instance sees all values, and takes its own or zeros."""
    every = math.prod(axis_size(name) for name in names)
    source = np.full(every, -1, np.int32)
    for s, t in perm:
        source[t] = s
    x = full_batch(*pair, axis.size)
    values, d = gather_in_turn(gather_p, axis, (x, 0), names, 0, False)
    if d is not None:
        raise AssertionError("what all instances along an axis gather is the same for all")
    places = index_take(source, (_index(axis, names, index_p),), (0,))
    places = reshape(places, (axis.size,))
    out = index_take(values, (places,), (0,))
    shape = (axis.size, *typeof(values).shape[1:])
    out = reshape(out, shape)
    if (source < 0).any():
        nobody = eq(places, np.full(axis.size, -1, np.int32))
        out = select(broadcast_in_dim(nobody, shape, (0,)), full_as(out, 0), out)
    return out, 0


def check_groups(groups: Any, total: int, alike: bool) -> None:
    """ValueError unless the groups have each of `total` instances once, and as many instances as
    each other if they must be `alike`."""
    if sorted(k for group in groups for k in group) != list(range(total)):
        raise ValueError(
            "axis_index_groups must cover all indices exactly once: the axis has the indices 0 to "
            f"{total - 1}, got {groups}"
        )
    if alike and len({len(group) for group in groups}) > 1:
        raise ValueError(
            "axis_index_groups must be of one size for an exchange of parts, got "
            f"{groups}. Fix: reductions (psum, pmax, pmin) take groups of several sizes."
        )


class Group:
    """What the instances along a mapped axis see of those of their group.

    `rows`: the values of all instances, (m, ...); `members`: whom each sees, (n, size), in the
    group's order; `position`: where each stands in its own group, (n,). Where groups have several
    sizes, `missing` says which of the members are none, of the last axis of `members`.
    """

    def __init__(
        self, axis: Any, pair: Pair, names: Any, groups: Any, gather_p: Any, index_p: Any
    ) -> None:
        total, self.n = math.prod(axis_size(name) for name in names), axis.size
        self.size = max(map(len, groups))
        members = np.zeros((total, self.size), np.int32)
        position, lengths = np.zeros(total, np.int32), np.zeros(total, np.int32)
        for group in groups:
            for k, instance in enumerate(group):
                members[instance] = [*group, *[group[0]] * (self.size - len(group))]
                position[instance], lengths[instance] = k, len(group)
        missing = np.arange(self.size) >= lengths[:, None]
        self.rows = full_batch(*pair, self.n)
        self.members, self.position, self.missing = members, position, missing
        if len(names) > 1:
            self.rows, _ = gather_in_turn(gather_p, axis, (self.rows, 0), names, 0, False)
            own = reshape(_index(axis, names, index_p), (self.n,))
            self.members = reshape(index_take(members, (own,), (0,)), (self.n, self.size))
            self.position = reshape(index_take(position, (own,), (0,)), (self.n,))
            self.missing = reshape(index_take(missing, (own,), (0,)), (self.n, self.size))
        self.uneven = bool(missing.any())

    def values(self) -> Any:
        """What the members have, (n, size, ...); the first one's in place of those that miss."""
        return self._picked(self.rows, reshape(self.members, (self.n * self.size,)))

    def total(self) -> Any:
        """The sums over groups, (n, ...)."""
        x = self.values()
        if self.uneven:
            missing = broadcast_in_dim(self.missing, typeof(x).shape, (0, 1))
            x = select(missing, full_as(x, 0), x)
        return reduce_sum(x, (1,))

    def part(self, x: Any, at: int) -> Any:
        """Of each instance's value in x, (n, ...), the part for its place, of as many along axis
        `at` as a group has members."""
        x = self._parts(x, at)
        first = mul(iota(np.int32, self.n), np.full(self.n, self.size, np.int32))
        where = add(first, self.position)
        return reshape(index_take(x, (where,), (0,)), (self.n, *typeof(x).shape[1:]))

    def sent(self, at: int) -> Any:
        """What the members have for each instance, their parts along axis `at`: (n, size, ...)."""
        x = self._parts(self.rows, at)
        shape = (self.n, self.size)
        first = mul(self.members, np.full(shape, self.size, np.int32))
        where = add(first, broadcast_in_dim(self.position, shape, (0,)))
        return self._picked(x, reshape(where, (self.n * self.size,)))

    def _parts(self, x: Any, at: int) -> Any:
        """(m, ...) with axis `at` in parts, which join the first axis: (m * size, ...)."""
        shape = typeof(x).shape
        x = reshape(x, (*shape[:at], self.size, shape[at] // self.size, *shape[at + 1 :]))
        x = transpose(x, [0, at, *(k for k in range(1, len(shape) + 1) if k != at)])
        return reshape(x, (shape[0] * self.size, *typeof(x).shape[2:]))

    def _picked(self, x: Any, where: Any) -> Any:
        out = index_take(x, (where,), (0,))
        return reshape(out, (self.n, self.size, *typeof(x).shape[1:]))
