"""How often the loops of a kernel run, by the sizes of its first call: what code from stencils
takes is a matter of how many are executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.backends.llvm.analysis import walk
from pullback.loops.ir import Atom, Const, For, Kernel, Let

__all__ = ["Trips"]

UNKNOWN = 16.0  # how far a loop goes whose number of iterations depends on data

_VALUES: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "min": min,
    "max": max,
    "and": lambda x, y: x & y,
    "idiv": lambda x, y: x // y if y else 0,
}


class Trips:
    """The numbers of iterations, where sizes and arithmetic tell them."""

    def __init__(self, kernel: Kernel, dims: Sequence[int]) -> None:
        self.kernel = kernel
        self.known: dict[Any, int | None] = dict(zip(kernel.dims, dims))
        self.made: dict[Any, Let | For] | None = None

    def between(self, lo: Atom, hi: Atom, step: Atom) -> float:
        """Iterations of a loop, in the middle of the loops around it."""
        found = self.iterations(lo, hi, step)
        if found is None:
            return max(1.0, UNKNOWN / abs(self.value(step) or 1))
        return float(found)

    def iterations(self, lo: Atom, hi: Atom, step: Atom) -> int | None:
        first, last, by = self.value(lo), self.value(hi), self.value(step)
        if first is None or last is None or not by:
            return None
        return max(0, -(-(last - first) // by))

    def value(self, a: Atom) -> int | None:
        """A number that sizes tell; of a loop's index the middle one."""
        if type(a) is Const:
            return int(a.value)
        if a not in self.known:
            self.known[a] = None
            self.known[a] = self.computed(a)
        return self.known[a]

    def computed(self, a: Atom) -> int | None:
        if self.made is None:
            self.made = {}
            for x in walk(self.kernel.body):
                if type(x) is Let and x.out.dtype == "i64":
                    self.made[x.out] = x
                elif type(x) is For:
                    self.made[x.index] = x
        s = self.made.get(a)
        if type(s) is For:
            count, lo, by = (
                self.iterations(s.lo, s.hi, s.step),
                self.value(s.lo),
                self.value(s.step),
            )
            return None if count is None or lo is None or by is None else lo + count // 2 * by
        if type(s) is not Let or s.op not in _VALUES:
            return None
        parts = [self.value(x) for x in s.args]
        return None if None in parts else _VALUES[s.op](*parts)  # type: ignore[arg-type]
