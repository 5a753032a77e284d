"""Loops and branches that mention references, without them: a reference that the body writes
becomes a carry, one that it only reads a constant, and a branch gives the new values of all that
any branch writes.

These are the `discharge` rules of their primitives, which name them through `common.discharging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, closed_without_consts, eval_jaxpr
from ..core.refs import is_ref, is_ref_aval, ref_identity
from ..core.symbolic import Zero, instantiate_zeros
from ..primitives.shape import index_in_dim, stack
from .call import closed_call_p
from .common import permute
from .cond import cond_p
from .refs import discharge, values_of, write_ref
from .remat import hoist, remat_p
from .scan import scan_p
from .while_loop import one_predicate, while_p


def _write_back(refs: Sequence[Any], values: Sequence[Any]) -> None:
    for ref, value in zip(refs, values, strict=True):
        write_ref(ref, value)


def _refuse(avals: Sequence[Any], what: str) -> None:
    if any(map(is_ref_aval, avals)):
        raise TypeError(
            f"a mutable array reference cannot be {what}. Fix: close over the reference in the "
            "body instead."
        )


def discharge_scan(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """(consts, carry, xs) with the written references of consts moved to the end of the carry. A
    reference that is scanned over is its rows: what a step makes of its row is stacked, as ys are.
    """
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    end = n_consts + n_carry
    _refuse(closed.in_avals[n_consts:end], "the carry of a loop")
    pure, changed = discharge(closed)
    written = [k for k in changed if k < n_consts]
    rows = [k for k in changed if k >= end]
    consts = [k for k in range(n_consts) if k not in written]
    n_out = len(closed.jaxpr.outvars)
    new = {k: n_out + i for i, k in enumerate(changed)}
    ins = [*consts, *range(n_consts, end), *written, *range(end, len(args))]
    outs = [
        *range(n_carry),
        *(new[k] for k in written),
        *range(n_carry, n_out),
        *(new[k] for k in rows),
    ]
    values = values_of(args)
    found = scan_p.bind(
        *(values[k] for k in ins),
        **{
            **params,
            "jaxpr": permute(pure, ins, outs),
            "num_consts": len(consts),
            "num_carry": n_carry + len(written),
        },
    )
    last = n_carry + len(written)
    end_of_ys = last + n_out - n_carry
    _write_back([args[k] for k in written], found[n_carry:last])
    _write_back([args[k] for k in rows], found[end_of_ys:])
    return [*found[:n_carry], *found[last:end_of_ys]]


def discharge_while(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    args, params = one_predicate(args, params)  # references have no lanes that could stop
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    _refuse(body.in_avals[n_bc:], "the carry of a loop")
    pure_cond, cond_written = discharge(cond)
    if cond_written:
        raise NotImplementedError(
            "a while_loop's cond_fun writes to a mutable array reference. Fix: write it in "
            "body_fun."
        )
    pure_body, written = discharge(body)
    cond_args, body_args, init = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
    refs = [body_args[k] for k in written]
    at = {ref_identity(r): k for k, r in enumerate(refs)}
    # The condition reads from the carry what the body writes.
    source = [at.get(ref_identity(x)) if is_ref(x) else None for x in cond_args]
    n = len(init)

    def new_cond(*flat: Any) -> list[Any]:
        kept, carry, new = iter(flat[:n_kept]), flat[n_kept : n_kept + n], flat[n_kept + n :]
        heads = [next(kept) if k is None else new[k] for k in source]
        return eval_jaxpr(pure_cond.jaxpr, pure_cond.consts, *heads, *carry)

    kept_args = [x for x, k in zip(cond_args, source, strict=True) if k is None]
    n_kept = len(kept_args)
    fixed = [k for k in range(n_bc) if k not in written]
    kept_avals = [a for a, k in zip(pure_cond.in_avals, source, strict=False) if k is None]
    ref_avals = [pure_body.in_avals[k] for k in written]
    avals = [*kept_avals, *pure_body.in_avals[n_bc:], *ref_avals]
    cond_jaxpr = close_jaxpr(*trace_to_jaxpr(new_cond, avals, cond.jaxpr.debug_info))[0]
    body_jaxpr = permute(
        pure_body, [*fixed, *range(n_bc, n_bc + n), *written], range(n + len(written))
    )
    outs = while_p.bind(
        *values_of(kept_args), *values_of([body_args[k] for k in fixed]), *init, *values_of(refs),
        **{**params, "cond_nconsts": n_kept, "body_nconsts": len(fixed), "cond_jaxpr": cond_jaxpr,
           "body_jaxpr": body_jaxpr},
    )  # fmt: skip
    _write_back(refs, outs[n:])
    return outs[:n]  # type: ignore[no-any-return]


def discharge_cond(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    branches: Sequence[ClosedJaxpr] = params["branches"]
    found = [discharge(b) for b in branches]
    written = sorted({k for _, ks in found for k in ks})
    n = len(branches[0].jaxpr.outvars)
    filled = []
    for pure, ks in found:
        new = dict(zip(ks, pure.jaxpr.outvars[n:], strict=True))
        finals = [new.get(k, pure.jaxpr.invars[k]) for k in written]
        jaxpr = pure.jaxpr.replace(outvars=[*pure.jaxpr.outvars[:n], *finals])
        filled.append(pure.replace(jaxpr=jaxpr))
    outs = cond_p.bind(*values_of(args), **{**params, "branches": tuple(filled)})
    _write_back([args[k + 1] for k in written], outs[n:])
    return outs[:n]  # type: ignore[no-any-return]


def discharge_remat(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    jaxpr = params["jaxpr"]
    pure, written = discharge(closed_without_consts(jaxpr))
    pure, consts = hoist(pure)
    outs = remat_p.bind(*consts, *values_of(args), **{**params, "jaxpr": pure.jaxpr})
    n = len(jaxpr.outvars)
    _write_back([args[k] for k in written], outs[n:])
    return outs[:n]  # type: ignore[no-any-return]


def discharge_closed_call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    closed: ClosedJaxpr = params["call_jaxpr"]
    pure, written = discharge(closed)
    outs = closed_call_p.bind(*values_of(args), call_jaxpr=pure)
    n = len(closed.jaxpr.outvars)
    _write_back([args[k] for k in written], outs[n:])
    return outs[:n]  # type: ignore[no-any-return]


def taken_apart(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """What an operation that holds programs does, as its single operations: where it is
    differentiated and a backward pass of its own writes a reference, that reference is an operand
    of those alone. A loop is its steps."""
    if primitive is scan_p:
        return _steps(args, params)
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if inner is None:
        raise NotImplementedError(
            f"a function whose backward pass is given a reference cannot be differentiated within "
            f"{primitive}. Fix: call it outside, or in a scan."
        )
    closed = inner if isinstance(inner, ClosedJaxpr) else closed_without_consts(inner)
    outs: list[Any] = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    return outs


def _steps(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    closed: ClosedJaxpr = params["jaxpr"]
    n_consts, n_carry, length = params["num_consts"], params["num_carry"], params["length"]
    end = n_consts + n_carry
    _refuse(closed.in_avals[n_consts:], "the carry of such a loop, or scanned over")
    consts, carry, xs = args[:n_consts], list(args[n_consts:end]), args[end:]
    rows: dict[int, list[Any]] = {}
    for k in reversed(range(length)) if params["reverse"] else range(length):
        row = [index_in_dim(x, k, 0, keepdims=False) for x in xs]
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *consts, *carry, *row)
        carry, rows[k] = outs[:n_carry], outs[n_carry:]
    ys = [
        stack([rows[k][i] for k in range(length)])
        if length
        else instantiate_zeros(Zero(a.update(shape=(0, *a.shape))))
        for i, a in enumerate(closed.out_avals[n_carry:])
    ]
    return [*carry, *ys]
