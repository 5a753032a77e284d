"""Shapes and order: reshape, transpose, axes, flips, rolls, tiles, repeats, broadcasts."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.placement import freely, lay_out
from ..core.avals import typeof
from ..core.build import staged
from ..core.dims import DimExpr
from ..core.explicit import parts_of, said
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError, InconclusiveDimensionOperation
from ..lazy_imports import lazy_module
from ..primitives.common import as_array, as_int, canonical_shape, int_tuple, is_symbolic, size_of
from ..primitives.layout import converted
from ..runtime.meshes import get_abstract_mesh
from . import indexing
from .util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    dtype_of,
    is_arraylike,
    literal,
    ndim_of,
    one_array,
    shape_of,
    static_axes,
    to_type,
    unwrap,
)

arithmetic: Any = lazy_module("pullback.numpy.arithmetic")
cumulative: Any = lazy_module("pullback.numpy.cumulative")
scatter: Any = lazy_module("pullback.numpy.scatter")


# --- what arrays are ---
def shape(a: Any) -> tuple[Any, ...]:
    """The shape.

    Of anything that is an array or can be made one.

    `a`: an array, or what can become one.

    >>> jnp.shape(jnp.zeros((2, 3))), jnp.shape(1.0)
    ((2, 3), ())
    """
    return shape_of(_tolerant("shape", a))


def ndim(a: Any) -> int:
    """The number of axes.

    A Python int, known while tracing.

    `a`: an array, or what can become one.

    >>> jnp.ndim(jnp.zeros((2, 3))), jnp.ndim(1.0)
    (2, 0)
    """
    return len(shape_of(_tolerant("ndim", a)))


def size(a: Any, axis: Any = None) -> Any:
    """The number of elements, of the array or along axes.

    A Python int, known while tracing.

    `a`: an array, or what can become one.

    >>> jnp.size(jnp.zeros((2, 3))), jnp.size(jnp.zeros((2, 3)), axis=1)
    (6, 3)
    """
    s = shape_of(_tolerant("size", a))
    axes = canonical_axes(axis, len(s))
    if len({*axes}) < len(axes):
        raise ValueError(f"repeated axis: {axis}")
    return size_of([s[k] for k in axes])


def _tolerant(name: str, a: Any) -> Any:
    if not hasattr(a, "shape"):
        a = unwrap(a)
    if not (is_arraylike(a) or isinstance(a, str | bytes) or hasattr(a, "shape")):
        warnings.warn(
            f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0. In a "
            "future JAX release this will be an error.",
            DeprecationWarning,
            stacklevel=3,
        )
    return a if hasattr(a, "shape") else np.asarray(a)


def iscomplexobj(x: Any) -> bool:
    """Is the dtype complex?

    >>> jnp.iscomplexobj(jnp.array([1j])), jnp.iscomplexobj(1.0)
    (True, False)
    """
    if x is None:
        return False
    scalar_type = getattr(x, "dtype", None) if isinstance(x, type) else None
    if isinstance(scalar_type, np.dtype):  # jnp.float32
        return bool(dtypes.is_complex(scalar_type))
    own = getattr(x, "dtype", None)
    if isinstance(own, np.dtype) and own.kind != "O":
        return bool(dtypes.is_complex(own))
    try:
        return bool(dtypes.is_complex(typeof(x).dtype))
    except OverflowError:  # an integer beyond every dtype
        return False
    except TypeError:
        host = np.asarray(x)
        if host.dtype == object:
            check_arraylike("iscomplexobj", x)
        return bool(np.iscomplexobj(host))


def isrealobj(x: Any) -> bool:
    """Is the dtype not complex?

    >>> jnp.isrealobj(jnp.array([1j])), jnp.isrealobj(1.0)
    (False, True)
    """
    return not iscomplexobj(x)


# --- reshape ---
def _new_shape(old: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    sizes = canonical_shape(new)
    unknown = [k for k, n in enumerate(sizes) if type(n) is int and n == -1]
    if not unknown:
        return sizes
    if len(unknown) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {sizes}")
    known = size_of([n for k, n in enumerate(sizes) if k != unknown[0]])
    total = size_of(old)
    if type(known) is int and known == 0:
        raise TypeError(
            f"cannot reshape array of shape {old} into shape {sizes}: beside an axis of size 0 no "
            "size follows for -1, any would do or none. Fix: say the size."
        )
    if type(known) is int and type(total) is int:
        if total % known:
            raise TypeError(
                f"cannot reshape array of shape {old} (size {total}) into shape {sizes} because "
                "the product of specified axis sizes "
                f"({known}) does not evenly divide {total}. Fix: the other sizes must divide it."
            )
        rest = total // known
    else:
        rest, left = divmod(total, known)
        if type(left) is not int or left:
            raise InconclusiveDimensionOperation(
                f"Cannot divide evenly the sizes of shapes {old} and {sizes}. "
                f"The remainder {left} should be 0. Fix: promise it, "
                f"symbolic_shape(..., constraints=['{left} == 0'])."
            )
    return (*sizes[: unknown[0]], rest, *sizes[unknown[0] + 1 :])


def reshape(
    a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None
) -> Any:
    """The same elements in another shape; one size may be -1. `order` 'F' counts the first axis
    fastest.

    `a`: an array. `copy` has no effect: arrays do not change; `out_sharding`: the
    sharding of the result.

    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if out_sharding is not None and order != "C":
        (a,) = freely(out_sharding, a)
        return lay_out(reshape(a, shape, order, copy=copy), "reshape", out_sharding, follows=True)
    a = one_array("reshape", a)
    new = _new_shape(shape_of(a), shape)
    if order == "C":
        out = lax.reshape(a, new, out_sharding=out_sharding)
    elif order == "F":
        axes = tuple(range(ndim_of(a)))[::-1]
        out = lax.transpose(lax.reshape(a, new[::-1], axes), tuple(range(len(new)))[::-1])
    elif order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented. Fix: use order='C'.")
    else:
        raise ValueError(f"Unexpected value for 'order' argument: {order}.")
    return out


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as a one-dimensional array.

    `order`: 'C' (the last axis runs fastest) or 'F' (the first).

    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int32)
    """
    if out_sharding is not None:
        return reshape(a, (-1,), order, out_sharding=out_sharding)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'. Fix: use order='C'.")
    a = one_array("ravel", a)
    return staged(reshape(a, (size_of(shape_of(a)),), order))


def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order (reversed by default).

    Raises TypeError unless `axes` is a permutation.

    >>> jnp.transpose(jnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = one_array("transpose", a)
    n = ndim_of(a)
    order = tuple(range(n))[::-1] if axes is None else tuple(canonical_axis(k, n) for k in axes)
    return lax.transpose(a, order)


def permute_dims(a: Any, /, axes: Any) -> Any:
    """The axes in another order.

    Raises TypeError unless `axes` is a permutation.

    >>> jnp.permute_dims(jnp.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return lax.transpose(one_array("permute_dims", a), tuple(axes))


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped.

    Raises ValueError for fewer than two axes.

    >>> jnp.matrix_transpose(jnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = one_array("matrix_transpose", x)
    n = ndim_of(x)
    if n < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={n}")
    return lax.transpose(x, (*range(n - 2), n - 1, n - 2))


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes swapped.

    ValueError for an axis out of range or a bool, IndexError for what else is no integer.

    `a`: an array; `axis1`, `axis2`: ints.

    >>> jnp.swapaxes(jnp.zeros((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    a = one_array("swapaxes", a)
    order = list(range(ndim_of(a)))
    for axis in (axis1, axis2):
        if isinstance(axis, bool | np.bool_):
            raise ValueError(f"swapaxes: an axis must be an integer, got {axis!r}.")
    try:
        i, j = canonical_axis(axis1, len(order)), canonical_axis(axis2, len(order))
    except TypeError as error:
        if type(error) is TypeError:  # JAX indexes with them
            raise IndexError(str(error)) from None
        raise
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places; the others keep their order.

    Raises ValueError if there are not as many sources as destinations, or one twice.

    `a`: an array; `source`, `destination`: ints or tuples of as many.

    >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = one_array("moveaxis", a)
    n = ndim_of(a)
    sources = tuple(canonical_axis(k, n) for k in _axes_list(source))
    targets = tuple(canonical_axis(k, n) for k in _axes_list(destination))
    if len(sources) != len(targets):
        raise ValueError(f"Inconsistent number of elements: {len(sources)} vs {len(targets)}")
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError(f"moveaxis: repeated axis in source={source} or destination={destination}")
    order = [k for k in range(n) if k not in sources]
    for target, s in sorted(zip(targets, sources, strict=True)):
        order.insert(target, s)
    return lax.transpose(a, order)


def _axes_list(axis: Any) -> tuple[int, ...]:
    try:
        return (operator.index(axis),)
    except TypeError:
        return int_tuple(axis)


def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    n = ndim_of(a)
    k = canonical_axis(axis, n)
    if not -n <= start <= n:
        raise ValueError(f"start={start!r} must satisfy -{n}<=start<={n}")
    if start < 0:
        start += n
    return moveaxis(a, k, start - 1 if k < start else start)


_rollaxis.__name__ = "rollaxis"
_rollaxis_jit = jit(_rollaxis, static_argnames=("axis", "start"))


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """`axis` moved in front of `start`.

    `moveaxis` says more clearly what it does.

    >>> jnp.rollaxis(jnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    check_arraylike("rollaxis", a)
    return _rollaxis_jit(a, axis=axis, start=as_int(start, "start"))


def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1, at these places of the result.

    `axis`: an int or a tuple. Raises ValueError if it is out of range or named twice.

    >>> jnp.expand_dims(jnp.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    return lax.expand_dims(one_array("expand_dims", a), _axes_list(axis))


def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1 (all of them, or those named). Raises ValueError for another size.

    `a`: an array; `axis`: an int or a tuple, by default every axis of size 1.

    >>> jnp.squeeze(jnp.zeros((1, 3, 1))).shape, jnp.squeeze(jnp.zeros((1, 3, 1)), 0).shape
    ((3,), (3, 1))
    """
    a = one_array("squeeze", a)
    if axis is None:
        if any(map(is_symbolic, shape_of(a))):
            raise ValueError(
                "jnp.squeeze with axis=None is not supported with shape polymorphism: which axes "
                "have size 1 is not known. Fix: name them, as in axis=0."
            )
        axes = tuple(k for k, n in enumerate(shape_of(a)) if n == 1)
    else:
        axes = canonical_axes(_axes_list(axis), ndim_of(a))
    return lax.squeeze(a, axes) if axes else staged(a)


def _atleast(name: str, n: int, grow: Any, doc: str) -> Any:
    def run(*arys: Any) -> Any:
        if len(arys) == 1:
            return grow(as_array(unwrap(arys[0])))
        # Of several arrays, JAX's programs name each that gets a third axis.
        each = call if n == 3 else grow
        return [each(as_array(unwrap(a))) for a in arys]

    run.__name__ = name
    call = jit(run)

    def f(*arys: Any) -> Any:
        check_arraylike(name, *arys)
        return call(*arys)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _grow2(a: Any) -> Any:
    return lax.expand_dims(a, tuple(range(2 - ndim_of(a)))) if ndim_of(a) < 2 else a


def _grow3(a: Any) -> Any:
    n = ndim_of(a)
    if n == 0:
        return lax.expand_dims(a, (0, 1, 2))
    if n == 1:
        return lax.expand_dims(a, (0, 2))
    return lax.expand_dims(a, (2,)) if n == 2 else a


atleast_1d = _atleast(
    "atleast_1d",
    1,
    lambda a: a if ndim_of(a) else lax.expand_dims(a, (0,)),
    """Arrays with one axis or more.

    One array for one argument, else a list of them.

    >>> jnp.atleast_1d(3.0)
    Array([3.], dtype=float32, weak_type=True)
    """,
)
atleast_2d = _atleast(
    "atleast_2d",
    2,
    _grow2,
    """Arrays with two axes or more; new ones come first.

    One array for one argument, else a list of them.

    >>> jnp.atleast_2d(jnp.array([1, 2]))
    Array([[1, 2]], dtype=int32)
    """,
)
atleast_3d = _atleast(
    "atleast_3d",
    3,
    _grow3,
    """Arrays with three axes or more.

    One array for one argument, else a list of them. A vector of n becomes (1, n, 1), an m x n
    matrix (m, n, 1).

    >>> jnp.atleast_3d(jnp.zeros((2, 3))).shape
    (2, 3, 1)
    """,
)


# --- broadcasting ---
def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """`array` repeated to `shape`. Raises ValueError if it does not fit.

    `out_sharding`: the sharding of the result.

    >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    if out_sharding is not None:
        array = one_array("broadcast_to", array)
        target, ndim = canonical_shape(shape), ndim_of(array)
        last = tuple(range(len(target) - ndim, len(target)))
        return lax.broadcast_in_dim(array, target, last, out_sharding=out_sharding)
    array = one_array("broadcast_to", array)
    target = canonical_shape(shape)
    own = shape_of(array)
    if own == target:
        return array
    if len(own) > len(target):
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={own} shape={target}"
        )
    start = len(target) - len(own)
    if any(n is not m and n != 1 and n != m for n, m in zip(own, target[start:], strict=True)):
        name = getattr(typeof(array).dtype, "name", "")
        raise ValueError(
            f"Incompatible types for broadcasting: input type={name}[{','.join(map(str, own))}] "
            "and requested "
            f"type={name}[{','.join(map(str, target))}]. "
            f"Fix: each axis of {own} must be equal to the axis of {target} above it, or 1."
        )
    return lax.broadcast_in_dim(array, target, tuple(range(start, len(target))))


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays broadcast to their common shape.

    A list. Raises ValueError if the shapes do not fit.

    >>> a, b = jnp.broadcast_arrays(jnp.array([1, 2]), jnp.array([[3], [4]]))
    >>> b
    Array([[3, 3],
           [4, 4]], dtype=int32)
    """
    check_arraylike("broadcast_arrays", *args)
    target = lax.broadcast_shapes(*(shape_of(a) for a in args)) if args else ()
    return [broadcast_to(a, target) for a in args]


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which all broadcast. Raises ValueError if there is none.

    >>> jnp.broadcast_shapes((3, 1), (4,), ())
    (3, 4)
    """
    if not shapes:
        return ()
    return lax.broadcast_shapes(*(canonical_shape(s) for s in shapes))


# --- flips and rolls ---
def _flip(m: Any, axis: Any = None) -> Any:
    return lax.rev(m, canonical_axes(axis, ndim_of(m)))


_flip_jit = jit(_flip, static_argnames=("axis",))


def flip(m: Any, axis: Any = None) -> Any:
    """The order of elements reversed, along `axis` (all by default).

    `axis`: an int, a tuple, or None for all. Shape and dtype stay.

    `m`: an array.

    >>> jnp.flip(jnp.array([[1, 2], [3, 4]]), axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    check_arraylike("flip", m)
    if isinstance(axis, Tracer):
        raise ConcretizationTypeError(axis, "The axis argument must be known statically.")
    return _flip_jit(m, axis=static_axes(axis))


def fliplr(m: Any) -> Any:
    """Reversed along the second axis.

    Raises ValueError for fewer than two axes.

    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    check_arraylike("fliplr", m)
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Reversed along the first axis.

    Raises ValueError for an array without axes.

    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    check_arraylike("flipud", m)
    return flip(m, 0)


def _rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    n = ndim_of(m)
    a, b = canonical_axis(axes[0], n), canonical_axis(axes[1], n)
    if a == b:
        raise ValueError("Axes must be different")
    order = list(range(n))
    order[a], order[b] = b, a
    match k % 4:
        case 0:
            return m
        case 2:
            return flip(flip(m, a), b)
        case 1:
            return lax.transpose(flip(m, b), order)
        case _:
            return flip(lax.transpose(m, order), b)


_rot90.__name__ = "rot90"
_rot90_jit = jit(_rot90, static_argnames=("k", "axes"))


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned k times by 90 degrees in the plane of two axes, from the first toward the second.

    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    check_arraylike("rot90", m)
    plane: tuple[int, ...] = tuple(axes)
    if len(plane) != 2:
        raise ValueError(f"rot90: axes must be two axes, got {plane}")
    if ndim_of(m) < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {shape_of(m)}, which has ndim {ndim_of(m)}"
        )
    return _rot90_jit(m, k=k if isinstance(k, float) else as_int(k, "k"), axes=plane)


def _is_fraction(shift: Any) -> bool:
    return dtypes.is_float(dtype_of(shift))


def _roll_static(a: Any, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    for k, by in zip(axis, shift, strict=True):
        n = shape_of(a)[k]
        if isinstance(n, DimExpr):
            a = indexing.take_index(a, (*(slice(None),) * k, _rolled_places(n, by)))
            continue
        by = by % n if n else 0
        if not by:
            continue
        a = lax.concatenate(
            [lax.slice_in_dim(a, n - by, n, axis=k), lax.slice_in_dim(a, 0, n - by, axis=k)], k
        )
    return a


def _rolled_places(n: Any, by: int) -> Any:
    """Which element each place of an axis gets, of a size that is known by name only."""
    places = lax.iota(np.int32, n)
    size = lax.broadcast(literal(places, n), (n,))
    moved = lax.sub(lax.add(places, size), lax.rem(lax.full_like(places, by), size))
    return lax.rem(moved, size)


def _roll_dynamic(a: Any, shift: Any, axis: tuple[int, ...]) -> Any:
    shifts = (
        lax.broadcast_in_dim(shift, (len(axis),), tuple(range(1 - ndim_of(shift), 1)))
        if shape_of(shift) != (len(axis),)
        else shift
    )
    for j, k in enumerate(axis):
        by = lax.squeeze(lax.slice_in_dim(shifts, j, j + 1), (0,))
        if not dtypes.is_integer(typeof(by).dtype):
            by = to_type(by, np.dtype(np.int32), False)
        n = shape_of(a)[k]
        one = typeof(by).dtype.type
        by = arithmetic.remainder(by, lax.max(one(n), one(1)))
        doubled = lax.concatenate([a, a], k)
        a = lax.dynamic_slice_in_dim(doubled, lax.sub(one(n), by), n, axis=k)
    return a


_roll_static_jit = jit(_roll_static, static_argnames=("shift", "axis"))
_roll_dynamic_jit = jit(_roll_dynamic, static_argnames=("axis",))


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements shifted along axes; those that leave one end come in at the other.

    `a`: an array; `shift`, `axis`: ints or tuples of as many; without `axis` the flattened
    array is rolled.

    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if isinstance(shift, list | tuple):
        shift = (
            lax.concatenate([lax.reshape(as_array(s), (1,)) for s in shift], 0)
            if any(isinstance(s, Tracer) for s in shift)
            else np.array(shift, np.float32 if any(map(_is_fraction, shift)) else np.int32)
        )
    check_arraylike("roll", a, shift)
    a, shift = as_array(unwrap(a)), unwrap(shift)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    axes = _axes_list(axis)
    if ndim_of(shift) > 1:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    n_shifts = shape_of(shift)[0] if ndim_of(shift) else 1
    if ndim_of(shift) and len(axes) == 1 and n_shifts > 1:
        axes = axes * n_shifts
    if n_shifts != 1 and n_shifts != len(axes):
        raise ValueError(f"roll: {n_shifts} shifts do not fit {len(axes)} axes")
    axes = tuple(canonical_axis(k, ndim_of(a)) for k in axes)
    if isinstance(shift, Tracer) or dtypes.is_float(dtype_of(shift)):
        return _roll_dynamic_jit(a, shift, axis=axes)
    shifts = np.asarray(shift)
    if shifts.dtype.kind == "c":
        shifts = converted(shifts.real, np.dtype("int32"))
    by = tuple(int(s) for s in np.broadcast_to(shifts, (len(axes),)))
    return _roll_static_jit(a, shift=by, axis=axes)


# --- repetition ---
def tile(A: Any, reps: Any) -> Any:
    """`A` laid side by side, `reps` times along each axis.

    Fewer `reps` than axes: the last axes; more: new axes in front.

    >>> jnp.tile(jnp.array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    A = one_array("tile", A)
    if hasattr(reps, "ndim") and not isinstance(reps, Tracer):
        reps = np.asarray(reps).tolist()  # of 0 axes too
    times = tuple(reps) if isinstance(reps, Iterable) else (reps,)
    times = tuple(t if not hasattr(t, "__index__") else operator.index(t) for t in times)
    n = max(len(times), ndim_of(A))
    times = (1,) * (n - len(times)) + times
    A = lax.expand_dims(A, tuple(range(n - ndim_of(A)))) if ndim_of(A) < n else A
    return lax.tile(A, times)


def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """Each element (or slice along `axis`) repeated. Traced `repeats` need `total_repeat_length`,
    which cuts or pads with the last.

    `a`: an array. `out_sharding`: the sharding of the result.

    >>> jnp.repeat(jnp.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if out_sharding is not None:
        a, repeats = freely(out_sharding, a, repeats)
        return lay_out(
            repeat(a, repeats, axis, total_repeat_length=total_repeat_length),
            "repeat",
            out_sharding,
        )
    check_arraylike("repeat", a, repeats)
    if not (dtypes.is_integer(dtype_of(repeats)) or dtypes.is_bool(dtype_of(repeats))):
        raise TypeError(
            f"repeat: repeats must have an integer type, got {dtype_of(repeats).name}. "
            "Fix: repeats.astype(int)."
        )
    a = as_array(unwrap(a))
    if axis is None:
        a, axis = ravel(a), 0
    if not ndim_of(a):
        a = lax.reshape(a, (1,))
    k = canonical_axis(axis, ndim_of(a))
    apart = parts_of(typeof(a))[k] if said[0] else None
    if total_repeat_length is None:
        if isinstance(repeats, Tracer):
            raise ConcretizationTypeError(
                repeats,
                "When jit-compiling jnp.repeat, the total number of repeats must be static. To fix "
                "this, pass a static value "
                "to the `total_repeat_length` argument.",
            )
        counts = np.asarray(repeats)
        # One number leaves each part of an axis that lies over several devices where it is; under
        # a mesh the sharding has to be given all the same.
        stays = counts.ndim == 0 and bool(counts) and get_abstract_mesh().empty
        if counts.size == 1 and (apart is None or stays):
            return _repeat_each(a, int(counts.reshape(())), k)
    if apart is not None:
        raise ValueError(
            "Please pass sharding to `jnp.repeat` via `out_sharding` parameter: the axis that is "
            f"repeated lies over {apart!r}."
        )
    return _repeat_counts(a, repeats, k, total_repeat_length)


def _repeat_each(a: Any, times: int, k: int) -> Any:
    if times < 0:
        raise TypeError(f"repeat: repeats must not be negative, got {times}")
    own = shape_of(a)
    wide = (*own[: k + 1], times, *own[k + 1 :])
    out = lax.broadcast_in_dim(a, wide, tuple(j for j in range(len(wide)) if j != k + 1))
    return lax.reshape(out, (*own[:k], own[k] * times, *own[k + 1 :]))


def _repeat_counts(a: Any, repeats: Any, k: int, total: int | None) -> Any:
    n = shape_of(a)[k]
    repeats = broadcast_to(ravel(repeats), (n,))
    if total is None:
        counts = np.asarray(repeats)
        if (counts < 0).any():
            raise ValueError("repeat: repeats must not be negative")
        total = int(counts.sum())
    else:
        total = as_int(total, "total")
    if n == 0 or total == 0:
        return lax.full((*shape_of(a)[:k], total, *shape_of(a)[k + 1 :]), 0, typeof(a).dtype)
    # Place a 1 where each run starts; the running sum is the index of the element that is repeated
    # there.
    shifted = scatter.update(roll(to_type(repeats, np.dtype("int32"), False), 1), 0, 0, "set")
    starts = cumulative.cumsum(shifted)
    marks = scatter.update(lax.full((total,), 0, np.int32), starts, 1, "add")
    gather_at = lax.sub(cumulative.cumsum(marks), np.int32(1))
    where = (*(slice(None),) * k, gather_at)
    return indexing.take_index(a, where)


def _resize(a: Any, new_shape: Any) -> Any:
    flat = ravel(a)
    n, total = shape_of(flat)[0], size_of(new_shape)
    if n == 0 or total == 0:
        return lax.full_like(a, 0, shape=new_shape)
    copies = -(-total // n)
    return lax.reshape(indexing.take_index(tile(flat, copies), slice(0, total)), new_shape)


_resize.__name__ = "resize"
_resize_jit = jit(_resize, static_argnames=("new_shape",))


def resize(a: Any, new_shape: Any) -> Any:
    """The elements in another shape of any size, repeated from the start as often as needed.

    >>> jnp.resize(jnp.array([1, 2, 3]), (2, 4))
    Array([[1, 2, 3, 1],
           [2, 3, 1, 2]], dtype=int32)
    """
    check_arraylike("resize", a)
    shape = canonical_shape(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    return _resize_jit(a, new_shape=shape)
