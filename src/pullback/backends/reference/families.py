"""Every family of NumPy rules: importing this fills the table with those of arrays alone, `enter`
adds those of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    callback as callback,
    contract as contract,
    cumulative as cumulative,
    elementwise as elementwise,
    fft as fft,
    index as index,
    linalg as linalg,
    maths as maths,
    rng as rng,
    shape as shape,
    sort as sort,
    windows as windows,
)
from .control import control_rules
from .reduction import reduction_rules
from .table import RULES

__all__ = ["enter"]


def enter(evaluate: Callable[..., Any]) -> None:
    """Adds the rules of what holds programs, which `evaluate(jaxpr, consts, args)` runs."""
    RULES.update(control_rules(evaluate))
    RULES.update(reduction_rules(evaluate))
    RULES.update(index.index_rules(evaluate))
