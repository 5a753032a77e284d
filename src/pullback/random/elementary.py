"""Arithmetic and elementary functions as random numbers are made of them: rounded as JAX's compiler
does it, so that streams are JAX's where a formula magnifies last bits. Programs show the usual
primitives. The public functions are the more exact ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..api.jit import jit
from ..core.avals import typeof
from ..primitives import as_compiled, maths
from ..primitives.common import Formula
from ..primitives.elementwise import add, log_p, mul, sub
from ..primitives.maths import sqrt


def product_plus(product: Any, x: Any) -> Any:
    """Rounded once; in float16 twice."""
    return (add if _is_half(x) else as_compiled.contracted_add_p.bind)(product, x)


def minus_product(x: Any, product: Any) -> Any:
    """Rounded once; in float16 twice."""
    return (sub if _is_half(x) else as_compiled.contracted_sub_p.bind)(x, product)


def _is_half(x: Any) -> bool:
    return bool(typeof(x).dtype == np.float16)


def divided(x: Any, y: Any) -> Any:
    """x times the reciprocal of y, where y is broadcast or constant."""
    return as_compiled.spread_div_p.bind(x, y)


def pow(x: Any, y: Any) -> Any:
    return as_compiled.compiled_pow_p.bind(x, y)


def product(
    x: Any, y: Any, numbers: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """As `lax.dot_general`; few terms are summed one after the other."""
    dims = tuple(tuple(tuple(map(int, axes)) for axes in pair) for pair in numbers)
    return as_compiled.compiled_dot_p.bind(
        x, y, dimension_numbers=dims, precision=precision,
        preferred_element_type=preferred_element_type, out_sharding=None,
    )  # fmt: skip


def over_power(x: Any, power: Any) -> Any:
    """x times the power of the negative exponent, where rows have one power each."""
    return as_compiled.power_div_p.bind(x, power)


def short_sum(x: Any) -> Any:
    """The sum of each row's few numbers (or products)."""
    return as_compiled.short_sum_p.bind(x, axes=(typeof(x).ndim - 1,), out_sharding=None)


@jit
def norm(x: Any) -> Any:
    """The lengths of short vectors, which lie along the last axis."""
    return sqrt(short_sum(mul(x, x)))


def exp(x: Any) -> Any:
    return maths.exp_p.bind(x, accuracy=Formula.XLA)


def log(x: Any) -> Any:
    return log_p.bind(x, accuracy=Formula.XLA)


def log1p(x: Any) -> Any:
    return maths.log1p_p.bind(x, accuracy=Formula.XLA)


def near_log1p(x: Any) -> Any:
    """Where nothing magnifies its last bit: an ulp from JAX's at most, in half the time."""
    return maths.log1p_p.bind(x, accuracy=Formula.NEAR)


def erf(x: Any) -> Any:
    return maths.erf_p.bind(x, accuracy=Formula.XLA)


def erf_inv(x: Any) -> Any:
    return maths.erf_inv_p.bind(x, accuracy=Formula.XLA)


def rsqrt(x: Any) -> Any:
    return maths.rsqrt_p.bind(x, accuracy=Formula.XLA)
