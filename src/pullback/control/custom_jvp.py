"""Functions with a forward derivative of their own: `custom_jvp`, and its primitive.

A traced equation holds the program of the function and, late, its rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.avals import typematch, typeof
from ..core.jaxpr import JaxprEqn, jaxpr_as_fun
from ..core.symbolic import SymbolicZero, Zero, instantiate_zeros
from ..core.tracebacks import boundary
from ..core.wrapped import WrappedFun
from .common import check_results, leaf_place, shown_types
from .custom import (
    CustomCallPrimitive,
    CustomDerivative,
    RuleTrees,
    arrays_of,
    assemble,
    by_trace,
    call_abstract_eval,
    check_operand,
    drop_outputs,
    mismatches,
    name_of,
    names_of_leaves,
    shape_and_dtype,
    trace_primal,
    traced_parts,
)


class custom_jvp(CustomDerivative):
    """A function with its own forward derivative.

    `nondiff_argnums`: arguments that the rule gets first, as they are. The rule, set with `defjvp`,
    is `(primals, tangents) -> (output, output tangent)`; `defjvps` takes one rule for each
    argument. Reverse mode transposes it.

    >>> @pb.custom_jvp
    ... def f(x): return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), jnp.cos(x) * t
    >>> pb.grad(f)(0.0)
    Array(1., dtype=float32, weak_type=True)

    `nondiff_argnums` are passed to the rule first, as they are. The rule returns (primal out,
    tangent out), of equal structure.
    """

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule `jvp(*nondiff, primals, tangents)`; returns it."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule by one function `(tangent, primal_out, *primals)` an argument; None where
        the derivative is zero.
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``. Fix: use defjvp.")

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            if len(jvps) != len(tangents):
                raise ValueError(
                    f"defjvps of the custom_jvp function {name_of(self.fun)} was given "
                    f"{len(jvps)} rules, but the function is called with {len(tangents)} "
                    "arguments. Fix: give a rule for each argument, or None."
                )
            terms = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            if not terms:
                return out, tree.tree_map(
                    lambda x: instantiate_zeros(Zero.from_primal_value(x)), out
                )
            return out, functools.reduce(
                lambda a, b: tree.tree_map(lambda x, y: x + y, a, b), terms
            )

        self.defjvp(jvp)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp. Fix: "
                f"add `@{name_of(self.fun)}.defjvp`."
            )
        static, dynamic, n = self._split_args(args, kwargs)
        leaves, in_tree = tree.flatten(tuple(dynamic))
        for k, x in enumerate(leaves):
            check_operand(x, "custom_jvp_call", k)
        held = RuleTrees()
        fun, rule = self.fun, self.jvp
        # What is traced is an operand, if one without derivative: it may be of this very trace.
        traced, static_of = traced_parts(static)
        first = len(traced)

        def flat_fun(*flat: Any) -> list[Any]:
            given = arrays_of(flat)
            rest = tree.unflatten(in_tree, given[first:])
            outs, held.out_tree = tree.flatten(fun(*assemble(static_of(given), rest, n)))
            check_results(outs, held.out_tree, fun, "jvp")
            held.out_avals = [typeof(x) for x in outs]
            return outs

        def flat_jvp(*flat: Any) -> list[Any]:
            half = len(flat) // 2
            given, parts = arrays_of(flat[:half]), arrays_of(flat[half:])
            primals, tangents = (tree.unflatten(in_tree, x[first:]) for x in (given, parts))
            fixed = static_of(given)
            pair = rule(*(fixed[k] for k in sorted(fixed)), primals, tangents)
            return _check_jvp_result(pair, name_of(rule), name_of(fun), held)

        flat_fun.__wrapped__ = fun  # type: ignore[attr-defined]
        flat_fun.leaf_names = names_of_leaves(fun, in_tree, static, n, first)  # type: ignore[attr-defined]
        flat_jvp.__name__ = name_of(rule)
        outs = custom_jvp_call_p.bind(
            *traced,
            *leaves,
            subfuns=(WrappedFun(flat_fun), WrappedFun(flat_jvp)),
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(held.out_tree, outs)


def _check_jvp_result(pair: Any, rule: str, fun: str, held: RuleTrees) -> list[Any]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise TypeError(
            f"Custom JVP rule {rule} for function {fun} must produce a pair (list or tuple of "
            f"length two) representing primal and tangent outputs, but got {pair}. "
            "Fix: return (primal_out, tangent_out)."
        )
    outs, out_tree = tree.flatten(pair[0])
    dots, dot_tree = tree.flatten(pair[1], is_leaf=lambda x: isinstance(x, SymbolicZero))
    if out_tree != dot_tree:
        raise TypeError(
            f"Custom JVP rule {rule} for function {fun} must produce primal and tangent outputs "
            f"with equal container (pytree) structures, but got {out_tree} and {dot_tree} "
            "respectively."
        )
    have = [typeof(x) for x in outs]
    if held.out_tree is not None and held.out_tree != out_tree:
        raise TypeError(
            f"Custom JVP rule {rule} for function {fun} must produce a pair (list or tuple of "
            "length two) where the first element represents the primal output "
            f"(equal in value to the output of the custom_jvp-decorated function {fun}, and in "
            "particular of the same container/pytree structure), but instead the JVP rule "
            "output's first element had container/pytree structure:\n"
            f"    {shown_types(out_tree, have)}\nwhile the custom_jvp-decorated function {fun} had "
            f"output container/pytree structure:\n    {shown_types(held.out_tree, held.out_avals)}."
        )
    pairs = zip(have, held.out_avals, strict=True) if held.out_tree is not None else ()
    if any(shape_and_dtype(a) != shape_and_dtype(b) for a, b in pairs):
        rules, functions = (shown_types(out_tree, avals) for avals in (have, held.out_avals))
        raise TypeError(
            f"Custom JVP rule {rule} for function {fun} must produce a pair (list or tuple of "
            "length two) where the first element represents the primal output (equal in value to "
            f"the output of the custom_jvp-decorated function {fun}, and in particular with leaves "
            "of the same shape/dtype), but instead the JVP rule output's first element had "
            f"shapes/dtypes of:\n    {rules}\nwhile the custom_jvp-decorated function {fun} had "
            f"output shapes/dtypes of:\n    {functions}"
        )
    held.out_tree, held.out_avals = out_tree, have
    wrong = []
    for k, (aval, t) in enumerate(zip(have, dots, strict=True)):
        want, given = aval.to_tangent_aval(), t.aval if isinstance(t, SymbolicZero) else typeof(t)
        if not typematch(want, given):
            wrong.append((aval, want, given, leaf_place(out_tree, k, "the output")))
    if wrong:
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes "
            f"and dtypes{mismatches(wrong, len(dots) == 1)} Fix it in {rule}."
        )
    return [*outs, *dots]


def _selecting(jvp: Callable[..., Any], kept: Sequence[int]) -> Callable[..., Any]:
    """A derivative rule that gives some of its outputs, and their tangents."""

    def selected(*args: Any) -> list[Any]:
        found = jvp(*args)
        n = len(found) // 2
        return [*(found[k] for k in kept), *(found[n + k] for k in kept)]

    selected.__name__ = name_of(jvp)
    return selected


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops outputs and their tangents."""
    kept = [k for k, u in enumerate(used) if u]
    rules = lambda: {"jvp_jaxpr_fun": _selecting(eqn.params["jvp_jaxpr_fun"], kept)}
    return drop_outputs(used, eqn, rules)


class CustomJVPCallPrimitive(CustomCallPrimitive):
    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        n, jvp = params["num_consts"], params["jvp_jaxpr_fun"]

        def late_jvp(*args: Any) -> list[Any]:
            half = len(args) // 2
            return jvp(*args[n:half], *args[half + n :])  # type: ignore[no-any-return]

        late_jvp.__name__ = name_of(jvp)
        subfuns = (jaxpr_as_fun(params["call_jaxpr"]), late_jvp)
        return {
            "symbolic_zeros": params["symbolic_zeros"],
            "subfuns": tuple(map(WrappedFun, subfuns)),
        }


def _stage_jvp_call(
    trace: Any, primitive: Any, fun: Any, jvp: Any, tracers: Any, symbolic_zeros: bool
) -> Any:
    closed, consts = trace_primal(trace, fun, tracers, "custom_jvp")
    params = {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": jvp,
        "num_consts": len(consts),
        "symbolic_zeros": symbolic_zeros,
    }
    return trace.emit(primitive, [*consts, *tracers], params)


custom_jvp_call_p = CustomJVPCallPrimitive(
    "custom_jvp_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=call_abstract_eval,
    jvp=by_trace,
    transpose=by_trace,
    batch=by_trace,
    dce=_dce,
    stage_call=_stage_jvp_call,
)
