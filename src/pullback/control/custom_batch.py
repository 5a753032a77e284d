"""Functions with batching rules of their own (`custom_vmap`), and linear functions with transposes
of their own (`linear_call`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.avals import typematch, typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    closed_without_consts,
    convert_constvars,
    eval_jaxpr,
)
from ..core.naming import fun_source_info, names_of_arguments
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import use_trace
from ..primitives.dynamic_slice import dynamic_index_in_dim
from ..primitives.elementwise import add_jaxvals
from ..primitives.layout import iota
from ..primitives.shape import broadcast
from ..transforms.batch import AxisData, batch_flat, batch_jaxpr, matchaxis
from ..transforms.jvp import jvp_flat, jvp_jaxpr
from .call import move_to_front
from .common import check_results
from .custom import RulesPassedOn, name_of, resolve_kwargs
from .mapped import map_elements


def _trace(fun: Callable[..., Any], in_tree: Any, leaves: Sequence[Any], name: str) -> Any:
    """(program, values that it closed over, tree of its results) of a function of a tuple."""
    out: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        outs, out_tree = tree.flatten(fun(*tree.unflatten(in_tree, xs)))
        out.append(out_tree)
        check_results(outs, out_tree, fun, name)
        return outs

    info = DebugInfo(f"{name} fun", fun_source_info(fun), names_of_arguments(fun, in_tree))
    jaxpr, consts = trace_to_jaxpr(flat, [typeof(x) for x in leaves], info)
    return closed_without_consts(convert_constvars(jaxpr)), consts, out[0]


class custom_vmap(RulesPassedOn):
    """A function with its own batching rule.

    >>> @pb.custom_batching.custom_vmap
    ... def f(x): return x + 1.0
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return x + 1.0, in_batched[0]

    `rule(axis_size, in_batched, *args)` gets the arguments, batched ones with the axis in front,
    and trees of flags that say which are; it returns the results and a tree of flags for them.
    Raises AttributeError when called before a rule is given, ValueError if the rule's results do
    not fit.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule; returns it."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name_of(self.fun)} using "
                f"def_vmap. Fix: add `@{name_of(self.fun)}.def_vmap`."
            )
        full = resolve_kwargs(self.fun, args, kwargs, "custom_vmap")
        leaves, in_tree = tree.flatten(full)
        closed, consts, out_tree = _trace(self.fun, in_tree, leaves, "custom_vmap")
        rule = _FlatRule(self.vmap_rule, name_of(self.fun), in_tree, out_tree, len(consts))
        operands = tree.treedef_tuple([tree.structure(consts), in_tree])
        outs = custom_vmap_call_p.bind(
            *consts, *leaves, call=closed, rule=rule, in_tree=operands, out_tree=out_tree
        )
        return tree.unflatten(out_tree, outs)


class _FlatRule:
    """A user's rule on flat operands: (size, flags, operands) -> (results, their flags)."""

    def __init__(self, rule: Any, name: str, in_tree: Any, out_tree: Any, consts: int) -> None:
        self.rule, self.name = rule, name
        self.in_tree, self.out_tree, self.consts = in_tree, out_tree, consts
        self.__name__ = name_of(rule)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def __call__(self, size: int, flags: Sequence[bool], args: Sequence[Any]) -> Any:
        n = self.consts
        if any(flags[:n]):
            raise ValueError(
                f"custom_vmap function {self.name} closes over a value that is mapped. Fix: make "
                "it an argument."
            )
        batched = list(tree.unflatten(self.in_tree, list(flags[n:])))
        result = self.rule(size, batched, *tree.unflatten(self.in_tree, args[n:]))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(
                f"custom vmap rule ({self.__name__}) must return a pair (outputs, which of them "
                f"are batched), got {result}."
            )
        outs, out_tree = tree.flatten(result[0])
        marks, mark_tree = tree.flatten(result[1])
        if out_tree != mark_tree:
            raise ValueError(
                "structure of output value and output batching specification returned by custom "
                f"vmap rule ({self.__name__}) do not match.\nOutput values: {out_tree}\nBatching "
                f"spec: {mark_tree}\nFix: return (outputs, batched), with a bool in `batched` for "
                "each output."
            )
        if out_tree != self.out_tree:
            raise ValueError(
                f"structure of output returned by custom vmap rule ({self.__name__}) does not "
                f"match that of original custom-vmapped function.\nOriginal output: "
                f"{self.out_tree}\nRule output: {out_tree}\nFix: return what the function returns, "
                "with the batch as axis 0."
            )
        return outs, list(map(bool, marks))


def _vmap_batch(
    axis: Any, vals: Any, dims: Any, *, call: Any, rule: Any, in_tree: Any, out_tree: Any
) -> Any:
    if all(d is None for d in dims):
        return None
    flags = [d is not None for d in dims]
    outs, marks = rule(axis.size, flags, move_to_front(vals, dims))
    return outs, [0 if m else None for m in marks]


class _JVPRule:
    """The rule of a differentiated function: the rule, differentiated."""

    def __init__(self, rule: Any, nonzeros: Sequence[bool], out_nonzeros: Sequence[bool]) -> None:
        self.rule, self.nonzeros, self.out_nonzeros = rule, list(nonzeros), list(out_nonzeros)
        self.__name__ = rule.__name__

    def __call__(self, size: int, flags: Sequence[bool], args: Sequence[Any]) -> Any:
        n = len(self.nonzeros)
        of_tangents = iter(flags[n:])
        moving = [nz and next(of_tangents) for nz in self.nonzeros]
        each = zip(flags[:n], moving, self.nonzeros, strict=True)
        if not any(of and (t or not nz) for of, t, nz in each):
            return self._by_lanes(size, flags, args)
        marks = [of or t for of, t in zip(flags[:n], moving, strict=True)]
        return self._pushed(size, marks, *self._both_batched(size, marks, flags, args))

    def _both_batched(
        self, size: int, marks: Sequence[bool], flags: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The primals and the tangents that there are, batched where these marks say so."""
        n = len(marks)
        of_tangents = [m for m, nz in zip(marks, self.nonzeros, strict=True) if nz]
        spread = [
            broadcast(x, (size,)) if mark and not flag else x
            for x, mark, flag in zip(args, [*marks, *of_tangents], flags, strict=True)
        ]
        return spread[:n], spread[n:]

    def _by_lanes(self, size: int, flags: Sequence[bool], args: Sequence[Any]) -> Any:
        """No operand is batched together with its tangent. The rule sees none as batched, and what
        it does is mapped: a result is only batched if what it follows from is."""
        n = len(self.nonzeros)

        def one(lane: Any, *xs: Any) -> list[Any]:
            outs, marks = self._pushed(size, [False] * n, xs[:n], xs[n:])
            return [
                dynamic_index_in_dim(x, lane, 0, keepdims=False) if mark else x
                for x, mark in zip(outs, marks, strict=True)
            ]

        dims = [0, *(0 if flag else None for flag in flags)]
        outs, found = batch_flat(one, [iota("int32", size), *args], dims, AxisData(None, size))
        return move_to_front(outs, found), [d is not None for d in found]

    def _pushed(
        self, size: int, marks: Sequence[bool], primals: Sequence[Any], given: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        """The rule's results and their tangents that are not zero, and which are batched."""
        rest, out_marks = iter(given), list[bool]()
        tangents = [
            next(rest) if nz else Zero.from_primal_value(x)
            for x, nz in zip(primals, self.nonzeros, strict=True)
        ]

        def fun(*xs: Any) -> list[Any]:
            outs, found = self.rule(size, marks, xs)
            out_marks[:] = found
            return list(outs)

        outs, dots = jvp_flat(fun, primals, tangents)
        kept = [
            (instantiate_zeros(t), m)
            for t, m, nz in zip(dots, out_marks, self.out_nonzeros, strict=True)
            if nz
        ]
        return [*outs, *(t for t, _ in kept)], [*out_marks, *(m for _, m in kept)]


def _twice(treedef: Any, size: int) -> Any:
    """The structure of values and their tangents, of which those that are zero are not there."""
    if size == 2 * treedef.num_leaves:
        return tree.treedef_tuple([treedef, treedef])
    return tree.structure((tuple(range(treedef.num_leaves)), *range(treedef.num_leaves, size)))


def _vmap_jvp(
    primals: Any, tangents: Any, *, call: ClosedJaxpr, rule: Any, in_tree: Any, out_tree: Any
) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, out_nonzeros = jvp_jaxpr(call, nonzeros, False)
    closed = closed_without_consts(convert_constvars(jvp.jaxpr))
    n = len(call.jaxpr.outvars)
    operands = [*primals, *(t for t, nz in zip(tangents, nonzeros, strict=True) if nz)]
    new_rule: Any = _JVPRule(rule, nonzeros, out_nonzeros)
    if jvp.consts:
        new_rule, operands = _with_consts(new_rule, len(jvp.consts)), [*jvp.consts, *operands]
    outs = custom_vmap_call_p.bind(
        *operands,
        call=closed,
        rule=new_rule,
        in_tree=_twice(in_tree, len(operands)),
        out_tree=_twice(out_tree, len(closed.out_avals)),
    )
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(call.out_avals, out_nonzeros, strict=True)
    ]


def _with_consts(rule: Any, n: int) -> Any:
    def call(size: int, flags: Sequence[bool], args: Sequence[Any]) -> Any:
        return rule(size, flags[n:], args[n:])

    call.__name__ = rule.__name__
    return call


def _vmap_partial_eval(
    trace: Any, unknown: Sequence[bool], tracers: Sequence[Any], params: dict[str, Any]
) -> Any:
    """In reverse mode the function is its operations: known ones run, others are staged."""
    with use_trace(trace):
        return eval_jaxpr(params["call"].jaxpr, (), *tracers)


custom_vmap_call_p = Primitive(
    "custom_vmap_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda *avals, call, **_: (call.out_avals, call.effects),
    impl=lambda *args, call, **_: eval_jaxpr(call.jaxpr, (), *args),
    jvp=_vmap_jvp,
    axis_batch=_vmap_batch,
    partial_eval=_vmap_partial_eval,
)


def sequential_vmap(f: Callable[..., Any]) -> Any:
    """`f`, whose batches are loops: one element after the other.

    >>> pb.vmap(pb.custom_batching.sequential_vmap(jnp.sin))(jnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """
    wrapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        leaves, in_tree = tree.flatten(args)
        flags = tree.flatten(tuple(in_batched))[0]
        outs, out_tree = map_elements(wrapped, in_tree, leaves, flags, axis_size)
        return tree.unflatten(out_tree, outs), tree.unflatten(out_tree, [True] * len(outs))

    wrapped.def_vmap(rule)
    return wrapped


# --- linear functions with transposes of their own ---
def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """`fun(residual_args, linear_args)`, a linear function of the latter, whose transpose is
    `fun_transpose(residual_args, cotangents)`.

    Both work on pytrees. Raises TypeError or ValueError, when it is transposed, if `fun_transpose`
    does not give cotangents of the structure and types of `linear_args`.

    >>> pb.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, 6.0)
    Array(3., dtype=float32, weak_type=True)
    """
    res, res_tree = tree.flatten(residual_args)
    lin, lin_tree = tree.flatten(linear_args)
    in_tree = tree.treedef_tuple([res_tree, lin_tree])
    closed, consts, out_tree = _trace(fun, in_tree, [*res, *lin], "linear_call")
    lin_avals = [typeof(x).to_tangent_aval() for x in lin]

    def flat_fun(*xs: Any) -> list[Any]:
        return eval_jaxpr(closed.jaxpr, (), *consts, *xs)

    def flat_transpose(*xs: Any) -> list[Any]:
        given = tree.unflatten(res_tree, xs[: len(res)])
        cts = tree.unflatten(out_tree, xs[len(res) :])
        found, found_tree = tree.flatten(fun_transpose(given, cts))
        if found_tree != lin_tree:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs, got output "
                f"structure {found_tree} and input structure {lin_tree}. Fix it in "
                f"{fun_source_info(fun_transpose)}."
            )
        for x, aval in zip(found, lin_avals, strict=True):
            if not typematch(typeof(x), aval):
                raise ValueError(
                    "the transpose of a linear_call gave a cotangent of type "
                    f"{typeof(x).str_short()} for a linear input of type {aval.str_short()}. Fix "
                    f"it in {fun_source_info(fun_transpose)}."
                )
        return found

    outs = linear_call_p.bind(
        *consts,
        *res,
        *lin,
        callee=closed,
        transpose=_Pair(flat_fun, flat_transpose),
        num_consts=len(consts),
        num_res=len(res),
    )
    return tree.unflatten(out_tree, outs)


class _Pair:
    """A linear function and its transpose, both of (residuals, linear operands)."""

    def __init__(self, fun: Callable[..., Any], transpose: Callable[..., Any]) -> None:
        self.fun, self.transpose = fun, transpose
        self.__name__ = "transpose"

    def swapped(self) -> _Pair:
        return _Pair(self.transpose, self.fun)

    def batched(self, axis: Any, res: Sequence[bool]) -> _Pair:
        """Both in a batch. Linear operands and results all have the axis in front."""
        return _Pair(*(_in_front(f, axis, res) for f in (self.fun, self.transpose)))


def _in_front(fun: Callable[..., Any], axis: Any, res: Sequence[bool]) -> Callable[..., Any]:
    def batched(*xs: Any) -> list[Any]:
        dims = [0 if b else None for b in res] + [0] * (len(xs) - len(res))
        outs, found = batch_flat(fun, xs, dims, axis)
        return [matchaxis(axis.size, d, 0, x) for x, d in zip(outs, found, strict=True)]

    return batched


def _linear_jvp(
    primals: Any, tangents: Any, *, callee: ClosedJaxpr, transpose: Any, **params: Any
) -> Any:
    n = params["num_consts"] + params["num_res"]
    outs = linear_call_p.bind(*primals, callee=callee, transpose=transpose, **params)
    dots: list[Any] = [Zero(typeof(x).to_tangent_aval()) for x in outs]
    if any(type(t) is not Zero for t in tangents[n:]):
        full = map(instantiate_zeros, tangents[n:])
        dots = linear_call_p.bind(*primals[:n], *full, callee=callee, transpose=transpose, **params)
    nonzeros = [type(t) is not Zero for t in tangents[:n]]
    if any(nonzeros):  # what the function does to its residuals is not linear: its own derivative
        jvp, _ = jvp_jaxpr(callee, [*nonzeros, *([False] * (len(primals) - n))], True)
        given = [t for t, nz in zip(tangents[:n], nonzeros, strict=True) if nz]
        more = eval_jaxpr(jvp.jaxpr, jvp.consts, *primals, *given)[len(outs) :]
        dots = [
            b if type(a) is Zero else add_jaxvals(a, b) for a, b in zip(dots, more, strict=True)
        ]
    return outs, dots


def _linear_transpose(
    cts: Any, *args: Any, callee: Any, transpose: Any, num_consts: int, num_res: int
) -> Any:
    res = args[num_consts : num_consts + num_res]
    n = num_consts + num_res
    if any(type(x) is UndefinedPrimal for x in args[:n]):
        raise TypeError("linear_call: the residuals are not linear; they cannot be transposed.")
    full = [*res, *map(instantiate_zeros, cts)]
    program, consts = trace_to_jaxpr(transpose.transpose, [typeof(x) for x in full])
    closed = closed_without_consts(convert_constvars(program))
    found = linear_call_p.bind(
        *consts,
        *full,
        callee=closed,
        transpose=transpose.swapped(),
        num_consts=len(consts),
        num_res=num_res,
    )
    given = iter(found)
    linear = [next(given) for _ in args[n:]]
    return [None] * n + [
        ct if type(x) is UndefinedPrimal else None for ct, x in zip(linear, args[n:], strict=True)
    ]


def _linear_batch(
    axis: Any, vals: Any, dims: Any, *, callee: Any, transpose: Any, num_consts: int, num_res: int
) -> Any:
    if all(d is None for d in dims):
        return None
    n = num_consts + num_res
    moved = move_to_front(vals, dims)
    flags = [d is not None for d in dims]
    lin = [
        x if f else broadcast(x, (axis.size,)) for x, f in zip(moved[n:], flags[n:], strict=True)
    ]
    marks = [*flags[:n], *([True] * len(lin))]
    batched, _ = batch_jaxpr(callee, axis, marks, True)
    closed = closed_without_consts(convert_constvars(batched.jaxpr))
    outs = linear_call_p.bind(
        *batched.consts,
        *moved[:n],
        *lin,
        callee=closed,
        transpose=transpose.batched(axis, flags[num_consts:n]),
        num_consts=num_consts + len(batched.consts),
        num_res=num_res,
    )
    return outs, [0] * len(outs)


linear_call_p = Primitive(
    "linear_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=lambda *avals, callee, **_: (callee.out_avals, callee.effects),
    impl=lambda *args, callee, **_: eval_jaxpr(callee.jaxpr, (), *args),
    jvp=_linear_jvp,
    transpose=_linear_transpose,
    axis_batch=_linear_batch,
)
