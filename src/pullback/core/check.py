"""The type checker of jaxprs: run on every intermediate program when `jax_enable_checks` is set,
and by the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import JaxprTypeError
from ..lazy_imports import lazy_module
from . import effects as fx
from .avals import ShapedArray, typematch
from .jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params

_show: Any = lazy_module("pullback.core.show")
_AROUND = 10  # equations before and after a faulty one that a message shows
_CALLS = {"jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


class _FaultError(Exception):
    """A fault: a text with places for the names of variables, and these."""


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raises JaxprTypeError, showing the equations around the fault, if a program breaks the
    grammar: a variable read before it is bound or bound twice, a result whose type is not what the
    primitive's rule gives, operands that do not fit the programs that an equation holds, or an
    effect not declared.

    >>> from pullback.extend import core
    >>> core.check_jaxpr(pb.make_jaxpr(lambda x: x + 1)(1.0).jaxpr)
    """
    bound: set[Var] = set()
    k = None
    try:
        for v in (*jaxpr.constvars, *jaxpr.invars):
            _bind(v, bound)
        for k, eqn in enumerate(jaxpr.eqns):  # noqa: B007
            _check_eqn(eqn, bound, jaxpr)
        k = None
        for v in jaxpr.outvars:
            _read(v, bound)
    except _FaultError as fault:
        raise JaxprTypeError(_told(fault, jaxpr, k)) from None


def _told(fault: _FaultError, jaxpr: Jaxpr, k: int | None) -> str:
    """The message: what is wrong, in which equation, and the program around it."""
    context, settings = _show.Context(), _show.Settings()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        context.var_name(v)
    for eqn in jaxpr.eqns:
        for v in (*eqn.outvars, *eqn.invars):
            if isinstance(v, Var) and not isinstance(v, DropVar):
                context.var_name(v)
    said, *variables = fault.args
    parts = [said.format(*(context.var_name(v) for v in variables))]
    shown, first, last = jaxpr, 0, len(jaxpr.eqns)
    if k is not None:
        eqn = jaxpr.eqns[k]
        text = _show.layout(_show.Nest(2, _show.eqn_doc(eqn, context, settings)))
        parts.append(f"in equation:\n\n{text}")
        parts.append(f"from source: {eqn.source_info.summary() if eqn.source_info else ''}")
        first, last = max(0, k - _AROUND), min(last, k + _AROUND)
        shown = jaxpr.replace(eqns=jaxpr.eqns[first:last])
    lines = str(_show.jaxpr_doc(shown, context, settings)).split("\n")
    if first:
        lines.insert(1, "    ...")
    if last < len(jaxpr.eqns):
        lines.insert(-1, "    ...")
    parts.append("while checking jaxpr:\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _bind(v: Any, bound: set[Var]) -> None:
    if v in bound:
        raise _FaultError("Variable '{}' already bound", v)
    if not isinstance(v, DropVar):
        bound.add(v)


def _read(v: Any, bound: set[Var]) -> None:
    if isinstance(v, Var) and v not in bound:
        raise _FaultError("Variable '{}' not defined", v)


def _fault(said: str) -> _FaultError:
    return _FaultError(said.replace("{", "{{").replace("}", "}}"))


def _check_eqn(eqn: JaxprEqn, bound: set[Var], jaxpr: Jaxpr) -> None:
    for v in eqn.invars:
        _read(v, bound)
        if not isinstance(v, (Var, Literal)):
            raise _fault(f"{v!r} is neither a variable nor a literal")
    _check_call(eqn)
    for sub in jaxprs_in_params(eqn.params):
        check_jaxpr(sub)
    if eqn.primitive.has_rule("typecheck"):
        rule = eqn.primitive.rule("typecheck")
        avals, effects = rule(
            lambda: (_show.Context(), _show.Settings()), *eqn.invars, **eqn.params
        )
    else:
        avals, effects = eqn.primitive.abstract_eval(*[v.aval for v in eqn.invars], **eqn.params)
    avals = avals if eqn.primitive.multiple_results else [avals]
    if len(avals) != len(eqn.outvars):
        raise _fault(
            f"{eqn.primitive} gives {len(avals)} results, the equation binds {len(eqn.outvars)}"
        )
    for aval, v in zip(avals, eqn.outvars, strict=True):
        if not _compatible(aval, v.aval):
            have, want = (_show.aval_text(a) for a in (aval, v.aval))
            raise _FaultError(
                "Value for variable '{}' inconsistently typed as "
                f"{have} for let-binder of type {want}",
                v,
            )
        _bind(v, bound)
    inferred = fx.join(effects or ())
    if inferred - eqn.effects:
        raise _fault(
            "Inferred effects do not match equation effects. Equation effects: "
            f"{set(eqn.effects)}. Inferred effects: {set(inferred)}"
        )
    for effect in eqn.effects - jaxpr.effects:
        raise _fault(
            f"Equation effect not present in jaxpr effects. Equation effect: {effect}. Jaxpr "
            f"effects: {set(jaxpr.effects)}"
        )


def _check_call(eqn: JaxprEqn) -> None:
    """A fault if operands do not fit the programs that an equation calls."""
    name, avals = eqn.primitive.name, [v.aval for v in eqn.invars]
    if name == "cond":
        _check_branches(avals, [b.jaxpr for b in eqn.params["branches"]])
    inner = eqn.params.get(_CALLS.get(name, ""))
    if inner is None:
        return
    wanted = [v.aval for v in getattr(inner, "jaxpr", inner).invars]
    if len(wanted) != len(avals):
        raise _fault(
            f"Call primitive {name} with {len(avals)} operands cannot call jaxpr with "
            f"{len(wanted)} inputs"
        )
    for v, have, want in zip(eqn.invars, avals, wanted, strict=True):
        if not _compatible(have, want):
            raise _fault(
                f"Call primitive {name} passes operand {v} of type {have} to jaxpr expecting type "
                f"{want}"
            )


def _check_branches(avals: Sequence[Any], branches: Sequence[Jaxpr]) -> None:
    first = branches[0]
    for k, other in enumerate(branches[1:], 1):
        for what, verb, mine, its in (
            ("inputs", "takes", first.invars, other.invars),
            ("values", "outputs", first.outvars, other.outvars),
        ):
            if len(mine) != len(its):
                raise _fault(
                    f"cond branch 0 {verb} {len(mine)} {what}, branch {k} {verb} {len(its)}"
                )
            if not all(_compatible(a.aval, b.aval) for a, b in zip(mine, its, strict=True)):
                kind = "input" if what == "inputs" else "output"
                raise _fault(
                    f"cond branches 0 and {k} have mismatching {kind} types: "
                    f"{_types(v.aval for v in mine)} vs {_types(v.aval for v in its)}"
                )
    wanted = [v.aval for v in first.invars]
    if len(avals) != 1 + len(wanted):
        raise _fault(
            f"cond called with {len(avals) - 1} non-predicate operands, but branches take "
            f"{len(wanted)} inputs"
        )
    if avals[0].dtype != "int32":
        raise _fault(f"cond called with index of type {avals[0].dtype} instead of int32")
    if not all(map(_compatible, avals[1:], wanted)):
        raise _fault(
            f"cond branches take input types {_types(wanted)}, called with operands of type "
            f"{_types(avals[1:])}"
        )


def _types(avals: Any) -> str:
    return ", ".join(a.str_short() for a in avals)


def _compatible(a: Any, b: Any) -> bool:
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return typematch(a, b)
    return bool(a == b)
