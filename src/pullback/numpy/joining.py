"""Joining and splitting: concatenate, stack, block, append; split and its kin; insert, delete,
trim_zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.vmap import vmap
from ..core.avals import typeof
from ..core.dims import DimExpr
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array, as_size, is_symbolic
from . import indexing, scatter
from .creation import asarray
from .manipulation import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel, transpose
from .util import (
    canonical_axis,
    check_arraylike,
    check_broadcast,
    concrete,
    dtype_of,
    literal,
    ndim_of,
    promote_dtypes,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


def _is_array(x: Any) -> bool:
    """Is it one array, and no container of arrays that tells the shapes of its elements?"""
    shape = getattr(x, "shape", None)
    return shape is not None and not any(isinstance(n, tuple) for n in shape)


def _sequence(name: str, arrays: Any) -> list[Any]:
    if _is_array(arrays):
        if not shape_of(arrays):
            what = "Need at least one array to concatenate: it" if name == "concatenate" else name
            raise ValueError(f"{what} takes a sequence of arrays, got an array without axes")
        return list(indexing.iterate(as_array(arrays)))
    once = isinstance(arrays, Iterator)  # generators are refused, as NumPy and JAX do
    try:
        parts = None if once else list(arrays)
    except TypeError:
        parts = None
    if parts is None:
        raise TypeError(
            f"{name} takes a sequence of arrays, got {type(arrays)}. Fix: write jnp.{name}([a, b])."
        )
    check_arraylike(name, *parts)
    return [unwrap(a) for a in parts]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays one after another along `axis` (None: flattened first).

    The other sizes must agree, else TypeError. `dtype`: by default the promoted one. ValueError for
    no arrays at all.

    >>> jnp.concatenate([jnp.zeros(2), jnp.ones(1)])
    Array([0., 0., 1.], dtype=float32)
    """
    if _is_array(arrays) and shape_of(arrays) and axis is not None:
        return _concatenate_parts(asarray(arrays, dtype), axis)
    parts = _sequence("concatenate", arrays)
    if not parts:
        raise ValueError(
            "Need at least one array to concatenate. Fix: jnp.zeros((0, ...)) is an empty array."
        )
    if axis is None:
        return concatenate([ravel(a) for a in parts], 0, dtype)
    if not ndim_of(parts[0]):
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    k = canonical_axis(axis, ndim_of(parts[0]))
    if dtype is None:
        parts = promote_dtypes(*parts) if len(parts) > 1 else [as_array(parts[0])]
    else:
        d = user_dtype(dtype, "concatenate")
        parts = [to_type(a, d, False) for a in parts]
    return lax.concatenate(parts, k) if len(parts) > 1 else as_array(parts[0])


def _concatenate_parts(a: Any, axis: int) -> Any:
    n = ndim_of(a)
    if shape_of(a)[0] == 0:
        raise ValueError("Need at least one array to concatenate.")
    if n < 2:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    k = canonical_axis(axis, n - 1)
    order = (*range(1, k + 1), 0, *range(k + 1, n))
    own = [shape_of(a)[i] for i in order]
    sizes = (*own[:k], own[k] * own[k + 1], *own[k + 2 :])
    return lax.reshape(a, sizes, dimensions=order if k else None)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays one after another along `axis`.

    They have the same sizes along the other axes, else TypeError; dtypes are promoted. `axis=None`
    flattens. TypeError for an array without axes.

    >>> jnp.concat([jnp.array([1, 2]), jnp.array([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    if _is_array(arrays) and not shape_of(arrays):
        raise TypeError("iteration over a 0-d array: concat takes a sequence of arrays")
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape along a new axis.

    Raises ValueError if the shapes differ.

    `arrays`: of one shape. `out` must be None.

    >>> jnp.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to jnp.stack is not supported. Fix: use the returned array."
        )
    if _is_array(arrays):
        whole = asarray(arrays, dtype)
        if not ndim_of(whole):
            raise TypeError("stack takes a sequence of arrays, got an array without axes")
        if shape_of(whole)[0] == 0:
            raise ValueError("Need at least one array to stack.")
        return moveaxis(whole, 0, axis)
    parts = _sequence("stack", arrays)
    if not parts:
        raise ValueError("Need at least one array to stack.")
    shapes = [shape_of(a) for a in parts]
    if len({*shapes}) != 1:
        raise ValueError(
            f"All input arrays must have the same shape. Got {', '.join(map(str, shapes))}."
        )
    k = canonical_axis(axis, len(shapes[0]) + 1)
    if dtype is not None:
        d = user_dtype(dtype, "stack")
        parts = [to_type(a, d, False) for a in parts]
    else:
        parts = promote_dtypes(*parts) if len(parts) > 1 else [as_array(parts[0])]
    return lax.stack(parts, k)


def _grown(name: str, tup: Any, grow: Any) -> Any:
    """Each of some arrays with more axes: a list, or an array for the rows of one array."""
    if _is_array(tup) and shape_of(tup) and shape_of(tup)[0] != 0:
        return vmap(grow)(as_array(tup))
    return [grow(p) for p in _sequence(name, tup)]


def _ndim_of_first(parts: Any) -> int:
    if not isinstance(parts, list):
        return ndim_of(parts) - 1
    return ndim_of(parts[0]) if parts else 1


def _stacked(name: str, grow: Any, axis: Any, doc: str) -> Any:
    def f(tup: Any, dtype: Any = None) -> Any:
        grown = _grown(name, tup, grow)
        k = axis(grown) if callable(axis) else axis
        return concatenate(grown, k, dtype)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


vstack = _stacked(
    "vstack",
    atleast_2d,
    0,
    """Arrays one below another.

    One-dimensional arrays count as rows. TypeError if the rows' lengths differ.

    >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """,
)
hstack = _stacked(
    "hstack",
    atleast_1d,
    lambda parts: 0 if _ndim_of_first(parts) == 1 else 1,
    """Arrays side by side.

    Along the first axis for one-dimensional arrays, along the second otherwise.

    >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """,
)
dstack = _stacked(
    "dstack",
    atleast_3d,
    2,
    """Arrays one behind another, along the third axis.

    Shapes (n,) count as (1, n, 1), (m, n) as (m, n, 1).

    >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])]).shape
    (1, 2, 2)
    """,
)


def column_stack(tup: Any) -> Any:
    """One-dimensional arrays as columns of a matrix (matrices side by side).

    Shapes (n,) and (n, k) give (n, number of columns in all). TypeError if the lengths differ.

    >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    def column(a: Any) -> Any:
        return transpose(atleast_2d(a)) if ndim_of(a) < 2 else a

    return concatenate(_grown("column_stack", tup, column), 1)


def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


_append.__name__ = "append"
_append_jit = jit(_append, static_argnames=("axis",))


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` after `arr`, along `axis` (None: both flattened).

    Shapes must agree but for `axis`, else TypeError; dtypes are promoted.

    >>> jnp.append(jnp.array([1, 2]), jnp.array([[3], [4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    check_arraylike("append", arr, values)
    return _append_jit(arr, values, axis=axis)


def _block(tree: Any) -> tuple[Any, int]:
    if isinstance(tree, tuple):
        raise ValueError("jax.numpy.block does not allow tuples, got a tuple; use lists.")
    if isinstance(tree, list):
        if not tree:
            raise ValueError("jax.numpy.block does not allow empty list arguments")
        parts, depths = zip(*(_block(t) for t in tree), strict=True)
        if len(set(depths)) != 1:
            raise ValueError("Mismatched list depths in jax.numpy.block")
        rank = max(depths[0], max(ndim_of(p) for p in parts))
        parts = tuple(lax.broadcast_to_rank(p, rank) if ndim_of(p) < rank else p for p in parts)
        return (concatenate(list(parts), -depths[0]) if len(parts) > 1 else parts[0]), depths[0] + 1
    return as_array(unwrap(tree)), 1


def _block_all(arrays: Any) -> Any:
    return _block(arrays)[0]


_block_all.__name__ = "block"
_block_jit = jit(_block_all)


def block(arrays: Any) -> Any:
    """A matrix of blocks, from nested lists: the innermost are joined along the last axis.

    Raises ValueError if the depth of the lists differs, TypeError if sizes do not fit.

    >>> one, zero = jnp.ones((1, 2)), jnp.zeros((1, 1))
    >>> jnp.block([[one, zero], [zero, one]])
    Array([[1., 1., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    return _block_jit(arrays)


# --- splitting ---
def _boundaries(name: str, n: int, sections: Any, even: bool) -> list[int]:
    what = f"in jax.numpy.{name} argument 1"
    sections = concrete(sections, what)
    if isinstance(sections, list | tuple) or (hasattr(sections, "shape") and shape_of(sections)):
        if isinstance(sections, list | tuple):
            sections = [concrete(s, what) for s in sections]
        inner = [as_size(s, f"a section of {name}") for s in np.asarray(sections).tolist()]
        inner = [min(max(s + n if s < 0 else s, 0), n) for s in inner]
        edges = [0]
        for s in inner:
            edges.append(max(s, edges[-1]))
        return [*edges, max(n, edges[-1])]
    if is_symbolic(sections):
        raise ValueError(
            f"jax.numpy.{name} with a symbolic number of sections is not supported, got "
            f"{sections}. Fix: give an integer, or the places to split at."
        )
    k = int(sections if not hasattr(sections, "item") else sections.item())  # as NumPy
    if k == 0:
        raise ZeroDivisionError("number of sections must be larger than 0, got 0")
    if k < 0:
        raise ValueError(f"number of sections must be larger than 0, got {k}")
    part: Any
    rest: Any  # symbolic, if the size is
    part, rest = divmod(n, k)
    if even and (isinstance(rest, DimExpr) or rest):
        raise ValueError(
            f"array split does not result in an equal division: rest is {rest}. "
            "Fix: use jnp.array_split for parts of unequal size."
        )
    return list(np.cumsum([0] + [part + 1] * rest + [part] * (k - rest)).tolist())


def _split(name: str, ary: Any, sections: Any, axis: Any, even: bool) -> list[Any]:
    check_arraylike(name, ary)
    ary = as_array(unwrap(ary))
    k = canonical_axis(axis, ndim_of(ary))
    edges = _boundaries(name, shape_of(ary)[k], sections, even)
    return list(lax.split(ary, tuple(b - a for a, b in itertools.pairwise(edges)), axis=k))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along `axis`: so many of equal size, or cut at these indices. Raises ValueError if the
    size does not divide.

    `ary`: an array; `indices_or_sections`: into how many equal parts, or at which indices it
    is cut.

    >>> jnp.split(jnp.arange(6), 3)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32), Array([4, 5], dtype=int32)]
    >>> jnp.split(jnp.arange(4), [1])
    [Array([0], dtype=int32), Array([1, 2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along `axis`; the first ones are larger by one if the size does not divide.

    >>> [p.shape for p in jnp.array_split(jnp.arange(7), 3)]
    [(3,), (2,), (2,)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis.

    As `split` along axis 0.

    >>> jnp.vsplit(jnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis (the only one of a one-dimensional array).

    ValueError for an array without axes; otherwise as `split`.

    >>> jnp.hsplit(jnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1],
           [3]], dtype=int32), Array([[2],
           [4]], dtype=int32)]
    """
    return _split("hsplit", ary, indices_or_sections, 0 if ndim_of(ary) == 1 else 1, True)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis.

    ValueError for fewer than three axes; otherwise as `split`.

    >>> [p.shape for p in jnp.dsplit(jnp.zeros((2, 2, 4)), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along `axis`, without it.

    A tuple of arrays. Raises ValueError for an array without axes.

    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    check_arraylike("unstack", x)
    if not ndim_of(x):
        raise ValueError(
            "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    return tuple(lax.unstack(as_array(unwrap(x)), canonical_axis(axis, ndim_of(x))))


# --- taking out and putting in ---
def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Any:
    """Without the elements at `obj` (an int, a slice, indices or a mask) along `axis`. Traced
    indices need `assume_unique_indices`.

    Without `axis`, of the flattened array.

    >>> jnp.delete(jnp.array([10, 20, 30, 40]), jnp.array([1, -1]))
    Array([10, 30], dtype=int32)
    """
    check_arraylike("delete", arr, 0 if isinstance(obj, slice) else obj)
    arr = as_array(unwrap(arr))
    if axis is None:
        arr, axis = ravel(arr), 0
    k = canonical_axis(axis, ndim_of(arr))
    n = shape_of(arr)[k]
    obj = np.arange(n)[obj] if isinstance(obj, slice) else unwrap(obj)
    if isinstance(obj, Tracer):
        return _delete_traced(arr, obj, k, assume_unique_indices)
    where = np.asarray(obj)
    if where.dtype == bool:
        if where.shape != (n,):
            raise ValueError(
                "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with "
                f"length matching specified axis; got {where.shape}, expected ({n},)"
            )
        keep = np.nonzero(~where)[0]
    else:
        if where.size and where.dtype.kind not in "iu":
            raise ValueError(
                "np.delete(arr, obj): for array argument, obj must be an integer or boolean dtype."
            )
        if assume_unique_indices and where.ndim:  # the size of the result is known: as if traced
            return _delete_traced(arr, as_array(where.astype(np.int32)), k, True)
        where = where.astype(int)
        if isinstance(n, DimExpr) and where.ndim == 0:
            size: Any = n
            i = size + int(where) if where < 0 else int(where)
            parts = [lax.slice_in_dim(arr, a, b, axis=k) for a, b in ((0, i), (i + 1, size))]
            return lax.concatenate(parts, k)
        if (where < -n).any() or (where >= n).any():
            raise (ValueError if where.ndim == 0 else IndexError)(
                f"jnp.delete: index {where} is out of bounds for axis {k} with size {n}"
            )
        if where.ndim == 0:
            i = int(where) % n
            parts = [lax.slice_in_dim(arr, 0, i, axis=k), lax.slice_in_dim(arr, i + 1, n, axis=k)]
            return lax.concatenate(parts, k)
        mask = np.ones(n, bool)
        mask[where] = False
        keep = np.nonzero(mask)[0]
    return indexing.take_index(arr, (*(slice(None),) * k, keep.astype(np.int32)))


def _delete_traced(arr: Any, obj: Any, k: int, unique: bool) -> Any:
    n = shape_of(arr)[k]
    if ndim_of(obj) == 0 and dtypes.is_integer(typeof(obj).dtype):
        # One element, wherever it is: those after it move up.
        i = lax.select(lax.lt(obj, lax.full_like(obj, 0)), lax.add(obj, lax.full_like(obj, n)), obj)
        i = lax.clamp(lax.full_like(i, 0), i, lax.full_like(i, n))
        steps = lax.iota(typeof(i).dtype, n - 1)
        where = lax.add(
            steps,
            lax.convert_element_type(
                lax.ge(steps, lax.broadcast_in_dim(i, (n - 1,), ())), typeof(i).dtype
            ),
        )
        return indexing.take_index(arr, (*(slice(None),) * k, where))
    if not unique or not dtypes.is_integer(typeof(obj).dtype):
        raise ConcretizationTypeError(
            obj,
            "The `obj` argument of jnp.delete must be static, or pass assume_unique_indices=True.",
        )
    flat = ravel(obj)
    m = shape_of(flat)[0]
    flat = lax.clamp(
        typeof(flat).dtype.type(0),
        lax.select(
            lax.lt(flat, lax.full_like(flat, 0)), lax.add(flat, lax.full_like(flat, n)), flat
        ),
        typeof(flat).dtype.type(n - 1),
    )
    marks = scatter.update(lax.full((n,), 0, np.int32), flat, 1, "set")
    order = lax.sort_key_val(marks, lax.iota(np.int32, n))[1]
    return indexing.take_index(
        arr, (*(slice(None),) * k, lax.slice_in_dim(order, 0, max(n - m, 0)))
    )


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """With `values` put in before the positions `obj` (an int, a slice or indices) along `axis`.

    Without `axis`, into the flattened array.

    >>> jnp.insert(jnp.array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int32)
    """
    check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    a, v = as_array(unwrap(arr)), as_array(unwrap(values))
    if axis is None:
        a, axis = ravel(a), 0
    k = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[k]
    obj = np.arange(n)[obj] if isinstance(obj, slice) else unwrap(obj)
    where = (
        obj if isinstance(obj, Tracer) else np.asarray(as_array(obj) if type(obj) is int else obj)
    )
    if where.size and not dtypes.is_integer(dtype_of(where)):
        raise ValueError(
            f"jnp.insert(): index array must be integer typed; got {dtype_of(where)}. "
            "Fix: jnp.nonzero(mask)[0] for a mask."
        )
    scalar = ndim_of(where) == 0
    v = to_type(v, typeof(a).dtype, typeof(a).weak_type)
    if scalar:
        v = (
            lax.expand_dims(v, tuple(range(ndim_of(a) - ndim_of(v))))
            if ndim_of(v) < ndim_of(a)
            else v
        )
        v = moveaxis(v, 0, k)
    count = (shape_of(v)[k] if ndim_of(v) == ndim_of(a) else 1) if scalar else shape_of(where)[0]
    shape = (*shape_of(a)[:k], count, *shape_of(a)[k + 1 :])
    if ndim_of(v) > len(shape) or check_broadcast([shape_of(v), shape]) != shape:
        raise ValueError(f"insert: values of shape {shape_of(v)} do not fit into {shape}")
    v = (
        lax.broadcast_in_dim(v, shape, tuple(range(len(shape) - ndim_of(v), len(shape))))
        if shape_of(v) != shape
        else v
    )
    if isinstance(n, DimExpr):
        where = as_array(where)
    if isinstance(where, np.ndarray):
        order = _insert_order(where, n, count, scalar)
        both = lax.concatenate([a, v], k)
        return indexing.take_index(both, (*(slice(None),) * k, order))
    return _insert_traced(a, v, where, k, n, count, scalar)


def _insert_order(where: Any, n: int, count: int, scalar: bool) -> Any:
    """Which element of [array, values] each place of the result holds."""
    at = np.broadcast_to(where, (count,)).astype(int)
    at = np.clip(np.where(at < 0, at + n, at), 0, n)
    keys = np.concatenate([np.arange(n) + 0.5, at.astype(float)])
    return np.argsort(keys, kind="stable").astype(np.int32)


def _insert_traced(a: Any, v: Any, where: Any, k: int, n: int, count: int, scalar: bool) -> Any:
    at = lax.broadcast_in_dim(where, (count,), ()) if scalar else where
    d = typeof(at).dtype
    at = lax.clamp(
        d.type(0),
        lax.select(lax.lt(at, lax.full_like(at, 0)), lax.add(at, literal(at, n)), at),
        literal(at, n),
    )
    # Keys 2i + 1 for the elements and 2p for what goes before position p; a stable sort interleaves
    # them.
    keys = lax.concatenate(
        [lax.add(lax.mul(d.type(2), lax.iota(d, n)), d.type(1)), lax.mul(d.type(2), at)], 0
    )
    order = lax.sort_key_val(keys, lax.iota(np.int32, n + count))[1]
    return indexing.take_index(lax.concatenate([a, v], k), (*(slice(None),) * k, order))


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Without the zeros at the front ('f') and back ('b'). The array must not be traced: the size
    of the result depends on it.

    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    value = concrete(filt, "Error arose in the `filt` argument of trim_zeros()")
    check_arraylike("trim_zeros", filt)
    filt = unwrap(filt)
    if not trim:
        return as_array(unwrap(filt))
    values = np.asarray(unwrap(value))
    low, high = [0] * values.ndim, list(values.shape)
    axes = (
        range(values.ndim)
        if axis is None
        else [canonical_axis(k, values.ndim) for k in np.atleast_1d(axis)]
    )
    if len({*axes}) < len(axes):
        raise ValueError(f"repeated axis: {axis}")
    if not values.ndim:
        return as_array(unwrap(filt))
    places = np.nonzero(values)
    for k in axes:
        if not places[k].size:
            high[k] = 0 if {"f", "b"} & {*trim.lower()} else high[k]
            continue
        if "f" in trim.lower():
            low[k] = int(places[k].min())
        if "b" in trim.lower():
            high[k] = int(places[k].max()) + 1
    return indexing.take_index(filt, tuple(slice(a, b) for a, b in zip(low, high, strict=True)))
