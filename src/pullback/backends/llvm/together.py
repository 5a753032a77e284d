"""Scalar code that computes one elementary function many times computes it in lanes.

Sixty scalars that a loop carries, each with a tanh of its own, are four vector functions: the
operands are put side by side, the results taken apart again. The statements of a block are put into
an order in which such functions wait for one another; what touches memory keeps its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm.analysis import free_names
from pullback.backends.llvm.maths_special import FUNCTIONS
from pullback.loops.ir import For, If, Let, Load, Stmt, Var, While

__all__ = ["Item", "ordered"]

FEWEST = 3  # functions that are worth putting together
ROUNDS = 16  # longest chain of functions that is looked at
CHEAP = {"floor", "ceil", "trunc", "rem"}
COSTLY = {op for op in FUNCTIONS if op not in CHEAP}

Item = Stmt | tuple[Let, ...]


def _key(s: Stmt) -> tuple[object, ...] | None:
    """Statements of one key may be one function in lanes."""
    if type(s) is Let and s.op in COSTLY and s.out.dtype in ("f32", "f64"):
        return s.op, s.out.dtype, s.attrs
    return None


def ordered(stmts: Sequence[Stmt]) -> Sequence[Item]:
    """The statements of a block, with tuples of functions that are computed together."""
    count: dict[object, int] = {}
    for s in stmts:
        key = _key(s)
        if key is not None:
            count[key] = count.get(key, 0) + 1
    wanted = {key for key, n in count.items() if n >= FEWEST}
    if not wanted:
        return stmts
    return _Order(stmts, wanted).items()


class _Order:
    def __init__(self, stmts: Sequence[Stmt], wanted: set[object]) -> None:
        self.stmts, self.wanted = stmts, wanted
        self.needs: list[list[int]] = []
        made: dict[Var, int] = {}
        memory = -1
        for k, s in enumerate(stmts):
            needs = [made[v] for v in free_names([s])[0] if v in made]
            if type(s) is not Let:
                if memory >= 0:
                    needs.append(memory)
                memory = k
            self.needs.append(needs)
            for v in _results(s):
                made[v] = k

    def items(self) -> Sequence[Item]:
        out: list[Item] = []
        done = [False] * len(self.stmts)
        rest = list(range(len(self.stmts)))
        for _ in range(ROUNDS):
            later: list[int] = []
            ready: dict[object, list[int]] = {}
            for k in rest:
                if not all(done[j] for j in self.needs[k]):
                    later.append(k)
                    continue
                key = _key(self.stmts[k])
                if key in self.wanted:
                    ready.setdefault(key, []).append(k)
                else:
                    out.append(self.stmts[k])
                    done[k] = True
            for group in ready.values():
                lets = [self.stmts[k] for k in group]
                out.append(tuple(lets) if len(lets) > 1 else lets[0])  # type: ignore[arg-type]
                for k in group:
                    done[k] = True
            rest = later
            if not rest:
                return out
        return [*out, *(self.stmts[k] for k in rest)]


def _results(s: Stmt) -> list[Var]:
    if isinstance(s, (Let, Load)):
        return [s.out]
    if isinstance(s, (For, While)):
        return [c.out for c in s.carry]
    return list(getattr(s, "outs", ())) if isinstance(s, If) or hasattr(s, "outs") else []
