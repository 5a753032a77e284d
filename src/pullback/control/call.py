"""The `jit` primitive: a call of a program that is traced once and compiled on its own. Every
transformation maps it to a call of the transformed program, which the program remembers, so that
nothing is traced twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import effects as fx, public
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, eval_under
from ..core.primitive import Primitive
from ..core.source import user_summary
from ..core.symbolic import UndefinedPrimal, Zero
from ..core.trace import use_trace
from ..primitives.sharding import batch_over, with_batch_axis
from ..transforms.batch import batch_jaxpr_axes, moveaxis
from ..transforms.jvp import jvp_jaxpr
from ..transforms.partial_eval import dce_closed, forward_residuals, partial_eval_jaxpr
from ..transforms.transpose import transpose_jaxpr
from .common import chosen, discharging


class UnspecifiedValue:
    """A sharding that the caller left open."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()

# The name of a call of an operation that is compiled together with others, but means what it means
# alone: what others know of its values does not count.
APART = "apart"


def call_params(
    jaxpr: ClosedJaxpr,
    name: str,
    *,
    donated_invars: Sequence[bool] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    like: dict[str, Any] | None = None,
    in_shardings: Sequence[Any] | None = None,
    out_shardings: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """The parameters of a jit equation; `like` gives the ones that a transformed call inherits."""
    n_in, n_out = len(jaxpr.jaxpr.invars), len(jaxpr.jaxpr.outvars)
    like = like or {}
    return {
        "jaxpr": jaxpr,
        "in_shardings": (UNSPECIFIED,) * n_in if in_shardings is None else tuple(in_shardings),
        "out_shardings": (UNSPECIFIED,) * n_out if out_shardings is None else tuple(out_shardings),
        "in_layouts": (None,) * n_in,
        "out_layouts": (None,) * n_out,
        "donated_invars": tuple(donated_invars) if donated_invars is not None else (False,) * n_in,
        "ctx_mesh": like.get("ctx_mesh"),
        "name": name,
        "keep_unused": like.get("keep_unused", keep_unused),
        "inline": like.get("inline", inline),
        "compiler_options_kvs": like.get("compiler_options_kvs", ()),
    }


def bind_call(
    jaxpr: ClosedJaxpr,
    args: Sequence[Any],
    params: dict[str, Any],
    ins: Sequence[Any] | None = None,
    outs: Sequence[Any] | None = None,
    donated: Sequence[bool] | None = None,
) -> list[Any]:
    """Calls a transformed program under the name and options of the call that it came from. `ins`
    and `outs`: the shardings asked for, as far as they are known."""
    if "marked" in params:
        return params["marked"].again(jaxpr, args, outs)  # type: ignore[no-any-return]
    wanted = call_params(
        jaxpr,
        params["name"],
        like=params,
        in_shardings=ins,
        out_shardings=outs,
        donated_invars=donated,
    )
    return jit_p.bind(*args, **wanted)  # type: ignore[no-any-return]


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return jaxpr.out_avals, jaxpr.effects


def _jvp(primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, out_nonzeros = jvp_jaxpr(jaxpr, nonzeros, False)
    ins, asked = params["in_shardings"], params["out_shardings"]
    outs = bind_call(
        jvp,
        [*primals, *(t for t, nz in zip(tangents, nonzeros, strict=True) if nz)],
        params,
        [*ins, *chosen(ins, nonzeros)],
        [*asked, *chosen(asked, out_nonzeros)],
    )
    n = len(jaxpr.jaxpr.outvars)
    rest = iter(outs[n:])
    tangents_out = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(jaxpr.out_avals, out_nonzeros, strict=True)
    ]
    return outs[:n], tangents_out


def _partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    known, staged, out_unknown, n_res = partial_eval_jaxpr(jaxpr, unknown)
    known, staged, n_res = _without_zeros(known, staged, n_res)
    known, where = forward_residuals(known, n_res)
    known_args = [x for x, uk in zip(tracers, unknown, strict=True) if not uk]
    n_known = len(out_unknown) - sum(out_unknown)
    with use_trace(trace.parent_trace):
        asked = chosen(params["out_shardings"], [not uk for uk in out_unknown])
        rest = [UNSPECIFIED] * (len(known.jaxpr.outvars) - len(asked))
        ins = chosen(params["in_shardings"], [not uk for uk in unknown])
        known, given = _without_handed_on(known, [*asked, *rest], n_known)
        asked = [s for s, k in zip([*asked, *rest], given, strict=True) if k is None]
        found = iter(bind_call(known, known_args, params, ins, asked))
        outs = [next(found) if k is None else known_args[k] for k in given]
    kept = outs[n_known:]
    sources = {"in": known_args, "out": outs, "res": kept}
    residuals = [sources[kind][k] for kind, k in where]
    unknown_args = [x for x, uk in zip(tracers, unknown, strict=True) if uk]
    with use_trace(trace.staged):
        staged_outs = iter(bind_call(staged, [*residuals, *unknown_args], params))
    known_outs = iter(outs[:n_known])
    return [next(staged_outs) if uk else next(known_outs) for uk in out_unknown]


def _without_zeros(
    known: ClosedJaxpr, staged: ClosedJaxpr, n: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
    """The halves of a program whose n residuals are without the zeros that loops start tangents
    from: they are made where they are used."""
    outvars, ins = known.jaxpr.outvars, staged.jaxpr.invars
    first = len(outvars) - n
    made = {e.outvars[0]: e for e in known.jaxpr.eqns if _is_zeros(e)}
    if not made:
        return known, staged, n
    others = {v for e in staged.jaxpr.eqns if e.primitive.name != "scan" for v in e.invars}
    others.update(staged.jaxpr.outvars)
    gone = [
        k
        for k in range(n)
        if isinstance(outvars[first + k], Var)
        and outvars[first + k] in made
        and ins[k] not in others
    ]
    if not gone:
        return known, staged, n
    if "without zeros" not in known.derived:
        left = [v for k, v in enumerate(outvars) if k - first not in gone]
        smaller = ClosedJaxpr(known.jaxpr.replace(outvars=left), known.consts)
        zeros = [made[outvars[first + k]].replace(outvars=[ins[k]]) for k in gone]
        body = staged.jaxpr.replace(
            invars=[v for k, v in enumerate(ins) if k not in gone],
            eqns=[*zeros, *staged.jaxpr.eqns],
        )
        smaller = dce_closed(smaller, [True] * len(left), True)[0]
        known.derived["without zeros"] = smaller, ClosedJaxpr(body, staged.consts), n - len(gone)
    return known.derived["without zeros"]  # type: ignore[no-any-return]


def _is_zeros(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "broadcast_in_dim" and all(
        isinstance(x, Literal) and not np.ndim(x.val) and x.val == 0 for x in eqn.invars
    )


def _without_handed_on(
    known: ClosedJaxpr, asked: Sequence[Any], n: int
) -> tuple[ClosedJaxpr, list[int | None]]:
    """A program without those of its first n results that are arguments as they are, unless a
    sharding was asked for; and for each result the argument's number, or None."""
    ins = {v: k for k, v in enumerate(known.jaxpr.invars)}
    given = [
        ins.get(v) if k < n and isinstance(v, Var) and s is UNSPECIFIED else None
        for k, (v, s) in enumerate(zip(known.jaxpr.outvars, asked, strict=True))
    ]
    if all(k is None for k in given):
        return known, given
    key = ("without handed on", tuple(given))
    if key not in known.derived:
        outvars = [v for v, k in zip(known.jaxpr.outvars, given, strict=True) if k is None]
        known.derived[key] = ClosedJaxpr(known.jaxpr.replace(outvars=outvars), known.consts)
    return known.derived[key], given


def _transpose(cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    linear = [type(x) is UndefinedPrimal for x in args]
    ct_zeros = [type(ct) is Zero for ct in cts]
    transposed, out_zeros = transpose_jaxpr(jaxpr, linear, ct_zeros, cts)
    operands = [x for x, lin in zip(args, linear, strict=True) if not lin]
    operands += [ct for ct, z in zip(cts, ct_zeros, strict=True) if not z]
    outs = iter(bind_call(transposed, operands, params))
    zeros = iter(out_zeros)
    return [
        (Zero(x.aval.to_ct_aval()) if next(zeros) else next(outs)) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def mentions_axis(effects: Any, name: Any) -> bool:
    """Does a program with these effects use the named axis?"""
    return name is not None and any(
        isinstance(e, fx.NamedAxisEffect) and e.name == name for e in effects
    )


def same_for_all(axis: Any, dims: Sequence[Any], effects: Any) -> bool:
    """Is a program run once for a whole axis? No operand is mapped, it does not use the axis, and
    the elements of the axis are not devices, each of which has the program's effects."""
    if any(d is not None for d in dims) or mentions_axis(effects, axis.name):
        return False
    return not (axis.devices and any(not isinstance(e, fx.NamedAxisEffect) for e in effects))


def _batch(axis: Any, vals: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    if same_for_all(axis, dims, jaxpr.effects):
        return None
    found = ["found"] * len(jaxpr.out_avals)  # axes stay where they are, as far as they can
    batched, out_dims = batch_jaxpr_axes(jaxpr, axis, dims, found)
    ins, outs = params["in_shardings"], params["out_shardings"]
    wanted = [_batched_sharding(axis, s, d) for s, d in zip(ins, dims, strict=True)]
    asked = [_batched_sharding(axis, s, d) for s, d in zip(outs, out_dims, strict=True)]
    result = bind_call(batched, vals, params, wanted, asked, params["donated_invars"])
    return result, list(out_dims)


def _batched_sharding(axis: Any, sharding: Any, dim: int | None) -> Any:
    """The sharding of a batch of what is asked to lie so."""
    if dim is None or not hasattr(sharding, "spec"):
        return sharding
    return sharding.update(spec=with_batch_axis("jit", sharding.spec, dim, batch_over(axis)))


def move_to_front(vals: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Batches with their axes in front."""
    return [v if d is None else moveaxis(v, d, 0) for v, d in zip(vals, dims, strict=True)]


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    closed, used_in = dce_closed(eqn.params["jaxpr"], used)
    donated = [d for d, u in zip(eqn.params["donated_invars"], used_in, strict=True) if u]
    return eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params=call_params(closed, eqn.params["name"], like=eqn.params, donated_invars=donated),
        effects=closed.effects,
    )


def _staging(trace: Any, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
    """A call marked `inline` is written as its operations. ValueError for one that has compiler
    options of its own: they are those of the whole program."""
    if params["compiler_options_kvs"]:
        raise ValueError(
            "`compiler_options` can only be passed to top-level `jax.jit`. Got compiler_options="
            f"{dict(params['compiler_options_kvs'])} specified on a nested jit with name: "
            f"{params['name']} and source info: {user_summary()}. Fix: give them to the outermost "
            "jit."
        )
    if params["inline"]:
        return eval_under(trace, params["jaxpr"], tracers)
    return trace.emit(jit_p, tracers, params)


jit_p = Primitive(
    "jit",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    staging=_staging,
)


def rules_of_calls(as_jit: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The rules of a call that is differentiated and batched as that of a jitted function is, whose
    parameters `as_jit` gives for its own."""

    def of(kind: str) -> Any:
        return lambda *args, **params: jit_p.rule(kind)(*args, **as_jit(params))

    def partial_eval(
        trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        return _partial_eval(trace, unknown, tracers, as_jit(params))

    rules = {kind: of(kind) for kind in ("jvp", "transpose", "axis_batch")}
    return {**rules, "partial_eval": partial_eval}


def _as_jit(params: dict[str, Any]) -> dict[str, Any]:
    return call_params(params["call_jaxpr"], "closed_call")


def _bind_as_jit(*args: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return jit_p.bind(*args, **call_params(call_jaxpr, "closed_call"))


class _CallPrimitive(Primitive):
    """A call of a program: evaluated, differentiated and batched as `jit` is.

    >>> from pullback.extend import core
    >>> core.CallPrimitive("example_call").call_primitive
    True
    """

    call_primitive = True

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            multiple_results=True,
            effectful=True,
            abstract_eval=lambda *avals, call_jaxpr, **_: (
                call_jaxpr.out_avals,
                call_jaxpr.effects,
            ),
            impl=_bind_as_jit,
            **rules_of_calls(_as_jit),
        )

    def bind(self, *args: Any, **params: Any) -> Any:
        """Calls a program, `bind(*args, call_jaxpr=program)`; or a function of arrays that gives a
        list, `bind(fun, *args)`, which is traced first.

        >>> from pullback import core
        >>> program = pullback.make_jaxpr(lambda x: [2 * x])(1.0)
        >>> core.call(1.0, call_jaxpr=program)
        [Array(2., dtype=float32, weak_type=True)]
        """
        if not args or not callable(args[0]):
            return super().bind(*args, **params)
        fun, *operands = args
        run = getattr(fun, "call_wrapped", fun)
        closed, consts = close_jaxpr(*trace_to_jaxpr(run, [typeof(x) for x in operands]))
        return super().bind(*consts, *operands, call_jaxpr=closed, **params)


# Calls without a name of their own, which interpreters of programs look for.
call_p = _CallPrimitive("call")
closed_call_p = _CallPrimitive("closed_call")
for _p in (call_p, closed_call_p):
    _p.rules["discharge"] = lambda args, params: discharging.discharge_closed_call(args, params)
public.CallPrimitive, public.call = _CallPrimitive, call_p.bind
