"""Bits, integers and uniform numbers, permutations and choices: everything made directly of random
bits.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config, dtypes
from ..api.placement import lay_out
from ..core.avals import typeof
from ..core.primitive import Primitive
from ..numpy.cumulative import cumsum
from ..numpy.selecting import select_where
from ..numpy.sorting import searchsorted
from ..numpy.taking import take
from ..numpy.ufuncs_more import clip_jit
from ..numpy.util import literal, shown_as
from ..primitives import as_compiled, rng
from ..primitives.common import as_array, canonical_axis, canonical_shape, requested_dtype, size_of
from ..primitives.convert import bitcast_convert_type, convert_element_type
from ..primitives.elementwise import (
    add,
    bitwise_and,
    bitwise_or,
    ge,
    gt,
    le,
    log,
    lt,
    max,
    mul,
    neg,
    rem,
    select_n,
    shift_right_logical,
    sub,
)  # fmt: skip
from ..primitives.layout import broadcast_in_dim, expand_dims, iota, reshape, squeeze, transpose
from ..primitives.reductions import argmax
from ..primitives.shape import full, slice_in_dim
from ..primitives.sort import sort_key_val, top_k
from .base import (
    as_dtype,
    consume,
    float_dtype,
    result_shape,
    scalar,
    split_list,
    spread,
    spread_array,
    static_jit,
)
from .elementary import log as exact_log, log1p


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Uniform bits as unsigned integers (uint32 by default; uint64 under x64).

    `key`: of `random.key`; `shape`: a tuple of ints. Raises ValueError for a dtype that is not an
    unsigned integer.

    >>> random.bits(random.key(0), (2,), 'uint8')
    Array([167, 146], dtype=uint8)
    """
    if out_sharding is not None:
        return lay_out(bits(key, shape, dtype), "bits", out_sharding)
    typed = consume("bits", key)
    d = dtypes.canonicalize_dtype(np.uint64) if dtype is None else requested_dtype(dtype, "bits")
    if not dtypes.is_unsigned(d):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {d}")
    return rng.random_bits(typed, d.itemsize * 8, canonical_shape(shape))


# --- uniform ---
def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Any:
    """Uniform numbers in [minval, maxval).

    `shape`: a tuple of ints; `out_sharding`: the sharding of the result.

    >>> random.uniform(random.key(0), (3,))
    Array([0.947667  , 0.9785799 , 0.33229148], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(uniform(key, shape, dtype, minval, maxval), "uniform", out_sharding)
    typed = consume("uniform", key)
    d = float_dtype("uniform", dtype)
    return _uniform(typed, minval, maxval, shape=canonical_shape(shape), dtype=d)


def _to_rank(x: Any, rank: int) -> Any:
    """A bound with axes of size 1 before its own."""
    shape = typeof(x).shape
    missing = rank - len(shape)
    return (
        broadcast_in_dim(x, (1,) * missing + shape, tuple(range(missing, rank)))
        if missing > 0
        else x
    )


def _together(op: str, name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands as NumPy aligns them; numbers stay as they are. TypeError where their lengths
    differ, ValueError where their ranks do besides; `name` is the bound to look at.
    """
    one, two = typeof(x).shape, typeof(y).shape
    if not one or not two or one == two:
        return x, y
    fix = f"Fix: {name} broadcasts to the shape of the numbers, or vmap over it."
    pairs = zip(reversed(one), reversed(two), strict=False)
    if any(1 != n != m != 1 for n, m in pairs):
        if len(one) == len(two):
            raise TypeError(
                f"{op} got incompatible shapes for broadcasting: {one}, {two}: uniform has {name} "
                f"of the second shape. {fix}"
            )
        raise ValueError(
            f"Incompatible shapes for broadcasting: {one} and {two}: uniform has {name} of the "
            f"second shape. {fix}"
        )
    rank = builtins.max(len(one), len(two))
    return _to_rank(x, rank), _to_rank(y, rank)


def _uniform_in(
    key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any, plus_minval: Primitive
) -> Any:
    # Random bits become the mantissa of numbers in [1, 2).
    minval, maxval = as_dtype(minval, dtype), as_dtype(maxval, dtype)
    minval, maxval = _to_rank(minval, len(shape)), _to_rank(maxval, len(shape))
    mantissa, width = dtypes.finfo(dtype).nmant, dtypes.itemsize_bits(dtype)
    drawn = 8 if mantissa < 8 else width
    as_uint = np.dtype(f"uint{width}")
    words = rng.random_bits(key, drawn, shape)
    if drawn != width:
        words = convert_element_type(words, as_uint)
    one = np.ones((), dtype).view(as_uint)[()]
    floats = bitcast_convert_type(
        bitwise_or(shift_right_logical(words, as_uint.type(drawn - mantissa)), one), dtype
    )
    unit = sub(floats, scalar(1, dtype))
    span = sub(*_together("sub", "minval", maxval, minval))
    scaled = mul(*_together("mul", "maxval", unit, span))
    scaled = plus_minval.bind(*_together("add", "minval", scaled, minval))
    # As in JAX, minval has the last word about the shape: numbers of shape () get its.
    low = typeof(minval).shape
    if len(low) > len(shape) > 0:
        raise TypeError(
            "max: arrays must have the same number of dimensions, got "
            f"{set(map(len, (shape, low)))}: uniform has minval of shape {low} for numbers of "
            f"shape {shape}. Fix: minval broadcasts to the shape of the numbers, or vmap over it."
        )
    if size_of(typeof(scaled).shape) != size_of(shape):
        raise ValueError(
            f"uniform parameters of shape {typeof(scaled).shape} do not broadcast to shape "
            f"{shape}. Fix: minval and maxval broadcast to the shape of the numbers, or vmap over "
            "them."
        )
    return max(minval, reshape(scaled, shape))


@static_jit("shape", "dtype")
def _uniform(key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    return _uniform_in(key, minval, maxval, shape, dtype, as_compiled.contracted_add_p)


@static_jit("shape", "dtype")
@shown_as("_uniform")
def positive_uniform(key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    """From the least normal number to 1."""
    return _uniform_in(key, minval, maxval, shape, dtype, as_compiled.lost_add_p)


# --- integers ---
def randint(
    key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Uniform integers in [minval, maxval).

    `minval`, `maxval`: numbers, broadcast to `shape`; `dtype`: an integer one, int32 by default
    (int64 under x64): TypeError for another. As `numpy.random.Generator.integers`.

    `out_sharding`: the sharding of the result.

    >>> random.randint(random.key(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(randint(key, shape, minval, maxval, dtype), "randint", out_sharding)
    typed = consume("randint", key)
    d = dtypes.default_int() if dtype is None else requested_dtype(dtype, "randint")
    if not dtypes.is_integer(d):
        raise TypeError(f"randint only accepts integer dtypes, got {d}")
    minval, maxval = (_integer(x, d) for x in (minval, maxval))
    shape = canonical_shape(shape)
    result_shape("randint", shape, as_array(minval), as_array(maxval))
    if d.itemsize >= 4:
        return _randint(typed, minval, maxval, shape=shape, dtype=d)
    info, wide = dtypes.iinfo(d), np.dtype("int32")
    low = clip_jit(as_dtype(minval, wide), min=info.min, max=info.max)
    high = clip_jit(as_dtype(maxval, wide), min=info.min, max=info.max + 1)
    return convert_element_type(_randint(typed, low, high, shape=shape, dtype=wide), d)


def _integer(x: Any, dtype: Any) -> Any:
    """A bound that is not an integer is truncated."""
    x = as_array(x)
    return x if dtypes.is_integer(typeof(x).dtype) else convert_element_type(x, dtype)


def _within(x: Any, dtype: Any) -> Any:
    """Integers in another integer dtype, those beyond it at its ends."""
    own, to = dtypes.iinfo(typeof(x).dtype), dtypes.iinfo(dtype)
    low = literal(x, own.min if own.min > to.min else to.min)
    high = literal(x, own.max if own.max < to.max else to.max)
    return convert_element_type(clip_jit(x, low, high), dtype)


def max_int(a: int, b: int) -> int:
    return a if a > b else b


@static_jit("shape", "dtype")
def _randint(key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    # Two words a number make the bias of the remainder negligible: (high * 2**n + low) mod span,
    # with 2**n mod span found by squaring.
    last = dtype.type(dtypes.iinfo(dtype).max)
    above = gt(maxval, _within(last, typeof(maxval).dtype))
    low, high = _within(minval, dtype), _within(maxval, dtype)
    low, high = _to_rank(low, len(shape)), _to_rank(high, len(shape))
    width = dtype.itemsize * 8
    uint = np.dtype(f"uint{width}")
    first, second = split_list(key, 2)
    higher, lower = rng.random_bits(first, width, shape), rng.random_bits(second, width, shape)
    span = convert_element_type(sub(high, low), uint)
    one = uint.type(1)
    span = select_n(le(high, low), span, broadcast_in_dim(one, typeof(span).shape, ()))
    grows = gt(high, low)
    grows = bitwise_and(spread(above, typeof(grows).shape) if typeof(above).ndim else above, grows)
    span = select_n(grows, span, add(span, one))
    step = rem(uint.type(2 ** (width // 2)), span)
    step = rem(mul(step, step), span)
    offset = rem(add(mul(rem(higher, span), step), rem(lower, span)), span)
    return add(low, convert_element_type(offset, dtype))


# --- booleans and signs ---
def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Any:
    """True with probability `p`; mode "high" resolves small probabilities better.

    `p`: floats, broadcast to `shape`; the result is bool. Raises TypeError for a `p` that is not
    float.

    `out_sharding`: the sharding of the result.

    >>> random.bernoulli(random.key(0), 0.5, (4,))
    Array([False, False,  True,  True], dtype=bool)
    """
    if out_sharding is not None:
        return lay_out(bernoulli(key, p, shape, mode), "bernoulli", out_sharding)
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    typed = consume("bernoulli", key)
    d = typeof(p).dtype
    if not dtypes.is_float(d):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {d}.")
    p = convert_element_type(p, d)
    return _bernoulli(typed, p, shape=result_shape("bernoulli", shape, p), mode=mode)


@static_jit("shape", "mode")
def _bernoulli(key: Any, p: Any, shape: Any, mode: str) -> Any:
    d = typeof(p).dtype
    if mode == "low":
        return lt(_uniform(key, 0.0, 1.0, shape=shape, dtype=d), spread_array(p, shape))
    coarse, fine = _halves(_uniform(key, 0.0, 1.0, shape=(2, *shape), dtype=d))
    eps = scalar(2.0 ** -dtypes.finfo(d).nmant, d)
    return lt(mul(fine, eps), sub(spread_array(p, shape), coarse))


def _halves(x: Any) -> Any:
    first, second = (squeeze(slice_in_dim(x, k, k + 1), (0,)) for k in (0, 1))
    return first, second


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """-1 or 1 with equal probability.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: that of the result, an integer by
    default.

    >>> random.rademacher(random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(rademacher(key, shape, dtype), "rademacher", out_sharding)
    typed = consume("rademacher", key)
    d = dtypes.default_int() if dtype is None else requested_dtype(dtype, "rademacher")
    return _rademacher(typed, shape=canonical_shape(shape), dtype=d)


@static_jit("shape", "dtype")
def _rademacher(key: Any, shape: Any, dtype: Any) -> Any:
    heads = _bernoulli(
        key, np.float32(0.5) if not _x64() else np.float64(0.5), shape=shape, mode="low"
    )
    if dtype == np.bool_:  # neither sign is zero
        return bitwise_or(heads, np.bool_(True))
    return sub(mul(scalar(2, dtype), convert_element_type(heads, dtype)), scalar(1, dtype))


def _x64() -> bool:
    return bool(dtypes.default_float() == np.float64)


# --- permutations and choices ---
@static_jit("axis")
def _shuffle(key: Any, x: Any, axis: int) -> Any:
    # Sorting by random words; enough rounds that words which collide are unlikely to matter.
    rounds = math.ceil(3 * math.log(max_int(1, size_of(typeof(x).shape))) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, now = split_list(key, 2)
        _, x = sort_key_val(rng.random_bits(now, 32, typeof(x).shape), x, axis)
    return x


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Any:
    """The slices of `x` along an axis (or 0 ... x-1) in random order; `independent` shuffles each
    vector along the axis on its own.

    `x`: an array or an int; the result has its shape and dtype. Raises ValueError for an axis out
    of bounds. As `numpy.random.Generator.permutation`.

    `out_sharding`: the sharding of the result.

    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(permutation(key, x, axis, independent), "permutation", out_sharding)
    typed = consume("permutation", key)
    if not typeof(as_array(x)).ndim:
        if not dtypes.is_integer(typeof(as_array(x)).dtype):
            raise TypeError("x must be an integer or at least 1-dimensional")
        canonical_axis(axis, 1)
        return _shuffle(typed, iota(dtypes.default_int(), max_int(int(x), 0)), axis=0)
    x = as_array(x)
    aval = typeof(x)
    axis = canonical_axis(axis, aval.ndim)
    if independent or aval.ndim == 1:
        return _shuffle(typed, x, axis=axis)
    if not aval.shape[axis]:
        return x
    order = _shuffle(typed, iota(dtypes.default_int(), aval.shape[axis]), axis=0)
    return take(x, order, axis, unique_indices=True)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Random slices of `a` along an axis (or of 0 ... a-1), with probabilities `p`, with or without
    replacement.

    `p`: (size of the axis,). Raises ValueError for more draws than elements without replacement, or
    a `p` of another shape. As `numpy.random.Generator.choice`.

    `mode`: "low" or "high", of the Gumbel numbers of a choice without replacement.

    >>> random.choice(random.key(0), jnp.array([10, 20, 30]), (2,), replace=False)
    Array([10, 20], dtype=int32)
    """
    typed = consume("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape argument of jax.random.choice must be a sequence, got {shape}")
    shape = canonical_shape(shape)
    whole = typeof(as_array(a)).ndim == 0
    if not whole:
        a = as_array(a)
        axis = canonical_axis(axis, typeof(a).ndim)
    n = int(a) if whole else typeof(a).shape[axis]
    draws = int(size_of(shape))
    if not draws:  # of no slices, as in JAX, whatever their shape
        return full(shape, 0, dtypes.default_int() if whole else typeof(a).dtype)
    if n <= 0:
        raise ValueError(
            "a must be greater than 0 unless no samples are taken"
            if whole
            else "a must be non-empty"
        )
    if not replace and draws > n:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {n}) when "
            "'replace=False'"
        )
    if p is None and not replace:
        chosen = permutation(typed, n if whole else a, axis)
        chosen = chosen[(*[slice(None)] * (0 if whole else axis), slice(draws))]
        to = shape if whole else (*typeof(a).shape[:axis], *shape, *typeof(a).shape[axis + 1 :])
        return chosen if typeof(chosen).shape == to else reshape(chosen, to)
    if p is None:
        order = _randint(typed, 0, n, shape=shape, dtype=dtypes.default_int())
    else:
        order = _weighted(typed, p, n, shape, draws, replace, mode)
    if whole:
        chosen, to = convert_element_type(order, dtypes.default_int()), shape
    else:
        chosen = take(a, order, axis)
        to = (*typeof(a).shape[:axis], *shape, *typeof(a).shape[axis + 1 :])
    return chosen if p is not None and not replace else reshape(chosen, to)


def _weighted(
    key: Any, p: Any, n: int, shape: Any, draws: int, replace: bool, mode: str | None
) -> Any:
    p = as_array(p)
    d = typeof(p).dtype
    if not dtypes.is_float(d):
        d = dtypes.default_float()
        p = convert_element_type(p, d)
    if typeof(p).shape != (n,):
        raise ValueError(
            "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
            f"{typeof(p).shape} and a has {n}."
        )
    if replace:
        total = cumsum(p)
        draw = mul(total[-1], sub(scalar(1, d), _uniform(key, 0.0, 1.0, shape=shape, dtype=d)))
        return searchsorted(total, draw)
    noise = add(gumbel(key, (n,), d, mode), log(p))
    return reshape(top_k(noise, draws)[1], shape)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Indices along an axis with the probabilities that `logits` (unnormalised logarithms) give.

    `logits`: floats (..., k, ...), k at `axis`; the result is int32, of the batch's shape unless
    `shape` says more. Without `replace` each batch draws no index twice. Raises ValueError for
    shapes that do not fit.

    `mode`: "low" or "high", of the Gumbel numbers; `out_sharding`: the sharding of the
    result.

    >>> random.categorical(random.key(0), jnp.log(jnp.array([0.1, 0.9])), shape=(5,))
    Array([1, 1, 1, 1, 1], dtype=int32)
    """
    if out_sharding is not None:
        return lay_out(
            categorical(key, logits, axis, shape, replace, mode), "categorical", out_sharding
        )
    typed = consume("categorical", key)
    logits = as_array(logits)
    aval = typeof(logits)
    float_dtype("gumbel", aval.dtype)
    axis = canonical_axis(axis, aval.ndim)
    batch = aval.shape[:axis] + aval.shape[axis + 1 :]
    shape = batch if shape is None else canonical_shape(shape)
    lead = shape[: len(shape) - len(batch)]
    if shape[len(shape) - len(batch) :] != batch:
        result_shape("categorical", shape, as_array(np.broadcast_to(np.int32(0), batch)))
    if not replace:
        return _without_replacement(typed, logits, axis, shape, lead, mode)
    # Each element of the result has noise of its own, also where the batch is broadcast to it.
    own = shape[len(lead) :]
    noise = gumbel(typed, (*lead, *own[:axis], aval.shape[axis], *own[axis:]), aval.dtype, mode)
    scores = (
        add(noise, expand_dims(logits, tuple(range(len(lead))))) if lead else add(noise, logits)
    )
    return argmax(scores, axis + len(lead), dtypes.default_int())


def _without_replacement(
    key: Any, logits: Any, axis: int, shape: Any, lead: Any, mode: str | None
) -> Any:
    aval = typeof(logits)
    draws = int(size_of(lead))
    if draws > aval.shape[axis]:
        raise ValueError(
            f"Number of samples without replacement ({draws}) cannot exceed number of categories "
            f"({aval.shape[axis]})."
        )
    noisy = add(logits, gumbel(key, aval.shape, aval.dtype, mode))
    order = top_k(noisy, draws, axis=axis)[1]
    order = transpose(order, (axis, *(d for d in range(aval.ndim) if d != axis)))
    return reshape(order, shape)


# --- the Gumbel distribution, of which categorical is made ---
def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Gumbel numbers; mode "high" has more of the tail.

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> random.gumbel(random.key(0), (2,)).round(3)
    Array([2.923, 3.833], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(gumbel(key, shape, dtype, mode), "gumbel", out_sharding)
    typed = consume("gumbel", key)
    d = float_dtype("gumbel", dtype)
    if mode is None:
        mode = "high" if config.high_dynamic_range_gumbel.get() else "low"
    if mode not in ("high", "low"):
        raise ValueError("Must provide valid mode for gumbel got: " + str(mode))
    return _gumbel(typed, shape=canonical_shape(shape), dtype=d, mode=mode)


@static_jit("shape", "dtype", "mode")
def _gumbel(key: Any, shape: Any, dtype: Any, mode: str) -> Any:
    tiny = dtypes.finfo(dtype).tiny
    if mode == "low":
        return neg(
            log(
                neg(
                    exact_log(
                        positive_uniform(
                            key, minval=scalar(tiny, dtype), maxval=1.0, shape=shape, dtype=dtype
                        )
                    )
                )
            )
        )
    high, low = _halves(_uniform(key, minval=0.0, maxval=1.0, shape=(2, *shape), dtype=dtype))
    eps = scalar(dtypes.finfo(dtype).eps, dtype)
    # Numbers near 0 get the bits that the mantissa of uniform cannot hold.
    x = select_where(
        ge(high, scalar(0.5, dtype)), high, add(add(high, mul(eps, low)), scalar(tiny, dtype))
    )
    return neg(log(neg(log1p(neg(x)))))
