"""Special functions that are loops: incomplete gamma and beta functions and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....control.special import FUNCTIONS, program
from ....core.primitive import Primitive
from ..contexts import LoweringRuleContext
from ..lowering import inlined, register


def _rule_of(primitive: Primitive) -> Callable[..., Any]:
    def lower(ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
        shapes, dtype = tuple(a.shape for a in ctx.avals_in), ctx.avals_in[0].dtype
        return inlined(ctx, program(primitive, shapes, dtype, params), args)

    return lower


for _primitive in FUNCTIONS:
    register(_primitive, _rule_of(_primitive))
