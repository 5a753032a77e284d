"""Every family of NumPy rules: importing this fills the table with those of arrays alone, `enter`
adds those of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    callback,
    contract,
    cumulative,
    elementwise,
    fft,
    index,
    linalg,
    maths,
    rng,
    shape,
    sort,
    windows,
)
from .control import control_rules
from .reduction import reduction_rules
from .table import RULES

__all__ = ["FAMILIES", "enter"]

FAMILIES = (
    callback,
    contract,
    cumulative,
    elementwise,
    fft,
    index,
    linalg,
    maths,
    rng,
    shape,
    sort,
    windows,
)


def enter(evaluate: Callable[..., Any]) -> None:
    """Adds the rules of what holds programs, which `evaluate(jaxpr, consts, args)` runs."""
    RULES.update(control_rules(evaluate))
    RULES.update(reduction_rules(evaluate))
    RULES.update(index.index_rules(evaluate))
