"""Functions that other compilers are to compile as one kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..control.common import trace_function
from ..control.marked import fused_p as fused_p
from ..core.avals import typeof
from ..runtime.shardings import Space

__all__ = ["fused"]


def fused(*, out_spaces: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function is one operation, whose results lie in the memories `out_spaces`,
    one for each. Here it is computed as it is without.

    >>> from pullback.experimental.fused import fused
    >>> place = pb.memory.Space.Device
    >>> fused(out_spaces=(place,))(lambda x: x + 1)(1.0)
    Array(2., dtype=float32, weak_type=True)

    TypeError if `out_spaces` is no sequence.
    """
    spaces = tuple(out_spaces)

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def called(*args: Any) -> Any:
            leaves, in_tree = tree.flatten(args)
            avals = [typeof(x).update(memory_space=Space.Any) for x in leaves]
            closed, consts, out_tree = trace_function(f, in_tree, avals, "fused_call")
            outs = fused_p.bind(*consts, *leaves, jaxpr=closed, out_spaces=spaces)
            return tree.unflatten(out_tree, outs)

        return called

    return decorate
