"""The table of NumPy rules, and how a family computes in a type that NumPy's functions know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes

RULES: dict[Any, Callable[..., Any]] = {}


def rule(*primitives: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function as the rule of some primitives."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        for p in primitives:
            RULES[p] = fn
        return fn

    return enter


def is_narrow(d: Any) -> bool:
    """A float that is stored narrow and computed in float32."""
    return dtypes.is_float(d) and d.itemsize < 4


def is_tiny_int(d: Any) -> bool:
    """An integer of fewer than 8 bits, computed in 8."""
    return d in dtypes._SMALL_INTS


def widened(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The operand in the type in which it is computed."""
    if is_narrow(x.dtype):
        return x.astype(np.float32)
    if is_tiny_int(x.dtype):
        return x.astype(np.uint8 if dtypes.is_unsigned(x.dtype) else np.int8)
    return x


def computed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that widens narrow operands; the result is rounded to the type rule's dtype by
    `fitted`.
    """

    def wide(*arrays: Any, **params: Any) -> Any:
        return fn(*map(widened, arrays), **params)

    return wide


def fitted(x: Any, aval: Any) -> Any:
    """The result as a NumPy array of the aval's dtype."""
    if not isinstance(x, np.ndarray):
        x = np.asarray(x)
    d = aval.dtype
    if isinstance(d, np.dtype) and x.dtype != d:
        return x.astype(d)
    return x
