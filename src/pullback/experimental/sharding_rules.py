"""Which axes of operands and results are one: rules in the manner of `einsum`, for compilers that
divide programs over devices. Reached as `experimental.custom_partitioning`."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from ..backends.xla.library import ir, sdy

__all__: list[str] = []

BATCHING = "…"  # any number of leading axes
_BATCHING_DIM_FACTOR_PREFIX = "?"
_NAME = re.compile(r"[A-Za-z]\w*")


def _check_factor(factor: str) -> None:
    """ValueError for what is no name."""
    if not factor[:1].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got '{factor[:1]}'")
    if not _NAME.fullmatch(factor):
        raise ValueError(f"Unknown character in the factor name '{factor}'")


def _is_batching(factor: str) -> bool:
    """Does it stand for leading axes?"""
    if factor.startswith(BATCHING):
        group = factor[len(BATCHING) :]
        if group and not group.isdigit():
            raise ValueError(f"Batching group should be a number, but got '{group}'")
        return True
    return False


def _get_batching_group(factor: str) -> str:
    """Which leading axes: their number."""
    return factor[len(BATCHING) :] or "0"


def _get_batching_dim_factor_name(batch_group: str, batch_dim_order: int) -> str:
    return f"{_BATCHING_DIM_FACTOR_PREFIX}{batch_group}_{batch_dim_order}"


class CompoundFactor(tuple[str, ...]):
    """The factors that an axis consists of, the slowest first. ValueError for fewer than two.

    >>> from pullback.experimental.custom_partitioning import CompoundFactor
    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    def __new__(cls, *factors: Any) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        for factor in factors:
            if not isinstance(factor, str):
                raise ValueError(
                    f"Each element of CompoundFactor must be a str, but got {type(factor)}"
                )
            if _is_batching(factor):
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of an array's axes: names, or compounds of them.

    >>> from pullback.experimental.custom_partitioning import ArrayMapping
    >>> ArrayMapping("i", "j")
    ('i', 'j')

    ValueError for what is no name.
    """

    def __new__(cls, *dim_mappings: Any) -> ArrayMapping:
        for k, d in enumerate(dim_mappings):
            if not isinstance(d, (str, CompoundFactor)):
                raise ValueError(
                    "Each element of ArrayMapping must be a str or CompoundFactor, but got "
                    f"{type(d)}"
                )
            if isinstance(d, str):
                if not _is_batching(d):
                    _check_factor(d)
                elif k:
                    raise ValueError("Ellipsis can only be used at the beginning of a dimension")
        return super().__new__(cls, dim_mappings)


def _names(mappings: Sequence[Any]) -> Iterator[tuple[str, bool]]:
    """Each name, and whether it is a whole axis."""
    for mapping in mappings:
        for d in mapping:
            if isinstance(d, str):
                yield d, True
            else:
                yield from ((f, False) for f in d)


class SdyShardingRule:
    """Which factors the axes of operands and of results have in common.

    `operand_mappings` and `result_mappings`: an ArrayMapping for each array. `reduction_factors`,
    `need_replication_factors`, `permutation_factors`: the factors that are summed over, that must
    not be divided, and along which elements are permuted. The keywords are the sizes of factors
    that only stand in compound ones.

    >>> from pullback.experimental.custom_partitioning import ArrayMapping, SdyShardingRule
    >>> rule = SdyShardingRule((ArrayMapping("i", "j"),), (ArrayMapping("i"),))
    >>> rule.result_mappings
    (('i',),)

    ValueError for sizes and names that the rule has no use for.
    """

    def __init__(
        self,
        operand_mappings: tuple[Any, ...],
        result_mappings: tuple[Any, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        used: OrderedDict[str, bool] = OrderedDict()
        for name, whole in _names(operand_mappings + result_mappings):
            used[name] = used.get(name, False) or whole
        for name in factor_sizes:
            if name not in used:
                raise ValueError(f"Factor {name} is not used in the rule, but size is provided")
            if used[name]:
                raise ValueError(
                    f"Factor {name} represents a whole dimension; do not specify its size"
                )
        for name, whole in used.items():
            if not whole and name not in factor_sizes:
                raise ValueError(
                    f"Factor {name} is only used in compound factors; must specify its size"
                )
        special = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        seen: set[str] = set()
        for what, names in special.items():
            if not isinstance(names, tuple):
                raise ValueError(f"{what} must be a tuple of factors")
            for name in names:
                if name not in used:
                    raise ValueError(f"Factor {name} in {what} is not used in the rule")
                if name in seen:
                    raise ValueError(f"Factor {name} can only be in one of the special factors")
                seen.add(name)
        self.operand_mappings, self.result_mappings = operand_mappings, result_mappings
        self.factor_sizes, self.special = factor_sizes, special
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors

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
                leading = any(isinstance(f, str) and _is_batching(f) for f in mapping)
                if not leading and len(mapping) != aval.ndim:
                    raise ValueError(
                        f"Sharding rule {k}th {what} has rank {len(mapping)}, but the operation "
                        f"{k}th {what} has rank {aval.ndim}"
                    )

    def __str__(self) -> str:
        more = "".join(f" {what}={names}" for what, names in self.special.items() if names)
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
            f"{self.factor_sizes}{more})"
        )

    __repr__ = __str__


def _parse_values(rule: str) -> tuple[ArrayMapping, ...]:
    """The axes of the operands, or results, of one side of a rule."""
    if rule.count("(") != rule.count(")") or re.search(r"^[^(]*\)", rule):
        raise ValueError("Brackets are not balanced")
    return tuple(_parse_axes(part) for part in rule.split(","))


def _parse_axes(said: str) -> ArrayMapping:
    said = said.replace("...", BATCHING).replace("(", " ( ").replace(")", " ) ")
    if "." in said:
        raise ValueError("Character '.' must be used inside ellipsis '...'")
    axes: list[Any] = []
    inside: list[str] | None = None
    for word in said.split():
        if word == "(":
            if inside is not None:
                raise ValueError(
                    "Compound factors should be one level, nested brackets are not allowed"
                )
            inside = []
        elif word == ")":
            if inside is None:
                raise ValueError("Brackets are not balanced")
            if len(inside) < 2:
                raise ValueError("Brackets should contain at least two factors")
            axes.append(CompoundFactor(*inside))
            inside = None
        elif BATCHING in word:
            if inside is not None or axes or word != BATCHING:
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            axes.append(BATCHING + "0")
        else:
            (axes if inside is None else inside).append(word)
    if inside is not None:
        raise ValueError("Brackets are not balanced")
    return ArrayMapping(*axes)


def str_to_sdy_sharding_rule(
    rule: str,
    *,
    reduction_factors: tuple[str, ...] = (),
    need_replication_factors: tuple[str, ...] = (),
    permutation_factors: tuple[str, ...] = (),
    **factor_sizes: int,
) -> SdyShardingRule:
    """The rule of a text such as "... i j, ... j k -> ... i k". TypeError for what is no text,
    ValueError for what is no rule."""
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    sides = rule.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    operands, results = map(_parse_values, sides)
    return SdyShardingRule(
        operands,
        results,
        reduction_factors=reduction_factors,
        need_replication_factors=need_replication_factors,
        permutation_factors=permutation_factors,
        **factor_sizes,
    )


class _Numbers:
    """The numbers and sizes of a rule's names, as values of these types have them."""

    def __init__(self, rule: SdyShardingRule) -> None:
        self.rule, self.sizes = rule, OrderedDict[str, int]()
        self.whole: dict[str, int] = {}  # of names that are whole axes somewhere

    def note(self, name: str, size: int) -> int:
        """The number of a name, of which an axis of this size is known."""
        known = self.sizes.setdefault(name, size)
        if size < known:  # an axis of size 1 beside one that is longer, say
            self.sizes[name] = size
        return list(self.sizes).index(name)

    def mapping(self, kind: str, k: int, axes: Any, value: Any) -> Any:
        shape = ir.RankedTensorType(value).shape
        leading = len(axes) > 0 and isinstance(axes[0], str) and _is_batching(axes[0])
        rank = len(axes) - leading
        if len(shape) < rank or (not leading and len(shape) != rank):
            least = " at least" if leading else ""
            raise ValueError(
                f"Sharding rule {k}th {kind} has{least} rank {rank}, but the operation {k}th "
                f"{kind} has rank {len(shape)}"
            )
        found = []
        before = len(shape) - rank if leading else 0
        if leading:
            group = _get_batching_group(axes[0])
            for d in range(before):
                name = _get_batching_dim_factor_name(group, d)
                found.append([self.note(name, shape[d])])
        for d, axis in enumerate(axes[leading:]):
            found.append(self._axis(kind, k, d + before, axis, shape[d + before]))
        dims = [sdy.DimMappingAttr.get(factor_indices=indices) for indices in found]
        return sdy.TensorMappingAttr.get(dim_mappings=dims)

    def _axis(self, kind: str, k: int, d: int, axis: Any, size: int) -> list[int]:
        if isinstance(axis, str):
            return [self.note(axis, size)]
        parts = [self.rule.factor_sizes.get(f) or self.whole[f] for f in axis]
        if math.prod(parts) != size:
            raise ValueError(
                f"{k}th {kind} actual size {size} doesn't match the size {math.prod(parts)} "
                f"derived from the compound factors {axis}"
            )
        return list(map(self.note, axis, parts))


def sdy_sharding_rule_to_mlir(
    rule: SdyShardingRule, operand_types: Sequence[Any], result_types: Sequence[Any]
) -> Any:
    """The rule as an attribute of MLIR's dialect sdy, for values of these types. ValueError if they
    are of other numbers or ranks."""
    for kind, types, axes in (
        ("operands", operand_types, rule.operand_mappings),
        ("results", result_types, rule.result_mappings),
    ):
        if len(types) != len(axes):
            raise ValueError(
                f"Sharding rule has {len(axes)} {kind}, but the operation has {len(types)} {kind}"
            )
    numbers = _Numbers(rule)
    for axes, value in zip(
        rule.operand_mappings + rule.result_mappings, [*operand_types, *result_types], strict=True
    ):
        shape = ir.RankedTensorType(value).shape
        for axis, size in zip(reversed(axes), reversed(shape), strict=False):
            if isinstance(axis, str) and not _is_batching(axis):
                numbers.whole.setdefault(axis, size)
    operands = [
        numbers.mapping("operand", k, axes, value)
        for k, (axes, value) in enumerate(zip(rule.operand_mappings, operand_types, strict=True))
    ]
    results = [
        numbers.mapping("result", k, axes, value)
        for k, (axes, value) in enumerate(zip(rule.result_mappings, result_types, strict=True))
    ]
    names = list(numbers.sizes)

    def indices(said: tuple[str, ...]) -> list[int]:
        return [names.index(name) for name in said]

    return sdy.OpShardingRuleAttr.get(
        factor_sizes=list(numbers.sizes.values()),
        operand_mappings=operands,
        result_mappings=results,
        reduction_factors=indices(rule.reduction_factors),
        need_replication_factors=indices(rule.need_replication_factors),
        permutation_factors=indices(rule.permutation_factors),
        is_custom=True,
    )
