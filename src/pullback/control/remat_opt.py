"""Forward rules that are only run where their residuals are needed: `defvjp(..., optimize_remat=
True)`. The equation `remat_opt` holds the program of the forward rule, and that of the function
itself for where nobody reads the residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, JaxprEqn, Var, eval_jaxpr
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..transforms.batch import batch_jaxpr, moveaxis
from ..transforms.jvp import jvp_jaxpr
from .call import closed_call_p

__all__ = ["forward_or_primal", "remat_opt_p"]


def forward_or_primal(
    fwd: Callable[..., Any], primal: Callable[..., Any], args: Sequence[Any], out_trees: Any
) -> list[Any]:
    """What `fwd(*args)` gives, outputs before residuals, by an equation that becomes a call of
    `primal` where dead code is dropped and no residual is read.
    """

    def residuals_first(*xs: Any) -> list[Any]:
        results = fwd(*xs)
        n = len(results) - out_trees().num_residuals
        return [*results[n:], *results[:n]]

    avals = [typeof(x) for x in args]
    forward, consts = close_jaxpr(*trace_to_jaxpr(residuals_first, avals))
    plain, more = close_jaxpr(*trace_to_jaxpr(primal, avals))
    num_res = out_trees().num_residuals
    # Both programs take all that either closes over.
    forward = _with_unused(forward, len(consts), [typeof(x) for x in more])
    plain = _with_unused(plain, 0, [typeof(x) for x in consts])
    outs = remat_opt_p.bind(
        *consts,
        *more,
        *args,
        num_consts=len(consts) + len(more),
        num_res=num_res,
        fwd_jaxpr=forward,
        fun_jaxpr_thunk=lambda: plain,
    )
    return [*outs[num_res:], *outs[:num_res]]


def _with_unused(closed: ClosedJaxpr, at: int, avals: Sequence[Any]) -> ClosedJaxpr:
    """A program with more arguments, which it does not read."""
    if not avals:
        return closed
    invars = closed.jaxpr.invars
    more = [Var(a) for a in avals]
    return closed.replace(jaxpr=closed.jaxpr.replace(invars=[*invars[:at], *more, *invars[at:]]))


def _run(*args: Any, fwd_jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return eval_jaxpr(fwd_jaxpr.jaxpr, fwd_jaxpr.consts, *args)


def _jvp(primals: Any, tangents: Any, *, fwd_jaxpr: ClosedJaxpr, **params: Any) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, out_nonzeros = jvp_jaxpr(fwd_jaxpr, nonzeros, False)
    given = [t for t, nz in zip(tangents, nonzeros, strict=True) if nz]
    outs = closed_call_p.bind(*primals, *given, call_jaxpr=jvp)
    n = len(fwd_jaxpr.out_avals)
    rest = iter(outs[n:])
    dots = [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(fwd_jaxpr.out_avals, out_nonzeros, strict=True)
    ]
    return outs[:n], dots


def _batch(
    axis: Any, args: Any, dims: Any, *, fwd_jaxpr: Any, fun_jaxpr_thunk: Any, **params: Any
) -> Any:
    flags = [d is not None for d in dims]
    if not any(flags):
        return None
    moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    forward, _ = batch_jaxpr(fwd_jaxpr, axis, flags, True)
    outs = remat_opt_p.bind(
        *moved,
        fwd_jaxpr=forward,
        fun_jaxpr_thunk=lambda: batch_jaxpr(fun_jaxpr_thunk(), axis, flags, True)[0],
        **params,
    )
    return outs, [0] * len(outs)


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    n = eqn.params["num_res"]
    if any(used[:n]) or not any(used[n:]):
        return eqn
    plain = eqn.params["fun_jaxpr_thunk"]()
    return eqn.replace(
        primitive=closed_call_p,
        outvars=eqn.outvars[n:],
        params={"call_jaxpr": plain},
        effects=plain.effects,
    )


remat_opt_p = Primitive(
    "remat_opt",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda *avals, fwd_jaxpr, **_: (fwd_jaxpr.out_avals, fwd_jaxpr.effects),
    impl=_run,
    jvp=_jvp,
    transpose=No.NOT_LINEAR,
    axis_batch=_batch,
    dce=_dce,
)
