"""How arrays lie on meshes, as attributes of Shardy: meshes are symbols of the module."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from .contexts import ModuleContext
from .library import ir, sdy


@dataclasses.dataclass(frozen=True, repr=False)
class SdyDim:
    """The names of axes that an array's axis is divided over, as Shardy has them; `is_open`: it may
    be divided over more."""

    axes: tuple[Any, ...]
    is_open: bool

    def __repr__(self) -> str:
        names = ", ".join([*map(repr, self.axes), *["?"] * self.is_open])
        return f"{{{names}}}"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SdyArray:
    """A sharding, as Shardy has it."""

    mesh_shape: tuple[tuple[Any, int], ...] | None
    dim_shardings: tuple[SdyDim, ...]
    logical_device_ids: tuple[int, ...] | None = None
    replicated_axes: Collection[Any] = frozenset()
    unreduced_axes: frozenset[Any] = frozenset()

    def __repr__(self) -> str:
        more = "".join(
            f", {name}={value}"
            for name, value in (
                ("device_ids", self.logical_device_ids),
                ("replicated_axes", self.replicated_axes),
            )
            if value
        )
        return f"SdyArray({list(self.dim_shardings)}{more})"


def as_array(mesh: Any, spec: Any, ndim: int) -> SdyArray:
    """A spec over a mesh (None for no mesh) for an array of `ndim` axes."""
    parts = [*spec, *[None] * (ndim - len(spec))]
    names = [] if mesh is None else list(mesh.axis_names)
    dims = [
        SdyDim(tuple(p) if isinstance(p, tuple) else (p,) if p in names else (),
               not isinstance(p, tuple) and p is not None and p not in names)
        for p in parts
    ]  # fmt: skip
    return SdyArray(
        mesh_shape=None if mesh is None else mesh.shape_tuple,
        dim_shardings=tuple(dims),
        unreduced_axes=getattr(spec, "unreduced", frozenset()),
    )


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
    free = sharding.spec.UNCONSTRAINED
    dims = [
        sdy.DimensionShardingAttr.get([] if p is free else _axes(p), is_closed=p is not free)
        for p in spec
    ]
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
