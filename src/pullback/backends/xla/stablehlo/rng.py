"""Random bits: the Threefry cipher written out, XLA's own generators, and products with sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....primitives.as_compiled import (
    contracted_add_p,
    contracted_sub_p,
    fused_multiply_add_p,
    library_pow_p,
    power_div_p,
    spread_div_p,
)
from ....primitives.rng import RandomAlgorithm
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import apart, register, rule
from ..types import dense_attr, tensor, type_of
from .build import converted, full, matched

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _threefry(ctx: LoweringRuleContext, *args: Any) -> list[Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011)."""
    aval = ctx.avals_out[0]
    k1, k2, a, b = matched(ctx, args, aval.shape)
    keys = (k1, k2, hlo.xor(hlo.xor(k1, k2), full(_PARITY, aval)))
    a, b = hlo.add(a, k1), hlo.add(b, k2)
    for turn in range(5):
        for n in _ROTATIONS[turn % 2]:
            a = hlo.add(a, b)
            left = hlo.shift_left(b, full(n, aval))
            b = hlo.xor(hlo.or_(left, hlo.shift_right_logical(b, full(32 - n, aval))), a)
        a = hlo.add(a, keys[(turn + 1) % 3])
        b = hlo.add(hlo.add(b, keys[(turn + 2) % 3]), full(turn + 1, aval))
    return [a, b]


rule("threefry2x32")(apart("threefry2x32", _threefry))  # it is long, and programs have many

_NAMES = {
    RandomAlgorithm.RNG_DEFAULT: "DEFAULT",
    RandomAlgorithm.RNG_THREE_FRY: "THREE_FRY",
    RandomAlgorithm.RNG_PHILOX: "PHILOX",
}


@rule("rng_bit_generator")
def _rng_bit_generator(
    ctx: LoweringRuleContext, state: Any, *, shape: Sequence[int], dtype: Any, algorithm: Any,
    **_: Any,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    words = aval.shape[0] // 2
    narrow = aval.dtype == np.uint32
    if narrow:
        paired = hlo.reshape(tensor((words, 2), np.uint32), state)
        state = hlo.bitcast_convert(tensor((words,), np.uint64), paired)
    wide = np.dtype(dtype).itemsize >= 4
    bits = np.dtype(dtype) if wide else np.dtype(np.uint32)
    kind = hlo.RngAlgorithmAttr.get(_NAMES[RandomAlgorithm(int(algorithm))])
    after, out = hlo.rng_bit_generator(state.type, tensor(shape, bits), kind, state)
    if not wide:
        out = converted(out, shape, dtype)
    if narrow:
        paired = hlo.bitcast_convert(tensor((words, 2), np.uint32), after)
        after = hlo.reshape(type_of(aval), paired)
    return [after, out]


@rule("rng_uniform")
def _rng_uniform(ctx: LoweringRuleContext, a: Any, b: Any, *, shape: Sequence[int]) -> list[Any]:
    sizes = hlo.constant(dense_attr(np.asarray(shape, np.int64)))
    return [hlo.rng(a, b, sizes, hlo.RngDistributionAttr.get("UNIFORM"))]


def _fused_multiply_add(ctx: LoweringRuleContext, *args: Any) -> list[Any]:
    """Rounded once: narrow types in the next wider one; float64 as the compiler contracts it."""
    (aval,) = ctx.avals_out
    x, y, z = matched(ctx, args, aval.shape)
    if aval.dtype.itemsize >= 8:
        return [hlo.add(hlo.multiply(x, y), z)]
    x, y, z = (converted(v, aval.shape, np.float64) for v in (x, y, z))
    return [converted(hlo.add(hlo.multiply(x, y), z), aval.shape, aval.dtype)]


def _left_to_xla(operation: str) -> Callable[..., list[Any]]:
    def lower(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
        return [getattr(hlo, operation)(*matched(ctx, (x, y), ctx.avals_out[0].shape))]

    return lower


register(fused_multiply_add_p, _fused_multiply_add)
register(contracted_add_p, _left_to_xla("add"))
register(contracted_sub_p, _left_to_xla("subtract"))
register(spread_div_p, _left_to_xla("divide"))
register(power_div_p, _left_to_xla("divide"))
register(library_pow_p, _left_to_xla("power"))
