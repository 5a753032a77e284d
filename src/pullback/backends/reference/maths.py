"""NumPy and SciPy rules of the mathematics library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...lazy_imports import lazy_module
from ...loops.zetas import digamma, polygamma, zeta
from ...primitives import maths as p
from .table import RULES, computed

special: Any = lazy_module("scipy.special")


def _either(real: Callable[..., Any], cplx: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: (cplx if xs[0].dtype.kind == "c" else real)(*xs)


def _atan2_complex(y: Any, x: Any) -> Any:
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _scalar_of(x: Any, value: float) -> Any:
    return np.asarray(value, x.dtype)


def _lgamma(x: Any) -> Any:
    return np.where(np.isneginf(x), _scalar_of(x, np.inf), special.gammaln(x))


_RULES: dict[Any, Callable[..., Any]] = {
    p.exp_p: np.exp,
    p.exp2_p: _either(np.exp2, lambda x: np.exp(x * np.log(2).astype(x.real.dtype))),
    p.log1p_p: np.log1p,
    p.expm1_p: np.expm1,
    p.sqrt_p: np.sqrt,
    p.rsqrt_p: lambda x: 1 / np.sqrt(x),
    p.cbrt_p: np.cbrt,
    p.sin_p: np.sin,
    p.cos_p: np.cos,
    p.tan_p: np.tan,
    p.asin_p: np.arcsin,
    p.acos_p: np.arccos,
    p.atan_p: np.arctan,
    p.atan2_p: _either(np.arctan2, _atan2_complex),
    p.sinh_p: np.sinh,
    p.cosh_p: np.cosh,
    p.tanh_p: np.tanh,
    p.asinh_p: np.arcsinh,
    p.acosh_p: np.arccosh,
    p.atanh_p: np.arctanh,
    p.logistic_p: _either(lambda x: special.expit(x), lambda x: 1 / (1 + np.exp(-x))),
    p.erf_p: lambda x: special.erf(x),
    p.erfc_p: lambda x: special.erfc(x),
    p.erf_inv_p: lambda x: special.erfinv(x),
    p.lgamma_p: _lgamma,
    p.digamma_p: digamma,
    p.bessel_i0e_p: lambda x: special.i0e(x),
    p.bessel_i1e_p: lambda x: special.i1e(x),
    p.polygamma_p: polygamma,
    p.zeta_p: zeta,
}


def _without_params(fn: Callable[..., Any]) -> Callable[..., Any]:
    return computed(lambda *xs, **params: fn(*xs))


RULES.update({prim: _without_params(fn) for prim, fn in _RULES.items()})
