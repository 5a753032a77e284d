"""Operations that come after others although they read nothing of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..control.foreign import ffi_call

__all__ = ["control_dep", "schedule"]


def control_dep(src: Any, dst: Any) -> Any:
    """The array `dst` is computed after the array `src`. Programs say it; here, operations are
    computed in the order in which they are written.

    >>> from pullback.experimental.control_deps import control_dep
    >>> control_dep(jnp.zeros(3), jnp.ones(3))
    ()
    """
    return ffi_call("control_dep", (), has_side_effect=True)(src, dst)


def schedule(ops: Sequence[Any]) -> None:
    """The arrays `ops` are computed one after the other.

    >>> from pullback.experimental.control_deps import schedule
    >>> schedule([jnp.zeros(3), jnp.ones(3), jnp.ones(3)])
    """
    for src, dst in itertools.pairwise(ops):
        control_dep(src, dst)
