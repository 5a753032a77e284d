"""Names of `jax._src.core`: programs as documents, and names of axes for a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ....core import show
from ....core.documents import Break, Concat, Doc, Group, Nest, Text, join
from ....core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from ....core.show import Context as JaxprPpContext, Settings as JaxprPpSettings
from ....core.trace import axis_env, extend_axis_env, trace_state_clean

__all__ = ["JaxprPpContext", "JaxprPpSettings"]


def _open(jaxpr: Any) -> Jaxpr:
    found: Jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return found


def pp_jaxpr(jaxpr: Any, context: Any, settings: Any) -> Doc:
    """A program as a document."""
    return show.jaxpr_doc(_open(jaxpr), context, settings)


def pp_jaxprs(jaxprs: Sequence[Any], context: Any, settings: Any) -> Doc:
    """Several programs as a document."""
    inner = join(Break(), [pp_jaxpr(j, context, settings) for j in jaxprs])
    around = [Text("( "), Nest(2, Concat([Nest(2, inner)])), Break(""), Text(" )")]
    return Group(Nest(2, Concat(around)))


def pp_eqn(eqn: JaxprEqn, context: Any, settings: Any) -> Doc:
    """An equation as a document."""
    return show.eqn_doc(eqn, context, settings)


def pp_eqns(eqns: Sequence[JaxprEqn], context: Any, settings: Any) -> Doc:
    """Equations, one a line."""
    return join(Break("; "), [pp_eqn(eqn, context, settings) for eqn in eqns])


def pp_vars(
    vs: Sequence[Any],
    context: Any,
    *,
    separator: str = "",
    print_shapes: bool = False,
    is_binder: bool = False,
) -> Doc:
    """Variables, with their types if asked for."""
    names = [
        Text(context.var_name(v) + (f":{show.aval_text(v.aval)}" if print_shapes else ""))
        for v in vs
    ]
    return Nest(2, Group(join(Concat([Text(separator), Group(Break())]), names)))


def pp_kv_pairs(pairs: Sequence[tuple[str, Any]], context: Any, settings: Any) -> Doc:
    """Parameters in brackets."""
    if not pairs:
        return Concat([])
    inner = Nest(2, Concat([Break(""), join(Break(), show.param_docs(pairs, context, settings))]))
    return Group(Concat([Text("["), inner, Break(""), Text("]")]))


@contextlib.contextmanager
def extend_axis_env_nd(name_size_pairs: Iterable[tuple[Any, int]]) -> Iterator[None]:
    """Axes with names, for a block."""
    with extend_axis_env(list(name_size_pairs)):
        yield


def axis_frame(axis_name: Any) -> int:
    """The size of the axis of a name. NameError if there is none."""
    sizes = dict(axis_env())
    if axis_name not in sizes:
        raise NameError(f"unbound axis name: {axis_name}")
    return sizes[axis_name]  # type: ignore[no-any-return]


def reset_trace_state() -> bool:
    """Is nothing being traced?"""
    return trace_state_clean()


def replace_jaxpr_effects(jaxpr: ClosedJaxpr, effects: Any) -> ClosedJaxpr:
    """A program that is said to have other effects."""
    return ClosedJaxpr(jaxpr.jaxpr.replace(effects=frozenset(effects)), jaxpr.consts)
