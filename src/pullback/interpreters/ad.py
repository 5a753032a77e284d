"""Rules of differentiation: the tables, and what rules are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import typeof
from ..core.primitive import Primitive, RuleTable
from ..core.symbolic import (
    UndefinedPrimal as UndefinedPrimal,
    Zero as Zero,
    instantiate_zero as _zeros,
    instantiate_zeros as _instantiate,
    is_undefined_primal as is_undefined_primal,
)
from ..primitives.builders import add_any_p as add_jaxvals_p  # noqa: F401
from ..primitives.elementwise import add_jaxvals as add_jaxvals
from ..transforms.jvp import JVPTrace as JVPTrace, JVPTracer as JVPTracer, jvp_flat as _jvp_flat
from ..transforms.linearize import linearize_flat as _linearize_flat
from ..transforms.transpose import add_cotangents as _add, backward_pass as backward_pass

primitive_jvps = RuleTable("jvp")
primitive_transposes = RuleTable("transpose")
reducing_transposes: dict[Primitive, Any] = {}


def zeros_like_aval(aval: Any) -> Any:
    """An array of zeros of a type.

    >>> pb.interpreters.ad.zeros_like_aval(pb.typeof(jnp.ones(2)))
    Array([0., 0.], dtype=float32)
    """
    return _zeros(aval)


def instantiate_zeros(tangent: Any) -> Any:
    """A tangent, as an array: the zeros that a Zero stands for.

    >>> from pullback.interpreters import ad
    >>> ad.instantiate_zeros(ad.Zero(pb.typeof(jnp.ones(2))))
    Array([0., 0.], dtype=float32)
    """
    return _instantiate(tangent)


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a Zero.

    >>> from pullback.interpreters import ad
    >>> ad.add_tangents(ad.Zero(pb.typeof(1.0)), 2.0)
    2.0
    """
    return _add(x, y)


def jvp(
    fun: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
    instantiate: bool | Sequence[bool] = True,
    transform_stack: bool = True,
) -> Any:
    """(results, their tangents) of a function of arrays that gives a list of arrays, at `primals`
    along `tangents`, which may be Zeros. With `has_aux` the function gives (list, aux), and aux is
    the third result. Tangents of results that are zero are arrays where `instantiate` says so.

    >>> pb.interpreters.ad.jvp(lambda x: [x * x], (3.0,), (1.0,))
    ([Array(9., dtype=float32, weak_type=True)], [Array(6., dtype=float32, weak_type=True)])
    """
    aux: list[Any] = []
    outs, dots = _jvp_flat(_flat(fun, has_aux, aux), primals, tangents)
    want = [instantiate] * len(dots) if isinstance(instantiate, bool) else list(instantiate)
    dots = [_instantiate(t) if w else t for t, w in zip(dots, want, strict=True)]
    return (outs, dots, aux[0]) if has_aux else (outs, dots)


def linearize(
    traceable: Any, primals_ft: Sequence[Any], has_aux: bool = False, is_vjp: bool = False
) -> Any:
    """(results, types of their tangents, linear program, its constants) of a function of arrays
    that gives a list of arrays, at a point; and aux at the end, with `has_aux`. The program takes
    the constants and the tangents of the arguments; a tangent that is zero is None among the types.

    >>> from pullback.interpreters import ad
    >>> results, types, program, consts = ad.linearize(lambda x: [x * x], (3.0,))
    >>> results, [str(e.primitive) for e in program.eqns]
    ([Array(9., dtype=float32, weak_type=True)], ['mul', 'mul', 'add_any'])
    """
    aux: list[Any] = []
    outs, zeros, jaxpr, consts = _linearize_flat(_flat(traceable, has_aux, aux), primals_ft)
    types = [
        typeof(x).to_tangent_aval() if z is None else None for x, z in zip(outs, zeros, strict=True)
    ]
    found = (outs, types, jaxpr, consts)
    return (*found, aux[0]) if has_aux else found


def _flat(fun: Any, has_aux: bool, aux: list[Any]) -> Callable[..., Sequence[Any]]:
    """A (wrapped) function; what it gives beside its results goes to `aux`."""
    run = getattr(fun, "call_wrapped", fun)

    def main(*args: Any) -> Any:
        if not has_aux:
            return run(*args)
        outs, held = run(*args)
        aux.append(held)
        return outs

    return main


def get_primitive_transpose(p: Primitive) -> Callable[..., Any]:
    """The transposition rule of a primitive. Raises NotImplementedError if it has none.

    >>> rule = pb.interpreters.ad.get_primitive_transpose(lax.neg_p)
    >>> callable(rule)
    True
    """
    return p.rule("transpose")


def defjvp(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """One rule `(tangent, *primals, **params)` an operand.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import ad
    >>> cube_p = core.Primitive("example_cube")
    >>> _ = cube_p.def_impl(lambda x: x**3), cube_p.def_abstract_eval(lambda aval: aval)
    >>> ad.defjvp(cube_p, lambda t, x: 3 * x**2 * t)
    >>> pb.jvp(cube_p.bind, (2.0,), (1.0,))
    (Array(8., dtype=float32, weak_type=True), Array(12., dtype=float32, weak_type=True))
    """
    defjvp2(primitive, *(_without_output(rule) if rule else None for rule in jvprules))


def _without_output(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, out, *primals, **params: rule(t, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """One rule `(tangent, output, *primals, **params)` an operand.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import ad
    >>> exp_p = core.Primitive("example_exp")
    >>> _ = exp_p.def_impl(jnp.exp), exp_p.def_abstract_eval(lambda aval: aval)
    >>> ad.defjvp2(exp_p, lambda t, result, x: result * t)
    >>> pb.jvp(exp_p.bind, (0.0,), (2.0,))
    (Array(1., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        terms = [
            rule(t, out, *primals, **params)
            for rule, t in zip(jvprules, tangents, strict=True)
            if rule is not None and type(t) is not Zero
        ]
        zero = Zero(typeof(out).to_tangent_aval())
        return out, functools.reduce(add_tangents, terms, zero)

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """The primitive is linear in every operand; the rule is `(ct, *primals, **params)`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import ad
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> ad.deflinear2(double_p, lambda ct, x: [double_p.bind(ct)])
    >>> pb.grad(double_p.bind)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, Zero(typeof(out).to_tangent_aval())
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As deflinear2, with the rule `(ct, **params)`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import ad
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> ad.deflinear(double_p, lambda ct: [double_p.bind(ct)])
    >>> pb.grad(double_p.bind)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    deflinear2(primitive, lambda ct, *_, **params: transpose_rule(ct, **params))


def defbilinear(
    prim: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]
) -> None:
    """The primitive is linear in each of two operands; rules are `(ct, x, y, **params)`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import ad
    >>> times_p = core.Primitive("example_times")
    >>> _ = times_p.def_impl(lambda x, y: x * y), times_p.def_abstract_eval(lambda x, y: x)
    >>> ad.defbilinear(times_p, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)
    >>> pb.grad(times_p.bind, argnums=(0, 1))(2.0, 3.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    defjvp(
        prim,
        lambda t, x, y, **params: prim.bind(t, y, **params),
        lambda t, x, y, **params: prim.bind(x, t, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x):
            return (Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params)), None
        return None, (Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params))

    primitive_transposes[prim] = transpose
