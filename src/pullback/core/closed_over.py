"""What a function closed over while it was traced, for caches of its programs: whether tracing it
anew would meet the same values.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from .trace import Tracer


class ClosedOver:
    """The values that `fun` closed over, some of them tracers of outer traces. These are held
    weakly: traces hold functions, whose programs a cache holds.
    """

    __slots__ = ("_consts", "_thread", "_variables")

    def __init__(self, fun: Any, consts: Sequence[Any]) -> None:
        self._consts = [_held(c) for c in consts]
        self._thread = threading.get_ident()  # another one has traces of its own
        self._variables = [weakref.ref(x) for x in _traced_variables(fun, set())]

    def values(self, fun: Any) -> list[Any] | None:
        """The values; None if one's trace has ended or is another thread's, or if the variables
        that `fun` closes over have other tracers now.
        """
        if threading.get_ident() != self._thread:
            return None
        consts = [held() for held in self._consts]
        if any(c is None or (isinstance(c, Tracer) and not c._trace.is_valid()) for c in consts):
            return None
        now = _traced_variables(fun, set())
        known = [ref() for ref in self._variables]
        same = len(now) == len(known) and all(x is y for x, y in zip(now, known, strict=True))
        return consts if same else None


def _held(x: Any) -> Callable[[], Any]:
    return weakref.ref(x) if isinstance(x, Tracer) else lambda: x


def _traced_variables(fun: Any, met: set[int]) -> list[Tracer]:
    """The tracers in the variables of enclosing functions that `fun` uses: in containers, and in
    those of functions that it calls.
    """
    found: list[Tracer] = []
    met.add(id(fun))
    fun = getattr(fun, "__wrapped__", fun)
    for cell in getattr(fun, "__closure__", None) or ():
        try:
            leaves = tree.leaves(cell.cell_contents)
        except Exception:  # the variable has no value now, or one that is no pytree
            continue
        for x in leaves:
            if isinstance(x, Tracer):
                found.append(x)
            elif callable(x) and id(x) not in met:
                found += _traced_variables(x, met)
    return found
