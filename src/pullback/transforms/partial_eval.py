"""Partial evaluation: what is known runs in the parent, what depends on unknowns is staged.

An unknown value is a tracer of the program being staged; a known one is any other value. So an
operation on known values goes to the parent unseen, an operation on an unknown is written into the
program, and the known values that it reads become residuals. A primitive that holds a jaxpr has a
`partial_eval(trace, unknown, tracers, params)` rule that splits the jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.build import JaxprTrace, JaxprTracer, close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from ..core.refs import holds_refs
from ..core.symbolic import Zero, instantiate_zeros
from ..core.trace import Trace, Tracer, current_trace, use_trace


class PartialEvalTrace(Trace):
    """See the module. `staged` is the program of what is unknown."""

    __slots__ = ("staged",)

    def __init__(self, parent_trace: Trace, debug_info: Any = None) -> None:
        super().__init__(parent_trace)
        self.staged = JaxprTrace(parent_trace, debug_info)

    def new_unknown(self, aval: Any) -> JaxprTracer:
        return self.staged.new_arg(aval)

    def is_unknown(self, x: Any) -> bool:
        return isinstance(x, JaxprTracer) and x._trace is self.staged

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        staged, rules = self.staged, primitive.rules
        unknown = [isinstance(x, JaxprTracer) and x._trace is staged for x in tracers]
        if True not in unknown:
            if "always_staged" in rules and rules["always_staged"](self, tracers, params):
                return self.stage(primitive, tracers, params)
            with use_trace(self.parent_trace):  # type: ignore[arg-type]
                return primitive.bind(*tracers, **params)
        if "discharge" in rules and holds_refs(primitive, params):
            with use_trace(self):
                return rules["discharge"](tracers, params)
        rule = rules.get("partial_eval")
        if rule is not None:
            return rule(self, unknown, tracers, params)
        return self.stage(primitive, tracers, params)

    def stage(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
        """Writes an equation into the unknown program."""
        with use_trace(self.staged):
            return primitive.bind(*tracers, **params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        # Only the primal side of a derivative gets here with unknowns: the function itself is run,
        # its parts sort themselves.
        if not any(map(self.is_unknown, tracers)):
            parent: Any = self.parent_trace
            with use_trace(parent):
                return parent.process_custom_jvp_call(
                    primitive, fun, jvp, tracers, symbolic_zeros=symbolic_zeros
                )
        with use_trace(self):
            return fun(*tracers)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        *,
        out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:
        if not any(map(self.is_unknown, tracers)):
            parent: Any = self.parent_trace
            with use_trace(parent):
                return parent.process_custom_vjp_call(
                    primitive,
                    fun,
                    fwd,
                    bwd,
                    tracers,
                    out_trees=out_trees,
                    symbolic_zeros=symbolic_zeros,
                )
        with use_trace(self):
            return fun(*tracers)

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The staged program with these results, and its residuals."""
        jaxpr, residuals = self.staged.finish(outs)
        self.invalidate()
        return jaxpr, residuals


def staged_zeros(tangent: Any) -> Any:
    """A tangent, zeros if it is a Zero; under partial evaluation the unknown program makes them, so
    that they are no residual.
    """
    trace = current_trace()
    if type(tangent) is not Zero or not isinstance(trace, PartialEvalTrace):
        return instantiate_zeros(tangent)
    with use_trace(trace.staged):
        return instantiate_zeros(tangent)


def partial_eval_jaxpr(
    closed: ClosedJaxpr, unknown: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], int]:
    """Splits a program by which arguments are unknown.

    Returns (known, unknown, out_unknown, n): `known` takes the known arguments and gives the known
    results and then n residuals; `unknown` takes the residuals and then the unknown arguments and
    gives the unknown results. Results marked by `instantiate` are made unknown. Remembered.
    """
    want = (
        [instantiate] * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else list(instantiate)
    )
    key = ("partial_eval", tuple(unknown), tuple(want))
    if key in closed.derived:
        return closed.derived[key]  # type: ignore[no-any-return]
    held: dict[str, Any] = {}

    def known_fun(*known_args: Any) -> list[Any]:
        outer = current_trace()
        trace = PartialEvalTrace(outer, closed.jaxpr.transformed_info)
        rest = iter(known_args)
        args = [
            trace.new_unknown(aval) if uk else next(rest)
            for aval, uk in zip(closed.in_avals, unknown, strict=True)
        ]
        with use_trace(trace):
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        out_unknown = [trace.is_unknown(x) or w for x, w in zip(outs, want, strict=True)]
        unknown_outs = [x for x, uk in zip(outs, out_unknown, strict=True) if uk]
        jaxpr, residuals = without_dead(*trace.finish(unknown_outs))
        held.update(jaxpr=jaxpr, out_unknown=out_unknown)
        traced = [isinstance(r, Tracer) for r in residuals]
        held.update(
            traced=traced, consts=[r for r, t in zip(residuals, traced, strict=True) if not t]
        )
        known_outs = [x for x, uk in zip(outs, out_unknown, strict=True) if not uk]
        return [*known_outs, *(r for r, t in zip(residuals, traced, strict=True) if t)]

    known_avals = [a for a, uk in zip(closed.in_avals, unknown, strict=True) if not uk]
    known = close_jaxpr(*trace_to_jaxpr(known_fun, known_avals, closed.jaxpr.transformed_info))[0]
    # What nothing needs goes here, as in JAX: a second derivative never meets its rules.
    known = dce_closed(known, [True] * len(known.jaxpr.outvars), True)[0]
    jaxpr, traced = held["jaxpr"], held["traced"]
    residual_vars = [v for v, t in zip(jaxpr.constvars, traced, strict=True) if t]
    const_vars = [v for v, t in zip(jaxpr.constvars, traced, strict=True) if not t]
    staged = ClosedJaxpr(
        jaxpr.replace(constvars=const_vars, invars=[*residual_vars, *jaxpr.invars]), held["consts"]
    )
    result = known, staged, held["out_unknown"], len(residual_vars)
    closed.derived[key] = result
    return result


def without_dead(jaxpr: Jaxpr, consts: list[Any]) -> tuple[Jaxpr, list[Any]]:
    """A program and its constants without what its results do not need."""
    jaxpr = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)[0]
    return _without_unread(jaxpr, consts)


def _without_unread(jaxpr: Jaxpr, consts: list[Any]) -> tuple[Jaxpr, list[Any]]:
    """The same without the constants that nothing reads."""
    if not jaxpr.constvars:
        return jaxpr, consts
    read = {v for e in jaxpr.eqns for v in e.invars}
    read.update(jaxpr.outvars)
    keep = [v in read for v in jaxpr.constvars]
    if all(keep):
        return jaxpr, consts
    constvars = [v for v, k in zip(jaxpr.constvars, keep, strict=True) if k]
    return jaxpr.replace(constvars=constvars), [c for c, k in zip(consts, keep, strict=True) if k]


def forward_residuals(known: ClosedJaxpr, n: int) -> tuple[ClosedJaxpr, list[tuple[str, int]]]:
    """Drops residuals that are an argument or another result of the known program.

    Returns the smaller program and, for each residual, where to find it: ("in", k), ("out", k) or
    ("res", k).
    """
    jaxpr = known.jaxpr
    first = len(jaxpr.outvars) - n
    ins = {v: k for k, v in enumerate(jaxpr.invars)}
    outs = {v: k for k, v in reversed(list(enumerate(jaxpr.outvars[:first]))) if isinstance(v, Var)}
    kept: list[Any] = []
    where: list[tuple[str, int]] = []
    for v in jaxpr.outvars[first:]:
        if isinstance(v, Var) and v in ins:
            where.append(("in", ins[v]))
        elif isinstance(v, Var) and v in outs:
            where.append(("out", outs[v]))
        else:
            where.append(("res", len(kept)))
            kept.append(v)
    if len(kept) == n:
        return known, where
    key = ("forward_residuals", n)
    if key not in known.derived:
        known.derived[key] = known.replace(
            jaxpr=jaxpr.replace(outvars=[*jaxpr.outvars[:first], *kept])
        )
    return known.derived[key], where


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Drops the results that are not used and every equation that nothing then needs. Effects are
    kept.

    Returns the smaller program and which inputs it still takes (those marked by `instantiate`
    stay).

    >>> from pullback.interpreters import partial_eval as pe
    >>> program = pb.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0)
    >>> smaller, used = pe.dce_jaxpr(program.jaxpr, [True, False])
    >>> used, len(smaller.eqns)
    ([True, False], 1)
    """
    keep_in = (
        [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    )
    key = ("dce", tuple(used_outputs), tuple(keep_in))
    if key in jaxpr.derived:
        smaller, used_in = jaxpr.derived[key]
        return (jaxpr if smaller is None else smaller), used_in
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live = set(outvars)
    eqns: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if live.isdisjoint(eqn.outvars) and not eqn.effects:
            continue
        rule = eqn.primitive.rules.get("dce")
        if rule is not None:
            new = rule([v in live for v in eqn.outvars], eqn)
            if new is None:
                continue
            eqn = eqn if _unchanged(eqn, new) else new
        eqns.append(eqn)
        live.update(eqn.invars)
    used_in = [v in live or keep for v, keep in zip(jaxpr.invars, keep_in, strict=True)]
    invars = [v for v, used in zip(jaxpr.invars, used_in, strict=True) if used]
    eqns.reverse()
    whole = all(used_outputs) and all(used_in) and len(eqns) == len(jaxpr.eqns)
    if whole and all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        # The same object keeps what was derived from it; it does not hold itself.
        jaxpr.derived[key] = None, used_in
        return jaxpr, used_in
    effects = frozenset().union(*(e.effects for e in eqns)) if eqns else frozenset()
    smaller = jaxpr.replace(invars=invars, outvars=outvars, eqns=eqns, effects=effects)
    jaxpr.derived[key] = smaller, used_in
    return smaller, used_in


def _unchanged(old: JaxprEqn, new: JaxprEqn) -> bool:
    """Whether a rule found nothing to drop from an equation."""
    return (
        len(old.invars) == len(new.invars)
        and len(old.outvars) == len(new.outvars)
        and all(_same(old.params[k], new.params.get(k)) for k in old.params)
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (isinstance(a, int) and a == b)


def dce_closed(
    closed: ClosedJaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """`dce_jaxpr` of a closed program; constants that nothing reads go too."""
    jaxpr, used_in = dce_jaxpr(closed.jaxpr, used_outputs, instantiate)
    jaxpr, consts = _without_unread(jaxpr, closed.consts)
    return (closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, consts)), used_in


def used_carries(jaxpr: Jaxpr, used: Sequence[bool], first: int, count: int) -> list[bool]:
    """Which of the first `count` results of a loop's body somebody needs: those marked in `used`
    and, since result k is argument `first + k` of the next step, what they read of the last one.

    Walks from what is needed to what it reads, each equation once, however long the chain is by
    which carries need each other.
    """
    needed = list(used[:count])
    if all(needed):
        return needed
    carried = {v: k for k, v in enumerate(jaxpr.invars[first : first + count])}
    made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    live: set[Any] = set()
    walk = [v for v, u in zip(jaxpr.outvars, used, strict=True) if u]
    asked = {id(eqn): eqn for eqn in jaxpr.eqns if eqn.effects}  # which of their reads they need
    while walk or asked:
        if not walk:
            walk += _reads(asked.popitem()[1], live)
            continue
        v = walk.pop()
        if not isinstance(v, Var) or v in live:
            continue
        live.add(v)
        k = carried.get(v)
        if k is not None:
            if not needed[k]:
                needed[k] = True
                walk.append(jaxpr.outvars[k])
        elif (eqn := made_by.get(v)) is not None:
            if "dce" in eqn.primitive.rules:
                asked[id(eqn)] = eqn
            else:
                walk += eqn.invars
    return needed


def _reads(eqn: JaxprEqn, live: set[Any]) -> Sequence[Any]:
    """What an equation reads of which these results are needed."""
    rule = eqn.primitive.rules.get("dce")
    if rule is None:
        return eqn.invars
    smaller = rule([v in live for v in eqn.outvars], eqn)
    return () if smaller is None else smaller.invars
