"""Random bits: the Threefry-2x32 cipher as straight code in lanes. Keys were lowered to their words
before."""

from __future__ import annotations

from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, power, rule, stretch, zipped
from pullback.loops.lower.graph import Graph, Node, level_at, read

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(b: Builder, k0: Atom, k1: Atom, x0: Atom, x1: Atom) -> tuple[Atom, Atom]:
    """The block cipher with 20 rounds (Salmon et al., 2011)."""

    def op(name: str, x: Atom, y: Atom) -> Atom:
        return b.let(name, (x, y), "u32")

    keys = (k0, k1, op("xor", op("xor", k0, k1), Const(_PARITY, "u32")))
    x0, x1 = op("add", x0, k0), op("add", x1, k1)
    for r in range(5):
        for n in _ROTATIONS[r % 2]:
            x0 = op("add", x0, x1)
            x1 = op("xor", op("rotl", x1, Const(n, "u32")), x0)
        x0 = op("add", x0, keys[(r + 1) % 3])
        x1 = op("add", x1, op("add", keys[(r + 2) % 3], Const(r + 1, "u32")))
    return x0, x1


@rule("threefry2x32")
def _threefry2x32(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    shape = outs[0][0]
    ins = [n if n.shape == shape or not n.shape else stretch(g, n, shape) for n in ins]
    scalar = [n.shape != shape for n in ins]
    token = object()

    def part(k: int) -> Node:
        def at(b: Builder, idx: tuple[Index, ...]) -> Atom:
            key = (token, idx, b.mask)
            memo = b.scopes[level_at(b, idx)].memo
            if key not in memo:
                memo[key] = threefry(
                    b, *[read(n, b, () if s else idx) for n, s in zip(ins, scalar, strict=True)]
                )
            return memo[key][k]  # type: ignore[no-any-return]

        # The two halves cost once together where both are read.
        return g.pointwise(
            shape,
            "u32",
            [(n, () if s else None) for n, s in zip(ins, scalar, strict=True)],
            at,
            60.0,
        )

    return [part(0), part(1)]


@rule("fused_multiply_add")
def _fused_multiply_add(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    return zipped(g, ins, shape, dtype, lambda b, x, y, z: b.let("fma", (x, y, z), dtype))


@rule("library_pow")
def _library_pow(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return power(g, ins, outs, "xla_pow")
