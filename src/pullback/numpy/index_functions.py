"""Functions that find, take and put elements by position: where, nonzero, take, put, select,
choose, ...
"""

# Longer than other files: one short function for each of NumPy's.

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.vmap import vmap
from ..core.avals import typeof
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array, canonical_shape
from ..primitives.convert import convert_weak
from . import arithmetic, comparison, cumulative, indexing, reductions, scatter
from .creation import array, asarray, full
from .joining import concatenate
from .manipulation import (
    atleast_1d,
    broadcast_arrays,
    broadcast_to,
    moveaxis,
    ravel,
    reshape,
    tile,
    transpose,
)
from .ranges import arange
from .selecting import number, select_where
from .util import (
    canonical_axis,
    check_arraylike,
    default_int,
    dtype_of,
    is_arraylike,
    literal,
    ndim_of,
    promote_dtypes,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


def _count(shape: Sequence[Any]) -> Any:
    return math.prod(shape) if all(type(n) is int for n in shape) else np.prod(shape)


# --- where things are ---
def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition`, else `y`. With one argument: `nonzero(condition)`, with its `size` and
    `fill_value`.

    >>> jnp.where(jnp.arange(3) > 0, jnp.arange(3), -1)
    Array([-1,  1,  2], dtype=int32)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    check_arraylike("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    return select_where(condition, x, y)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The positions of elements that are not 0, an array for each axis. A traced array needs
    `size`: as many, padded with `fill_value`.

    >>> jnp.nonzero(jnp.array([[0, 5], [7, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> jnp.nonzero(jnp.array([0, 5, 7]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    """
    check_arraylike("nonzero", a)
    a = as_array(unwrap(a))
    if not ndim_of(a):
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() "
            "instead."
        )
    if size is None:
        if isinstance(a, Tracer):
            a = a.settled()
        if isinstance(a, Tracer):
            raise ConcretizationTypeError(
                a,
                "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero "
                "within JAX transformations: jnp.nonzero(x, size=n).",
            )
        if fill_value is None:
            return tuple(as_array(w.astype(default_int())) for w in np.nonzero(np.asarray(a)))
        size = int(np.count_nonzero(np.asarray(a)))  # nothing is filled, but its type counts
    return _nonzero_sized(a, operator.index(size), fill_value)


def _nonzero_sized(a: Any, size: int, fill_value: Any) -> tuple[Any, ...]:
    mask = a if dtypes.is_bool(typeof(a).dtype) else lax.ne(a, literal(a, 0))
    shape = shape_of(a)
    if not size or not _count(shape):
        return tuple(lax.full((size,), 0, default_int()) for _ in shape)
    # The running count of hits says into which place each falls; counting the elements before
    # each place gives its position.
    places = _clip_jit(cumulative.cumsum(mask), 0)
    found = cumulative.cumsum(scatter.update(lax.full((size,), 0, default_int()), places, 1, "add"))
    out = []
    stride = _count(shape)
    for n in shape:
        stride //= n
        out.append(_remainder(_floor_div(found, stride), n))
    if fill_value is None:
        return tuple(out)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * len(shape)
    bad = [f for f in fills if isinstance(f, list | tuple) or shape_of(f) != ()]
    if len(fills) != len(shape) or bad:
        raise ValueError(
            "nonzero: fill_value must be a scalar or a tuple of length "
            f"{len(shape)}; got {fill_value}"
        )
    total = reductions.sum_reduce(mask)
    missing = lax.ge(lax.iota(default_int(), size), lax.broadcast_in_dim(total, (size,), ()))
    return tuple(select_where(missing, f, x) for f, x in zip(fills, out, strict=True))


def _clip_low(a: Any, low: Any) -> Any:
    return lax.max(to_type(low, typeof(a).dtype, False), a)


_clip_low.__name__ = "clip"
_clip_jit = jit(_clip_low)


def _floor_div(x: Any, n: int) -> Any:
    return lax.div(x, lax.full_like(x, n))


def _remainder(x: Any, n: int) -> Any:
    return lax.rem(x, lax.full_like(x, max(n, 1)))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The flat positions of elements that are not 0.

    `size` and `fill_value` as for `nonzero`.

    >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of elements that are not 0, a row for each.

    The shape is (number found, axes of `a`); `size` and `fill_value` as for `nonzero`.

    >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    check_arraylike("argwhere", a)
    found = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if not ndim_of(a):
        return full((shape_of(found[0])[0], 0), 0, default_int())
    rows = promote_dtypes(*(lax.expand_dims(f, (0,)) for f in found))
    return transpose(lax.concatenate(rows, 0))


# --- taking ---
def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """Elements (slices along `axis`) at `indices`. Out of range: `mode` 'fill' (the default: NaN,
    or the lowest integer), 'clip' or 'wrap'.

    `a`: an array. `unique_indices`, `indices_are_sorted`: promises about `indices`;
    `fill_value`: what stands for an element out of range. `out` must be None.

    >>> jnp.take(jnp.array([1., 2., 3.]), jnp.array([0, 5]))
    Array([ 1., nan], dtype=float32)
    """
    refuse_out("take", out)
    if isinstance(indices, list | tuple):
        raise TypeError(
            f"take requires ndarray or scalar arguments, got {type(indices)} at position 1. Fix: "
            "jnp.array(indices)."
        )
    check_arraylike("take", a, indices)
    return _take_jit(
        a,
        indices,
        axis=None if axis is None else operator.index(axis),
        mode=mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


def _take(
    a: Any,
    indices: Any,
    axis: Any,
    mode: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: Any,
) -> Any:
    a, indices = as_array(unwrap(a)), as_array(unwrap(indices))
    if axis is None:
        a, axis = ravel(a), 0
    k = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[k]
    if dtypes.is_bool(typeof(indices).dtype):
        indices = to_type(indices, default_int(), False)
    if not dtypes.is_integer(typeof(indices).dtype):
        raise ValueError(
            "`indices` must have an integer type"
            if mode == "wrap"
            else "indices must have an integer type"
        )
    if mode in ("drop", "promise_in_bounds", "one_hot"):
        raise ValueError(
            f"Invalid mode {mode!r} for np.take. Fix: mode='fill', 'clip' or 'wrap'; or "
            "x.at[indices].get(mode=...)."
        )
    if mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.take is not supported. Fix: use mode='fill', 'clip' or 'wrap'."
        )
    if mode == "wrap":
        size = lax.full_like(indices, n)
        r = lax.rem(indices, size)
        indices = lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, size), r)
        how: Any = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    elif mode in ("fill", None):
        how = lax.GatherScatterMode.FILL_OR_DROP
        own = typeof(indices).dtype
        if not dtypes.is_unsigned(own):
            if type(n) is int and n > dtypes.iinfo(own).max:
                indices = lax.convert_element_type(indices, np.int32)
            negative = lax.lt(indices, literal(indices, 0))
            indices = select_where(negative, lax.add(indices, literal(indices, n)), indices)
    elif mode == "clip":
        how = lax.GatherScatterMode.CLIP
    else:
        how = lax.GatherScatterMode.from_any(mode)
    shape, m = shape_of(a), ndim_of(indices)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(k), *range(k + m, len(shape) + m - 1)),
        collapsed_slice_dims=(k,),
        start_index_map=(k,),
    )
    sizes = tuple(1 if j == k else s for j, s in enumerate(shape))
    if n == 0 and _count(shape_of(indices)):
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if n == 0:
        return lax.full_like(a, 0)  # whatever the shape of the indices, as in JAX
    columns = lax.broadcast_in_dim(indices, (*shape_of(indices), 1), tuple(range(m)))
    return lax.gather(
        a,
        columns,
        numbers,
        sizes,
        mode=how,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


_take_jit = jit(
    _take, static_argnames=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value")
)


def _take_along_axis(
    arr: Any, indices: Any, axis: Any, mode: Any, fill_value: Any, wrap: bool
) -> Any:
    arr, indices = as_array(unwrap(arr)), as_array(unwrap(indices))
    if axis is None:
        if ndim_of(indices) != 1:
            raise ValueError(
                f"take_along_axis indices must be 1D if axis=None, got shape {shape_of(indices)}"
            )
        arr, axis = ravel(arr), 0
    k = canonical_axis(axis, ndim_of(arr))
    shape, own = shape_of(arr), shape_of(indices)
    if len(own) != len(shape):
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {len(own)} vs. {len(shape)}"
        )
    n = shape[k]
    how = (
        lax.GatherScatterMode.FILL_OR_DROP if mode is None else lax.GatherScatterMode.from_any(mode)
    )
    wide = dtypes.itemsize_bits(typeof(indices).dtype) == 64
    indices = convert_weak(indices, np.dtype("int64" if wide else "int32"), False)
    if wrap:
        negative = lax.lt(indices, literal(indices, 0))
        indices = lax.select(negative, lax.add(indices, literal(indices, n)), indices)
    if how == lax.GatherScatterMode.ONE_HOT:
        return _picked_along(arr, indices, k)
    return _gather_along(arr, indices, k, shape, own, how, fill_value)


def _picked_along(arr: Any, indices: Any, k: int) -> Any:
    """Elements along axis k as products with rows that are 1 at one place: 0 for places beyond."""
    around = lax.broadcast_shapes(*(tuple(np.delete(shape_of(x), k)) for x in (arr, indices)))
    n, own = shape_of(arr)[k], shape_of(indices)[k]
    arr = broadcast_to(arr, (*around[:k], n, *around[k:]))
    indices = broadcast_to(indices, (*around[:k], own, *around[k:]))
    places = lax.broadcasted_iota(typeof(indices).dtype, (*(1,) * ndim_of(arr), n), ndim_of(arr))
    hot = comparison.equal(lax.expand_dims(indices, (ndim_of(arr),)), places)
    others = [j for j in range(ndim_of(arr)) if j != k]
    d = typeof(arr).dtype
    out = lax.dot_general(
        hot, arr, (([ndim_of(arr)], [k]), (others, others)),
        precision=lax.Precision.HIGHEST if dtypes.is_inexact(d) else None, preferred_element_type=d,
    )  # fmt: skip
    return moveaxis(out, -1, k)


def _gather_along(
    arr: Any, indices: Any, k: int, shape: Any, own: Any, how: Any, fill_value: Any
) -> Any:
    # Axes of one size on both sides are batch axes; where one side has size 1, it is broadcast.
    batch = [j for j in range(len(shape)) if j != k and shape[j] != 1 and own[j] != 1]
    for j in range(len(shape)):
        if j != k and shape[j] != own[j] and shape[j] != 1 and own[j] != 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={[shape, own]}")
    if not _count(shape):
        out_shape = tuple(
            own[j] if j == k else max(shape[j], own[j]) if 0 not in (shape[j], own[j]) else 0
            for j in range(len(shape))
        )
        nothing = lax.full_like(arr, 0, shape=out_shape)
        return nothing if own[k] else convert_weak(nothing, typeof(arr).dtype, False)
    windows = [
        j for j in range(len(shape)) if j != k and j not in batch and own[j] == 1 and shape[j] != 1
    ]
    # The axes of the indices that remain batch axes of the gather: all but those where the array
    # supplies a window.
    kept = [j for j in range(len(shape)) if j not in windows]
    columns = lax.reshape(indices, (*(own[j] for j in kept), 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(windows),
        collapsed_slice_dims=tuple(
            j for j in range(len(shape)) if j not in windows and j not in batch
        ),
        start_index_map=(k,),
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(kept.index(j) for j in batch),
    )
    sizes = tuple(shape[j] if j in windows else 1 for j in range(len(shape)))
    return lax.gather(arr, columns, numbers, sizes, mode=how, fill_value=fill_value)


_take_along_axis.__name__ = "take_along_axis"
_take_along_axis_jit = jit(_take_along_axis, static_argnames=("axis", "mode", "fill_value", "wrap"))


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """The elements that `indices` name along `axis`, position by position in the other axes (as
    `argsort` gives them).

    `indices` has the axes of `arr`; the others broadcast. Out of range: NaN (or the least integer),
    unless `mode` is 'clip' or 'wrap'. `axis=None` flattens `arr`.

    >>> x = jnp.array([[30, 10, 20]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[10, 20, 30]], dtype=int32)
    """
    check_arraylike("take_along_axis", arr, indices)
    if not dtypes.is_integer(dtype_of(indices)):
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {dtype_of(indices).name}"
        )
    wrap = True if wrap_negative_indices is None else wrap_negative_indices
    return _take_along_axis_jit(
        arr, indices, axis=axis, mode=mode, fill_value=fill_value, wrap=wrap
    )


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The slices along `axis` where `condition` is true. Traced conditions need `size`; the rest is
    `fill_value`.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
    Array([[1, 3],
           [4, 6]], dtype=int32)
    """
    refuse_out("compress", out)
    check_arraylike("compress", condition, a, fill_value)
    condition = as_array(unwrap(condition))
    if ndim_of(condition) != 1:
        raise ValueError("condition must be a 1D array")
    a = as_array(unwrap(a))
    if axis is None:
        a, axis = ravel(a), 0
    k = canonical_axis(axis, ndim_of(a))
    if not dtypes.is_bool(typeof(condition).dtype):
        condition = lax.ne(condition, literal(condition, 0))
    n = shape_of(a)[k]
    if size is not None and not 0 <= size <= n:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got "
            f"size={size} for a.shape[axis]={n}"
        )
    if isinstance(condition, Tracer):
        condition = condition.settled()
    # With a size, JAX leaves out what lies beyond, since it could not see it under jit.
    beyond = size is None and not isinstance(condition, Tracer)
    if beyond and np.asarray(condition)[n:].any():
        raise ValueError(
            f"condition contains entries that are out of bounds: it is true beyond {n}, the size "
            "of the array's axis"
        )
    condition = indexing.take_index(condition, slice(0, n))
    if size is None:
        if isinstance(condition, Tracer):
            raise ConcretizationTypeError(
                condition, "jnp.compress needs a static `size` for a traced condition."
            )
        keep = np.nonzero(np.asarray(condition))[0].astype(np.int32)
        return indexing.take_index(a, (*(slice(None),) * k, keep))
    (keep,) = nonzero(condition, size=size, fill_value=n)
    picked = take(a, keep, axis=k, mode="clip")
    missing = lax.ge(keep, literal(keep, n))
    shape = tuple(size if j == k else 1 for j in range(ndim_of(a)))
    fill = lax.convert_element_type(as_array(unwrap(fill_value)), typeof(a).dtype)
    return to_type(select_where(lax.reshape(missing, shape), fill, picked), typeof(a).dtype, False)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements where `condition` is true, flattened.

    `size` and `fill_value` as for `compress`.

    >>> x = jnp.arange(6)
    >>> jnp.extract(x % 2 == 1, x)
    Array([1, 3, 5], dtype=int32)
    """
    check_arraylike("extract", condition, arr)
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """For each element of `a`, the element of the array of that number among `choices`. `mode`
    'wrap' or 'clip' for what is out of range.

    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    """
    refuse_out("choose", out)
    parts = (
        list(choices)
        if isinstance(choices, list | tuple)
        else list(indexing.iterate(as_array(choices)))
    )
    check_arraylike("choose", a, *parts)
    if not dtypes.is_integer(dtype_of(a)):
        raise ValueError("`a` array must be integer typed")
    n = len(parts)
    a = as_array(unwrap(a))
    if mode == "raise":
        if isinstance(a, Tracer):
            raise ConcretizationTypeError(
                a,
                "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use "
                "mode='wrap' or mode='clip' instead.",
            )
        if (np.asarray(a) < 0).any() or (np.asarray(a) >= n).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        r = lax.rem(a, lax.full_like(a, n))
        a = lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, lax.full_like(r, n)), r)
    elif mode == "clip":
        a = lax.clamp(literal(a, 0), a, literal(a, n - 1))
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    a, *parts = broadcast_arrays(a, *promote_dtypes(*parts))
    parts = [to_type(p, typeof(p).dtype, False) for p in parts]
    whole = lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)
    grid = [lax.broadcasted_iota(np.int32, shape_of(a), k) for k in range(ndim_of(a))]
    return indexing.take_index(whole, (a, *grid))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Of `choicelist`, the array whose condition is the first true one; `default` where none is.

    Conditions and choices broadcast. Raises ValueError if there is not one choice for each
    condition.

    >>> x = jnp.arange(5)
    >>> jnp.select([x < 2, x > 3], [x, x * 10], default=-1)
    Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    condlist, choicelist = (
        list(indexing.iterate(as_array(x))) if hasattr(x, "shape") else x
        for x in (condlist, choicelist)
    )
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not condlist:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    default, *choices = promote_dtypes(default, *choicelist)
    conditions = [as_array(unwrap(c)) for c in condlist]
    dtypes.result_type(np.dtype(bool), *conditions)  # refused by strict promotion
    conditions = [
        c if dtypes.is_bool(typeof(c).dtype) else lax.ne(c, literal(c, 0)) for c in conditions
    ]
    arrays = broadcast_arrays(*conditions, default, *choices)
    conditions, default, choices = (
        arrays[: len(conditions)],
        arrays[len(conditions)],
        arrays[len(conditions) + 1 :],
    )
    if len(conditions) == 1:
        return lax.select(conditions[0], choices[0], default)
    # The first true condition: the position of the first maximum, with a condition in front that is
    # never true.
    table = lax.stack([lax.full_like(conditions[0], False), *conditions], 0)
    return lax.select_n(lax.argmax(table, 0, np.int32), default, *choices)


def _piecewise(
    x: Any, masks: Any, values: Any, args: Any, kw: Any, functions: tuple[Any, ...]
) -> Any:
    """Each element of x through the function whose mask is the last that holds there (the last
    function where none does). `values` are what stands for None among `functions`.
    """
    none = lax.full_like(masks[:1], False)
    which = reductions.argmax(cumulative.cumsum(concatenate([none, masks]), axis=0), axis=0)
    d = typeof(x).dtype

    def branch(f: Any, place: int) -> Callable[..., Any]:
        def chosen(element: Any, values: Any) -> Any:
            y = values[place] if f is None else f(element, *args, **kw)
            return to_type(y, d, False)

        return chosen

    places = np.cumsum([f is None for f in functions]) - 1
    branches = [branch(f, int(k)) for f, k in zip(functions, places, strict=True)]

    def element(which: Any, x: Any, values: Any) -> Any:
        return lax.switch(which, branches, x, values)

    which, x = broadcast_arrays(which, x)
    values = [v if not shape_of(v) else broadcast_to(v, x.shape) for v in values]
    for _ in range(x.ndim):
        element = vmap(element, in_axes=(0, 0, [0 if shape_of(v) else None for v in values]))
    return element(which, x, values)


_piecewise_jit = jit(_piecewise, static_argnames=("functions",))


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions (or values) by condition: of `funclist`, the last whose condition is true; one more
    entry is for elsewhere, else 0.

    A function is called with one element, and with `args` and `kw`. Derivatives are those of the
    function that is chosen, whatever the others' are.

    >>> x = jnp.array([-2.0, 0.0, 3.0])
    >>> jnp.piecewise(x, [x < 0, x > 0], [lambda v: -v, lambda v: v * v, 100.0])
    Array([  2., 100.,   9.], dtype=float32)
    """
    check_arraylike("piecewise", x)
    x = as_array(unwrap(x))
    if not isinstance(condlist, list | tuple):
        condlist = as_array(unwrap(condlist))
        condlist = indexing.iterate(condlist) if ndim_of(condlist) else [condlist]
    conditions = [asarray(c, dtype=bool) for c in condlist]
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.insert(0, 0)
    elif len(functions) == len(conditions) + 1:
        functions.insert(0, functions.pop())
    else:
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected; got {len(functions)}"
        )
    values = [f for f in functions if not callable(f)]
    called = tuple(f if callable(f) else None for f in functions)
    rows = [lax.expand_dims(c, (0,)) for c in broadcast_arrays(*conditions)]
    masks = concatenate(rows) if rows else np.zeros((0, *x.shape), bool)
    return _piecewise_jit(x, masks, values, args, kw, functions=called)


# --- putting ---
def _refuse_inplace(
    name: str, inplace: bool, call: str, error: type[Exception] = ValueError
) -> None:
    if inplace:
        raise error(
            f"jnp.{name}: arrays are immutable, so it cannot change its argument. Fix: pass "
            f"inplace=False and use the result: x = jnp.{call}."
        )


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The positions along each axis of flat positions in an array of `shape`; out of range, the
    nearest valid.

    A tuple of arrays of the shape of `indices`. Sizes may be traced.

    >>> jnp.unravel_index(jnp.array([4, 1]), (2, 3))
    (Array([1, 0], dtype=int32), Array([1, 1], dtype=int32))
    """
    check_arraylike("unravel_index", indices)
    sizes = tuple(shape) if isinstance(shape, Sequence) or ndim_of(shape) else (shape,)
    rest = as_array(unwrap(indices))
    own = typeof(rest).dtype
    short = dtypes.is_integer(own) and own.itemsize < 4
    wide = short and any(type(n) is int and n > dtypes.iinfo(own).max for n in sizes)
    if wide:
        rest = lax.convert_element_type(rest, np.dtype("int32"))
    positions = []
    for n in reversed(sizes):
        rest, position = arithmetic.divmod(rest, n)
        positions.append(position)
    if not sizes:
        return ()
    over = comparison.greater(rest, 0)
    under = False if dtypes.is_unsigned(typeof(rest).dtype) else comparison.less(rest, -1)
    clamped = (
        select_where(over, n - 1, select_where(under, 0, i))
        for n, i in zip(sizes, reversed(positions), strict=True)
    )
    return tuple(lax.convert_element_type(i, own) if wide else i for i in clamped)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of `a` with the values `v` (repeated as needed) at flat positions `ind`. `mode`:
    'clip' (the default) or 'wrap'.

    `inplace=False` must be given: arrays cannot be changed.

    >>> jnp.put(jnp.zeros(4), jnp.array([0, 2]), jnp.array([5.0, 6.0]), inplace=False)
    Array([5., 0., 6., 0.], dtype=float32)
    """
    _refuse_inplace("put", inplace, "put(x, ind, v, inplace=False)")
    check_arraylike("put", a, ind, v)
    a, ind, v = as_array(unwrap(a)), ravel(ind), ravel(v)
    if not _count(shape_of(a)) or not shape_of(ind)[0] or not shape_of(v)[0]:
        return a
    n, m = _count(shape_of(a)), shape_of(ind)[0]
    if shape_of(v)[0] < m:
        v = tile(v, -(-m // shape_of(v)[0]))
    v = lax.slice_in_dim(v, 0, m) if shape_of(v)[0] != m else v
    if mode is None:
        how: str = "drop"
    elif mode == "clip":
        ind, how = lax.clamp(literal(ind, 0), ind, literal(ind, n - 1)), "drop"
    elif mode == "wrap":
        r = lax.rem(ind, lax.full_like(ind, n))
        ind, how = (
            lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, lax.full_like(r, n)), r),
            "drop",
        )
    elif mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.put is not supported. Fix: use mode='clip' or 'wrap'."
        )
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    if mode is None:
        where_: tuple[Any, ...] = unravel_index(ind, shape_of(a))
        return scatter.update(a, where_, v, "set", mode=how)
    return reshape(scatter.update(ravel(a), ind, v, "set", mode=how), shape_of(a))


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of `arr` with the values `vals`, one after another and repeated, where `mask`
    is true.

    `inplace=False` must be given: arrays cannot be changed.

    >>> x = jnp.arange(5)
    >>> jnp.place(x, x > 2, jnp.array([0]), inplace=False)
    Array([0, 1, 2, 0, 0], dtype=int32)
    """
    check_arraylike("place", arr, mask, vals)
    _refuse_inplace("place", inplace, "place(x, mask, vals, inplace=False)")
    arr, mask, vals = as_array(unwrap(arr)), as_array(unwrap(mask)), ravel(vals)
    if _count(shape_of(arr)) != _count(shape_of(mask)):
        raise ValueError("place: arr and mask must be the same size")
    if not shape_of(vals)[0]:
        raise ValueError("Cannot place values from an empty array")
    if not _count(shape_of(arr)):
        return arr
    flat = ravel(mask)
    hit = flat if dtypes.is_bool(typeof(flat).dtype) else lax.ne(flat, literal(flat, 0))
    # The k-th hit takes the k-th value.
    order = lax.sub(cumulative.cumsum(hit), number(1, dtype_of(cumulative.cumsum(hit))))
    which = lax.rem(
        lax.max(order, lax.full_like(order, 0)), lax.full_like(order, shape_of(vals)[0])
    )
    scatter.warn_unsafe(arr, vals)
    values = to_type(take(vals, which, mode="clip"), typeof(arr).dtype, False)
    return reshape(lax.select(hit, values, ravel(arr)), shape_of(arr))


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any, mode: Any) -> Any:
    arr, indices = as_array(unwrap(arr)), as_array(unwrap(indices))
    shape = shape_of(arr)
    flat = axis is None
    if flat:
        arr, axis = ravel(arr), 0
    k = canonical_axis(axis, ndim_of(arr))
    if ndim_of(indices) != ndim_of(arr):
        raise ValueError(
            f"put_along_axis arguments 'arr' and 'indices' must have same ndim. Got {ndim_of(arr)} "
            f"and {ndim_of(indices)}."
        )
    own = lax.broadcast_shapes(
        tuple(1 if j == k else n for j, n in enumerate(shape_of(arr))), shape_of(indices)
    )
    values = as_array(unwrap(values))
    values = (
        lax.broadcast_in_dim(values, own, tuple(range(len(own) - ndim_of(values), len(own))))
        if shape_of(values) != own
        else values
    )
    grid: list[Any] = []
    for j, n in enumerate(own):
        if j == k:
            grid.append(indices)
        else:
            grid.append(
                lax.broadcast_in_dim(
                    lax.iota(np.int32, n), tuple(n if i == j else 1 for i in range(len(own))), (j,)
                )
            )
    out = scatter.update(arr, tuple(grid), values, "set", mode=mode)
    return reshape(out, shape) if flat else out


_put_along_axis.__name__ = "put_along_axis"
_put_along_axis_jit = jit(_put_along_axis, static_argnames=("axis", "mode"))


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Any:
    """A copy of `arr` with `values` at the positions that `indices` name along `axis`.

    `inplace=False` must be given: arrays cannot be changed.

    >>> x = jnp.array([[1, 2, 3], [4, 5, 6]])
    >>> jnp.put_along_axis(x, jnp.array([[0], [2]]), 0, axis=1, inplace=False)
    Array([[0, 2, 3],
           [4, 5, 0]], dtype=int32)
    """
    _refuse_inplace(
        "put_along_axis", inplace, "put_along_axis(x, indices, values, axis, inplace=False)"
    )
    check_arraylike("put_along_axis", arr, indices, values)
    return _put_along_axis_jit(arr, indices, values, axis=axis, mode=mode)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of `a` with `val` on the main diagonal.

    `inplace=False` must be given: arrays cannot be changed. `wrap`: the diagonal of a tall matrix
    starts again.

    >>> jnp.fill_diagonal(jnp.zeros((2, 3)), 5.0, inplace=False)
    Array([[5., 0., 0.],
           [0., 5., 0.]], dtype=float32)
    """
    call = "fill_diagonal(x, val, inplace=False)"
    _refuse_inplace("fill_diagonal", inplace, call, NotImplementedError)
    check_arraylike("fill_diagonal", a, val)
    a = as_array(unwrap(a))
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    val = as_array(unwrap(val))
    n = min(shape)
    if wrap:
        raise NotImplementedError(
            "wrap=True is not implemented, must be wrap=False. Fix: index with x.at[i, i % "
            "n].set(val)."
        )
    if ndim_of(val):
        flat = ravel(val)
        val = take(
            flat,
            lax.rem(lax.iota(np.int32, n), lax.full((n,), shape_of(flat)[0], np.int32)),
            mode="clip",
        )
    i = lax.iota(np.int32, n)
    return scatter.update(a, (i,) * len(shape), val, "set")


# --- sets of indices ---
def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of size n.

    A tuple of `ndim` arrays, each of size n.

    >>> jnp.arange(9).reshape(3, 3)[jnp.diag_indices(3)]
    Array([0, 4, 8], dtype=int32)
    """
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (lax.iota(default_int(), n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of `arr`.

    Raises ValueError unless `arr` has two or more axes, all of one size.

    >>> jnp.diag_indices_from(jnp.zeros((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    check_arraylike("diag_indices_from", arr)
    shape = shape_of(arr)
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def _mask_positions(mask: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return tuple(as_array(w.astype(default_int())) for w in np.nonzero(mask))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the lower triangle of an n x m matrix.

    A tuple of two arrays, rows and columns; `k` shifts the diagonal; m is by default n.

    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _mask_positions(_tri("tril_indices", n, m, k))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the upper triangle of an n x m matrix.

    A tuple of two arrays, rows and columns; `k` shifts the diagonal; m is by default n.

    >>> jnp.triu_indices(2, k=1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    return _mask_positions(~_tri("triu_indices", n, m, k - 1))


def _tri(name: str, n: int, m: int | None, k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    rows, columns = operator.index(n), operator.index(n if m is None else m)
    if rows < 0 or columns < 0:
        raise TypeError(f"{name}: sizes must be nonnegative, got n={n} and m={m}")
    return np.tri(rows, columns, k, dtype=bool)


def _two_axes(name: str, arr: Any) -> tuple[int, int]:
    shape = shape_of(arr)
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted by jnp.{name}, got {len(shape)} dimensions")
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the lower triangle of `arr`.

    A tuple of two arrays. ValueError unless `arr` has two axes.

    >>> jnp.tril_indices_from(jnp.zeros((2, 3)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _two_axes("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the upper triangle of `arr`.

    A tuple of two arrays. ValueError unless `arr` has two axes.

    >>> jnp.triu_indices_from(jnp.zeros((2, 3)), k=1)
    (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    n, m = _two_axes("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, Any]:
    """Where `mask_func(ones((n, n)), k)` is not 0.

    A tuple of two arrays of indices, as from `nonzero`.

    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return nonzero(mask_func(lax.full((n, n), 1, np.float32), k), size=size)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Any:
    """The flat position of positions along each axis. `mode` 'raise' (not under jit), 'wrap' or
    'clip' for what is out of range; 'ignore' computes as if nothing were.

    >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    """
    sizes = canonical_shape(dims)
    parts = (
        list(multi_index)
        if isinstance(multi_index, list | tuple)
        else list(indexing.iterate(as_array(multi_index)))
    )
    if len(parts) != len(sizes):
        raise ValueError(f"len(multi_index)={len(parts)} != len(dims)={len(sizes)}")
    check_arraylike("ravel_multi_index", *parts)
    parts = [as_array(unwrap(p)) for p in parts]
    if any(not dtypes.is_integer(typeof(p).dtype) for p in parts):
        kinds = [typeof(p).dtype.name for p in parts]
        error = TypeError if "bool" in kinds else ValueError
        raise error(f"ravel_multi_index: only int indices permitted, got {kinds}")
    if mode not in ("raise", "clip", "wrap", "ignore"):
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    done = []
    for p, n in zip(parts, sizes, strict=True):
        if mode == "ignore":
            done.append(p)
        elif mode == "raise":
            if isinstance(p, Tracer):
                raise ConcretizationTypeError(
                    p,
                    "The error occurred because ravel_multi_index was jit-compiled with "
                    "mode='raise'. Use mode='wrap' or mode='clip' instead.",
                )
            if (np.asarray(p) < 0).any() or (np.asarray(p) >= n).any():
                raise ValueError("invalid entry in coordinates array")
            done.append(p)
        elif mode == "clip":
            done.append(lax.clamp(literal(p, 0), p, literal(p, n - 1)))
        else:
            r = lax.rem(p, lax.full_like(p, n))
            done.append(
                lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, lax.full_like(r, n)), r)
            )
    if dtype is not None:
        dtype = user_dtype(dtype, "ravel_multi_index")
        if not dtypes.is_integer(dtype):
            raise ValueError(f"ravel_multi_index: {dtype=} is not an integer type.")
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1] if order == "C" else np.cumprod([1, *sizes[:-1]])
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    done = broadcast_arrays(*promote_dtypes(*done)) if done else []
    out: Any = number(0, typeof(done[0]).dtype if done else np.int32)
    for p, s in zip(done, strides, strict=True):
        out = lax.add(out, lax.mul(p, literal(p, int(s))))
    out = as_array(out)
    return out if dtype is None else lax.convert_element_type(out, dtype)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Arrays of indices (or masks) shaped so that together they index a grid.

    >>> rows, columns = jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))
    >>> jnp.arange(12).reshape(3, 4)[rows, columns]
    Array([[ 1,  3],
           [ 9, 11]], dtype=int32)
    """
    out = []
    for k, a in enumerate(args):
        a = array(a, copy=False) if not is_arraylike(a) else as_array(unwrap(a))
        if ndim_of(a) != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {shape_of(a)}"
            )
        if dtypes.is_bool(typeof(a).dtype):
            (a,) = nonzero(a)
        if not shape_of(a)[0]:
            a = to_type(a, default_int(), False)
        out.append(lax.reshape(a, tuple(shape_of(a)[0] if j == k else 1 for j in range(len(args)))))
    return tuple(out)


class _IndexExpression:
    """`s_[...]` and `index_exp[...]`: an index, written as one.

    `index_exp` always gives a tuple.

    >>> jnp.s_[1:3, ..., 0]
    (slice(1, 3, None), Ellipsis, 0)
    >>> jnp.arange(6)[jnp.s_[::2]]
    Array([0, 2, 4], dtype=int32)
    """

    def __init__(self, as_tuple: bool) -> None:
        self.as_tuple = as_tuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self.as_tuple and not isinstance(item, tuple) else item


index_exp = _IndexExpression(True)
s_ = _IndexExpression(False)


class _Concatenator:
    """`r_[...]` and `c_[...]`: slices, numbers and arrays joined.

    `r_` joins along the first axis (a leading text names another), `c_` along the last, vectors
    being columns. A slice with a complex step is a number of points.

    >>> jnp.r_[0, 1:3, jnp.array([7, 8])]
    Array([0, 1, 2, 7, 8], dtype=int32)
    >>> jnp.c_[jnp.array([1, 2]), jnp.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    def __init__(self, axis: int, ndmin: int, trans1d: int, name: str) -> None:
        self.axis, self.ndmin, self.trans1d, self.name = axis, ndmin, trans1d, name

    def __repr__(self) -> str:
        return f"<jax.numpy.{self.name}>"

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        as_matrix = False
        if items and isinstance(items[0], str):
            axis, ndmin, trans1d, as_matrix = _directive(items.pop(0), axis, ndmin, trans1d)
        parts = [self._part(item, ndmin, trans1d) for item in items]
        out = concatenate(parts, axis)
        if as_matrix is not False and ndim_of(out) == 1:
            out = lax.expand_dims(out, (1 if as_matrix == "c" else 0,))  # type: ignore[comparison-overlap]
        return out

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        if isinstance(item, slice):
            step = 1 if item.step is None else item.step
            start = 0 if item.start is None else item.start
            if isinstance(step, complex):
                values = np.linspace(start, item.stop, int(abs(step)))
                made = array(values.astype(dtypes.canonicalize_dtype(np.float64)))
            else:
                made = arange(start, item.stop, step)
            given = 1
        else:
            made = array(item, copy=False)
            given = ndim_of(made)
        made = atleast_1d(made) if not ndim_of(made) else made
        if ndim_of(made) < ndmin:
            grown = lax.expand_dims(made, tuple(range(ndmin - ndim_of(made))))
            if trans1d != -1 and given < ndmin:
                order = list(range(ndmin))
                moved = order[ndmin - max(given, 1) :]
                rest = order[: ndmin - max(given, 1)]
                k = trans1d if trans1d >= 0 else trans1d + len(rest) + 1
                grown = lax.transpose(grown, (*rest[:k], *moved, *rest[k:]))
            made = grown
        return made


def _directive(text: str, axis: int, ndmin: int, trans1d: int) -> Any:
    if text in ("r", "c"):
        return axis, ndmin, trans1d, text
    try:
        values = [int(v) for v in text.split(",")]
    except ValueError:
        raise ValueError(f"could not understand directive {text!r}") from None
    if not 1 <= len(values) <= 3:
        raise ValueError(f"could not understand directive {text!r}")
    return (*values, *(axis, ndmin, trans1d)[len(values) :], False)


r_ = _Concatenator(0, 1, -1, "r_")
c_ = _Concatenator(-1, 2, 0, "c_")
