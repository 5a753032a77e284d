"""Over which manual axes of a mesh values vary, in the body of a `shard_map` that checks it: types
say so, what meets in one operation is made to vary alike (`pvary`), and sums over an axis that a
value varies over give what does not (`psum_invariant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.avals import ShapedArray, typeof
from ..core.explicit import match_varying, varying
from ..core.trace import checked_axes

__all__ = ["alike", "vary", "vary_alike"]


def names_of(axis_name: Any) -> frozenset[Any]:
    given = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return frozenset(n for n in given if not isinstance(n, int))


def variance(aval: Any) -> frozenset[Any]:
    axes: frozenset[Any] = aval.vma
    return axes


def vary(name: str, avals: Sequence[Any], params: dict[str, Any], outs: list[Any]) -> list[Any]:
    """The types of results, which vary over what operands vary over, unless the operation says
    otherwise."""
    axes = frozenset[Any]().union(*map(variance, avals))
    if name in _REMOVES:
        axes -= names_of(params["axes"])
    elif name == "axis_index":
        axes |= names_of(params["axis_name"]) & checked_axes()
    elif name == "pvary":
        axes |= names_of(params["axes"])
    elif name == "all_gather_invariant":
        axes -= names_of(params["axis_name"])
    want = varying(axes)
    return [
        o.update(manual_axis_type=want)
        if isinstance(o, ShapedArray) and o.manual_axis_type != want
        else o
        for o in outs
    ]


_REMOVES = frozenset(("psum_invariant", "pmax", "pmin"))
# Primitives whose operands need not vary alike: what they hold says how each is used.
_APART = frozenset(
    "pvary jit call closed_call scan while cond custom_jvp_call custom_vjp_call custom_lin remat2 "
    "shard_map custom_linear_solve device_put optimization_barrier remat_opt composite get swap "
    "addupdate new_ref freeze debug_callback debug_print pure_callback io_callback".split()
)


def alike(primitive: Any, tracers: Sequence[Any]) -> Sequence[Any]:
    """The operands, made to vary over the same axes."""
    return tracers if primitive.name in _APART or len(tracers) < 2 else vary_alike(*tracers)


def vary_alike(*xs: Any) -> Sequence[Any]:
    """Values, made to vary over the same axes: all over which one of them does."""
    found = [variance(typeof(x)) for x in xs]
    axes = found[0].union(*found[1:])
    if all(f == axes for f in found):
        return xs
    return [
        x if f == axes else match_varying[0](x, axes - f) for x, f in zip(xs, found, strict=True)
    ]
