"""`jax._src.state.discharge`: programs with references as programs of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..... import tree
from .....control.refs import discharge_cells
from .....core.avals import typeof
from .....core.build import close_jaxpr, trace_to_jaxpr
from .....core.jaxpr import ClosedJaxpr, eval_jaxpr
from .....core.refs import AbstractRef, is_ref_aval
from .....primitives.layout import full_of
from .types import _ref_type_aval_mappings, uninitialized


def discharge_state(
    closed_jaxpr: ClosedJaxpr, *, should_discharge: bool | Sequence[bool] = True
) -> ClosedJaxpr:
    """A program that takes the values of its references instead, and gives, after its own results,
    the values that they hold at the end."""
    avals = closed_jaxpr.in_avals
    wanted = should_discharge
    flags = [wanted] * len(avals) if isinstance(wanted, bool) else list(wanted)
    which = [is_ref_aval(a) and f for a, f in zip(avals, flags, strict=True)]

    def fun(*args: Any) -> list[Any]:
        held = [x for x, w in zip(args, which, strict=True) if w]

        def body(*cells: Any) -> Any:
            left = iter(cells)
            full = [next(left) if w else x for x, w in zip(args, which, strict=True)]
            return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *full)

        outs, ends = discharge_cells(
            body, [a for a, w in zip(avals, which, strict=True) if w], held
        )
        return [*outs, *ends]

    plain = [a.inner_aval if w else a for a, w in zip(avals, which, strict=True)]
    return close_jaxpr(*trace_to_jaxpr(fun, plain, closed_jaxpr.jaxpr.debug_info))[0]


def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """A function of values, from one of references to them that gives nothing: the values that the
    references hold at the end."""

    def wrapped(args: Any) -> Any:
        leaves, treedef = tree.flatten(args)
        avals, flat = zip(*map(_cell, leaves), strict=True) if leaves else ((), ())

        def body(*cells: Any) -> list[Any]:
            f(treedef.unflatten(cells))
            return []

        return treedef.unflatten(discharge_cells(body, list(avals), list(flat))[1])

    return wrapped


def _cell(x: Any) -> tuple[AbstractRef, Any]:
    """The type of the reference that a value becomes, and what it holds at first."""
    rule = _ref_type_aval_mappings.get(type(x))
    if rule is None:
        return AbstractRef(typeof(x)), x
    aval, held = rule(x)
    return aval, full_of(aval.inner_aval, 0) if held is uninitialized else held


run_state_reference = run_state
