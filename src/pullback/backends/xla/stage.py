"""Jitted functions as modules: what `jit(f).lower(...)` shows of the xla backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import tree
from ...core.jaxpr import ClosedJaxpr
from ...transforms.partial_eval import dce_closed
from .client import lower
from .contexts import LoweringResult
from .module import prepared


def lowered(
    closed: ClosedJaxpr,
    params: dict[str, Any],
    out_tree: Any,
    platforms: Sequence[str],
    lies: Sequence[Any] | None = None,
    results_lie: Sequence[Any] | None = None,
    devices: int = 1,
) -> LoweringResult:
    """The program of a jitted function as a module for so many devices; arguments that nobody
    reads are left out, unless the parameters of the call say otherwise. `lies` and `results_lie`:
    the shardings of arguments and results, or None; those that the call asks for, if not given."""
    keep_unused, donated = bool(params.get("keep_unused")), params["donated_invars"]
    lies = params["in_shardings"] if lies is None else lies
    results_lie = params["out_shardings"] if results_lie is None else results_lie
    closed = prepared(closed)
    count = len(closed.in_avals)
    every = [True] * len(closed.jaxpr.outvars)
    closed, used = dce_closed(closed, every, True if keep_unused else [False] * count)
    info = closed.jaxpr.debug_info
    names: Sequence[str | None] = (info.arg_names if info else None) or ()
    names = [*([None] * (count - len(names))), *names]  # operands that were closed over come first
    kept = [True] * count if len(closed.in_avals) == count else used
    return lower(
        closed, f"jit_{params['name']}", [d for d, k in zip(donated, kept, strict=True) if k],
        arg_names=[n for n, k in zip(names, kept, strict=True) if k],
        arg_shardings=[s for s, k in zip(lies, kept, strict=True) if k],
        platforms=platforms, result_names=result_names(out_tree),
        result_shardings=results_lie, num_partitions=devices,
    )  # fmt: skip


def result_names(out_tree: Any) -> list[str]:
    """What to call the results: where they stand in what the function returns."""
    paths, _ = tree.flatten_with_path(tree.unflatten(out_tree, range(out_tree.num_leaves)))
    return ["result" + tree.keystr(path) for path, _ in paths]
