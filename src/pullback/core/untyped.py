"""Programs whose types say nothing of meshes: what is computed on blocks does not depend on it."""

from __future__ import annotations

from typing import Any

from .avals import ShapedArray, no_manual_axes
from .jaxpr import ClosedJaxpr, Jaxpr, Var

__all__ = ["untyped"]

# Operations that change types only.
_OF_TYPES = frozenset(("pvary", "reshard"))


def untyped(jaxpr: Jaxpr) -> Jaxpr:
    """The program, and those that it holds, with types of shapes and dtypes alone. Remembered."""
    found = jaxpr.derived.get("untyped")
    if found is None:
        found = jaxpr.derived["untyped"] = _untyped(jaxpr)
    return found


def _untyped(jaxpr: Jaxpr) -> Jaxpr:
    env: dict[Any, Any] = {}

    def made(v: Any) -> Any:
        aval = v.aval
        if type(aval) is not ShapedArray or (
            aval._sharding is None and aval.manual_axis_type is no_manual_axes
        ):
            return v
        plain = aval.update(sharding=None, manual_axis_type=no_manual_axes)
        env[v] = Var(plain)
        return env[v]

    def read(v: Any) -> Any:
        return env.get(v, v) if isinstance(v, Var) else v

    constvars, invars = list(map(made, jaxpr.constvars)), list(map(made, jaxpr.invars))
    eqns = []
    for eqn in jaxpr.eqns:
        ins = list(map(read, eqn.invars))
        if eqn.primitive.name in _OF_TYPES:
            env[eqn.outvars[0]] = ins[0]
            continue
        params = {k: _value(k, v) for k, v in eqn.params.items()}
        if params.get("vmap_method", "") is None:  # each device calls: that is no vmap
            params["vmap_method"] = "sequential"
        outs = list(map(made, eqn.outvars))
        eqns.append(eqn.replace(invars=ins, outvars=outs, params=params))
    outvars = list(map(read, jaxpr.outvars))
    return jaxpr.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=eqns)


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return untyped(value)
    if isinstance(value, ClosedJaxpr):
        return ClosedJaxpr(untyped(value.jaxpr), value.consts)
    if type(value) in (tuple, list):
        return type(value)(_value("", v) for v in value)
    if hasattr(value, "_make"):  # a tuple with names
        return value._make(_value("", v) for v in value)
    if name in ("sharding", "out_sharding") and hasattr(value, "mesh"):
        # A layout over a mesh without devices is one of types; others are users' wishes.
        return None if value.mesh is value.mesh.abstract_mesh else value
    return value
