"""Transposition: walk a linear program backwards, asking each primitive for the transpose of what
it does to its linear operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import current_trace
from ..core.tracebacks import replaying
from ..primitives.elementwise import add_jaxvals


def add_cotangents(a: Any, b: Any) -> Any:
    """The sum of two cotangents, either of which may be Zero or None."""
    if a is None or type(a) is Zero:
        return b
    if b is None or type(b) is Zero:
        return a
    return add_jaxvals(a, b)


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cts: Sequence[Any],
    sums: Mapping[int, Any] = MappingProxyType({}),
) -> list[Any]:
    """The cotangents of the linear inputs of a program: those whose entry in `args` is
    UndefinedPrimal (others give None). `sums`: what they are added to, by the input's number.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Var] = set()
    for v, x in zip(jaxpr.invars, args, strict=True):
        if type(x) is UndefinedPrimal:
            linear.add(v)
        else:
            env[v] = x
    eqns = _forward(jaxpr, env, linear)
    ct_env: dict[Var, Any] = {jaxpr.invars[k]: x for k, x in sums.items()}

    def write(v: Any, ct: Any) -> None:
        if ct is None or type(ct) is Zero or isinstance(v, Literal):
            return
        ct_env[v] = add_jaxvals(ct_env[v], ct) if v in ct_env else ct

    for v, ct in zip(jaxpr.outvars, cts, strict=True):
        if isinstance(v, Var) and v in linear:
            write(v, ct)
    acting = _acting_on_zeros(jaxpr, eqns)
    for eqn in reversed(eqns):
        outs = [ct_env.pop(v, None) for v in eqn.outvars]
        if all(ct is None for ct in outs) and id(eqn) not in acting:
            continue
        full = [
            Zero(v.aval.to_ct_aval()) if ct is None else ct
            for v, ct in zip(eqn.outvars, outs, strict=True)
        ]
        with replaying(eqn.source_info):
            for v, ct in zip(eqn.invars, _transpose_eqn(eqn, full, env, linear), strict=True):
                write(v, ct)
    return [
        (ct_env.get(v) if v in ct_env else Zero(v.aval.to_ct_aval())) if v in linear else None
        for v in jaxpr.invars
    ]


def _acts_on_zeros(eqn: JaxprEqn) -> bool:
    """Does the equation's transpose count even if no cotangent reaches it? A user's backward rule
    does: some hand values, such as new scales, on as gradients."""
    rule = eqn.primitive.rules.get("acts_on_zeros")
    return rule is not None and rule(eqn.params)


def _acting_on_zeros(jaxpr: Jaxpr, eqns: Sequence[JaxprEqn]) -> set[int]:
    """The identities of such equations among those that the results depend on."""
    if not any(map(_acts_on_zeros, eqns)):
        return set()
    live = {v for v in jaxpr.outvars if isinstance(v, Var)}
    found = set()
    for eqn in reversed(eqns):
        if live.isdisjoint(eqn.outvars):
            continue
        live.update(v for v in eqn.invars if isinstance(v, Var))
        if _acts_on_zeros(eqn):
            found.add(id(eqn))
    return found


def holds_acting_on_zeros(jaxpr: Jaxpr) -> bool:
    """Is there an equation in the program, or in one that it holds, that acts on zeros?"""
    found = jaxpr.derived.get("acts on zeros")
    if found is None:
        found = any(map(_acts_on_zeros, jaxpr.eqns)) or any(
            map(holds_acting_on_zeros, subjaxprs(jaxpr))
        )
        jaxpr.derived["acts on zeros"] = found
    return bool(found)


def _transpose_eqn(
    eqn: JaxprEqn, cts: list[Any], env: dict[Var, Any], linear: set[Var]
) -> list[Any]:
    operands = [
        v.val if isinstance(v, Literal) else UndefinedPrimal(v.aval) if v in linear else env[v]
        for v in eqn.invars
    ]
    rule = eqn.primitive.rule("transpose")
    result = rule(cts if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
    return [None] * len(eqn.invars) if type(result) is Zero else list(result)


def _forward(jaxpr: Jaxpr, env: dict[Var, Any], linear: set[Var]) -> list[JaxprEqn]:
    """Evaluates the equations without linear operands; returns the linear ones."""
    rest = []
    for eqn in jaxpr.eqns:
        if any(isinstance(v, Var) and v in linear for v in eqn.invars):
            linear.update(eqn.outvars)
            rest.append(eqn)
            continue
        operands = [v.val if isinstance(v, Literal) else env[v] for v in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        with replaying(eqn.source_info):
            out = eqn.primitive.bind(*operands, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return rest


def _given_ct_aval(aval: Any) -> Any:
    """The type of a cotangent that is not zero: derivatives of integers are, so that where there is
    one, a linear function of integers is being transposed."""
    ct_aval = aval.to_ct_aval()
    return aval if getattr(ct_aval, "dtype", None) == dtypes.float0 else ct_aval


def _as_weak_as(aval: Any, ct: Any) -> Any:
    weak = type(ct) is not Zero and getattr(typeof(ct), "weak_type", None)
    if type(aval) is not ShapedArray or type(weak) is not bool or aval.weak_type == weak:
        return aval
    return aval.update(weak_type=weak)


def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: Sequence[bool],
    ct_zeros: Sequence[bool],
    cts: Sequence[Any] | None = None,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program (non-linear arguments, non-zero cotangents) -> non-zero cotangents of the linear
    arguments. The cotangents are as weak as `cts`, else as the results.

    Also returns, for each linear argument, whether its cotangent is zero (and so is not among the
    results). Remembered.
    """
    given = [_given_ct_aval(a) for a in closed.out_avals]
    if cts is not None:
        given = list(map(_as_weak_as, given, cts))
    ct_avals = tuple(a for a, zero in zip(given, ct_zeros, strict=True) if not zero)
    key = ("transpose", tuple(linear), tuple(ct_zeros), ct_avals)
    if key in closed.derived:
        return closed.derived[key]  # type: ignore[no-any-return]
    n = sum(not lin for lin in linear)
    out_zeros: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        known, rest = iter(args[:n]), iter(args[n:])
        ins = [
            UndefinedPrimal(a) if lin else next(known)
            for a, lin in zip(closed.in_avals, linear, strict=True)
        ]
        cts = [
            Zero(a.to_ct_aval()) if z else next(rest)
            for a, z in zip(closed.out_avals, ct_zeros, strict=True)
        ]
        result = backward_pass(closed.jaxpr, closed.consts, ins, cts)
        wanted = [ct for ct, lin in zip(result, linear, strict=True) if lin]
        out_zeros[:] = [type(ct) is Zero for ct in wanted]
        return [ct for ct in wanted if type(ct) is not Zero]

    avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]
    avals += ct_avals
    result = close_jaxpr(*trace_to_jaxpr(fun, avals, closed.jaxpr.transformed_info))[0], out_zeros
    closed.derived[key] = result
    return result


__all__ = [
    "add_cotangents",
    "backward_pass",
    "current_trace",
    "holds_acting_on_zeros",
    "instantiate_zeros",
    "transpose_jaxpr",
]
