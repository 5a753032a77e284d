"""Taylor series along a path: `jet`, forward mode of any order at polynomial cost.

A trace's values are series; primitives with a rule of their own (taylor.py) say how coefficients
follow from one another. Every other primitive goes by its first derivative: y'(t) is the jvp of the
primitive along the path, so that its series, one order lower, is that of the jvp's program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, lax, numpy as jnp, tree
from ..control.call import bind_call, jit_p
from ..control.cond import cond_p
from ..control.linear_solve import custom_linear_solve_p
from ..control.remat import hoist, remat_p
from ..control.scan import scan_p
from ..control.while_loop import one_predicate, while_p
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, closed_without_consts, eval_jaxpr
from ..core.symbolic import Zero
from ..core.trace import Trace, Tracer, current_trace, trace_context, use_trace
from ..extend import linear_util as lu
from ..numpy.util import promote_dtypes_inexact
from ..transforms.jvp import jvp_flat
from ..transforms.partial_eval import dce_closed
from . import taylor
from .taylor import (
    Series,
    ZeroSeries,
    ZeroTerm,
    differentiable,
    divided,
    instantiate,
    is_zero,
    minus,
    moves,
    scaled,
    zero_series,
    zero_term,
)


class JetTracer(Tracer):
    """A value and the coefficients of its Taylor polynomial after the first.

    >>> from pullback.experimental.jet import jet
    >>> kinds = []
    >>> _ = jet(lambda x: kinds.append(type(x).__name__) or x, (1.0,), ([1.0],))
    >>> kinds
    ['JetTracer']
    """

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal: Any, terms: Sequence[Any]) -> None:
        super().__init__(trace)
        self.primal, self.terms = primal, terms

    @property
    def aval(self) -> Any:
        return typeof(self.primal)


class JetTrace(Trace):
    """Runs a function on series of one order. `tag` is whatever tells traces apart to their users.

    >>> from pullback.experimental.jet import JetTrace, jet
    >>> from pullback.extend import core
    >>> orders = []
    >>> _ = jet(lambda x: orders.append(core.current_trace().order) or x, (1.0,), ([1.0, 0.0],))
    >>> orders
    [2]
    """

    __slots__ = ("_tag", "order")

    def __init__(self, tag: Any, parent_trace: Trace, order: int) -> None:
        super().__init__(parent_trace)
        self._tag, self.order = tag, order

    def series(self, x: Any) -> Series:
        """Any value as a series: what is not this trace's does not move."""
        if isinstance(x, JetTracer) and x._trace is self:
            return [x.primal, *x.terms]
        return [x, *[zero_term] * self.order]

    def value(self, x: Series) -> Any:
        return JetTracer(self, x[0], x[1:]) if moves(x) else x[0]

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        args = [self.series(x) for x in tracers]
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            if not any(map(moves, args)):
                return primitive.bind(*(x[0] for x in args), **params)
            outs = _propagate(primitive, args, params)
        return [self.value(x) for x in outs] if primitive.multiple_results else self.value(outs[0])

    def _custom(self, method: str, head: Any, tracers: Sequence[Any], options: Any) -> list[Any]:
        """A function with derivatives of its own, which are asked for its first one."""
        args = [self.series(x) for x in tracers]

        def call(*values: Any) -> Any:
            return getattr(current_trace(), method)(*head, values, **options)

        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            if not any(map(moves, args)):
                return list(call(*(x[0] for x in args)))
            outs = _by_slope(call, args, None)
        return [self.value(x) for x in outs]

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, **options: Any
    ) -> Any:
        head = (primitive, fun, jvp)
        return self._custom("process_custom_jvp_call", head, tracers, options)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **options: Any
    ) -> Any:
        head = (primitive, fun, fwd, bwd)
        return self._custom("process_custom_vjp_call", head, tracers, options)


def _run(
    fun: Callable[..., Sequence[Any]], args: Sequence[Series], order: int, tag: Any = None
) -> list[Series]:
    """The series of the results of a flat function."""
    if not order:
        return [[x] for x in fun(*(x[0] for x in args))]
    trace = JetTrace(tag, current_trace(), order)
    try:
        with use_trace(trace):
            return [trace.series(x) for x in fun(*map(trace.value, args))]
    finally:
        trace.invalidate()


# --- one primitive ---
def _propagate(primitive: Any, args: list[Series], params: dict[str, Any]) -> list[Series]:
    """The series of the results of a primitive, some of whose operands move."""
    own = dict.get(jet_rules, primitive)
    if own is not None:
        return _by_public_rule(own, primitive, args, params)
    if primitive in _holders:
        return _holders[primitive](args, params)
    rule = taylor.rules.get(primitive.name)
    out = rule and rule(primitive, args, params)
    if out:
        return [out if differentiable(out[0]) else [out[0], *[zero_term] * (len(out) - 1)]]
    multiple = primitive.multiple_results

    def call(*values: Any) -> Any:
        outs = primitive.bind(*values, **params)
        return outs if multiple else [outs]

    return _by_slope(call, args, (primitive, params))


def _by_public_rule(
    rule: Any, primitive: Any, args: list[Series], params: dict[str, Any]
) -> list[Series]:
    """By a rule of the table `jet_rules`, which knows no symbolic zeros."""
    order = len(args[0]) - 1
    terms = [[instantiate(t, x[0]) for t in x[1:]] for x in args]
    out, out_terms = rule([x[0] for x in args], terms, **params)
    if not primitive.multiple_results:
        out, out_terms = [out], [out_terms]
    still = [zero_term] * order
    return [
        [y, *(still if ts is zero_series else ts)] for y, ts in zip(out, out_terms, strict=True)
    ]


def _by_slope(call: Callable[..., Any], args: list[Series], key: Any) -> list[Series]:
    """From the series of the jvp, of one order less: k y_k is the coefficient k - 1 of y'. `key`,
    of a primitive and its parameters, says what `call` is.
    """
    order = len(args[0]) - 1
    outs = list(call(*(x[0] for x in args)))
    if not any(map(differentiable, outs)):
        return [[y, *[zero_term] * order] for y in outs]
    active = tuple(moves(x) and differentiable(x[0]) for x in args)
    speeds = [_speed(x) for x, a in zip(args, active, strict=True) if a]
    avals = tuple(typeof(x[0]) for x in args), tuple(typeof(v[0]) for v in speeds)
    try:
        program, consts, flags = _known_slope(key and _hashable(*key), avals, active)
    except TypeError:  # parameters that cannot be hashed, or no key at all
        program, consts, flags = _slope_program(call, avals, active)
    operands = [[c, *[zero_term] * (order - 1)] for c in consts]
    operands += [[x[0], *x[1:-1]] for x in args]
    slopes = iter(
        _run(
            lambda *values: eval_jaxpr(program.jaxpr, program.consts, *values),
            [*operands, *speeds],
            order - 1,
        )
    )
    return [
        [y, *(divided(v, k) for k, v in enumerate(next(slopes), start=1))]
        if flag
        else [y, *[zero_term] * order]
        for y, flag in zip(outs, flags, strict=True)
    ]


def _speed(x: Series) -> Series:
    """The series of x', one order lower; its first coefficient is a value."""
    terms = [scaled(t, k) for k, t in enumerate(x[1:], start=1)]
    return [instantiate(terms[0], x[0]), *terms[1:]]


def _hashable(primitive: Any, params: dict[str, Any]) -> Any:
    key = (primitive, tuple(sorted(params.items())), trace_context())
    hash(key)
    return key


@functools.lru_cache(maxsize=256)
def _known_slope(key: Any, avals: Any, active: Any) -> Any:
    if key is None:
        raise TypeError("no key")
    primitive, items, _ = key

    def call(*values: Any) -> Any:
        outs = primitive.bind(*values, **dict(items))
        return outs if primitive.multiple_results else [outs]

    program, consts, flags = _slope_program(call, avals, active)
    if consts:
        raise TypeError("a program of values that are being traced cannot be kept")
    return program, consts, flags


def _slope_program(call: Callable[..., Any], avals: Any, active: Sequence[bool]) -> Any:
    """The program (operands, tangents of active ones) -> tangents of the results; values that it
    closes over, which come first; which results have tangents. What only the results themselves
    need is not in it.
    """
    primal_avals, tangent_avals = avals
    n = len(primal_avals)
    flags: list[bool] = []

    def tangents_out(*values: Any) -> list[Any]:
        rest = iter(values[n:])
        tangents = [
            next(rest) if a else Zero.from_primal_value(p)
            for p, a in zip(values[:n], active, strict=True)
        ]
        outs, dots = jvp_flat(call, values[:n], tangents)
        flags[:] = [
            type(t) is not Zero and differentiable(y) for y, t in zip(outs, dots, strict=True)
        ]
        return [t for t, flag in zip(dots, flags, strict=True) if flag]

    closed, consts = close_jaxpr(*trace_to_jaxpr(tangents_out, [*primal_avals, *tangent_avals]))
    return dce_closed(closed, [True] * sum(flags), True)[0], consts, flags


# --- primitives that hold programs ---
def _flat(args: Sequence[Series], active: Sequence[bool]) -> list[Any]:
    """Values, then all terms of those that are active."""
    terms = [instantiate(t, x[0]) for x, a in zip(args, active, strict=True) if a for t in x[1:]]
    return [*(x[0] for x in args), *terms]


def _series(values: Sequence[Any], active: Sequence[bool], order: int) -> list[Series]:
    """The inverse of `_flat`."""
    n = len(active)
    rest = iter(values[n:])
    return [
        [x, *((next(rest) for _ in range(order)) if a else [zero_term] * order)]
        for x, a in zip(values[:n], active, strict=True)
    ]


def _activity(args: Sequence[Series]) -> tuple[bool, ...]:
    return tuple(map(moves, args))


def _smooth(avals: Sequence[Any]) -> tuple[bool, ...]:
    """Which of these types have derivatives."""
    return tuple(dtypes.is_inexact(a.dtype) for a in avals)


def _of_program(
    closed: ClosedJaxpr, active: Sequence[bool], order: int, want: Sequence[bool] | None
) -> Callable[..., tuple[list[Any], list[bool]]]:
    """A program as a function of flattened series: flattened series of its results, and which of
    them have terms: those that `want` names, or all that move.
    """

    def fun(*values: Any) -> tuple[list[Any], list[bool]]:
        args = _series(values, active, order)
        outs = _run(lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), args, order)
        flags = list(map(moves, outs)) if want is None else list(want)
        return _flat(outs, flags), flags

    return fun


def _transformed(
    closed: ClosedJaxpr, args: Sequence[Series]
) -> tuple[ClosedJaxpr, list[Any], tuple[bool, ...], list[bool]]:
    """The program on flattened series: itself, its operands, the activity of operands and results.
    Remembered by the program.
    """
    active, order = _activity(args), len(args[0]) - 1
    values = _flat(args, active)
    avals = tuple(map(typeof, values))
    key = ("jet", active, order, avals)
    if key not in closed.derived:
        found: list[bool] = []

        def fun(*xs: Any) -> list[Any]:
            outs, found[:] = _of_program(closed, active, order, None)(*xs)
            return outs

        program, _ = close_jaxpr(*trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info))
        closed.derived[key] = program, found
    program, found = closed.derived[key]
    return program, values, active, found


def _jit(args: list[Series], params: dict[str, Any]) -> list[Series]:
    program, values, _, found = _transformed(params["jaxpr"], args)
    return _series(bind_call(program, values, params), found, len(args[0]) - 1)


def _remat(args: list[Series], params: dict[str, Any]) -> list[Series]:
    program, values, _, found = _transformed(closed_without_consts(params["jaxpr"]), args)
    program, consts = hoist(program)
    outs = remat_p.bind(*consts, *values, **{**params, "jaxpr": program.jaxpr})
    return _series(outs, found, len(args[0]) - 1)


def _cond(args: list[Series], params: dict[str, Any]) -> list[Series]:
    (index, *_), operands = args[0], args[1:]
    order, active = len(args[0]) - 1, _activity(operands)
    want = _smooth(params["branches"][0].out_avals)
    branches = [_strong(_of_program(b, active, order, want)) for b in params["branches"]]
    outs = lax.switch(index, branches, *_flat(operands, active))
    return _series(outs, want, order)


def _strong(fun: Callable[..., tuple[list[Any], list[bool]]]) -> Callable[..., list[Any]]:
    """The same function's values without weak types, which would differ between ways and rounds."""
    return lambda *values: list(map(_without_weak_type, fun(*values)[0]))


def _without_weak_type(x: Any) -> Any:
    aval = typeof(x)
    return lax.convert_element_type(x, aval.dtype) if aval.weak_type else x


def _while(args: list[Series], params: dict[str, Any]) -> list[Series]:
    order = len(args[0]) - 1
    operands, params = one_predicate(args, params)
    cond, body, start = params["cond_jaxpr"], params["body_jaxpr"], params["cond_nconsts"]
    end = start + params["body_nconsts"]
    cond_consts = [x[0] for x in operands[:start]]
    consts, init = operands[start:end], operands[end:]
    want, fixed = _smooth(body.out_avals), _activity(consts)
    n, given = len(want), _flat(consts, fixed)
    step = _strong(_with_constants(body, given, fixed, want, order))
    outs = lax.while_loop(
        lambda c: eval_jaxpr(cond.jaxpr, cond.consts, *cond_consts, *c[:n])[0],
        lambda c: step(*c),
        list(map(_without_weak_type, _flat(init, want))),
    )
    return _series(outs, want, order)


def _with_constants(
    closed: ClosedJaxpr,
    given: Sequence[Any],
    fixed: Sequence[bool],
    moving: Sequence[bool],
    order: int,
    want: Sequence[bool] | None = None,
) -> Callable[..., tuple[list[Any], list[bool]]]:
    """A loop's body as a function of its flattened carry (and elements); `given` are its flattened
    constants.
    """
    n = len(fixed)
    run = _of_program(closed, [*fixed, *moving], order, moving if want is None else want)
    return lambda *c: run(*given[:n], *c[: len(moving)], *given[n:], *c[len(moving) :])


def _scan(args: list[Series], params: dict[str, Any]) -> list[Series]:
    order, closed = len(args[0]) - 1, params["jaxpr"]
    start = params["num_consts"]
    end = start + params["num_carry"]
    consts, init, xs = args[:start], args[start:end], args[end:]
    want = _smooth(closed.out_avals)
    n_carry = end - start
    carried, out_moving = want[:n_carry], want[n_carry:]
    fixed, scanned = _activity(consts), _activity(xs)
    given = _flat(consts, fixed)
    moving = (*carried, *scanned)
    step = _strong(_with_constants(closed, given, fixed, moving, order, want))
    width = n_carry + order * sum(carried)

    def body(carry: list[Any], elements: list[Any]) -> tuple[list[Any], list[Any]]:
        series = [*_series(carry, carried, order), *_series(elements, scanned, order)]
        outs = _series(step(*_flat(series, moving)), want, order)
        return _flat(outs[:n_carry], carried), _flat(outs[n_carry:], out_moving)

    options = {k: params[k] for k in ("length", "reverse", "unroll")}
    start_values = list(map(_without_weak_type, _flat(init, carried)))
    assert len(start_values) == width
    carry, ys = lax.scan(body, start_values, _flat(xs, scanned), **options)
    return [*_series(carry, carried, order), *_series(ys, out_moving, order)]


def _linear_solve(args: list[Series], params: dict[str, Any]) -> list[Series]:
    """A0 x_k = b_k - (A x)_k, where x is known up to k - 1: A may move along the path."""
    order, lengths, matvec = len(args[0]) - 1, params["const_lengths"], params["jaxprs"].matvec
    n = sum(lengths)
    n_x = len(args) - n
    consts, b = [x[0] for x in args[:n]], args[n:]
    operators = args[: lengths[0]]
    outs = custom_linear_solve_p.bind(*(x[0] for x in args), **params)
    xs: list[Series] = [[x] for x in outs[:n_x]]
    for k in range(1, order + 1):
        known = [*(x[: k + 1] for x in operators), *([*x, zero_term] for x in xs)]
        run = functools.partial(eval_jaxpr, matvec.jaxpr, matvec.consts)
        moved = _run(run, known, k)
        rest = [minus(t[k], m[k]) for t, m in zip(b, moved, strict=True)]
        if all(map(is_zero, rest)):
            step: list[Any] = [zero_term] * n_x
        else:
            rhs = [instantiate(r, t[0]) for r, t in zip(rest, b, strict=True)]
            step = custom_linear_solve_p.bind(*consts, *rhs, **params)
        for x, t in zip(xs, step, strict=False):
            x.append(t)
    return [*xs, *([y, *[zero_term] * order] for y in outs[n_x:])]


_holders: dict[Any, Callable[[list[Series], dict[str, Any]], list[Series]]] = {
    jit_p: _jit,
    remat_p: _remat,
    cond_p: _cond,
    while_p: _while,
    scan_p: _scan,
    custom_linear_solve_p: _linear_solve,
}


# --- rules of libraries ---
class _Rules(dict[Any, Any]):
    """Rules that libraries register; asked for another primitive, it gives that one's own."""

    def __contains__(self, primitive: Any) -> bool:
        name = getattr(primitive, "name", None)
        return dict.__contains__(self, primitive) or name in taylor.rules or primitive in _holders

    def __missing__(self, primitive: Any) -> Callable[..., tuple[Any, Any]]:
        def rule(primals_in: Any, series_in: Any, **params: Any) -> tuple[Any, Any]:
            outs = _propagate(primitive, _joined(primals_in, series_in), params)
            terms = [
                [instantiate(t, x[0]) for t in x[1:]] if moves(x) else zero_series for x in outs
            ]
            if primitive.multiple_results:
                return [x[0] for x in outs], terms
            return outs[0][0], terms[0]

        return rule


def _joined(primals: Sequence[Any], terms: Sequence[Any]) -> list[Series]:
    order = max((len(ts) for ts in terms if ts is not zero_series), default=0)
    still = [zero_term] * order
    return [
        [x, *(still if ts is zero_series else ts)] for x, ts in zip(primals, terms, strict=True)
    ]


# primitive -> rule(primals, series of terms, **params) -> (result, terms or zero_series)
jet_rules: dict[Any, Callable[..., tuple[Any, Any]]] = _Rules()
# How calls' parameters change with their programs: calls know it themselves here.
call_param_updaters: dict[Any, Any] = {}


def zero_prop(
    prim: Any, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any
) -> tuple[Any, Any]:
    """The rule of a primitive whose results do not move: of comparisons, of rounding.

    >>> from pullback.experimental import jet
    >>> out, terms = jet.zero_prop(lax.floor_p, (1.5,), ([1.0],))
    >>> terms is jet.zero_series
    True
    """
    return prim.bind(*primals_in, **params), zero_series


def linear_prop(
    prim: Any, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any
) -> tuple[Any, Any]:
    """The rule of a primitive that is linear in all its operands together: each term is mapped.

    >>> from pullback.experimental import jet
    >>> jet.linear_prop(lax.neg_p, (jnp.float32(1),), ([jnp.float32(2)],))[1]
    [Array(-2., dtype=float32)]
    """
    terms = [prim.bind(*column, **params) for column in zip(*series_in, strict=True)]
    if prim.multiple_results:
        terms = [list(column) for column in zip(*terms, strict=True)]
    return prim.bind(*primals_in, **params), terms


def deriv_prop(
    prim: Any, deriv: Callable[[Any], Any], primals_in: Sequence[Any], series_in: Sequence[Any]
) -> tuple[Any, Any]:
    """The rule of a function of one number whose derivative is the function `deriv`.

    >>> from pullback.experimental import jet
    >>> jet.deriv_prop(lax.sin_p, lax.cos, (jnp.float32(0),), ([jnp.float32(1)],))[1]
    [Array(1., dtype=float32)]
    """
    return _from_slope(prim.bind, deriv, [primals_in[0], *series_in[0]])


def _from_slope(
    bind: Callable[[Any], Any], deriv: Callable[[Any], Any], x: Series
) -> tuple[Any, list[Any]]:
    out = bind(x[0])
    (slope,) = _run(lambda x: [deriv(x)], [x[:-1]], len(x) - 2) if len(x) > 1 else ([],)
    terms = taylor.integral(slope, x, out)[1:]
    return out, [instantiate(t, out) for t in terms]


def def_deriv(prim: Any, deriv: Callable[[Any], Any]) -> None:
    """Gives a primitive of one number the rule that follows from its derivative.

    >>> from pullback.experimental import jet
    >>> jet.def_deriv(lax.sin_p, lax.cos)
    >>> jet.jet(lax.sin, (0.0,), ([1.0, 0.0, 0.0],))[1][2]
    Array(-1., dtype=float32, weak_type=True)
    >>> del jet.jet_rules[lax.sin_p]
    """

    def rule(primals_in: Any, series_in: Any, **params: Any) -> tuple[Any, Any]:
        bind = functools.partial(prim.bind, **params)
        return _from_slope(bind, deriv, [primals_in[0], *series_in[0]])

    jet_rules[prim] = rule


def def_comp(prim: Any, comp: Callable[..., Any], **kwargs: Any) -> None:
    """Gives a primitive the rule of a function that computes the same from other primitives.

    >>> from pullback.experimental import jet
    >>> jet.def_comp(lax.tan_p, lambda x: lax.sin(x) / lax.cos(x))
    >>> jet.jet(jnp.tan, (0.0,), ([1.0, 0.0, 0.0],))[1][2]
    Array(2., dtype=float32, weak_type=True)
    >>> del jet.jet_rules[lax.tan_p]
    """
    jet_rules[prim] = functools.partial(jet2, functools.partial(comp, **kwargs))


def deflinear(prim: Any) -> None:
    """Gives a primitive that is linear in all its operands its rule.

    >>> from pullback.experimental import jet
    >>> jet.deflinear(lax.neg_p)
    >>> jet.jet(lax.neg, (1.0,), ([2.0],))[1]
    [Array(-2., dtype=float32, weak_type=True)]
    >>> del jet.jet_rules[lax.neg_p]
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def defzero(prim: Any) -> None:
    """Gives a primitive whose results do not move its rule.

    >>> from pullback.experimental import jet
    >>> jet.defzero(lax.floor_p)
    >>> jet.jet(lax.floor, (1.5,), ([2.0],))[1]
    [Array(0., dtype=float32, weak_type=True)]
    >>> del jet.jet_rules[lax.floor_p]
    """
    jet_rules[prim] = functools.partial(zero_prop, prim)


# --- what users call ---
def fact(n: Any) -> Any:
    """n!, of the float type of the default width, weakly typed.

    >>> from pullback.experimental import jet
    >>> jet.fact(3)
    Array(6., dtype=float32, weak_type=True)
    """
    if isinstance(n, int) and n >= 0:
        return jnp.asarray(float(math.factorial(n)))
    return jnp.exp(lax.lgamma(jnp.add(n, 1.0)))


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """(fun(*primals), its series): derivatives of the result along the path on which argument i has
    the derivatives series[i] at primals[i].

    With `factorial_scaled` the terms are derivatives; otherwise Taylor coefficients, that is,
    derivatives over factorials. A result that is a tree has a tree of series. The cost grows with
    the square of the order.

    >>> from pullback.experimental.jet import jet
    >>> jet(jnp.sin, (jnp.float32(0),), ([1.0, 0.0, 0.0],))[1]
    [Array(1., dtype=float32), Array(-0., dtype=float32), Array(-1., dtype=float32)]

    Raises ValueError for series of different lengths, or not one for each argument; TypeError for
    an argument without derivatives (an array of integers) or terms of another shape.
    """
    primals, series = tuple(primals), [list(s) for s in series]
    if len(primals) != len(series):
        raise ValueError(f"jet: {len(primals)} primals and {len(series)} series, one for each")
    orders = {len(s) for s in series}
    if len(orders) != 1:
        raise ValueError(
            "jet terms have inconsistent lengths for different arguments: every series must have "
            f"the same number of terms; got {[len(s) for s in series]}"
        )
    (order,) = orders
    leaves, structure = tree.flatten(primals)
    columns = [structure.flatten_up_to(tuple(s[k] for s in series)) for k in range(order)]
    args = [
        [x, *(_coefficient(c[i], x, k, factorial_scaled) for k, c in enumerate(columns, start=1))]
        for i, x in enumerate(map(_operand, leaves))
    ]
    store: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        outs, out_tree = tree.flatten(fun(*tree.unflatten(structure, values)))
        store.append(out_tree)
        return outs

    outs = _run(flat, args, order)
    terms = [[_derivative(t, x[0], k, factorial_scaled) for k, t in _counted(x)] for x in outs]
    return tree.unflatten(store[-1], [x[0] for x in outs]), tree.unflatten(store[-1], terms)


@lu.transformation2
def jet_subtrace(
    f: Any, tag: Any, order: int, primals: Sequence[Any], series: Sequence[Any]
) -> tuple[tuple[Any, ...], list[Any]]:
    """A function of arrays in lists, as one of Taylor polynomials: (results, their coefficients
    after the first), of which some may be `zero_term`.

    `tag`: whatever tells traces apart to their users; `order`: how many coefficients each series
    has; a series may be `zero_series`.

    >>> from pullback.experimental import jet
    >>> from pullback.extend import linear_util
    >>> f = jet.jet_subtrace(linear_util.wrap_init(lambda x: [x, jnp.float32(3)]))
    >>> f.call_wrapped(None, 1, [jnp.float32(2)], [[jnp.float32(1)]])[1]
    [[Array(1., dtype=float32)], [ZeroTerm]]
    """
    still = [zero_term] * order
    args = [
        [x, *(still if ts is zero_series else ts)] for x, ts in zip(primals, series, strict=True)
    ]
    outs = _run(f, args, order, tag)
    return tuple(x[0] for x in outs), [list(x[1:]) for x in outs]


@lu.transformation2
def jet_fun(
    f: Any, order: int, primals: Sequence[Any], series: Sequence[Any]
) -> tuple[tuple[Any, ...], list[Any]]:
    """What `jet_subtrace` makes, in a trace of its own, with arrays of zeros for what does not
    move.

    >>> from pullback.experimental import jet
    >>> from pullback.extend import linear_util
    >>> f = jet.jet_fun(jet.jet_subtrace(linear_util.wrap_init(lambda x: [2 * x])), 1)
    >>> f.call_wrapped([jnp.float32(2)], [[jnp.float32(1)]])
    ((Array(4., dtype=float32),), [[Array(2., dtype=float32)]])
    """
    outs, terms = f(object(), order, primals, series)
    return outs, [[instantiate(t, x) for t in ts] for x, ts in zip(outs, terms, strict=True)]


@lu.transformation_with_aux2
def traceable(f: Any, store: Any, in_tree_def: Any, *primals_and_series: Any) -> list[Any]:
    """A function of (primals, series), as one of leaves; the results' tree is left behind.

    >>> from pullback.experimental import jet
    >>> from pullback.extend import linear_util
    >>> f = jet.jet_fun(jet.jet_subtrace(linear_util.wrap_init(lambda x: [2 * x])), 1)
    >>> flat, out_tree = jet.traceable(f, pb.tree.structure(([0], [[0]])))
    >>> flat.call_wrapped(jnp.float32(2), jnp.float32(1)), out_tree()
    ([Array(4., dtype=float32), Array(2., dtype=float32)], PyTreeDef(((*,), [[*]])))
    """
    leaves, out_tree = tree.flatten(f(*tree.unflatten(in_tree_def, primals_and_series)))
    store.store(out_tree)
    return leaves


jet2 = functools.partial(jet, factorial_scaled=False)


def _counted(x: Series) -> Any:
    return enumerate(x[1:], start=1)


def _operand(x: Any) -> Any:
    """An argument as an array; integers and bools are taken as floats."""
    x = jnp.asarray(float(x) if type(x) is int else x)
    if dtypes.is_integer(x.dtype) or dtypes.is_bool(x.dtype):
        x = promote_dtypes_inexact(x)[0]
    if not differentiable(x):
        raise TypeError(
            f"jet: primals must be of a float or complex type, got {typeof(x).str_short()}. Fix: "
            "convert the argument, or close over it."
        )
    return x


def _coefficient(term: Any, x: Any, k: int, factorial_scaled: bool) -> Any:
    """The k-th Taylor coefficient, of the shape and type of the argument x."""
    if isinstance(term, ZeroTerm):
        return zero_term
    term = jnp.asarray(term)
    if dtypes.is_complex(term.dtype) and not dtypes.is_complex(x.dtype):
        raise TypeError(f"jet: a term of type {term.dtype} for a primal of type {x.dtype}")
    if factorial_scaled or not dtypes.is_inexact(term.dtype):
        term = term / (float(math.factorial(k)) if factorial_scaled else 1.0)
    if term.dtype != x.dtype:
        term = lax.convert_element_type(term, x.dtype)
    if term.shape == x.shape:
        return term
    if not _broadcasts(term.shape, x.shape):
        raise TypeError(
            f"jet: terms must have the shape of their primal, got {term.shape} for {x.shape}"
        )
    return jnp.broadcast_to(term, x.shape)


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    sizes = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in sizes)


def _derivative(term: Any, y: Any, k: int, factorial_scaled: bool) -> Any:
    """What the user sees of a coefficient."""
    term = jnp.zeros_like(y) if is_zero(term) else term
    return term * float(math.factorial(k)) if factorial_scaled else term


__all__ = [
    "JetTrace",
    "JetTracer",
    "ZeroSeries",
    "ZeroTerm",
    "call_param_updaters",
    "def_comp",
    "def_deriv",
    "deflinear",
    "defzero",
    "deriv_prop",
    "fact",
    "jet",
    "jet2",
    "jet_fun",
    "jet_rules",
    "jet_subtrace",
    "linear_prop",
    "traceable",
    "zero_prop",
    "zero_series",
    "zero_term",
]
