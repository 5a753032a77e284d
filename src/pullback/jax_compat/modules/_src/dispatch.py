"""`jax._src.dispatch`: calls of single operations, and waiting for effects."""

from __future__ import annotations

import contextlib
from typing import Any

from ....api import placement
from ....api.placement import effects_barrier as wait_for_tokens
from ....interpreters import xla
from ....runtime import dispatch
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
