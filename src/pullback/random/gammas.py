"""Gamma numbers, and the distributions made of them: beta, Dirichlet, chi-square, F, Student's t,
generalised normal, and points of a ball.

Gamma numbers come from Marsaglia and Tsang, "A simple method for generating gamma variables", ACM
Transactions on Mathematical Software 26 (2000). Every number has a key of its own, split off the
distribution's key, and repeats the method with it until a candidate is accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..api.placement import lay_out
from ..api.vmap import vmap
from ..control.while_loop import while_loop
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import eval_jaxpr
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..lax.mapping import map as lax_map
from ..lax.special import random_gamma_grad
from ..numpy.arithmetic import power
from ..primitives import as_compiled, rng
from ..primitives.common import as_array, canonical_shape, size_of, zero_of
from ..primitives.convert import convert_weak, stop_gradient
from ..primitives.elementwise import (
    abs as lax_abs,
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    ge,
    le,
    log,
    max,
    mul,
    neg,
    select_n,
    sub,
)  # fmt: skip
from ..primitives.keys import is_key_aval, lower_keys, physical_rules
from ..primitives.layout import (
    broadcast_in_dim,
    broadcast_shapes,
    move_batch_front,
    reshape,
)
from ..primitives.maths import sqrt
from ..primitives.reductions import reduce_max
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
from .continuous import _exact_exponential, _normal
from .elementary import (
    divided,
    exp,
    log as exact_log,
    over_power,
    pow,
    rsqrt,
    short_sum,
)  # fmt: skip
from .uniform import _rademacher, _uniform


# --- one gamma number ---
def _one_plus(x: Any, c: Any, dtype: Any) -> Any:
    """1 + c x, contracted as JAX's compiler does it."""
    return as_compiled.contracted_add_p.bind(mul(x, c), scalar(1, dtype))


def _positive_cube_root(key: Any, c: Any, dtype: Any) -> tuple[Any, Any]:
    """A normal number x with 1 + c x > 0, and that value."""

    def step(state: Any) -> Any:
        key, _, _ = state
        key, sub_key = split_list(key, 2)
        x = _normal(sub_key, shape=(), dtype=dtype)
        return key, x, _one_plus(x, c, dtype)

    zero, minus_one = scalar(0, dtype), scalar(-1, dtype)
    _, x, v = while_loop(lambda state: le(state[2], zero), step, (key, zero, minus_one))
    return x, v


def _rejected(d: Any, x2: Any, v: Any, u: Any, dtype: Any) -> Any:
    """Both of the method's tests fail: the quick one, and the exact one with its logarithms."""
    squeeze = sub(scalar(1, dtype), mul(scalar(0.0331, dtype), mul(x2, x2)))
    exact = add(mul(x2, scalar(0.5, dtype)), mul(d, add(sub(scalar(1, dtype), v), log(v))))
    return bitwise_and(ge(u, squeeze), ge(log(u), exact))


def _boost(key: Any, a: Any, large: Any, log_space: bool, dtype: Any) -> Any:
    """Gamma(a) for a < 1 is Gamma(a + 1) times U**(1 / a): that factor, or its logarithm."""
    one, zero = scalar(1, dtype), scalar(0, dtype)
    if not log_space:
        u = sub(one, _uniform(key, 0.0, 1.0, shape=(), dtype=dtype))
        return select_n(large, pow(u, div(one, a)), one)
    log_u = neg(_exact_exponential(key, shape=(), dtype=dtype))
    none = bitwise_or(large, eq(log_u, zero))
    return select_n(none, mul(log_u, div(one, a)), zero)


def _over_root(x: Any, d: Any) -> Any:
    """x / sqrt(d), rounded as JAX's compiler does it: but for bfloat16 it multiplies by the
    reciprocal of the root, which is rounded once.
    """
    dtype = typeof(d).dtype
    if dtype == dtypes.bfloat16:
        return div(x, sqrt(d))
    if dtype == np.float16:
        return mul(x, convert_weak(rsqrt(convert_weak(d, np.dtype(np.float32))), dtype))
    return mul(x, rsqrt(d))


def _gamma_one(key: Any, a: Any, log_space: bool) -> Any:
    dtype = typeof(a).dtype
    one, third = scalar(1, dtype), scalar(1 / 3, dtype)
    large = ge(a, one)
    d = sub(select_n(large, add(a, one), a), third)
    c = _over_root(third, d)
    key, boost_key = split_list(key, 2)

    def step(state: Any) -> Any:
        key = state[0]
        key, x_key, u_key = split_list(key, 3)
        x, v = _positive_cube_root(x_key, c, dtype)
        return key, mul(x, x), mul(mul(v, v), v), _uniform(u_key, 0.0, 1.0, shape=(), dtype=dtype)

    start = (key, scalar(0, dtype), one, scalar(2, dtype))
    _, _, v, _ = while_loop(lambda s: _rejected(d, s[1], s[2], s[3], dtype), step, start)
    boost = _boost(boost_key, a, large, log_space, dtype)
    return add(add(exact_log(d), exact_log(v)), boost) if log_space else mul(mul(d, v), boost)


def _gamma_samples(keys: Any, a: Any, log_space: bool) -> Any:
    """Numbers for each key; keys have the leading axes of `a`."""
    aval, lead = typeof(a), typeof(keys).shape
    n = size_of(aval.shape[len(lead) :])
    keys = reshape(rng.random_split(keys, (n,)), (aval.size,))
    flat = reshape(a, (aval.size,))
    if typeof(keys).dtype.impl.name == "threefry2x32":
        out = vmap(lambda k, v: _gamma_one(k, v, log_space))(keys, flat)
    else:  # a batch of other keys draws from one stream
        out = lax_map(lambda kv: _gamma_one(kv[0], kv[1], log_space), (keys, flat))
    return reshape(out, aval.shape)


# --- the primitive ---
def _gamma_aval(keys: Any, a: Any, *, log_space: bool) -> ShapedArray:
    if not is_key_aval(keys):
        raise TypeError(
            f"random_gamma takes keys, got {keys.str_short()}. Fix: make them with random.key."
        )
    if a.shape[: keys.ndim] != keys.shape:
        raise ValueError(
            f"random_gamma: keys of shape {keys.shape} must have the leading axes of the "
            f"parameters, whose shape is {a.shape}"
        )
    return ShapedArray(a.shape, a.dtype)


def _gamma_jvp(primals: Any, tangents: Any, *, log_space: bool) -> Any:
    keys, a = primals
    out = random_gamma_p.bind(keys, a, log_space=log_space)
    if type(tangents[1]) is Zero:
        return out, zero_of(out)
    if not log_space:
        return out, mul(tangents[1], random_gamma_grad(a, out))
    sample, dtype = exp(out), typeof(out).dtype
    tiny = scalar(dtypes.finfo(dtype).tiny, dtype)
    zero = eq(sample, scalar(0, dtype))
    sample = select_n(zero, sample, broadcast_in_dim(tiny, typeof(out).shape, ()))
    return out, mul(tangents[1], div(random_gamma_grad(a, sample), sample))


def _gamma_batch(args: Any, dims: Any, *, log_space: bool) -> Any:
    sizes = [typeof(x).shape[d] for x, d in zip(args, dims, strict=True) if d is not None]
    keys, a = (
        broadcast_in_dim(x, (sizes[0], *typeof(x).shape), tuple(range(1, typeof(x).ndim + 1)))
        if d is None
        else move_batch_front(x, d)
        for x, d in zip(args, dims, strict=True)
    )
    return random_gamma_p.bind(keys, a, log_space=log_space), 0


random_gamma_p: Primitive = Primitive(
    "random_gamma",
    abstract_eval=_gamma_aval,
    jvp=_gamma_jvp,
    transpose=No.NOT_LINEAR,
    batch=_gamma_batch,
)


def _gamma_physical(avals: Any, base: Any, a: Any, *, log_space: bool) -> Any:
    jaxpr, consts = trace_to_jaxpr(lambda k, x: [_gamma_samples(k, x, log_space)], avals)
    closed, outer = close_jaxpr(jaxpr, consts)
    if outer:
        raise AssertionError("internal error in pullback: gamma numbers closed over traced values")
    lowered = lower_keys(closed)
    return eval_jaxpr(lowered.jaxpr, lowered.consts, base, a)[0]


physical_rules[random_gamma_p] = _gamma_physical


# --- gamma numbers ---
@static_jit("shape", "dtype", "log_space")
def _gamma(key: Any, a: Any, shape: Any, dtype: Any, log_space: bool) -> Any:
    return random_gamma_p.bind(key, spread(as_dtype(a, dtype), shape), log_space=log_space)


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Gamma numbers of shape parameter `a` and scale 1. Differentiable in `a`.

    `loggamma` gives their logarithms, which keep their precision where `a` is small.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.gamma(random.key(0), 2., (2,)).round(3)
    Array([1.59, 1.76], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(gamma(key, a, shape, dtype), "gamma", out_sharding)
    typed = consume("gamma", key)
    d = float_dtype("gamma", dtype)
    a = as_array(a)
    return _gamma(typed, a, shape=result_shape("gamma", shape, a), dtype=d, log_space=False)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Logarithms of gamma numbers, exact even where the numbers themselves underflow.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.loggamma(random.key(0), 2., (2,)).round(3)
    Array([0.464, 0.565], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(loggamma(key, a, shape, dtype), "loggamma", out_sharding)
    typed = consume("loggamma", key)
    d = float_dtype("loggamma", dtype)
    a = as_array(a)
    return _gamma(typed, a, shape=result_shape("gamma", shape, a), dtype=d, log_space=True)


# --- ratios of gamma numbers ---
def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Beta numbers of shape parameters `a` and `b`.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.beta(random.key(0), 2., 3., (2,)).round(3)
    Array([0.236, 0.49 ], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(beta(key, a, b, shape, dtype), "beta", out_sharding)
    typed = consume("beta", key)
    d = float_dtype("beta", dtype)
    a, b = as_array(a), as_array(b)
    check_safe("beta", d, a, b)
    return _beta(typed, a, b, shape=result_shape("beta", shape, a, b), dtype=d)


@static_jit("shape", "dtype")
def _beta(key: Any, a: Any, b: Any, shape: Any, dtype: Any) -> Any:
    a, b = as_dtype(a, dtype), as_dtype(b, dtype)
    key_a, key_b = split_list(key, 2)
    a, b = spread(a, shape), spread(b, shape)
    log_a = _gamma(key_a, a, shape=shape, dtype=dtype, log_space=True)
    log_b = _gamma(key_b, b, shape=shape, dtype=dtype, log_space=True)
    # The ratio of two numbers, either of which may underflow.
    largest = max(log_a, log_b)
    part_a, part_b = exp(sub(log_a, largest)), exp(sub(log_b, largest))
    return div(part_a, add(part_a, part_b))


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Points of the simplex with a Dirichlet distribution.

    `alpha`, of shape (..., n), holds the concentrations; `shape` is that of the batch, without the
    last axis, which is added.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.dirichlet(random.key(0), jnp.ones(3)).sum().round(3)
    Array(1., dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(dirichlet(key, alpha, shape, dtype), "dirichlet", out_sharding)
    typed = consume("dirichlet", key)
    d = float_dtype("dirichlet", dtype)
    alpha = as_array(alpha)
    aval = typeof(alpha)
    if aval.ndim < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {aval.ndim}")
    batch = aval.shape[:-1]
    if shape is not None:
        shape = canonical_shape(shape)
        if broadcast_shapes(shape, batch) != shape:
            raise ValueError(
                f"dirichlet: alpha of shape {aval.shape} has the batch axes {batch}, which do not "
                f"broadcast to shape {shape}"
            )
        batch = shape
    return _dirichlet(typed, alpha, shape=batch, dtype=d)


@static_jit("shape", "dtype")
def _dirichlet(key: Any, alpha: Any, shape: Any, dtype: Any) -> Any:
    alpha = as_dtype(alpha, dtype)
    full = (*shape, typeof(alpha).shape[-1])
    logs = _gamma(key, alpha, shape=full, dtype=dtype, log_space=True)
    last = len(shape)
    # The softmax of the logarithms.
    largest = max(scalar(-np.inf, dtype), reduce_max(logs, (last,)))
    parts = exp(sub(logs, stop_gradient(_keep(largest, full, last))))
    return divided(parts, _keep(short_sum(parts), full, last))


def _keep(x: Any, shape: Any, axis: int) -> Any:
    """A reduced array, its axis back at size 1."""
    return broadcast_in_dim(x, (*shape[:axis], 1), tuple(range(axis)))


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Chi-square numbers of `df` degrees of freedom.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.chisquare(random.key(0), 3., (2,)).round(3)
    Array([2.205, 2.49 ], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(chisquare(key, df, shape, dtype), "chisquare", out_sharding)
    typed = consume("chisquare", key)
    d = float_dtype("chisquare", dtype)
    df = as_array(df)
    check_safe("chisquare", d, df)
    return _chisquare(typed, df, shape=result_shape("chisquare", shape, df), dtype=d)


@static_jit("shape", "dtype")
def _chisquare(key: Any, df: Any, shape: Any, dtype: Any) -> Any:
    two = scalar(2, dtype)
    half = div(as_dtype(df, dtype), two)
    logs = _gamma(key, half, shape=shape, dtype=dtype, log_space=True)
    return mul(exp(logs), two)


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """F numbers of `dfnum` and `dfden` degrees of freedom.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.f(random.key(0), 3., 4., (2,)).round(3)
    Array([2.704, 0.226], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(f(key, dfnum, dfden, shape, dtype), "f", out_sharding)
    typed = consume("f", key)
    d = float_dtype("f", dtype)
    dfnum, dfden = as_array(dfnum), as_array(dfden)
    check_safe("f", d, dfnum, dfden)
    return _f(typed, dfnum, dfden, shape=result_shape("f", shape, dfnum, dfden), dtype=d)


@static_jit("shape", "dtype")
def _f(key: Any, dfnum: Any, dfden: Any, shape: Any, dtype: Any) -> Any:
    dfden, dfnum = as_dtype(dfden, dtype), as_dtype(dfnum, dtype)
    key_den, key_num = split_list(key, 2)
    dfden, dfnum = spread_array(dfden, shape), spread_array(dfnum, shape)
    top = _chisquare(key_num, dfnum, shape=shape, dtype=dtype)
    bottom = _chisquare(key_den, dfden, shape=shape, dtype=dtype)
    return div(div(top, dfnum), div(bottom, dfden))


def t(key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Student's t numbers of `df` degrees of freedom.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.t(random.key(0), 3., (2,)).round(3)
    Array([ 0.69 , -3.239], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(t(key, df, shape, dtype), "t", out_sharding)
    typed = consume("t", key)
    d = float_dtype("t", dtype)
    df = as_array(df)
    check_safe("t", d, df)
    return _t(typed, df, shape=result_shape("t", shape, df), dtype=d)


@static_jit("shape", "dtype")
def _t(key: Any, df: Any, shape: Any, dtype: Any) -> Any:
    df = as_dtype(df, dtype)
    key_n, key_g = split_list(key, 2)
    n = _normal(key_n, shape=shape, dtype=dtype)
    half = div(df, scalar(2, dtype))
    g = _gamma(key_g, half, shape=shape, dtype=dtype, log_space=False)
    return mul(n, sqrt(div(spread_array(half, shape), g)))


# --- powers of gamma numbers ---
def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Numbers whose density is proportional to exp(-|x|**p).

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.generalized_normal(random.key(0), 1., (2,)).round(3)
    Array([0.603, 0.143], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(generalized_normal(key, p, shape, dtype), "generalized_normal", out_sharding)
    typed = consume("generalized_normal", key)
    d = float_dtype("generalized_normal", dtype)
    p = as_array(p)
    shape = result_shape("generalized_normal", canonical_shape(shape), p)
    return _generalized_normal(typed, p, shape=shape, dtype=d)


@static_jit("shape", "dtype")
def _generalized_normal(key: Any, p: Any, shape: Any, dtype: Any) -> Any:
    keys = rng.random_split(key, (2,))
    g = _gamma(keys[0], reciprocal(p), shape=shape, dtype=dtype, log_space=False)
    signs = _rademacher(keys[1], shape=shape, dtype=dtype)
    powers = pow(*promoted(g, reciprocal(p)))
    return mul(*promoted(signs, powers))


def ball(
    key: Any,
    d: int,
    p: Any = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Points spread evenly over the unit ball of the p-norm in `d` dimensions; shape (*shape, d).

    Method: Barthe, Guedon, Mendelson, Naor, "A probabilistic approach to the geometry of the l_p^n
    ball", Annals of Probability 33 (2005).

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> x = random.ball(random.key(0), 2, shape=(5,))
    >>> x.shape, bool(jnp.all(jnp.sum(x**2, -1) <= 1))
    ((5, 2), True)
    """
    if out_sharding is not None:
        return lay_out(ball(key, d, p, shape, dtype), "ball", out_sharding)
    typed = consume("ball", key)
    (d,) = canonical_shape((d,))
    dt = float_dtype("ball", dtype)
    return _ball(typed, as_array(p), shape=(*canonical_shape(shape), d), dtype=dt)


def _to_the(x: Any, p: Any) -> Any:
    if typeof(p).ndim or dtypes.is_bool(typeof(p).dtype):
        return power(x, p)
    x, promoted_p = promoted(x, p)  # of integers as well, as in JAX's programs
    return pow(x, p if dtypes.is_integer(typeof(p).dtype) else promoted_p)


@static_jit("shape", "dtype")
def _ball(key: Any, p: Any, shape: Any, dtype: Any) -> Any:
    key_g, key_e = split_list(key, 2)
    last = len(shape) - 1
    g = _generalized_normal(key_g, p, shape=shape, dtype=dtype)
    e = _exact_exponential(key_e, shape=shape[:-1], dtype=dtype)
    powers = _to_the(lax_abs(g), p)
    total = add(*promoted(short_sum(powers), e))
    norm = pow(*promoted(total, reciprocal(p)))
    return over_power(g, _keep(norm, shape, last))
