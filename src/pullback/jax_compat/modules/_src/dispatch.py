"""`jax._src.dispatch`: calls of single operations, and waiting for effects."""

from __future__ import annotations

import contextlib
from typing import Any

from ....api import placement
from ....api.placement import effects_barrier as wait_for_tokens
from ....interpreters import xla
from ....runtime import dispatch
from ....runtime.shardings import NamedSharding, Sharding
from .core import jaxprs_in_params
from .searched import searched
from .sharding_impls import is_single_device_sharding as is_single_device_sharding

# What durations of compilations are recorded under.
JAXPR_TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
JAXPR_TO_MLIR_MODULE_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BACKEND_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


def jaxpr_has_primitive(jaxpr: Any, prim_name: str) -> bool:
    """Has a program, or one within it, an equation of that name?"""
    return any(
        prim_name in eqn.primitive.name
        or any(jaxpr_has_primitive(inner, prim_name) for inner in jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns
    )


def get_intermediate_shardings(jaxpr: Any) -> list[tuple[Any, str]]:
    """The shardings that equations of a program name, and those of programs within it, each with
    the name of the equation's primitive."""
    found: list[tuple[Any, str]] = []
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        if name == "sharding_constraint":
            said = [params["sharding"]]
        elif name == "device_put":
            said = [s for s in params["devices"] if isinstance(s, Sharding)]
        elif name == "jit":
            said = [*params["in_shardings"], *params["out_shardings"]]
        elif name == "shard_map":
            specs = (*params["in_specs"], *params["out_specs"])
            said = [NamedSharding(params["mesh"], spec) for spec in specs]
        else:
            said = []
        found += [(s, name) for s in said]
        for inner in jaxprs_in_params(params):
            found += get_intermediate_shardings(inner)
    return found


class RuntimeTokenSet:
    """What effects of programs that still run are waited for by."""

    def block_until_ready(self) -> None:
        """Waits for all effects."""
        wait_for_tokens()

    def clear(self) -> None:
        """Waits for none that came before, nor says what failed in them."""
        with contextlib.suppress(Exception):
            wait_for_tokens()


runtime_tokens = RuntimeTokenSet()
__getattr__ = searched("jax._src.dispatch", placement, dispatch, xla)
