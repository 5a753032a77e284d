"""Functions that say themselves how they are divided over devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import tree
from ..api.arguments import ShapeDtypeStruct, as_tuple, check_callable
from ..control.custom import resolve_kwargs
from ..control.expand import announce
from ..control.partitioned import custom_partitioning_p, struct
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.trace import Tracer
from ..errors import UnexpectedTracerError
from ..runtime.meshes import get_mesh
from .sharding_rules import (
    BATCHING as BATCHING,
    ArrayMapping as ArrayMapping,
    CompoundFactor as CompoundFactor,
    SdyShardingRule as SdyShardingRule,
    str_to_sdy_sharding_rule,
)

__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning"]


class custom_partitioning:
    """`fun`, with a rule that says how it is divided over devices.

    On one device, and outside of jitted functions, a call computes `fun`. In a jitted function
    whose arguments lie over a mesh it becomes what the rule's `partition` gives, on the blocks that
    the devices hold. `static_argnums` names arguments that are no arrays.

    >>> from pullback.experimental.custom_partitioning import custom_partitioning
    >>> double = custom_partitioning(lambda x: 2 * x)
    >>> double.def_partition(partition=None, sharding_rule="i -> i")
    >>> double(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)

    AttributeError if it is called before `def_partition`; TypeError unless `fun` can be called.
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Any = ()) -> None:
        check_callable(fun)
        self.fun = fun
        self.static_argnums = as_tuple(static_argnums, "static_argnums")
        self.partition: Any = None
        self._rule: dict[str, Any] | None = None
        functools.update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable[..., Any] | None,
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Any:
        """The rule. `partition(*static, mesh, args, results)` is told types with shardings, trees
        of `ShapeDtypeStruct`s, and gives the mesh, a function of blocks, and the shardings of its
        results and arguments. `sharding_rule`, a text as `"i j, j k -> i k"`, a SdyShardingRule, or
        a function that gives one, says how shardings of results follow from those of operands.

        TypeError or ValueError for a rule that is none.
        """
        rule = sharding_rule
        if rule is not None and not callable(rule) and not isinstance(rule, SdyShardingRule):
            rule = str_to_sdy_sharding_rule(
                rule,
                reduction_factors=reduction_factors,
                need_replication_factors=need_replication_factors,
                permutation_factors=permutation_factors,
                **factor_sizes,
            )
        self.partition = partition
        self._sizes = factor_sizes
        self._rule = {
            "partition": partition,
            "infer_sharding_from_operands": infer_sharding_from_operands,
            "propagate_user_sharding": propagate_user_sharding,
            "decode_shardings": decode_shardings,
            "sharding_rule": rule,
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            raise AttributeError(
                f"{getattr(self.fun, '__name__', self.fun)}: the rule is missing. Fix: "
                "f.def_partition(partition=..., sharding_rule=...)."
            )
        given = resolve_kwargs(self.fun, args, kwargs, "custom_partitioning")
        static = {k % len(given): given[k % len(given)] for k in self.static_argnums}
        for x in static.values():
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(
                    "custom_partitioning: a traced value was passed as an argument that "
                    "static_argnums marks. Fix: make it static in jit, too."
                )
        dynamic = tuple(x for k, x in enumerate(given) if k not in static)
        leaves, in_tree = tree.flatten(dynamic)
        out: dict[str, Any] = {}

        def flat(*xs: Any) -> list[Any]:
            rest = iter(tree.unflatten(in_tree, xs))
            all_args = [static[k] if k in static else next(rest) for k in range(len(given))]
            results, out["tree"] = tree.flatten(self.fun(*all_args))
            return results

        avals = [typeof(x) for x in leaves]
        call, consts = close_jaxpr(*trace_to_jaxpr(flat, avals))
        rule = self._rule["sharding_rule"]
        if callable(rule) and not isinstance(rule, SdyShardingRule):
            rule = rule(*static.values(), get_mesh(), avals, call.out_avals)
            if not isinstance(rule, SdyShardingRule):
                sizes: Any = self._sizes
                rule = str_to_sdy_sharding_rule(rule, **sizes)
        announce(custom_partitioning_p)
        results = custom_partitioning_p.bind(
            *consts,
            *leaves,
            **{**self._rule, "sharding_rule": rule},
            call=call,
            in_tree=in_tree,
            out_tree=out["tree"],
            static_args=tuple(static.values()),
        )
        return tree.unflatten(out["tree"], results)


struct[:] = [ShapeDtypeStruct]
