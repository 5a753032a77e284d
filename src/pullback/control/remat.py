"""Rematerialisation: `checkpoint(f)` keeps a function's arguments (and what a policy saves) instead
of its intermediate values, and computes the rest again in the backward pass, behind a barrier that
passes respect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .. import config, dtypes, tree
from ..core import effects as fx
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    closed_without_consts,
    eval_jaxpr,
)
from ..core.naming import fun_source_info, names_of_arguments
from ..core.primitive import Primitive
from ..core.source import take_names
from ..core.symbolic import UndefinedPrimal, Zero
from ..core.trace import use_trace
from ..core.tracebacks import boundary
from ..lazy_imports import lazy_module
from ..primitives.convert import reduce_precision_p
from ..primitives.elementwise import optimization_barrier
from ..transforms.batch import batch_jaxpr, moveaxis
from ..transforms.jvp import jvp_jaxpr
from ..transforms.partial_eval import dce_closed, partial_eval_jaxpr
from ..transforms.transpose import transpose_jaxpr
from . import remat_inside
from .call import jit_p, same_for_all
from .common import as_taken, discharging, trace_function

logging: Any = lazy_module("logging")


class Deprecated:
    """What the removed option `concrete` is when it is not given."""


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: Any = Deprecated,
) -> Any:
    """`fun`, whose intermediate values are recomputed in the backward pass instead of kept.

    `policy(primitive, *avals, **params)` is true for operations whose results are kept all the same
    (see `checkpoint_policies`). `prevent_cse`, for all arguments or a tuple with an entry for each,
    puts a barrier between what is computed again and the first computation.

    >>> pb.grad(pb.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0)
    Array(0.36003944, dtype=float32, weak_type=True)
    """
    if concrete is not Deprecated:
        raise NotImplementedError(
            "The `concrete` option of checkpoint was removed in JAX 0.10.0. Fix: mark the "
            "arguments with static_argnums."
        )
    if not isinstance(prevent_cse, (bool, tuple, list)):
        raise TypeError(
            "prevent_cse must be a bool or a tuple of bools, one for each argument, got "
            f"{prevent_cse!r} of {type(prevent_cse)}. Fix: prevent_cse=True."
        )
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @take_names(fun)
    @boundary
    def remat_fun(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not isinstance(prevent_cse, bool) and not names:
            bound = inspect.signature(fun).bind(*args, **kwargs)  # its entries count arguments
            args, kwargs = bound.args, bound.kwargs
        n = len(args)
        if not all(-n <= k < n for k in static):
            raise ValueError(
                "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take "
                "integer values greater than or equal to `-len(args)` and less than `len(args)`, "
                f"but got {static}, while `len(args)` = {n}. Fix: number the arguments that "
                f"{fun_source_info(fun)} is called with from 0."
            )
        fixed = {k % n: args[k] for k in static}
        dynamic = [k for k in range(n) if k not in fixed]
        rest = tuple([args[k] for k in dynamic])
        named = {k: v for k, v in kwargs.items() if k in names}
        leaves, in_tree = tree.flatten((rest, {k: kwargs[k] for k in kwargs if k not in names}))

        def call(rest: Any, kw: Any) -> Any:
            it = iter(rest)
            return fun(*(fixed[k] if k in fixed else next(it) for k in range(n)), **kw, **named)

        call.__wrapped__ = fun  # type: ignore[attr-defined]
        closed, consts, out_tree = trace_function(
            call,
            in_tree,
            [typeof(x) for x in leaves],
            "checkpoint / remat",
            owner=fun,
            fixed=(n, *_by_type(fixed), *_by_type(named)),
            names=names_of_arguments(fun, in_tree, lambda xs, kw: (dict(zip(dynamic, xs)), kw)),
        )
        outs = remat_p.bind(
            *consts,
            *map(as_taken, leaves),
            jaxpr=closed.jaxpr,
            prevent_cse=_spread(prevent_cse, rest, kwargs, names, len(consts)),
            differentiated=False,
            policy=policy,
        )
        return tree.unflatten(out_tree, outs)

    return remat_fun


def _by_type(values: dict[Any, Any]) -> list[Any]:
    """Arguments as parts of a key: 1 and True are equal, but other programs."""
    return [(k, type(v), v) for k, v in sorted(values.items())]


def _spread(
    prevent_cse: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: set[str], n_consts: int
) -> Any:
    """`prevent_cse` of each operand: one flag for all of them, or a prefix of the arguments."""
    if isinstance(prevent_cse, bool):
        return prevent_cse
    flags = tree.broadcast_prefix(tuple(prevent_cse), args)
    n_named = len(tree.leaves({k: v for k, v in kwargs.items() if k not in names}))
    return _as_one((*[True] * n_consts, *flags, *[True] * n_named))


def _as_one(flags: tuple[Any, ...]) -> Any:
    return flags if not all(flags) else True


def _among(prevent_cse: Any, before: int, which: Sequence[bool], after: int) -> Any:
    """`prevent_cse` of some of the operands, behind new ones and before new ones."""
    if isinstance(prevent_cse, bool):
        return prevent_cse
    kept = [flag for flag, w in zip(prevent_cse, which, strict=True) if w]
    return (*[True] * before, *kept, *[True] * after)


def _abstract_eval(*avals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    return jaxpr.out_avals, jaxpr.effects


def evaluate(
    *args: Any, jaxpr: Jaxpr, prevent_cse: Any, differentiated: bool, policy: Any
) -> list[Any]:
    """What a remat call is: its program, with a barrier before it in a backward pass, so that
    nothing merges it with the forward pass.
    """
    if differentiated and prevent_cse:
        kept = (True,) * len(args) if isinstance(prevent_cse, bool) else prevent_cse
        held = iter(optimization_barrier(tuple(x for x, k in zip(args, kept, strict=True) if k)))
        args = tuple(next(held) if k else x for x, k in zip(args, kept, strict=True))
    return eval_jaxpr(jaxpr, (), *args)


def _jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, out_nz = jvp_jaxpr(closed_without_consts(jaxpr), nonzeros, False)
    jvp, consts = hoist(jvp)
    cse = _among(params["prevent_cse"], len(consts), [True] * len(primals), sum(nonzeros))
    outs = remat_p.bind(
        *consts,
        *primals,
        *(t for t, nz in zip(tangents, nonzeros, strict=True) if nz),
        jaxpr=jvp.jaxpr,
        **{**params, "prevent_cse": cse},
    )
    n = len(jaxpr.outvars)
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(jaxpr.out_avals, out_nz, strict=True)
    ]


def hoist(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program without constants, and its constants, to be passed first."""
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    return closed_without_consts(
        jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    ), list(closed.consts)


def _partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The known results are computed now; the staged call computes everything again from the
    arguments and the saved values.
    """
    refused = fx.remat_allowed_effects.filter_not_in(params["jaxpr"].effects)
    if refused:
        raise NotImplementedError(
            f"Effects not supported in partial-eval of `checkpoint`/`remat`: {refused}. "
            "Fix: move the effect out of the checkpointed function."
        )
    jaxpr = params["jaxpr"]
    closed = _seen_by(params["policy"], closed_without_consts(jaxpr), unknown)
    out_unknown = partial_eval_jaxpr(closed, unknown)[2]
    n_known = len(out_unknown) - sum(out_unknown)
    kept, inside = _saved(closed.jaxpr, unknown, params["policy"])
    saved_vars = _by_first_use(kept, closed.jaxpr, unknown)
    once = _done_once(closed.jaxpr, unknown, params["policy"], set(kept))
    known_closed, recompute = _split_saved(closed, unknown, out_unknown, saved_vars, inside, once)
    staged, used = dce_closed(recompute, [True] * len(recompute.jaxpr.outvars))
    # What the policy keeps but nothing reads is not computed: its derivative may not exist.
    wanted = [True] * n_known + used[: len(saved_vars)]
    known_closed = _as_stored(dce_closed(known_closed, wanted, True)[0], n_known)
    known_args = [x for x, u in zip(tracers, unknown, strict=True) if not u]
    with use_trace(trace.parent_trace):
        outs = eval_jaxpr(known_closed.jaxpr, known_closed.consts, *known_args)
    saved = outs[n_known:]
    if config.log_checkpoint_residuals.get():
        triples = zip(closed.jaxpr.invars, used[len(saved_vars) :], unknown, strict=True)
        kept = [v.aval for v, u, uk in triples if u and not uk]
        _log_kept(kept, known_closed.jaxpr, n_known)
    used_args = used[len(saved_vars) :]
    operands = saved + [x for x, u in zip(tracers, used_args, strict=True) if u]
    cse = _among(params["prevent_cse"], len(saved), used_args, 0)
    params = {**params, "jaxpr": staged.jaxpr, "differentiated": True, "prevent_cse": cse}
    with use_trace(trace.staged):
        staged_outs = iter(remat_p.bind(*operands, **params))
    known_outs = iter(outs[:n_known])
    return [next(staged_outs) if u else next(known_outs) for u in out_unknown]


def _log_kept(arguments: Sequence[Any], known: Jaxpr, n_known: int) -> None:
    """Logs which arguments and which values a checkpointed function keeps for its derivative."""
    made = {v: eqn for eqn in known.eqns for v in eqn.outvars}
    values = [
        f"  {v.aval.str_short()} from output of {made[v].primitive.name} from "
        f"{made[v].source_info.summary()}"
        for v in known.outvars[n_known:]
        if isinstance(v, Var) and v in made
    ]
    lines = []
    if arguments:
        shapes = [f"  {a.str_short()}" for a in arguments]
        lines += ["remat-decorated function saving inputs with shapes:", *shapes]
    if values:
        first = "and saving these intermediates:"
        if not arguments:
            first = "remat-decorated function saving these intermediates:"
        lines += [first, *values]
    if lines:
        logging.getLogger("pullback.checkpoint").warning("\n".join(lines))


def _unknown_vars(jaxpr: Jaxpr, unknown: Sequence[bool]) -> set[Var]:
    found = {v for v, u in zip(jaxpr.invars, unknown, strict=True) if u}
    for eqn in jaxpr.eqns:
        if any(isinstance(v, Var) and v in found for v in eqn.invars):
            found.update(eqn.outvars)
    return found


def _seen_by(policy: Any, closed: ClosedJaxpr, unknown: Sequence[bool]) -> ClosedJaxpr:
    """The program whose operations a policy is asked for: calls are what they call, and loops and
    branches are known or unknown as a whole."""
    if policy is None:
        return closed
    jaxpr = inline_calls(closed.jaxpr)
    closed = closed_without_consts(jaxpr)
    if not remat_inside.holds_loops(jaxpr):
        return closed
    parts = remat_inside.apart(closed, unknown)
    return closed if parts.consts else closed_without_consts(inline_calls(parts.jaxpr))


def _saved(
    jaxpr: Jaxpr, unknown: Sequence[bool], policy: Any
) -> tuple[list[Var], dict[int, remat_inside.Kept]]:
    """The known variables that the policy keeps, and the equations inside of which it keeps some,
    by their places."""
    inside: dict[int, remat_inside.Kept] = {}
    kept: list[Var] = []
    if policy is None:
        return kept, inside
    depends = _unknown_vars(jaxpr, unknown)
    for k, eqn in enumerate(jaxpr.eqns):
        if any(v in depends for v in eqn.outvars):
            continue
        whole = policy(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params)
        kept += eqn.outvars if whole else []
        if whole and not eqn.effects:
            continue
        # A loop that prints is asked inside: what it prints may not be there again.
        if (found := remat_inside.kept_inside(eqn, policy, inline_calls)) is not None:
            inside[k] = found
            kept += found.saved
    return kept, inside


def _done_once(jaxpr: Jaxpr, unknown: Sequence[bool], policy: Any, kept: set[Var]) -> set[int]:
    """The places of effects (prints) of known values that are not repeated."""
    if policy is None:
        return set()
    depends = _unknown_vars(jaxpr, unknown)
    return {
        k
        for k, eqn in enumerate(jaxpr.eqns)
        if depends.isdisjoint(eqn.invars) and remat_inside.is_done_once(eqn, policy, kept)
    }


def _by_first_use(saved: Sequence[Var], jaxpr: Jaxpr, unknown: Sequence[bool]) -> list[Var]:
    """In the order in which the operations that are not known read them."""
    depends = _unknown_vars(jaxpr, unknown)
    later = [e for e in jaxpr.eqns if not depends.isdisjoint(e.outvars)]
    read = dict.fromkeys(v for e in later for v in e.invars if isinstance(v, Var))
    place = {v: k for k, v in enumerate(read)}
    return sorted(saved, key=lambda v: place.get(v, len(place)))


def _split_saved(
    closed: ClosedJaxpr,
    unknown: Sequence[bool],
    out_unknown: Sequence[bool],
    saved: Sequence[Var],
    inside: dict[int, remat_inside.Kept],
    once: set[int],
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """(known arguments -> known results, saved) and (saved, all arguments -> unknown results)."""
    jaxpr = closed.jaxpr
    known_outs = [v for v, u in zip(jaxpr.outvars, out_unknown, strict=True) if not u]
    forward = [inside[k].forward if k in inside else e for k, e in enumerate(jaxpr.eqns)]
    known = partial_eval_jaxpr(
        ClosedJaxpr(jaxpr.replace(eqns=forward, outvars=[*known_outs, *saved]), closed.consts),
        unknown,
    )[0]
    n = len(known_outs) + len(saved)
    known = ClosedJaxpr(known.jaxpr.replace(outvars=known.jaxpr.outvars[:n]), known.consts)
    stand_ins = {v: Var(v.aval) for v in saved}

    def sub(v: Any) -> Any:
        return stand_ins.get(v, v) if isinstance(v, Var) else v

    later = [
        inside[k].again if k in inside else e for k, e in enumerate(jaxpr.eqns) if k not in once
    ]
    eqns = [e.replace(invars=[sub(v) for v in e.invars]) for e in later]
    outvars = [sub(v) for v, u in zip(jaxpr.outvars, out_unknown, strict=True) if u]
    again = jaxpr.replace(invars=[*stand_ins.values(), *jaxpr.invars], eqns=eqns, outvars=outvars)
    return known, ClosedJaxpr(again, closed.consts)


def _as_stored(closed: ClosedJaxpr, n_known: int) -> ClosedJaxpr:
    """The program whose other operations read what is saved as memory will hold it: a compiler
    that computes more digits must not go on with them, or what is computed again would differ.
    """
    jaxpr = closed.jaxpr
    saved = {v for v in jaxpr.outvars[n_known:] if isinstance(v, Var)} - set(jaxpr.invars)
    read = {v for e in jaxpr.eqns for v in e.invars if isinstance(v, Var)}
    read.update(v for v in jaxpr.outvars[:n_known] if isinstance(v, Var))
    rounded: dict[Any, Var] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqns.append(eqn.replace(invars=[rounded.get(v, v) for v in eqn.invars]))
        for v in eqn.outvars:
            if v in saved and v in read and dtypes.is_float(v.aval.dtype):
                rounded[v] = Var(v.aval)
                eqns.append(_rounding(eqn, v, rounded[v]))
    if not rounded:
        return closed
    outvars = [rounded.get(v, v) for v in jaxpr.outvars]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


def _rounding(eqn: JaxprEqn, x: Var, y: Var) -> JaxprEqn:
    info = dtypes.finfo(x.aval.dtype)
    params = {"exponent_bits": int(info.nexp), "mantissa_bits": int(info.nmant)}
    return eqn.replace(
        primitive=reduce_precision_p, params=params, invars=[x], outvars=[y], effects=fx.no_effects
    )


def inline_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The program with every jit call replaced by its body, so that a policy sees the
    operations.
    """
    if "inline calls" in jaxpr.derived:
        return jaxpr.derived["inline calls"] or jaxpr
    result = jaxpr
    if any(e.primitive is jit_p for e in jaxpr.eqns):
        eqns: list[JaxprEqn] = []
        env: dict[Var, Any] = {}

        def sub(v: Any) -> Any:
            while isinstance(v, Var) and v in env:
                v = env[v]
            return v

        for eqn in jaxpr.eqns:
            invars = [sub(v) for v in eqn.invars]
            if eqn.primitive is not jit_p or eqn.params["jaxpr"].consts:
                eqns.append(eqn.replace(invars=invars))
                continue
            body = _fresh(inline_calls(eqn.params["jaxpr"].jaxpr), invars)
            eqns += body.eqns
            env.update(zip(eqn.outvars, body.outvars, strict=True))
        result = jaxpr.replace(eqns=eqns, outvars=[sub(v) for v in jaxpr.outvars])
    jaxpr.derived["inline calls"] = None if result is jaxpr else result  # it never holds itself
    return result


def _fresh(jaxpr: Jaxpr, args: Sequence[Any]) -> Jaxpr:
    """A copy of a program with its own variables, its arguments replaced."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))

    def sub(v: Any) -> Any:
        return v if isinstance(v, Literal) else env[v]

    eqns = []
    for eqn in jaxpr.eqns:
        invars = [sub(v) for v in eqn.invars]
        for v in eqn.outvars:
            env[v] = type(v)(v.aval)
        eqns.append(eqn.replace(invars=invars, outvars=[env[v] for v in eqn.outvars]))
    return jaxpr.replace(eqns=eqns, outvars=[sub(v) for v in jaxpr.outvars], invars=[])


def _transpose(cts: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    """Recompute what is not linear, then go backwards, in one remat call."""
    closed = closed_without_consts(jaxpr)
    linear = [type(x) is UndefinedPrimal for x in args]
    ct_zeros = [type(ct) is Zero for ct in cts]
    known, staged, _, n_res = partial_eval_jaxpr(closed, linear, True)
    n_lin = sum(linear)
    transposed, out_zeros = transpose_jaxpr(staged, [False] * n_res + [True] * n_lin, ct_zeros, cts)
    n_known_in = len(linear) - n_lin

    def fun(*flat: Any) -> list[Any]:
        outs = eval_jaxpr(known.jaxpr, known.consts, *flat[:n_known_in])
        residuals = outs[len(outs) - n_res :] if n_res else []
        return eval_jaxpr(transposed.jaxpr, transposed.consts, *residuals, *flat[n_known_in:])

    operands = [x for x, lin in zip(args, linear, strict=True) if not lin]
    operands += [ct for ct, z in zip(cts, ct_zeros, strict=True) if not z]
    body = close_jaxpr(*trace_to_jaxpr(fun, [typeof(x) for x in operands], jaxpr.transformed_info))[
        0
    ]
    body, consts = hoist(body)
    known_in = [not lin for lin in linear]
    cse = _among(params["prevent_cse"], len(consts), known_in, len(operands) - n_known_in)
    params = {**params, "jaxpr": body.jaxpr, "prevent_cse": cse}
    outs = iter(remat_p.bind(*consts, *operands, **params))
    zeros = iter(out_zeros)
    return [
        (Zero(x.aval.to_ct_aval()) if next(zeros) else next(outs)) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def _batch(axis: Any, vals: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    if same_for_all(axis, dims, jaxpr.effects):
        return None
    moved = [v if d is None else moveaxis(v, d, 0) for v, d in zip(vals, dims, strict=True)]
    batched, out_b = batch_jaxpr(closed_without_consts(jaxpr), axis, [d is not None for d in dims])
    batched, consts = hoist(batched)
    cse = _among(params["prevent_cse"], len(consts), [True] * len(vals), 0)
    params = {**params, "jaxpr": batched.jaxpr, "prevent_cse": cse}
    return remat_p.bind(*consts, *moved, **params), [0 if b else None for b in out_b]


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    closed, used_in = dce_closed(closed_without_consts(eqn.params["jaxpr"]), used)
    return eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params={
            **eqn.params,
            "jaxpr": closed.jaxpr,
            "prevent_cse": _among(eqn.params["prevent_cse"], 0, used_in, 0),
        },
    )


remat_p = Primitive(
    "remat2",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    impl=evaluate,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    discharge=lambda args, params: discharging.discharge_remat(args, params),
)


def _name_rule(primals: Any, tangents: Any, *, name: str) -> Any:
    # The tangent is not what the policy names: it passes as it is.
    return name_p.bind(primals[0], name=name), tangents[0]


name_p: Primitive = Primitive(
    "name",
    abstract_eval=lambda x, *, name: x,
    impl=lambda x, *, name: x,
    jvp=_name_rule,
    transpose=lambda ct, x, *, name: [ct],
    batch=lambda args, dims, *, name: (name_p.bind(args[0], name=name), dims[0]),
)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, under a name that a checkpoint policy can refer to. Applies to each leaf of a pytree.

    >>> from pullback.ad_checkpoint import checkpoint_name
    >>> policy = pb.checkpoint_policies.save_only_these_names("sine")
    >>> f = pb.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "sine")), policy=policy)
    >>> pb.grad(f)(1.0)
    Array(0.36003944, dtype=float32, weak_type=True)
    """
    return tree.tree_map(lambda leaf: _checked_name(leaf, name), x)


def _checked_name(x: Any, name: str) -> Any:
    """A named value; TypeError if it is none that an array can hold."""
    typeof(x)
    return name_p.bind(x, name=name)
