"""Sums over a loop's steps of products are one product after it.

    scan: carry s, row x                      scan: row x
      y = ...                                   y = ...
      p = dot_general y x          ->           stacks y
      s' = s + p                              p = dot_general ys xs, along steps too
                                              s' = s + p

So are gradients by the weights of recurrent networks made: each step multiplies few rows, and adds
an array as large as the weights to another one. What a step multiplies is a row that the loop reads
anyway, or is stacked, where that takes no more memory than the loop has in use already.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from pullback.core.jaxpr import ClosedJaxpr, DropVar, Var
from pullback.records import record

__all__ = ["products_after_loops"]

FEW = 64  # of the contracted index in a step: products of more are fast as they are
LEAST = 1024  # elements of a sum
ADDS = frozenset({"add", "add_any"})


def products_after_loops(jaxpr: Any) -> Any:
    """A program with such sums taken out of its loops."""
    if not any(e.primitive.name == "scan" for e in jaxpr.eqns):
        return jaxpr
    eqns: list[Any] = []
    for e in jaxpr.eqns:
        loop = e.primitive.name == "scan" and not e.effects and e.params["length"] > 1
        eqns += _Loop(e).without_sums() if loop else [e]
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(eqns=eqns)


@record
class _Sum:
    """A carry that products are added to: its number, and the equations that make its next value,
    the product first and the addition last."""

    carry: int
    steps: list[Any]


class _Loop:
    """A scan and what its body is made of."""

    def __init__(self, eqn: Any) -> None:
        self.eqn, self.body = eqn, eqn.params["jaxpr"].jaxpr
        self.consts, self.carries = eqn.params["num_consts"], eqn.params["num_carry"]
        self.length = eqn.params["length"]
        self.rows = self.body.invars[self.consts + self.carries :]
        self.producers = {v: e for e in self.body.eqns for v in e.outvars}
        self.uses = Counter(
            v for e in self.body.eqns for v in e.invars if not hasattr(v, "val")
        ) + Counter(v for v in self.body.outvars if not hasattr(v, "val"))
        self.stacked: dict[Any, Any] = {}  # of values of a step, those of all steps

    def without_sums(self) -> list[Any]:
        """The loop without them, and the products; or the loop as it is."""
        sums = [s for s in map(self._sum, range(self.carries)) if s is not None]
        operands = [v for s in sums for v in s.steps[0].invars]
        new = {v: None for v in operands if not self._is_stacked(v)}
        held = [v.aval for v in (*self.eqn.invars, *self.eqn.outvars)]
        if not sums or self.length * sum(_size(v.aval) for v in new) > sum(map(_size, held)):
            return [self.eqn]
        outs = [Var(v.aval.update(shape=(self.length, *v.aval.shape))) for v in new]
        self.stacked.update(zip(new, outs, strict=True))
        return [self._loop(sums, list(new), outs), *(e for s in sums for e in self._after(s))]

    def _sum(self, k: int) -> _Sum | None:
        """The sum that a carry is, if it is one and nobody else reads it or its parts."""
        carry, result = self.body.invars[self.consts + k], self.body.outvars[k]
        add = self._made_alone(result)
        if add is None or add.primitive.name not in ADDS or self.uses[carry] != 1:
            return None
        rest = [v for v in add.invars if v is not carry]
        if len(rest) != 1 or hasattr(rest[0], "val") or _size(carry.aval) < LEAST:
            return None
        steps = [add]
        made = self._made_alone(rest[0])
        if made is not None and made.primitive.name == "transpose":
            steps.append(made)
            made = self._made_alone(made.invars[0])
        if made is None or made.primitive.name != "dot_general" or not self._few(made):
            return None
        return _Sum(k, [made, *steps[::-1]])

    def _made_alone(self, v: Any) -> Any:
        """The equation that makes a value that is read once."""
        if hasattr(v, "val") or self.uses[v] != 1:
            return None
        e = self.producers.get(v)
        return e if e is not None and not e.effects and len(e.outvars) == 1 else None

    def _few(self, product: Any) -> bool:
        """Whether a product sums few numbers, and each of its operands is made by the step."""
        (contracted, _), _ = product.params["dimension_numbers"]
        x, y = product.invars
        fixed = self.body.invars[: self.consts]
        if any(hasattr(v, "val") or v in fixed or v in self.body.constvars for v in (x, y)):
            return False
        count: int = math.prod(x.aval.shape[a] for a in contracted)
        return count <= FEW

    def _is_stacked(self, v: Any) -> bool:
        """Whether a value's stack is there, as a row's is, and a result's."""
        known = self.stacked
        if v in self.rows:
            known[v] = self.eqn.invars[self.consts + self.carries + self.rows.index(v)]
        ends = self.body.outvars[self.carries :]
        for w, stack in zip(ends, self.eqn.outvars[self.carries :], strict=True):
            if v is w and not isinstance(stack, DropVar):
                known.setdefault(v, stack)
        return v in known

    def _loop(self, sums: list[_Sum], new: list[Any], outs: list[Var]) -> Any:
        """The loop without sums, which stacks what is new."""
        gone = {s.carry for s in sums}
        dropped = {id(e) for s in sums for e in s.steps}
        left = [k for k in range(self.carries) if k not in gone]

        def without(vs: Any, first: int) -> list[Any]:
            end = first + self.carries
            return [*vs[:first], *(vs[first + k] for k in left), *vs[end:]]

        body = self.body.replace(
            invars=without(self.body.invars, self.consts),
            outvars=[*without(self.body.outvars, 0), *new],
            eqns=[e for e in self.body.eqns if id(e) not in dropped],
        )
        closed = ClosedJaxpr(body, self.eqn.params["jaxpr"].consts)
        return self.eqn.replace(
            invars=without(self.eqn.invars, self.consts),
            outvars=[*without(self.eqn.outvars, 0), *outs],
            params={**self.eqn.params, "jaxpr": closed, "num_carry": len(left)},
        )

    def _after(self, s: _Sum) -> list[Any]:
        """The product of all steps, and what was done to that of one."""
        product, *between, add = s.steps
        (xc, yc), (xb, yb) = product.params["dimension_numbers"]
        numbers = tuple(
            tuple(tuple(a + 1 for a in axes) for axes in pair) for pair in ((xc, yc), (xb, yb))
        )
        numbers = tuple((0, *axes) for axes in numbers[0]), numbers[1]
        value = Var(product.outvars[0].aval)
        eqns = [
            product.replace(
                invars=[self.stacked[v] for v in product.invars],
                outvars=[value],
                params={**product.params, "dimension_numbers": numbers},
            )
        ]
        for e in between:
            before, value = value, Var(e.outvars[0].aval)
            eqns.append(e.replace(invars=[before], outvars=[value]))
        carry = self.body.invars[self.consts + s.carry]
        start = self.eqn.invars[self.consts + s.carry]
        both = [start if v is carry else value for v in add.invars]
        eqns.append(add.replace(invars=both, outvars=[self.eqn.outvars[s.carry]]))
        return eqns


def _size(aval: Any) -> int:
    return math.prod(aval.shape)
