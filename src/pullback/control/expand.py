"""Primitives of libraries whose lowering is a function (`mlir.lower_fun(f)`): before a program is
compiled, their equations are replaced by what the function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.high import held_programs
from ..core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    closed_without_consts,
    eval_jaxpr,
    jaxprs_in_params,
    subjaxprs,
)
from ..core.primitive import Primitive
from ..core.refs import operations, ref_effect
from ..core.trace import Trace, current_trace, use_trace
from ..primitives.convert import convert_weak

# Those of which a program may hold one. Programs need not be searched before there are any.
_registered: list[Primitive] = []


def register_inline(primitive: Primitive, fun: Callable[..., Any]) -> None:
    """`fun(*args, **params)` is what the primitive means; any backend can compile it."""
    primitive.rules["inline"] = fun
    announce(primitive)


def announce(primitive: Primitive) -> None:
    """A primitive that has such a function from the start is used: from now on programs are
    searched."""
    if primitive not in _registered:
        _registered.append(primitive)


class ExpandTrace(Trace):
    """Runs a program, those primitives being their functions; all else is the parent's."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        fun = primitive.rules.get("inline")
        if fun is not None:
            with use_trace(self):
                out = fun(*tracers, **params)
            return (
                out if primitive.multiple_results or not isinstance(out, (list, tuple)) else out[0]
            )
        if any(j.is_high for j, _ in held_programs(primitive, params)):
            with use_trace(self):
                return primitive.rules["lower"](tracers, params)
        if any(map(_needs, jaxprs_in_params(params))):
            params = {k: _expand_value(v) for k, v in params.items()}
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            return primitive.bind(*tracers, **params)

    def _inside(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        def expanded(*args: Any) -> Any:
            with use_trace(ExpandTrace(current_trace())):
                return fun(*args)

        return expanded

    # What is compiled is not differentiated any more: only the functions themselves matter.
    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            return self._inside(fun)(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **options: Any
    ) -> Any:
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            return self._inside(fun)(*tracers)


def _needs(jaxpr: Jaxpr) -> bool:
    """Does a program, or one that it holds, use such a primitive?"""
    found = jaxpr.derived.get("has inline")
    if found is None:
        found = (
            jaxpr.is_high
            or any("inline" in e.primitive.rules for e in jaxpr.eqns)
            or any(map(_needs, subjaxprs(jaxpr)))
        )
        jaxpr.derived["has inline"] = found
    return bool(found)


def _expand_value(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return getattr(value, "_make", type(value))(map(_expand_value, value))
    if isinstance(value, ClosedJaxpr):
        return expand(value)
    if isinstance(value, Jaxpr) and _needs(value) and not value.constvars:
        closed = expand(closed_without_consts(value))
        # A program without constants of its own stays so: it keeps the operations as they are.
        return value if closed.consts else closed.jaxpr
    return value


def _as_typed(value: Any, aval: Any) -> Any:
    """A result with the type that the program says: a primitive's function may return another
    weak type than its abstract evaluation has."""
    weak = getattr(aval, "weak_type", None)
    if weak is None or getattr(typeof(value), "weak_type", weak) == weak:
        return value
    return convert_weak(value, aval.dtype, weak)


def expand(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the functions of libraries' primitives in their places. Remembered."""
    if not _registered or not _needs(closed.jaxpr):
        return closed
    found = closed.derived.get("expanded")
    if found is None:

        def fun(*args: Any) -> list[Any]:
            with use_trace(ExpandTrace(current_trace())):
                outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
            return list(map(_as_typed, outs, closed.out_avals))

        jaxpr, consts = trace_to_jaxpr(fun, closed.in_avals, closed.jaxpr.debug_info)
        if ref_effect in jaxpr.effects:  # a function has references of its own
            jaxpr, consts = operations["discharge"](jaxpr, consts)
        found = closed.derived["expanded"] = close_jaxpr(jaxpr, consts)[0]
    return found
