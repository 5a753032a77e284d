"""Products with masks: what is multiplied by converted booleans is selected, not multiplied.

`x * mask` is x where the mask holds and +0 elsewhere, for infinities, NaN and negative numbers
too, in the dtypes and places where JAX's compiler does so (docs/numerics.md has the table):

    convert_element_type(p: bool) * x    ->  select(p, x, 0)
    broadcast(convert(p)) * broadcast(x) ->  broadcast(select(p, x, 0)), moved the same way;
                                             so are reshapes and transposes
"""

from __future__ import annotations

from typing import Any

from pullback.loops.build import Builder
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import (
    RULES,
    Outs,
    broadcast,
    rule,
    to_dtype,
    transposed,
    zipped,
)
from pullback.loops.lower.graph import COMPLEX, Graph, Node, OuterSlot, part_dtype
from pullback.loops.lower.reduce import narrowed
from pullback.loops.lower.shape import reshape
from pullback.loops.ops import BITS, INTS

__all__ = ["apart", "bare_mask", "masked_term", "nonzero"]

# bfloat16 and the types of a byte are multiplied in float32, of conversions of conversions.
_SELECTED = frozenset({"f16", "f32", "f64", *COMPLEX})
_SUMMED = _SELECTED - {"f16"}

_plain_mul = RULES["mul"]


@rule("mul")
def _mul(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    """The product; where another dtype is asked for, of the converted operands."""
    (shape, dtype), (x, y) = outs[0], ins
    if params.get("out_dtype") is not None:
        x, y = to_dtype(g, x, dtype), to_dtype(g, y, dtype)
    elif dtype in _SELECTED:
        for one, mask in ((x, y), (y, x)):
            if mask.truth is not None and mask.shape == shape and _is_one(one):
                product: Node = _plain_mul(g, [x, y], outs, params)
                product.truth = mask.truth
                return product
        found = _selected(g, x, y, shape)
        if found is not None:
            return found
    return _plain_mul(g, [x, y], outs, params)


@rule("convert_element_type")
def _convert(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    dtype, p = outs[0][1], ins[0]
    if p.dtype in INTS and dtype in INTS and p.dtype != dtype:
        found = narrowed(g, p, dtype)
        if found is None:
            found = to_dtype(g, p, dtype)
            found.widened = p if BITS[dtype] > BITS[p.dtype] else None
        return found
    if p.dtype != "bool" or dtype not in _SELECTED:
        return to_dtype(g, p, dtype)
    if dtype not in COMPLEX and _is_constant(p):  # the compiler sees numbers, and multiplies
        return to_dtype(g, p, dtype)
    if p.spread is not None and p.spread[0].size != p.size:  # converted first, then repeated
        source, dims = p.spread
        return broadcast(g, _mask(g, source, dtype), p.shape, dims)
    return _mask(g, p, dtype)


def _mask(g: Graph, p: Node, dtype: str) -> Node:
    """p as numbers of a dtype, which products know to be zeros and ones."""
    node = to_dtype(g, p, dtype)
    node.truth = p
    return node


@rule("optimization_barrier")
def _optimization_barrier(g: Graph, ins: list[Node], outs: Outs, params: Any) -> list[Node]:
    return [apart(g, x) for x in ins]


def nonzero(g: Graph, x: Node) -> Node:
    """The booleans that x, converted elsewhere, was made of."""
    if x.dtype in COMPLEX:
        differs = lambda b, v: b.let("ne", (v[0], Const(0.0, COMPLEX[x.dtype])), "bool")
    else:
        differs = lambda b, v: b.let("ne", (v, Const(0.0, x.dtype)), "bool")
    return zipped(g, [x], x.shape, "bool", differs)


def apart(g: Graph, x: Node) -> Node:
    """x as a value of which nothing is known."""
    if x is None or (x.truth is x.spread is x.permuted is x.reshaped is None):
        return x
    return zipped(g, [x], x.shape, x.dtype, lambda b, v: v, 0.0)


def _masked(b: Builder, p: Atom, x: Any) -> Any:
    """x where p holds, else 0; of complex numbers both parts."""
    if isinstance(x, tuple):
        return tuple(_masked(b, p, v) for v in x)
    return b.select(p, x, Const(0.0, x.dtype))


def bare_mask(x: Node, y: Node, dtype: str) -> tuple[Node, Node, bool]:
    """The operands of a sum of products; is one a mask, and the other of the sum's dtype, then the
    mask as its booleans, and True."""
    for k, (mask, v) in enumerate(((x, y), (y, x))):
        p = mask if mask.dtype == "bool" else mask.truth
        if p is None or v.dtype != dtype or dtype not in _SUMMED:
            continue
        if dtype in COMPLEX or not _is_constant(p):
            return (p, v, True) if k == 0 else (v, p, True)
    return x, y, False


def masked_term(b: Builder, x: Any, y: Any, mask_first: bool) -> list[Atom]:
    """One product of the sum, of a boolean and a number."""
    found = _masked(b, x, y) if mask_first else _masked(b, y, x)
    return list(found) if isinstance(found, tuple) else [found]


def _selected(g: Graph, x: Node, y: Node, shape: tuple[int, ...]) -> Node | None:
    """x * y where one of them is a mask, as a selection; else None."""
    for mask, v in ((x, y), (y, x)):
        if mask.truth is not None and mask.shape == shape:
            return zipped(g, [mask.truth, v], shape, v.dtype, _masked)
    found: Node | None = None
    if x.spread is not None and y.spread is not None:
        (xs, dims), (ys, other) = x.spread, y.spread
        if not xs.shape or not ys.shape:  # a scalar may be repeated along any axes
            dims = other = dims or other
        if dims == other and (xs.shape == ys.shape or not xs.shape or not ys.shape):
            found = _selected(g, xs, ys, xs.shape or ys.shape)
        return None if found is None else broadcast(g, found, shape, dims)
    if x.permuted is not None and y.permuted is not None and x.permuted[1] == y.permuted[1]:
        found = _selected(g, x.permuted[0], y.permuted[0], x.permuted[0].shape)
        return None if found is None else transposed(g, found, x.permuted[1])
    if x.reshaped is not None and y.reshaped is not None and x.reshaped.shape == y.reshaped.shape:
        found = _selected(g, x.reshaped, y.reshaped, x.reshaped.shape)
        return None if found is None else reshape(g, found, shape)
    return None


def _is_one(x: Node) -> bool:
    value = getattr(x.at, "literal", None)
    return value is not None and value == 1 and part_dtype(x.dtype) == x.dtype


def _is_constant(p: Node) -> bool:
    """Is p computed of the program's constants alone? Numbers that count (iota) are none."""
    seen: set[Node] = set()
    rest = [p]
    while rest:
        x = rest.pop()
        if x in seen or getattr(x.at, "literal", None) is not None:
            continue
        seen.add(x)
        if isinstance(x.slot, OuterSlot):
            rest.append(x.slot.source)
        elif x.kind == "leaf":
            if x.slot is None or x.slot.role != "const":
                return False
        elif x.kind != "pw" or not x.deps:
            return False
        else:
            rest += [d for d, _ in x.deps]
    return True
