"""Hurwitz's zeta function and the derivatives of the gamma function's logarithm, as SciPy has them,
with XLA's values at their edges: for the interpreter and the reference backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.lazy_imports import lazy_module

__all__ = ["digamma", "polygamma", "zeta"]

special: Any = lazy_module("scipy.special")


def _scalar_of(x: Any, value: float) -> Any:
    return np.asarray(value, x.dtype)


def digamma(x: Any) -> Any:
    """SciPy's is -inf at 0 and NaN at negative whole numbers; NaN at both here."""
    return np.where((x == 0) | np.isneginf(x), _scalar_of(x, np.nan), special.psi(x))


def zeta(x: Any, q: Any) -> Any:
    """SciPy's, but at its edges XLA's: infinite at whole q up to 0 if x is even, NaN there if it is
    not, and NaN at infinities that are not such a pole."""
    out = special.zeta(x, q)
    pole = (q <= 0) & (q == np.floor(q))
    lost = np.isposinf(q) | np.isinf(x) | np.isnan(x) | np.isnan(q)
    out = np.where(pole | lost, _scalar_of(out, np.nan), out)
    infinite = pole & (np.fmod(x, 2) == 0) & (x >= 0)
    return np.where(infinite | (x == 1), _scalar_of(out, np.inf), out)


def polygamma(m: Any, x: Any) -> Any:
    """The derivative of order m of digamma; NaN unless m is 0, 1, 2, ..."""
    whole = (m >= 0) & (m == np.floor(m)) & np.isfinite(m)
    order = np.where(whole, m, 0)
    sign = np.where(order % 2 == 0, -1.0, 1.0)
    positive = sign * special.gamma(order + 1.0) * zeta(order + 1.0, x)
    out = np.where(order == 0, digamma(x), positive)
    return np.where(whole, out, np.nan).astype(x.dtype)
