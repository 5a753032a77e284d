"""How an array is laid out over devices: constraints, and changes over axes of explicit type. Both
are the identity, with a wish. The sharding is a parameter that this layer hands on.
"""

from __future__ import annotations

from typing import Any

from ..core.avals import ShapedArray
from ..core.primitive import Primitive
from ..core.symbolic import Zero
from .layout import linear_jvp

__all__ = ["reshard_p", "sharding_constraint_p"]


def _aval(x: Any, *, sharding: Any, **params: Any) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype, x.weak_type)


def _transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [ct if type(ct) is Zero else sharding_constraint_p.bind(ct, **params)]


def _batch(args: Any, dims: Any, *, sharding: Any, unconstrained_dims: Any, **params: Any) -> Any:
    """The compiler decides about the axis of the batch."""
    (x,), (d,) = args, dims
    free = frozenset({d, *(k + (k >= d) for k in unconstrained_dims)})
    if hasattr(sharding, "spec"):
        spec = sharding.spec
        parts = [*spec, *([None] * max(0, d - len(spec)))]
        parts.insert(d, spec.UNCONSTRAINED)
        sharding = type(sharding)(
            sharding.mesh, type(spec)(*parts), memory_kind=sharding.memory_kind
        )
    out = sharding_constraint_p.bind(x, sharding=sharding, unconstrained_dims=free, **params)
    return out, d


sharding_constraint_p: Primitive = Primitive(
    "sharding_constraint",
    abstract_eval=_aval,
    impl=lambda x, **_: x,
    jvp=linear_jvp(lambda: sharding_constraint_p),
    transpose=_transpose,
    batch=_batch,
)


def _reshard_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [ct if type(ct) is Zero else reshard_p.bind(ct, **params)]


def _reshard_batch(args: Any, dims: Any, *, dst_sharding: Any, **params: Any) -> Any:
    """The axis of the batch lies whole."""
    (x,), (d,) = args, dims
    parts = [*dst_sharding.spec, *([None] * (x.ndim - 1 - len(dst_sharding.spec)))]
    parts.insert(d, None)
    spec = type(dst_sharding.spec)(*parts)
    return reshard_p.bind(x, dst_sharding=dst_sharding.update(spec=spec), **params), d


reshard_p: Primitive = Primitive(
    "reshard",
    abstract_eval=lambda x, **_: ShapedArray(x.shape, x.dtype, x.weak_type),
    impl=lambda x, **_: x,
    jvp=linear_jvp(lambda: reshard_p),
    transpose=_reshard_transpose,
    batch=_reshard_batch,
)
