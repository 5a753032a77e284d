"""Special functions whose primitives stand for programs with loops: the program is lowered in their
place.
"""

from __future__ import annotations

from typing import Any

from pullback.control import special
from pullback.core.primitive import Primitive
from pullback.loops.interpret import numpy_dtype
from pullback.loops.lower.elementwise import RULES, Outs, Rule
from pullback.loops.lower.graph import Graph, Node
from pullback.loops.lower.program_hook import add_program

__all__: list[str] = []


def _program(primitive: Primitive) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
        shapes = tuple(tuple(x.shape) for x in ins)
        return add_program(g, special.program(primitive, shapes, numpy_dtype(outs[0][1])), ins)

    return lower


for _primitive in special.FUNCTIONS:
    RULES[_primitive.name] = _program(_primitive)
