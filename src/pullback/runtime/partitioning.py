"""Programs with calls of functions that say themselves how they are divided over devices, for
arguments that lie over a mesh: each such call becomes what its `partition` gives for the shardings
that reach it, on the blocks that devices hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tree
from ..control.partitioned import custom_partitioning_p, holds_partitioned, struct
from ..control.shard_map import bind, block_type, inside, start
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, convert_constvars
from .commitment import held, name_shardings
from .meshes import Mesh
from .partition_spec import PartitionSpec
from .shardings import NamedSharding, Sharding
from .spreading import equation, spec_of

__all__ = ["divided"]


def divided(params: dict[str, Any], args: Sequence[Any]) -> dict[str, Any]:
    """The parameters of a call of a program, with the program as the shardings of its arguments
    divide it."""
    closed: ClosedJaxpr = params["jaxpr"]
    if not holds_partitioned(closed.jaxpr):
        return params
    lies = list(held(args) or [None] * len(args))
    asked = [*params["in_shardings"], *params["out_shardings"]]
    for k, s in enumerate(params["in_shardings"]):
        lies[k] = s if isinstance(s, Sharding) else lies[k]
    meshes = [s.mesh for s in (*lies, *asked) if isinstance(s, NamedSharding)]
    mesh = next((m for m in meshes if isinstance(m, Mesh) and m.size > 1), None)
    if mesh is None:
        return params
    ins = tuple(spec_of(s, len(a.shape)) for s, a in zip(lies, closed.in_avals, strict=True))
    outs = tuple(
        spec_of(s, len(a.shape)) if isinstance(s, NamedSharding) else None
        for s, a in zip(params["out_shardings"], closed.out_avals, strict=True)
    )
    key = "divided", mesh, ins, outs
    found = closed.derived.get(key)
    if found is None:
        name_shardings()
        found = closed.derived[key] = _Dividing(mesh).program(closed, ins, outs)
    return {**params, "jaxpr": found}


class _Dividing:
    """The rewriting of one program for one mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def program(self, closed: ClosedJaxpr, ins: Sequence[Any], outs: Sequence[Any]) -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        wanted = {
            v: s for v, s in zip(jaxpr.outvars, outs, strict=True) if type(v) is not Literal and s
        }

        def fun(*args: Any) -> list[Any]:
            values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
            values |= dict(zip(jaxpr.invars, args, strict=True))
            specs = dict(zip(jaxpr.invars, ins, strict=True))

            def read(v: Any) -> Any:
                return v.val if type(v) is Literal else values[v]

            def lies(v: Any) -> Any:
                whole = (None,) * len(getattr(v.aval, "shape", ()))
                return whole if type(v) is Literal else specs.get(v) or whole

            for eqn in jaxpr.eqns:
                given = [lies(v) for v in eqn.invars]
                results, found = self._equation(eqn, list(map(read, eqn.invars)), given, wanted)
                values |= dict(zip(eqn.outvars, results, strict=True))
                specs |= dict(zip(eqn.outvars, found, strict=True))
            return list(map(read, jaxpr.outvars))

        return close_jaxpr(*trace_to_jaxpr(fun, closed.in_avals, jaxpr.debug_info))[0]

    def _equation(
        self, eqn: JaxprEqn, args: list[Any], specs: list[Any], wanted: dict[Any, Any]
    ) -> tuple[Any, Any]:
        """The results of an equation, and how they lie."""
        params = eqn.params
        if eqn.primitive is custom_partitioning_p:
            return self._call(eqn, args, specs, [wanted.get(v) for v in eqn.outvars])
        if params.get("partitioned"):
            own = {**params, "partitioned": False}
            lie = [NamedSharding(self.mesh, PartitionSpec(*s)) for s in specs]
            return self._on_blocks(
                self.mesh, lambda *xs: eqn.primitive.bind(*xs, **own), args, lie, []
            )
        params = self._bodies(params, specs)
        inner = params.get("jaxpr")
        if isinstance(inner, ClosedJaxpr) and holds_partitioned(inner.jaxpr):
            outs = [wanted.get(v) for v in eqn.outvars]
            if eqn.primitive.name == "scan":
                n = params["num_consts"] + params["num_carry"]
                given = [*specs[:n], *(s[1:] for s in specs[n:])]
                params = {**params, "jaxpr": self.program(inner, given, [None] * len(outs))}
            elif eqn.primitive.name == "jit":
                params = {**params, "jaxpr": self.program(inner, specs, outs)}
        results = eqn.primitive.bind(*args, **params)
        found = equation(eqn, specs, self.mesh)
        return (results if eqn.primitive.multiple_results else [results]), found

    def _bodies(self, params: dict[str, Any], specs: list[Any]) -> dict[str, Any]:
        """The parameters of branches, and of loops of unknown length, whose bodies are divided."""

        def body(closed: ClosedJaxpr, given: list[Any]) -> ClosedJaxpr:
            if not holds_partitioned(closed.jaxpr):
                return closed
            return self.program(closed, given, [None] * len(closed.out_avals))

        if "branches" in params:
            return {**params, "branches": tuple(body(b, specs[1:]) for b in params["branches"])}
        if "body_jaxpr" not in params:
            return params
        n, m = params["cond_nconsts"], params["body_nconsts"]
        return {
            **params,
            "cond_jaxpr": body(params["cond_jaxpr"], [*specs[:n], *specs[n + m :]]),
            "body_jaxpr": body(params["body_jaxpr"], specs[n:]),
        }

    def _call(
        self, eqn: JaxprEqn, args: list[Any], specs: list[Any], wanted: list[Any]
    ) -> tuple[Any, Any]:
        """The results of a call that its `partition` divides, and how they lie."""
        params, avals = eqn.params, [v.aval for v in eqn.outvars]
        if params["partition"] is None:
            return custom_partitioning_p.bind(*args, **params), [None] * len(avals)
        if params["sharding_rule"] is not None:
            params["sharding_rule"].check([v.aval for v in eqn.invars], avals)
        elif params["infer_sharding_from_operands"] is not None:
            raise NotImplementedError(
                "custom_partitioning: sharding propagation callbacks are not called. Fix: "
                "def_partition(..., sharding_rule='i j -> i j') says how shardings spread."
            )
        axes = _axes_of_factors(params["sharding_rule"], specs, wanted)
        rule, ranks = params["sharding_rule"], [len(a.shape) for a in avals]
        lies = [
            _spec(m, axes, n)
            for m, n in zip(rule.result_mappings if rule else [()] * len(ranks), ranks, strict=True)
        ]
        ins = tree.unflatten(params["in_tree"], [
            self._shape(typeof(x), _spec(m, axes, typeof(x).ndim))
            for x, m in zip(args, rule.operand_mappings if rule else [()] * len(args), strict=True)
        ])  # fmt: skip
        outs = tree.unflatten(
            params["out_tree"], [self._shape(a, s) for a, s in zip(avals, lies, strict=True)]
        )
        mesh, fun, result_lies, args_lie = params["partition"](
            *params["static_args"], self.mesh, ins, outs
        )
        return self._on_blocks(mesh, fun, args, tree.leaves(args_lie), tree.leaves(result_lies))

    def _shape(self, aval: Any, spec: Any) -> Any:
        lies = NamedSharding(self.mesh, PartitionSpec(*spec))
        return struct[0](aval.shape, aval.dtype, sharding=lies)

    def _on_blocks(
        self, mesh: Mesh, fun: Any, args: list[Any], args_lie: Any, outs_lie: Any
    ) -> tuple[Any, Any]:
        ins, outs = ([s.spec for s in found] for found in (args_lie, outs_lie))
        own = {
            "mesh": mesh, "check_vma": False, "newly_manual_axes": frozenset(mesh.axis_names)
        }  # fmt: skip
        avals = [block_type(typeof(x), s, own) for x, s in zip(args, ins, strict=True)]
        start()
        with inside(own):
            jaxpr, consts = trace_to_jaxpr(lambda *xs: tree.leaves(fun(*xs)), avals)
        specs = [*[PartitionSpec()] * len(consts), *ins]
        results = bind([*consts, *args], convert_constvars(jaxpr), own, specs, outs)
        return results, [spec_of(s, typeof(x).ndim) for s, x in zip(outs_lie, results, strict=True)]


def _factors(mapping: Any, ndim: int) -> list[Any]:
    """The factors of an array's axes; the leading ones of a batch are numbered."""
    found = [f[0] if isinstance(f, tuple) else f for f in mapping]
    if "…" not in found:
        return found
    at, count = found.index("…"), ndim - len(found) + 1
    return [*found[:at], *(("…", k) for k in range(count)), *found[at + 1 :]]


def _axes_of_factors(rule: Any, specs: Sequence[Any], wanted: Sequence[Any]) -> dict[Any, Any]:
    """Over which mesh axes each factor lies: as the first operand or result that has it does."""
    axes: dict[Any, Any] = {}
    used: set[Any] = set()
    if rule is None:
        return axes
    pairs = [*zip(rule.operand_mappings, specs, strict=True)]
    pairs += [(m, s) for m, s in zip(rule.result_mappings, wanted, strict=True) if s]
    for mapping, spec in pairs:
        for factor, part in zip(_factors(mapping, len(spec)), spec, strict=True):
            names = part if isinstance(part, tuple) else (part,)
            if part is not None and factor not in axes and not used & set(names):
                axes[factor] = part
                used |= set(names)
    return axes


def _spec(mapping: Any, axes: dict[Any, Any], ndim: int) -> tuple[Any, ...]:
    found = _factors(mapping, ndim) if mapping else [None] * ndim
    return tuple(axes.get(f) for f in found)
