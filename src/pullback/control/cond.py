"""`cond`, `switch` and `select`-like control flow: one of several programs, chosen by an index.

cond[branches=(f0, f1, ...)] k x...  =  f_k(x...)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, tree
from ..core import effects as fx
from ..core.avals import ShapedArray, typematch, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.high import typeof_now
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from ..core.naming import fun_source_info
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zero, instantiate_zeros
from ..core.trace import Tracer, use_trace
from ..core.tracebacks import boundary
from ..primitives.builders import full_batch
from ..primitives.common import as_array
from ..primitives.convert import stop_gradient
from ..primitives.elementwise import clamp, convert_element_type, eq, ne, select_n
from ..primitives.layout import empty
from ..primitives.shape import broadcast_in_dim
from ..transforms.batch import batch_jaxpr, moveaxis
from ..transforms.jvp import jvp_jaxpr
from ..transforms.partial_eval import dce_closed, partial_eval_jaxpr
from ..transforms.transpose import transpose_jaxpr
from .call import mentions_axis
from .callbacks import apart_on_devices, sequentially
from .common import (
    ArgumentRefs,
    check_cotangents,
    check_effects,
    discharging,
    leaf_names,
    mismatch,
    pcast_hint,
    trace_function,
    varies_more,
)

# What `operand` is when it is not given: None is an operand.
_NOT_GIVEN = object()


def _one_way(operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    """The operands, which are given by position or, the one, by keyword."""
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand} and positional operands {operands}"
        )
    return (operand,)


@boundary
def cond(
    pred: Any,
    true_fun: Any,
    false_fun: Any,
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """`true_fun(*operands)` if `pred` else `false_fun(*operands)`; only one of them runs (under
    vmap of `pred`, both).

    The two functions must return pytrees of equal structure and types.

    `operand`: the only operand, by its name.

    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3)
    Array(4, dtype=int32, weak_type=True)

    Raises TypeError if `pred` is not a scalar, a branch is not callable, or the branches differ in
    type.
    """
    operands = _one_way(operands, operand)
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        # The older form: cond(pred, true_operand, true_fun, false_operand, false_fun).
        return _two_operands(pred, true_fun, false_fun, *operands)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError(
            "lax.cond: true_fun and false_fun arguments should be callable. Fix: cond(pred, "
            "true_fun, false_fun, *operands)."
        )
    pred_aval = _pred_aval(pred)
    if config.disable_jit.get() and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    if not dtypes.is_bool(pred_aval.dtype):
        pred = ne(pred, np.zeros((), pred_aval.dtype))
    index = convert_element_type(pred, np.dtype("int32"))
    return _branch(
        "cond", index, [false_fun, true_fun], operands, ["false_fun", "true_fun"], [1, 0]
    )


def _two_operands(
    pred: Any, true_operand: Any, true_fun: Any, false_operand: Any, false_fun: Any
) -> Any:
    """Each branch with an operand of its own."""
    return cond(
        pred,
        _of_part(true_fun, 0),
        _of_part(false_fun, 1),
        (true_operand, false_operand),
    )


def _of_part(fun: Callable[..., Any], k: int) -> Callable[..., Any]:
    """A function of the k-th of its operands."""

    @functools.wraps(fun, updated=())
    def of_part(pair: Any) -> Any:
        return fun(pair[k])

    return of_part


def _pred_aval(pred: Any) -> Any:
    try:
        aval = typeof(pred)
    except TypeError:
        if pred is None:
            raise TypeError("cond predicate is None. Fix: pass a boolean.") from None
        if isinstance(pred, str) or np.ndim(pred):
            raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}") from None
        raise TypeError(f"Pred type must be either boolean or number, got {pred}") from None
    if aval.shape != ():
        raise TypeError(
            f"Pred must be a scalar, got {pred} of shape {aval.shape}. Fix: reduce it with .any() "
            "or .all(), or use jnp.where."
        )
    if not (
        dtypes.is_bool(aval.dtype) or dtypes.is_float(aval.dtype) or dtypes.is_integer(aval.dtype)
    ):
        raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype}.")
    return aval


@boundary
def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """`branches[index](*operands)`, with the index clamped into range.

    `operand`: the only operand, by its name.

    >>> lax.switch(1, [lambda x: x, lambda x: -x], 3)
    Array(-3, dtype=int32, weak_type=True)

    Raises TypeError if `index` is not an integer scalar or the branches differ in type; ValueError
    if there is no branch.
    """
    operands = _one_way(operands, operand)
    branches = tuple(branches)
    if not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    try:
        aval = typeof(index)
    except TypeError:
        if isinstance(index, (tuple, list)):
            raise TypeError(
                f"Branch index must be scalar, got {index} of shape {np.shape(index)}."
            ) from None
        raise TypeError(
            f"Index type must be an integer, got {index}. Fix: pass an integer scalar."
        ) from None
    if aval.shape != ():
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(
            f"Index type must be an integer, got {index} as {aval.dtype}. "
            "Fix: convert it, index.astype('int32')."
        )
    if not branches:
        raise ValueError("Empty branch sequence. Fix: pass at least one function.")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit.get() and not isinstance(index, Tracer):
        return branches[max(0, min(int(index), len(branches) - 1))](*operands)
    index = convert_element_type(index, np.dtype("int32"))
    index = clamp(np.int32(0), index, np.int32(len(branches) - 1))
    names = [f"branch {k}" if k == 0 else f"branch{k}" for k in range(len(branches))]
    return _branch("switch", index, branches, operands, names, range(len(branches)))


def _branch(
    name: str,
    index: Any,
    funs: Sequence[Any],
    operands: Any,
    names: Sequence[str],
    order: Sequence[int],
) -> Any:
    """Traces the branches (in the order users meet them in errors) and binds the primitive."""
    leaves, in_tree = tree.flatten(tuple(operands))
    avals = [typeof_now(x) for x in leaves]
    first = order[0]
    traced, refs = {}, ArgumentRefs(funs[first], in_tree, leaves, name)
    for k in order:
        traced[k] = trace_function(funs[k], in_tree, avals, name)
        refs.check(traced[k][1])
    for k in order[1:]:
        _check_equal(name, [(names[j], funs[j], traced[j]) for j in (first, k)])
    closed, consts = _share_consts(
        [traced[k][0] for k in range(len(funs))], [traced[k][1] for k in range(len(funs))]
    )
    check_effects(name, fx.join(*(c.effects for c in closed)))
    closed, forwarded = _forward(closed)
    operands = [*consts, *leaves]
    for at in forwarded:
        if at is not None:
            operands[at] = as_array(operands[at])
    found = iter(cond_p.bind(index, *operands, branches=tuple(closed)))
    outs = [next(found) if k is None else operands[k] for k in forwarded]
    return tree.unflatten(traced[first][2], outs)


def _forward(closed: Sequence[ClosedJaxpr]) -> tuple[list[ClosedJaxpr], list[int | None]]:
    """Takes out the results that are the same operand in every branch: (branches, for each result
    the operand that it is, or None)."""
    where: list[int | None] = []
    positions = [{v: k for k, v in enumerate(c.jaxpr.invars)} for c in closed]
    for outs in zip(*(c.jaxpr.outvars for c in closed), strict=True):
        found = {
            at.get(v) if isinstance(v, Var) else None for at, v in zip(positions, outs, strict=True)
        }
        where.append(found.pop() if len(found) == 1 else None)
    kept = [k is None for k in where]
    if all(kept):
        return list(closed), where
    shorter = {id(c): _keep_results(c, kept) for c in closed}  # one function is one program
    return [shorter[id(c)] for c in closed], where


def _keep_results(closed: ClosedJaxpr, kept: Sequence[bool]) -> ClosedJaxpr:
    outvars = [v for v, keep in zip(closed.jaxpr.outvars, kept, strict=True) if keep]
    return closed.replace(jaxpr=closed.jaxpr.replace(outvars=outvars))


def _check_equal(name: str, pair: Any) -> None:
    (name_a, fun_a, (a, _, tree_a)), (name_b, fun_b, (b, _, tree_b)) = pair
    heads = f"{name_a} is {fun_source_info(fun_a)}\n{name_b} is {fun_source_info(fun_b)}\n\n"
    revise = f"\n\nRevise {name_a} and/or {name_b} so that "
    if tree_a != tree_b:
        outs_a, outs_b = (tree.unflatten(t, range(t.num_leaves)) for t in (tree_a, tree_b))
        lines = [
            f"{name_a} output{tree.keystr(p)} is {x} but {name_b} output{tree.keystr(p)} is {y}, "
            f"so {why}."
            for p, x, y, why in tree.equality_errors(outs_a, outs_b)
        ]
        raise TypeError(
            f"{name} branch outputs must have the same pytree structure, but they "
            f"differ:\n\n{heads}"
            + "\n".join(lines)
            + revise
            + "they have the same pytree structure."
        )
    bad = [
        (k, x, y)
        for k, (x, y) in enumerate(zip(a.out_avals, b.out_avals, strict=True))
        if not typematch(x, y)
    ]
    if bad:
        paths = leaf_names(tree_a, "")
        lines = [
            f"The output of {name_a}{' at path ' + paths[k] if paths[k] else ''} has type "
            f"{x.str_short()} but the corresponding output of "
            f"{name_b} has type {y.str_short()}, so {mismatch(x, y)}."
            for k, x, y in bad
        ]
        raise TypeError(
            f"{name} branches must have equal output types but they differ.\n\n{heads}"
            + "\n".join(lines)
            + pcast_hint(
                [(varies_more(y, x), f"the output of {name_a}") for _, x, y in bad]
                + [(varies_more(x, y), f"the output of {name_b}") for _, x, y in bad]
            )
            + revise
            + "all output types match."
        )


def _share_consts(
    closed: Sequence[ClosedJaxpr], consts: Sequence[Sequence[Any]]
) -> tuple[list[ClosedJaxpr], list[Any]]:
    """Gives every branch the closed-over values of all, each value once."""
    shared: list[Any] = []
    at: dict[int, int] = {}
    for group in consts:
        for c in group:
            if id(c) not in at:
                at[id(c)] = len(shared)
                shared.append(c)
    result = []
    for c, group in zip(closed, consts, strict=True):
        own = {at[id(x)]: v for x, v in zip(group, c.jaxpr.invars, strict=False)}
        heads = [own.get(k) or Var(typeof(x)) for k, x in enumerate(shared)]
        result.append(
            c.replace(jaxpr=c.jaxpr.replace(invars=[*heads, *c.jaxpr.invars[len(group) :]]))
            if shared
            else c
        )
    return result, shared


def _abstract_eval(index: Any, *avals: Any, branches: Sequence[ClosedJaxpr], **params: Any) -> Any:
    return branches[0].out_avals, fx.join(*(b.effects for b in branches))


def _jvp(primals: Any, tangents: Any, *, branches: Sequence[ClosedJaxpr], **params: Any) -> Any:
    index, *ops = primals
    nonzeros = [type(t) is not Zero for t in tangents[1:]]
    out_nz = [
        any(flags)
        for flags in zip(*(jvp_jaxpr(b, nonzeros, False)[1] for b in branches), strict=True)
    ]
    jvps = tuple(jvp_jaxpr(b, nonzeros, out_nz)[0] for b in branches)
    outs = cond_p.bind(
        index,
        *ops,
        *(t for t, nz in zip(tangents[1:], nonzeros, strict=True) if nz),
        branches=jvps,
        **params,
    )
    n = len(branches[0].jaxpr.outvars)
    rest = iter(outs[n:])
    dots = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(branches[0].out_avals, out_nz, strict=True)
    ]
    return outs[:n], dots


def _partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    branches: Sequence[ClosedJaxpr] = params["branches"]
    if unknown[0]:
        return trace.stage(cond_p, tracers, params)
    ops_uk = list(unknown[1:])
    out_uk = [
        any(flags)
        for flags in zip(*(partial_eval_jaxpr(b, ops_uk)[2] for b in branches), strict=True)
    ]
    split = [partial_eval_jaxpr(b, ops_uk, out_uk) for b in branches]
    n_known_out = sum(not u for u in out_uk)
    res_avals, slots = _share_residuals([known.out_avals[n_known_out:] for known, _, _, _ in split])
    known_branches = tuple(
        _pad_outputs(known, n_known_out, slot, res_avals)
        for (known, _, _, _), slot in zip(split, slots, strict=True)
    )
    staged_branches = tuple(
        _pad_inputs(staged, slot, res_avals)
        for (_, staged, _, _), slot in zip(split, slots, strict=True)
    )
    index, *ops = tracers
    rest_params = {k: v for k, v in params.items() if k != "branches"}
    with use_trace(trace.parent_trace):
        known_ops = [x for x, u in zip(ops, ops_uk, strict=True) if not u]
        outs = cond_p.bind(index, *known_ops, branches=known_branches, **rest_params)
    unknown_ops = [x for x, u in zip(ops, ops_uk, strict=True) if u]
    with use_trace(trace.staged):
        staged_outs = iter(
            cond_p.bind(
                index, *outs[n_known_out:], *unknown_ops, branches=staged_branches, **rest_params
            )
        )
    known_outs = iter(outs[:n_known_out])
    return [next(staged_outs) if u else next(known_outs) for u in out_uk]


def _share_residuals(
    groups: Sequence[Sequence[ShapedArray]],
) -> tuple[list[ShapedArray], list[list[int]]]:
    """Branches keep their residuals in common slots of equal types: the slots' types, and each
    branch's slot numbers.
    """
    slots: list[ShapedArray] = []
    where: list[list[int]] = []
    for avals in groups:
        free = list(range(len(slots)))
        mine = []
        for a in avals:
            k = next((k for k in free if typematch(slots[k], a)), None)
            if k is None:
                k = len(slots)
                slots.append(a.strip_weak_type() if isinstance(a, ShapedArray) else a)
            else:
                free.remove(k)
            mine.append(k)
        where.append(mine)
    return slots, where


def _pad_outputs(
    known: ClosedJaxpr, n_out: int, slot: list[int], res_avals: Sequence[Any]
) -> ClosedJaxpr:
    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known.jaxpr, known.consts, *args)
        own = dict(zip(slot, outs[n_out:], strict=True))
        fill = [empty(a) for a in res_avals]
        return [*outs[:n_out], *(own.get(k, x) for k, x in enumerate(fill))]

    return close_jaxpr(*trace_to_jaxpr(fun, known.in_avals, known.jaxpr.debug_info))[0]


def _pad_inputs(staged: ClosedJaxpr, slot: list[int], res_avals: Sequence[Any]) -> ClosedJaxpr:
    jaxpr: Jaxpr = staged.jaxpr
    own = dict(zip(slot, jaxpr.invars, strict=False))
    heads = [own.get(k) or Var(a) for k, a in enumerate(res_avals)]
    return staged.replace(jaxpr=jaxpr.replace(invars=[*heads, *jaxpr.invars[len(slot) :]]))


def _transpose(
    cts: Any, index: Any, *ops: Any, branches: Sequence[ClosedJaxpr], **params: Any
) -> Any:
    linear = [type(x) is UndefinedPrimal for x in ops]
    cts = [instantiate_zeros(ct) for ct in cts]
    no_zeros = [False] * len(cts)
    transposed = []
    for b in branches:
        closed, out_zeros = transpose_jaxpr(b, linear, no_zeros, cts)
        wanted = [a.to_ct_aval() for a, lin in zip(b.in_avals, linear, strict=True) if lin]
        given = [a for a, zero in zip(wanted, out_zeros, strict=True) if not zero]
        check_cotangents("branch of a cond", given, closed.out_avals, ValueError)
        transposed.append(_fill_outputs(closed, out_zeros, wanted))
    res = [x for x, lin in zip(ops, linear, strict=True) if not lin]
    outs = iter(cond_p.bind(index, *res, *cts, branches=tuple(transposed), **params))
    return [None, *(next(outs) if lin else None for lin in linear)]


def _fill_outputs(closed: ClosedJaxpr, zeros: Sequence[bool], avals: Sequence[Any]) -> ClosedJaxpr:
    """The program with arrays of zeros for the results that it lacks."""
    if not any(zeros):
        return closed

    def fun(*args: Any) -> list[Any]:
        outs = iter(eval_jaxpr(closed.jaxpr, closed.consts, *args))
        return [instantiate_zero(a) if z else next(outs) for z, a in zip(zeros, avals, strict=True)]

    return close_jaxpr(*trace_to_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info))[0]


def _batch(
    axis: Any, vals: Any, dims: Any, *, branches: Sequence[ClosedJaxpr], **params: Any
) -> Any:
    if apart_on_devices(axis, *branches):
        return sequentially(cond_p, vals, dims, axis.size, {"branches": branches, **params})
    if all(d is None for d in dims) and not any(
        mentions_axis(b.effects, axis.name) for b in branches
    ):
        return None
    moved = [v if d is None else moveaxis(v, d, 0) for v, d in zip(vals, dims, strict=True)]
    flags = [d is not None for d in dims]
    if flags[0]:
        return _batch_index(axis, moved, flags, branches)
    out_b = [
        any(f) for f in zip(*(batch_jaxpr(b, axis, flags[1:])[1] for b in branches), strict=True)
    ]
    batched = tuple(batch_jaxpr(b, axis, flags[1:], out_b)[0] for b in branches)
    return cond_p.bind(*moved, branches=batched, **params), [0 if b else None for b in out_b]


def _batch_index(axis: Any, moved: Any, flags: Any, branches: Any) -> Any:
    """With an index a lane, every branch runs and each lane takes its own."""
    index, *ops = moved
    if fx.lane_refused_effects.filter_in(fx.join(*(b.effects for b in branches))):
        raise NotImplementedError(
            "IO effect not supported in vmap-of-cond: it cannot run in some lanes only. Fix: use "
            "pure_callback, or keep the predicate out of the batch (in_axes=None)."
        )
    ops = [full_batch(x, 0 if f else None, axis.size) for x, f in zip(ops, flags[1:], strict=True)]
    results = []
    for k, b in enumerate(branches):
        batched, _ = batch_jaxpr(b, axis, [True] * len(ops), True)
        here = eq(index, np.int32(k))
        results.append(
            eval_jaxpr(batched.jaxpr, batched.consts, *(_of_lanes(here, x) for x in ops))
        )
    outs = [
        select_n(_spread(index, typeof(cases[0]).shape), *cases)
        for cases in zip(*results, strict=True)
    ]
    return outs, [0] * len(outs)


def _of_lanes(here: Any, x: Any) -> Any:
    """An operand of a branch that only the lanes `here` take. The value is `x` everywhere, but
    nothing is known of it elsewhere: a branch that is not taken may divide by zero, and the NaN
    that its derivative then is must not reach `x`.
    """
    elsewhere = stop_gradient(x)
    return select_n(_spread(here, typeof(x).shape), elsewhere, x)


def _spread(lanes: Any, shape: tuple[Any, ...]) -> Any:
    """A value a lane as an array of a value an element."""
    return broadcast_in_dim(lanes, shape, (0,)) if len(shape) > 1 else lanes


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    if not any(used) and not eqn.effects:
        return None
    branches = eqn.params["branches"]
    needs = [dce_closed(b, used)[1] for b in branches]
    used_in = [any(flags) for flags in zip(*needs, strict=True)] if needs[0] else []
    smaller = tuple(dce_closed(b, used, used_in)[0] for b in branches)
    index, *ops = eqn.invars
    return eqn.replace(
        invars=[index, *(v for v, u in zip(ops, used_in, strict=True) if u)],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params={**eqn.params, "branches": smaller},
    )


cond_p = Primitive(
    "cond",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    discharge=lambda args, params: discharging.discharge_cond(args, params),
)
