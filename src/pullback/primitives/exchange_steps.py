"""Exchanges over several named axes of which `vmap` maps one: they are done one axis after the
other, each as an exchange over one axis alone.

The instances are numbered row-major over the axes, the first name being the slowest. Functions take
a value and its mapped axis (or None) and give such a pair.
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
from .layout import full_as, iota, move_batch_front, reshape, transpose
from .shape import broadcast_in_dim

__all__ = ["all_to_all_in_turn", "gather_in_turn", "permute_in_turn", "scatter_in_turn"]

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
