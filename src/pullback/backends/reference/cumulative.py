"""NumPy rules of running reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...primitives import cumulative as p
from .elementwise import _ordered
from .table import RULES, computed


def _running(fn: Callable[..., Any]) -> Callable[..., Any]:
    def rule(x: Any, *, axis: int, reverse: bool) -> Any:
        if not x.size:
            return x
        out = fn(np.flip(x, axis) if reverse else x, axis)
        return np.flip(out, axis).copy() if reverse else out

    return computed(rule)


def _extreme(larger: bool) -> Callable[..., Any]:
    def fn(x: Any, axis: int) -> Any:
        if x.dtype.kind != "c":
            return (np.maximum if larger else np.minimum).accumulate(x, axis=axis)
        out = np.moveaxis(x.copy(), axis, 0)
        for k in range(1, len(out)):
            out[k] = _ordered(out[k - 1], out[k], larger)
        return np.moveaxis(out, 0, axis)

    return fn


def _logsumexp(x: Any, axis: int) -> Any:
    if x.dtype.kind == "c":
        top = np.maximum.accumulate(x.real, axis=axis).max(axis=axis, keepdims=True)
        return np.log(np.cumsum(np.exp(x - top), axis=axis)) + top
    return np.logaddexp.accumulate(x, axis=axis)


RULES[p.cumsum_p] = _running(lambda x, axis: np.cumsum(x, axis=axis, dtype=x.dtype))
RULES[p.cumprod_p] = _running(lambda x, axis: np.cumprod(x, axis=axis, dtype=x.dtype))
RULES[p.cummax_p] = _running(_extreme(True))
RULES[p.cummin_p] = _running(_extreme(False))
RULES[p.cumlogsumexp_p] = _running(_logsumexp)
