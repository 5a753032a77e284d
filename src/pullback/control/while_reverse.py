"""Reverse mode through loops of unknown length: a tape of carries that is thinned when it is full,
and recomputation of what was thinned.

The loop runs forward once more and keeps a carry every `stride` iterations, first every one. When
the tape is full, every second entry is dropped and the stride doubles. Backwards, the tape is a
stack. The part of the loop between its last entry and the end so far is either short enough to be
run once more into a log of carries, iteration by iteration, and then walked backwards; or its
middle becomes an entry. So memory is bounded, whatever the length: up to `slots` iterations cost
one more evaluation of the body each, up to `slots` squared two, and beyond that the number grows
with the logarithm. (Thinning is after Stumm and Walther, 2010, "New algorithms for optimal online
checkpointing"; halving after Griewank, 1992.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config
from ..core import effects as fx
from ..core.avals import typeof
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..primitives.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim
from ..primitives.elementwise import add_jaxvals, bitwise_and, gt, lt, mul, select_n, sub
from ..primitives.layout import iota
from ..primitives.shape import broadcast, concatenate, slice_in_dim
from ..transforms.partial_eval import dce_closed, partial_eval_jaxpr
from ..transforms.transpose import backward_pass

__all__ = ["adjoint_of_loop", "check_effects", "split_loop"]

LEAST, MOST = 16, 4096  # entries of a tape
SPARE = 32  # entries that halving may add: iterations are counted in 31 bits

Loop = Callable[..., Any]  # while_loop


def split_loop(
    body: ClosedJaxpr, const_unknown: Sequence[bool], carry_unknown: Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]:
    """Splits a body by the values that it depends on, at once or after some iterations:
    (known arguments) -> (known carries, residuals), (residuals, unknown arguments) -> (unknown
    carries), which carries are unknown, and how many residuals there are."""
    unknown = list(carry_unknown)
    while True:
        known, staged, out_unknown, n_res = partial_eval_jaxpr(
            body, [*const_unknown, *unknown], unknown
        )
        joined = [a or b for a, b in zip(unknown, out_unknown, strict=True)]
        if joined == unknown:
            return known, staged, unknown, n_res
        unknown = joined


def _slots(carry: Sequence[Any]) -> int:
    """How many carries the tape may hold; an even number."""
    size = sum(math.prod(typeof(x).shape) * max(typeof(x).dtype.itemsize, 1) for x in carry)
    limit = int(config.while_tape_bytes.get()) // (2 * max(size, 1))
    return int(max(LEAST, min(MOST, limit))) // 2 * 2


def _read(tape: Sequence[Any], k: Any) -> list[Any]:
    return [dynamic_index_in_dim(x, k, 0, keepdims=False) for x in tape]


def _write(tape: Sequence[Any], k: Any, values: Sequence[Any]) -> list[Any]:
    return [dynamic_update_index_in_dim(x, v, k, 0) for x, v in zip(tape, values, strict=True)]


def _where(pred: Any, x: Any, y: Any) -> Any:
    return select_n(pred, y, x)


class _Reversal:
    """One loop: how to go forward, when to stop, how to go back by one iteration."""

    def __init__(
        self,
        loop: Loop,
        step: Callable[[list[Any]], list[Any]],
        goes_on: Callable[[list[Any]], Any],
        back: Callable[[list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]],
        start: list[Any],
    ) -> None:
        self.loop, self.step, self.goes_on, self.back = loop, step, goes_on, back
        self.start, self.slots = start, _slots(start)
        self.zero = np.int32(0)

    def advance(self, carry: list[Any], n: Any) -> list[Any]:
        """n iterations."""
        body = lambda s: (s[0] + 1, self.step(s[1]))
        return self.loop(lambda s: lt(s[0], n), body, (self.zero, carry))[1]  # type: ignore[no-any-return]

    def room(self, entries: int) -> list[Any]:
        """A tape; what is in it does not matter."""
        return [broadcast(x, (entries,)) for x in self.start]

    def record(self) -> tuple[Any, Any, Any, list[Any]]:
        """Forward: (number of iterations, stride, number of entries, tape)."""
        slots, half = self.slots, self.slots // 2

        def keep(s: Any) -> Any:
            i, stride, count, carry, tape = s
            tape = _write(tape, count, carry)
            more = lambda t: bitwise_and(lt(t[0], stride), self.goes_on(t[1]))
            move = lambda t: (t[0] + 1, self.step(t[1]))
            done, carry = self.loop(more, move, (self.zero, carry))
            return i + done, stride, count + 1, carry, tape

        def fill(s: Any) -> Any:
            room = lambda s: bitwise_and(lt(s[2], np.int32(slots)), self.goes_on(s[3]))
            i, stride, count, carry, tape = self.loop(room, keep, s)
            full = self.goes_on(carry)
            stride = _where(full, stride * 2, stride)
            count = _where(full, np.int32(half), count)
            return i, stride, count, carry, [thinned(full, x) for x in tape]

        def thinned(full: Any, x: Any) -> Any:
            even = slice_in_dim(x, 0, slots, 2)
            return _where(full, concatenate([even, slice_in_dim(x, half, None)], 0), x)

        state = (self.zero, np.int32(1), self.zero, self.start, self.room(slots + SPARE))
        n, stride, count, _, tape = self.loop(lambda s: self.goes_on(s[3]), fill, state)
        return n, stride, count, tape

    def run(self, cts: list[Any], sums: list[Any]) -> tuple[list[Any], list[Any]]:
        """The cotangents of the first linear carries and of the linear constants."""
        n, stride, count, tape = self.record()
        slots = np.int32(self.slots)
        places = mul(iota(np.int32, self.slots + SPARE), broadcast(stride, (self.slots + SPARE,)))

        def at(places: Any, top: Any) -> Any:
            return _read([places], sub(top, np.int32(1)))[0]

        def long(s: Any) -> Any:
            end, top, places, _ = s
            return gt(sub(end, at(places, top)), slots)

        def halve(s: Any) -> Any:
            end, top, places, tape = s
            first = at(places, top)
            half = (end - first) >> 1
            carry = self.advance(_read(tape, top - 1), half)
            places = _write([places], top, [first + half])[0]
            return end, top + 1, places, _write(tape, top, carry)

        def replay(s: Any) -> Any:
            j, carry, log = s
            return j + 1, self.step(carry), _write(log, j, carry)

        def one(s: Any) -> Any:
            j, cts, sums, log = s
            cts, sums = self.back(_read(log, j - 1), cts, sums)
            return j - 1, cts, sums, log

        def part(s: Any) -> Any:
            end, top, places, tape, log, cts, sums = s
            end, top, places, tape = self.loop(long, halve, (end, top, places, tape))
            first = at(places, top)
            length = end - first
            replayed = (self.zero, _read(tape, top - 1), log)
            log = self.loop(lambda t: lt(t[0], length), replay, replayed)[2]
            back = (length, cts, sums, log)
            _, cts, sums, log = self.loop(lambda t: gt(t[0], self.zero), one, back)
            return first, top - 1, places, tape, log, cts, sums

        state = (n, count, places, tape, self.room(self.slots), cts, sums)
        found = self.loop(lambda s: gt(s[0], self.zero), part, state)
        return found[5], found[6]


def check_effects(effects: Any) -> None:
    """ValueError for a loop that does more than compute: iterations run several times here."""
    others = [e for e in effects if not isinstance(e, fx.NamedAxisEffect)]
    if others:
        raise ValueError(
            "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
            f"dynamic start/stop values whose body has effects ({others}): iterations are "
            "computed more than once, and the effects would be repeated. Fix: take prints and "
            "callbacks out of the loop, or use lax.scan, or fori_loop with static start/stop."
        )


def adjoint_of_loop(
    loop: Loop,
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
    const_linear: Sequence[bool],
    carry_linear: Sequence[bool],
    cc: Sequence[Any],
    known_bc: Sequence[Any],
    start: Sequence[Any],
    cts: Sequence[Any],
) -> list[Any]:
    """The cotangents of a loop's linear constants, then those of its linear carries, from what it
    knows (the condition's constants, the body's, the carries at the start) and the cotangents of
    its linear results."""
    known, staged, linear, n_res = split_loop(body, const_linear, carry_linear)
    n_known = len(linear) - sum(linear)
    forward = dce_closed(known, [True] * n_known + [False] * n_res, True)[0]
    unknown_avals = staged.in_avals[n_res:]
    n_consts = sum(const_linear)

    def step(carry: list[Any]) -> list[Any]:
        return eval_jaxpr(forward.jaxpr, forward.consts, *known_bc, *carry)

    def goes_on(carry: list[Any]) -> Any:
        rest = iter(carry)
        # The condition reads no linear carry: a comparison has no derivative.
        full = [None if lin else next(rest) for lin in linear]
        return eval_jaxpr(cond.jaxpr, cond.consts, *cc, *full)[0]

    def back(carry: list[Any], cts: list[Any], sums: list[Any]) -> tuple[list[Any], list[Any]]:
        residuals = eval_jaxpr(known.jaxpr, known.consts, *known_bc, *carry)[n_known:]
        ins = [*residuals, *map(UndefinedPrimal, unknown_avals)]
        found = backward_pass(staged.jaxpr, staged.consts, ins, cts)[n_res:]
        sums = [
            s if type(ct) is Zero else add_jaxvals(s, ct)
            for s, ct in zip(sums, found[:n_consts], strict=True)
        ]
        return [instantiate_zeros(ct) for ct in found[n_consts:]], sums

    sums = [
        instantiate_zeros(Zero(a.to_ct_aval()))
        for a, lin in zip(body.in_avals, const_linear, strict=False)
        if lin
    ]
    ct_init, ct_bc = _Reversal(loop, step, goes_on, back, list(start)).run(list(cts), sums)
    return [*ct_bc, *ct_init]
