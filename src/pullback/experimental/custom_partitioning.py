"""Functions that say themselves how they are divided over devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..api.arguments import as_tuple, check_callable

__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning"]

# Stands in a rule for any number of leading axes.
BATCHING = "…"


class CompoundFactor(tuple[str, ...]):
    """The factors that an axis consists of, the slowest first. ValueError for fewer than two.

    >>> from pullback.experimental.custom_partitioning import CompoundFactor
    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        return tuple.__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of an array's axes.

    >>> from pullback.experimental.custom_partitioning import ArrayMapping
    >>> ArrayMapping("i", "j")
    ('i', 'j')
    """

    def __new__(cls, *factors: Any) -> ArrayMapping:
        return tuple.__new__(cls, factors)


class SdyShardingRule:
    """Which factors the axes of operands and of results have in common.

    `operand_mappings` and `result_mappings`: an ArrayMapping for each array; the keywords are the
    sizes of factors that a compound factor does not tell.

    >>> from pullback.experimental.custom_partitioning import ArrayMapping, SdyShardingRule
    >>> rule = SdyShardingRule((ArrayMapping("i", "j"),), (ArrayMapping("i"),))
    >>> rule.result_mappings
    (('i',),)
    """

    def __init__(
        self,
        operand_mappings: tuple[Any, ...],
        result_mappings: tuple[Any, ...],
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings, self.result_mappings = operand_mappings, result_mappings
        self.factor_sizes = factor_sizes


class custom_partitioning:
    """`fun`, with a rule that says how it is divided over devices.

    All devices of a process share its memory here, and one program computes for all: `fun` itself
    is what runs, and its results lie as its operations say. `static_argnums` names arguments that
    are no arrays.

    >>> from pullback.experimental.custom_partitioning import custom_partitioning
    >>> double = custom_partitioning(lambda x: 2 * x)
    >>> double.def_partition(partition=None, sharding_rule="i -> i")
    >>> double(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)

    AssertionError if it is called before `def_partition`; TypeError unless `fun` can be called.
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Any = ()) -> None:
        check_callable(fun)
        self.fun = fun
        self.static_argnums = as_tuple(static_argnums, "static_argnums")
        self.partition: Any = None
        self._defined = False
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
        """The rule: how a call is divided (`partition`), and how shardings of operands and results
        follow from each other. What each argument holds is JAX's; none is called here."""
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        self.sharding_rule, self._defined = sharding_rule, True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._defined:
            raise AssertionError(
                f"{getattr(self.fun, '__name__', self.fun)}: the rule is missing. Fix: "
                "f.def_partition(partition=..., sharding_rule=...)."
            )
        return self.fun(*args, **kwargs)
