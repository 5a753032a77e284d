"""Exchanges between the instances of a named axis: permutations, an axis split among all, one
instance's value for every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..core.trace import axis_size as _axis_size
from .builders import full_batch
from .collectives import (
    _effects,
    _groups,
    _joined,
    _moved,
    _names,
    _own,
    _several,
    all_gather_p,
    axis_index,
    axis_index_p,
    axis_size,
    psum,
    varied,
)
from .common import canonical_axis
from .dynamic_slice import index_take
from .elementwise import eq, select
from .exchange_steps import Group, all_to_all_in_turn, permute_in_turn
from .layout import (
    as_two_axes,
    expand_dims,
    full_as,
    linear_jvp,
    move_batch_front,
    reshape,
    squeeze,
)
from .shape import index_in_dim

__all__ = [
    "all_to_all", "all_to_all_p", "pbroadcast", "ppermute", "ppermute_p", "pshuffle", "pswapaxes",
]  # fmt: skip


def _check_permutation(perm: Any, n: int) -> None:
    sources, targets = [s for s, _ in perm], [t for _, t in perm]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}")
    if not all(0 <= k < n for k in (*sources, *targets)):
        raise AssertionError(
            "Permutation doesn't match the axis size! An index in perm is outside the axis, which "
            f"has size {n}: got {perm}"
        )


def _ppermute_aval(x: Any, *, axis_name: Any, perm: Any) -> Any:
    _check_permutation(perm, axis_size(axis_name))
    return ShapedArray(x.shape, x.dtype, x.weak_type), _effects(_names(axis_name))


def _ppermute_transpose(ct: Any, x: Any, *, axis_name: Any, perm: Any) -> list[Any]:
    if type(ct) is Zero:
        return [ct]
    return [ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm))]


def _ppermute_batch(axis: Any, args: Any, dims: Any, *, axis_name: Any, perm: Any) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        return None if d is None else (ppermute_p.bind(x, axis_name=axis_name, perm=perm), d)
    if _several(axis_name):
        return permute_in_turn(all_gather_p, axis_index_p, axis, (x, d), axis_name, perm)
    _check_permutation(perm, axis.size)
    x = full_batch(x, d, axis.size)
    source = np.full(axis.size, -1, np.int32)
    for s, t in perm:
        source[t] = s
    out = index_take(x, (np.maximum(source, 0),), (0,))
    shape = typeof(x).shape
    out = reshape(out, shape)
    if (source < 0).any():
        # An instance that nobody sends to gets zeros.
        got = np.broadcast_to((source >= 0).reshape(-1, *(1,) * (len(shape) - 1)), shape)
        out = select(np.ascontiguousarray(got), out, full_as(out, 0))
    return out, 0


ppermute_p: Primitive = Primitive(
    "ppermute",
    abstract_eval=_ppermute_aval,
    jvp=linear_jvp(lambda: ppermute_p),
    transpose=_ppermute_transpose,
    batch=No.BY_TRACE,
    axis_batch=_ppermute_batch,
    effectful=True,
)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """Sends each leaf from instance s to instance t for each pair (s, t) of `perm`; who gets
    nothing has zeros.

    `perm`: pairs of ints, no source and no target twice: ValueError otherwise. NameError if nothing
    binds the axis.

    >>> f = lambda x: lax.ppermute(x, 'i', [(0, 1), (1, 2)])
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1., 2., 3.]))
    Array([0., 1., 2.], dtype=float32)
    """
    try:
        pairs = tuple((int(s), int(t)) for s, t in perm)
    except ValueError:
        raise ValueError(
            f"ppermute: perm must be pairs (source, destination), got {perm!r}."
        ) from None
    names = _names(axis_name)
    return tree.tree_map(
        lambda leaf: ppermute_p.bind(varied(leaf, names), axis_name=names, perm=pairs), x
    )


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Instance k gets the value of instance `perm[k]`. Raises ValueError unless `perm` is a
    permutation.

    `x`: a pytree of arrays; NameError if nothing binds the axis.

    >>> f = lambda x: lax.pshuffle(x, 'i', [2, 0, 1])
    >>> pullback.vmap(f, axis_name='i')(jnp.array([1., 2., 3.]))
    Array([3., 1., 2.], dtype=float32)
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)))))


def _check_divisible(size: int, n: int) -> None:
    if size % n:
        raise ValueError(
            "all_to_all requires the size of split_axis to be divisible by the size of the mapped "
            f"axis, got {size} and {n}. Fix: pad the array to a multiple of {n} along that axis."
        )


def _all_to_all_aval(
    x: Any,
    *,
    split_axis: int,
    concat_axis: int,
    axis_name: Any,
    axis_index_groups: Any,
    tiled: bool,
) -> Any:
    n = axis_size(axis_name) if axis_index_groups is None else len(axis_index_groups[0])
    shape = list(x.shape)
    _check_divisible(shape[split_axis], n)
    shape[split_axis] //= n
    shape[concat_axis] *= n
    return ShapedArray(tuple(shape), x.dtype, x.weak_type), _effects(_names(axis_name))


def _all_to_all_transpose(
    ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


def _all_to_all_batch(
    axis: Any,
    args: Any,
    dims: Any,
    *,
    split_axis: int,
    concat_axis: int,
    axis_name: Any,
    **params: Any,
) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        if d is None:
            return None
        x = move_batch_front(x, d)
        return all_to_all_p.bind(
            x, split_axis=split_axis + 1, concat_axis=concat_axis + 1, axis_name=axis_name, **params
        ), 0
    if params["axis_index_groups"] is not None:
        names, groups = _names(axis_name), params["axis_index_groups"]
        group = Group(axis, (x, d), names, groups, all_gather_p, axis_index_p)
        out = group.sent(split_axis + 1)
        return _joined(_moved(out, 1, concat_axis + 1), concat_axis + 1), 0
    if _several(axis_name):
        where = axis_name, split_axis, concat_axis, params["tiled"]
        return all_to_all_in_turn(all_to_all_p, axis, (x, d), *where)
    # (sender, ..., split, ...) -> (receiver, sender, ...), then the sender joins the concatenated
    # axis.
    x = as_two_axes(full_batch(x, d, axis.size), split_axis + 1, axis.size)
    x = _moved(x, split_axis + 1, 0)
    return _joined(_moved(x, 1, concat_axis + 1), concat_axis + 1), 0


all_to_all_p: Primitive = Primitive(
    "all_to_all",
    abstract_eval=_all_to_all_aval,
    jvp=linear_jvp(lambda: all_to_all_p),
    transpose=_all_to_all_transpose,
    batch=No.BY_TRACE,
    axis_batch=_all_to_all_batch,
    effectful=True,
)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Splits an axis among the instances of a named axis, and gathers what they send along another.

    Not `tiled`, the split axis has the named axis's size and disappears, and the gathered one is
    new.

    `x`: a pytree of arrays. Raises NameError if nothing binds the axis, ValueError if its size does
    not fit that of the split axis.

    >>> f = lambda x: lax.all_to_all(x, 'i', 0, 0)
    >>> pullback.vmap(f, axis_name='i')(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    groups = _groups(axis_index_groups, axis_name)
    n = axis_size(axis_name) if groups is None else len(groups[0])

    def bind(leaf: Any, split: int, concat: int) -> Any:
        return all_to_all_p.bind(
            varied(leaf, _names(axis_name)),
            split_axis=split,
            concat_axis=concat,
            axis_name=axis_name,
            axis_index_groups=groups,
            tiled=bool(tiled),
        )

    def one(leaf: Any) -> Any:
        ndim = typeof(leaf).ndim
        split, concat = canonical_axis(split_axis, ndim), canonical_axis(concat_axis, ndim)
        if tiled:
            _check_divisible(typeof(leaf).shape[split], n)
            return bind(leaf, split, concat)
        if typeof(leaf).shape[split] != n:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal "
                "x.shape[split_axis], but they are "
                f"{n} and {typeof(leaf).shape[split]} respectively."
            )
        if split == concat:
            return bind(leaf, split, concat)
        if split < concat:
            return squeeze(bind(expand_dims(leaf, (concat + 1,)), split, concat + 1), (split,))
        return squeeze(bind(expand_dims(leaf, (concat,)), split + 1, concat), (split + 1,))

    return tree.tree_map(one, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchanges a named axis with a positional one of the same size.

    `x`: a pytree of arrays; NameError if nothing binds the axis.

    >>> f = lambda x: lax.pswapaxes(x, 'i', 0)
    >>> pullback.vmap(f, axis_name='i')(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _checked_source(axis_name: Any, source: int) -> int:
    n = axis_size(axis_name)
    if not 0 <= source < n:
        raise ValueError(
            f"pbroadcast: source must be in [0, {n}), the size of the axis {axis_name!r}; got "
            f"{source}"
        )
    return source


def _pbroadcast_aval(x: Any, *, axis_name: Any, source: int) -> Any:
    _checked_source(axis_name, source)
    return ShapedArray(x.shape, x.dtype, x.weak_type), _effects(_names(axis_name))


def _pbroadcast_transpose(ct: Any, x: Any, *, axis_name: Any, source: int) -> list[Any]:
    if type(ct) is Zero:
        return [ct]
    total = psum(ct, axis_name)
    return [select(eq(axis_index(axis_name), np.int32(source)), total, full_as(total, 0))]


def _pbroadcast_batch(axis: Any, args: Any, dims: Any, *, axis_name: Any, source: int) -> Any:
    (x,), (d,) = args, dims
    if not _own(axis, axis_name):
        return None if d is None else (pbroadcast_p.bind(x, axis_name=axis_name, source=source), d)
    for name in reversed(_names(axis_name)):  # `source` has a digit for each
        source, digit = divmod(source, _axis_size(name))
        if name != axis.name:
            x = pbroadcast_p.bind(x, axis_name=name, source=digit)
        elif d is not None:
            x, d = index_in_dim(x, digit, d, keepdims=False), None
    return x, None


pbroadcast_p: Primitive = Primitive(
    "pbroadcast",
    abstract_eval=_pbroadcast_aval,
    jvp=linear_jvp(lambda: pbroadcast_p),
    transpose=_pbroadcast_transpose,
    batch=No.BY_TRACE,
    axis_batch=_pbroadcast_batch,
    effectful=True,
)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value of instance `source` on every instance of a named axis.

    `x`: a pytree of arrays. Raises NameError if nothing binds the axis.

    >>> f = lambda x: lax.pbroadcast(x, 'i', source=1)
    >>> pullback.vmap(f, axis_name='i')(jnp.array([5, 6, 7]))
    Array([6, 6, 6], dtype=int32)
    """
    source = _checked_source(axis_name, int(source))
    return tree.tree_map(
        lambda leaf: pbroadcast_p.bind(
            varied(leaf, _names(axis_name)), axis_name=axis_name, source=source
        ),
        x,
    )
