"""Collectives over named axes: sums, gathers, positions. Under vmap a named axis is an axis of the
operand, and each collective is an operation along it.
"""

# One file: sums over groups gather, and gathers are transposed to scattered sums.

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import ShapedArray, typeof
from ..core.effects import NamedAxisEffect
from ..core.explicit import match_varying
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..core.trace import axis_size as _axis_size, checked_axes, mesh_of_traces
from .builders import full_batch
from .common import NUMBER, as_array, canonical_axis, check_dtype, const, zero_of
from .dynamic_slice import dynamic_index_in_dim, dynamic_slice_in_dim
from .elementwise import add, convert_element_type, div, eq, mul
from .exchange_steps import (
    Group,
    check_groups,
    gather_in_turn,
    scatter_in_turn,
)
from .layout import (
    as_two_axes,
    full_as,
    iota,
    linear_jvp,
    move_batch_front,
    reduce_sum,
    reshape,
    squeeze,
    transpose,
)
from .reductions import reduce_max, reduce_min

__all__ = [
    "all_gather", "all_gather_p", "axis_index", "axis_index_p", "axis_size", "pcast", "pmax",
    "pmax_p", "pmean", "pmin", "pmin_p", "psum", "psum_p", "psum_scatter",
]  # fmt: skip


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def axis_size(axis_name: Any) -> int:
    """The size of a named axis (the product for several). Raises NameError if no enclosing
    transformation binds it.

    >>> f = lambda x: x * lax.axis_size('i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1, 2, 3]))
    Array([3, 6, 9], dtype=int32)
    """
    total = 1
    for name in _names(axis_name):
        total *= _axis_size(name)
    return total


def _effects(names: Sequence[Any]) -> frozenset[Any]:
    return frozenset(NamedAxisEffect(n) for n in names if not isinstance(n, int))


def _moved(x: Any, source: int, target: int) -> Any:
    order = [k for k in range(typeof(x).ndim) if k != source]
    order.insert(target, source)
    return transpose(x, order)


# --- reductions over a named axis ---
def _reducer_aval(name: str) -> Callable[..., Any]:
    def rule(x: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        check_dtype(name, x.dtype, (NUMBER, "bool"))
        for n in axes:
            if not isinstance(n, int):
                _axis_size(n, name)
        positional = [n for n in axes if isinstance(n, int)]
        shape = tuple(m for k, m in enumerate(x.shape) if k not in positional)
        return ShapedArray(shape, x.dtype, x.weak_type), _effects(axes)

    return rule


def _reducer_batch(
    get: Callable[[], Primitive],
    along: Callable[..., Any],
    alone: Callable[[Any, int], Any],
    grouped: Callable[[Group], Any],
) -> Callable[..., Any]:
    """`along` reduces a batch over an axis; `alone` is the reduction of copies of one value;
    `grouped` reduces over groups."""

    def batch(axis: Any, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        (x,), (d,) = args, dims
        if axis.name is None or axis.name not in axes:
            return (
                None
                if d is None
                else (get().bind(x, axes=axes, axis_index_groups=axis_index_groups), d)
            )
        if axis_index_groups is not None:
            group = Group(axis, (x, d), axes, axis_index_groups, all_gather_p, axis_index_p)
            return grouped(group), 0
        rest = tuple(n for n in axes if n != axis.name)
        out = alone(x, axis.size) if d is None else along(x, (d,))
        return (get().bind(out, axes=rest, axis_index_groups=None) if rest else out), None

    return batch


def _psum_transpose(ct: Any, x: Any, *, axes: Any, axis_index_groups: Any) -> list[Any]:
    return [
        Zero(x.aval)
        if type(ct) is Zero
        else psum_p.bind(ct, axes=axes, axis_index_groups=axis_index_groups)
    ]


def _extreme_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The mean of the tangents of those that attain the extreme."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = get().bind(x, **params)
        if type(t) is Zero:
            return out, zero_of(out)
        where = convert_element_type(eq(x, out), typeof(t).dtype)
        return out, div(psum_p.bind(mul(t, where), **params), psum_p.bind(where, **params))

    return jvp


psum_p: Primitive = Primitive(
    "psum",
    abstract_eval=_reducer_aval("psum"),
    jvp=linear_jvp(lambda: psum_p),
    transpose=_psum_transpose,
    batch=No.BY_TRACE,
    axis_batch=_reducer_batch(
        lambda: psum_p, reduce_sum, lambda x, n: mul(const(x, n), x), Group.total
    ),
    effectful=True,
)


# --- in the body of a shard_map that checks over what values vary ---
def _pvary_transpose(ct: Any, x: Any, *, axes: Any) -> list[Any]:
    return [Zero(x.aval) if type(ct) is Zero else psum_invariant_p.bind(ct, axes=axes)]


pvary_p: Primitive = Primitive(
    "pvary",
    abstract_eval=lambda x, *, axes: (ShapedArray(x.shape, x.dtype, x.weak_type), _effects(axes)),
    jvp=linear_jvp(lambda: pvary_p),
    transpose=_pvary_transpose,
    batch=No.BY_TRACE,
    axis_batch=lambda axis, args, dims, *, axes: _varying_batch(axis, args, dims, axes),
    effectful=True,
)


def _varying_batch(axis: Any, args: Any, dims: Any, axes: Any) -> Any:
    """Where an axis is one of a batch nothing needs to be said of it."""
    (x,), (d,) = args, dims
    if axis.name is not None and axis.name in axes:
        rest = tuple(n for n in axes if n != axis.name)
        return (pvary_p.bind(x, axes=rest) if rest else x), d
    return None if d is None else (pvary_p.bind(x, axes=axes), d)


def _invariant_transpose(ct: Any, x: Any, *, axes: Any) -> list[Any]:
    return [Zero(x.aval) if type(ct) is Zero else pvary_p.bind(ct, axes=axes)]


def _invariant_batch(axis: Any, args: Any, dims: Any, *, axes: Any) -> Any:
    if axis.name is None or axis.name not in axes:
        (x,), (d,) = args, dims
        return None if d is None else (psum_invariant_p.bind(x, axes=axes), d)
    return psum_p.rules["axis_batch"](axis, args, dims, axes=axes, axis_index_groups=None)


psum_invariant_p: Primitive = Primitive(
    "psum_invariant",
    abstract_eval=lambda x, *, axes: _reducer_aval("psum")(x, axes=axes, axis_index_groups=None),
    jvp=linear_jvp(lambda: psum_invariant_p),
    transpose=_invariant_transpose,
    batch=No.BY_TRACE,
    axis_batch=_invariant_batch,
    effectful=True,
)


def pvary(x: Any, axes: Any) -> Any:
    """`x`, marked as varying over these axes of the mesh, in the mesh's order."""
    own = getattr(mesh_of_traces(), "axis_names", ())
    return pvary_p.bind(x, axes=tuple(sorted(axes, key=lambda n: own.index(n) if n in own else 0)))


def varied(x: Any, names: Any) -> Any:
    """An operand of a collective over these names: where types say what values vary over, it
    varies over them."""
    checked = checked_axes()
    if not checked:
        return x
    missing = checked.intersection(names) - typeof(x).vma
    return pvary(x, missing) if missing else x


def _sum_over(x: Any, names: tuple[Any, ...], groups: Any) -> Any:
    if groups is not None and checked_axes().issuperset(names):
        raise NotImplementedError(
            "axis_index_groups are not supported where a shard_map checks over what values vary. "
            "Fix: jax.shard_map(..., check_vma=False)."
        )
    if groups is not None or not checked_axes().issuperset(names):
        return psum_p.bind(varied(x, names), axes=names, axis_index_groups=groups)
    aval = typeof(x)
    here = aval.vma.intersection(names)
    if here and len(here) < len(names):
        raise ValueError(
            "jax.lax.psum can only accept axis_name which corresponds to one of varying, "
            "unreduced, reduced or invarying state of the input. Got input type: "
            f"{aval.str_short()}, axes: {names} and input state: {{'varying', 'invarying'}}. Fix: "
            f"lax.pcast(x, {tuple(n for n in names if n not in here)}, to='varying')"
        )
    return psum_invariant_p.bind(varied(x, names), axes=names)


pmax_p: Primitive = Primitive(
    "pmax",
    abstract_eval=_reducer_aval("pmax"),
    jvp=_extreme_jvp(lambda: pmax_p),
    transpose=No.NOT_LINEAR,
    batch=No.BY_TRACE,
    axis_batch=_reducer_batch(
        lambda: pmax_p, reduce_max, lambda x, n: x, lambda g: reduce_max(g.values(), (1,))
    ),
    effectful=True,
)
pmin_p: Primitive = Primitive(
    "pmin",
    abstract_eval=_reducer_aval("pmin"),
    jvp=_extreme_jvp(lambda: pmin_p),
    transpose=No.NOT_LINEAR,
    batch=No.BY_TRACE,
    axis_batch=_reducer_batch(
        lambda: pmin_p, reduce_min, lambda x, n: x, lambda g: reduce_min(g.values(), (1,))
    ),
    effectful=True,
)


def _groups(axis_index_groups: Any, axis_name: Any = None, alike: bool = True) -> Any:
    """The groups as tuples, checked if the axis is named."""
    if axis_index_groups is None:
        return None
    groups = tuple(map(tuple, axis_index_groups))
    if axis_name is not None:
        names = tuple(n for n in _names(axis_name) if not isinstance(n, int))
        check_groups(groups, axis_size(names), alike)
    return groups


def _over_axes(p: Primitive, along: Callable[..., Any], x: Any, axis_name: Any, groups: Any) -> Any:
    """Reduces one leaf: positional axes (ints) at once, named ones by the primitive."""
    names = _names(axis_name)
    if len(set(names)) != len(names):
        raise ValueError(
            f"duplicate value in 'axes' of reduction: {names}. Fix: name each axis once."
        )
    positional = tuple(canonical_axis(n, typeof(x).ndim) for n in names if isinstance(n, int))
    named = tuple(n for n in names if not isinstance(n, int))
    if positional:
        x = along(x, positional)
    if not named:
        return x
    groups = _groups(groups, axis_name, alike=False)
    if p is psum_p:
        return _sum_over(x, named, groups)
    return p.bind(varied(x, named), axes=named, axis_index_groups=groups)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over a named axis (or several), of every leaf of a pytree; a Python number is
    multiplied by the size.

    >>> pb.vmap(lambda x: x / lax.psum(x, 'i'), axis_name='i')(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """

    def one(leaf: Any) -> Any:
        if type(leaf) in (int, float, complex, bool) and axis_index_groups is None:
            if type(leaf) is bool:  # not weakly typed, and so is the count
                leaf = np.int32(leaf)
            return leaf * axis_size(tuple(n for n in _names(axis_name) if not isinstance(n, int)))
        if dtypes.is_bool(typeof(leaf).dtype):
            leaf = convert_element_type(leaf, np.int32)
        return _over_axes(psum_p, reduce_sum, leaf, axis_name, axis_index_groups)

    return tree.tree_map(one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over a named axis, of every leaf of a pytree.

    Raises NameError if nothing binds the axis. With `axis_index_groups` over each group only.

    >>> f = lambda x: x - lax.pmean(x, 'i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1., 2., 6.]))
    Array([-2., -1.,  3.], dtype=float32)
    """
    groups = _groups(axis_index_groups, axis_name, alike=False)
    n = (
        axis_size(tuple(a for a in _names(axis_name) if not isinstance(a, int)))
        if groups is None
        else len(groups[0])
    )
    uneven = groups is not None and len({len(g) for g in groups}) > 1

    def one(leaf: Any) -> Any:
        total = psum(leaf, axis_name, axis_index_groups=axis_index_groups)
        if uneven:  # each instance counts its own group
            counts = psum(full_as(leaf, 1), axis_name, axis_index_groups=groups)
            if not dtypes.is_inexact(typeof(total).dtype):
                total, counts = (
                    convert_element_type(v, dtypes.default_float()) for v in (total, counts)
                )
            return div(total, counts)
        count = n
        for a in _names(axis_name):
            count *= typeof(leaf).shape[a] if isinstance(a, int) else 1
        if type(total) in (int, float, complex):
            return total / count
        if not dtypes.is_inexact(typeof(total).dtype):
            total = convert_element_type(total, dtypes.default_float())
        return div(total, const(total, count))

    return tree.tree_map(one, x)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest over a named axis, of every leaf of a pytree.

    Raises NameError if nothing binds the axis. With `axis_index_groups` over each group only.

    >>> f = lambda x: x / lax.pmax(x, 'i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1., 2., 4.]))
    Array([0.25, 0.5 , 1.  ], dtype=float32)
    """
    return tree.tree_map(
        lambda leaf: _over_axes(pmax_p, reduce_max, leaf, axis_name, axis_index_groups), x
    )


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest over a named axis, of every leaf of a pytree.

    Raises NameError if nothing binds the axis. With `axis_index_groups` over each group only.

    >>> f = lambda x: x - lax.pmin(x, 'i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([3., 2., 4.]))
    Array([1., 0., 2.], dtype=float32)
    """
    return tree.tree_map(
        lambda leaf: _over_axes(pmin_p, reduce_min, leaf, axis_name, axis_index_groups), x
    )


# --- position on a named axis ---
def _axis_index_aval(*, axis_name: Any) -> Any:
    _axis_size(axis_name)
    return ShapedArray((), np.dtype("int32")), _effects((axis_name,))


def _axis_index_batch(axis: Any, args: Any, dims: Any, *, axis_name: Any) -> Any:
    if axis.name is None or axis_name != axis.name:
        return None
    return iota(np.int32, axis.size), 0


axis_index_p: Primitive = Primitive(
    "axis_index",
    abstract_eval=_axis_index_aval,
    jvp=No.HOLDS_NO_ARRAYS,
    transpose=No.HOLDS_NO_ARRAYS,
    batch=No.BY_TRACE,
    axis_batch=_axis_index_batch,
    effectful=True,
)


def axis_index(axis_name: Any) -> Any:
    """The index of this instance along a named axis (row-major along several).

    An int32 scalar. Raises NameError if no enclosing transformation binds the axis.

    >>> f = lambda x: x * lax.axis_index('i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([5, 5, 5]))
    Array([ 0,  5, 10], dtype=int32)
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    if not axis_name:
        return as_array(0)
    total: Any = 0
    step = 1
    for name in reversed(axis_name):
        total = add(total, mul(axis_index_p.bind(axis_name=name), np.int32(step)))
        step *= _axis_size(name)
    return total


# --- values of all instances, and sums of which each keeps a part ---
def _own(axis: Any, names: Any) -> bool:
    """Is this axis one of those that an exchange is over?"""
    return axis.name is not None and axis.name in _names(names)


def _several(names: Any) -> bool:
    return isinstance(names, (tuple, list)) and len(names) > 1


def _all_gather_aval(
    x: Any,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    axis_index_groups: Any,
    axis_size: int,
    tiled: bool,
) -> Any:
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type), _effects(_names(axis_name))


def _all_gather_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, **params: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def _all_gather_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    tiled: bool,
    **params: Any,
) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        if d is None:
            return None
        x = move_batch_front(x, d)
        return all_gather_p.bind(
            x,
            all_gather_dimension=all_gather_dimension + 1,
            axis_name=axis_name,
            tiled=tiled,
            **params,
        ), 0
    if params["axis_index_groups"] is not None:
        names, groups = _names(axis_name), params["axis_index_groups"]
        group = Group(axis, (x, d), names, groups, all_gather_p, axis_index_p)
        out = _moved(group.values(), 1, all_gather_dimension + 1)
        return (_joined(out, all_gather_dimension + 1) if tiled else out), 0
    if _several(axis_name):
        return gather_in_turn(all_gather_p, axis, (x, d), axis_name, all_gather_dimension, tiled)
    out = _moved(full_batch(x, d, axis.size), 0, all_gather_dimension)
    return (_joined(out, all_gather_dimension) if tiled else out), None


def _joined(x: Any, axis: int) -> Any:
    """Axes `axis` and the next as one."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


all_gather_p: Primitive = Primitive(
    "all_gather",
    abstract_eval=_all_gather_aval,
    jvp=linear_jvp(lambda: all_gather_p),
    transpose=_all_gather_transpose,
    batch=No.BY_TRACE,
    axis_batch=_all_gather_batch,
    effectful=True,
)


def _gather_invariant_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_size: int, tiled: bool,
    **params: Any,
) -> list[Any]:  # fmt: skip
    """The cotangent is the same on all instances: each takes its own part."""
    if type(ct) is Zero:
        return [Zero(x.aval)]
    ct, at = pvary(ct, axis_name), axis_index(axis_name)
    if tiled:
        n = x.aval.shape[all_gather_dimension]
        return [dynamic_slice_in_dim(ct, mul(at, np.int32(n)), n, all_gather_dimension)]
    return [dynamic_index_in_dim(ct, at, all_gather_dimension, keepdims=False)]


all_gather_invariant_p: Primitive = Primitive(
    "all_gather_invariant",
    abstract_eval=functools.partial(_all_gather_aval, axis_index_groups=None),
    jvp=linear_jvp(lambda: all_gather_invariant_p),
    transpose=_gather_invariant_transpose,
    batch=No.BY_TRACE,
    axis_batch=functools.partial(_all_gather_batch, axis_index_groups=None),
    effectful=True,
)


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of all instances along a named axis, on a new axis (`tiled`: concatenated along an
    axis), of every leaf.

    `x`: a pytree of arrays, of one shape on every instance; NameError if nothing binds the axis.
    With `axis_index_groups` only the instances of a group exchange values. `to`: in a `shard_map`,
    whether the type of the result says that it varies ("varying") or is the same on all instances
    ("invarying", "reduced"); ValueError for another word.

    >>> f = lambda x: lax.all_gather(x, 'i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(
            f"Got unexpected `to` value for `jax.lax.all_gather`. Allowed `to` values are: "
            f"{{'varying', 'invarying', 'reduced'}}, got {to!r}"
        )
    if not _names(axis_name):
        return x
    groups = _groups(axis_index_groups, axis_name)
    size = axis_size(axis_name) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        ndim = typeof(leaf).ndim
        names = _names(axis_name)
        params = {
            "all_gather_dimension": canonical_axis(axis, ndim if tiled else ndim + 1),
            "axis_name": names, "axis_size": size, "tiled": bool(tiled),
        }  # fmt: skip
        if to != "varying" and groups is None and checked_axes().issuperset(names):
            return all_gather_invariant_p.bind(varied(leaf, names), **params)
        return all_gather_p.bind(varied(leaf, names), axis_index_groups=groups, **params)

    return tree.tree_map(one, x)


def _scattered(shape: Sequence[int], at: int, count: int, tiled: bool) -> tuple[int, ...]:
    """The shape of each of `count` parts along axis `at`; ValueError if it does not divide."""
    if tiled and shape[at] % count:
        raise ValueError(
            f"tiled reduce_scatter operand scatter dimension size {shape[at]} must be divisible by "
            f"shard count {count}"
        )
    if not tiled and shape[at] != count:
        raise ValueError(
            f"reduce_scatter operand scatter dimension size {shape[at]} must match shard count "
            f"{count}"
        )
    return (*shape[:at], *((shape[at] // count,) if tiled else ()), *shape[at + 1 :])


def _reduce_scatter_aval(
    x: Any,
    *,
    axis_name: Any,
    scatter_dimension: int,
    axis_index_groups: Any,
    axis_size: int,
    tiled: bool,
) -> Any:
    shape = _scattered(x.shape, scatter_dimension, axis_size, tiled)
    return ShapedArray(shape, x.dtype, x.weak_type), _effects(_names(axis_name))


def _reduce_scatter_transpose(
    ct: Any, x: Any, *, scatter_dimension: int, **params: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


def _reduce_scatter_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    axis_name: Any,
    scatter_dimension: int,
    tiled: bool,
    **params: Any,
) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        if d is None:
            return None
        x = move_batch_front(x, d)
        return reduce_scatter_p.bind(
            x, axis_name=axis_name, scatter_dimension=scatter_dimension + 1, tiled=tiled, **params
        ), 0
    if params["axis_index_groups"] is not None:
        names, groups = _names(axis_name), params["axis_index_groups"]
        group = Group(axis, (x, d), names, groups, all_gather_p, axis_index_p)
        out = group.part(group.total(), scatter_dimension + 1)
        return (out if tiled else squeeze(out, (scatter_dimension + 1,))), 0
    if _several(axis_name):
        return scatter_in_turn(reduce_scatter_p, axis, (x, d), axis_name, scatter_dimension, tiled)
    total = mul(const(x, axis.size), x) if d is None else reduce_sum(x, (d,))
    return (as_two_axes(total, scatter_dimension, axis.size) if tiled else total), scatter_dimension


reduce_scatter_p: Primitive = Primitive(
    "reduce_scatter",
    abstract_eval=_reduce_scatter_aval,
    jvp=linear_jvp(lambda: reduce_scatter_p),
    transpose=_reduce_scatter_transpose,
    batch=No.BY_TRACE,
    axis_batch=_reduce_scatter_batch,
    effectful=True,
)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over a named axis; each instance keeps its part of it along `scatter_dimension`.

    `x`: a pytree of arrays whose scattered axis has the size of the named axis, and goes (`tiled`:
    a multiple of it, and stays). Raises NameError if nothing binds the axis, ValueError for another
    size.

    >>> f = lambda x: lax.psum_scatter(x, 'i')
    >>> pullback.vmap(f, axis_name='i')(jnp.array([[1, 2], [30, 40]]))
    Array([31, 42], dtype=int32)
    """
    if not _names(axis_name):
        return x
    groups = _groups(axis_index_groups, axis_name)
    size = axis_size(axis_name) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        at = canonical_axis(scatter_dimension, typeof(leaf).ndim)
        _scattered(typeof(leaf).shape, at, size, tiled)
        return reduce_scatter_p.bind(
            varied(leaf, _names(axis_name)), axis_name=_names(axis_name), scatter_dimension=at,
            axis_index_groups=groups, axis_size=size, tiled=bool(tiled),
        )  # fmt: skip

    return tree.tree_map(one, x)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Marks the leaves as varying (or unreduced, or reduced) over a named axis. Under vmap there is
    nothing to mark.

    `x`: a pytree of arrays; `to`: "varying", "unreduced" or "reduced". Of use in `shard_map`, where
    types say over which axes values vary.

    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> f = lambda x: lax.pcast(x, 'i', to='varying')
    >>> spec = pullback.sharding.PartitionSpec
    >>> pullback.shard_map(f, mesh=mesh, in_specs=spec(), out_specs=spec('i'))(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(
            f"pcast: Got unexpected `to` value {to!r}. Allowed `to` values are: 'unreduced', "
            "'reduced', 'varying'"
        )
    if not isinstance(axis_name, (tuple, str)):
        raise TypeError(f"pcast: axis_name={axis_name} must be a tuple or a str. Got {axis_name}")
    axis_size(axis_name)
    names = _names(axis_name)
    if not checked_axes().issuperset(names):
        return x
    if to == "varying":
        return tree.tree_map(lambda leaf: _made_to_vary(leaf, names), x)
    # What is added up later varies until then; what has been added up is the same everywhere.
    for leaf in tree.leaves(x):
        varies = typeof(leaf).vma.intersection(names)
        if (to == "unreduced" and len(varies) < len(names)) or (to == "reduced" and varies):
            state = "varying" if varies else "invarying"
            raise ValueError(
                f"Unsupported pcast from={state}, to={to!r}: {typeof(leaf).str_short()} over "
                f"{names}."
            )
    return x


def _made_to_vary(x: Any, names: tuple[Any, ...]) -> Any:
    if not typeof(x).vma.isdisjoint(names):
        raise ValueError(
            f"Unsupported pcast from=varying, to='varying': a value of type {typeof(x).str_short()}"
            f" varies over {names} already."
        )
    return pvary(x, names)


match_varying.append(pvary)
