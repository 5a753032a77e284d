"""Which buffers of a finished plan may be one: results lend their memory to temporaries that die
before it is written, donated arguments give theirs to results.

Before: steps with a buffer for every slot. After: fewer buffers, the same kernels. Nothing is done
to a plan with jumps, whose steps do not run in the order in which they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops import buffers, plan
from pullback.loops.canon import waits
from pullback.loops.ir import Kernel
from pullback.loops.lower.graph import Slot

__all__ = ["Lender", "renamed"]

WORTH = 1024  # bytes; smaller temporaries stay where they are


def renamed(
    steps: Sequence[Any], host: list[plan.HostCall], names: dict[int, int]
) -> tuple[list[Any], list[plan.HostCall]]:
    """The steps with slots by other names; what was allocated under the old ones is no longer."""
    if not names:
        return list(steps), host
    for old in names:  # a chain of names ends where it ends
        while names[old] in names:
            names[old] = names[names[old]]
    get = lambda n: names.get(n, n)
    out: list[Any] = []
    for s in steps:
        if isinstance(s, plan.KernelStep):
            bufs = tuple(map(get, s.bufs))
            out.append(plan.KernelStep(s.kernel, bufs, s.dims, s.scalars, s.equation))  # type: ignore[arg-type]
        elif isinstance(s, plan.CopyStep):
            if get(s.dst) != get(s.src):  # type: ignore[no-untyped-call]
                out.append(plan.CopyStep(get(s.dst), get(s.src), s.bytes))  # type: ignore[arg-type, no-untyped-call]
        elif isinstance(s, plan.SwapStep):
            out.append(plan.SwapStep(get(s.a), get(s.b)))  # type: ignore[arg-type, no-untyped-call]
        elif isinstance(s, plan.JumpIfNotStep):
            out.append(plan.JumpIfNotStep(get(s.slot), s.pc))  # type: ignore[arg-type, no-untyped-call]
        elif not (isinstance(s, (plan.AllocStep, plan.FreeStep)) and s.slot in names):
            out.append(s)

    def spots(views: Any) -> Any:
        return tuple((get(n), shape, aval) for n, shape, aval in views)  # type: ignore[no-untyped-call]

    calls = [plan.HostCall(h.call, spots(h.ins), spots(h.outs), h.name, h.equation) for h in host]
    return out, calls


class Lender:
    """When each slot of a plan is first and last touched, and who may have whose memory."""

    def __init__(
        self, steps: Sequence[Any], kernels: Sequence[Kernel], host: Sequence[plan.HostCall]
    ) -> None:
        self.steps, self.kernels = steps, kernels
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.found: dict[int, Any] = {}
        self.straight = True
        for k, s in enumerate(steps):
            touched: Sequence[int] = ()
            if isinstance(s, plan.KernelStep):
                touched = s.bufs
            elif isinstance(s, plan.CopyStep):
                touched = (s.dst, s.src)
            elif isinstance(s, plan.HostStep):
                call = host[s.number]
                touched = [n for n, _, _ in (*call.ins, *call.outs)]
            elif not isinstance(s, (plan.AllocStep, plan.FreeStep, plan.RetStep)):
                self.straight = False
            for n in touched:
                self.first.setdefault(n, k)
                self.last[n] = k

    def meet(self, old: int, new: int) -> bool:
        """Whether `old` is done with when `new` is first written: before it, or element by
        element."""
        end, start = self.last.get(old, -1), self.first.get(new, len(self.steps))
        if end != start:
            return end < start
        s = self.steps[end]
        if not isinstance(s, plan.KernelStep) or s.bufs.count(old) != 1 or s.bufs.count(new) != 1:
            return False
        if waits(self.kernels[s.kernel]):  # its first code may give up, and good code begin again
            return False
        if s.kernel not in self.found:
            self.found[s.kernel] = buffers.accesses(self.kernels[s.kernel].body)
        params, found = self.kernels[s.kernel].params, self.found[s.kernel]
        a, b = params[s.bufs.index(old)], params[s.bufs.index(new)]
        return a.dtype == b.dtype and buffers.same_element(found.get(a, ()), found.get(b, ()))

    def donations(self, given: Sequence[Slot], results: Sequence[Slot]) -> list[tuple[Slot, Slot]]:
        """(argument, result) pairs of equal size and type."""
        pairs: list[tuple[Slot, Slot]] = []
        if not self.straight:
            return pairs
        left = [s for s in results if s.role == "out" and s.bytes]
        for old in given:
            same = (s for s in left if s.bytes == old.bytes and s.dtype == old.dtype)
            new = next((s for s in same if self.meet(old.number, s.number)), None)
            if new is not None:
                left.remove(new)
                pairs.append((old, new))
        return pairs

    def loans(self, temps: Sequence[Slot], results: Sequence[Slot]) -> dict[int, int]:
        """The temporaries that live in a result's memory, by number."""
        names: dict[int, int] = {}
        if not self.straight:
            return names
        large = sorted(temps, key=lambda s: -s.bytes)
        for new in sorted({s for s in results if s.role == "out"}, key=lambda s: s.number):
            for old in large:
                if old.number in names or not WORTH <= old.bytes <= new.bytes:
                    continue
                if self.meet(old.number, new.number):
                    names[old.number] = new.number
                    self.first[new.number] = self.first.get(old.number, 0)
        return names
