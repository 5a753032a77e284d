"""Functions with derivative rules of their own: `custom_jvp`, `custom_vjp`, and the primitives that
carry them through programs.

A traced equation holds the program of the function and, late, its rules. Differentiating a
`custom_vjp` runs its forward function in the enclosing trace and stages `custom_lin`: an opaque
linear call that only transposition opens, by calling the backward function.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import typematch, typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    closed_without_consts,
    convert_constvars,
    jaxpr_as_fun,
)
from ..core.naming import fun_source_info, names_of_arguments
from ..core.primitive import Primitive
from ..core.refs import check_not_returned, is_ref, ref_identity
from ..core.symbolic import SymbolicZero, UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import Tracer, current_trace, use_trace
from ..core.tracebacks import boundary
from ..core.wrapped import WrappedFun
from ..errors import ForwardDerivativeError, UnexpectedTracerError
from ..primitives.common import as_array
from .common import ArgumentRefs, check_results, leaf_names, leaf_place
from .remat_opt import forward_or_primal

_tree_map = tree.tree_map


class _Trees:
    """What is learnt about a rule's results when it runs."""

    __slots__ = ("num_residuals", "numbers", "out_avals", "out_tree", "res_tree")

    def __init__(self) -> None:
        self.out_tree: Any = None
        self.res_tree: Any = None
        self.out_avals: list[Any] = []  # of the function itself
        self.num_residuals = 0
        self.numbers: list[bool] = []  # which residuals the rule gave as Python's numbers


def name_of(fun: Any) -> str:
    return getattr(fun, "__name__", type(fun).__name__)


def resolve_kwargs(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], kind: str
) -> tuple[Any, ...]:
    """All arguments as positional ones, defaults filled in. TypeError if they do not fit the
    signature. Parameters that are keywords only keep their own defaults: rules never see them.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        if kwargs:
            raise TypeError(
                f"{name_of(fun)} has no signature, so it must be called with positional arguments"
            ) from None
        return tuple(args)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"{_unresolved(kind, fun)}. Binding failed with the error:\n{error}. "
            f"Fix: call {name_of(fun)}{signature}."
        ) from None
    # Defaults first: `bound.args` ends where the first argument is missing.
    bound.apply_defaults()
    if named := sorted(bound.kwargs.keys() & kwargs.keys()):
        raise TypeError(
            f"{_unresolved(kind, fun)}.\nThe following keyword arguments could not be resolved to "
            f"positions: {', '.join(named)}. Fix: make them ordinary parameters."
        )
    return bound.args


def _unresolved(kind: str, fun: Any) -> str:
    return (
        f"The input arguments to the {kind}-decorated function {name_of(fun)} could not be "
        "resolved to positional-only arguments"
    )


def _positions(fun: Any, argnums: Any, argnames: Any) -> tuple[int, ...]:
    nums = tuple(argnums) if not isinstance(argnums, int) else (argnums,)
    if argnames:
        parameters = list(inspect.signature(fun).parameters)
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        for n in names:
            if n not in parameters:
                raise ValueError(f"nondiff_argnames has {n!r}, which {name_of(fun)} does not take")
        nums += tuple(parameters.index(n) for n in names if parameters.index(n) not in nums)
    return tuple(sorted(nums))


_NUMBERS = (bool, int, float, complex, np.generic)


def arrays_of(flat: Sequence[Any]) -> list[Any]:
    """Operands as rules see them: numbers, as which programs hold arrays of no axes too, are
    arrays."""
    return [as_array(x) if isinstance(x, _NUMBERS) else x for x in flat]


class RulesPassedOn:
    """What gives rules to the wrapped function, if it takes some, is found on the wrapper too."""

    def __getattr__(self, name: str) -> Any:
        fun = self.__dict__.get("fun")
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap") and isinstance(fun, RulesPassedOn):
            return getattr(fun, name)
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self
        )


class _CustomDerivative(RulesPassedOn):
    """What custom_jvp and custom_vjp share: the function, which arguments are not differentiated,
    and binding as a method.
    """

    _kind = "custom_jvp"

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        if not callable(fun):
            raise TypeError(f"Expected a callable value, got {fun}. Fix: pass the function itself.")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = _positions(fun, nondiff_argnums, nondiff_argnames)

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self if obj is None else tree.Partial(self, obj)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self._kind} must define __call__")

    def _split_args(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[dict[int, Any], list[Any], int]:
        """(static arguments by position, differentiated arguments, number of all)."""
        full = resolve_kwargs(self.fun, args, kwargs, self._kind)
        n = len(full)
        for k in self.nondiff_argnums:
            if not -n <= k < n:
                raise IndexError(
                    f"tuple index out of range: nondiff_argnums of {name_of(self.fun)} has {k}, "
                    f"and the call has {n} arguments. Fix: number the arguments from 0."
                )
        static = {k % n: full[k] for k in self.nondiff_argnums}
        for k, x in static.items():
            if isinstance(x, Tracer) and self._kind == "custom_vjp":
                raise_nondiff_tracer(self.fun, k, x)
        return static, [x for k, x in enumerate(full) if k not in static], n


def _check_operand(x: Any, name: str, position: int) -> None:
    """TypeError for an argument that no array can hold."""
    if hasattr(x, "aval"):
        return
    try:
        typeof(x)
    except TypeError:
        raise TypeError(
            f"Error interpreting argument to {name} as a JAX value. The problematic value is of "
            f"type {type(x)} and was passed to {name} at position {position}. Fix: pass arrays or "
            "numbers, or name the argument in nondiff_argnums."
        ) from None


def raise_nondiff_tracer(fun: Any, k: int, x: Any) -> None:
    """A traced value may not be a nondiff argument of a custom_vjp function."""
    raise UnexpectedTracerError(
        "Found a JAX Tracer object passed as an argument to a custom_vjp function in a position "
        "indicated by nondiff_argnums as non-differentiable "
        f"(argument {k} of {name_of(fun)}, {x.aval.str_short()}). Fix: pass it as an ordinary "
        "argument and return None for its cotangent."
    )


def _assemble(static: dict[int, Any], dynamic: Sequence[Any], n: int) -> list[Any]:
    rest = iter(dynamic)
    return [static[k] if k in static else next(rest) for k in range(n)]


class custom_jvp(_CustomDerivative):
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
            _check_operand(x, "custom_jvp_call", k)
        held = _Trees()
        fun, rule = self.fun, self.jvp
        # What is traced is an operand, if one without derivative: it may be of this very trace.
        traced, static_of = _traced_parts(static)
        first = len(traced)

        def flat_fun(*flat: Any) -> list[Any]:
            given = arrays_of(flat)
            rest = tree.unflatten(in_tree, given[first:])
            outs, held.out_tree = tree.flatten(fun(*_assemble(static_of(given), rest, n)))
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
        flat_fun.leaf_names = _leaf_names(fun, in_tree, static, n, first)  # type: ignore[attr-defined]
        flat_jvp.__name__ = name_of(rule)
        outs = custom_jvp_call_p.bind(
            *traced,
            *leaves,
            subfuns=(WrappedFun(flat_fun), WrappedFun(flat_jvp)),
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(held.out_tree, outs)


def _leaf_names(fun: Any, in_tree: Any, static: dict[int, Any], n: int, first: int = 0) -> Any:
    """What gives, when asked, the names of a custom function's flat arguments, `first` of which
    are not its own."""
    positions = [k for k in range(n) if k not in static]

    def places(*given: Any) -> tuple[dict[int, Any], dict[str, Any]]:
        return dict(zip(positions, given, strict=True)), {}

    names = names_of_arguments(fun, in_tree, places)

    def leaf_names() -> tuple[str, ...] | None:
        found = names()
        return found and ("",) * first + found

    return leaf_names


def _traced_parts(static: dict[int, Any]) -> tuple[list[Tracer], Any]:
    """The traced values among arguments, and what makes the arguments of operands of which the
    first are these."""
    leaves, structure = tree.flatten(static)
    at = [k for k, x in enumerate(leaves) if isinstance(x, Tracer)]

    def static_of(flat: Sequence[Any]) -> dict[int, Any]:
        if not at:
            return static
        filled = list(leaves)
        for k, x in zip(at, flat, strict=False):
            filled[k] = x
        return tree.unflatten(structure, filled)  # type: ignore[no-any-return]

    return [leaves[k] for k in at], static_of


def _shape_and_dtype(aval: Any) -> tuple[Any, Any]:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None)


def _mismatches(wrong: Sequence[Any], alone: bool) -> str:
    """Which tangents do not have the types of their primals."""
    if alone:
        aval, want, given, place = wrong[0]
        return (
            f". Expected {want.str_short()} (tangent type of {aval.str_short()}) but got "
            f"{given.str_short()}{place}."
        )
    lines = (
        f"\n  primal {aval.str_short()} with tangent {given.str_short()}, expecting tangent "
        f"{want.str_short()}{place}"
        for aval, want, given, place in wrong
    )
    return f", but got:{''.join(lines)}."


def _check_jvp_result(pair: Any, rule: str, fun: str, held: _Trees) -> list[Any]:
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
    if held.out_tree is not None and held.out_tree != out_tree:
        raise TypeError(
            f"Custom JVP rule {rule} for function {fun} must produce a pair (list or tuple of "
            "length two) where the first element represents the primal output "
            f"(equal in value to the output of the custom_jvp-decorated function {fun}, and in "
            "particular of the same container/pytree structure), but instead the JVP rule "
            "output's first element had container/pytree structure:\n"
            f"    {out_tree}\nwhile the custom_jvp-decorated function {fun} had output "
            f"container/pytree structure:\n    {held.out_tree}."
        )
    have = [typeof(x) for x in outs]
    pairs = zip(have, held.out_avals, strict=True) if held.out_tree is not None else ()
    if any(_shape_and_dtype(a) != _shape_and_dtype(b) for a, b in pairs):
        shown = (
            tree.unflatten(out_tree, [a.str_short() for a in avals])
            for avals in (have, held.out_avals)
        )
        rules, functions = (str(x).replace("'", "") for x in shown)
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
            f"and dtypes{_mismatches(wrong, len(dots) == 1)} Fix it in {rule}."
        )
    return [*outs, *dots]


class _CustomCallPrimitive(Primitive):
    """A primitive that calls functions; traces handle it through their own methods."""

    protocol = "process_custom_jvp_call"

    def bind(self, *args: Any, subfuns: Sequence[Any], **params: Any) -> Any:
        return getattr(current_trace(), self.protocol)(self, *subfuns, args, **params)


def _call_abstract_eval(*avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return call_jaxpr.out_avals, call_jaxpr.effects


class CustomJVPCallPrimitive(_CustomCallPrimitive):
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
    closed, consts = _trace_primal(trace, fun, tracers, "custom_jvp")
    params = {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": jvp,
        "num_consts": len(consts),
        "symbolic_zeros": symbolic_zeros,
    }
    return trace.emit(primitive, [*consts, *tracers], params)


def _trace_primal(trace: Any, fun: Any, tracers: Any, kind: str) -> tuple[ClosedJaxpr, list[Any]]:
    avals = [typeof(x) for x in tracers]
    with use_trace(trace):
        names = getattr(getattr(fun, "f", fun), "leaf_names", None)
        info = DebugInfo(f"{kind} fun", fun_source_info(fun), names)
        jaxpr, consts = trace_to_jaxpr(fun, avals, info)
    return closed_without_consts(convert_constvars(jaxpr)), consts


def _by_trace(*args: Any, **params: Any) -> Any:
    raise TypeError(
        "internal error in pullback: a custom derivative call is interpreted by the trace, not by "
        "a rule"
    )


custom_jvp_call_p = CustomJVPCallPrimitive(
    "custom_jvp_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=_call_abstract_eval,
    jvp=_by_trace,
    transpose=_by_trace,
    batch=_by_trace,
    stage_call=_stage_jvp_call,
)


class custom_vjp(_CustomDerivative):
    """A function with its own reverse derivative.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns (output, residuals); `bwd(*nondiff, residuals,
    cotangent)` returns a tuple with one cotangent an argument, None for zero.

    >>> @pb.custom_vjp
    ... def f(x): return x ** 2
    >>> f.defvjp(lambda x: (x ** 2, x), lambda x, ct: (2 * x * ct,))
    >>> pb.grad(f)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    _kind = "custom_vjp"

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules. With `symbolic_zeros`, `fwd` gets CustomVJPPrimal(value, perturbed) and
        `bwd` may get SymbolicZero.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {name} using defvjp. Fix: call "
                f"{name}.defvjp(fwd, bwd)."
            )
        static, dynamic, n = self._split_args(args, kwargs)
        leaves, in_tree = tree.flatten(tuple(dynamic))
        others = [k for k in range(n) if k not in static]
        ArgumentRefs(self.fun, in_tree, leaves, "custom_vjp", _placed_at(others))
        flat = _FlatVJP(self, static, n, in_tree, [typeof(x) for x in leaves])
        outs = custom_vjp_call_p.bind(
            *leaves,
            subfuns=(flat.run, flat.forward, flat.backward),
            out_trees=lambda: flat.held,
            symbolic_zeros=self.symbolic_zeros,
        )
        return tree.unflatten(flat.held.out_tree, outs)


class CustomVJPPrimal:
    """An argument of a forward rule with symbolic zeros: its value, and whether it is being
    differentiated.

    >>> @pb.custom_vjp
    ... def f(x, y):
    ...     return x * y
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> f.defvjp(forward, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> pb.grad(f)(2.0, 3.0)
    True False
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def _placed_at(positions: Sequence[int]) -> Callable[..., Any]:
    """Says that arguments are those at these positions, as `names_of_arguments` takes it."""
    return lambda *given: (dict(zip(positions, given, strict=True)), {})


class _FlatVJP:
    """One call of a custom_vjp function, on flat values."""

    def __init__(
        self,
        owner: custom_vjp,
        static: dict[int, Any],
        n: int,
        in_tree: Any,
        in_avals: Sequence[Any],
    ) -> None:
        self.owner, self.static, self.n = owner, static, n
        self.in_tree, self.in_avals = in_tree, in_avals
        self.held = _Trees()

        def run(*flat: Any) -> list[Any]:
            outs, self.held.out_tree = tree.flatten(owner.fun(*self._args(flat)))
            self.held.out_avals = [typeof(x) for x in outs]
            for x in outs:
                check_not_returned(x, lambda: f"custom_vjp primal function {name_of(owner.fun)}")
            return outs

        run.leaf_names = _leaf_names(owner.fun, in_tree, static, n)  # type: ignore[attr-defined]

        def forward(*flat: Any) -> list[Any]:
            return self._forward(flat)

        def backward(*flat: Any) -> list[Any]:
            return self._backward(flat)

        run.__wrapped__ = owner.fun  # type: ignore[attr-defined]
        forward.__name__, backward.__name__ = name_of(owner.fwd), name_of(owner.bwd)
        self.run, self.forward, self.backward = map(WrappedFun, (run, forward, backward))
        if owner.optimize_remat:
            if owner.symbolic_zeros:
                raise NotImplementedError(
                    "custom_vjp: optimize_remat and symbolic_zeros cannot be used together. Fix: "
                    f"leave out one of them in {name_of(owner.fun)}.defvjp(...)."
                )
            self.forward.primal = run  # type: ignore[attr-defined]

    def _args(self, flat: Sequence[Any]) -> list[Any]:
        return _assemble(self.static, tree.unflatten(self.in_tree, arrays_of(flat)), self.n)

    def _forward(self, flat: Sequence[Any]) -> list[Any]:
        """[outputs, residuals]. With symbolic zeros, each argument is followed by whether it is
        perturbed.
        """
        owner = self.owner
        if owner.symbolic_zeros:
            flat = [
                CustomVJPPrimal(x, bool(p))
                for x, p in zip(arrays_of(flat[::2]), flat[1::2], strict=True)
            ]
        pair = owner.fwd(*self._args(flat))  # type: ignore[misc]
        own = {ref_identity(x) for x in tree.leaves(flat) if is_ref(x)}
        for x in tree.leaves(pair):
            if is_ref(x) and ref_identity(x) not in own:
                check_not_returned(x, lambda: f"custom_vjp fwd function {name_of(owner.fwd)}")
        fun, fwd = name_of(owner.fun), name_of(owner.fwd)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {fwd} for function {fun} must produce a pair (list or tuple "
                "of length two) where the first element represents the primal output "
                f"(equal to those of the custom_vjp-decorated function {fun}) and the second "
                "element represents residuals (i.e. values stored from the forward pass for use "
                "on the backward pass), "
                f"but instead of a pair the fwd rule {fwd} produced {pair}."
            )
        outs, out_tree = tree.flatten(pair[0])
        res, res_tree = tree.flatten(pair[1])
        self._check_outputs(outs, out_tree)
        self.held.out_tree, self.held.res_tree, self.held.num_residuals = (
            out_tree,
            res_tree,
            len(res),
        )
        self.held.numbers = [type(x) in (bool, int, float, complex) for x in res]
        return [*outs, *res]

    def _check_outputs(self, outs: Sequence[Any], out_tree: Any) -> None:
        """TypeError if the forward rule gives other outputs than the function did when it was
        traced."""
        held, owner = self.held, self.owner
        if held.out_tree is None or (held.out_tree == out_tree and not held.out_avals):
            return
        fun, fwd = name_of(owner.fun), name_of(owner.fwd)
        said = (
            f"Custom VJP fwd rule {fwd} for function {fun} must produce a pair (list or tuple of "
            "length two) where the first element represents the primal output (equal to the output "
            f"of the custom_vjp-decorated function {fun}), but instead its first element had "
        )
        if held.out_tree != out_tree:
            raise TypeError(
                f"{said}structure {out_tree} while {fun} had {held.out_tree}. Fix: return in {fwd} "
                f"what {fun} returns."
            )
        names = leaf_names(out_tree, "output")
        wrong = [
            f"at {name} it had {typeof(x).str_short()} while {fun} had {aval.str_short()}"
            for name, x, aval in zip(names, outs, held.out_avals, strict=True)
            if not typematch(typeof(x), aval)
        ]
        if wrong:
            raise TypeError(
                f"{said}other shapes or dtypes: {'; '.join(wrong)}. Fix: return in {fwd} what "
                f"{fun} returns."
            )

    def _backward(self, flat: Sequence[Any]) -> list[Any]:
        """The cotangent of each flat argument; Zero where the rule gives None."""
        owner, held = self.owner, self.held
        leaves = flat[: held.num_residuals]
        arrays = arrays_of(leaves)  # a weak scalar is a number in programs, but no one's residual
        kept = [x if n else a for x, a, n in zip(leaves, arrays, held.numbers, strict=True)]
        res = tree.unflatten(held.res_tree, kept)
        ct = tree.unflatten(held.out_tree, arrays_of(flat[held.num_residuals :]))
        result = owner.bwd(*(self.static[k] for k in sorted(self.static)), res, ct)  # type: ignore[misc]
        if isinstance(result, list):
            result = tuple(result)
        leaves = self._match(result)
        return [
            self._check_ct(k, x, a)
            for k, (x, a) in enumerate(zip(leaves, self.in_avals, strict=True))
        ]

    def _match(self, result: Any) -> list[Any]:
        """The cotangents of the arguments' leaves. TypeError if the rule returned anything else."""

        def is_none(x: Any) -> bool:
            return x is None

        if isinstance(result, tuple):
            try:
                leaves = self.in_tree.flatten_up_to(result)
                if not any(type(x) in (tuple, list, dict) for x in leaves):
                    return leaves  # type: ignore[no-any-return]
            except ValueError:  # one cotangent (or None) may stand for all of a subtree's
                holder = tree.unflatten(self.in_tree, self.in_avals)
                cts, structure = tree.flatten(result, is_leaf=is_none)
                with contextlib.suppress(ValueError):
                    parts = structure.flatten_up_to(holder)
                    return [
                        ct
                        for ct, part in zip(cts, parts, strict=True)
                        for _ in tree.leaves(part)  # none where the argument itself has None
                    ]
        structure = tree.flatten(result)[1]
        raise TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure "
            "as the args tuple of the primal function, "
            "and in particular must produce a tuple of length equal to the number of arguments to "
            "the primal function, "
            f"but got bwd output structure {structure} for primal input structure {self.in_tree}. "
            f"Fix it in {name_of(self.owner.bwd)}."
        )

    def _check_ct(self, k: int, ct: Any, aval: Any) -> Any:
        """The cotangent that the rule gave for an argument. Its shape must be the argument's; its
        dtype need not be, as in JAX: what computes with it says so where it does not fit."""
        want = aval.to_ct_aval()
        if isinstance(ct, SymbolicZero) and _shape_and_dtype(ct.aval) != _shape_and_dtype(want):
            raise ValueError(
                "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not "
                "match the corresponding input tangent shape/dtype: at "
                f"{leaf_names(self.in_tree, 'output')[k]} the SymbolicZero had shape/dtype "
                f"{ct.aval.str_short()} while the corresponding input had shape/dtype "
                f"{want.str_short()}. Consider just returning a None here instead of a "
                "SymbolicZero object."
            )
        if ct is None or isinstance(ct, (SymbolicZero, Zero)):
            return Zero(want)
        have = typeof(ct)
        if getattr(want, "dtype", None) == dtypes.float0:
            return Zero(want)
        why = ""
        if getattr(have, "shape", None) != getattr(want, "shape", None):
            why = "the shapes do not match. Fix it"
        elif getattr(have, "vma", None) != getattr(want, "vma", None):
            why = (
                "the manual axis types do not match. Fix: lax.pcast(..., to='varying') or lax.psum"
            )
        if why:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at {leaf_names(self.in_tree, 'output')[k]} "
                f"the bwd rule produced an output of type {have.str_short()} corresponding to an "
                f"input of type {want.str_short()}, so {why} in {name_of(self.owner.bwd)}."
            )
        return ct


class CustomVJPCallPrimitive(_CustomCallPrimitive):
    protocol = "process_custom_vjp_call"

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        n, fwd, bwd = params["num_consts"], params["fwd_jaxpr_thunk"], params["bwd"]
        symbolic = params["symbolic_zeros"]

        def late_fwd(*args: Any) -> list[Any]:
            return fwd(*args[2 * n if symbolic else n :])  # type: ignore[no-any-return]

        def late_bwd(*args: Any) -> list[Any]:
            zeros = [Zero(a.to_ct_aval()) for a in params["call_jaxpr"].in_avals[:n]]
            return [*zeros, *bwd(*args)]

        late_fwd.__name__, late_bwd.__name__ = name_of(fwd), name_of(bwd)
        plain, forward = jaxpr_as_fun(params["call_jaxpr"]), WrappedFun(late_fwd)
        if hasattr(fwd, "primal"):
            forward.primal = plain  # type: ignore[attr-defined]
        return {
            "out_trees": params["out_trees"],
            "symbolic_zeros": symbolic,
            "subfuns": (WrappedFun(plain), forward, WrappedFun(late_bwd)),
        }


def _stage_vjp_call(
    trace: Any,
    primitive: Any,
    fun: Any,
    fwd: Any,
    bwd: Any,
    tracers: Any,
    out_trees: Any,
    symbolic_zeros: bool,
) -> Any:
    closed, consts = _trace_primal(trace, fun, tracers, "custom_vjp")
    params = {
        "call_jaxpr": closed,
        "fwd_jaxpr_thunk": fwd,
        "bwd": bwd,
        "num_consts": len(consts),
        "out_trees": out_trees,
        "symbolic_zeros": symbolic_zeros,
    }
    return trace.emit(primitive, [*consts, *tracers], params)


def _linear_call(
    fwd: Any,
    bwd: Any,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    out_trees: Any,
    symbolic_zeros: bool,
) -> tuple[list[Any], list[Any]]:
    """Runs the forward rule and stages the linear call: (outputs, their tangents)."""
    if symbolic_zeros:
        flags = [
            x for p, t in zip(primals, tangents, strict=True) for x in (p, type(t) is not Zero)
        ]
        results = fwd(*flags)
    elif hasattr(fwd, "primal"):
        results = forward_or_primal(fwd, fwd.primal, primals, out_trees)
    else:
        results = fwd(*primals)
    n_res = out_trees().num_residuals
    outs, res = results[: len(results) - n_res], results[len(results) - n_res :]
    tangent_avals = [typeof(x).to_tangent_aval() for x in outs]
    real_out = [_has_tangent(a) for a in tangent_avals]
    keep = [type(t) is not Zero and _has_tangent(typeof(t)) for t in tangents]
    ins = [t for t, k in zip(tangents, keep, strict=True) if k]
    dots = iter(
        custom_lin_p.bind(
            *res,
            *ins,
            num_res=n_res,
            bwd=_Backward(bwd, tangent_avals, keep),
            in_zeros=[not k for k in keep],
            symbolic_zeros=symbolic_zeros,
        )
    )
    return list(outs), [
        next(dots) if r else Zero(a) for a, r in zip(tangent_avals, real_out, strict=True)
    ]


def _has_tangent(aval: Any) -> bool:
    return getattr(aval, "dtype", None) != dtypes.float0


class _Backward:
    """A backward rule as a function of residuals and the cotangents of the outputs that have any,
    to those of such inputs.
    """

    def __init__(self, bwd: Any, out_avals: Sequence[Any], keep: Sequence[bool]) -> None:
        self.bwd, self.out_avals, self.keep = bwd, out_avals, keep
        self.__name__ = name_of(bwd)

    def real_avals(self) -> list[Any]:
        """The types of the outputs' tangents, of those that have one."""
        return [a for a in self.out_avals if _has_tangent(a)]

    def __call__(self, res: Sequence[Any], cts: Sequence[Any], symbolic_zeros: bool) -> list[Any]:
        rest = iter(cts)
        full = []
        for a in self.out_avals:
            ct = next(rest) if _has_tangent(a) else Zero(a)
            if type(ct) is Zero:
                ct = SymbolicZero(ct.aval) if symbolic_zeros else instantiate_zeros(ct)
            full.append(ct)
        return [ct for ct, k in zip(self.bwd(*res, *full), self.keep, strict=True) if k]


custom_vjp_call_p = CustomVJPCallPrimitive(
    "custom_vjp_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=_call_abstract_eval,
    jvp=_by_trace,
    transpose=_by_trace,
    batch=_by_trace,
    stage_call=_stage_vjp_call,
    linear_call=_linear_call,
)

_FORWARD = (
    "can't apply forward-mode autodiff (jvp) to a custom_vjp function. Fix: use reverse "
    "mode (grad, vjp), or custom_jvp."
)


def _lin_forward(*args: Any, **params: Any) -> Any:
    raise ForwardDerivativeError(_FORWARD)


def _lin_transpose(
    cts: Any, *args: Any, num_res: int, bwd: Any, symbolic_zeros: bool, **params: Any
) -> Any:
    res, tangents = args[:num_res], args[num_res:]
    found = bwd(res, cts, symbolic_zeros)
    return [None] * num_res + [
        ct if type(t) is UndefinedPrimal else None for ct, t in zip(found, tangents, strict=True)
    ]


def _lin_batch(vals: Any, dims: Any, **params: Any) -> Any:
    """Whoever batches a linear call evaluates it, which is forward mode: refused here, as in JAX,
    even where nothing reads the result."""
    raise ForwardDerivativeError(_FORWARD)


custom_lin_p = Primitive(
    "custom_lin",
    multiple_results=True,
    abstract_eval=lambda *avals, bwd, **params: bwd.real_avals(),
    impl=_lin_forward,
    computable=_lin_forward,  # not even without elements
    # A derivative of the linear call would be the forward derivative that there is not.
    jvp=_lin_forward,
    transpose=_lin_transpose,
    batch=_lin_batch,
    acts_on_zeros=lambda params: True,
)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns (output, backward function), as a custom_vjp function.

    >>> @pb.custom_gradient
    ... def f(x): return x ** 2, lambda g: (g * x,)
    """

    @custom_vjp
    def wrapped_fun(*args: Any, **kwargs: Any) -> Any:
        return _pair_of(fun, fun(*args, **kwargs))[0]

    def fwd(*args: Any, **kwargs: Any) -> Any:
        out, rule = _pair_of(fun, fun(*args, **kwargs))
        out_leaves, out_tree = tree.flatten(out)

        def flat_rule(*cts: Any) -> list[Any]:
            result = rule(tree.unflatten(out_tree, cts))
            result = (
                result
                if (isinstance(result, (list, tuple)) and len(args) != 1)
                or isinstance(result, tuple)
                else (result,)
            )
            leaves, of_result = tree.flatten(tuple(result))
            structure[:] = [of_result]
            return leaves

        structure: list[Any] = []  # None for an argument without cotangent is part of it
        avals = [typeof(x).to_ct_aval() for x in out_leaves]
        jaxpr, consts = trace_to_jaxpr(flat_rule, avals)
        closed = closed_without_consts(convert_constvars(jaxpr))
        return out, _RuleResiduals(closed, consts, structure[0])

    def bwd(res: Any, ct: Any) -> Any:
        leaves = tree.flatten(ct)[0]
        return tree.unflatten(res.structure, jaxpr_as_fun(res.closed)(*res.consts, *leaves))

    wrapped_fun.defvjp(fwd, bwd)
    return wrapped_fun


def _pair_of(fun: Any, result: Any) -> Any:
    """What a function of `custom_gradient` returned; TypeError unless it is a pair."""
    if not isinstance(result, tuple | list) or len(result) != 2 or not callable(result[1]):
        raise TypeError(
            f"The function {name_of(fun)} of custom_gradient must return a pair (output, backward "
            f"function), but returned {result}. Fix: return y, lambda g: ..."
        )
    return result


class _RuleResiduals:
    """A traced backward function and what it closed over; a pytree, so that it can be a
    residual.
    """

    def __init__(self, closed: ClosedJaxpr, consts: Sequence[Any], structure: Any) -> None:
        self.closed, self.consts, self.structure = closed, consts, structure


tree.register_pytree_node(
    _RuleResiduals,
    lambda r: (r.consts, (r.closed, r.structure)),
    lambda aux, consts: _RuleResiduals(aux[0], consts, aux[1]),
)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of CustomVJPPrimals.

    >>> from pullback.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
    >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True), CustomVJPPrimal(2.0, False)])
    [1.0, 2.0]
    """

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, CustomVJPPrimal):
            raise TypeError(f"unexpected leaf type: got {type(leaf)}, expected CustomVJPPrimal")
        return leaf.value

    return _tree_map(value, tree)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of the leaves of a value.

    >>> pb.custom_derivatives.zero_from_primal({"a": jnp.ones(2)})
    {'a': Array([0., 0.], dtype=float32)}
    """

    def zero_of(leaf: Any) -> Any:
        zero = Zero.from_primal_value(leaf)
        return SymbolicZero(zero.aval) if symbolic_zeros else instantiate_zeros(zero)

    return _tree_map(zero_of, val)
