"""Continuous distributions that are functions of uniform and normal numbers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..api.jit import jit
from ..api.placement import lay_out
from ..control.call import jit_p
from ..core.avals import typeof
from ..core.jaxpr import Literal, eval_jaxpr
from ..numpy.ufuncs_more import clip_jit
from ..primitives import as_compiled
from ..primitives.common import as_array, canonical_shape
from ..primitives.convert import convert_element_type, stop_gradient
from ..primitives.elementwise import (
    abs as lax_abs,
    add,
    div,
    integer_pow,
    le,
    lt,
    mul,
    mul_p,
    neg,
    nextafter,
    select_n,
    sign,
    sub,
)  # fmt: skip
from ..primitives.keys import lower_keys, rules_of_pairs
from ..primitives.maths import sqrt, tan
from .base import (
    as_dtype,
    check_safe,
    consume,
    float_dtype,
    promoted,
    reciprocal,
    result_shape,
    scalar,
    split_list,
    spread,
    spread_array,
    static_jit,
)
from .elementary import (
    divided,
    erf,
    erf_inv,
    exp,
    log,
    log1p,
    minus_product,
    near_log1p,
    norm,
    pow,
    product_plus,
)
from .uniform import _rademacher, _uniform, positive_uniform, requested_dtype  # type: ignore[attr-defined]


def _normal_dtype(dtype: Any) -> Any:
    d = dtypes.default_float() if dtype is None else requested_dtype(dtype, "normal")
    if not dtypes.is_inexact(d):
        raise ValueError(f"dtype argument to `normal` must be a float or complex dtype, got {d}")
    return d


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard normal numbers (complex ones with unit variance, for a complex dtype).

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    `out_sharding`: the sharding of the result.

    >>> random.normal(random.key(0), (2,)).round(3)
    Array([1.623, 2.025], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(normal(key, shape, dtype), "normal", out_sharding)
    typed = consume("normal", key)
    return _normal(typed, shape=canonical_shape(shape), dtype=_normal_dtype(dtype))


@static_jit("shape", "dtype")
def _normal(key: Any, shape: Any, dtype: Any) -> Any:
    if not dtypes.is_complex(dtype):
        return _normal_real(key, shape=shape, dtype=dtype)
    first, second = split_list(key, 2)
    part = np.zeros((), dtype).real.dtype
    re = convert_element_type(_normal_real(first, shape=shape, dtype=part), dtype)
    im = convert_element_type(_normal_real(second, shape=shape, dtype=part), dtype)
    return divided(add(re, mul(scalar(1j, dtype), im)), scalar(math.sqrt(2), dtype))


@static_jit("shape", "dtype")
def _normal_real(key: Any, shape: Any, dtype: Any) -> Any:
    low = np.nextafter(scalar(-1.0, dtype), scalar(0.0, dtype), dtype=dtype)
    u = _uniform(key, low, scalar(1.0, dtype), shape=shape, dtype=dtype)
    return mul(scalar(math.sqrt(2), dtype), erf_inv(u))


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Standard normal numbers between two bounds.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.truncated_normal(random.key(0), -1., 1., (2,)).round(3)
    Array([0.862, 0.941], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(
            truncated_normal(key, lower, upper, shape, dtype), "truncated_normal", out_sharding
        )
    typed = consume("truncated_normal", key)
    d = float_dtype("truncated_normal", dtype)
    shape = result_shape("truncated_normal", shape, as_array(lower), as_array(upper))
    return _truncated_normal(typed, lower, upper, shape=shape, dtype=d)


@static_jit("shape", "dtype")
def _truncated_normal(key: Any, lower: Any, upper: Any, shape: Any, dtype: Any) -> Any:
    root = scalar(math.sqrt(2), dtype)
    lower, upper = as_dtype(lower, dtype), as_dtype(upper, dtype)
    a, b = (erf(divided(bound, root)) for bound in (lower, upper))
    out = mul(root, erf_inv(_uniform(key, a, b, shape=shape, dtype=dtype)))
    # Rounding must not reach the bounds.
    low = nextafter(stop_gradient(lower), scalar(np.inf, dtype))
    high = nextafter(stop_gradient(upper), scalar(-np.inf, dtype))
    return clip_jit(out, spread_array(low, shape), spread_array(high, shape))


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Exponential numbers of rate 1.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.exponential(random.key(0), (2,)).round(3)
    Array([2.95 , 3.843], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(exponential(key, shape, dtype), "exponential", out_sharding)
    typed = consume("exponential", key)
    return _exponential(
        typed, shape=canonical_shape(shape), dtype=float_dtype("exponential", dtype)
    )


def _exponential_of(log1p: Any) -> Any:
    def _exponential(key: Any, shape: Any, dtype: Any) -> Any:
        return neg(log1p(neg(_uniform(key, 0.0, 1.0, shape=shape, dtype=dtype))))

    return static_jit("shape", "dtype")(_exponential)


# The second is for what is made of these numbers: powers and differences.
_exponential, _exact_exponential = _exponential_of(near_log1p), _exponential_of(log1p)


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Laplace numbers of scale 1.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.laplace(random.key(0), (2,)).round(3)
    Array([-2.257, -3.15 ], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(laplace(key, shape, dtype), "laplace", out_sharding)
    typed = consume("laplace", key)
    return _laplace(typed, shape=canonical_shape(shape), dtype=float_dtype("laplace", dtype))


@static_jit("shape", "dtype")
def _laplace(key: Any, shape: Any, dtype: Any) -> Any:
    low = scalar(-1.0 + float(dtypes.finfo(dtype).epsneg), dtype)
    u = _uniform(key, low, 1.0, shape=shape, dtype=dtype)
    return mul(sign(u), near_log1p(neg(lax_abs(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard logistic numbers.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.logistic(random.key(0), (2,)).round(3)
    Array([2.896, 3.822], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(logistic(key, shape, dtype), "logistic", out_sharding)
    typed = consume("logistic", key)
    return _logistic(typed, shape=canonical_shape(shape), dtype=float_dtype("logistic", dtype))


@static_jit("shape", "dtype")
def _logistic(key: Any, shape: Any, dtype: Any) -> Any:
    x = positive_uniform(
        key, scalar(dtypes.finfo(dtype).tiny, dtype), 1.0, shape=shape, dtype=dtype
    )
    return sub(log(x), log1p(neg(x)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Standard Cauchy numbers.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.cauchy(random.key(0), (2,)).round(3)
    Array([ 6.027, 14.838], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(cauchy(key, shape, dtype), "cauchy", out_sharding)
    typed = consume("cauchy", key)
    return _cauchy(typed, shape=canonical_shape(shape), dtype=float_dtype("cauchy", dtype))


@static_jit("shape", "dtype")
def _cauchy(key: Any, shape: Any, dtype: Any) -> Any:
    u = _uniform(key, scalar(dtypes.finfo(dtype).eps, dtype), 1.0, shape=shape, dtype=dtype)
    return tan(mul(scalar(math.pi, dtype), sub(u, scalar(0.5, dtype))))


def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Pareto numbers of shape parameter `b`.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.pareto(random.key(0), 2., (2,)).round(3)
    Array([4.371, 6.833], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(pareto(key, b, shape, dtype), "pareto", out_sharding)
    typed = consume("pareto", key)
    d = float_dtype("pareto", dtype)
    check_safe("pareto", d, as_array(b))
    return _pareto(typed, b, shape=result_shape("pareto", shape, as_array(b)), dtype=d)


@static_jit("shape", "dtype")
def _pareto(key: Any, b: Any, shape: Any, dtype: Any) -> Any:
    b = as_dtype(b, dtype)
    e = _exact_exponential(key, shape=shape, dtype=dtype)
    return exp(divided(e, spread_array(b, shape)))


def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Rayleigh numbers of a scale.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.rayleigh(random.key(0), 2., (2,)).round(3)
    Array([0.656, 0.416], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(rayleigh(key, scale, shape, dtype), "rayleigh", out_sharding)
    typed = consume("rayleigh", key)
    d = float_dtype("rayleigh", dtype)
    check_safe("rayleigh", d, as_array(scale))
    return _rayleigh(typed, scale, shape=result_shape("rayleigh", shape, as_array(scale)), dtype=d)


@static_jit("shape", "dtype")
def _rayleigh(key: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=dtype)
    return mul(spread(as_dtype(scale, dtype), shape), sqrt(mul(log(u), scalar(-2, dtype))))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """Weibull numbers of a scale and a concentration.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.weibull_min(random.key(0), 2., 3., (2,)).round(3)
    Array([2.868, 3.133], dtype=float32)
    """
    typed = consume("weibull_min", key)
    return _weibull_min(
        typed,
        scale,
        concentration,
        shape=canonical_shape(shape),
        dtype=float_dtype("weibull_min", dtype),
    )


@static_jit("shape", "dtype")
def _weibull_min(key: Any, scale: Any, concentration: Any, shape: Any, dtype: Any) -> Any:
    u = _uniform(key, 0, 1, shape=shape, dtype=dtype)
    powers = pow(*promoted(neg(log1p(neg(u))), reciprocal(concentration)))
    return mul(*promoted(powers, scale))


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Maxwell numbers: the lengths of normal vectors in three dimensions.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.maxwell(random.key(0), (2,)).round(3)
    Array([2.631, 0.991], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(maxwell(key, shape, dtype), "maxwell", out_sharding)
    typed = consume("maxwell", key)
    return _maxwell(typed, shape=canonical_shape(shape), dtype=float_dtype("maxwell", dtype))


@static_jit("shape", "dtype")
def _maxwell(key: Any, shape: Any, dtype: Any) -> Any:
    x = _normal(key, shape=(*shape, 3), dtype=dtype)
    return norm(x)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell numbers of random sign, scaled and shifted.

    `key`: of `random.key`; parameters are real; the result has the axes of `shape` (by default
    those of the parameters' common shape) and then those of the parameters; `dtype`: a float dtype,
    float32 by default (float64 under x64). Raises ValueError for parameters that do not fit or
    another dtype.

    >>> random.double_sided_maxwell(random.key(0), 0., 1., (2,)).round(3)
    Array([1.546, 1.574], dtype=float32)
    """
    typed = consume("double_sided_maxwell", key)
    return _double_sided_maxwell(
        typed,
        loc,
        scale,
        shape=canonical_shape(shape),
        dtype=float_dtype("double_sided_maxwell", dtype),
    )


@static_jit("shape", "dtype")
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    sizes = result_shape("double_sided_maxwell", None, as_array(loc), as_array(scale))
    full = (*(shape or sizes), *sizes)  # as JAX's: the default shape is that of the parameters
    first, second = split_list(key, 2)
    lengths = _maxwell(first, shape=full, dtype=dtype)
    signs = _rademacher(second, shape=full, dtype=dtype)
    moved = mul(*promoted(mul(signs, lengths), scale))
    return product_plus(*promoted(moved, loc))


_ONE = np.float32(1.0)


def lognormal(
    key: Any,
    sigma: Any = _ONE,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """exp of normal numbers of standard deviation `sigma`.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float or complex dtype, float32 by default (float64 under x64). Raises
    ValueError for shapes that do not fit or another dtype.

    >>> random.lognormal(random.key(0), 1., (2,)).round(3)
    Array([5.066, 7.578], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(lognormal(key, sigma, shape, dtype), "lognormal", out_sharding)
    d = _normal_dtype(dtype)
    check_safe("lognormal", d, as_array(sigma))
    shape = result_shape("lognormal", shape, as_array(sigma))
    return _lognormal(consume("normal", key), sigma, shape=shape, dtype=d)


@partial(jit, static_argnames=("shape", "dtype"), inline=True)
def _lognormal(key: Any, sigma: Any, shape: Any, dtype: Any) -> Any:
    normals = _normal(key, shape=shape, dtype=dtype)
    sigma = spread_array(as_dtype(sigma, dtype), shape)
    return exp(_scaled_p.bind(normals, sigma, out_dtype=None))


def _scaled_physical(avals: Any, x: Any, y: Any, *, out_dtype: Any, parts: Any = None) -> Any:
    """`parts`: the call that gives x, and its operands."""
    number = isinstance(y, np.generic) or (not typeof(y).ndim and typeof(x).ndim)
    apart = parts is None or not number or typeof(x).dtype == dtypes.bfloat16
    factors = None if apart else _factors(*parts)
    if factors is None:
        return mul(x, y)
    return mul(factors[0], mul(y, factors[1]))


def _factors(closed: Any, *args: Any) -> tuple[Any, Any] | None:
    """A call's result as a product with a number, if it is one."""
    closed = lower_keys(closed)
    jaxpr = closed.jaxpr
    maker = next((e for e in jaxpr.eqns if jaxpr.outvars[0] in e.outvars), None)
    if maker is None or maker.primitive not in (jit_p, mul_p):
        return None
    operands = eval_jaxpr(jaxpr.replace(outvars=list(maker.invars)), closed.consts, *args)
    if maker.primitive is jit_p:
        return _factors(maker.params["jaxpr"], *operands)
    numbers = [k for k, v in enumerate(maker.invars) if isinstance(v, Literal)]
    return (operands[1 - numbers[0]], operands[numbers[0]]) if numbers else None


# A product of a call's numbers and one number: JAX's compiler multiplies that into the number by
# which the call has multiplied, where that is an array's or both are known; but in bfloat16, where
# it rounds in between.
_scaled_p = as_compiled.compiled_as_jaxs(mul_p, _scaled_physical)
rules_of_pairs[_scaled_p] = 0, jit_p


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Triangular numbers between `left` and `right` with the given mode.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.triangular(random.key(0), 0., 1., 4., (2,)).round(3)
    Array([3.208, 3.493], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(triangular(key, left, mode, right, shape, dtype), "triangular", out_sharding)
    typed = consume("triangular", key)
    d = float_dtype("triangular", dtype)
    check_safe("triangular", d, *map(as_array, (left, mode, right)))
    shape = result_shape("triangular", shape, *map(as_array, (left, mode, right)))
    left, right, mode = (spread(as_dtype(x, d), shape) for x in (left, right, mode))
    fall = div(sub(mode, left), sub(right, left))
    u = _uniform(typed, 0.0, 1.0, shape=shape, dtype=d)
    rising = add(left, sqrt(mul(mul(u, sub(right, left)), sub(mode, left))))
    falling = sub(right, sqrt(mul(mul(sub(scalar(1, d), u), sub(right, left)), sub(right, mode))))
    return select_n(lt(u, fall), falling, rising)


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Wald (inverse Gaussian) numbers of scale 1.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.wald(random.key(0), 2., (2,)).round(3)
    Array([0.533, 0.598], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(wald(key, mean, shape, dtype), "wald", out_sharding)
    typed = consume("wald", key)
    d = float_dtype("wald", dtype)
    check_safe("wald", d, as_array(mean))
    return _wald(typed, mean, shape=result_shape("wald", shape, as_array(mean)), dtype=d)


@static_jit("shape", "dtype")
def _wald(key: Any, mean: Any, shape: Any, dtype: Any) -> Any:
    first, second = split_list(key, 2)
    mean = spread(as_dtype(mean, dtype), shape)
    v, z = (
        _normal(first, shape=shape, dtype=dtype),
        _uniform(second, 0.0, 1.0, shape=shape, dtype=dtype),
    )
    y = integer_pow(v, 2)
    four, two = scalar(4, dtype), scalar(2, dtype)
    y_sq, mean_sq = integer_pow(y, 2), integer_pow(mean, 2)
    root = sqrt(product_plus(mul(mul(four, mean), y), mul(mean_sq, y_sq)))
    most = add(mean, div(mul(mean_sq, y), two))
    x = minus_product(most, mul(div(mean, two), root))
    return select_n(le(z, div(mean, add(mean, x))), div(mean_sq, x), x)


__all__ = [
    "cauchy",
    "double_sided_maxwell",
    "exponential",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "normal",
    "pareto",
    "rayleigh",
    "triangular",
    "truncated_normal",
    "wald",
    "weibull_min",
]
