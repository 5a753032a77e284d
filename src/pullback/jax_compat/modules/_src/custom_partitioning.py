"""`jax._src.custom_partitioning`: functions that say how they are divided over devices.
Programs are not divided here: a call computes the function on whole arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ....control.custom import resolve_kwargs


class custom_partitioning:
    """A function whose parts on several devices have a program of their own, which `def_partition`
    says."""

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun)
        self.fun, self.static_argnums = fun, tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.options: dict[str, Any] = {}

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        **options: Any,
    ) -> Callable[..., Any]:
        """Says how the function is divided."""
        self.partition = partition
        self.options = {
            "infer_sharding_from_operands": infer_sharding_from_operands,
            "propagate_user_sharding": propagate_user_sharding,
            "decode_shardings": decode_shardings,
            "sharding_rule": sharding_rule,
            **options,
        }
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*resolve_kwargs(self.fun, args, kwargs, "custom_partitioning"))
