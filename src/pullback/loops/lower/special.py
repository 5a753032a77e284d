"""Special functions whose primitives stand for programs with loops: the program is lowered in their
place.
"""

from __future__ import annotations

from typing import Any

from pullback.control import select_scatter, special
from pullback.core.avals import ShapedArray
from pullback.core.build import close_jaxpr, trace_to_jaxpr
from pullback.core.primitive import Primitive
from pullback.loops.interpret import numpy_dtype
from pullback.loops.lower.elementwise import RULES, Outs, Rule
from pullback.loops.lower.graph import Graph, Node
from pullback.loops.lower.program_hook import add_program

__all__: list[str] = []


def _program(primitive: Primitive) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
        shapes = tuple(tuple(x.shape) for x in ins)
        dtype = numpy_dtype(outs[0][1])
        return add_program(g, special.program(primitive, shapes, dtype, params), ins)

    return lower


for _primitive in special.FUNCTIONS:
    RULES[_primitive.name] = _program(_primitive)


def _select_and_scatter(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    dtype = numpy_dtype(outs[0][1])
    avals = [ShapedArray(tuple(x.shape), numpy_dtype(x.dtype)) for x in ins]
    closed, _ = close_jaxpr(*trace_to_jaxpr(lambda *xs: [select_scatter.run(*xs, **params)], avals))
    assert closed.out_avals[0].dtype == dtype
    return add_program(g, closed, ins)


RULES["select_and_scatter"] = _select_and_scatter
