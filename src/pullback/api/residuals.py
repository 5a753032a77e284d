"""Which values a function's backward pass keeps, listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import tree
from ..core.avals import typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from ..core.trace import Tracer
from ..primitives.convert import reduce_precision_p
from ..transforms.linearize import linearize_flat
from .arguments import check_callable, debug_info


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """(type, where it comes from) of each value that the backward pass of `f(*args, **kwargs)`
    keeps.
    """
    check_callable(f)
    leaves, in_tree = tree.flatten((args, kwargs))
    constants: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        a, k = tree.unflatten(in_tree, xs)
        return tree.flatten(f(*a, **k))[0]

    def forward(*xs: Any) -> list[Any]:
        residuals = linearize_flat(flat, xs)[3]
        constants.extend(typeof(r) for r in residuals if not isinstance(r, Tracer))
        return [r for r in residuals if isinstance(r, Tracer)]

    info = debug_info("saved_residuals", f, args, kwargs)
    jaxpr, _ = trace_to_jaxpr(forward, [typeof(x) for x in leaves], info)
    named = _origins(jaxpr, info.arg_names)
    found = [(a, "from a constant") for a in constants if a.shape]
    order = {v: k for k, v in enumerate((*jaxpr.constvars, *jaxpr.invars))}
    order |= {v: len(order) + k for k, e in enumerate(jaxpr.eqns) for v in e.outvars}
    kept = [v for v in dict.fromkeys(jaxpr.outvars) if isinstance(v, Var)]
    for v in sorted(kept, key=lambda v: order[v]):
        found.append((v.aval, named[v]))
    return found + [(v.aval, "from a literal") for v in jaxpr.outvars if isinstance(v, Literal)]


def _origins(jaxpr: Jaxpr, names: Any) -> dict[Any, str]:
    origin: dict[Any, str] = dict.fromkeys(jaxpr.constvars, "from a constant")
    for k, v in enumerate(jaxpr.invars):
        origin[v] = f"from the argument {names[k]}" if names and k < len(names) else "from an input"
    for eqn in jaxpr.eqns:
        stored = eqn.primitive is reduce_precision_p and isinstance(eqn.invars[0], Var)
        for v in eqn.outvars:
            origin[v] = origin[eqn.invars[0]] if stored else _made_by(eqn)
    return origin


def _made_by(eqn: JaxprEqn) -> str:
    where = eqn.source_info.summary()
    if eqn.primitive.name == "name":
        return f"named '{eqn.params['name']}' from {where}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function '{eqn.params['name']}' from {where}"
    return f"output of {eqn.primitive.name} from {where}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints a line for each value that the backward pass of `f(*args, **kwargs)` keeps: its type
    and where it comes from.

    >>> pb.ad_checkpoint.print_saved_residuals(jnp.sin, 1.0)
    f32[] output of cos from ...
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(aval.str_short(short_dtypes=True), origin)
