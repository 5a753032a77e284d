"""`jax._src.jaxpr_util`: what programs are made of, counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ....core.jaxpr import jaxprs_in_params


def all_eqns(jaxpr: Any) -> Iterator[tuple[Any, Any]]:
    """The equations of a program and of those within it, each with the program that has it."""
    yield from ((jaxpr, eqn) for eqn in jaxpr.eqns)
    for eqn in jaxpr.eqns:
        for inner in jaxprs_in_params(eqn.params):
            yield from all_eqns(inner)


def collect_eqns(jaxpr: Any, key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """The equations by what a function says of them."""
    found = defaultdict(list)
    for _, eqn in all_eqns(jaxpr):
        found[key(eqn)].append(eqn)
    return dict(found)


def histogram(
    jaxpr: Any, key: Callable[[Any], Any], key_fmt: Callable[[Any], Any] = lambda x: x
) -> dict[Any, int]:
    """Of how many equations a function says the same."""
    counts = Counter(key(eqn) for _, eqn in all_eqns(jaxpr))
    return {key_fmt(k): n for k, n in counts.items()}


def primitives(jaxpr: Any) -> dict[str, int]:
    """How many equations each primitive has."""
    return histogram(jaxpr, lambda eqn: eqn.primitive.name)


def primitives_by_shape(jaxpr: Any) -> dict[str, int]:
    """How many equations each primitive has with results of the same types."""

    def key(eqn: Any) -> str:
        types = ", ".join(v.aval.str_short() for v in eqn.outvars)
        return f"{eqn.primitive.name} :: {types}"

    return histogram(jaxpr, key)
