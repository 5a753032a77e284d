"""Activation functions, and the normalisations of neural networks."""

from __future__ import annotations

import functools
import operator
import warnings
from typing import Any

import numpy as np

from .. import config, dtypes, lax, numpy as jnp
from ..api.jit import jit
from ..control.custom_jvp import custom_jvp
from ..core.avals import typeof
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError
from ..numpy.reductions import axes_size, split_axes
from ..numpy.util import (
    check_arraylike,
    promote_args_inexact,
    static_axes,
    user_dtype,
    wide_ints_as_floats,
)
from ..primitives.common import as_size

_static_axis = functools.partial(jit, static_argnames=("axis",))


@jit
def identity(x: Any) -> Any:
    """`x` itself.

    >>> nn.identity(jnp.arange(2.))
    Array([0., 1.], dtype=float32)
    """
    check_arraylike("identity", x)
    return jnp.asarray(x)


@custom_jvp
@jit
def relu(x: Any) -> Any:
    """max(x, 0), elementwise. The derivative at 0 is 0.

    >>> nn.relu(jnp.array([-1., 2.]))
    Array([0., 2.], dtype=float32)
    """
    return jnp.maximum(x, 0)


relu.defjvps(lambda t, out, x: lax.select(x > 0, t, lax.full_like(t, 0)))


@custom_jvp
@jit
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), elementwise. The derivative at 0 and at 6 is 0.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.relu6(jnp.array([-1., 2., 8.]))
    Array([0., 2., 6.], dtype=float32)
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda t, out, x: lax.select((x > 0) & (x < 6), t, lax.full_like(t, 0)))


@jit
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x^2 + b)) / 2, elementwise: a smooth relu; `b` says how wide the bend is.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.squareplus(jnp.array([0., 1.])).round(3)
    Array([1.   , 1.618], dtype=float32)
    """
    check_arraylike("squareplus", x)
    check_arraylike("squareplus", b)
    x, b = jnp.asarray(x), jnp.asarray(b)
    y = x + jnp.sqrt(jnp.square(x) + b)
    return y / 2


@jit
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), elementwise, without overflow.

    >>> nn.softplus(0.)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    return jnp.logaddexp(x, 0)


@jit
def sparse_plus(x: Any) -> Any:
    """0 up to -1, (x + 1)^2 / 4 between -1 and 1, x from there.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.sparse_plus(jnp.array([-2., 0., 3.]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    check_arraylike("sparse_plus", x)
    x = jnp.asarray(x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@jit
def soft_sign(x: Any) -> Any:
    """x / (|x| + 1), elementwise.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.soft_sign(jnp.array([-1., 0., 3.]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    check_arraylike("soft_sign", x)
    x = jnp.asarray(x)
    return x / (jnp.abs(x) + 1)


@functools.partial(jit, inline=True)
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), elementwise; for floats.

    >>> nn.sigmoid(0.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(x)


@jit
def sparse_sigmoid(x: Any) -> Any:
    """0 up to -1, (x + 1) / 2 between -1 and 1, 1 from there.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.sparse_sigmoid(jnp.array([-2., 0., 3.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_arraylike("sparse_sigmoid", x)
    return 0.5 * jnp.clip(jnp.asarray(x) + 1.0, 0.0, 2.0)


@jit
def silu(x: Any) -> Any:
    """x * sigmoid(x), elementwise; also called swish.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.silu(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.731], dtype=float32)
    """
    check_arraylike("silu", x)
    x = jnp.asarray(x)
    return x * sigmoid(x)


swish = silu


@jit
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)), elementwise.

    `x`: a real array of any shape; the result is float, of its shape. Source:
    https://arxiv.org/abs/1908.08681.

    >>> nn.mish(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.865], dtype=float32)
    """
    check_arraylike("mish", x)
    x = jnp.asarray(x)
    return x * jnp.tanh(softplus(x))


@jit
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), elementwise, without overflow.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.log_sigmoid(jnp.array([-1000., 0.])).round(3)
    Array([-1.00e+03, -6.93e-01], dtype=float32)
    """
    check_arraylike("log_sigmoid", x)
    return -softplus(-jnp.asarray(x))  # negated in its own type, as JAX does


@jit
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where positive, else alpha * (exp(x) - 1).

    `x`: a real array of any shape; the result is float, of its shape. The exponential linear unit
    of https://arxiv.org/abs/1511.07289.

    >>> nn.elu(jnp.array([-1., 2.])).round(3)
    Array([-0.632,  2.   ], dtype=float32)
    """
    check_arraylike("elu", x)
    x = jnp.asarray(x)
    # The inner where keeps expm1 of large positive numbers out of the derivative.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@jit
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where it is not negative, else negative_slope * x.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.leaky_relu(jnp.array([-1., 2.]), 0.25)
    Array([-0.25,  2.  ], dtype=float32)
    """
    check_arraylike("leaky_relu", x)
    x = jnp.asarray(x)
    return jnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x: Any) -> Any:
    """x clipped to [-1, 1].

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.hard_tanh(jnp.array([-4., 0.5, 3.]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    check_arraylike("hard_tanh", x)
    x = jnp.asarray(x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@jit
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1), elementwise.

    `x`: a real array of any shape; the result is float, of its shape. The continuously
    differentiable elu of https://arxiv.org/abs/1704.07483.

    >>> nn.celu(jnp.array([-1., 2.])).round(3)
    Array([-0.632,  2.   ], dtype=float32)
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@jit
def selu(x: Any) -> Any:
    """The self-normalising elu: scale * elu(x, alpha) with the constants of
    https://arxiv.org/abs/1706.02515.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.selu(jnp.array([-1., 1.])).round(3)
    Array([-1.111,  1.051], dtype=float32)
    """
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


def gelu(x: Any, approximate: bool = True) -> Any:
    """x * P(X <= x) for a standard normal X, elementwise; `approximate` uses a tanh formula, else
    erfc.

    >>> nn.gelu(1., approximate=False)
    Array(0.8413447, dtype=float32)
    """
    x = jnp.asarray(promote_args_inexact("gelu", *wide_ints_as_floats(x))[0])
    dtype = typeof(x).dtype
    if approximate:
        root = np.sqrt(2 / np.pi).astype(dtype)
        cdf = 0.5 * (1.0 + jnp.tanh(root * (x + 0.044715 * (x**3))))
        return x * cdf
    half = np.sqrt(0.5).astype(dtype)
    return jnp.array(0.5 * x * (lax.erfc(-x * half)), dtype=dtype)


@_static_axis
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of `x` along `axis` times the sigmoid of the second half.

    Raises AssertionError unless the size of the axis is even.

    `x`: a float array; the result has half its size along `axis`. The gated linear unit of
    https://arxiv.org/abs/1612.08083.

    >>> nn.glu(jnp.array([4., 6., 0., 0.]))
    Array([2., 3.], dtype=float32)
    """
    check_arraylike("glu", x)
    x = jnp.asarray(x)
    if typeof(x).shape[axis] % 2:
        raise AssertionError("axis size must be divisible by 2")
    a, b = jnp.split(x, 2, axis)
    return a * sigmoid(b)


@jit
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6, elementwise.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.hard_sigmoid(jnp.array([-4., 0., 1.5]))
    Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    check_arraylike("hard_sigmoid", x)
    return relu6(jnp.asarray(x) + 3.0) / 6.0


@jit
def hard_silu(x: Any) -> Any:
    """x * hard_sigmoid(x), elementwise; also called hard_swish.

    `x`: a real array of any shape; the result is float, of its shape.

    >>> nn.hard_silu(jnp.array([-4., 0., 3.]))
    Array([-0.,  0.,  3.], dtype=float32)
    """
    check_arraylike("hard_silu", x)
    x = jnp.asarray(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@custom_jvp
@jit
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, elementwise, accurate near 0 and for large x.

    >>> nn.log1mexp(1.)
    Array(-0.4586752, dtype=float32, weak_type=True)
    """
    check_arraylike("log1mexp", x)
    x = jnp.asarray(x)
    # Below log 2 the difference is best taken by expm1, above it by log1p (Maechler 2012,
    # "Accurately computing log(1 - exp(-|a|))").
    return jnp.where(x < jnp.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda t, out, x: t / jnp.expm1(x))


@functools.partial(jit, static_argnames=("axis", "keepdims"))
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(exp(x))) along `axis` without overflow; `where` says which elements count.

    `x`: a real or complex array; the result lacks `axis` (all axes by default) unless `keepdims`.

    >>> nn.logmeanexp(jnp.array([1000., 1000.]))
    Array(1000., dtype=float32)
    """
    lse = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        count = int(axes_size(axis, jnp.shape(x)))
        return lse - lax.log(np.asarray(count).astype(typeof(lse).dtype)[()])
    weights = jnp.broadcast_to(where, jnp.shape(x)).astype(np.int32)
    return lse - jnp.log(jnp.sum(weights, axis=axis, keepdims=keepdims, dtype=typeof(lse).dtype))


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) along `axis`, without overflow; b is 1 by default.

    `return_sign`: (log |sum|, sign), else a negative sum gives NaN. `where` says which elements
    count.

    >>> nn.logsumexp(jnp.array([1000., 1000.]))
    Array(1000.6931, dtype=float32)
    """
    given = wide_ints_as_floats(a) if b is None else wide_ints_as_floats(a, b)
    a, *factors = map(jnp.asarray, promote_args_inexact("logsumexp", *given))
    if b is not None:
        b = factors[0]
        a = jnp.where(b != 0, a, -np.inf)
    if where is not None:
        a = jnp.where(where, a, 0)  # the mask may have axes that `a` lacks: they count
    dims, named = split_axes(axis, jnp.ndim(a))
    top = jnp.max(a.real, axis=dims + named, keepdims=keepdims, where=where, initial=-np.inf)
    top = lax.stop_gradient(lax.select(jnp.isfinite(top), top, lax.full_like(top, 0)))
    wide = top if keepdims else lax.expand_dims(top, dims)
    terms = lax.exp(lax.sub(*_same(a, wide)))
    if b is not None:
        terms = lax.mul(*_same(terms, b))
    total = jnp.sum(terms, axis=dims + named, keepdims=keepdims, where=where)
    sign = lax.sign(total)
    if return_sign or not jnp.issubdtype(typeof(a).dtype, np.complexfloating):
        total = lax.abs(total)
    out = lax.add(*_same(lax.log(total), top))
    if return_sign:
        return out, sign
    if b is not None and not jnp.issubdtype(typeof(out).dtype, np.complexfloating):
        out = jnp.where(sign < 0, jnp.array(np.nan, dtype=typeof(out).dtype), out)
    return out


def _same(x: Any, y: Any) -> tuple[Any, Any]:
    """Two arrays with the dtype of the first, a complex one perhaps whose parts are of the other's,
    and, by broadcasting, one rank.
    """
    if typeof(y).dtype != typeof(x).dtype:
        y = lax.convert_element_type(y, typeof(x).dtype)
    if typeof(x).ndim != typeof(y).ndim:
        rank = max(typeof(x).ndim, typeof(y).ndim)
        x, y = (
            v
            if typeof(v).ndim in (0, rank)
            else lax.expand_dims(v, tuple(range(rank - typeof(v).ndim)))
            for v in (x, y)
        )
    return x, y


def _least(x: Any) -> Any:
    """What every element exceeds: -inf, or the least integer."""
    dtype = typeof(x).dtype
    return int(dtypes.iinfo(dtype).min) if dtypes.is_integer(dtype) else -np.inf


@_static_axis
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """x - log(sum(exp(x))) along `axis`; where `where` is false, elements do not count and the
    result is -inf.

    >>> nn.log_softmax(jnp.zeros(2))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    check_arraylike("log_softmax", x)
    x, axis = jnp.asarray(x), static_axes(axis)
    top = jnp.max(x, axis, where=where, initial=_least(x), keepdims=True)
    kept = x if where is None else jnp.where(where, x, -np.inf)
    shifted = kept - lax.stop_gradient(top)
    total = jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    out = shifted - total
    return out if where is None else jnp.where(where, out, -np.inf)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis` (one or several), without overflow; 0 where `where` is
    false.

    >>> nn.softmax(jnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    axis = static_axes(axis)
    if config.softmax_custom_jvp.get():
        return _softmax(x, axis, where)
    return _softmax_formula(x, axis, where)


def _softmax_formula(x: Any, axis: Any, where: Any) -> Any:
    check_arraylike("max", x)
    top = jnp.max(x, axis, where=where, initial=_least(x), keepdims=True)
    kept = x if where is None else jnp.where(where, x, -np.inf)
    raised = jnp.exp(kept - lax.stop_gradient(top))
    out = raised / jnp.sum(raised, axis, where=where, keepdims=True)
    return out if where is None else jnp.where(where, out, 0)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Any, axis: Any, where: Any) -> Any:
    return _softmax_formula(x, axis, where)


@_softmax.defjvp
def _softmax_jvp(axis: Any, primals: Any, tangents: Any) -> Any:
    x, where = primals
    y = _softmax(x, axis, where)
    t = tangents[0]
    return y, y * (t - jnp.sum(y * t, axis, where=where, keepdims=True))


@functools.partial(jit, static_argnames=("axis", "algorithm"))
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """(x - mean) / sqrt(variance + epsilon), mean and variance taken along `axis` unless given.

    `algorithm` "fast" computes the variance as mean(x^2) - mean(x)^2, "stable" as the mean squared
    deviation.

    Raises ValueError for another algorithm.

    `x`: a real array; `mean`, `variance` broadcast to it; `where` says which elements count.

    >>> nn.standardize(jnp.array([1., 2., 3.])).round(3)
    Array([-1.225,  0.   ,  1.225], dtype=float32)
    """
    check_arraylike("standardize", x)
    x, axis = jnp.asarray(x), static_axes(axis)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "fast":
            variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
            variance = jnp.clip(variance, 0)
        elif algorithm != "stable":
            raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
        else:
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
    return jnp.subtract(x, jnp.asarray(mean)) * lax.rsqrt(jnp.asarray(variance) + epsilon)


@functools.partial(jit, static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Any, num_classes: int, *, dtype: Any, axis: Any) -> Any:
    x = jnp.asarray(x)
    ndim = typeof(x).ndim
    try:
        position = operator.index(axis)
    except TypeError:
        size = lax.axis_size(axis)
        if num_classes != size:
            raise ValueError(
                f"Expected num_classes to match the size of axis {axis}, but {num_classes} != "
                f"{size}"
            ) from None
        return jnp.asarray(x == lax.axis_index(axis), dtype=dtype)
    if not -(ndim + 1) <= position <= ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim + 1}")
    position %= ndim + 1
    shape = [1] * (ndim + 1)
    shape[position] = num_classes
    wanted = lax.expand_dims(x, (position,))
    classes = lax.broadcasted_iota(typeof(x).dtype, tuple(shape), position)
    return (wanted == classes).astype(dtype)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Any:
    """1 at the place that each index names, 0 elsewhere; the new axis of size num_classes is at
    `axis`. Out of range: all 0.

    `x`: integers.

    >>> nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if isinstance(num_classes, Tracer):  # type: ignore[unreachable]
        raise ConcretizationTypeError(
            num_classes, "The error arose in jax.nn.one_hot argument `num_classes`."
        )
    dtype = dtypes.default_float() if dtype is None else user_dtype(dtype, "astype")
    x = jnp.asarray(x)
    if not dtypes.is_integer(x.dtype):
        warnings.warn(
            f"jax.nn.one_hot input should be integer-typed; got dtype={x.dtype}. Fix: "
            "x.astype(int).",
            DeprecationWarning,
            stacklevel=2,
        )
    return _one_hot(x, as_size(num_classes, "num_classes"), dtype=dtype, axis=axis)
