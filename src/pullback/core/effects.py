"""Effects: what an equation does besides computing its results.

A jaxpr's effects are the union of its equations'. Each class of effect says where it may appear;
upper layers add classes to these sets when they define effects (`debug.print`, ordered callbacks,
...).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Effect:
    """The base of effects. Effects of one type that compare equal are one effect.

    >>> program = pb.make_jaxpr(lambda x: pb.debug.print("{}", x))(1.0)
    >>> from pullback.extend import core
    >>> all(isinstance(effect, core.Effect) for effect in program.effects)
    True
    """

    __slots__ = ()


class EffectTypeSet:
    """A set of effect classes: an effect is in it if it is an instance of one of them."""

    def __init__(self) -> None:
        self._types: tuple[type, ...] = ()

    def add_type(self, cls: type[Effect]) -> None:
        self._types += (cls,)

    def contains(self, effect: Any) -> bool:
        return isinstance(effect, self._types)

    def filter_in(self, effects: Iterable[Any]) -> list[Any]:
        return [e for e in effects if isinstance(e, self._types)]

    def filter_not_in(self, effects: Iterable[Any]) -> list[Any]:
        return [e for e in effects if not isinstance(e, self._types)]


no_effects: frozenset[Any] = frozenset()
ordered_effects = EffectTypeSet()
# Ordered effects of programs that several devices run: one of them has the effect.
shardable_ordered_effects = EffectTypeSet()
lowerable_effects = EffectTypeSet()
control_flow_allowed_effects = EffectTypeSet()
custom_derivatives_allowed_effects = EffectTypeSet()
remat_allowed_effects = EffectTypeSet()
vmap_allowed_effects = EffectTypeSet()
# Effects that a batch refuses where only some of its lanes would have them (a branch, a loop).
lane_refused_effects = EffectTypeSet()


def join(*sets: Iterable[Any]) -> frozenset[Any]:
    """The union of several sets of effects."""
    return frozenset().union(*sets) if sets else no_effects


class NamedAxisEffect(Effect):
    """The program mentions a named axis (a collective over it)."""

    __slots__ = ("name",)

    def __init__(self, name: Any) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAxisEffect) and self.name == other.name

    def __hash__(self) -> int:
        return hash((NamedAxisEffect, self.name))

    def __repr__(self) -> str:
        return f"NamedAxis({self.name})"


for _set in (
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    lowerable_effects,
    remat_allowed_effects,
    vmap_allowed_effects,
):
    _set.add_type(NamedAxisEffect)


def check_on_several_devices(effects: Any) -> None:
    """ValueError if a program that several devices run has an effect whose order they would have to
    agree upon."""
    found = ordered_effects.filter_in(effects)
    refused = shardable_ordered_effects.filter_not_in(found)
    if refused:
        raise ValueError(
            "The following ordered effects are not supported for more than 1 device: "
            f"{sorted(refused, key=str)}. Fix: leave ordered=True out, or compute on one device."
        )


def check_lowerable(effects: Any) -> None:
    """ValueError if no compiler knows what to do about one of a program's effects."""
    unknown = lowerable_effects.filter_not_in(effects)
    if unknown:
        raise ValueError(
            f"Cannot lower jaxpr with effects: {set(unknown)}. "
            "Fix: effects.lowerable_effects.add_type(the effect's class)."
        )
