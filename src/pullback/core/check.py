"""The type checker of jaxprs: run on every intermediate program when `jax_enable_checks` is set,
and by the tests.
"""

from __future__ import annotations

from typing import Any

from .. import config
from ..errors import JaxprTypeError
from . import effects as fx
from .avals import ShapedArray, typematch
from .jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params

_show: Any = config.lazy_module("pullback.core.show")


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raises JaxprTypeError, showing the equations around the fault, if a program breaks the
    grammar: a variable read before it is bound or bound twice, a result whose type is not what the
    primitive's rule gives, or an effect not declared.

    >>> from pullback.extend import core
    >>> core.check_jaxpr(pb.make_jaxpr(lambda x: x + 1)(1.0).jaxpr)
    """
    bound: set[Var] = set()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        if v in bound:
            raise JaxprTypeError(f"variable {v} is bound twice in\n{jaxpr}")
        bound.add(v)
    for k, eqn in enumerate(jaxpr.eqns):
        try:
            _check_eqn(eqn, bound, jaxpr)
        except JaxprTypeError as e:
            around = "\n".join(repr(x) for x in jaxpr.eqns[max(0, k - 5) : k + 5])
            raise JaxprTypeError(f"{e}\nin equation {k}, among\n{around}") from None
    for v in jaxpr.outvars:
        if isinstance(v, Var) and v not in bound:
            raise JaxprTypeError(f"the output {v} is not bound in\n{jaxpr}")


def _check_eqn(eqn: JaxprEqn, bound: set[Var], jaxpr: Jaxpr) -> None:
    for v in eqn.invars:
        if isinstance(v, Var) and v not in bound:
            raise JaxprTypeError(f"variable {v} is not bound where it is read")
        if not isinstance(v, (Var, Literal)):
            raise JaxprTypeError(f"{v!r} is neither a variable nor a literal")
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
        raise JaxprTypeError(
            f"{eqn.primitive} gives {len(avals)} results, the equation binds {len(eqn.outvars)}"
        )
    for aval, v in zip(avals, eqn.outvars, strict=True):
        if not _compatible(aval, v.aval):
            raise JaxprTypeError(
                f"{eqn.primitive} gives {aval.str_short()}, the variable has {v.aval.str_short()}"
            )
        if v in bound:
            raise JaxprTypeError(f"variable {v} is bound twice")
        if not isinstance(v, DropVar):
            bound.add(v)
    missing = fx.join(effects or ()) - eqn.effects
    if missing:
        raise JaxprTypeError(
            f"the equation does not declare the effects {missing} of {eqn.primitive}"
        )
    if not eqn.effects <= jaxpr.effects:
        raise JaxprTypeError(
            f"the program does not declare the effects {eqn.effects - jaxpr.effects}"
        )


def _compatible(a: Any, b: Any) -> bool:
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return typematch(a, b)
    return bool(a == b)


def maybe_check(jaxpr: Jaxpr) -> Jaxpr:
    """Checks when checks are on; returns the program."""
    if config.enable_checks.get():
        check_jaxpr(jaxpr)
    return jaxpr
