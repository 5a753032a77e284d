"""What functions with derivative rules of their own share: arguments of which some are static,
shapes that rules must give, and calls that traces interpret.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..core.avals import typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    JaxprEqn,
    closed_without_consts,
    convert_constvars,
)
from ..core.naming import fun_source_info, names_of_arguments
from ..core.primitive import Primitive
from ..core.trace import Tracer, current_trace, use_trace
from ..errors import UnexpectedTracerError
from ..primitives.common import as_array
from ..transforms.partial_eval import dce_closed
from .common import as_taken

_tree_map = tree.tree_map


class RuleTrees:
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
    arrays, and NumPy's arrays have the dtype of their aval."""
    return [as_array(x) if isinstance(x, _NUMBERS) else as_taken(x) for x in flat]


class RulesPassedOn:
    """What gives rules to the wrapped function, if it takes some, is found on the wrapper too."""

    def __getattr__(self, name: str) -> Any:
        fun = self.__dict__.get("fun")
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap") and isinstance(fun, RulesPassedOn):
            return getattr(fun, name)
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self
        )


class CustomDerivative(RulesPassedOn):
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


def check_operand(x: Any, name: str, position: int) -> None:
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


def assemble(static: dict[int, Any], dynamic: Sequence[Any], n: int) -> list[Any]:
    rest = iter(dynamic)
    return [static[k] if k in static else next(rest) for k in range(n)]


def names_of_leaves(fun: Any, in_tree: Any, static: dict[int, Any], n: int, first: int = 0) -> Any:
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


def traced_parts(static: dict[int, Any]) -> tuple[list[Tracer], Any]:
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


def shape_and_dtype(aval: Any) -> tuple[Any, Any]:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None)


def mismatches(wrong: Sequence[Any], alone: bool) -> str:
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


class CustomCallPrimitive(Primitive):
    """A primitive that calls functions; traces handle it through their own methods."""

    protocol = "process_custom_jvp_call"

    def bind(self, *args: Any, subfuns: Sequence[Any], **params: Any) -> Any:
        return getattr(current_trace(), self.protocol)(self, *subfuns, args, **params)


def call_abstract_eval(*avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
    return call_jaxpr.out_avals, call_jaxpr.effects


def trace_primal(trace: Any, fun: Any, tracers: Any, kind: str) -> tuple[ClosedJaxpr, list[Any]]:
    avals = [typeof(x) for x in tracers]
    with use_trace(trace):
        names = getattr(getattr(fun, "f", fun), "leaf_names", None)
        info = DebugInfo(f"{kind} fun", fun_source_info(fun), names)
        jaxpr, consts = trace_to_jaxpr(fun, avals, info)
    return closed_without_consts(convert_constvars(jaxpr)), consts


def by_trace(*args: Any, **params: Any) -> Any:
    raise TypeError(
        "internal error in pullback: a custom derivative call is interpreted by the trace, not by "
        "a rule"
    )


def drop_outputs(
    used: Sequence[bool], eqn: JaxprEqn, rules: Callable[[], dict[str, Any]]
) -> JaxprEqn | None:
    """A call without outputs that nobody reads, and without what the function computes for them
    alone; `rules()` are its rules for the others, which need all inputs."""
    if not any(used):
        return None if not eqn.effects else eqn
    closed, _ = dce_closed(eqn.params["call_jaxpr"], used, True)
    if closed is eqn.params["call_jaxpr"]:
        return eqn
    return eqn.replace(
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params={**eqn.params, "call_jaxpr": closed, **rules()},
        effects=closed.effects,
    )
