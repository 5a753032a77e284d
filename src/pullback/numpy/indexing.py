"""`x[idx]`: NumPy's indexing, as slices where everything is known, as dynamic slices for scalar
positions, as a gather otherwise.

entries: idx -> one per axis of x, or new axis (`index_entries`)
static:  ints and slices known now     -> slice, rev, squeeze, new axes
dynamic: scalar ints, slices of step 1 -> dynamic_slice, rev, squeeze, new axes
gather:  the rest; `plan` also serves `x.at[idx]` (see `scatter`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, lax
from ..core.avals import typeof
from ..core.dims import DimExpr, bounds, max_dim
from ..core.trace import trace_state_clean
from ..lazy_imports import lazy_module
from ..primitives import keys
from ..primitives.common import as_array
from ..primitives.convert import convert_weak
from ..records import record
from ..runtime.shardings import Sharding
from .index_entries import Slice, as_slice, parse, within_reach
from .util import check_broadcast, shape_of, unwrap

noting: Any = lazy_module("pullback.numpy.error_check")

INT32 = np.dtype("int32")


# --- known now ---
def _static(x: Any, entries: list[Any], shape: tuple[Any, ...]) -> Any:
    """The result if all entries are slices, new axes, and ints within bounds; NotImplemented
    otherwise.
    """
    starts: list[int] = []
    limits: list[Any] = []
    strides: list[int] = []
    reverse: list[int] = []
    squeeze: list[int] = []
    new_axes: list[int] = []
    kept = 0
    for position, e in enumerate(entries):
        if e is None:
            new_axes.append(kept)
            kept += 1
            continue
        k = len(starts)
        n = shape[k]
        if type(e) is int:
            if not _within(e, n):
                return NotImplemented
            i = e if e >= 0 else n + e
            starts.append(i)
            limits.append(i + 1)
            strides.append(1)
            squeeze.append(k)
            continue
        if not isinstance(e, slice):
            return NotImplemented
        s = as_slice(e, n, position)
        kept += 1
        if s.whole:
            starts.append(0)
            limits.append(n)
            strides.append(1)
            continue
        low, step = (s.start, s.step) if s.step > 0 else (s.start + (s.size - 1) * s.step, -s.step)
        if isinstance(s.size, DimExpr) or isinstance(s.start, DimExpr):
            if s.step < 0:
                reverse.append(k)
            starts.append(low)
            limits.append(low + max_dim((s.size - 1) * step + 1, 0))
            strides.append(step)
            continue
        if not s.size:
            low = s.start if s.step > 0 else min(max(s.start, 0), n)
        if s.step < 0:
            reverse.append(k)
        if step > 1 and s.size:
            starts.append(low)
            limits.append(
                n
                if s.step > 0 and low + s.size * step >= n
                else min(n, low + (s.size - 1) * step + 1)
            )
            if s.step < 0:
                limits[-1] = s.start + 1
            strides.append(step)
        else:
            starts.append(low)
            limits.append(low + s.size)
            strides.append(1)
    if starts != [0] * len(shape) or tuple(limits) != tuple(shape) or any(s != 1 for s in strides):
        x = lax.slice(
            x,
            tuple(starts),
            tuple(limits),
            tuple(strides) if any(s != 1 for s in strides) else None,
        )
    if reverse:
        x = lax.rev(x, tuple(reverse))
    if squeeze:
        x = lax.squeeze(x, tuple(squeeze))
    return lax.expand_dims(x, tuple(new_axes)) if new_axes else x


def _within(i: int, n: Any) -> bool:
    """Is a position within an axis, whatever size that has?"""
    if type(n) is int:
        return -n <= i < n
    return bool(bounds(n)[0] >= (i + 1 if i >= 0 else -i))


# --- scalar positions ---
def _wrap(i: Any, n: Any) -> Any:
    """A negative index counted from the end."""
    dtype = typeof(i).dtype
    size: Any = n
    zero: Any = 0
    if not typeof(i).weak_type:
        size = dtype.type(n) if type(n) is int else convert_weak(n, dtype, False)
        zero = dtype.type(0)
    if isinstance(i, np.ndarray) and i.ndim:
        if trace_state_clean():
            return np.where(i < 0, i + size, i)
        return lax.select_n(i < 0, i, lax.add(i, size))
    return lax.select_n(lax.lt(i, zero), i, lax.add(i, size))


def _counted(i: Any, n: Any, dtype: Any) -> Any:
    """An index counted from the start of an axis of size n: in its own dtype where that holds n,
    else in `dtype`."""
    own = typeof(i).dtype
    if not dtypes.is_signed(own):
        return i
    if type(n) is not int or n > dtypes.iinfo(own).max:
        i = _to_int(i, dtype)
    return _wrap(i, n)


def _dynamic_start(i: Any, n: Any, dtype: Any) -> Any:
    """The start of the one window that an index reads: as `_counted`, but not weakly typed."""
    if type(i) is int or not typeof(i).weak_type or type(n) is not int:
        return _wrap(_to_int(i, dtype), n) if type(i) is int else _counted(i, n, dtype)
    zero = dtype.type(0)
    return lax.select_n(lax.lt(i, zero), i, lax.add(_to_int(i, dtype), dtype.type(n)))


def _index_dtype(values: Sequence[Any]) -> Any:
    """int32, or int64 if an index has 64 bits."""
    wide = any(hasattr(v, "dtype") and dtypes.itemsize_bits(typeof(v).dtype) == 64 for v in values)
    return np.dtype("int64") if wide else INT32


def _to_int(i: Any, dtype: Any) -> Any:
    if isinstance(i, DimExpr):
        return convert_weak(i, dtype, False)
    if isinstance(i, int):
        info, widest = np.iinfo(dtype), np.iinfo(dtypes.default_int())
        if not widest.min <= i <= widest.max:
            raise OverflowError(f"Python int {i} too large to convert to {widest.dtype.name}")
        return dtype.type(min(max(i, info.min), info.max))  # out of bounds, as it was
    if isinstance(i, np.ndarray | np.generic):
        return i if i.dtype == dtype else np.asarray(i).astype(dtype)
    return convert_weak(i, dtype, False)


def _is_scalar(e: Any) -> bool:
    return type(e) is int or (hasattr(e, "shape") and e.shape == ())


def _dynamic(x: Any, entries: list[Any], shape: tuple[Any, ...], wrap: bool) -> Any:
    """The result if all entries are scalar ints, new axes and slices of step 1 or -1;
    NotImplemented otherwise.
    """
    starts: list[Any] = []
    sizes: list[Any] = []
    squeeze: list[int] = []
    reverse: list[int] = []
    new_axes: list[int] = []
    kept = 0
    for position, e in enumerate(entries):
        if e is None:
            new_axes.append(kept)
            kept += 1
            continue
        k = len(starts)
        if _is_scalar(e):
            starts.append(e)
            sizes.append(1)
            squeeze.append(k)
        elif isinstance(e, slice):
            s = as_slice(e, shape[k], position)
            if s.step not in (1, -1):
                return NotImplemented
            starts.append(s.start if s.step == 1 else s.start - s.size + 1)
            sizes.append(s.size)
            if s.step == -1:
                reverse.append(k)
            kept += 1
        elif isinstance(e, Slice) and e.step == 1:
            starts.append(e.start)
            sizes.append(e.size)
            kept += 1
        else:
            return NotImplemented
    if any(shape[k] == 0 for k in squeeze):
        return NotImplemented
    dtype = _index_dtype(starts)
    if len(starts) == 1 and wrap:
        positions = [_dynamic_start(starts[0], shape[0], dtype)]
    else:
        if not wrap:  # below the axis, where windows are moved into it
            starts = [max(i, 0) if type(i) is int else i for i in starts]
        positions = [_to_int(i, dtype) for i in starts]
        if wrap:
            positions = [_wrap(i, n) for i, n in zip(positions, shape, strict=True)]
    x = lax.dynamic_slice(x, positions, tuple(sizes), allow_negative_indices=False)
    if reverse:
        x = lax.rev(x, tuple(reverse))
    if squeeze:
        x = lax.squeeze(x, tuple(squeeze))
    return lax.expand_dims(x, tuple(new_axes)) if new_axes else x


# --- gather ---
@record(eq=True, frozen=False)
class Plan:
    """A gather or scatter: what to index, with which indices, and what its result means.

    The result has `shape`; before that, new axes are absent (`squeezed` says where they go) and the
    axes `reverse` run backwards.
    """

    expanded: tuple[int, ...]  # axes of size 1 that the operand gets first
    indices: Any
    offset_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    index_map: tuple[int, ...]
    slice_sizes: tuple[Any, ...]
    shape: tuple[Any, ...]
    core_shape: tuple[Any, ...]
    new_axes: tuple[int, ...]
    reverse: tuple[int, ...]
    exact: bool  # indices are sorted and unique by construction

    @property
    def empty(self) -> bool:
        return any(type(n) is int and n == 0 for n in self.shape)


@record(eq=True, frozen=False)
class _Axis:
    """One entry together with the axis of the operand that it indexes (None for a new axis)."""

    entry: Any
    axis: int | None
    size: Any


def plan(
    shape: tuple[Any, ...], entries: list[Any], added: list[int], wrap: bool, writes: bool
) -> Plan:
    """Works out the gather (or scatter, if it `writes`) of parsed entries on an array of this
    shape."""
    expanded: list[int] = []
    axes: list[_Axis] = []
    full = list(shape)
    k = 0
    for position, e in enumerate(entries):
        if e is None or e is Ellipsis:
            axes.append(_Axis(e, None, 1))
            continue
        if position in added:
            expanded.append(k)
            full.insert(k, 1)
        item: Any = as_slice(e, full[k], position) if isinstance(e, slice) else e
        axes.append(_Axis(item, k, full[k]))
        k += 1
    arrays = [a for a in axes if a.axis is not None and not isinstance(a.entry, Slice)]
    is_advanced = any(not _is_scalar(a.entry) for a in arrays)
    found = _layout(tuple(full), tuple(expanded), axes, arrays, is_advanced, wrap)
    # Arrays that name no element name none out of bounds, and what lies there is not written.
    if not (is_advanced and (found.empty or writes)):
        for a in arrays:
            if type(a.size) is int and a.size == 0 and _is_scalar(a.entry):
                raise IndexError(f"index is out of bounds for axis {a.axis} with size 0")
    return found


def _layout(
    full: tuple[Any, ...],
    expanded: tuple[int, ...],
    axes: list[_Axis],
    arrays: list[_Axis],
    is_advanced: bool,
    wrap: bool,
) -> Plan:
    adv_shape = check_broadcast([shape_of(a.entry) for a in arrays]) if is_advanced else ()
    dtype = _index_dtype([a.entry for a in arrays])
    advanced_at = _advanced_place(axes, arrays) if is_advanced else None
    values = _positions(arrays, dtype, wrap, is_advanced)
    # First pass: what each axis of the result is, and which batch axes the indices have.
    result: list[tuple[str, Any]] = []
    components: list[
        tuple[int, Any, tuple[int, ...]]
    ] = []  # (axis of the operand, values, batch axes of the values)
    batch_shape: list[Any] = []
    sizes: list[Any] = list(full)
    collapsed: list[int] = []
    reverse: list[int] = []
    first_batch = 0

    def put_advanced() -> None:
        nonlocal first_batch
        first_batch = len(batch_shape)
        batch_shape.extend(adv_shape)
        result.extend(("batch", n) for n in adv_shape)

    if is_advanced and advanced_at == -1:
        put_advanced()
        _add_arrays(arrays, values, components, collapsed, sizes, dtype, adv_shape, first_batch)
    for position, a in enumerate(axes):
        if a.entry is Ellipsis:
            continue
        if a.axis is None:
            result.append(("new", 1))
        elif isinstance(a.entry, Slice):
            _add_slice(a, result, components, batch_shape, sizes, collapsed, reverse, dtype)
        elif not is_advanced:
            _add_arrays([a], values, components, collapsed, sizes, dtype, (), 0)
        elif position == advanced_at:
            put_advanced()
            _add_arrays(arrays, values, components, collapsed, sizes, dtype, adv_shape, first_batch)
    return _finish(
        expanded, result, components, batch_shape, sizes, collapsed, reverse, dtype, not is_advanced
    )


def _advanced_place(axes: list[_Axis], arrays: list[_Axis]) -> int:
    """Where the axes of the index arrays go: the place of the first array if they stand together,
    else -1 (in front).
    """
    places = [k for k, a in enumerate(axes) if any(a is b for b in arrays)]
    return places[0] if places[-1] - places[0] + 1 == len(places) else -1


def _positions(arrays: list[_Axis], dtype: Any, wrap: bool, is_advanced: bool) -> dict[int, Any]:
    """The values of index entries, counted from the start of their axes; numbers that will be
    broadcast stay numbers.
    """
    values: dict[int, Any] = {}
    for a in arrays:
        i = a.entry
        if type(i) is int:
            if wrap and i < 0 and type(a.size) is int:
                i += a.size
            exact = _to_int(i, dtype)  # raises OverflowError
            values[id(a)] = i if is_advanced and not trace_state_clean() else exact
        else:
            values[id(a)] = _counted(i, a.size, dtype) if wrap else i
    return values


def _add_arrays(
    arrays: list[_Axis],
    values: dict[int, Any],
    components: Any,
    collapsed: list[int],
    sizes: list[Any],
    dtype: Any,
    adv_shape: tuple[Any, ...],
    first: int,
) -> None:
    for a in arrays:
        v = values[id(a)]
        if len(adv_shape) and shape_of(v) != tuple(adv_shape):
            values[id(a)] = lax.broadcast_in_dim(
                v, adv_shape, tuple(range(len(adv_shape) - len(shape_of(v)), len(adv_shape)))
            )
    for a in arrays:
        v = _to_int(values[id(a)], dtype)
        assert a.axis is not None
        components.append((a.axis, v, tuple(range(first, first + len(adv_shape)))))
        collapsed.append(a.axis)
        sizes[a.axis] = 1


def _add_slice(
    a: _Axis,
    result: Any,
    components: Any,
    batch_shape: list[Any],
    sizes: list[Any],
    collapsed: list[int],
    reverse: list[int],
    dtype: Any,
) -> None:
    s: Slice = a.entry
    assert a.axis is not None
    if s.whole:
        result.append(("window", a.size))
        return
    if s.step == 1:
        sizes[a.axis] = s.size
        # An empty window starts nowhere.
        if s.size != 0:
            components.append((a.axis, _to_int(s.start, dtype), ()))
        result.append(("window", s.size))
        return
    steps = lax.add(_to_int(s.start, dtype), lax.mul(dtype.type(s.step), lax.iota(dtype, s.size)))
    if s.step < 0:
        steps = lax.rev(steps, (0,))
        reverse.append(len(result))
    components.append((a.axis, steps, (len(batch_shape),)))
    batch_shape.append(s.size)
    collapsed.append(a.axis)
    sizes[a.axis] = 1
    result.append(("batch", s.size))


def _finish(
    expanded: tuple[int, ...],
    result: list[tuple[str, Any]],
    components: Any,
    batch_shape: list[Any],
    sizes: list[Any],
    collapsed: list[int],
    reverse: list[int],
    dtype: Any,
    exact: bool,
) -> Plan:
    batch = tuple(batch_shape)
    columns = [lax.broadcast_in_dim(v, (*batch, 1), where) for _, v, where in components]
    if not columns:
        indices: Any = np.zeros((*batch, 0), dtype)
    else:
        indices = columns[0] if len(columns) == 1 else lax.concatenate(columns, len(batch))
    core = [(kind, n) for kind, n in result if kind != "new"]
    new_axes = tuple(k for k, (kind, _) in enumerate(result) if kind == "new")
    return Plan(
        expanded=expanded,
        indices=indices,
        offset_dims=tuple(k for k, (kind, _) in enumerate(core) if kind == "window"),
        collapsed=tuple(sorted(collapsed)),
        index_map=tuple(axis for axis, _, _ in components),
        slice_sizes=tuple(sizes),
        shape=tuple(n for _, n in result),
        core_shape=tuple(n for _, n in core),
        new_axes=new_axes,
        reverse=tuple(r - sum(m < r for m in new_axes) for r in reverse),
        exact=exact,
    )


def _gather(x: Any, p: Plan, mode: Any, fill_value: Any, is_sorted: bool, unique: bool) -> Any:
    if p.expanded:
        x = lax.expand_dims(x, p.expanded)
    if p.empty:
        return (
            lax.full_like(x, 0, shape=p.shape)
            if not dtypes.is_extended(typeof(x).dtype)
            else lax.broadcast_in_dim(lax.reshape(x, (-1,))[:0], p.shape, ())
        )
    numbers = lax.GatherDimensionNumbers(
        offset_dims=p.offset_dims, collapsed_slice_dims=p.collapsed, start_index_map=p.index_map
    )
    if config.noting:
        sizes = [typeof(x).shape[k] for k in p.index_map]
        noting.note_outside(p.indices, sizes)
    out = lax.gather(
        x,
        p.indices,
        numbers,
        p.slice_sizes,
        unique_indices=unique or p.exact,
        indices_are_sorted=is_sorted or p.exact,
        mode=mode,
        fill_value=fill_value,
    )
    if p.reverse:
        out = lax.rev(out, p.reverse)
    return lax.expand_dims(out, p.new_axes) if p.new_axes else out


def gather_mode(mode: Any) -> Any:
    """A mode as the user wrote it (None, a name, or a GatherScatterMode). Raises ValueError for an
    unknown one.
    """
    if mode is None:
        return None
    return lax.GatherScatterMode.from_any(mode)


def take_index(
    x: Any,
    idx: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Any:
    """`x[idx]`, with what to do out of bounds: clip (the default), fill, or promise_in_bounds."""
    x = as_array(unwrap(x))
    shape = x.shape
    if isinstance(fill_value, list | tuple) or (fill_value is not None and shape_of(fill_value)):
        raise ValueError(
            f"fill_value argument to indexed get() must be a scalar, got {fill_value!r}"
        )
    if (
        type(idx) is int
        and mode is None
        and shape
        and type(shape[0]) is int
        and -shape[0] <= idx < shape[0]
        and (idx >= 0 or wrap_negative_indices)
    ):
        return _static(x, [idx, *[slice(None)] * (len(shape) - 1)], shape)
    entries, added = parse(shape, idx)
    if mode is not None:
        if not added and all(e is None or (type(e) is slice and e == slice(None)) for e in entries):
            return _static(x, entries, shape)  # whatever the mode is called
        mode = gather_mode(mode)
    if mode in (lax.GatherScatterMode.FILL_OR_DROP, lax.GatherScatterMode.CLIP):
        entries = within_reach(entries)
    if not added and mode != lax.GatherScatterMode.FILL_OR_DROP:
        negative = not wrap_negative_indices and any(type(e) is int and e < 0 for e in entries)
        apart = negative or _cuts_what_is_divided(x, entries)
        out = NotImplemented if apart else _static(x, entries, shape)
        if out is NotImplemented:
            out = _dynamic(x, entries, shape, wrap_negative_indices)
        if out is not NotImplemented:
            return out
    elif not added and not any(
        hasattr(e, "shape") or type(e) is int or isinstance(e, Slice) for e in entries
    ):
        return _static(x, entries, shape)
    p = plan(shape, entries, added, wrap_negative_indices, writes=False)
    chosen = lax.GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else mode
    return _gather(
        x, p, chosen, fill_value if mode is not None else None, indices_are_sorted, unique_indices
    )


def _cuts_what_is_divided(x: Any, entries: list[Any]) -> bool:
    """Outside of programs, does this take parts of an array on several devices? They are taken from
    positions that the program does not know, so that axes that are cut are whole on each device.
    """
    lies = getattr(x, "_lies_on", None)
    return (
        isinstance(lies, Sharding)
        and lies.num_devices > 1
        and x.aval._sharding is None
        and any(isinstance(e, slice) and e != slice(None) for e in entries)
    )


def getitem(self: Any, idx: Any, /) -> Any:
    """`x[idx]`, as NumPy indexes; out of bounds, positions are clamped."""
    read = getattr(getattr(self, "aval", None), "_getitem", None)  # a mutable reference's
    return take_index(self, idx) if read is None else read(self, idx)


keys.advanced_getitem[0] = getitem


def iterate(x: Any) -> Any:
    """The parts of `x` along its first axis."""
    shape = x.shape
    if not shape:
        raise TypeError("iteration over a 0-d array")
    rest = shape[1:]
    zeros = (0,) * len(rest)
    for i in range(shape[0]):
        part = lax.slice(x, (i, *zeros), (i + 1, *rest), (1,) * len(shape))
        yield lax.squeeze(part, (0,))
