"""The reference backend: every primitive as a NumPy function. The oracle of the compiler's tests,
and the engine of last resort.

RULES[primitive](*arrays, **params) -> array | list of arrays       (NumPy in, NumPy out, dtypes as
the primitive's type rule says)
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.avals import typeof
from ...core.jaxpr import Jaxpr, Literal
from ...lazy_imports import lazy_module
from ...primitives.common import as_array
from . import table
from .table import fitted

if TYPE_CHECKING:
    from .table import RULES

__all__ = ["RULES", "eval_jaxpr_numpy", "evaluate", "rule_of"]

families: Any = lazy_module("pullback.backends.reference.families")

# Primitives that programs have NumPy compute between their kernels, by the module of their rules: a
# first call that needs one imports no others.
ALONE = {
    "sort": "sort top_k",
    "callback": "pure_callback io_callback debug_callback debug_print",
}
_ALONE = {name: module for module, names in ALONE.items() for name in names.split()}


@functools.cache
def _every_rule() -> dict[Any, Callable[..., Any]]:
    """The table with the rules of all families."""
    families.enter(eval_jaxpr_numpy)
    return table.RULES


def __getattr__(name: str) -> Any:
    if name == "RULES":
        return _every_rule()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """A number, NumPy array or array as a NumPy array of its canonical dtype."""
    d = typeof(x).dtype
    if isinstance(x, np.ndarray) and x.dtype == d:
        return x
    return np.asarray(x).astype(d, copy=False)


def rule_of(primitive: Any) -> Callable[..., Any]:
    """How a primitive is applied to NumPy arrays: our rule, or what a library gave it to compile
    or evaluate with. Raises NotImplementedError, naming it, if there is none.
    """
    module = _ALONE.get(primitive.name)
    if module is not None:
        importlib.import_module(f"{__name__}.{module}")
    rule = table.RULES.get(primitive) or _every_rule().get(primitive)
    if rule is not None:
        return rule
    impl = primitive.rules.get("compiled") or primitive.rules.get("impl")
    if not callable(impl):
        raise NotImplementedError(
            f"Evaluation rule for '{primitive.name}' not implemented, and lowering rule for "
            f"primitive '{primitive.name}' not found. Fix: primitive.def_impl(rule), or register "
            "a lowering."
        )

    def call(*arrays: Any, **params: Any) -> Any:
        # A library's function gets arrays of its own; these are views of a plan's memory.
        out = impl(*(as_array(np.array(x)) for x in arrays), **params)
        return [np.asarray(x) for x in out] if primitive.multiple_results else np.asarray(out)

    return call


def evaluate(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Applies a primitive to NumPy arrays (or numbers). Raises NotImplementedError, naming it, for
    a primitive without a rule.
    """
    types = [typeof(x) for x in args]
    avals, _ = primitive.abstract_eval(*types, **params)
    primitive.check_computable(*types, **params)
    rule = rule_of(primitive)
    arrays = [to_numpy(x) for x in args]
    with np.errstate(all="ignore"):
        out = rule(*arrays, **params)
    if primitive.multiple_results:
        return [fitted(x, a) for x, a in zip(out, avals, strict=True)]
    return fitted(out, avals)


def eval_jaxpr_numpy(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Runs a program on NumPy arrays, equation by equation."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return v.val if type(v) is Literal else env[v]

    for eqn in jaxpr.eqns:
        out = evaluate(eqn.primitive, [read(v) for v in eqn.invars], eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return [read(v) for v in jaxpr.outvars]
