"""How arrays lie on meshes, as attributes of Shardy: meshes are symbols of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .contexts import ModuleContext
from .library import ir, sdy


def is_named(sharding: Any) -> bool:
    """Does a sharding name the axes of a mesh?"""
    return hasattr(sharding, "spec") and hasattr(sharding, "mesh")


def mesh_symbol(ctx: ModuleContext, mesh: Any) -> str:
    """The name of a mesh in the module, which says its axes the first time."""
    axes = tuple(dict(mesh.shape).items())
    known = ctx.sharding_attr_cache.get(axes)
    if known is None:
        parts = [sdy.MeshAxisAttr.get(str(name), size) for name, size in axes]
        with ir.InsertionPoint.at_block_begin(ctx.module.body), ir.Location.unknown():
            op = sdy.MeshOp("mesh", sdy.MeshAttr.get(parts))
            sizes = [f'{{name = "{name}", size = {size} : i64}}' for name, size in axes]
            told = ir.Attribute.parse(f"{{axes = [{', '.join(sizes)}]}}")
            op.operation.attributes["stablehlo.mesh"] = told
        ctx.symbol_table.insert(op)
        known = ctx.sharding_attr_cache[axes] = op.sym_name.value
    return str(known)


def sharding_attr(ctx: ModuleContext, sharding: Any, ndim: int) -> Any:
    """The attribute of a NamedSharding for an array of `ndim` axes; None for other shardings."""
    if not is_named(sharding):
        return None
    spec = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
    dims = [sdy.DimensionShardingAttr.get(_axes(part), is_closed=True) for part in spec]
    return sdy.TensorShardingAttr.get(mesh_symbol(ctx, sharding.mesh), dims)


def _axes(part: Any) -> list[Any]:
    names: Sequence[Any] = () if part is None else part if isinstance(part, tuple) else (part,)
    return [sdy.AxisRefAttr.get(str(n)) for n in names]


def constrained(ctx: ModuleContext, x: Any, sharding: Any, ndim: int) -> Any:
    """A value that lies as a sharding says; as it is for shardings that name no mesh."""
    attribute = sharding_attr(ctx, sharding, ndim)
    return x if attribute is None else sdy.ShardingConstraintOp(x, attribute).result


def lower_with_sharding_in_types(ctx: Any, op: Any, aval: Any) -> Any:
    """A value of the type `aval`, laid out as the type says if its mesh has explicit axes.

    `ctx`: the context of a rule; `op`: a value.

    >>> from pullback.extend import core, mlir
    >>> from pullback.interpreters.mlir import hlo, register_lowering
    >>> turn_p = core.Primitive("example_turn")
    >>> _ = turn_p.def_abstract_eval(lambda x: x)
    >>> def rule(ctx, x):
    ...     return [mlir.lower_with_sharding_in_types(ctx, hlo.negate(x), ctx.avals_out[0])]
    >>> _ = register_lowering(turn_p, rule)
    >>> "negate" in pb.jit(turn_p.bind).lower(1.0).as_text("stablehlo")
    True
    """
    sharding: Any = getattr(aval, "sharding", None)
    if not is_named(sharding) or getattr(sharding.mesh, "empty", True):
        return op
    if not any(part is not None for part in sharding.spec):
        return op
    return constrained(ctx.module_context, op, sharding, len(aval.shape))
