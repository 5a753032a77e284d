"""From a jaxpr to a graph: one lowering rule an equation, calls inlined, what has no rule left to a
host step."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.control.call import APART
from pullback.core.jaxpr import ClosedJaxpr, Var, jaxprs_in_params
from pullback.loops.chains import Chain, chains_of
from pullback.loops.invariant import invariants_first
from pullback.loops.lower import (  # noqa: F401  (their rules enter themselves)
    contract,
    control,
    conv,
    cumulative,
    fft,
    index,
    linalg,
    reduce,
    rng,
    scatter,
    shape,
    sort,
    window,
)
from pullback.loops.lower.elementwise import RULES, literal, zipped
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, ir_dtype, no_value
from pullback.loops.lower.masked import apart
from pullback.loops.lower.program_hook import set_adder
from pullback.loops.lower.repeated import add_chain
from pullback.loops.once import met_again, once
from pullback.loops.sums_of_products import products_after_loops

__all__ = ["CALLS", "add_jaxpr", "host_node", "inlined", "spec_of"]

# Primitives that hold one program and mean a call of it: the parameter with the program.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "call_jaxpr",
    "custom_vmap_call": "call",
    "composite": "jaxpr",
    "linear_call": "callee",
    "remat_opt": "fwd_jaxpr",
    "xla_call": "call_jaxpr",
}

# Modules of rules that few programs need: imported when a program has a primitive of theirs.
LATE = {
    "special": (
        "igamma igammac igamma_grad_a regularized_incomplete_beta special_derivative "
        "select_and_scatter"
    ),
}
_LATE = {name: module for module, names in LATE.items() for name in names.split()}

# Operations that order their operands. Complex numbers are ordered by real part, then imaginary
# part, which two separate reals cannot express: those go to the reference implementation.
ORDERED = frozenset(
    {
        "max",
        "min",
        "clamp",
        "atan2",
        "reduce_max",
        "reduce_min",
        "argmax",
        "argmin",
        "cummax",
        "cummin",
        "cumlogsumexp",
        "scatter-max",
        "scatter-min",
        "scatter_max",
        "scatter_min",
        "reduce_window_max",
        "reduce_window_min",
    }
)

Spec = tuple[tuple[int, ...], str]


def spec_of(aval: Any) -> Spec | None:
    """(shape, dtype) of an aval's physical form; None for tokens."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None:
        return None
    if type(aval.shape) is not tuple:
        return tuple(aval.shape), ir_dtype(dtype)
    if isinstance(dtype, np.dtype):
        if dtype.kind == "V" and dtype.names:
            return aval.shape, "bool"  # float0: no information, one byte
        return aval.shape, ir_dtype(dtype)
    suffix, base = dtype.physical
    return (*aval.shape, *suffix), ir_dtype(base)


def add_jaxpr(g: Graph, jaxpr: Any, consts: Sequence[Node], args: Sequence[Node]) -> list[Node]:
    """Adds a program's equations to a graph; the nodes of its results."""
    if g.parent is not None or not g.options.repeats:
        jaxpr = _rearranged(_opened(jaxpr) if g.parent is None else jaxpr)
    env: dict[Any, Any] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    get = env.get

    def node_of(v: Any) -> Any:
        node = get(v) if not hasattr(v, "val") else None
        return _literal(g, v) if node is None else node

    chains = _chains(g, jaxpr)
    turned = turned_products(jaxpr, chains)
    done = 0  # equations before this one are lowered
    for k, eqn in enumerate(jaxpr.eqns):
        if k < done:
            continue
        if k in chains:
            env.update(add_chain(g, chains[k], node_of, spec_of))
            done = chains[k].end
            continue
        eqn = turned.get(eqn.outvars[0], eqn) if turned and eqn.outvars else eqn
        if eqn is None:
            continue
        outs = add_eqn(g, eqn, [node_of(v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))
    if g.options.values is not None and g.parent is None:
        g.options.values.update(env)
    return [_literal(g, v) if hasattr(v, "val") else env[v] for v in jaxpr.outvars]


def _rearranged(jaxpr: Any) -> Any:
    """The same program, with what need not be in loops outside of them, and nothing costly done
    twice."""
    jaxpr = products_after_loops(jaxpr)
    return once(invariants_first(jaxpr, inlined, _is_pure), _is_pure)


def _opened(jaxpr: Any) -> Any:
    """The program with the bodies of its calls in their place, if something costly is in several of
    them and on the same operands: the factors of a matrix that is solved for and whose determinant
    is taken, each by a call."""
    if not met_again(jaxpr):
        return jaxpr
    closed = inlined(ClosedJaxpr(jaxpr, [None] * len(jaxpr.constvars)))
    if len(closed.consts) > len(jaxpr.constvars):
        return jaxpr
    return closed.jaxpr if once(closed.jaxpr, _is_pure) is not closed.jaxpr else jaxpr


def _is_pure(name: str) -> bool:
    """Whether a primitive's results depend on its operands and parameters alone: those of what
    Python does may not."""
    return name in CALLS or rule_of(name) is not None


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program with the bodies of its calls in their place, as lowering reads them."""
    eqns: list[Any] = []
    constvars, consts = list(closed.jaxpr.constvars), list(closed.consts)

    def put(jaxpr: Any, env: dict[Any, Any], fresh: bool) -> list[Any]:
        def get(v: Any) -> Any:
            return v if hasattr(v, "val") else env.get(v, v)

        jaxpr = _rearranged(jaxpr)
        for eqn in jaxpr.eqns:
            ins = [get(v) for v in eqn.invars]
            program = _called(eqn)
            if program is None:
                outs = [type(v)(v.aval) for v in eqn.outvars] if fresh else list(eqn.outvars)
                eqns.append(eqn.replace(invars=ins, outvars=outs))
            else:
                outs = called(program, ins)
            env.update(zip(eqn.outvars, outs, strict=True))
        return [get(v) for v in jaxpr.outvars]

    def called(program: Any, ins: list[Any]) -> list[Any]:
        body = program
        if hasattr(program, "jaxpr"):
            body = program.jaxpr
            own = [type(v)(v.aval) for v in body.constvars]
            constvars.extend(own)
            consts.extend(program.consts)
            ins = [*own, *ins]
        return put(body, dict(zip((*body.constvars, *body.invars), ins, strict=True)), True)

    outvars = put(closed.jaxpr, {}, False)
    jaxpr = closed.jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars)
    return ClosedJaxpr(jaxpr, consts)


def _called(eqn: Any) -> Any:
    """The program that an equation is a call of, where its body may stand in its place."""
    inner = CALLS.get(eqn.primitive.name)
    return None if inner is None or eqn.params.get("name") == APART else eqn.params.get(inner)


def _chains(g: Graph, jaxpr: Any) -> dict[int, Chain]:
    """The bodies that a program repeats, by their first equation; none inside of a region, which
    is one kernel."""
    if g.parent is not None or not g.options.rolls:
        return {}
    return {c.start: c for c in chains_of(jaxpr)}


def own_copies(g: Graph, jaxpr: Any, outs: Sequence[Node | None]) -> list[Node]:
    """The results that are there. One that the program copies is memory of its own, even if the
    value is an argument or another result: whoever copies may donate the one and keep the other.
    """
    found: list[Node] = []
    met: set[Node] = set()
    for v, node in zip(jaxpr.outvars, outs, strict=True):
        if node is None:
            continue
        if (node.kind == "leaf" or node in met) and _is_copy(jaxpr, v):
            node = zipped(g, [node], node.shape, node.dtype, lambda b, x: x)
        found.append(node)
        met.add(node)
    return found


def _is_copy(jaxpr: Any, v: Any) -> bool:
    """Is the variable the result of a copy, in this program or in one that it calls?"""
    for eqn in reversed(jaxpr.eqns):
        if any(v is w for w in eqn.outvars):
            if eqn.primitive.name in ("copy", "copy_p"):
                return True
            if eqn.primitive.name != "jit":
                return False
            called = eqn.params["jaxpr"].jaxpr
            return _is_copy(called, called.outvars[eqn.outvars.index(v)])
    return False


def turned_products(jaxpr: Any, chains: Mapping[int, Chain]) -> dict[Any, Any]:
    """Transposed products, as derivatives with respect to weights are, and what einsum makes of
    scores of attention: the transpose of x . y is y . x, if nobody else reads it; or a transpose
    of it that leaves the last axis in its place, whose rows are whole. Result of the product ->
    the equation in its place; result of the transpose -> what is left of it, or None. What chains
    hold is seen to when their bodies are lowered; what they are given is read by them, though it
    may be in no equation: they transpose again what is cheap to have."""
    if not any(e.primitive.name == "transpose" for e in jaxpr.eqns):
        return {}
    products = {
        e.outvars[0]: e for e in jaxpr.eqns if e.primitive.name == "dot_general" and not e.effects
    }
    if not products:
        return {}
    inside = {v for c in chains.values() for e in jaxpr.eqns[c.start : c.end] for v in e.outvars}
    uses = Counter(v for e in jaxpr.eqns for v in e.invars if not hasattr(v, "val"))
    uses.update(v for v in jaxpr.outvars if not hasattr(v, "val"))
    given = (v for c in chains.values() for o in c.operands if not o.number for v in o.values)
    uses.update(v for v in given if not hasattr(v, "val"))
    found: dict[Any, Any] = {}
    for e in jaxpr.eqns:
        if e.primitive.name != "transpose" or hasattr(e.invars[0], "val"):
            continue
        product = products.get(e.invars[0]) if e.outvars[0] not in inside else None
        if product is None or uses[e.invars[0]] != 1 or e.invars[0] in inside:
            continue
        (xc, yc), (xb, yb) = product.params["dimension_numbers"]
        x, y = product.invars
        first, m = len(xb), len(x.aval.shape) - len(xb) - len(xc)
        sizes, rank = e.invars[0].aval.shape, len(e.invars[0].aval.shape)
        order = (*range(first), *range(first + m, rank), *range(first, first + m))
        perm = tuple(e.params["permutation"])
        here, there, before = (_last(axes, sizes) for axes in (perm, order, range(rank)))
        if perm != order and (here != there or here == before):
            continue
        rest = tuple(map(order.index, perm))
        done = rest == tuple(range(rank))
        turned = e.invars[0].aval.update(shape=tuple(sizes[k] for k in order))
        out = e.outvars[0] if done else Var(turned)
        found[e.invars[0]] = product.replace(
            invars=[y, x],
            outvars=[out],
            params={**product.params, "dimension_numbers": ((yc, xc), (yb, xb))},
        )
        left = e.replace(invars=[out], params={**e.params, "permutation": rest})
        found[e.outvars[0]] = None if done else left
    return found


def _last(order: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The last of these axes that is longer than 1."""
    return next((k for k in reversed(order) if sizes[k] != 1), None)


def _literal(g: Graph, v: Any) -> Any:
    spec = spec_of(v.aval)
    if spec is None:
        return None
    if spec[0]:
        return constant(g, np.asarray(v.val), spec)
    return literal(
        g, np.asarray(v.val).item() if spec[1] not in ("c64", "c128") else complex(v.val), spec[1]
    )


def constant(g: Graph, value: Any, spec: Spec) -> Node:
    """A constant array: a scalar is a literal, anything else a slot of the program."""
    array = np.asarray(value)
    if array.dtype != object and array.size == 1 and not spec[0]:
        return literal(g, array.item(), spec[1])
    return g.options.constant(g, value, spec)  # type: ignore[no-any-return]


def rule_of(name: str) -> Callable[..., Any] | None:
    """The lowering rule of a primitive, or None if it has none."""
    if name not in RULES and name in _LATE:
        importlib.import_module(f"pullback.loops.lower.{_LATE[name]}")
    return RULES.get(name)


def add_eqn(g: Graph, eqn: Any, ins: list[Any]) -> list[Any]:
    """The nodes of one equation's results."""
    name, params = eqn.primitive.name, eqn.params
    specs = [spec_of(v.aval) for v in eqn.outvars]
    g.equation = g.options.equation(eqn)
    inner = CALLS.get(name)
    if inner is not None and inner in params:
        program = params[inner]
        if params.get("name") == APART:
            ins = [apart(g, n) for n in ins]
            return [apart(g, n) for n in add_program(g, program, ins)]
        if hasattr(program, "jaxpr"):
            consts = [
                _const_of(g, c, v.aval)
                for c, v in zip(program.consts, program.jaxpr.constvars, strict=True)
            ]
            return add_jaxpr(g, program.jaxpr, consts, ins)
        extra = len(program.constvars)
        return add_jaxpr(g, program, ins[:extra], ins[extra:])
    if name in ("dce_sink", "create_token", "after_all"):  # what they need is computed; that is all
        return [None for _ in specs]
    for s in specs:
        if s is not None:
            g.extents.update(n for n in s[0] if type(n) is int and n >= 17)
    _check_equation(eqn, params)
    empty = specs and all(s is not None and 0 in s[0] for s in specs) and not eqn.effects
    if empty:
        for program in jaxprs_in_params(params):
            _check_computable(program)
        return [_nothing(g, *s) for s in specs if s is not None]
    rule = rule_of(name)
    if name in ORDERED and any(n is not None and n.dtype in COMPLEX for n in ins):
        rule = None
    if rule is not None and None not in specs and _known_types(ins, specs):
        result = rule(g, ins, specs, params)
        if result is not NotImplemented:
            return [result] if isinstance(result, Node) else list(result)
    return host_node(g, eqn, ins, specs)


def _check_equation(eqn: Any, params: dict[str, Any]) -> None:
    """The same for one equation. Programs of another library's primitives are lowered as well:
    those have no such rule."""
    check = getattr(eqn.primitive, "check_computable", None)
    if check is not None:
        check(*(v.aval for v in eqn.invars), **params)


def _check_computable(jaxpr: Any) -> None:
    """Raises for an equation that cannot be computed, in a program that will not be lowered."""
    for eqn in jaxpr.eqns:
        _check_equation(eqn, eqn.params)
        for inner in jaxprs_in_params(eqn.params):
            _check_computable(inner)


def _nothing(g: Graph, sizes: tuple[int, ...], dtype: str) -> Node:
    """An array without elements: nothing is computed, whatever the operation."""
    return g.pointwise(sizes, dtype, [], lambda b, idx: no_value(dtype), 0.0)


def add_program(g: Graph, program: Any, args: Sequence[Node]) -> list[Node]:
    """Adds a jaxpr, closed or not, to a graph."""
    if not hasattr(program, "jaxpr"):
        return add_jaxpr(g, program, [], list(args))
    consts = [
        _const_of(g, c, v.aval)
        for c, v in zip(program.consts, program.jaxpr.constvars, strict=True)
    ]
    return add_jaxpr(g, program.jaxpr, consts, list(args))


set_adder(add_program)


def _const_of(g: Graph, value: Any, aval: Any) -> Any:
    spec = spec_of(aval)
    return None if spec is None else constant(g, value, spec)


def _known_types(ins: Sequence[Any], specs: Sequence[Any]) -> bool:
    return all(n is not None for n in ins) and all(all(type(d) is int for d in s[0]) for s in specs)


def host_node(g: Graph, eqn: Any, ins: list[Any], specs: Sequence[Spec | None]) -> list[Any]:
    """An equation that Python evaluates, on arrays, between kernels."""
    real = [n for n in ins if n is not None]
    call = g.options.reference(eqn)
    effect = bool(getattr(eqn, "effects", ()))
    op = Opaque(
        eqn.primitive.name, real, ["buffer"] * len(real), host=call, effect=effect, holds_host=True
    )
    op.host_outs = [v.aval for v in eqn.outvars]
    op.host_ins = [v.aval for v in eqn.invars if spec_of(v.aval) is not None]
    nodes = iter(g.opaque(op, [s for s in specs if s is not None]))
    return [None if s is None else next(nodes) for s in specs]
