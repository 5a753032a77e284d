"""Distributions of counts: Poisson, binomial, multinomial and geometric.

All numbers of a call are drawn together, round by round, until each has accepted a candidate: a
call's numbers depend on its shape, as JAX's do.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import dtypes
from ..api.jit import jit
from ..api.placement import lay_out
from ..control.scan import scan
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..numpy.comparison import isinf
from ..numpy.selecting import select_where
from ..numpy.taking import take
from ..numpy.util import check_arraylike, promote_dtypes_inexact, to_type
from ..primitives import rng
from ..primitives.common import as_array, canonical_axis, canonical_shape, requested_dtype
from ..primitives.convert import convert_element_type
from ..primitives.cumulative import cumsum
from ..primitives.elementwise import (
    abs as lax_abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    ceil,
    clamp,
    div,
    eq,
    floor,
    ge,
    gt,
    le,
    log,
    lt,
    max,
    min,
    mul,
    ne,
    neg,
    select_n,
    sub,
)  # fmt: skip
from ..primitives.layout import broadcast_in_dim, transpose
from ..primitives.maths import lgamma, log1p, sqrt
from ..primitives.reductions import any_true
from .base import consume, float_dtype, result_shape, scalar, split_list, spread, static_jit
from .uniform import _uniform


def _full(value: Any, shape: Any) -> Any:
    return broadcast_in_dim(value, shape, ())


def _where(test: Any, x: Any, y: Any) -> Any:
    """x where `test`, else y; numbers are spread over the shape."""
    shape = typeof(test).shape
    x, y = (v if typeof(v).shape == shape else _full(v, shape) for v in (x, y))
    return select_n(test, y, x)


def _below(count: Any, dtype: Any, limit: Any) -> Any:
    """Rounds are counted in the dtype of the result, up to its largest number."""
    return lt(convert_element_type(count, dtype), scalar(limit, dtype))


def _count_dtype(name: str, dtype: Any) -> Any:
    d = dtypes.default_int() if dtype is None else requested_dtype(dtype, name)
    if not dtypes.is_integer(d):
        raise ValueError(f"dtype argument to `{name}` must be an int dtype, got {d}")
    return d


# --- Poisson ---
def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Poisson numbers of mean `lam`: integers. Keys of the threefry generator only, as in JAX.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype. The dtype is an integer one, int32 by default
    (int64 under x64).

    >>> random.poisson(random.key(0), 3., (4,))
    Array([0, 0, 4, 4], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(poisson(key, lam, shape, dtype), "poisson", out_sharding)
    typed = consume("poisson", key)
    impl = typeof(typed).dtype.impl
    if impl.name != "threefry2x32":
        raise NotImplementedError(
            f"`poisson` is only implemented for the threefry2x32 RNG, not {impl.name}. Fix: make "
            "the key with key(seed, impl='threefry2x32')."
        )
    d = dtypes.default_int() if dtype is None else requested_dtype(dtype, "poisson")
    if not dtypes.is_integer(d):
        raise ValueError(f"dtype argument to `poisson` must be an int dtype, got {d}")
    lam = as_array(lam)
    shape = result_shape("poisson", shape, lam)
    lam = convert_element_type(spread(lam, shape), np.float32)
    return _poisson(typed, lam, shape=shape, dtype=d)


@static_jit("shape", "dtype")
def _poisson(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    small = bitwise_or(ne(lam, lam), lt(lam, np.float32(10)))
    few = _poisson_knuth(key, _where(small, lam, np.float32(0)), shape=shape, dtype=dtype)
    # Of each element one of both is used, so that the key is used once.
    again = rng.random_clone(key)
    many = _poisson_rejection(again, _where(small, np.float32(1e5), lam), shape=shape, dtype=dtype)
    out = select_n(small, many, few)
    return _where(eq(lam, np.float32(0)), scalar(0, dtype), out)


@static_jit("shape", "dtype")
def _poisson_knuth(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    # How many uniform numbers until their product is below exp(-lam): Knuth, The Art of Computer
    # Programming 2, 3.4.1.
    limit = dtypes.iinfo(dtype).max
    one = scalar(1, dtype)

    def more(state: Any) -> Any:
        rounds, _, _, log_product = state
        return bitwise_and(any_true(gt(log_product, neg(lam))), _below(rounds, dtype, limit))

    def step(state: Any) -> Any:
        rounds, k, key, log_product = state
        key, now = split_list(key, 2)
        k = select_n(gt(log_product, neg(lam)), k, add(k, one))
        u = _uniform(now, 0.0, 1.0, shape=shape, dtype=np.dtype(np.float32))
        return add(rounds, np.int32(1)), k, key, add(log_product, log(u))

    start = (np.int32(0), _full(scalar(0, dtype), shape), key, _full(np.float32(0), shape))
    return sub(while_loop(more, step, start)[1], one)


@static_jit("shape", "dtype")
def _poisson_rejection(key: Any, lam: Any, shape: Any, dtype: Any) -> Any:
    # PTRS: Hormann, "The transformed rejection method for generating Poisson random variables",
    # Insurance: Mathematics and Economics 12 (1993).
    f = np.float32
    log_lam = log(lam)
    b = add(f(0.931), mul(f(2.53), sqrt(lam)))
    a = add(f(-0.059), mul(f(0.02483), b))
    inverse_alpha = add(f(1.1239), div(f(1.1328), sub(b, f(3.4))))
    v_r = sub(f(0.9277), div(f(3.6224), sub(b, f(2))))
    limit = dtypes.iinfo(dtype).max

    def more(state: Any) -> Any:
        rounds, _, accepted, _ = state
        return bitwise_and(any_true(bitwise_not(accepted)), _below(rounds, dtype, limit))

    def step(state: Any) -> Any:
        rounds, found, accepted, key = state
        key, key_u, key_v = split_list(key, 3)
        u = sub(_uniform(key_u, 0.0, 1.0, shape=shape, dtype=np.dtype(f)), f(0.5))
        v = _uniform(key_v, 0.0, 1.0, shape=shape, dtype=np.dtype(f))
        us = sub(f(0.5), lax_abs(u))
        k = floor(add(add(mul(add(div(mul(f(2), a), us), b), u), lam), f(0.43)))
        s = log(div(mul(v, inverse_alpha), add(div(a, mul(us, us)), b)))
        t = sub(add(neg(lam), mul(k, log_lam)), lgamma(add(k, f(1))))
        quick = bitwise_and(ge(us, f(0.07)), le(v, v_r))
        outside = bitwise_or(lt(k, f(0)), bitwise_and(lt(us, f(0.013)), gt(v, us)))
        accept = bitwise_or(quick, bitwise_and(bitwise_not(outside), le(s, t)))
        return (
            add(rounds, np.int32(1)),
            select_n(accept, found, k),
            bitwise_or(accepted, accept),
            key,
        )

    start = (np.int32(0), _full(f(-1), shape), _full(np.bool_(False), shape), key)
    return convert_element_type(while_loop(more, step, start)[1], dtype)


# --- binomial ---
# log k! less Stirling's approximation of it, for k = 0 ... 9.
_STIRLING_ERRORS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_error(k: Any, dtype: Any) -> Any:
    """The error of Stirling's approximation of log k!. From 9 on it is taken as that of 9, as JAX
    does.
    """
    nine = scalar(9, dtype)
    small = le(k, nine)
    k = clamp(scalar(0, dtype), k, nine)
    k1 = add(k, scalar(1, dtype))
    square = mul(k1, k1)
    series = sub(scalar(1 / 360, dtype), div(scalar(1 / 1260, dtype), square))
    series = div(sub(scalar(1 / 12, dtype), div(series, square)), k1)
    table = np.array(_STIRLING_ERRORS).astype(dtype)
    known = take(table, convert_element_type(floor(k), np.int32), 0)
    return select_n(small, series, known)


def _binomial_inversion(key: Any, n: Any, p: Any, shape: Any, dtype: Any) -> Any:
    # Numbers of failures between successes are geometric: how many fit into n trials.
    log_q = log1p(neg(p))
    limit = float(dtypes.finfo(dtype).max)

    def more(state: Any) -> Any:
        rounds, _, total, _ = state
        return bitwise_and(any_true(le(total, n)), _below(rounds, dtype, limit))

    def step(state: Any) -> Any:
        rounds, found, total, key = state
        now, key = split_list(key, 2)
        found = select_n(le(total, n), found, add(found, scalar(1, dtype)))
        u = _uniform(now, 0.0, 1.0, shape=shape, dtype=dtype)
        return add(rounds, np.int32(1)), found, add(total, ceil(div(log(u), log_q))), key

    zero = _full(scalar(0, dtype), shape)
    found = while_loop(more, step, (np.int32(0), zero, zero, key))[1]
    return sub(found, scalar(1, dtype))


def _binomial_rejection(key: Any, n: Any, p: Any, shape: Any, dtype: Any) -> Any:
    # BTRS: Hormann, "The generation of binomial random variates", Journal of Statistical
    # Computation and Simulation 46 (1993).
    def c(value: float) -> Any:
        return scalar(value, dtype)

    one = c(1)
    spread_ = sqrt(mul(mul(n, p), sub(one, p)))
    b = add(c(1.15), mul(c(2.53), spread_))
    a = add(add(c(-0.0873), mul(c(0.0248), b)), mul(c(0.01), p))
    centre = add(mul(n, p), c(0.5))
    v_r = sub(c(0.92), div(c(4.2), b))
    odds = div(p, sub(one, p))
    alpha = mul(add(c(2.83), div(c(5.1), b)), spread_)
    mode = floor(mul(add(n, one), p))
    limit = float(dtypes.finfo(dtype).max)

    def more(state: Any) -> Any:
        rounds, _, accepted, _ = state
        return bitwise_and(any_true(bitwise_not(accepted)), _below(rounds, dtype, limit))

    def log_ratio(k: Any) -> Any:
        """log of the probability of k over that of the mode."""
        at_mode = mul(
            add(mode, c(0.5)), log(div(add(mode, one), mul(odds, add(sub(n, mode), one))))
        )
        rest = mul(add(n, one), log(div(add(sub(n, mode), one), add(sub(n, k), one))))
        at_k = mul(add(k, c(0.5)), log(div(mul(odds, add(sub(n, k), one)), add(k, one))))
        out = add(add(at_mode, rest), at_k)
        out = add(out, _stirling_error(mode, dtype))
        out = add(out, _stirling_error(sub(n, mode), dtype))
        out = sub(out, _stirling_error(k, dtype))
        return sub(out, _stirling_error(sub(n, k), dtype))

    def step(state: Any) -> Any:
        rounds, found, accepted, key = state
        key, key_u, key_v = split_list(key, 3)
        u = _uniform(key_u, 0.0, 1.0, shape=shape, dtype=dtype)
        v = _uniform(key_v, 0.0, 1.0, shape=shape, dtype=dtype)
        u = sub(u, c(0.5))
        us = sub(c(0.5), lax_abs(u))
        quick = bitwise_and(ge(us, c(0.07)), le(v, v_r))
        k = floor(add(mul(add(div(mul(c(2), a), us), b), u), centre))
        outside = bitwise_or(lt(k, c(0)), gt(k, n))
        v = log(div(mul(v, alpha), add(div(a, mul(us, us)), b)))
        exact = bitwise_and(bitwise_not(outside), le(v, log_ratio(k)))
        accept = bitwise_or(quick, exact)
        return (
            add(rounds, np.int32(1)),
            select_n(accept, found, k),
            bitwise_or(accepted, accept),
            key,
        )

    start = (np.int32(0), _full(c(-1), shape), _full(np.bool_(False), shape), key)
    return while_loop(more, step, start)[1]


def _binomial_values(key: Any, n: Any, p: Any, shape: Any, dtype: Any) -> Any:
    """Binomial numbers for arrays n and p of the result's shape and dtype."""

    def c(value: float) -> Any:
        return scalar(value, dtype)

    flipped = lt(p, c(0.5))
    p = select_n(flipped, sub(c(1), p), p)  # now at most a half
    bad_n = bitwise_or(ne(n, n), lt(n, c(0)))
    infinite = isinf(n)
    bad_p, negative_p = ne(p, p), lt(p, c(0))
    p = _where(bitwise_or(bad_p, negative_p), c(0.01), p)
    few = bitwise_or(bad_n, le(mul(n, p), c(10)))
    n = floor(n)
    small = _binomial_inversion(key, _where(few, n, c(0)), p, shape, dtype)
    again = rng.random_clone(key)  # of each element one of both is used
    trials, share = _where(few, c(1e4), n), _where(few, c(0.5), p)
    large = _binomial_rejection(again, trials, share, shape, dtype)
    out = select_n(few, large, small)
    invalid = bitwise_or(bitwise_or(negative_p, bad_p), bad_n)
    out = _where(invalid, c(math.nan), out)
    out = _where(bitwise_and(infinite, bitwise_not(invalid)), c(math.inf), out)
    keep = bitwise_or(bitwise_or(bitwise_or(flipped, bad_n), bad_p), infinite)
    return select_n(keep, sub(n, out), out)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of successes in `n` trials of probability `p`, as floats (nan for n < 0 or p outside
    [0, 1]).

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype.

    >>> random.binomial(random.key(0), 10, 0.5, (4,))
    Array([6., 7., 5., 6.], dtype=float32)
    """
    typed = consume("binomial", key)
    d = float_dtype("binomial", dtype)
    check_arraylike("binomial", n, p)
    # A probability counts with its whole dtype, though it be weak.
    p = as_array(p)
    n, p = promote_dtypes_inexact(n, to_type(p, typeof(p).dtype, False))
    return _binomial(typed, n, p, shape=result_shape("binomial", shape, n, p), dtype=d)


@functools.partial(jit, static_argnames=("shape", "dtype"), inline=True)
def _binomial(key: Any, n: Any, p: Any, shape: Any, dtype: Any) -> Any:
    # Drawn in the parameters' own dtype.
    n, p = spread(n, shape), spread(p, shape)
    return convert_element_type(_binomial_values(key, n, p, shape, typeof(p).dtype), dtype)


def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Any:
    """Numbers of outcomes of each kind in `n` trials, as floats.

    `p`, of shape (..., k), holds the probabilities of the kinds, `n` has the shape (...); the
    result, and `shape` if it is given, is (..., k). `unroll` is that of the scan over the kinds.

    >>> random.multinomial(random.key(0), 10, jnp.array([0.5, 0.25, 0.25])).sum()
    Array(10., dtype=float32)
    """
    typed = consume("multinomial", key)
    d = dtypes.default_float() if dtype is None else requested_dtype(dtype, "multinomial")
    n, p = promote_dtypes_inexact(n, p)
    canonical_axis(-1, typeof(p).ndim)
    kinds = typeof(p).shape[-1]
    if shape is None:
        batch = result_shape("multinomial", None, n, np.empty(typeof(p).shape[:-1]))
        shape = (*batch, kinds)
    shape = canonical_shape(shape)
    if shape[-1:] != (kinds,):
        raise ValueError(
            f"multinomial: shape {shape} must end with the number of kinds, {kinds}, since p has "
            f"shape {typeof(p).shape}"
        )
    result_shape("multinomial", shape[:-1], n)
    result_shape("multinomial", shape, p)
    drawn = _multinomial(typed, spread(n, shape[:-1]), spread(p, shape), unroll)
    return convert_element_type(drawn, d)


def _multinomial(key: Any, n: Any, p: Any, unroll: int | bool) -> Any:
    """Kind by kind: a binomial number of the trials that are left, at the share that the kind has
    of what is left of the probabilities.
    """
    aval = typeof(p)
    dtype, batch, last = aval.dtype, aval.shape[:-1], aval.ndim - 1
    p = transpose(p, (last, *range(last)))
    left = cumsum(p, axis=0, reverse=True)
    one = scalar(1, dtype)
    shares = div(p, _where(eq(left, scalar(0, dtype)), one, left))
    keys = rng.random_split(key, (aval.shape[-1],))

    def step(n: Any, kind: Any) -> Any:
        share, key = kind
        share = min(one, max(scalar(0, dtype), share))
        drawn = _binomial_values(key, n, share, batch, dtype)
        return sub(n, drawn), drawn

    _, drawn = scan(step, n, (shares, keys), unroll=unroll)
    return transpose(drawn, (*range(1, aval.ndim), 0))


# --- geometric ---
def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Numbers of trials of probability `p` up to the first success: integers from 1.

    `key`: of `random.key`; parameters are real and broadcast to `shape`, whose default is their
    common shape; `dtype`: a float dtype, float32 by default (float64 under x64). Raises ValueError
    for shapes that do not fit or another dtype. The dtype is an integer one, int32 by default
    (int64 under x64).

    >>> random.geometric(random.key(0), 0.5, (4,))
    Array([1, 1, 2, 2], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(geometric(key, p, shape, dtype), "geometric", out_sharding)
    typed = consume("geometric", key)
    d = _count_dtype("geometric", dtype)
    p = as_array(p)
    if dtypes.is_complex(typeof(p).dtype):
        raise ValueError(
            f"geometric: p must be real, got {typeof(p).str_short()}. Fix: p.real, "
            "if that is meant."
        )
    if not dtypes.is_float(typeof(p).dtype):
        p = convert_element_type(p, dtypes.default_float())
    return _geometric(typed, p, shape=result_shape("geometric", shape, p), dtype=d)


@static_jit("shape", "dtype")
def _geometric(key: Any, p: Any, shape: Any, dtype: Any) -> Any:
    real = typeof(p).dtype
    u = _uniform(key, 0.0, 1.0, shape=shape, dtype=real)
    log_u = log(select_where(eq(u, scalar(0, real)), 1, u))
    log_q = spread(log1p(neg(p)), shape)
    k = add(floor(div(log_u, log_q)), scalar(1, real))
    return convert_element_type(k, dtype)
