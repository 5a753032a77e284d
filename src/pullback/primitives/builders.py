"""Builders of elementwise primitives, each with all of its rules: derivatives are given as formulas
of (tangent, result, operands).

unary("sin", kinds, lambda t, y, x: mul(t, cos(x)))
binary("mul", kinds, lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes
from ..core.avals import typeof
from ..core.explicit import parts_of, said
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .common import nary_aval, zero_of
from .layout import (
    broadcast_in_dim,
    broadcast_in_dim_p,
    broadcast_to,
    laid_as,
    layout_of,
    move_batch_front,
    reduce_sum,
    reshape,
    reshape_p,
)


def nary_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batch rule of an elementwise operation: brings the batch axes together, keeps unmapped
    scalars scalar. Axes are added last to what has fewer, as in JAX's programs.
    """

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        p = get()
        avals = [typeof(x) for x in args]
        places = {(a.ndim, d) for a, d in zip(avals, dims) if d is not None or a.ndim}
        if len(places) == 1:
            return p.bind(*args, **params), places.pop()[1]
        rank = max(a.ndim - (d is not None) for a, d in zip(avals, dims))
        ranks = {a.ndim - (d is not None) for a, d in zip(avals, dims) if d is not None or a.ndim}
        if len(ranks) > 1:
            args = [align_batch(x, d, 0) for x, d in zip(args, dims)]
            dims = [d if d is None and not a.ndim else 0 for a, d in zip(avals, dims)]
        return p.bind(*(align_batch(x, d, rank) for x, d in zip(args, dims)), **params), 0

    return batch


def align_batch(x: Any, dim: int | None, rank: int) -> Any:
    """An operand with its batch axis in front and `rank` axes behind it (size 1 where it has none);
    an unmapped scalar as it is.
    """
    aval = typeof(x)
    if dim is None:
        if not aval.ndim:
            return x
        return broadcast_in_dim(x, (1, *aval.shape), tuple(range(1, 1 + aval.ndim)))
    x, missing = move_batch_front(x, dim), rank + 1 - aval.ndim
    if missing > 0:  # scalars; and arrays of lower rank, which only vmap takes, as in JAX
        shape = typeof(x).shape
        return broadcast_in_dim(x, (*shape, *(1,) * missing), tuple(range(len(shape))))
    return x


def full_batch(x: Any, dim: int | None, size: Any, lies: Any = None) -> Any:
    """An operand with its batch axis in front, made if it has none: it lies as `lies` says."""
    if dim is not None:
        return move_batch_front(x, dim)
    aval = typeof(x)
    shape, axes = (size, *aval.shape), tuple(range(1, 1 + aval.ndim))
    if lies is None:
        return broadcast_in_dim(x, shape, axes)
    spec = type(lies.spec)(*lies.spec, *parts_of(aval))
    return broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=axes, sharding=lies.update(spec=spec)
    )


def batch_lies(args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """How the batch axis of operands lies over a mesh, as a sharding of that axis; None if no type
    says anything."""
    for x, d in zip(args, dims) if said[0] else ():
        aval = typeof(x)
        if d is not None and aval._sharding is not None and parts_of(aval)[d] is not None:
            return aval._sharding.update(spec=type(aval._sharding.spec)(parts_of(aval)[d]))
    return None


def batch_size(args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """The size of the batch axis."""
    return next(typeof(x).shape[d] for x, d in zip(args, dims) if d is not None)


def _add_any_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [ct if type(a) is UndefinedPrimal else None for a in (x, y)]


def _add_any_jvp(primals: Any, tangents: Any) -> Any:
    return add_any_p.bind(*primals), add_tangents(*tangents)


def _add_any_batch(args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """An operand without the batch axis gets it: sums of (co)tangents are of one shape, which the
    transpose relies on."""
    mapped = {d for d in dims if d is not None}
    if len(mapped) == 1 and None not in dims:
        return add_any_p.bind(*args), mapped.pop()
    size = batch_size(args, dims)
    return add_any_p.bind(*(full_batch(x, d, size) for x, d in zip(args, dims, strict=True))), 0


_add_any_types = nary_aval("add_any", (("number", "bool", "extended"),) * 2)


def _add_any_aval(x: Any, y: Any) -> Any:
    """The type of the first: the two differ in nothing but weakness."""
    return _add_any_types(x, y).update(weak_type=x.weak_type)


def _add_any_now(x: Any, y: Any) -> Any:
    """Outside of programs the sum is weakly typed if both are, not if the first is."""
    if typeof(x).weak_type and not typeof(y).weak_type:
        return add_any_p.bind(y, x)
    return NotImplemented


add_any_p: Primitive = Primitive(
    "add_any",
    impl=_add_any_now,
    abstract_eval=_add_any_aval,
    jvp=_add_any_jvp,
    transpose=_add_any_transpose,
    batch=_add_any_batch,
)
add_any_p.remember_types()


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents of one type.

    >>> pb.interpreters.ad.add_jaxvals(jnp.array(1.0), jnp.array(2.0))
    Array(3., dtype=float32, weak_type=True)
    """
    aval = typeof(x)
    if aval.is_high:
        return aval.vspace_add(x, y)
    if aval.dtype == dtypes.float0:
        return x
    return add_any_p.bind(x, y)


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be Zero."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return add_jaxvals(x, y)


def unbroadcast(aval: Any, x: Any) -> Any:
    """The adjoint of broadcasting an operand of type `aval` to the shape of `x`: sums over what was
    repeated.
    """
    if type(x) is Zero:
        return Zero(aval)
    shape = typeof(x).shape
    if aval.shape == shape:
        return laid_as(aval, x)
    if not aval.shape:
        return reduce_sum(x, tuple(range(len(shape))))
    summed = tuple(k for k, (n, m) in enumerate(zip(aval.shape, shape)) if n is not m and n != m)
    total = reduce_sum(x, summed)
    lies = layout_of(aval, total)
    if lies is not None:
        return reshape_p.bind(total, new_sizes=aval.shape, dimensions=None, sharding=lies)
    return reshape(total, aval.shape)


def jvp_of(
    get: Callable[[], Primitive], *derivatives: Callable[..., Any] | None
) -> Callable[..., Any]:
    """The jvp rule made of one formula per operand, `derivative(tangent, result, *operands,
    **params)` (None: it has no tangent).
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = get().bind(*primals, **params)
        total: Any = None
        shape = typeof(out).shape
        for t, derivative in zip(tangents, derivatives):
            if type(t) is Zero or derivative is None:
                continue
            part = derivative(t, out, *primals, **params)
            if type(part) is Zero:
                continue
            part = broadcast_to_shape(part, shape)
            total = part if total is None else add_jaxvals(total, part)
        return out, zero_of(out) if total is None else total

    return jvp


def broadcast_to_shape(x: Any, shape: Any) -> Any:
    """A scalar, or an array with axes of size 1, broadcast to `shape`."""
    aval = typeof(x)
    if aval.shape == shape:
        return x
    if not aval.shape:
        return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(), sharding=None)
    return broadcast_to(x, shape)


def unary(
    name: str,
    kinds: tuple[str, ...],
    derivative: Callable[..., Any] | No,
    *,
    result: Callable[[Any], Any] | None = None,
    transpose: Callable[..., Any] | No = No.NOT_LINEAR,
) -> Primitive:
    """An elementwise primitive of one operand. `derivative` No.NOT_DIFFERENTIABLE: its tangent is
    zero.
    """
    p: Primitive

    def get() -> Primitive:
        return p

    p = Primitive(
        name,
        abstract_eval=nary_aval(name, (kinds,), result),
        jvp=jvp_of(get, None if isinstance(derivative, No) else derivative),
        transpose=transpose,
        batch=lambda args, dims, **params: (p.bind(args[0], **params), dims[0]),
    )
    p.remember_types()
    return p


def linear_unary(
    name: str,
    kinds: tuple[str, ...],
    transpose: Callable[..., Any],
    *,
    result: Callable[[Any], Any] | None = None,
) -> Primitive:
    """An elementwise primitive that is linear in its one operand; `transpose(ct, **params)` is the
    adjoint, of its cotangent.
    """

    def rule(ct: Any, x: Any, **params: Any) -> list[Any]:
        return [Zero(x.aval) if type(ct) is Zero else transpose(ct, **params)]

    p = unary(
        name, kinds, lambda t, out, x, **params: p.bind(t, **params), result=result, transpose=rule
    )
    return p


def binary(
    name: str,
    kinds: tuple[str, ...],
    d0: Callable[..., Any] | None,
    d1: Callable[..., Any] | None,
    *,
    kinds1: tuple[str, ...] | None = None,
    result: Callable[[Any], Any] | None = None,
    same_dtypes: bool = True,
    transpose: Callable[..., Any] | No = No.NOT_LINEAR,
    jvp: Callable[..., Any] | No | None = None,
) -> Primitive:
    """An elementwise primitive of two operands; `d0`, `d1` are its derivatives (None, None: its
    tangent is zero).
    """
    p: Primitive

    def get() -> Primitive:
        return p

    p = Primitive(
        name,
        abstract_eval=nary_aval(name, (kinds, kinds1 or kinds), result, same_dtypes),
        jvp=jvp_of(get, d0, d1) if jvp is None else jvp,
        transpose=transpose,
        batch=nary_batch(get),
    )
    p.remember_types()
    return p
