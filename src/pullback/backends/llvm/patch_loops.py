"""What code that is put together from stencils asks of the classes that are built on it: statements
know that there are loops, patched.py and patch_while.py how they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pullback.loops.ir import Atom, Carry, For, Stmt, While

__all__ = ["Loops"]


class Loops(Protocol):
    """Loops of all kinds, and what they are made of."""

    def loops(self, s: For) -> None:
        """A loop of any kind."""
        ...

    def unknown(self, s: While) -> None:
        """A loop of unknown length."""
        ...

    def loop(
        self, index: int, lo: Atom | int, hi: int, step: Atom | int, body: Callable[[], None],
        times: float, sure: bool = False,
    ) -> None:  # fmt: skip
        """A loop in order."""
        ...

    def vectors(
        self, s: For, n: int, index: int, lo: int, hi: int, times: float,
        each: Callable[[], None], body: Sequence[Stmt] | None = None,
    ) -> bool:  # fmt: skip
        """The full vectors of a loop."""
        ...

    def begin_carries(self, carry: Sequence[Carry], inits: Sequence[int]) -> list[int]:
        """Places of what a loop carries."""
        ...

    def carry_on(self, carry: Sequence[Carry], places: Sequence[int], new: Sequence[int]) -> None:
        """The next values take their places."""
        ...

    def end_carries(self, carry: Sequence[Carry], places: Sequence[int]) -> None:
        """What a loop gives."""
        ...

    def index_of(self, s: For) -> int:
        """The place of a loop's index."""
        ...

    def zeros(self, s: For) -> list[int]:
        """The neutral elements of a combination."""
        ...

    def lane_count(self, s: For) -> int:
        """How many lanes a loop has, or 0."""
        ...
