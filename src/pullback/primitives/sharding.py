"""How an array is laid out over devices: constraints, and changes over axes of explicit type. Both
are the identity, with a wish. The sharding is a parameter that this layer hands on.
"""

from __future__ import annotations

from typing import Any

from ..core import effects as fx
from ..core.avals import ShapedArray
from ..core.explicit import lay_anew, match_operands, names_in, parts_of, rules
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from ..lazy_imports import lazy_module
from .layout import linear_jvp

__all__ = [
    "batch_over",
    "inspect_sharding_p",
    "reshard_p",
    "sharding_constraint_p",
    "with_batch_axis",
]

# The rules of types that say something of meshes: programs on one device need none.
_explicit: Any = lazy_module("pullback.primitives.explicit")
_manual: Any = lazy_module("pullback.primitives.manual")
rules.append(lambda: _explicit.apply)
lay_anew.append(lambda x, lies: reshard_p.bind(x, dst_sharding=lies, concrete_mesh=None))
match_operands.append(lambda primitive, operands: _manual.alike(primitive, operands))


def _aval(x: Any, *, sharding: Any, **params: Any) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype, x.weak_type)


def _transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [ct if type(ct) is Zero else sharding_constraint_p.bind(ct, **params)]


def with_batch_axis(what: str, spec: Any, dim: int, over: Any, free: Any = None) -> Any:
    """A spec with the axis of a batch: over the mesh axes `over`, else as `free` says. ValueError
    if the spec names one of these mesh axes already."""
    own = {n for part in spec for n in names_in(part)}
    if own & set(names_in(over)):
        raise ValueError(
            f"vmap spmd_axis_name {names_in(over)} cannot appear in {what} spec, but got spec "
            f"{spec}. Fix: another mesh axis."
        )
    parts = [*spec, *([None] * max(0, dim - len(spec)))]
    parts.insert(dim, over or free)
    return spec.update(partitions=parts)


def batch_over(axis: Any) -> Any:
    """The mesh axes that a mapped axis lies over: those that `vmap` was told, or of its types."""
    return axis.spmd_name or (axis.lies[1] if axis.lies else None)


def _axis_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    return None if dims[0] is None else _batch(args, dims, over=axis.spmd_name, **params)


def _batch(
    args: Any, dims: Any, *, sharding: Any, unconstrained_dims: Any, over: Any = None, **params: Any
) -> Any:
    """The axis of the batch lies over the axes of the mesh that `vmap` was told
    (`spmd_axis_name`); else the compiler decides about it."""
    (x,), (d,) = args, dims
    if over and not hasattr(sharding, "spec"):
        raise ValueError(
            "If you are using spmd_axis_name parameter of jax.vmap, please make sure to run your "
            "jitted function inside the mesh context manager. Only `jax.lax."
            "with_sharding_constraint` with `jax.sharding.NamedSharding` as an input can be "
            "transformed with spmd_axis_name batching rules outside of an explicit mesh context "
            f"manager scope {sharding}"
        )
    free = frozenset({*([] if over else [d]), *(k + (k >= d) for k in unconstrained_dims)})
    if hasattr(sharding, "spec"):
        spec = sharding.spec
        what = "with_sharding_constraint"
        spec = with_batch_axis(what, spec, d, over, spec.UNCONSTRAINED)
        sharding = sharding.update(spec=spec)
    out = sharding_constraint_p.bind(x, sharding=sharding, unconstrained_dims=free, **params)
    return out, d


sharding_constraint_p: Primitive = Primitive(
    "sharding_constraint",
    abstract_eval=_aval,
    impl=lambda x, **_: x,
    jvp=linear_jvp(lambda: sharding_constraint_p),
    transpose=_transpose,
    batch=_batch,
    axis_batch=_axis_batch,
)


def _reshard_transpose(ct: Any, x: Any, *, dst_sharding: Any, **params: Any) -> list[Any]:
    """Back to where the operand lies."""
    if type(ct) is Zero:
        return [ct]
    lies = x.aval._sharding  # sums to come are sums that were done, for cotangents
    come, done = (frozenset(),) * 2 if lies is None else (lies.spec.unreduced, lies.spec.reduced)
    spec = type(dst_sharding.spec)(*parts_of(x.aval), unreduced=done, reduced=come)
    return [reshard_p.bind(ct, dst_sharding=dst_sharding.update(spec=spec), **params)]


def _reshard_axis_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    """The axis of the batch lies as it did."""
    if dims[0] is None:
        return None
    return _reshard_batch(args, dims, over=batch_over(axis), **params)


def _reshard_batch(
    args: Any, dims: Any, *, dst_sharding: Any, over: Any = None, **params: Any
) -> Any:
    (x,), (d,) = args, dims
    spec = with_batch_axis("reshard", dst_sharding.spec, d, over)
    return reshard_p.bind(x, dst_sharding=dst_sharding.update(spec=spec), **params), d


reshard_p: Primitive = Primitive(
    "reshard",
    abstract_eval=lambda x, **_: ShapedArray(x.shape, x.dtype, x.weak_type),
    impl=lambda x, **_: x,
    jvp=linear_jvp(lambda: reshard_p),
    transpose=_reshard_transpose,
    batch=_reshard_batch,
    axis_batch=_reshard_axis_batch,
)


class InspectEffect(fx.Effect):
    """A program tells its user, once it is compiled, how values in it lie."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InspectEffect)

    def __hash__(self) -> int:
        return hash(InspectEffect)


inspect_effect = InspectEffect()
for _allowed in (
    fx.control_flow_allowed_effects, fx.remat_allowed_effects,
    fx.custom_derivatives_allowed_effects, fx.lowerable_effects,
):  # fmt: skip
    _allowed.add_type(InspectEffect)


def _inspect_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    inspect_sharding_p.bind(*primals, **params)
    return [], []


# Who compiles a program tells `callback` the sharding of the operand; nothing is computed.
inspect_sharding_p: Primitive = Primitive(
    "inspect_sharding",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda x, *, callback: ([], frozenset({inspect_effect})),
    impl=lambda x, *, callback: callback(x.sharding) or [],
    jvp=_inspect_jvp,
    transpose=lambda cts, x, **_: [Zero(x.aval) if type(x) is UndefinedPrimal else None],
    batch=lambda args, dims, **params: (inspect_sharding_p.bind(*args, **params), []),
    inline=lambda x, *, callback: [],
)
