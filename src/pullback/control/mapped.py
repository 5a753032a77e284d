"""A function of elements, applied to a batch one element after the other: as a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from .scan import scan


def map_elements(
    fun: Callable[..., Any], in_tree: Any, leaves: Sequence[Any], flags: Sequence[bool], size: int
) -> tuple[list[Any], Any]:
    """(results, stacked in front, and their tree) of `fun(*args)` for each element; leaves that are
    not marked are whole in each call.
    """
    out: list[Any] = []

    def body(_: Any, xs: Any) -> Any:
        mapped = iter(xs)
        args = [next(mapped) if f else x for x, f in zip(leaves, flags, strict=True)]
        outs, out_tree = tree.flatten(fun(*tree.unflatten(in_tree, args)))
        out.append(out_tree)
        return None, outs

    xs = [x for x, f in zip(leaves, flags, strict=True) if f]
    _, outs = scan(body, None, xs, length=size)
    return outs, out[-1]
