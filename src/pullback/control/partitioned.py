"""Calls of functions that say themselves how they are divided over devices: what such a call
computes is its program; who runs it on a mesh asks its `partition` (runtime/partitioning.py)."""

from __future__ import annotations

from typing import Any

from ..core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, subjaxprs
from ..core.primitive import Primitive
from .call import call_params, jit_p, rules_of_calls

__all__ = ["custom_partitioning_p", "holds_partitioned", "struct"]

# What shapes with shardings are told as: the layer of users' functions fills it in.
struct: list[Any] = []


def _as_call(call: ClosedJaxpr) -> dict[str, Any]:
    return call_params(call, "custom_partitioning")


def _run(*args: Any, call: ClosedJaxpr, **params: Any) -> Any:
    return eval_jaxpr(call.jaxpr, call.consts, *args)


# Derivatives and batches are those of the program: they are not divided as it is.
custom_partitioning_p = Primitive(
    "custom_partitioning",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda *avals, call, **_: (call.out_avals, call.effects),
    impl=lambda *args, call, **_: jit_p.bind(*args, **_as_call(call)),
    inline=_run,
    **rules_of_calls(lambda params: _as_call(params["call"])),
)


def holds_partitioned(jaxpr: Jaxpr) -> bool:
    """Is there such a call in a program, or in one that it holds; or a call of Python of which each
    device is to have one (`debug.print(..., partitioned=True)`)?"""
    found = jaxpr.derived.get("has partitioned")
    if found is None:
        own = any(
            e.primitive is custom_partitioning_p or e.params.get("partitioned") for e in jaxpr.eqns
        )
        found = own or any(map(holds_partitioned, subjaxprs(jaxpr)))
        jaxpr.derived["has partitioned"] = found
    return bool(found)
