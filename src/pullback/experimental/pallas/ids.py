"""Where in the grid a kernel is: `program_id` and `num_programs`, as equations of the kernel; and
kernels without these equations, which take the place as arguments.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...control.cond import cond_p
from ...control.scan import scan_p
from ...control.while_loop import while_p
from ...core.avals import ShapedArray
from ...core.build import close_jaxpr, trace_to_jaxpr
from ...core.jaxpr import ClosedJaxpr, Jaxpr, closed_without_consts, eval_jaxpr, jaxprs_in_params
from ...core.primitive import No, Primitive
from ...core.trace import Trace, current_trace, extend_axis_env, use_trace
from ...primitives.collectives import axis_index_p
from ...records import record

INDEX = ShapedArray((), np.dtype(np.int32))


@record(eq=True)
class Grid:
    """The grid that a kernel is traced for: sizes (None: known at run time) and names of axes."""

    sizes: tuple[int | None, ...]
    names: tuple[Any, ...] | None = None


class _Grids(threading.local):
    """The grids of the kernels that this thread traces, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Grid] = []


_grids = _Grids()


@contextlib.contextmanager
def tracing_for(grid: Grid) -> Iterator[None]:
    """Traces are of a kernel over this grid; the only named axes are the grid's."""
    axes = [(n, k or 1) for n, k in zip(grid.names or (), grid.sizes, strict=False)]
    _grids.stack.append(grid)
    try:
        with extend_axis_env(axes, only=True):
            yield
    finally:
        _grids.stack.pop()


def _size(axis: Any, name: str) -> int | None:
    if not _grids.stack:
        raise AssertionError(
            f"pl.{name}(axis={axis}) is asked outside of a kernel. Fix: call it in the function "
            "that pallas_call is given."
        )
    if not isinstance(axis, int):
        raise TypeError(
            f"pl.{name}: the axis must be an integer, got {axis!r}. Fix: count the grid's axes "
            "from 0."
        )
    sizes = _grids.stack[-1].sizes
    if not 0 <= axis < len(sizes):
        raise ValueError(
            f"Axis {axis} is out of bounds for grid {sizes}. Fix: the grid has {len(sizes)} axes, "
            "counted from 0."
        )
    return sizes[axis]


def _place(name: str) -> Primitive:
    return Primitive(
        name, abstract_eval=lambda *, axis: INDEX, jvp=No.HOLDS_NO_ARRAYS,
        transpose=No.HOLDS_NO_ARRAYS, batch=No.HOLDS_NO_ARRAYS, register=False,
    )  # fmt: skip


program_id_p = _place("program_id")
num_programs_p = _place("num_programs")


def program_id(axis: int) -> Any:
    """Inside a kernel: the index of this step along an axis of the grid, an int32.

    >>> kernel = lambda o_ref: o_ref.set(pl.program_id(0), pl.program_id(0))
    >>> pl.pallas_call(kernel, pb.ShapeDtypeStruct((3,), jnp.int32), grid=3)()
    Array([0, 1, 2], dtype=int32)

    Raises ValueError if the grid has no such axis, AssertionError outside of a kernel.
    """
    _size(axis, "program_id")
    return program_id_p.bind(axis=axis)


def num_programs(axis: int) -> Any:
    """Inside a kernel: the grid's size along an axis: an int, or an int32 if it is traced.

    >>> kernel = lambda o_ref: o_ref.set(pl.num_programs(0), pl.program_id(0))
    >>> pl.pallas_call(kernel, pb.ShapeDtypeStruct((3,), jnp.int32), grid=3)()
    Array([3, 3, 3], dtype=int32)

    Raises ValueError if the grid has no such axis, AssertionError outside of a kernel.
    """
    size = _size(axis, "num_programs")
    return num_programs_p.bind(axis=axis) if size is None else size


# --- kernels that take the place as arguments ---
def _asks(jaxpr: Jaxpr, names: tuple[Any, ...]) -> bool:
    """Does a program, or one that it holds, ask for its place in this grid?"""
    key = ("asks for its place", names)
    found = jaxpr.derived.get(key)
    if found is None:
        found = jaxpr.derived[key] = any(
            e.primitive in (program_id_p, num_programs_p)
            or (e.primitive is axis_index_p and e.params["axis_name"] in names)
            # A kernel within the kernel has a grid of its own.
            or (e.primitive.name != "pallas_call" and _any_asks(e.params, names))
            for e in jaxpr.eqns
        )
    return bool(found)


def _any_asks(params: dict[str, Any], names: tuple[Any, ...]) -> bool:
    return any(_asks(j, names) for j in jaxprs_in_params(params))


class PlaceTrace(Trace):
    """Runs a program that asks for its place: `place` has the index along each axis, then the size
    along each; all else is the parent's.
    """

    __slots__ = ("names", "place")

    def __init__(self, parent: Trace, place: Sequence[Any], names: tuple[Any, ...]) -> None:
        super().__init__(parent)
        self.place, self.names = tuple(place), names

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if primitive is program_id_p:
            return self.place[params["axis"]]
        if primitive is num_programs_p:
            return self.place[len(self.place) // 2 + params["axis"]]
        if primitive is axis_index_p and params["axis_name"] in self.names:
            return self.place[self.names.index(params["axis_name"])]
        if primitive.name != "pallas_call" and _any_asks(params, self.names):
            handed = _HANDED.get(primitive)
            if handed is None:  # a call of some kind: what it holds is run here
                with use_trace(self):
                    return _run_held(primitive, tracers, params)
            tracers, params = handed(self, tracers, params)
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            return primitive.bind(*tracers, **params)

    def handed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        return taking_place(closed, len(self.place) // 2, self.names)

    def _inside(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        place, names = self.place, self.names

        def placed(*args: Any) -> Any:
            with use_trace(PlaceTrace(current_trace(), place, names)):
                return fun(*args)

        return placed

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, **options: Any
    ) -> Any:
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_jvp_call(
                primitive, self._inside(fun), jvp, tracers, **options
            )

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **options: Any
    ) -> Any:
        parent: Any = self.parent_trace
        with use_trace(parent):
            return parent.process_custom_vjp_call(
                primitive, self._inside(fun), fwd, bwd, tracers, **options
            )


def taking_place(closed: ClosedJaxpr, rank: int, names: tuple[Any, ...] = ()) -> ClosedJaxpr:
    """The program of (index along each axis, size along each axis, *its arguments) that asks for
    nothing. Remembered.
    """
    key = ("taking its place", rank, names)
    found = closed.derived.get(key)
    if found is None:

        def fun(*args: Any) -> list[Any]:
            trace = PlaceTrace(current_trace(), args[: 2 * rank], names)
            with use_trace(trace):
                outs = eval_jaxpr(closed.jaxpr, closed.consts, *args[2 * rank :])
            trace.invalidate()
            return outs

        avals = [*(INDEX,) * (2 * rank), *closed.in_avals]
        traced = trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info)
        found = closed.derived[key] = close_jaxpr(*traced)[0]
    return found


def _hand_to_cond(trace: PlaceTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
    branches = tuple(map(trace.handed, params["branches"]))
    return [args[0], *trace.place, *args[1:]], {**params, "branches": branches}


def _hand_to_scan(trace: PlaceTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
    count = params["num_consts"] + len(trace.place)
    held = {"jaxpr": trace.handed(params["jaxpr"]), "num_consts": count}
    return [*trace.place, *args], {**params, **held}


def _hand_to_while(trace: PlaceTrace, args: Sequence[Any], params: dict[str, Any]) -> Any:
    n, more = params["cond_nconsts"], len(trace.place)
    held = {
        "cond_jaxpr": trace.handed(params["cond_jaxpr"]),
        "body_jaxpr": trace.handed(params["body_jaxpr"]),
        "cond_nconsts": n + more,
        "body_nconsts": params["body_nconsts"] + more,
    }
    return [*trace.place, *args[:n], *trace.place, *args[n:]], {**params, **held}


_HANDED: dict[Any, Callable[..., Any]] = {
    cond_p: _hand_to_cond,
    scan_p: _hand_to_scan,
    while_p: _hand_to_while,
}


def _run_held(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a call means: its program run on its operands."""
    inline = primitive.rules.get("inline")
    if inline is not None:
        return inline(*args, **params)
    held = [v for v in params.values() if isinstance(v, (Jaxpr, ClosedJaxpr))]
    if len(held) != 1:
        raise TypeError(
            f"pl.program_id cannot be asked inside of {primitive}. Fix: ask before it, in the "
            "kernel, and pass the number on."
        )
    closed = held[0] if isinstance(held[0], ClosedJaxpr) else closed_without_consts(held[0])
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)
