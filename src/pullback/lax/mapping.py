"""Loops as functions of functions: `map` over the leading axis, and `associative_scan`. Libraries
on scan, slices and vmap.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, tree
from ..api.vmap import vmap
from ..control.common import stands_for
from ..control.scan import scan
from ..core.avals import typeof
from ..core.tracebacks import boundary
from ..primitives.common import as_array, canonical_axis
from ..primitives.elementwise import add, bitwise_or
from ..primitives.layout import reshape, rev
from ..primitives.shape import concatenate, pad, slice as lax_slice, slice_in_dim


@boundary
def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each element along the leading axes of the arrays in `xs`, in order, the results
    stacked: Python's map as a compiled loop.

    `batch_size=b` applies `vmap(f)` to b elements at a time; a remainder is one smaller call.

    >>> lax.map(lambda x: x * 2, jnp.arange(3.))
    Array([0., 2., 4.], dtype=float32)

    Raises ValueError if `xs` holds no arrays or their leading sizes differ.
    """
    if not batch_size:

        def body(_: tuple[()], x: Any) -> tuple[tuple[()], Any]:
            return (), f(x)

        stands_for(body, f, lambda _, x: ({0: x}, {}))
        return scan(body, (), xs)[1]
    batch_size = operator.index(batch_size)
    if batch_size < 0:
        raise TypeError(
            f"lax.map: batch_size must be positive, got {batch_size}. Fix: pass None to map one "
            "element at a time."
        )
    leaves, treedef = tree.flatten(xs)
    leaves = [as_array(x) for x in leaves]
    n = _leading_size(leaves)
    batches, remainder = divmod(n, batch_size)
    parts: list[Any] = []
    g = vmap(f)
    if batches:
        whole = [
            reshape(_head(x, n - remainder), (batches, batch_size, *typeof(x).shape[1:]))
            for x in leaves
        ]
        rest = [_tail(x, n - remainder) for x in leaves] if remainder else []

        def step(_: tuple[()], x: Any) -> tuple[tuple[()], Any]:
            return (), g(x)

        stacked = scan(step, (), tree.unflatten(treedef, whole))[1]
    else:
        rest = leaves
    if remainder or not batches:
        parts = [g(tree.unflatten(treedef, rest))]
    if not batches:
        return parts[0]
    stacked = tree.map(lambda y: reshape(y, (batches * batch_size, *typeof(y).shape[2:])), stacked)
    if not parts:
        return stacked
    return tree.map(lambda a, b: concatenate([a, b], 0), stacked, parts[0])


def _leading_size(leaves: Sequence[Any]) -> int:
    if not leaves:
        raise ValueError("lax.map got no arrays to map over. Fix: pass at least one array in xs.")
    shapes = [typeof(x).shape for x in leaves]
    if any(not s for s in shapes):
        raise ValueError(
            f"lax.map maps over leading axes, got an array of shape (); all shapes are {shapes}"
        )
    sizes = {s[0] for s in shapes}
    if len(sizes) > 1:
        raise ValueError(
            f"lax.map got arrays whose leading axes have different sizes: {sorted(sizes)}"
        )
    return int(sizes.pop())


def _head(x: Any, stop: int) -> Any:
    shape = typeof(x).shape
    return x if stop == shape[0] else lax_slice(x, (0,) * len(shape), (stop, *shape[1:]))


def _tail(x: Any, start: int) -> Any:
    shape = typeof(x).shape
    return lax_slice(x, (start, *(0,) * (len(shape) - 1)), shape)


@boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefix results of an associative operation, in logarithmic depth: `[x0, fn(x0, x1),
    fn(fn(x0, x1), x2), ...]`.

    `elems` is a pytree of arrays of equal size along `axis`; `fn(a, b)` takes and returns such
    trees, elementwise along `axis`. `reverse=True` scans from the end.

    >>> lax.associative_scan(jnp.add, jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)

    Raises TypeError if `fn` is not callable, ValueError if sizes differ, IndexError if there are no
    arrays.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    flat, treedef = tree.flatten(elems)
    if not flat:
        raise IndexError(
            "lax.associative_scan: elems holds no arrays. Fix: pass at least one array."
        )
    flat = [as_array(x) for x in flat]
    axis = canonical_axis(axis, typeof(flat[0]).ndim)
    if reverse:
        flat = [rev(x, (axis,)) for x in flat]
    sizes = [typeof(x).shape[axis] for x in flat]
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. (saw: "
            f"{[typeof(x).shape for x in flat]})"
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = fn(tree.unflatten(treedef, a), tree.unflatten(treedef, b))
        leaves, out_tree = tree.flatten(out)
        if len(leaves) != treedef.num_leaves:
            few = "few" if len(leaves) < treedef.num_leaves else "many"
            raise ValueError(
                f"Too {few} leaves for PyTreeDef; expected {treedef.num_leaves}, got "
                f"{len(leaves)}: what the function of associative_scan returns has the structure "
                f"{out_tree}, but must have that of the elements, {treedef}."
            )
        for x, y in zip(a, leaves, strict=True):
            want, have = typeof(x), typeof(y)
            if have.ndim <= axis:
                raise IndexError(
                    f"the function of associative_scan returned {have.str_short()} for elements of "
                    f"type {want.str_short()}: axis {axis}, along which it scans, is missing. Fix: "
                    "combine elementwise; reduce no axis that is scanned."
                )
        return leaves

    scanned = _prefixes(combine, flat, axis)
    if reverse:
        scanned = [rev(x, (axis,)) for x in scanned]
    return tree.unflatten(treedef, scanned)


def _prefixes(combine: Callable[..., list[Any]], elems: Sequence[Any], axis: int) -> list[Any]:
    # Pairs are combined, the half-length problem is solved, and the even places follow from the odd
    # ones before them.
    n = typeof(elems[0]).shape[axis]
    if n < 2:
        return [*elems]
    pairs = combine(
        [slice_in_dim(x, 0, n - 1, stride=2, axis=axis) for x in elems],
        [slice_in_dim(x, 1, None, stride=2, axis=axis) for x in elems],
    )
    odd = _prefixes(combine, pairs, axis)
    left = [slice_in_dim(x, 0, -1, axis=axis) for x in odd] if n % 2 == 0 else odd
    even = combine(left, [slice_in_dim(x, 2, None, stride=2, axis=axis) for x in elems])
    even = [
        concatenate([slice_in_dim(x, 0, 1, axis=axis), y], axis)
        for x, y in zip(elems, even, strict=True)
    ]
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleave(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], b[1], ...; `a` has as many elements as `b`, or one more."""
    aval = typeof(a)
    more = aval.shape[axis] - typeof(b).shape[axis]
    zero = aval.dtype.type(0)

    def config(low: int, high: int) -> list[tuple[int, int, int]]:
        return [(low, high, 1) if k == axis else (0, 0, 0) for k in range(aval.ndim)]

    join = bitwise_or if dtypes.is_bool(aval.dtype) else add
    return join(pad(a, zero, config(0, 1 - more)), pad(b, zero, config(1, more)))


__all__ = ["associative_scan", "map"]
