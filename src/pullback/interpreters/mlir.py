"""Lowering rules that libraries register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..control.expand import register_inline
from ..core.primitive import Primitive


class LoweredFunction:
    """`lower_fun(f)`: a lowering that is a traceable function; every backend can inline it."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, *args: Any, **params: Any) -> Any:
        return self.fun(*args, **params)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """A lowering rule that traces `fun(*args, **params)` in the primitive's place."""
    return LoweredFunction(fun, multiple_results)


def register_lowering(
    prim: Primitive,
    rule: Any,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Any:
    """Registers how a primitive is compiled. A `lower_fun` rule is inlined; a raw MLIR rule runs on
    XLA only.
    """
    if isinstance(rule, LoweredFunction):
        register_inline(prim, rule.fun)
        if not prim.has_rule("impl"):
            prim.rules["impl"] = rule.fun
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
