"""Arrays made like others: they lie as their model does."""

from __future__ import annotations

from typing import Any

from ..primitives import shape as plain
from ..primitives.convert import copy_p
from ..runtime.array import ArrayImpl
from ..runtime.commitment import commit, like


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array of one number with the shape and dtype of `x`, unless others are given.

    As `numpy.full_like`. It lies as `x` does, if `x` was put somewhere.

    >>> lax.full_like(jnp.zeros(2, 'int32'), 7)
    Array([7, 7], dtype=int32)
    """
    made = plain.full_like(x, fill_value, dtype, shape, sharding)
    where = like(x, made.aval) if type(made) is ArrayImpl and sharding is None else None
    if where is not None:
        made = copy_p.bind(made) if made is fill_value else made
        commit([made], [where])
    return made
