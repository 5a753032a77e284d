"""Calls, branches and loops: what holds programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....control.while_loop import one_predicate, while_loop
from ....core.avals import typeof
from ....core.jaxpr import ClosedJaxpr, Jaxpr, closed_without_consts, eval_jaxpr
from ....primitives.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ....primitives.elementwise import add, lt, sub
from ....primitives.layout import expand_dims, squeeze
from ....primitives.shape import full
from ..contexts import LoweringRuleContext, TokenSet
from ..library import hlo, ir
from ..lowering import (
    call,
    constants,
    flatten,
    inlined,
    jaxpr_subcomp,
    rule,
    traced,
    write_function,
)
from ..types import i32_attr, ir_attribute, physical, types_of
from .build import flag

# Primitives that mean a call of the program that a parameter holds, and whether the program is a
# function of the module.
_CALLS = {
    "jit": ("jaxpr", True),
    "closed_call": ("call_jaxpr", True),
    "call": ("call_jaxpr", True),
    "remat2": ("jaxpr", False),
    "remat_opt": ("fwd_jaxpr", False),
    "custom_jvp_call": ("call_jaxpr", False),
    "custom_vjp_call": ("call_jaxpr", False),
    "custom_vmap_call": ("call", False),
    "linear_call": ("callee", False),
}


def _closed(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    return program if isinstance(program, ClosedJaxpr) else closed_without_consts(program)


def _call_rule(name: str, held: str, own_function: bool) -> Callable[..., Any]:
    def lower(ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
        closed = _closed(params[held])
        if own_function and not params.get("inline"):
            return call(ctx, str(params.get("name") or name), closed, args)
        return inlined(ctx, closed, args)

    return lower


for _name, (_held, _own) in _CALLS.items():
    rule(_name)(_call_rule(_name, _held, _own))


@rule("remat2")
def _remat(
    ctx: LoweringRuleContext, *args: Any, jaxpr: Jaxpr, prevent_cse: Any = True,
    differentiated: bool = False, **params: Any,
) -> list[Any]:  # fmt: skip
    """What is computed again stands behind a barrier, or the compiler would share it."""
    if differentiated and prevent_cse and args:
        kept = prevent_cse if isinstance(prevent_cse, tuple) else (True,) * len(args)
        held = [x for x, k in zip(args, kept, strict=True) if k]
        fresh = iter(hlo.OptimizationBarrierOp(held).results if held else ())
        args = tuple(next(fresh) if k else x for x, k in zip(args, kept, strict=True))
    return inlined(ctx, _closed(jaxpr), args)


@rule("composite")
def _composite(
    ctx: LoweringRuleContext, *args: Any, jaxpr: ClosedJaxpr, name: str, version: int,
    attributes: Any,
) -> list[Any]:  # fmt: skip
    op = write_function(ctx, name, jaxpr, [])
    known = {
        k: ir_attribute(list(values) if len(values) != 1 else values[0])
        for k, values, _ in attributes
        if len(values)
    }
    made = hlo.CompositeOp(
        op.type.results, flatten(args), name=ir.StringAttr.get(name),
        decomposition=ir.FlatSymbolRefAttr.get(op.name.value), num_composite_regions=0,
        composite_attributes=ir.DictAttr.get(known), version=i32_attr(version),
    )  # fmt: skip
    return list(made.results)


@rule("create_token")
def _create_token(ctx: LoweringRuleContext, *_: Any) -> list[Any]:
    return [hlo.create_token()]


@rule("after_all")
def _after_all(ctx: LoweringRuleContext, *tokens: Any) -> list[Any]:
    return [hlo.after_all(list(tokens))]


@rule("dce_sink")
def _dce_sink(ctx: LoweringRuleContext, *xs: Any, prevent_mlir_dce: bool = False, **_: Any) -> Any:
    if prevent_mlir_dce:
        hlo.CustomCallOp(
            [], list(xs), call_target_name=ir.StringAttr.get("Sink"), has_side_effect=flag(True)
        )
    return []


# --- branches ---
@rule("cond")
def _cond(
    ctx: LoweringRuleContext, index: Any, *args: Any, branches: Sequence[ClosedJaxpr], **_: Any
) -> list[Any]:
    effects = sorted(ctx.tokens_in.effects(), key=str)
    types = [ctx.tokens_in.get(e).type for e in effects]
    types += [t for a in ctx.avals_out for t in types_of(physical(a))]
    op = hlo.CaseOp(types, index, len(branches))
    for branch, place in zip(branches, op.regions, strict=True):
        with ir.InsertionPoint(place.blocks.append()):
            outs, after = _written(ctx, branch, ctx.tokens_in, args)
            hlo.return_([*(after.get(e) for e in effects), *flatten(outs)])
    return _with_tokens(ctx, effects, list(op.results))


def _written(
    ctx: LoweringRuleContext, closed: ClosedJaxpr, tokens: TokenSet, args: Sequence[Any]
) -> tuple[list[Any], TokenSet]:
    return jaxpr_subcomp(
        ctx.module_context, closed.jaxpr, ctx.name_stack, tokens, constants(closed, ctx), *args,
        dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
        outer_traceback=ctx.traceback,
    )  # fmt: skip


def _with_tokens(ctx: LoweringRuleContext, effects: Sequence[Any], outs: list[Any]) -> list[Any]:
    if effects:
        ctx.set_tokens_out(TokenSet(dict(zip(effects, outs[: len(effects)], strict=True))))
    return outs[len(effects) :]


# --- loops ---
@rule("while")
def _while(
    ctx: LoweringRuleContext, *args: Any, **params: Any
) -> list[Any]:  # fmt: skip
    """The constants are carried along, unchanged: regions of StableHLO may not need them, but
    tools expect a loop to hold all that it reads."""
    operands, params = one_predicate(args, params)  # lanes that stop one by one
    cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
    cc, bc = params["cond_nconsts"], params["body_nconsts"]
    effects = sorted(ctx.tokens_in.effects(), key=str)
    tokens = [ctx.tokens_in.get(e) for e in effects]
    operands = [*tokens, *operands]
    op = hlo.WhileOp([x.type for x in operands], operands)
    n = len(effects)

    def parts(place: Any) -> tuple[TokenSet, Any, Any, Any, Any]:
        block = place.blocks.append(*(x.type for x in operands))
        xs = list(block.arguments)
        inside = TokenSet(dict(zip(effects, xs[:n], strict=True)))
        return inside, xs[n : n + cc], xs[n + cc : n + cc + bc], xs[n + cc + bc :], block

    held, consts, _, carry, block = parts(op.regions[0])
    with ir.InsertionPoint(block):
        (going,), _ = _written(ctx, cond_jaxpr, held, [*consts, *carry])
        hlo.return_([going])
    held, consts, body_consts, carry, block = parts(op.regions[1])
    with ir.InsertionPoint(block):
        carry, held = _written(ctx, body_jaxpr, held, [*body_consts, *carry])
        hlo.return_([*(held.get(e) for e in effects), *consts, *body_consts, *flatten(carry)])
    outs = _with_tokens(ctx, effects, list(op.results))
    return outs[cc + bc :]


def _row(x: Any, at: Any) -> Any:
    """Row `at` of a stack, which is in bounds."""
    shape = typeof(x).shape
    zeros = [typeof(at).dtype.type(0)] * (len(shape) - 1)
    return squeeze(dynamic_slice_p.bind(x, at, *zeros, slice_sizes=(1, *shape[1:])), (0,))


def _with_row(y: Any, row: Any, at: Any) -> Any:
    zeros = [typeof(at).dtype.type(0)] * typeof(row).ndim
    return dynamic_update_slice_p.bind(y, expand_dims(row, (0,)), at, *zeros)


@rule("scan")
def _scan(
    ctx: LoweringRuleContext, *args: Any, jaxpr: ClosedJaxpr, length: int, reverse: bool,
    num_consts: int, num_carry: int, **_: Any,
) -> list[Any]:  # fmt: skip
    """A loop over a counter that reads and writes rows."""
    body = jaxpr
    counter = np.dtype("int64" if length > np.iinfo(np.int32).max else "int32").type

    def looped(*values: Any) -> list[Any]:
        consts, init = values[:num_consts], values[num_consts : num_consts + num_carry]
        xs = values[num_consts + num_carry :]
        ys = [full((length, *a.shape), 0, a.dtype) for a in body.out_avals[num_carry:]]

        def step(state: Any) -> Any:
            i, carry, ys = state
            at = sub(counter(length - 1), i) if reverse else i
            outs = eval_jaxpr(body.jaxpr, body.consts, *consts, *carry, *(_row(x, at) for x in xs))
            new = [_with_row(y, r, at) for y, r in zip(ys, outs[num_carry:], strict=True)]
            return add(i, counter(1)), outs[:num_carry], new

        if not length:  # there are no rows to read
            return [*init, *ys]
        state = counter(0), list(init), ys
        _, carry, ys = while_loop(lambda s: lt(s[0], counter(length)), step, state)
        return [*carry, *ys]

    return inlined(ctx, traced(looped, ctx.avals_in), args)
