"""What stands in the brackets of `x[idx]`: entries for the axes of x, as NumPy reads them.

`parse` gives one entry per axis of x (int, slice, `Slice`, array) or new axis (None); masks become
positions.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..control.ref_places import RefSlice
from ..core.avals import typeof
from ..core.dims import DimExpr, max_dim, min_dim
from ..core.trace import Tracer
from ..errors import NonConcreteBooleanIndexError
from ..primitives.common import as_array, as_int
from ..records import record
from .util import canonical, shape_of, unwrap


@record(eq=True)
class Slice:
    """`size` elements from `start` by `step` (not 0). The start may be an array, where the user
    wrote `ds(start, size)`."""

    start: Any
    step: int
    size: Any
    whole: bool  # the axis itself, unchanged


def sequence_error(idx: Sequence[Any]) -> TypeError:
    """The error for a list where an index should be: of numbers it stands for an array, otherwise
    for a tuple of entries."""
    entries = any(
        e is None or e is Ellipsis or isinstance(e, Sequence | slice) or getattr(e, "ndim", 0)
        for e in idx
    )
    kind = "tuple" if entries else "array"
    return TypeError(
        "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
        f"`arr[{kind}(seq)]` instead of `arr[seq]`. See "
        "https://github.com/jax-ml/jax/issues/4564 for more information."
    )


def fits_mask(mask: Sequence[Any], axes: Sequence[Any]) -> bool:
    """Whether a mask of a shape selects from axes of these lengths. One that has no elements in
    some axis selects nothing whatever the length of that axis, as in NumPy."""
    return len(mask) == len(axes) and all(m in (0, n) for m, n in zip(mask, axes, strict=True))


def as_tuple(idx: Any) -> tuple[Any, ...]:
    """An index as a tuple of entries. Raises TypeError for what arrays cannot be indexed with."""
    if isinstance(idx, tuple):
        entries = idx
    else:
        if isinstance(idx, list) or (
            isinstance(idx, Sequence)
            and not isinstance(idx, str | bytes)
            and not hasattr(idx, "aval")
        ):
            raise sequence_error(idx)
        entries = (idx,)
    for e in entries:
        if isinstance(e, str):
            raise TypeError(
                f"JAX does not support string indexing; got idx={e!r}. "
                "Fix: keep named fields in a dict of arrays."
            )
    return entries


def _is_int(e: Any) -> bool:
    return isinstance(e, int | np.integer) and not isinstance(e, bool | np.bool_)


def _entry(e: Any) -> Any:
    """An entry in one of the forms None, Ellipsis, slice, Slice, int, or array (NumPy or
    traced)."""
    if isinstance(e, np.integer):
        return _reachable(e)
    if e is None or e is Ellipsis or isinstance(e, slice) or _is_int(e):
        return int(e) if _is_int(e) else e
    if isinstance(e, bool | np.bool_):
        return np.asarray(e)
    if isinstance(e, list | tuple):
        if any(isinstance(x, Tracer) for x in _leaves(e)):
            return lax.concatenate([lax.reshape(_int_array(x), (1, *shape_of(x))) for x in e], 0)
        e = np.asarray(e)
        if not e.size:
            e = e.astype(np.int32)
        return as_array(_checked(e))
    if isinstance(e, RefSlice):
        return Slice(e.start, e.stride, e.size, False)
    e = unwrap(e)
    if not hasattr(e, "dtype") or not hasattr(e, "shape"):
        if hasattr(e, "__index__"):
            return as_int(e, "e")
        if not isinstance(e, float | complex | str | bytes):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or "
                f"boolean arrays are valid indices. Got {e}"
            )
        d = type(e).__name__ if isinstance(e, str | bytes) else np.asarray(e).dtype
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {d}")
    return _held(_checked(e))


def _held(e: Any) -> Any:
    """Positions of 64 bits, made where those were on, are of 32 where they are off."""
    if e.dtype.itemsize < 8 or (d := typeof(e).dtype) == (held := dtypes.canonicalize_dtype(d)):
        return e
    return lax.convert_element_type(e, held)


def _leaves(e: Any) -> list[Any]:
    return [y for x in e for y in _leaves(x)] if isinstance(e, list | tuple) else [e]


def _int_array(x: Any) -> Any:
    return x if hasattr(x, "aval") else np.asarray(x, np.int32)


def _checked(e: Any) -> Any:
    d = e.dtype
    if not (dtypes.is_integer(d) or dtypes.is_bool(d)):
        name = getattr(d, "name", d)
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {name}")
    return e


def _expand_masks(entries: Sequence[Any], shape: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """Masks as arrays of positions; scalar bools as an index into an axis of size 1, whose places
    among the entries are returned.
    """
    out: list[Any] = []
    added: list[int] = []
    axis = 0
    total = sum(_consumed(e) for e in entries)
    for position, e in enumerate(entries):
        if e is Ellipsis:
            axis += len(shape) - total
            out.append(e)
        elif hasattr(e, "dtype") and dtypes.is_bool(e.dtype):
            if isinstance(e, Tracer):
                raise NonConcreteBooleanIndexError(e)
            mask = np.asarray(e)
            if not mask.ndim:
                added.append(len(out))
                out.append(np.zeros(int(mask), np.int32))
                continue
            expected = shape[axis : axis + mask.ndim]
            if not fits_mask(mask.shape, expected):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {position}: got "
                    f"{mask.shape}, expected {list(expected)}"
                )
            out.extend(w.astype(np.int32) for w in np.nonzero(mask))
            axis += mask.ndim
        else:
            out.append(e)
            axis += _consumed(e)
    return out, added


def _consumed(e: Any) -> int:
    if e is None or e is Ellipsis:
        return 0
    if hasattr(e, "dtype") and dtypes.is_bool(e.dtype):
        return len(e.shape)
    return 1


def parse(shape: tuple[Any, ...], idx: Any) -> tuple[list[Any], list[int]]:
    """(entries that cover every axis, without Ellipsis unless it stands for no axis among arrays;
    places of the entries that index an added axis of size 1).
    """
    raw = [_entry(e) for e in as_tuple(idx)]
    if sum(e is Ellipsis for e in raw) > 1:
        raise IndexError(
            "an index can only have a single ellipsis ('...'). Fix: write `:` for the other axes."
        )
    used = sum(_consumed(e) for e in raw)
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed. "
            f"Fix: use at most {len(shape)}, or add axes with x[..., None]."
        )
    entries, added = _expand_masks(raw, shape)
    fill = [slice(None)] * (len(shape) - used)
    where = next((k for k, e in enumerate(entries) if e is Ellipsis), None)
    if where is None:
        return entries + fill, added
    if not fill and any(getattr(e, "shape", ()) for e in entries):
        return entries, added  # the arrays on its sides stand apart, as NumPy has it
    added = [k if k < where else k + len(fill) - 1 for k in added]
    return entries[:where] + fill + entries[where + 1 :], added


def as_slice(e: slice, n: Any, position: int) -> Slice:
    """A slice against an axis of size n."""
    if e.start is None and e.stop is None and e.step is None:
        return Slice(0, 1, n, True)
    parts: list[Any] = []
    for p in (e.start, e.stop, e.step):
        if isinstance(p, DimExpr):
            parts.append(p)
            continue
        if isinstance(p, Tracer) or (p is not None and not hasattr(p, "__index__")):
            # As NumPy and JAX: TypeError for what no integer is, IndexError for traced ones.
            raise (IndexError if hasattr(p, "aval") else TypeError)(
                f"Slice entries must be static integers. Got {e} at position {position}. "
                "Fix: lax.dynamic_slice(x, starts, sizes) takes traced starts; the sizes must be "
                "static."
            )
        parts.append(None if p is None else operator.index(p))
    if parts[2] == 0:
        raise ValueError("slice step cannot be zero")
    if any(isinstance(p, DimExpr) for p in (n, *parts)):
        start, stop, step = parts
        return _symbolic_slice(start, stop, step, n)
    n = int(n)
    start, stop, step = slice(*parts).indices(n)
    size = len(range(start, stop, step))
    return Slice(start, step, size, step == 1 and size == n)


def _symbolic_slice(start: Any, stop: Any, step: Any, n: Any) -> Slice:
    """A slice of symbolic ends, or against an axis of symbolic size."""
    step = 1 if step is None else step
    forward = step > 0
    least, most = (0, n) if forward else (-1, n - 1)

    def end(p: Any, default: Any) -> Any:
        if p is None:
            return default
        return min_dim(most, p) if p >= 0 else max_dim(n + p, least)

    start = end(start, 0 if forward else n - 1)
    stop = end(stop, n if forward else -1)
    size = max_dim((stop - start + step - (1 if forward else -1)) // step, 0)
    return Slice(start, step, size, type(step) is int and step == 1 and size == n)


def _reachable(e: np.integer[Any]) -> int:
    """A number of NumPy's as an index. One that the default width does not hold loses its upper
    bits, as in JAX; where a negative one is left, or was there, it is out of bounds."""
    info, i = np.iinfo(dtypes.default_int()), int(e)
    if info.min <= i <= info.max:
        return i
    left = int(canonical(e))
    return info.min if i < 0 or left < 0 else left


def within_reach(entries: list[Any]) -> list[Any]:
    """The entries of an index that may lie out of bounds: integers beyond the default width do,
    and become its first or last.
    """
    info = np.iinfo(dtypes.default_int())
    return [min(max(e, info.min), info.max) if type(e) is int else e for e in entries]
