"""Rules of vectorisation: the tables, and what rules are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..api import vmappable as _vmappable
from ..core.primitive import Primitive, RuleTable
from ..primitives.shape import broadcast as _broadcast
from ..transforms.batch import (
    BatchTrace as BatchTrace,
    BatchTracer as BatchTracer,
    matchaxis as _matchaxis,
    moveaxis as moveaxis,
    not_mapped as not_mapped,
)

NotMapped = type(None)
primitive_batchers = RuleTable("batch")
fancy_primitive_batchers = RuleTable("axis_batch")


class _AxisRuleTable(RuleTable):
    """The same table, for rules that are given the axis in parts: `(axis_size, axis_name, trace
    type, args, dims, **params)`.
    """

    def __setitem__(self, p: Primitive, rule: Callable[..., Any]) -> None:
        def with_axis(axis: Any, vals: Any, dims: Any, **params: Any) -> Any:
            return rule(axis.size, axis.name, None, vals, dims, **params)

        super().__setitem__(p, with_axis)


axis_primitive_batchers = _AxisRuleTable("axis_batch")


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """`x` with its batch axis in front (made, if it has none).

    >>> pb.interpreters.batching.bdim_at_front(jnp.zeros((2, 3)), 1, 3).shape
    (3, 2)
    """
    return _matchaxis(size, bdim, 0, x)


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """`x` repeated along a new axis.

    >>> pb.interpreters.batching.broadcast(jnp.array([1, 2]), 2, 0)
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    return moveaxis(_broadcast(x, (sz,)), 0, axis)


def defvectorized(prim: Primitive) -> None:
    """The primitive works element by element: a batch axis is one more axis.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import batching
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> batching.defvectorized(double_p)
    >>> pb.vmap(double_p.bind)(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    primitive_batchers[prim] = lambda args, dims, **params: (
        prim.bind(*args, **params),
        dims[0],
    )


def defbroadcasting(prim: Primitive) -> None:
    """The primitive works element by element on operands of equal shapes.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import batching
    >>> plus_p = core.Primitive("example_plus")
    >>> _ = plus_p.def_impl(lambda x, y: x + y), plus_p.def_abstract_eval(lambda x, y: x)
    >>> batching.defbroadcasting(plus_p)
    >>> pb.vmap(plus_p.bind, in_axes=(0, None))(jnp.arange(3), 10)
    Array([10, 11, 12], dtype=int32)
    """

    def batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return prim.bind(
            *(bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)), **params
        ), 0

    primitive_batchers[prim] = batch


def defreducer(prim: Primitive) -> None:
    """The primitive reduces over `axes`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import batching
    >>> total_p = core.Primitive("example_total")
    >>> _ = total_p.def_impl(lambda x, axes: x.sum(axes))
    >>> batching.defreducer(total_p)
    >>> pb.vmap(lambda x: total_p.bind(x, axes=(0,)))(jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """

    def batch(
        args: Sequence[Any], dims: Sequence[Any], *, axes: Sequence[int], **params: Any
    ) -> Any:
        (x,), (d,) = args, dims
        shifted = tuple(a + (a >= d) for a in axes)
        return prim.bind(x, axes=shifted, **params), d - sum(a < d for a in shifted)

    primitive_batchers[prim] = batch


register_vmappable = _vmappable.register
is_vmappable = _vmappable.is_registered
unregister_vmappable = _vmappable.unregister
