"""Control flow in NumPy: the programs that equations hold, run by the evaluator, with Python's own
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.call import jit_p
from ...control.cond import cond_p
from ...control.custom_jvp import custom_jvp_call_p
from ...control.custom_vjp import custom_vjp_call_p
from ...control.linear_solve import custom_linear_solve_p, split_constants
from ...control.remat import name_p, remat_p
from ...control.scan import scan_p
from ...control.special import FUNCTIONS, program
from ...control.while_loop import while_p
from ...core.jaxpr import ClosedJaxpr, Jaxpr
from ...core.primitive import Primitive

Evaluate = Callable[[Jaxpr, Sequence[Any], Sequence[Any]], list[Any]]


def control_rules(evaluate: Evaluate) -> dict[Primitive, Callable[..., Any]]:
    """The rules, given the function that evaluates a jaxpr: (jaxpr, consts, arguments) ->
    results.
    """

    def closed(program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return evaluate(program.jaxpr, program.consts, args)

    def call(*args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return closed(jaxpr, args)

    def remat(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return evaluate(jaxpr, (), args)

    def custom(*args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
        return closed(call_jaxpr, args)

    def solve(*args: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
        consts, b = split_constants(args, const_lengths)
        return closed(jaxprs.solve, [*consts.solve, *b])

    def cond(index: Any, *args: Any, branches: Sequence[ClosedJaxpr], **params: Any) -> list[Any]:
        return closed(branches[min(max(int(index), 0), len(branches) - 1)], args)

    def while_loop(
        *args: Any,
        cond_nconsts: int,
        cond_jaxpr: ClosedJaxpr,
        body_nconsts: int,
        body_jaxpr: ClosedJaxpr,
    ) -> list[Any]:
        cond_consts, rest = args[:cond_nconsts], args[cond_nconsts:]
        body_consts, carry = rest[:body_nconsts], list(rest[body_nconsts:])
        while (pred := np.asarray(closed(cond_jaxpr, [*cond_consts, *carry])[0])).any():
            new = closed(body_jaxpr, [*body_consts, *carry])
            carry = [_lanes(pred, x, y) for x, y in zip(new, carry, strict=True)]
        return carry

    def scan(
        *args: Any,
        jaxpr: ClosedJaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> list[Any]:
        consts, carry = args[:num_consts], list(args[num_consts : num_consts + num_carry])
        xs = args[num_consts + num_carry :]
        out_avals = jaxpr.out_avals[num_carry:]
        ys = [np.empty((length, *a.shape), a.dtype) for a in out_avals]
        for i in range(length - 1, -1, -1) if reverse else range(length):
            outs = closed(jaxpr, [*consts, *carry, *(x[i] for x in xs)])
            carry = outs[:num_carry]
            for y, value in zip(ys, outs[num_carry:], strict=True):
                y[i] = value
        return [*carry, *ys]

    def special(primitive: Primitive) -> Callable[..., Any]:
        def run(*args: Any, **params: Any) -> Any:
            shapes, dtype = tuple(x.shape for x in args), args[0].dtype
            return closed(program(primitive, shapes, dtype, params), args)[0]

        return run

    return {
        **{p: special(p) for p in FUNCTIONS},
        jit_p: call,
        remat_p: remat,
        custom_jvp_call_p: custom,
        custom_vjp_call_p: custom,
        custom_linear_solve_p: solve,
        cond_p: cond,
        while_p: while_loop,
        scan_p: scan,
        name_p: lambda x, *, name: x,
    }


def _lanes(pred: Any, new: Any, old: Any) -> Any:
    """What has stopped keeps its value: a predicate may have axes, which lead."""
    if not pred.ndim:
        return new
    new = np.asarray(new)
    return np.where(pred.reshape(pred.shape + (1,) * (new.ndim - pred.ndim)), new, old)
