"""`while_loop` and `fori_loop`.

while cond(cond_consts, c): c = body(body_consts, c)
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, tree
from ..core import effects as fx
from ..core.avals import ShapedArray, typeof
from ..core.build import is_staged
from ..core.dims import DimExpr, max_dim
from ..core.jaxpr import ClosedJaxpr, JaxprEqn
from ..core.primitive import Primitive
from ..core.symbolic import Zero, instantiate_zeros
from ..core.trace import Tracer, base_trace, current_trace, use_trace
from ..core.tracebacks import boundary
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array
from ..primitives.convert import convert_element_type
from ..primitives.elementwise import lt
from ..transforms.batch import batch_jaxpr_axes, matchaxis
from ..transforms.jvp import jvp_jaxpr_fixpoint
from ..transforms.partial_eval import dce_closed, partial_eval_jaxpr, used_carries
from .call import mentions_axis
from .callbacks import apart_on_devices, sequentially
from .common import (
    carry_type,
    check_carry,
    check_effects,
    check_mapped_carry,
    chosen,
    discharging,
    matched_carry,
    permute,
    stands_for,
    trace_function,
    widen_cond,
)
from .scan import scan
from .while_adjoint import set_loop, transpose_while
from .while_lanes import lane_axes_of, masked, remember_lanes


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Repeats `val = body_fun(val)` while `cond_fun(val)` is true; returns the last value.

    `val` is a pytree whose types do not change; `cond_fun` returns one boolean. Reverse mode keeps
    some of the values that the loop goes through and computes the others again: the flag
    `pullback_while_tape_bytes` says how much memory that may take.

    `init_val`: a pytree, of whose types every state is.

    >>> lax.while_loop(lambda x: x < 10, lambda x: 2 * x, 1)
    Array(16, dtype=int32, weak_type=True)

    Raises TypeError if the functions are not callable, the condition is not a boolean scalar, or
    the body changes the type of `val`.
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError(
            "lax.while_loop: body_fun and cond_fun arguments should be callable. Fix: pass two "
            "functions of one value."
        )
    leaves, val_tree = tree.flatten(init_val)
    if config.disable_jit.get():
        with contextlib.suppress(ConcretizationTypeError):  # of a batch: lanes need the primitive
            return _in_python(cond_fun, body_fun, tree.unflatten(val_tree, map(as_array, leaves)))
    in_tree = tree.treedef_tuple([val_tree])
    for _ in range(3):
        avals = [carry_type(x) for x in leaves]
        body, body_consts, out_tree = trace_function(body_fun, in_tree, avals, "while_body")
        if len(body.out_avals) != len(leaves):
            break
        leaves, changed = matched_carry(body_fun, leaves, avals, body.out_avals)
        if not changed:
            break
    cond, cond_consts, cond_tree = trace_function(cond_fun, in_tree, avals, "while_cond")
    _check_cond(cond, cond_tree)
    check_carry("while_loop", body, len(body_consts), val_tree, avals, out_tree, body.out_avals)
    check_effects("while", fx.join(cond.effects, body.effects))
    fixed = _fixed(cond, body, len(cond_consts), len(body_consts), leaves)
    moving = [not f for f in fixed]
    if any(fixed):
        cond, body = _without_fixed(cond, body, len(cond_consts), len(body_consts), fixed)
    given = leaves  # what the body hands on comes back as it was, a number as a number
    leaves = [as_array(x) if f else x for x, f in zip(leaves, fixed, strict=True)]
    body_consts = [*chosen(leaves, fixed), *body_consts]
    outs = iter(
        while_p.bind(
            *cond_consts, *body_consts, *chosen(leaves, moving), cond_nconsts=len(cond_consts),
            cond_jaxpr=cond, body_nconsts=len(body_consts), body_jaxpr=body,
        )
    )  # fmt: skip
    return tree.unflatten(
        out_tree,
        [
            x if f else next(outs)
            for x, f in zip(leaves if is_staged() else given, fixed, strict=True)
        ],
    )


def _in_python(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], val: Any) -> Any:
    """The loop as `disable_jit` has it."""
    while cond_fun(val):
        val = body_fun(val)
    return val


def _fixed(
    cond: ClosedJaxpr, body: ClosedJaxpr, n_cc: int, n_bc: int, init: Sequence[Any]
) -> list[bool]:
    """Which entries of the carry the body hands on as they are and the condition does not read:
    they are constants of the loop."""
    read = _read_by_cond(cond, n_cc)
    return [
        v is w and not is_read and v.aval == typeof(x)
        for v, w, is_read, x in zip(
            body.jaxpr.invars[n_bc:],
            body.jaxpr.outvars,
            read,
            init,
            strict=True,
        )
    ]


def _without_fixed(
    cond: ClosedJaxpr, body: ClosedJaxpr, n_cc: int, n_bc: int, fixed: Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The condition and the body of the loop whose fixed entries are constants of the body."""
    key = "fixed", n_cc, n_bc, tuple(fixed)
    found = body.derived.get(key)
    if found is not None and found[0] is cond:
        return found[1]  # type: ignore[no-any-return]
    moving = [not f for f in fixed]
    heads, carry = body.jaxpr.invars[:n_bc], body.jaxpr.invars[n_bc:]
    invars = [*chosen(carry, fixed), *heads, *chosen(carry, moving)]
    outvars = chosen(body.jaxpr.outvars, moving)
    shorter = body.replace(jaxpr=body.jaxpr.replace(invars=invars, outvars=outvars))
    alive = dce_closed(cond, [True], True)[0]
    made = narrow_cond(alive, n_cc, [k for k, m in enumerate(moving) if m]), shorter
    body.derived[key] = cond, made
    return made


def _check_cond(cond: ClosedJaxpr, cond_tree: Any) -> None:
    if not tree.treedef_is_leaf(cond_tree) or len(cond.out_avals) != 1:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond_tree}.")
    aval = cond.out_avals[0]
    if aval.shape != () or aval.dtype != np.dtype(bool):
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got output type(s) [{aval!r}]. Fix: "
            "return a comparison, such as `x > 0`."
        )


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`, as one loop. It can be differentiated
    in reverse with bounds that are traced, too; with static ones that is faster.

    `init_val`: a pytree, of whose types every state is; `unroll`: iterations in a step (True:
    all), for bounds that are known.

    >>> lax.fori_loop(0, 3, lambda i, x: x + i, 10)
    Array(13, dtype=int32, weak_type=True)

    Raises TypeError if `body_fun` is not callable or changes the type of `val`, or if the bounds
    are not scalars of one type.
    """
    if not callable(body_fun):
        raise TypeError(
            "lax.fori_loop: body_fun argument should be callable. Fix: pass a function of (i, val)."
        )
    static = _static_bounds(lower, upper)
    given = lower, upper
    lower, upper = _bounds_of_one_type(lower, upper)
    if static:
        if any(isinstance(b, DimExpr) for b in given):  # as long as an argument's axis says
            length = max_dim(given[1] - given[0], 0)
        else:
            length = max(int(given[1]) - int(given[0]), 0)
        if not isinstance(length, DimExpr) and not length and config.disable_jit.get():
            return init_val
        start = _start(given, typeof(lower))

        def step(carry: Any, _: Any) -> Any:
            i, val = carry
            return (i + 1, body_fun(i, val)), None

        unroll_by = 1 if unroll is None else unroll
        stands_for(step, body_fun, lambda carry, _: (dict(enumerate(carry)), {}), remembered=True)
        return scan(step, (start, init_val), None, length=length, unroll=unroll_by)[0][1]
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known. Fix: "
            "drop `unroll`, or make the bounds static."
        )

    def body(c: Any) -> Any:
        return c[0] + 1, c[1], body_fun(c[0], c[2])

    stands_for(body, body_fun, lambda c: ({0: c[0], 1: c[2]}, {}), remembered=True)
    return while_loop(_goes_on, body, (lower, upper, init_val))[2]


def _goes_on(loop_carry: Any) -> Any:
    return lt(loop_carry[0], loop_carry[1])


def _start(bounds: tuple[Any, Any], aval: ShapedArray) -> Any:
    """Where a known range starts: at a weakly typed integer, as in JAX. Arrays made inside a
    program are known here and traced there: with them it has the bounds' type.
    """
    if isinstance(bounds[0], DimExpr):
        return bounds[0]
    first = int(bounds[0])
    arrays = any(hasattr(b, "aval") for b in bounds)
    if aval.weak_type or not arrays or current_trace() is base_trace():
        return first
    return aval.dtype.type(first)


def _bounds_of_one_type(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The bounds; a Python int takes the other's dtype if that is signed."""
    a, b = _bound_aval(lower), _bound_aval(upper)
    if a.dtype == b.dtype:
        return lower, upper
    if all(np.issubdtype(x.dtype, np.signedinteger) for x in (a, b)):
        if a.weak_type:
            return convert_element_type(lower, b.dtype), upper
        if b.weak_type:
            return lower, convert_element_type(upper, a.dtype)
    raise TypeError(
        f"lower and upper arguments to fori_loop must have equal types, got {a.dtype} and "
        f"{b.dtype}. Fix: convert one of them."
    )


def _bound_aval(x: Any) -> Any:
    aval = typeof(x)
    if aval.shape != ():
        raise TypeError(
            f"the bounds of fori_loop must be scalars, got {aval.str_short()}. Fix: index the "
            "array first."
        )
    return aval


def _static_bounds(lower: Any, upper: Any) -> bool:
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return False
    try:
        operator.index(lower)
        operator.index(upper)
    except TypeError:
        return not (isinstance(lower, Tracer) or isinstance(upper, Tracer))
    return True


def _abstract_eval(
    *avals: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, **params: Any
) -> Any:
    return body_jaxpr.out_avals, fx.join(cond_jaxpr.effects, body_jaxpr.effects)


def _split(xs: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    return list(xs[:a]), list(xs[a:b]), list(xs[b:])


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    cc, bc, init = _split(primals, params)
    _, bc_dot, init_dot = _split(tangents, params)
    nonzeros = [type(t) is not Zero for t in (*bc_dot, *init_dot)]
    n_bc, n_carry = len(bc), len(init)
    jvp, carry_nz = jvp_jaxpr_fixpoint(body, nonzeros, n_bc, n_carry)
    bc_nz = nonzeros[:n_bc]
    n_bd, n_cd = sum(bc_nz), sum(carry_nz)
    # (consts, carry, const dots, carry dots) -> (consts, const dots, carry, carry dots)
    first = n_bc + n_carry
    ins = [
        *range(n_bc),
        *range(first, first + n_bd),
        *range(n_bc, first),
        *range(first + n_bd, first + n_bd + n_cd),
    ]
    jvp = permute(jvp, ins, range(n_carry + n_cd))
    lane_axes = lane_axes_of(body, n_bc)
    remember_lanes(jvp, [*lane_axes, *(t for t, nz in zip(lane_axes, bc_nz, strict=True) if nz)])
    dots = [instantiate_zeros(t) for t, nz in zip(init_dot, carry_nz, strict=True) if nz]
    wide = widen_cond(cond, len(cc), jvp.out_avals)
    outs = while_p.bind(
        *cc, *bc, *(t for t, nz in zip(bc_dot, bc_nz, strict=True) if nz), *init, *dots,
        cond_nconsts=len(cc), cond_jaxpr=wide, body_nconsts=n_bc + n_bd, body_jaxpr=jvp,
    )  # fmt: skip
    rest = iter(outs[n_carry:])
    out_dots = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(body.out_avals, carry_nz, strict=True)
    ]
    return outs[:n_carry], out_dots


def _partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Runs the loop of the known carries; the staged loop runs everything again, so that it can be
    evaluated forwards.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    cc_uk, bc_uk, carry_uk = _split(unknown, params)
    for _ in range(1 + len(carry_uk)):
        _, _, out_uk, _ = partial_eval_jaxpr(body, [*bc_uk, *carry_uk], carry_uk)
        joined = [a or b for a, b in zip(carry_uk, out_uk, strict=True)]
        if joined == carry_uk:
            break
        carry_uk = joined
    used = _read_by_cond(cond, len(cc_uk))
    if any(cc_uk) or all(carry_uk) or any(u and uk for u, uk in zip(used, carry_uk, strict=True)):
        return trace.stage(while_p, tracers, params)
    known, _, _, n_res = partial_eval_jaxpr(body, [*bc_uk, *carry_uk], carry_uk)
    n_known = sum(not uk for uk in carry_uk)
    known = known.replace(
        jaxpr=known.jaxpr.replace(outvars=known.jaxpr.outvars[: len(known.jaxpr.outvars) - n_res])
    )
    known = dce_closed(known, [True] * n_known, True)[0]
    keep = [k for k, uk in enumerate(carry_uk) if not uk]
    cc, bc, init = _split(tracers, params)
    known_cond = narrow_cond(cond, len(cc), keep)
    known_bc = [x for x, uk in zip(bc, bc_uk, strict=True) if not uk]
    lane_axes = lane_axes_of(body, len(bc))
    remember_lanes(known, [t for t, uk in zip(lane_axes, bc_uk, strict=True) if not uk])
    with use_trace(trace.parent_trace):
        known_outs = iter(
            while_p.bind(
                *cc,
                *known_bc,
                *(init[k] for k in keep),
                cond_nconsts=len(cc),
                cond_jaxpr=known_cond,
                body_nconsts=len(known_bc),
                body_jaxpr=known,
            )
        )
    staged_outs = trace.stage(while_p, tracers, params)
    return [x if uk else next(known_outs) for x, uk in zip(staged_outs, carry_uk, strict=True)]


def _read_by_cond(cond: ClosedJaxpr, n_consts: int) -> list[bool]:
    return dce_closed(cond, [True])[1][n_consts:]


def narrow_cond(cond: ClosedJaxpr, n_consts: int, keep: Sequence[int]) -> ClosedJaxpr:
    """The condition of a shorter carry: it must read only the entries `keep`."""
    jaxpr = cond.jaxpr
    carry = jaxpr.invars[n_consts:]
    return ClosedJaxpr(
        jaxpr.replace(invars=[*jaxpr.invars[:n_consts], *(carry[k] for k in keep)]), cond.consts
    )


def _transpose(cts: Any, *args: Any, **params: Any) -> Any:
    n_cc = params["cond_nconsts"]
    n = 0 if not params["cond_jaxpr"].out_avals[0].ndim else n_cc
    found = transpose_while(cts, *one_predicate(args, params, for_reverse=True))
    return [*found[:n_cc], *found[n_cc + n :]]


def _batch(axis: Any, vals: Any, dims: Any, **params: Any) -> Any:
    """A loop whose predicate is mapped stays a loop, with a predicate that has the mapped axis: it
    goes on while any lane does, and lanes that have stopped keep their values. Lowering and reverse
    mode see to that.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    if apart_on_devices(axis, cond, body):
        return sequentially(while_p, vals, dims, axis.size, params)
    mapped = any(d is not None for d in dims)
    if not mapped and not (
        mentions_axis(cond.effects, axis.name) or mentions_axis(body.effects, axis.name)
    ):
        return None
    effects = fx.lane_refused_effects.filter_in(fx.join(cond.effects, body.effects))
    if fx.ordered_effects.filter_in(effects):
        raise Exception(
            "Ordered IO effects not supported in vmap. Fix: make the callback unordered."
        )
    cc_b, bc_b, carry_b = _split([d is not None for d in dims], params)
    lanes, lane_axes = cond.out_avals[0].ndim, lane_axes_of(body, len(bc_b))
    # Behind the axes that the predicate has, while it has no more.
    bc_dims = [len(t) if b else None for t, b in zip(lane_axes, bc_b, strict=True)]
    cc_dims = [0 if b else None for b in cc_b]
    for _ in range(2 + len(carry_b)):
        carry_dims = [lanes if b else None for b in carry_b]
        _, out_dims = batch_jaxpr_axes(body, axis, [*bc_dims, *carry_dims], ["any"] * len(carry_b))
        _, (pred_dim,) = batch_jaxpr_axes(cond, axis, [*cc_dims, *carry_dims], ["any"])
        pred_b = pred_dim is not None
        joined = [pred_b or a or d is not None for a, d in zip(carry_b, out_dims, strict=True)]
        if joined == carry_b:
            break
        carry_b = joined
    at = 0 if pred_b else lanes
    if pred_b:
        bc_dims = [0 if b else None for b in bc_b]
        lane_axes = [
            (*((0,) if b else ()), *(k + 1 for k in t))
            for t, b in zip(lane_axes, bc_b, strict=True)
        ]
    carry_dims = [at if b else None for b in carry_b]
    new_body, _ = batch_jaxpr_axes(body, axis, [*bc_dims, *carry_dims], carry_dims)
    check_mapped_carry("while_loop", new_body.in_avals[len(bc_b) :], new_body.out_avals)
    new_cond, _ = batch_jaxpr_axes(cond, axis, [*cc_dims, *carry_dims], ["any"])
    if pred_b and effects:
        raise Exception(
            "Unordered IO effects not supported in while_loop with batched predicate. Fix: use "
            "pure_callback, or a predicate that is the same for the whole batch."
        )
    if pred_b or lanes:
        remember_lanes(new_body, lane_axes)
    init_dims = _split(dims, params)[2]
    consts = [
        v if to is None else matchaxis(axis.size, d, to, v)
        for v, d, to in zip(vals, dims, [*cc_dims, *bc_dims], strict=False)
    ]
    init = [
        matchaxis(axis.size, d, to, v)
        for v, d, to in zip(_split(vals, params)[2], init_dims, carry_dims, strict=True)
    ]
    outs = while_p.bind(
        *consts, *init, **{**params, "cond_jaxpr": new_cond, "body_jaxpr": new_body}
    )
    return outs, carry_dims


def one_predicate(
    args: Sequence[Any], params: dict[str, Any], *, for_reverse: bool = False
) -> tuple[list[Any], dict[str, Any]]:
    """The operands and parameters of the same loop with a predicate without axes: the loop goes on
    while any lane does, and a lane that has stopped keeps its values. `for_reverse`: see `masked`.
    """
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    if not cond.out_avals[0].ndim:
        return list(args), params
    cc, bc, init = _split(args, params)
    lane_axes = lane_axes_of(body, len(bc))
    new_cond, new_body = masked(cond, body, len(cc), lane_axes, for_reverse=for_reverse)
    more = {"cond_jaxpr": new_cond, "body_jaxpr": new_body, "body_nconsts": len(cc) + len(bc)}
    return [*cc, *cc, *bc, *init], {**params, **more}


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    if not any(used) and not eqn.effects:
        return None
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cc, n_bc = params["cond_nconsts"], params["body_nconsts"]
    keep = [a or b for a, b in zip(used, _read_by_cond(cond, n_cc), strict=True)]
    keep = used_carries(body.jaxpr, keep, n_bc, len(keep))
    new_body, used_in = dce_closed(body, keep, [False] * n_bc + keep)
    if all(keep) and all(used_in):
        return eqn
    cc, bc, init = _split(eqn.invars, params)
    slots = [k for k, flag in enumerate(keep) if flag]
    bc = [v for v, u in zip(bc, used_in[:n_bc], strict=True) if u]
    lane_axes = lane_axes_of(body, n_bc)
    remember_lanes(new_body, [t for t, u in zip(lane_axes, used_in[:n_bc], strict=True) if u])
    return eqn.replace(
        invars=[*cc, *bc, *(init[k] for k in slots)],
        outvars=[eqn.outvars[k] for k in slots],
        params={
            "cond_nconsts": n_cc,
            "cond_jaxpr": narrow_cond(cond, n_cc, slots),
            "body_nconsts": len(bc),
            "body_jaxpr": new_body,
        },
    )


while_p = Primitive(
    "while",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    discharge=lambda args, params: discharging.discharge_while(args, params),
)
set_loop(while_p, while_loop)
