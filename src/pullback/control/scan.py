"""`scan`: a loop with a carry, over the leading axis of arrays, whose outputs are stacked. Reverse
mode keeps what the backward pass reads.

scan(f, c, xs):  for i: c, y[i] = f(consts, c, xs[i])          jaxpr: (consts, carry, x) -> (carry,
                 y)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .. import config, tree
from ..core.avals import typeof
from ..core.build import close_jaxpr, is_staged, trace_to_jaxpr
from ..core.dims import DimExpr
from ..core.high import is_high_value
from ..core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    eval_jaxpr,
    jaxpr_as_fun,
    jaxprs_in_params,
)
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import use_trace
from ..core.tracebacks import boundary
from ..errors import AxisError
from ..primitives.common import as_array
from ..primitives.convert import convert_weak
from ..primitives.shape import broadcast, concatenate
from ..transforms.batch import batch_jaxpr, batched_aval, moveaxis, unbatched_aval
from ..transforms.jvp import jvp_jaxpr_fixpoint
from ..transforms.partial_eval import (
    dce_closed,
    partial_eval_jaxpr,
    staged_zeros,
    used_carries,
)
from ..transforms.transpose import backward_pass, holds_acting_on_zeros
from .call import same_for_all
from .common import (
    ArgumentRefs,
    carry_type,
    check_carry,
    check_cotangents,
    check_effects,
    check_mapped_carry,
    chosen,
    discharging,
    matched_carry,
    permute,
    trace_function,
)


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Loops `f(carry, x) -> (carry, y)` over the leading axis of `xs`; returns the last carry and
    the stacked `y`.

    `init` and the carry are pytrees of equal types; `xs` is a pytree of arrays with equal leading
    axes, or None with `length` given. `reverse` goes from the last element to the first (outputs
    stay in place). `unroll` is a hint.

    >>> lax.scan(lambda c, x: (c + x, c), 0, jnp.arange(3))
    (Array(3, dtype=int32), Array([0, 0, 1], dtype=int32, weak_type=True))

    Raises TypeError if `f` is not callable, does not return a pair, or changes the type of the
    carry; ValueError if leading axes differ.
    """
    if not callable(f):
        raise TypeError(
            f"lax.scan: f argument should be a callable, got {type(f)}. Fix: pass a function of "
            "(carry, x)."
        )
    xs_leaves, xs_tree = tree.flatten(xs)
    length = _length(xs_leaves, length)
    init_leaves, init_tree = tree.flatten(init)
    if config.disable_jit.get():
        return _in_python(f, init, xs_leaves, xs_tree, range(length)[:: -1 if reverse else 1])
    x_avals = [_element(typeof(x), length) for x in xs_leaves]
    in_tree = tree.treedef_tuple([init_tree, xs_tree])
    refs = ArgumentRefs(f, in_tree, [*init_leaves, *xs_leaves], "scan")
    for _ in range(3):
        carry_avals = [carry_type(c) for c in init_leaves]
        closed, consts, out_tree = trace_function(f, in_tree, [*carry_avals, *x_avals], "scan")
        refs.check(consts)
        carry_tree = _carry_tree(out_tree, closed)
        n_carry = carry_tree.num_leaves
        if n_carry != len(init_leaves):
            break
        init_leaves, changed = matched_carry(
            f, init_leaves, carry_avals, closed.out_avals[:n_carry]
        )
        if not changed:
            break
    check_carry(
        "scan", closed, len(consts), init_tree, carry_avals, carry_tree, closed.out_avals[:n_carry]
    )
    check_effects("scan", closed.effects)
    params = {"length": length, "reverse": bool(reverse), "unroll": _unroll(unroll, length)}
    outs = _bind_forwarding(closed, consts, init_leaves, xs_leaves, params)
    pair: tuple[Any, Any] = tree.unflatten(out_tree, outs)  # the body's own kind of pair
    return pair


def _in_python(
    f: Callable[[Any, Any], Any], carry: Any, xs: Sequence[Any], xs_tree: Any, steps: Sequence[int]
) -> tuple[Any, Any]:
    """The loop as `disable_jit` has it: a call of the body for each step."""
    if not steps:
        raise ValueError(
            "zero-length scan is not supported in disable_jit() mode because the output type is "
            "unknown. Fix: leave out the scan, or disable_jit."
        )
    arrays, ys, trees = [as_array(x) for x in xs], {}, []
    for k in steps:
        result = f(carry, tree.unflatten(xs_tree, [x[k] for x in arrays]))
        try:
            carry, y = result
        except (TypeError, ValueError):
            raise TypeError(
                f"scan body output must be a pair, got {result}. Fix: return (carry, y); y may be "
                "None."
            ) from None
        ys[k], y_tree = tree.flatten(y)
        trees.append(y_tree)
    columns = zip(*(ys[k] for k in sorted(ys)), strict=True)
    stacked = [concatenate([broadcast(as_array(y), (1,)) for y in column], 0) for column in columns]
    return carry, tree.unflatten(trees[0], stacked)


def _bind_forwarding(
    closed: ClosedJaxpr,
    consts: Sequence[Any],
    init: Sequence[Any],
    xs: Sequence[Any],
    params: dict[str, Any],
) -> list[Any]:
    """Binds a scan. A carry that the body hands on unchanged becomes a constant, and what it stacks
    of an `xs` as it is, is that `xs`: neither is a result of the loop. Such a carry comes back as
    it was given, a number as a number."""
    jaxpr = closed.jaxpr
    n_consts, n_carry = len(consts), len(init)
    heads, carry_in, xs_in = _split(jaxpr.invars, n_consts, n_carry)
    carry_out, ys_out = jaxpr.outvars[:n_carry], jaxpr.outvars[n_carry:]
    fixed = [
        v is w and a == typeof(x)
        for v, w, x, a in zip(carry_in, carry_out, init, closed.in_avals[n_consts:], strict=False)
    ]
    at = {v: k for k, v in enumerate(xs_in)}
    source = [at.get(y) if isinstance(y, Var) else None for y in ys_out]
    moving = [not f for f in fixed]
    invars = [*chosen(carry_in, fixed), *heads, *chosen(carry_in, moving), *xs_in]
    kept_ys = [y for y, k in zip(ys_out, source, strict=True) if k is None]
    if any(fixed) or len(kept_ys) < len(ys_out):
        outvars = [*chosen(carry_out, moving), *kept_ys]
        closed = closed.replace(jaxpr=jaxpr.replace(invars=invars, outvars=outvars))
    given = init
    init = [
        as_array(x) if f and not is_high_value(x) else x for x, f in zip(init, fixed, strict=True)
    ]
    consts = [*chosen(init, fixed), *consts]
    found = iter(
        scan_p.bind(
            *consts, *chosen(init, moving), *xs, jaxpr=closed, num_consts=len(consts),
            num_carry=sum(moving), **params,
        )
    )  # fmt: skip
    given = init if is_staged() else given
    carry = [x if f else next(found) for x, f in zip(given, fixed, strict=True)]
    return [*carry, *(next(found) if k is None else as_array(xs[k]) for k in source)]


def _unroll(unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    if operator.index(unroll) < 0:
        raise ValueError("`unroll` must be a `bool` or a non-negative `int`.")
    return max(length, 1) if unroll == 0 else unroll


def _length(leaves: Sequence[Any], length: int | None) -> int:
    try:
        avals: list[Any] = [typeof(x) for x in leaves]
        lengths = [a.shape[0] for a in avals if not a.is_high]
    except IndexError:
        # JAX raises IndexError for arrays and ValueError for numbers.
        raise AxisError(
            "scan got value with no leading axis to scan over: "
            f"{', '.join(str(x) for x in leaves if not typeof(x).shape)}. Fix: close over scalars, "
            "or add an axis with x[None]."
        ) from None
    if length is not None:
        size: Any = length
        length = size if isinstance(size, DimExpr) else int(size)  # type: ignore[assignment]
        if any(n != length for n in lengths):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{lengths}. Fix: leave out `length`."
            )
        if not isinstance(size, DimExpr) and length < 0:
            raise ValueError(f"scan got a negative `length`: {length}")
        return length
    if not lengths:
        raise ValueError(
            "scan got no values to scan over and `length` not provided. Fix: pass length=n."
        )
    if len(set(lengths)) > 1:
        raise ValueError(
            f"scan got values with different leading axis sizes: {', '.join(map(str, lengths))}. "
            "Fix: every array in xs must be equally long along axis 0."
        )
    return lengths[0]  # type: ignore[no-any-return]


def _carry_tree(out_tree: Any, closed: ClosedJaxpr) -> Any:
    """The structure of the carry; TypeError unless the body returns a pair."""
    children = tree.treedef_children(out_tree)
    if len(children) != 2:
        shown = tree.unflatten(out_tree, [a.str_short() for a in closed.out_avals])
        raise TypeError(
            f"scan body output must be a pair, got {shown}. Fix: return (carry, y); y may be None."
        )
    return children[0]


def _element(aval: Any, length: int) -> Any:
    if aval.is_high:
        return aval.dec_rank(length, aval.leading_axis_spec())
    if aval._sharding is not None:
        if aval._sharding.spec[0] is not None:
            raise ValueError(
                f"0th dimension of all xs should be replicated. Got {aval._sharding.spec}. Fix: "
                "jax.reshard them."
            )
        return unbatched_aval(aval, 0)
    return aval.update(shape=aval.shape[1:])


def stacked(aval: Any, length: int) -> Any:
    """The type of `length` values along a new leading axis."""
    if aval.is_high:
        return aval.inc_rank(length, aval.leading_axis_spec())
    return batched_aval(aval, 0, length)


def _abstract_eval(
    *avals: Any, jaxpr: ClosedJaxpr, length: int, num_carry: int, **params: Any
) -> Any:
    outs = jaxpr.out_avals
    return [*outs[:num_carry], *(stacked(a, length) for a in outs[num_carry:])], jaxpr.effects


def _split(xs: Sequence[Any], *sizes: int) -> list[Any]:
    parts, k = [], 0
    for n in sizes:
        parts.append(list(xs[k : k + n]))
        k += n
    return [*parts, list(xs[k:])]


def _jvp(
    primals: Any,
    tangents: Any,
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, out_nz = jvp_jaxpr_fixpoint(jaxpr, nonzeros, num_consts, num_carry)
    carry_nz = out_nz[:num_carry]
    nz = [*nonzeros[:num_consts], *carry_nz, *nonzeros[num_consts + num_carry :]]
    n_in, n_out = len(jaxpr.jaxpr.invars), len(jaxpr.jaxpr.outvars)
    # Arguments and results come grouped as (primals, tangents); the loop wants (consts, carry, xs),
    # each with its tangents.
    slots = [k for k, flag in enumerate(nz) if flag]
    dots = [n_in + k for k in range(len(slots))]
    bounds = (num_consts, num_consts + num_carry)
    const_dots = [d for d, k in zip(dots, slots, strict=True) if k < bounds[0]]
    carry_dots = [d for d, k in zip(dots, slots, strict=True) if bounds[0] <= k < bounds[1]]
    xs_dots = [d for d, k in zip(dots, slots, strict=True) if k >= bounds[1]]
    ins = [
        *range(bounds[0]),
        *const_dots,
        *range(*bounds),
        *carry_dots,
        *range(bounds[1], n_in),
        *xs_dots,
    ]
    n_cd = sum(carry_nz)
    n_od = sum(out_nz)
    outs = [
        *range(num_carry),
        *range(n_out, n_out + n_cd),
        *range(num_carry, n_out),
        *range(n_out + n_cd, n_out + n_od),
    ]
    all_args = [
        *primals,
        *(staged_zeros(t) for t, flag in zip(tangents, nz, strict=True) if flag),
    ]
    result = scan_p.bind(
        *(all_args[k] for k in ins), jaxpr=permute(jvp, ins, outs),
        num_consts=num_consts + len(const_dots), num_carry=num_carry + n_cd, **params,
    )  # fmt: skip
    back = dict(zip(outs, result, strict=True))
    rest = iter([back[k] for k in range(n_out, n_out + n_od)])
    out_avals = _abstract_eval(jaxpr=jaxpr, num_carry=num_carry, **params)[0]
    dots_out = [
        next(rest) if flag else Zero(a.to_tangent_aval())
        for a, flag in zip(out_avals, out_nz, strict=True)
    ]
    return [back[k] for k in range(n_out)], dots_out


def split_known(
    jaxpr: ClosedJaxpr, unknown: Sequence[bool], num_consts: int, num_carry: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[bool], int]:
    """Splits a body: (known, staged, unknown arguments, unknown results, number of residuals); a
    carry is unknown if it becomes so.
    """
    unknown = list(unknown)
    end = num_consts + num_carry
    for _ in range(1 + num_carry):
        carry = unknown[num_consts:end]
        want = carry + [False] * (len(jaxpr.jaxpr.outvars) - num_carry)
        known, staged, out_unknown, n_res = partial_eval_jaxpr(jaxpr, unknown, want)
        joined = [a or b for a, b in zip(carry, out_unknown[:num_carry], strict=True)]
        if joined == carry:
            return known, staged, unknown, out_unknown, n_res
        unknown[num_consts:end] = joined
    raise AssertionError(
        "internal error in pullback: the unknown carries of a scan found no fixpoint"
    )


def split_scan(
    unknown: Sequence[bool],
    args: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list[Any], list[bool], list[bool], list[Any], dict[str, Any]]:
    """Runs the known part of a scan. Returns (known results, unknown results' flags, unknown
    arguments' flags, and the operands before filling (None where an unknown argument goes) and the
    parameters of the staged scan)."""
    known, staged, unknown, out_unknown, n_res = split_known(jaxpr, unknown, num_consts, num_carry)
    end = num_consts + num_carry
    n_kc = sum(not u for u in unknown[:num_consts])
    n_kcarry = sum(not u for u in unknown[num_consts:end])
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    known, consts, found = _hoist(known, n_res, known_args[:n_kc])
    known_args[:n_kc] = consts
    n_kc = len(consts)
    varying = n_res - len(found)
    known, where = _forward(known, varying, n_kc, n_kcarry)
    outs = scan_p.bind(*known_args, jaxpr=known, num_consts=n_kc, num_carry=n_kcarry, **params)
    rest = iter(where)
    residuals: list[tuple[bool, Any]] = []  # (is stacked, value)
    for r in range(n_res):
        if r in found:
            residuals.append((False, found[r]))
            continue
        stacked_now, k = next(rest)
        residuals.append((True, outs[k]) if stacked_now else (k >= n_kc, known_args[k]))
    n_unknown_consts = sum(unknown[:num_consts])
    n_unknown_carry = sum(unknown[num_consts:end])
    fixed = [k for k, (st, _) in enumerate(residuals) if not st]
    moving = [k for k, (st, _) in enumerate(residuals) if st]
    n_args = len(staged.jaxpr.invars) - n_res
    ins = [*fixed, *range(n_res, n_res + n_args), *moving]
    staged = permute(staged, ins, range(len(staged.jaxpr.outvars)))
    operands: list[Any] = [residuals[k][1] if k < n_res else None for k in ins]
    n_known_out = sum(not u for u in out_unknown)
    staged_params = {
        **params,
        "jaxpr": staged,
        "num_consts": len(fixed) + n_unknown_consts,
        "num_carry": n_unknown_carry,
    }
    return outs[:n_known_out], out_unknown, unknown, operands, staged_params


def _hoist(
    known: ClosedJaxpr, n_res: int, consts: Sequence[Any]
) -> tuple[ClosedJaxpr, list[Any], dict[int, Any]]:
    """Computes before the loop what is the same in each of its steps.

    Returns the body that is left, the consts that it takes instead, and those of the last `n_res`
    results that it no longer gives, by number: they are the same in each step, too.
    """
    varies = [k >= len(consts) for k in range(len(known.in_avals))]
    nothing = known.jaxpr.effects or not _has_invariants(known.jaxpr, varies)
    if nothing or _has_derivative_rules(known.jaxpr):
        return known, list(consts), {}
    n_out = len(known.out_avals) - n_res
    wanted = [k < n_out for k in range(len(known.out_avals))]
    before, body, out_varies, n_values = partial_eval_jaxpr(known, varies, wanted)
    values = eval_jaxpr(before.jaxpr, before.consts, *consts)
    first = len(values) - n_values
    numbers = [k - n_out for k, v in enumerate(out_varies) if not v]
    return body, values[first:], dict(zip(numbers, values[:first], strict=True))


def _has_derivative_rules(jaxpr: Jaxpr) -> bool:
    """Does a function of a user's in there have rules of its own? Split, it would be its parts: a
    second derivative would not find the rules."""
    return any(
        eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call")
        or any(map(_has_derivative_rules, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _has_invariants(jaxpr: Jaxpr, varies: Sequence[bool]) -> bool:
    """Is there something that does not depend on the arguments which vary?"""
    moving = {v for v, m in zip(jaxpr.invars, varies, strict=True) if m}
    for eqn in jaxpr.eqns:
        if moving.isdisjoint(x for x in eqn.invars if isinstance(x, Var)):
            return True
        if any(jaxprs_in_params(eqn.params)):  # perhaps in there
            return True
        moving.update(eqn.outvars)
    return False


def _forward(
    known: ClosedJaxpr, n_res: int, n_consts: int, n_carry: int
) -> tuple[ClosedJaxpr, list[tuple[bool, int]]]:
    """Residuals that are consts or xs are read from there; others, a carry too since it varies, are
    results to be stacked. For each residual: whether it is stacked, and which result or argument
    it is. What is a result besides stands twice among them, as in JAX, and is stored once
    (loops/lower/control.py).
    """
    jaxpr = known.jaxpr
    n_out = len(jaxpr.outvars) - n_res
    carry_ins = set(jaxpr.invars[n_consts : n_consts + n_carry])
    final: list[tuple[bool, int]] = []
    ins = {v: k for k, v in enumerate(jaxpr.invars)}
    extra: list[Any] = []
    at: dict[Any, int] = {}
    for v in jaxpr.outvars[n_out:]:
        if isinstance(v, Var) and v in ins and v not in carry_ins:
            final.append((False, ins[v]))
            continue
        key = v if isinstance(v, Var) else id(v)
        if key not in at:
            at[key] = n_out + len(extra)
            extra.append(v)
        final.append((True, at[key]))
    outvars = [*jaxpr.outvars[:n_out], *extra]
    return ClosedJaxpr(jaxpr.replace(outvars=outvars), known.consts), final


def _partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    # A carry that becomes unknown takes its known initial value into the staged program.
    with use_trace(trace.parent_trace):
        known_outs, out_unknown, all_unknown, operands, staged_params = split_scan(
            unknown, tracers, **params
        )
    fill = iter([x for x, u in zip(tracers, all_unknown, strict=True) if u])
    operands = [next(fill) if x is None else x for x in operands]
    with use_trace(trace.staged):
        staged_outs = iter(scan_p.bind(*operands, **staged_params))
    rest = iter(known_outs)
    return [next(staged_outs) if u else next(rest) for u in out_unknown]


def _transpose(
    cts: Any, *args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> Any:
    linear = [type(x) is UndefinedPrimal for x in args]
    end = num_consts + num_carry
    if not all(linear[num_consts:end]):
        # A carry may start from a constant (a zero tangent) and be linear from the first step on;
        # only one that stays known in the loop (a counter) has to be split off.
        unknown = split_known(jaxpr, linear, num_consts, num_carry)[2]
        if not all(unknown[num_consts:end]):
            held = {**params, "jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry}
            return _transpose_mixed(cts, args, linear, held)
        linear = [*linear[:num_consts], *([True] * num_carry), *linear[end:]]
    ct_zeros = [type(ct) is Zero for ct in cts]
    ct_carry = [instantiate_zeros(ct) for ct in cts[:num_carry]]
    ct_ys = [ct for ct in cts[num_carry:] if type(ct) is not Zero]
    ct_avals = [typeof(ct) for ct in [*ct_carry, *ct_ys]]
    body, n_acc = _transposed_body(jaxpr, linear, ct_zeros[num_carry:], ct_avals, num_consts)
    lin_consts = [x for x, lin in zip(args[:num_consts], linear, strict=False) if lin]
    res_consts = [x for x, lin in zip(args[:num_consts], linear, strict=False) if not lin]
    res_xs = [x for x, lin in zip(args[end:], linear[end:], strict=True) if not lin]
    acc = [instantiate_zeros(Zero(x.aval.to_ct_aval())) for x in lin_consts]
    params = {**params, "reverse": not params["reverse"]}
    outs = scan_p.bind(
        *res_consts, *acc, *ct_carry, *ct_ys, *res_xs, jaxpr=body, num_consts=len(res_consts),
        num_carry=n_acc + num_carry, **params,
    )  # fmt: skip
    acc_out, carry_out, xs_out = map(iter, _split(outs, n_acc, num_carry))
    result: list[Any] = [next(acc_out) if lin else None for lin in linear[:num_consts]]
    result += [
        ct if type(x) is UndefinedPrimal else None
        for ct, x in zip(carry_out, args[num_consts:end], strict=True)
    ]
    return result + [next(xs_out) if lin else None for lin in linear[end:]]


def _strongly_carried(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int) -> ClosedJaxpr:
    """A carry that only starts weakly typed is not so after one step; nor is its cotangent."""
    carry = slice(num_consts, num_consts + num_carry)
    avals: list[Any] = list(jaxpr.in_avals)
    avals[carry] = [
        a if getattr(b, "weak_type", True) else a.strip_weak_type()
        for a, b in zip(avals[carry], jaxpr.out_avals, strict=False)
    ]
    if avals == list(jaxpr.in_avals):
        return jaxpr
    return close_jaxpr(*trace_to_jaxpr(jaxpr_as_fun(jaxpr), avals, jaxpr.jaxpr.transformed_info))[0]


def _transposed_body(
    jaxpr: ClosedJaxpr,
    linear: Sequence[bool],
    y_zeros: Sequence[bool],
    ct_avals: Sequence[Any],
    num_consts: int,
) -> tuple[ClosedJaxpr, int]:
    """(residual consts, accumulated const cts, carry cts, y cts, residual xs) -> (accumulated,
    carry cts, x cts). The cotangents are as weak as the ones that the loop is given.
    """
    num_carry = len(jaxpr.out_avals) - len(y_zeros)
    key = "scan transpose", tuple(linear), tuple(y_zeros), tuple(ct_avals), num_consts
    if key in jaxpr.derived:
        return jaxpr.derived[key]  # type: ignore[no-any-return]
    end = num_consts + num_carry
    jaxpr = _strongly_carried(jaxpr, num_consts, num_carry)
    avals, out_avals = jaxpr.in_avals, jaxpr.out_avals
    lin_consts = [a for a, lin in zip(avals[:num_consts], linear, strict=False) if lin]
    res_consts = [a for a, lin in zip(avals[:num_consts], linear, strict=False) if not lin]
    res_xs = [a for a, lin in zip(avals[end:], linear[end:], strict=True) if not lin]
    carry_avals = ct_avals[:num_carry]
    y_avals = [unbatched_aval(a, 0) for a in ct_avals[num_carry:]]

    def fun(*flat: Any) -> list[Any]:
        rc, acc, carry, ys, rx = _split(
            flat, len(res_consts), len(lin_consts), num_carry, len(y_avals)
        )
        rest, ys_iter = iter([*rc, *rx]), iter(ys)
        ins = [
            UndefinedPrimal(a) if lin else next(rest) for a, lin in zip(avals, linear, strict=True)
        ]
        y_cts = [
            Zero(a.to_ct_aval()) if z else next(ys_iter)
            for a, z in zip(out_avals[num_carry:], y_zeros, strict=True)
        ]
        sums = dict(zip((k for k in range(num_consts) if linear[k]), acc, strict=True))
        found = backward_pass(jaxpr.jaxpr, jaxpr.consts, ins, [*carry, *y_cts], sums)
        consts_ct, carry_ct, xs_ct = _split(found, num_consts, num_carry)
        new_acc = [ct for ct, lin in zip(consts_ct, linear, strict=False) if lin]
        xs_out = [instantiate_zeros(ct) for ct, lin in zip(xs_ct, linear[end:], strict=True) if lin]
        new_carry = list(map(_as_weak, map(instantiate_zeros, carry_ct), carry_avals))
        wanted = [a.to_ct_aval() for a in avals[num_consts:end]]
        check_cotangents("scan", wanted, [typeof(ct) for ct in new_carry])
        return [*new_acc, *new_carry, *xs_out]

    in_avals = [*res_consts, *(a.to_ct_aval() for a in lin_consts), *carry_avals, *y_avals, *res_xs]
    result = (
        close_jaxpr(*trace_to_jaxpr(fun, in_avals, jaxpr.jaxpr.transformed_info))[0],
        len(lin_consts),
    )
    jaxpr.derived[key] = result
    return result


def _as_weak(ct: Any, aval: Any) -> Any:
    """A cotangent, weak where the one of the step after it was."""
    if getattr(aval, "weak_type", False) and not typeof(ct).weak_type:
        return convert_weak(ct, None, True)
    return ct


def _transpose_mixed(cts: Any, args: Any, linear: list[bool], params: dict[str, Any]) -> Any:
    """A carry that is not linear (a counter): run its part first, then transpose what is left."""
    _, out_unknown, all_unknown, operands, staged_params = split_scan(linear, args, **params)
    fill = iter([x for x, u in zip(args, all_unknown, strict=True) if u])
    operands = [next(fill) if x is None else x for x in operands]
    staged_cts = [ct for ct, u in zip(cts, out_unknown, strict=True) if u]
    found = _transpose(staged_cts, *operands, **staged_params)
    position = {
        id(x): ct for x, ct in zip(operands, found, strict=True) if type(x) is UndefinedPrimal
    }
    return [position[id(x)] if lin else None for x, lin in zip(args, linear, strict=True)]


def _batch(
    axis: Any,
    vals: Any,
    dims: Any,
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Any:
    if same_for_all(axis, dims, jaxpr.effects):
        return None
    batched = [d is not None for d in dims]
    end = num_consts + num_carry
    carry = batched[num_consts:end]
    for _ in range(1 + num_carry):
        batched[num_consts:end] = carry
        want = carry + [False] * (len(jaxpr.jaxpr.outvars) - num_carry)
        body, out_batched = batch_jaxpr(jaxpr, axis, batched, want)
        joined = [a or b for a, b in zip(carry, out_batched[:num_carry], strict=True)]
        if joined == carry:
            break
        carry = joined
    check_mapped_carry("scan", body.in_avals[num_consts:end], body.out_avals[:num_carry])
    args = []
    for k, (v, d) in enumerate(zip(vals, dims, strict=True)):
        if d is not None:
            args.append(moveaxis(v, d, 0 if k < end else 1))
        else:  # a carry that the loop makes vary starts equal in all lanes
            args.append(broadcast(v, (axis.size,)) if batched[k] else v)
    outs = scan_p.bind(*args, jaxpr=body, num_consts=num_consts, num_carry=num_carry, **params)
    out_dims = [(0 if b else None) for b in out_batched[:num_carry]] + [
        (1 if b else None) for b in out_batched[num_carry:]
    ]
    return outs, out_dims


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    params = eqn.params
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    end = num_consts + num_carry
    if not any(used) and not eqn.effects:
        return None
    used_carry = used_carries(params["jaxpr"].jaxpr, used, num_consts, num_carry)
    keep = [False] * num_consts + used_carry + [False] * (len(eqn.invars) - end)
    body, used_in = dce_closed(params["jaxpr"], [*used_carry, *used[num_carry:]], keep)
    new_outs = [*used_carry, *used[num_carry:]]
    outvars = [v for v, u in zip(eqn.outvars, new_outs, strict=True) if u]
    return eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in, strict=True) if u],
        outvars=outvars,
        params={
            **params,
            "jaxpr": body,
            "num_consts": sum(used_in[:num_consts]),
            "num_carry": sum(used_carry),
        },
        effects=body.effects,
    )


scan_p = Primitive(
    "scan",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    acts_on_zeros=lambda params: holds_acting_on_zeros(params["jaxpr"].jaxpr),
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    discharge=lambda args, params: discharging.discharge_scan(args, params),
)
