"""Rules that hold programs (loops, branches, combiners) add them to graphs through this hook;
program.py fills it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.lower.graph import Graph, Node

__all__ = ["add_program", "set_adder"]

_adder: list[Callable[[Graph, Any, Sequence[Node]], list[Node]]] = []


def set_adder(f: Callable[[Graph, Any, Sequence[Node]], list[Node]]) -> None:
    """Gives the function that adds a (closed) jaxpr's equations to a graph."""
    _adder[:] = [f]


def add_program(g: Graph, program: Any, args: Sequence[Node]) -> list[Node]:
    """The nodes of a program's results."""
    return _adder[0](g, program, args)
