"""Functions that say themselves how they are divided over devices."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from .. import tree
from ..api.arguments import ShapeDtypeStruct, as_tuple, check_callable
from ..control.custom import resolve_kwargs
from ..control.partitioned import custom_partitioning_p, struct
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.trace import Tracer
from ..errors import UnexpectedTracerError
from ..runtime.shardings import get_mesh

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

    def check(self, avals: Any, out_avals: Any) -> None:
        """ValueError unless the rule is about so many arrays, each of so many axes."""
        for what, mappings, types in [
            ("operand", self.operand_mappings, avals),
            ("result", self.result_mappings, out_avals),
        ]:
            if len(mappings) != len(types):
                raise ValueError(
                    f"Sharding rule has {len(mappings)} {what}s, but the operation has "
                    f"{len(types)} {what}s"
                )
            for k, (mapping, aval) in enumerate(zip(mappings, types, strict=True)):
                if BATCHING not in mapping and len(mapping) != aval.ndim:
                    raise ValueError(
                        f"Sharding rule {k}th {what} has rank {len(mapping)}, but the operation "
                        f"{k}th {what} has rank {aval.ndim}"
                    )

    def __repr__(self) -> str:
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, {self.factor_sizes})"
        )


def _parsed(rule: str, sizes: dict[str, int]) -> SdyShardingRule:
    """A rule that is written as `"i j, j k -> i k"`. TypeError for what is no text, ValueError for
    what is no rule."""
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    if rule.count("->") != 1:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    operands, results = (
        tuple(map(_mapping, side.split(",") if side.strip() else [])) for side in rule.split("->")
    )
    plain = {f for m in (*operands, *results) for f in m if not isinstance(f, tuple)}
    for name in sizes:
        if name in plain:
            raise ValueError(f"Factor {name} represents a whole dimension; do not specify its size")
    return SdyShardingRule(operands, results, **sizes)


def _check_factors(rule: SdyShardingRule, named: dict[str, tuple[str, ...]]) -> None:
    """ValueError unless the rule has the factors of which something is said, and sums none away
    that its results have."""
    groups = (*rule.operand_mappings, *rule.result_mappings)
    used = {n for m in groups for f in m for n in (f if isinstance(f, tuple) else (f,))}
    for what, names in named.items():
        for name in names:
            if name not in used:
                raise ValueError(f"Factor {name} in {what} is not used in the rule")
    results = {f for m in rule.result_mappings for f in m}
    for name in named["reduction_factors"]:
        if name in results:
            raise ValueError(f"reduction factor {name} cannot be in result mappings")


def _mapping(text: str) -> ArrayMapping:
    """The factors of one array, as they are written."""
    factors: list[Any] = []
    group: list[str] | None = None
    for word in _WORDS.findall(text):
        if word == "(":
            group = []
        elif word == ")":
            factors.append(CompoundFactor(*_checked_group(group)))
            group = None
        else:
            name = BATCHING if word in ("...", BATCHING) else word
            if name is not BATCHING and not name[0].isalpha():
                raise ValueError(
                    f"Factor names have to start with a letter, but got '{name[0]}' in {text!r}"
                )
            (factors if group is None else group).append(name)
    if group is not None:
        raise ValueError(f"Brackets are not closed in {text!r}")
    return ArrayMapping(*factors)


def _checked_group(group: list[str] | None) -> list[str]:
    if group is None or len(group) < 2:
        raise ValueError("Brackets should contain at least two factors")
    return group


_WORDS = re.compile(r"\.\.\.|[()]|[^\s()]+")


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
            rule = _parsed(rule, factor_sizes)
        named = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if isinstance(rule, SdyShardingRule):
            _check_factors(rule, named)
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
            rule = rule if isinstance(rule, SdyShardingRule) else _parsed(rule, self._sizes)
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
