"""Names of `jax._src.interpreters.partial_eval` and `jax._src.custom_derivatives` that stand for
something else than ours of that name."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core.avals import typeof
from ....core.jaxpr import ClosedJaxpr, Jaxpr
from ....core.trace import Tracer
from ....transforms.batch import BatchTracer


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program that has no constants, with them."""
    return ClosedJaxpr(jaxpr, [])


def _maybe_perturbed(x: Any) -> bool:
    """May a value be differentiated?"""
    while isinstance(x, BatchTracer):
        x = x.val
    if not isinstance(x, Tracer):
        return False
    return bool(getattr(typeof(x).to_tangent_aval(), "dtype", None) != dtypes.float0)
