"""Names of `jax._src.interpreters.partial_eval` and `jax._src.custom_derivatives` that stand for
something else than ours of that name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .... import dtypes, tree
from ....control.custom import RuleTrees, assemble, resolve_kwargs
from ....control.remat_opt import forward_or_primal
from ....core.avals import typeof
from ....core.jaxpr import ClosedJaxpr, Jaxpr
from ....core.trace import Tracer
from ....transforms.batch import BatchTracer


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program that has no constants, with them."""
    return ClosedJaxpr(jaxpr, [])


def _maybe_perturbed(x: Any) -> bool:
    """May a value be differentiated?"""
    while isinstance(x, BatchTracer):
        x = x.val
    if not isinstance(x, Tracer):
        return False
    return bool(getattr(typeof(x).to_tangent_aval(), "dtype", None) != dtypes.float0)


def optimize_remat_of_custom_vjp_fwd(
    fun: Callable[..., Any],
    debug_fun: Any,
    fwd: Callable[..., Any],
    debug_fwd: Any,
    nondiff_argnums: Sequence[int] = (),
    symbolic_zeros: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A forward rule of a custom_vjp function `fun` that becomes a call of `fun` in programs where
    nobody reads its residuals: what `defvjp(fwd, bwd, optimize_remat=True)` does. The other two
    arguments say how JAX calls both in messages."""
    if symbolic_zeros:
        raise NotImplementedError(
            "remat optimization for custom_vjp does not support symbolic zeros. Fix: leave out one "
            "of them."
        )

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        full = resolve_kwargs(fwd, args, kwargs, "custom_vjp")
        n = len(full)
        static = {k % n: full[k] for k in nondiff_argnums}
        leaves, in_tree = tree.flatten(tuple(x for k, x in enumerate(full) if k not in static))
        held = RuleTrees()

        def called(f: Callable[..., Any], flat: Sequence[Any]) -> Any:
            return f(*assemble(static, tree.unflatten(in_tree, flat), n))

        def both(*flat: Any) -> list[Any]:
            out, residuals = called(fwd, flat)
            outs, held.out_tree = tree.flatten(out)
            res, held.res_tree = tree.flatten(residuals)
            held.num_residuals = len(res)
            return [*outs, *res]

        found = forward_or_primal(
            both, lambda *flat: tree.leaves(called(fun, flat)), leaves, lambda: held
        )
        count = len(found) - held.num_residuals
        out = tree.unflatten(held.out_tree, found[:count])
        return out, tree.unflatten(held.res_tree, found[count:])

    return forward
