"""`jax._src.effects`: what programs do besides computing."""

from __future__ import annotations

from typing import Any

from ....core import effects
from ....core.effects import Effect
from .searched import searched


class JaxprInputEffect(Effect):
    """An effect on an argument of a program."""

    def __init__(self, input_index: Any) -> None:
        self.input_index = input_index

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.input_index == other.input_index

    def __hash__(self) -> int:
        return hash((type(self), self.input_index))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.input_index})"


Effects = frozenset[Effect]
# Every effect is kept: nothing is refused.
partial_eval_kept_effects = effects.EffectTypeSet()
__getattr__ = searched("jax._src.effects", effects)
