"""Elementwise primitives: pointwise nodes over the operands' shape; scalars among the operands are
broadcast.

A rule is `rule(g, ins, outs, params) -> Node or list of nodes`, with `outs` the (shape, dtype) of
each result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.graph import COMPLEX, Graph, Node, ir_dtype, part_dtype, read
from pullback.loops.ops import BITS, FLOATS, OPS
from pullback.primitives.common import Formula

Outs = Sequence[tuple[tuple[int, ...], str]]
Rule = Callable[[Graph, list[Node], Outs, dict[str, Any]], Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enters a lowering rule under primitive names."""

    def enter(f: Rule) -> Rule:
        for name in names:
            RULES[name] = f
        return f

    return enter


def zipped(
    g: Graph,
    ins: Sequence[Node],
    shape: tuple[int, ...],
    dtype: str,
    f: Callable[..., Any],
    cost: float = 1.0,
) -> Node:
    """A node whose element is f(builder, elements of the operands). Scalars and axes of length one
    are stretched. What is made of transposed operands, and of scalars and rows that are repeated
    beside them, is done before they are transposed: products, sums and what follows these see how
    they lie in memory."""
    if (before := _before_transposed(g, ins, shape)) is not None:
        same, source, permutation = before
        return transposed(g, zipped(g, same, source.shape, dtype, f, cost), permutation)
    ins = [n if n.shape == shape or not n.shape else stretch(g, n, shape) for n in ins]
    if all(n.shape == shape for n in ins):
        if len(ins) == 1:
            (x,) = ins
            at: Any = lambda b, idx: f(b, read(x, b, idx))
        elif len(ins) == 2:
            x, y = ins
            at = lambda b, idx: f(b, read(x, b, idx), read(y, b, idx))
        else:
            at = lambda b, idx: f(b, *[read(n, b, idx) for n in ins])
        return g.pointwise(shape, dtype, [(n, None) for n in ins], at, cost)
    scalar = [n.shape != shape for n in ins]

    def mixed(b: Builder, idx: tuple[Index, ...]) -> Any:
        return f(b, *[read(n, b, () if s else idx) for n, s in zip(ins, scalar, strict=True)])

    return g.pointwise(
        shape,
        dtype,
        [(n, () if s else None) for n, s in zip(ins, scalar, strict=True)],
        mixed,
        cost,
    )


def _before_transposed(
    g: Graph, ins: Sequence[Node], shape: tuple[int, ...]
) -> tuple[list[Node], Node, tuple[int, ...]] | None:
    """The operands as they were before they were transposed, all in the same way; one of these; and
    that way. What is less than a whole operand is turned to lie along them."""
    whole = next((n for n in ins if n.permuted and n.shape == shape and n.size > 1), None)
    if whole is None:
        return None
    source, permutation = whole.permuted
    same: list[Node] = []
    for n in ins:
        before = n if n.size == 1 else _turned_back(g, n, whole)
        if before is None:
            return None
        same.append(before)
    return same, source, permutation


def _turned_back(g: Graph, n: Node, whole: Node) -> Node | None:
    """An operand beside a transposed one, as it is beside that one's source; None for what has as
    many elements and lies otherwise."""
    _, permutation = whole.permuted
    if n.permuted is not None and n.permuted[1] == permutation:
        return n.permuted[0]  # type: ignore[no-any-return]
    back = tuple(sorted(range(len(permutation)), key=permutation.__getitem__))
    if n.spread is None or n.spread[0].size == whole.size:
        return transposed(g, n, back) if n.size < whole.size else None
    part, places = n.spread
    places = [permutation[p] for p in places]
    order = sorted(range(len(places)), key=places.__getitem__)
    shape = tuple(n.shape[k] for k in back)
    return broadcast(g, transposed(g, part, order), shape, [places[k] for k in order])


def transposed(g: Graph, x: Node, permutation: Sequence[int]) -> Node:
    """x with its axes permuted: axis k of the result is axis permutation[k]."""
    perm = tuple(permutation)
    if x.permuted is not None:  # of what was permuted before; nothing is left of there and back
        x, before = x.permuted
        perm = tuple(before[p] for p in perm)
    if perm == tuple(range(len(perm))):
        return x
    back = tuple(sorted(range(len(perm)), key=perm.__getitem__))

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(x, b, tuple(idx[k] for k in back))

    node = g.pointwise(tuple(x.shape[p] for p in perm), x.dtype, [(x, back)], at, 0.0)
    node.permuted = (x, perm)
    return node


def broadcast(g: Graph, x: Node, shape: tuple[int, ...], dims: Sequence[int]) -> Node:
    """x with its axis k along axis dims[k] of the result; axes of length 1 are stretched."""
    if x.shape == shape:
        return x
    stretched = [x.shape[k] == 1 for k in range(len(x.shape))]
    places = tuple(None if s else d for s, d in zip(stretched, dims, strict=True))

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(x, b, tuple(0 if p is None else idx[p] for p in places))

    node = g.pointwise(shape, x.dtype, [(x, places)], at, 0.0)
    node.spread = (x, tuple(dims))
    if list(dims) == sorted(dims) and _long(shape) == _long(x.shape):
        node.reshaped = x  # axes of length one are all it has more
    if getattr(x.at, "literal", None) is not None:
        node.at.literal = x.at.literal  # type: ignore[union-attr]
    return node


def _long(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]


def stretch(g: Graph, x: Node, shape: tuple[int, ...]) -> Node:
    """x with its axes of length one repeated."""
    axes = tuple(k if n == m else None for k, (n, m) in enumerate(zip(x.shape, shape, strict=True)))

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(x, b, tuple(0 if a is None else idx[a] for a in axes))

    return g.pointwise(shape, x.dtype, [(x, axes)], at, 0.0)


def op_rule(
    op: str, attrs: Callable[[dict[str, Any]], tuple[tuple[str, Any], ...]] | None = None
) -> Rule:
    """The rule of a primitive that is one operator."""
    cost = float(OPS[op].cost)

    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
        (shape, dtype), a = outs[0], attrs(params) if attrs is not None else ()
        operand = ins[0].dtype
        asked = op
        if type(params.get("accuracy")) is Formula:
            asked = f"{params['accuracy'].name.lower()}_{op}"
        if operand in COMPLEX:
            f = cm.FUNCTIONS.get(asked) or cm.FUNCTIONS[op]
            return zipped(g, ins, shape, dtype, lambda b, *xs: f(b, *xs), cost * 4)
        out, name = dtype, asked if operand in OPS[asked].dtypes else op
        return zipped(g, ins, shape, dtype, lambda b, *xs: b.let(name, xs, out, a), cost)

    return lower


for _name in (
    "add sub mul div rem neg sign max min exp exp2 log log1p expm1 logistic sqrt rsqrt cbrt sin "
    "cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 nextafter erf erfc erf_inv "
    "lgamma digamma bessel_i0e bessel_i1e zeta polygamma floor ceil is_finite "
    "and or xor not clz eq ne lt le gt ge mulhi"
).split():
    RULES[_name] = op_rule(_name)
for _name, _op in (
    ("add_any", "add"),
    ("shift_left", "shl"),
    ("shift_right_arithmetic", "shr_arith"),
    ("shift_right_logical", "shr_logical"),
    ("eq_to", "eq_total"),
    ("lt_to", "lt_total"),
    ("le_to", "le_total"),
):
    RULES[_name] = op_rule(_op)


def _round_mode(params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return (("mode", "even" if int(params["rounding_method"]) == 1 else "away"),)


RULES["round"] = op_rule("round", _round_mode)


@rule("population_count")
def _population_count(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    """The bits of a byte at least: a narrower negative number is widened by its sign."""
    shape, dtype = outs[0]
    byte = f"{dtype[0]}8" if BITS[dtype] < 8 else dtype

    def count(b: Builder, x: Atom) -> Atom:
        wide = scalar_convert(b, x, byte)
        return scalar_convert(b, b.let("popcount", (wide,), byte), dtype)

    return zipped(g, ins, shape, dtype, count)


@rule("abs")
def _abs(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    if ins[0].dtype in COMPLEX:
        return zipped(g, ins, shape, dtype, cm.modulus, 12.0)
    if dtype[0] == "u":
        return ins[0]
    return zipped(g, ins, shape, dtype, lambda b, x: b.let("abs", (x,), dtype))


@rule("square")
def _square(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    if dtype in COMPLEX:
        return zipped(g, ins, shape, dtype, cm.square, 4.0)
    return zipped(g, ins, shape, dtype, lambda b, x: b.let("mul", (x, x), dtype))


@rule("integer_pow")
def _integer_pow(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, dtype), y = outs[0], int(params["y"])
    if dtype in COMPLEX:
        return zipped(g, ins, shape, dtype, lambda b, x: cm.integer_pow(b, x, y), 16.0)
    return zipped(
        g, ins, shape, dtype, lambda b, x: b.let("integer_pow", (x,), dtype, (("y", y),)), 4.0
    )


@rule("pow")
def _pow(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return power(g, ins, outs, "pow")


def power(g: Graph, ins: list[Node], outs: Outs, op: str) -> Node:
    """By the operator `op`, if it has the dtype and no product or root is the same."""
    shape, dtype = outs[0]
    if dtype in COMPLEX:
        x, y = (to_dtype(g, n, dtype) for n in ins)
        return zipped(g, [x, y], shape, dtype, cm.power, 120.0)
    exponent = ins[1]
    literal = getattr(exponent.at, "literal", None)
    if exponent.dtype != dtype:
        exponent = to_dtype(g, exponent, dtype)
    if dtype in FLOATS and literal is not None:
        special = _POWERS.get(float(literal))
        if special is not None and (op == "pow" or float(literal) in _ALSO_COMPILED):
            return zipped(g, [ins[0]], shape, dtype, lambda b, x: special(b, x, dtype), 20.0)
    name = op if dtype in OPS[op].dtypes else "pow"
    cost = float(OPS[name].cost)
    return zipped(
        g, [ins[0], exponent], shape, dtype, lambda b, x, y: b.let(name, (x, y), dtype), cost
    )


def _one_over(b: Builder, x: Atom, dtype: str) -> Atom:
    return b.let("div", (Const(1.0, dtype), x), dtype)


# Powers with a cheap exact form; those with a half differ from pow at -inf and -0.0 only, which
# these forms keep by abs and add.
_POWERS: dict[float, Callable[[Builder, Atom, str], Atom]] = {
    1.0: lambda b, x, d: x,
    2.0: lambda b, x, d: b.let("mul", (x, x), d),
    -1.0: _one_over,
    -2.0: lambda b, x, d: _one_over(b, b.let("mul", (x, x), d), d),
    0.5: lambda b, x, d: _root(b, x, d),
    1.5: lambda b, x, d: b.let("mul", (b.let("abs", (x,), d), _root(b, x, d)), d),
    -0.5: lambda b, x, d: _one_over(b, _root(b, x, d), d),
    -1.5: lambda b, x, d: _one_over(b, b.let("mul", (b.let("abs", (x,), d), _root(b, x, d)), d), d),
}


# Those of which JAX's compiler makes a product or a quotient, too.
_ALSO_COMPILED = (1.0, 2.0, -1.0)


def _root(b: Builder, x: Atom, dtype: str) -> Atom:
    """x ** 0.5: sqrt, but +0 at -0 and inf at -inf."""
    plus = b.let("add", (x, Const(0.0, dtype)), dtype)
    minus_inf = b.let("eq", (x, Const(float("-inf"), dtype)), "bool")
    return b.select(minus_inf, Const(float("inf"), dtype), b.let("sqrt", (plus,), dtype))


def to_dtype(g: Graph, x: Node, dtype: str) -> Node:
    """x converted to a dtype."""
    if x.dtype == dtype:
        return x
    return zipped(g, [x], x.shape, dtype, lambda b, v: convert(b, v, x.dtype, dtype))


def convert(b: Builder, v: Any, source: str, target: str) -> Any:
    """One element converted: real to complex gets a zero imaginary part, complex to any other type
    drops it."""
    if source in COMPLEX:
        re = scalar_convert(b, v[0], part_dtype(target))
        return (re, scalar_convert(b, v[1], part_dtype(target))) if target in COMPLEX else re
    if target in COMPLEX:
        return scalar_convert(b, v, COMPLEX[target]), Const(0.0, COMPLEX[target])
    return scalar_convert(b, v, target)


def scalar_convert(b: Builder, v: Atom, dtype: str) -> Atom:
    if v.dtype == dtype:
        return v
    if isinstance(v, Const) and v.dtype in ("bool", "i32", "i64") and dtype in ("f32", "f64"):
        return Const(float(v.value), dtype)
    return b.let("convert", (v,), dtype)


@rule(
    "copy",
    "copy_p",
    "stop_gradient",
    "pvary",
    "reshard",
    "sharding_constraint",
    "layout_constraint",
    "name",
    "reduce_precision_identity",
    "device_put",
    "mesh_cast",
    "to_edtype",
    "from_edtype",
)
def _identity(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    return list(ins)


PRECISION = {"bf16": (8, 7), "f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}


@rule("reduce_precision")
def _reduce_precision(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    if (params["exponent_bits"], params["mantissa_bits"]) == PRECISION.get(dtype):
        return ins[0]  # values are rounded to their dtype anyway
    attrs = (
        ("exponent_bits", int(params["exponent_bits"])),
        ("mantissa_bits", int(params["mantissa_bits"])),
    )
    return zipped(
        g, ins, shape, dtype, lambda b, x: b.let("reduce_precision", (x,), dtype, attrs), 4.0
    )


@rule("bitcast_convert_type")
def _bitcast(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, dtype), x = outs[0], ins[0]
    old, new = BITS[part_dtype(x.dtype)], BITS[part_dtype(dtype)]
    if x.dtype == dtype:
        return x
    if old == new:
        return zipped(g, ins, shape, dtype, lambda b, v: b.let("bitcast", (v,), dtype))
    wide, narrow = f"u{max(old, new)}", f"u{min(old, new)}"
    parts, bits = max(old, new) // min(old, new), min(old, new)
    lead = tuple(range(min(len(shape), len(x.shape))))

    def split(b: Builder, idx: tuple[Index, ...]) -> Atom:
        v = b.let("bitcast", (read(x, b, idx[:-1]),), wide)
        shift = b.let("mul", (b.atom(idx[-1]), Const(bits, "i64")), "i64")
        piece = b.let("shr_logical", (v, b.let("convert", (shift,), wide)), wide)
        return b.let("bitcast", (b.let("convert", (piece,), narrow),), dtype)

    def join(b: Builder, idx: tuple[Index, ...]) -> Atom:
        total: Atom | None = None
        for k in range(parts):
            piece = b.let("convert", (b.let("bitcast", (read(x, b, (*idx, k)),), narrow),), wide)
            piece = b.let("shl", (piece, Const(k * bits, wide)), wide) if k else piece
            total = piece if total is None else b.let("or", (total, piece), wide)
        assert total is not None
        return b.let("bitcast", (total,), dtype)

    if new < old:
        return g.pointwise(shape, dtype, [(x, lead)], split, 4.0, frozenset({len(shape) - 2}))
    return g.pointwise(shape, dtype, [(x, (*lead, None))], join, 4.0 * parts)


@rule("select_n")
def _select_n(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    cases = len(ins) - 1
    if all(x is ins[1] for x in ins[2:]):  # a branch's operands under vmap: only derivatives differ
        return ins[1]

    def choose(b: Builder, which: Atom, *xs: Any) -> Any:
        if cases == 1:
            return xs[0]
        if which.dtype == "bool":
            return _pick(b, which, xs[1], xs[0])
        value = xs[-1]
        for k in reversed(range(cases - 1)):
            value = _pick(b, b.let("le", (which, Const(k, which.dtype)), "bool"), xs[k], value)
        return value

    return zipped(g, ins, shape, dtype, choose, float(max(1, cases - 1)))


def _pick(b: Builder, p: Atom, x: Any, y: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(b.select(p, u, v) for u, v in zip(x, y, strict=True))
    return b.select(p, x, y)


@rule("clamp")
def _clamp(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    return zipped(
        g, ins, shape, dtype, lambda b, lo, x, hi: b.let("clamp", (lo, x, hi), dtype), 2.0
    )


RULES["real"] = lambda g, ins, outs, params: zipped(g, ins, *outs[0], lambda b, x: x[0], 0.0)
RULES["imag"] = lambda g, ins, outs, params: zipped(g, ins, *outs[0], lambda b, x: x[1], 0.0)
RULES["complex"] = lambda g, ins, outs, params: zipped(
    g, ins, *outs[0], lambda b, x, y: (x, y), 0.0
)


@rule("conj")
def _conj(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, dtype), x = outs[0], ins[0]
    if x.dtype not in COMPLEX:
        return to_dtype(g, x, dtype)
    return zipped(g, ins, shape, dtype, lambda b, v: (v[0], b.let("neg", (v[1],), COMPLEX[dtype])))


@rule("random_wrap", "random_unwrap")
def _keys(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return ins[0]


def literal(g: Graph, value: Any, dtype: str) -> Node:
    """A scalar constant."""
    part = part_dtype(dtype)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        if dtype in COMPLEX:
            return b.number(complex(value).real, part), b.number(complex(value).imag, part)
        return b.number(value, part)

    at.literal = None if dtype in COMPLEX else value  # type: ignore[attr-defined]
    node = g.pointwise((), dtype, [], at, 0.0)
    return node


__all__ = [
    "RULES",
    "convert",
    "ir_dtype",
    "literal",
    "rule",
    "scalar_convert",
    "to_dtype",
    "zipped",
]
