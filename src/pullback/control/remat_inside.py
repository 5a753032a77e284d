"""What a policy of `checkpoint` keeps of the operations inside of loops and branches: they give it
as more results, and are computed again with it as more operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core import effects as fx
from ..core.avals import ShapedArray
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from ..dtypes import is_extended
from ..primitives.layout import full_of
from ..transforms.partial_eval import partial_eval_jaxpr
from .cond import cond_p
from .scan import scan_p, stacked

__all__ = ["Kept", "apart", "holds_loops", "is_done_once", "kept_inside"]

_HOLDERS = (scan_p, cond_p)


class Kept(NamedTuple):
    """An equation, in the form that gives `saved` besides its results, and in the one that takes
    them, as its last operands."""

    forward: JaxprEqn
    saved: list[Var]
    again: JaxprEqn


def is_done_once(eqn: JaxprEqn, policy: Callable[..., Any], kept: set[Var]) -> bool:
    """Is an operation an effect (a print) that is not repeated: one that the policy keeps, of
    values of which some are kept and so need not be there again?"""
    return (
        not eqn.outvars
        and not kept.isdisjoint(eqn.invars)
        and policy(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params)
    )


def holds_loops(jaxpr: Jaxpr) -> bool:
    """Has the program loops or branches of known length?"""
    return any(e.primitive in _HOLDERS for e in jaxpr.eqns)


def apart(closed: ClosedJaxpr, unknown: Sequence[bool]) -> ClosedJaxpr:
    """The same program, whose loops and branches compute either what follows from known arguments
    alone, or what does not."""
    known, rest, out_unknown, n = partial_eval_jaxpr(closed, unknown)
    n_known = len(known.jaxpr.outvars) - n

    def fun(*args: Any) -> list[Any]:
        given = [x for x, u in zip(args, unknown, strict=True) if not u]
        found = eval_jaxpr(known.jaxpr, known.consts, *given)
        others = [x for x, u in zip(args, unknown, strict=True) if u]
        later = iter(eval_jaxpr(rest.jaxpr, rest.consts, *found[n_known:], *others))
        now = iter(found[:n_known])
        return [next(later) if u else next(now) for u in out_unknown]

    return close_jaxpr(*trace_to_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info))[0]


def kept_inside(
    eqn: JaxprEqn, policy: Callable[..., Any], inline: Callable[[Jaxpr], Jaxpr]
) -> Kept | None:
    """A loop or branches whose results are known, with what the policy keeps inside; None if it
    keeps nothing. `inline` puts the bodies of calls in the place of the calls."""
    if eqn.primitive is scan_p:
        return _kept_in_scan(eqn, policy, inline)
    return _kept_in_cond(eqn, policy, inline) if eqn.primitive is cond_p else None


class _Split(NamedTuple):
    """A body that gives the values `saved`, too, and one that takes them in front; and the effects
    that the latter has not."""

    forward: Jaxpr
    saved: list[Var]
    again: Jaxpr
    gone: frozenset[Any]


def _split(jaxpr: Jaxpr, policy: Any, inline: Any) -> _Split:
    jaxpr = inline(jaxpr)
    saved: list[Var] = []
    forward, again = [], []
    for eqn in jaxpr.eqns:
        kept = kept_inside(eqn, policy, inline)
        if kept is not None:
            saved += kept.saved
            forward.append(kept.forward)
            again.append(kept.again)
            continue
        if policy(eqn.primitive, *(v.aval for v in eqn.invars), **eqn.params):
            saved += [v for v in eqn.outvars if _can_be_stacked(v)]
        forward.append(eqn)
        again.append(eqn)
    stand_ins = {v: Var(v.aval) for v in saved}
    kept_here = set(saved)
    left = [e for e in again if not is_done_once(e, policy, kept_here)]

    def sub(v: Any) -> Any:
        return stand_ins.get(v, v) if isinstance(v, Var) else v

    eqns = [e.replace(invars=[sub(v) for v in e.invars]) for e in left]
    gone = fx.join(*(e.effects for e in forward)) - fx.join(*(e.effects for e in left))
    return _Split(
        jaxpr.replace(eqns=forward, outvars=[*jaxpr.outvars, *saved]),
        saved,
        jaxpr.replace(
            eqns=eqns, invars=[*stand_ins.values(), *jaxpr.invars],
            outvars=[sub(v) for v in jaxpr.outvars], effects=jaxpr.effects - gone,
        ),
        gone,
    )  # fmt: skip


def _can_be_stacked(v: Var) -> bool:
    """Is it an array of numbers that has a name?"""
    return type(v) is Var and isinstance(v.aval, ShapedArray) and not is_extended(v.aval.dtype)


def _kept_in_scan(eqn: JaxprEqn, policy: Any, inline: Any) -> Kept | None:
    params = eqn.params
    body = params["jaxpr"]
    forward, saved, again, gone = _split(body.jaxpr, policy, inline)
    if not saved:
        return None
    rows = [Var(stacked(v.aval, params["length"])) for v in saved]
    k = len(saved)  # slices come behind the carry: in the end
    again = again.replace(invars=[*again.invars[k:], *again.invars[:k]])
    return Kept(
        eqn.replace(
            params={**params, "jaxpr": ClosedJaxpr(forward, body.consts)},
            outvars=[*eqn.outvars, *rows],
        ),
        rows,
        eqn.replace(
            params={**params, "jaxpr": ClosedJaxpr(again, body.consts)},
            invars=[*eqn.invars, *rows], effects=eqn.effects - gone,
        ),
    )  # fmt: skip


def _kept_in_cond(eqn: JaxprEqn, policy: Any, inline: Any) -> Kept | None:
    splits = [_split(b.jaxpr, policy, inline) for b in eqn.params["branches"]]
    saved = [Var(v.aval) for s in splits for v in s.saved]
    if not saved:
        return None
    left = fx.join(*(s.again.effects for s in splits))
    forward, again, before = [], [], 0
    for branch, split in zip(eqn.params["branches"], splits, strict=True):
        end = before + len(split.saved)
        forward.append(_with_others(branch, split.forward, saved[:before], saved[end:]))
        others = [[Var(v.aval) for v in part] for part in (saved[:before], saved[end:])]
        own, rest = split.again.invars[: end - before], split.again.invars[end - before :]
        jaxpr = split.again.replace(invars=[*rest, *others[0], *own, *others[1]])
        again.append(ClosedJaxpr(jaxpr, branch.consts))
        before = end
    return Kept(
        eqn.replace(params={"branches": tuple(forward)}, outvars=[*eqn.outvars, *saved]),
        saved,
        eqn.replace(
            params={"branches": tuple(again)}, invars=[*eqn.invars, *saved],
            effects=(eqn.effects - fx.join(*(s.gone for s in splits))) | left,
        ),
    )  # fmt: skip


def _with_others(
    branch: ClosedJaxpr, jaxpr: Jaxpr, before: Sequence[Var], behind: Sequence[Var]
) -> ClosedJaxpr:
    """A branch that gives zeros for what others keep."""
    n = len(branch.jaxpr.outvars)

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, branch.consts, *args)
        zeros = [[full_of(v.aval, 0) for v in part] for part in (before, behind)]
        return [*outs[:n], *zeros[0], *outs[n:], *zeros[1]]

    return close_jaxpr(*trace_to_jaxpr(fun, branch.in_avals, jaxpr.debug_info))[0]
