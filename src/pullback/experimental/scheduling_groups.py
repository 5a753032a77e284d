"""Functions with notes for other compilers: which group of operations they belong to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import tree
from ..control.common import trace_function
from ..control.marked import xla_metadata_call_p as xla_metadata_call_p
from ..core.avals import typeof

__all__ = ["scheduling_group", "xla_metadata_call"]


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function's operations are of the group `name`, in programs that other
    compilers read. Nothing changes here.

    >>> from pullback.experimental.scheduling_groups import scheduling_group
    >>> scheduling_group(name="first")(jnp.sin)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return xla_metadata_call(scheduling_group=name)  # type: ignore[no-any-return]


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: Any) -> Any:
    """`f` as a call that is noted with `meta`, also in its derivatives and batches; a decorator
    without `f`.

    >>> from pullback.experimental.scheduling_groups import xla_metadata_call
    >>> pb.make_jaxpr(xla_metadata_call(jnp.sin, part="a"))(0.0).eqns[0].primitive
    xla_metadata_call
    """
    if f is None:
        return functools.partial(xla_metadata_call, **meta)

    @functools.wraps(f)
    def noted(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        closed, consts, out_tree = trace_function(
            lambda args, kwargs: f(*args, **kwargs),
            in_tree,
            [typeof(x) for x in leaves],
            "xla_metadata_call",
        )
        outs = xla_metadata_call_p.bind(*consts, *leaves, jaxpr=closed, **meta)
        return tree.unflatten(out_tree, outs)

    return noted
