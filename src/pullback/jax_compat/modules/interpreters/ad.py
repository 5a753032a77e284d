"""`jax.interpreters.ad`: rules of differentiation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ....core.avals import typeof
from ....core.primitive import Primitive, RuleTable
from ....core.symbolic import UndefinedPrimal as UndefinedPrimal
from ....core.symbolic import Zero as Zero
from ....core.symbolic import instantiate_zero as zeros_like_aval  # noqa: F401
from ....core.symbolic import instantiate_zeros as instantiate_zeros
from ....core.symbolic import is_undefined_primal as is_undefined_primal
from ....primitives.builders import add_any_p as add_jaxvals_p  # noqa: F401
from ....primitives.elementwise import add_jaxvals as add_jaxvals
from ....transforms.jvp import JVPTrace as JVPTrace
from ....transforms.jvp import JVPTracer as JVPTracer
from ....transforms.transpose import add_cotangents as add_tangents
from ....transforms.transpose import backward_pass as backward_pass

primitive_jvps = RuleTable("jvp")
primitive_transposes = RuleTable("transpose")
reducing_transposes: dict[Primitive, Any] = {}


def get_primitive_transpose(p: Primitive) -> Callable[..., Any]:
    return p.rule("transpose")


def defjvp(primitive: Primitive, *jvps: Callable[..., Any] | None) -> None:
    """One rule `(tangent, *primals, **params)` an operand."""
    defjvp2(primitive, *(_without_output(rule) if rule else None for rule in jvps))


def _without_output(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, out, *primals, **params: rule(t, *primals, **params)


def defjvp2(primitive: Primitive, *jvps: Callable[..., Any] | None) -> None:
    """One rule `(tangent, output, *primals, **params)` an operand."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        terms = [
            rule(t, out, *primals, **params)
            for rule, t in zip(jvps, tangents, strict=True)
            if rule is not None and type(t) is not Zero
        ]
        zero = Zero(typeof(out).to_tangent_aval())
        return out, functools.reduce(add_tangents, terms, zero)

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """The primitive is linear in every operand; the rule is `(ct, *primals, **params)`."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, Zero(typeof(out).to_tangent_aval())
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As deflinear2, with the rule `(ct, **params)`."""
    deflinear2(primitive, lambda ct, *_, **params: transpose_rule(ct, **params))


def defbilinear(
    primitive: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]
) -> None:
    """The primitive is linear in each of two operands; rules are `(ct, x, y, **params)`."""
    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x):
            return (Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params)), None
        return None, (Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params))

    primitive_transposes[primitive] = transpose
