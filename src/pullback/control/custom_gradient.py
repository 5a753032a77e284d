"""`custom_gradient`: a function that gives its value together with its gradient's rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..core.avals import typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, closed_without_consts, convert_constvars, jaxpr_as_fun
from .custom import name_of
from .custom_vjp import custom_vjp


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
