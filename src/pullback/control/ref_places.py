"""Places in references: how an index, or a chain of views, reads an array and writes into it.

A place is a tuple of entries, one integer, integer array or slice an axis; or `Steps`, the
transforms of a view (`ref.at[0].T`) one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import typeof
from ..core.build import JaxprTrace
from ..core.symbolic import Zero, instantiate_zeros
from ..core.trace import Tracer, current_trace
from ..lazy_imports import lazy_module
from ..primitives.convert import bitcast_convert_type, convert_element_type
from ..primitives.dynamic_slice import dynamic_slice, dynamic_update_slice
from ..primitives.layout import reshape, transpose
from ..primitives.shape import broadcast

# How arrays are indexed, from the numpy layer.
_places: Any = lazy_module("pullback.numpy.scatter")


class RefSlice:
    """`size` elements from `start` (which may be traced) by `stride`: an index of references.

    >>> ref = pb.new_ref(jnp.arange(6))
    >>> ref[pl.Slice(1, 2, 3)]
    Array([1, 4], dtype=int32)
    """

    __slots__ = ("size", "start", "stride")

    def __init__(self, start: Any, size: int, stride: int = 1) -> None:
        self.start, self.size, self.stride = start, size, stride

    def __repr__(self) -> str:
        return f"Slice(start={self.start}, size={self.size}, stride={self.stride})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefSlice) and (self.start, self.size, self.stride) == (
            other.start,
            other.size,
            other.stride,
        )

    def __hash__(self) -> int:
        return hash((self.start, self.size, self.stride))


def _flatten_slice(s: RefSlice) -> Any:
    if type(s.start) is int:
        return (), (s.start, s.size, s.stride)
    return (s.start,), (None, s.size, s.stride)


tree.register_pytree_node(
    RefSlice,
    _flatten_slice,
    lambda aux, children: RefSlice(children[0] if children else aux[0], *aux[1:]),
)


def ds(start: Any, size: int | None = None, stride: int | None = None) -> RefSlice | slice:
    """A slice for indexing arrays and references: `size` elements from `start`, which may be
    traced, by `stride`. With one argument, `ds(n)` is the first n elements.

    >>> pb.ds(1, 2)
    Slice(start=1, size=2, stride=1)

    Raises ValueError if `stride` is below 1.
    """
    if start is None:
        return slice(None, size, stride)
    step = 1 if stride is None else stride
    if size is None:
        start, size = 0, start
    if step < 1:
        raise ValueError(f"ds: the stride must be at least 1, got {step}.")
    return RefSlice(start, size, step)


def entries_of(idx: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """An index as one integer, integer array or RefSlice an axis; None if it is another kind of
    index (with masks, new axes, steps backwards). ValueError for one that leaves the array, and
    for a list.
    """
    if isinstance(idx, list):
        raise ValueError(
            f"a reference of shape {shape} is indexed by a list: {idx!r}. Fix: ref[jnp.array(idx)] "
            "for the elements at these positions, or ref[tuple(idx)] for one position an axis."
        )
    given = idx if isinstance(idx, tuple) else (idx,)
    dots = sum(e is Ellipsis for e in given)
    n = len(given) - dots
    if n > len(shape):
        raise ValueError(f"`indices` must not be longer than `shape`: {idx=}, {shape=}")
    full = [slice(None)] * (len(shape) - n)
    flat: list[Any] = []
    for e in given:
        flat += full if e is Ellipsis else [e]
    flat += full if not dots else []
    if len(flat) != len(shape):
        return None
    done = [_entry(e, n) for e, n in zip(flat, shape, strict=True)]
    return None if any(e is None for e in done) else tuple(_settled(done, shape))


def _entry(e: Any, size: int) -> Any:
    if isinstance(e, slice):
        start, stop, step = e.indices(size)
        if step < 1:
            return None
        if start >= size > 0:
            raise ValueError(f"Out of bound slice: start={start}, dim={size}.")
        return RefSlice(start, max(0, -(-(stop - start) // step)), step)
    if isinstance(e, RefSlice):
        _check_slice(e, size)
        return e
    if e is None or isinstance(e, list):
        return None
    aval = typeof(e)
    if not dtypes.is_integer(aval.dtype):
        if aval.shape or not (dtypes.is_float(aval.dtype) or aval.dtype == np.bool_):
            return None
        # As in JAX, a number that is no integer is one that lacks its fraction.
        e = convert_element_type(e, np.int32) if isinstance(e, Tracer) else int(e)
    if not isinstance(e, Tracer) and aval.shape == ():
        return np.int32(int(e))
    return e


def _settled(entries: Sequence[Any], shape: tuple[int, ...]) -> Sequence[Any]:
    """Entries with the numbers among them as what they are: beside arrays of positions, arrays too;
    else they must lie in the array, except while a program is being written.
    """
    around = [typeof(e).shape for e in entries if not isinstance(e, RefSlice)]
    if any(around):
        sizes = np.broadcast_shapes(*around)
        return [broadcast(e, sizes) if type(e) is np.int32 else e for e in entries]
    if not _being_written():
        check_known(entries, shape)
    return entries


def check_known(entries: Any, shape: Sequence[int]) -> None:
    """ValueError for a number past the end of its axis. Below the start everything is the first
    element.
    """
    if type(entries) is Steps:
        return
    for axis, (e, size) in enumerate(zip(entries, shape, strict=True)):
        if isinstance(e, np.integer) and e >= size:
            raise ValueError(f"Out of bound indexer: idx={int(e)}, dim={size} of axis {axis}.")


def _being_written() -> bool:
    trace: Any = current_trace()
    while trace is not None:
        if isinstance(trace, JaxprTrace):
            return True
        trace = trace.parent_trace
    return False


def _check_slice(s: RefSlice, dim: int) -> None:
    """Raises for a slice that leaves its axis, where it starts being known."""
    if isinstance(s.start, Tracer):
        return
    start = int(s.start)
    said = f"Out of bound slice: start={start}, size={s.size}, stride={s.stride}, dim={dim}."
    if start + s.size > dim:
        raise ValueError(said)
    if s.size and (start < 0 or start + (s.size - 1) * s.stride >= dim):
        raise TypeError(said)


def _place(value: Any, entries: Sequence[Any]) -> tuple[Any, list[Any], Any]:
    """(the part of a value that an index touches, NumPy's index into it, where the part starts).

    Slices whose start is traced are taken first, so that the rest is an index as NumPy knows them.
    """
    shape = typeof(value).shape
    sizes, starts, rest, moved = list(shape), [0] * len(shape), [], False
    for k, e in enumerate(entries):
        if not isinstance(e, RefSlice):
            rest.append(_inside(e, shape[k]))
            continue
        span = (e.size - 1) * e.stride + 1 if e.size else 0
        if type(e.start) is int:
            rest.append(slice(e.start, e.start + span, e.stride))
        else:
            sizes[k], starts[k], moved = span, e.start, True
            rest.append(slice(0, span, e.stride))
    return (dynamic_slice(value, starts, sizes), rest, starts) if moved else (value, rest, None)


def _inside(e: Any, size: int) -> Any:
    """A position that is known, as one that is in the array."""
    if isinstance(e, Tracer) or typeof(e).shape:
        return e
    k = int(e)
    return np.int32(min(max(k + size if k < 0 else k, 0), size - 1))


def _is_array(e: Any) -> bool:
    return not isinstance(e, RefSlice) and bool(typeof(e).shape)


def is_whole(entries: Any, shape: Sequence[int]) -> bool:
    """Is it every element, in its place?"""
    return type(entries) is tuple and all(
        isinstance(e, RefSlice)
        and type(e.start) is int
        and (e.start, e.size, e.stride) == (0, n, 1)
        for e, n in zip(entries, shape, strict=True)
    )


def read(value: Any, entries: Any) -> Any:
    """The elements of an array at a place."""
    if type(entries) is Steps:
        for step in entries.transforms:
            value = step.read(value)
        return value
    if is_whole(entries, typeof(value).shape):
        return value
    part, rest, _ = _place(value, entries)
    return _places.ref_get(part, tuple(rest))


def write(value: Any, entries: Any, new: Any, how: str) -> Any:
    """The array with the elements at a place set, or added to."""
    if type(entries) is Steps:
        return _write_steps(value, entries.transforms, new, how)
    if how == "set" and is_whole(entries, typeof(value).shape):
        return new
    part, rest, starts = _place(value, entries)
    # As in JAX, what goes past the end is left out if arrays say where it goes.
    mode = "drop" if any(map(_is_array, entries)) else "clip"
    changed = getattr(_places, f"ref_{how}")(part, tuple(rest), new, mode)
    return changed if starts is None else dynamic_update_slice(value, changed, starts)


def _write_steps(value: Any, steps: Sequence[Any], new: Any, how: str) -> Any:
    first, *rest = steps
    if not rest:
        return first.write(value, new, how)
    part = first.read(value)
    if how == "add":  # what comes twice in the part is added to twice
        part = instantiate_zeros(Zero(typeof(part).strip_weak_type()))
    return first.write(value, _write_steps(part, rest, new, how), how)


class Steps:
    """Transforms, one after the other."""

    __slots__ = ("transforms",)

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = tuple(transforms)


class Indexer:
    """A part of an array of a shape: an entry for each axis."""

    __slots__ = ("indices", "shape")

    def __init__(self, indices: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.indices, self.shape = indices, shape

    def read(self, value: Any) -> Any:
        return read(value, self.indices)

    def write(self, value: Any, new: Any, how: str) -> Any:
        return write(value, self.indices, new, how)

    def type_of(self, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
        """The shape and dtype of the view."""
        arrays: list[tuple[int, ...]] = []
        out: list[int] = []
        at = 0
        for e in self.indices:
            if isinstance(e, RefSlice):
                out.append(e.size)
                continue
            if not arrays:
                at = len(out)
            arrays.append(typeof(e).shape)
        kinds = [isinstance(e, RefSlice) for e in self.indices]
        places = [k for k, is_slice in enumerate(kinds) if not is_slice]
        if places and places[-1] - places[0] + 1 != len(places):
            at = 0  # as in NumPy: arrays apart from each other come first
        return (*out[:at], *np.broadcast_shapes(*arrays), *out[at:]), dtype

    def __repr__(self) -> str:
        return f"Indexer(indices={self.indices}, shape={self.shape})"


class Reshaped:
    """The elements in another shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def read(self, value: Any) -> Any:
        return reshape(value, self.shape)

    def write(self, value: Any, new: Any, how: str) -> Any:
        return _joined(value, reshape(new, typeof(value).shape), how)

    def type_of(self, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
        return self.shape, dtype

    def __repr__(self) -> str:
        return f"{{reshape({list(self.shape)})}}"


class Transposed:
    """The axes in another order."""

    __slots__ = ("permutation",)

    def __init__(self, permutation: tuple[int, ...]) -> None:
        self.permutation = permutation

    def read(self, value: Any) -> Any:
        return transpose(value, self.permutation)

    def write(self, value: Any, new: Any, how: str) -> Any:
        back = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return _joined(value, transpose(new, back), how)

    def type_of(self, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
        return tuple(shape[k] for k in self.permutation), dtype

    def __repr__(self) -> str:
        return f"{{transpose({list(self.permutation)})}}"


class Bitcast:
    """The same bits as another dtype of the same width."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def read(self, value: Any) -> Any:
        return bitcast_convert_type(value, self.dtype)

    def write(self, value: Any, new: Any, how: str) -> Any:
        if how == "add":
            new = self.read(value) + new
        return bitcast_convert_type(new, typeof(value).dtype)

    def type_of(self, shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
        return shape, self.dtype

    def __repr__(self) -> str:
        return f"{{bitcast({self.dtype.name})}}"


def _joined(value: Any, new: Any, how: str) -> Any:
    return value + new if how == "add" else new


tree.register_pytree_node(Steps, lambda s: (s.transforms, None), lambda _, xs: Steps(xs))
tree.register_pytree_node(
    Indexer, lambda t: ((t.indices,), t.shape), lambda shape, xs: Indexer(xs[0], shape)
)
tree.register_pytree_node(Reshaped, lambda t: ((), t.shape), lambda shape, _: Reshaped(shape))
tree.register_pytree_node(
    Transposed, lambda t: ((), t.permutation), lambda order, _: Transposed(order)
)
tree.register_pytree_node(Bitcast, lambda t: ((), t.dtype), lambda dtype, _: Bitcast(dtype))


def place_of(transforms: Sequence[Any]) -> Any:
    """The place that a chain of transforms is."""
    if len(transforms) == 1 and type(transforms[0]) is Indexer:
        return transforms[0].indices
    return Steps(transforms)


# --- views ---
def indexed(shape: tuple[int, ...], idx: Any) -> Indexer:
    """ValueError for an index that is not made of integers, integer arrays and slices forward."""
    entries = entries_of(idx, shape)
    if entries is None:
        raise ValueError(
            "views of references, ref.at[idx], are made of integers, integer arrays and slices "
            f"with positive steps, one for each axis, got {idx!r}. Fix: ref[idx] takes the others."
        )
    return Indexer(entries, shape)


def reshaped(shape: tuple[int, ...], new: tuple[Any, ...]) -> Reshaped:
    sizes = new[0] if len(new) == 1 and isinstance(new[0], (tuple, list)) else new
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        sizes = [math.prod(shape) // max(known, 1) if n == -1 else n for n in sizes]
    if math.prod(sizes) != math.prod(shape):
        raise ValueError(
            f"cannot reshape shape {shape} into shape {tuple(sizes)}. Fix: keep the number of "
            "elements."
        )
    return Reshaped(tuple(int(n) for n in sizes))


def transposed(shape: tuple[int, ...], permutation: Sequence[int] | None) -> Transposed:
    order = range(len(shape))[::-1] if permutation is None else permutation
    if sorted(order) != list(range(len(shape))):
        raise ValueError(
            f"transpose: {tuple(order)} is no permutation of the axes of shape {shape}. Fix: name "
            "each axis once."
        )
    return Transposed(tuple(order))


def cast(old: Any, dtype: Any) -> Bitcast:
    new = np.dtype(dtype)
    if new.itemsize != old.itemsize:
        raise ValueError(
            f"bitcast: a reference of {old.name} cannot be seen as {new.name}, whose elements have "
            "another width. Fix: read it and use lax.bitcast_convert_type."
        )
    return Bitcast(new)
