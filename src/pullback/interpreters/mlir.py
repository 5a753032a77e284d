"""Lowering rules that libraries register, and the effects that programs may have when they run.

The names of JAX's module that build MLIR are not here: the native backend has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..control.expand import register_inline
from ..core.effects import lowerable_effects as lowerable_effects
from ..core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from ..core.primitive import Primitive
from ..sharding import Mesh as Mesh

LoweringRule = Callable[..., Sequence[Any]]
ConstantHandler = Callable[..., Any]

# Numbers that JAX gives to kinds of channels.
DEVICE_TO_DEVICE_TYPE = 1
SEND_TO_HOST_TYPE = 2
RECV_FROM_HOST_TYPE = 3


class LoweredFunction:
    """`lower_fun(f)`: a lowering that is a traceable function; every backend can inline it."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, *args: Any, **params: Any) -> Any:
        return self.fun(*args, **params)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """A lowering rule that traces `fun(*args, **params)` in the primitive's place.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> rule = mlir.lower_fun(lambda x: x * 2, multiple_results=False)
    >>> _ = mlir.register_lowering(double_p, rule)
    >>> pb.jit(lambda x: double_p.bind(x) + 1)(3.0)
    Array(7., dtype=float32, weak_type=True)
    """
    return LoweredFunction(fun, multiple_results)


def core_call_lowering(
    ctx: Any, *args: Any, name: str, backend: Any = None, call_jaxpr: ClosedJaxpr | Jaxpr
) -> list[Any]:
    """A lowering rule for primitives that call the program `call_jaxpr`: what it computes.

    >>> from pullback.interpreters import mlir
    >>> program = pb.make_jaxpr(lambda x: x * 2)(1.0)
    >>> mlir.core_call_lowering(None, jnp.ones(2), name="double", call_jaxpr=program)
    [Array([2., 2.], dtype=float32)]
    """
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr, ())
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def _call_lowered(prim: Primitive, rule: Any) -> LoweredFunction | None:
    """`core_call_lowering`, or a partial application of it, as a function of arrays."""
    if (rule.func if isinstance(rule, functools.partial) else rule) is not core_call_lowering:
        return None

    def fun(*args: Any, **params: Any) -> Any:
        known = {k: v for k, v in params.items() if k in ("name", "backend", "call_jaxpr")}
        if "name" not in known and not getattr(rule, "keywords", {}).get("name"):
            known["name"] = prim.name
        return rule(None, *args, **known)

    return LoweredFunction(fun, True)


def register_lowering(
    prim: Primitive,
    rule: Any,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Any:
    """Registers how a primitive is compiled. A `lower_fun` rule is inlined; a raw MLIR rule runs on
    XLA only.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> half_p = core.Primitive("example_half")
    >>> _ = half_p.def_impl(lambda x: x / 2), half_p.def_abstract_eval(lambda aval: aval)
    >>> rule = mlir.lower_fun(lambda x: x / 2, multiple_results=False)
    >>> _ = mlir.register_lowering(half_p, rule)
    >>> pb.jit(half_p.bind)(3.0)
    Array(1.5, dtype=float32, weak_type=True)
    """
    lowered = rule if isinstance(rule, LoweredFunction) else _call_lowered(prim, rule)
    if lowered is not None:
        register_inline(prim, lowered.fun)
        if not prim.has_rule("impl"):
            prim.rules["impl"] = lowered.fun
    elif not prim.has_rule("impl"):

        def impl(*args: Any, **params: Any) -> Any:
            raise TypeError(
                f"The primitive '{prim.name}' has a raw MLIR lowering only, which runs on the "
                "xla backend. "
                "Fix: register mlir.lower_fun(f) with a traceable function, or "
                "primitive.def_impl(f)."
            )

        prim.rules["impl"] = impl
    return rule
