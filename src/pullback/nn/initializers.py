"""Initialisers of weights: functions (key, shape, dtype) -> array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .. import dtypes, lax, numpy as jnp, random
from ..api.placement import lay_out
from ..primitives.common import requested_dtype


@runtime_checkable
class Initializer(Protocol):
    """A function that makes an array of a shape and dtype from a random key.

    Called as `initializer(key, shape, dtype)`: `key` of `random.key`, `shape` a tuple of ints; the
    dtype is float32 by default (float64 under x64).

    >>> def alternate(key, shape, dtype=jnp.float32, out_sharding=None):
    ...     return jnp.arange(shape[0]).astype(dtype) % 2
    >>> init: nn.initializers.Initializer = alternate
    >>> init(random.key(0), (3,))
    Array([0., 1., 0.], dtype=float32)
    """

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
        raise TypeError("Initializer is a protocol: pass a function (key, shape, dtype)")


def _inexact(dtype: Any) -> Any:
    d = dtypes.default_float() if dtype is None else requested_dtype(dtype, "an initializer")
    if not dtypes.is_inexact(d):
        raise ValueError(
            f"initializers make inexact arrays, got dtype {d.name}. Fix: a float or complex dtype."
        )
    return d


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """All 0; `key` is not used.

    >>> pb.nn.initializers.zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, dtype, out_sharding=out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """All 1; `key` is not used.

    `shape`: a tuple of ints; `dtype`: float32 by default.

    >>> nn.initializers.ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, dtype, out_sharding=out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """The initialiser that fills an array with `value` (anything that broadcasts to the shape).

    >>> nn.initializers.constant(3)(random.key(0), (2,))
    Array([3., 3.], dtype=float32)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "nn.initializers.constant", out_sharding)
        return jnp.full(shape, value, dtype=float if dtype is None else dtype)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """The initialiser of uniform numbers in [0, scale).

    `dtype`: that of the result, unless the call names one.

    >>> x = nn.initializers.uniform(2.0)(random.key(0), (1000,))
    >>> 0 <= x.min() and x.max() < 2
    Array(True, dtype=bool)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "uniform", out_sharding)
        d = _inexact(dtype)
        return random.uniform(key, shape, d) * jnp.array(scale, d)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """The initialiser of normal numbers with this standard deviation.

    `dtype`: that of the result, unless the call names one.

    >>> nn.initializers.normal(5.0)(random.key(0), (10000,)).std().round(0)
    Array(5., dtype=float32)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "normal", out_sharding)
        d = _inexact(dtype)
        return random.normal(key, shape, d) * jnp.array(stddev, d)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """The initialiser of normal numbers cut off at `lower` and `upper` and then multiplied by
    `stddev`.

    `lower`, `upper`: in standard deviations, before the multiplication.

    >>> jnp.abs(nn.initializers.truncated_normal(3.0)(random.key(0), (1000,))).max() <= 6
    Array(True, dtype=bool)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "truncated_normal", out_sharding)
        d = _inexact(dtype)
        return random.truncated_normal(key, lower, upper, shape, d) * jnp.array(stddev, d)

    return init


def _compute_fans(
    shape: Sequence[int], in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = ()
) -> tuple[Any, Any]:
    """How many inputs an output has, and outputs an input: the other axes (such as a kernel's
    window) multiply both. Libraries import it.
    """
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly."
        )
    sizes = []
    for axes in (in_axis, out_axis, batch_axis):
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        sizes.append(int(np.prod([shape[a] for a in axes], dtype=np.int64)))
    field = int(np.prod(shape, dtype=np.int64)) / sizes[0] / sizes[1] / sizes[2]
    return sizes[0] * field, sizes[1] * field


def _complex_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Uniform on the unit disc."""
    key_r, key_theta = random.split(key)
    real = np.zeros((), dtype).real.dtype
    r = jnp.sqrt(random.uniform(key_r, shape, real)).astype(dtype)
    theta = 2 * jnp.pi * random.uniform(key_theta, shape, real).astype(dtype)
    return r * jnp.exp(1j * theta)


def _complex_truncated_normal(key: Any, upper: Any, shape: Any, dtype: Any) -> Any:
    """Complex normal numbers whose magnitude is at most `upper`, by inverting the distribution of
    the magnitude.
    """
    key_r, key_theta = random.split(key)
    real = np.zeros((), dtype).real.dtype
    t = (1 - jnp.exp(jnp.array(-(upper**2), dtype))) * random.uniform(key_r, shape, real).astype(
        dtype
    )
    r = jnp.sqrt(-jnp.log(1 - t))
    theta = 2 * jnp.pi * random.uniform(key_theta, shape, real).astype(dtype)
    return r * jnp.exp(1j * theta)


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """The initialiser whose variance is scale / n: n is the fan-in, the fan-out, their mean or
    their geometric mean, by `mode`.

    `distribution`: "truncated_normal" (cut at two standard deviations), "normal" or "uniform".
    Raises ValueError for another, or mode.

    >>> init = nn.initializers.variance_scaling(4.0, 'fan_in', 'normal')
    >>> init(random.key(0), (100, 100)).std().round(1)
    Array(0.2, dtype=float32)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), distribution, out_sharding)
        fan_in, fan_out = _compute_fans(tuple(shape), in_axis, out_axis, batch_axis)
        choices = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": (fan_in * fan_out) ** 0.5,
        }
        if not isinstance(mode, str) or mode not in choices:
            raise ValueError(
                f"invalid mode for variance scaling initializer: {mode}. Fix: one of "
                f"{', '.join(choices)}."
            )
        ratio = scale / choices[mode]
        d = _inexact(dtype)
        variance = jnp.array(ratio, dtype=d)
        if distribution == "normal":
            return random.normal(key, shape, d) * jnp.sqrt(variance)
        if distribution == "uniform":
            if dtypes.is_complex(d):
                # The mean square of the magnitude on the unit disc is a half.
                return _complex_uniform(key, shape, d) * jnp.sqrt(2 * variance)
            return random.uniform(key, shape, d, -1) * jnp.sqrt(3 * variance)
        if distribution == "truncated_normal":
            # The constant is the standard deviation of what is left when the tails are cut.
            if dtypes.is_complex(d):
                stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, d)
                return _complex_truncated_normal(key, 2, shape, d) * stddev
            stddev = jnp.sqrt(variance) / jnp.array(0.87962566103423978, d)
            return random.truncated_normal(key, -2, 2, shape, d) * stddev
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")

    return init


def glorot_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Uniform with variance 1 / mean(fan_in, fan_out); also called xavier_uniform.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: Glorot and Bengio, AISTATS 2010.

    >>> nn.initializers.glorot_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Truncated normal with variance 1 / mean(fan_in, fan_out); also called xavier_normal.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: Glorot and Bengio, AISTATS 2010.

    >>> nn.initializers.glorot_normal()(random.key(0), (100, 100)).std().round(1)
    Array(0.1, dtype=float32)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Uniform with variance 1 / fan_in.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: LeCun, Bottou, Orr, Mueller, "Efficient BackProp",
    1998.

    >>> nn.initializers.lecun_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Truncated normal with variance 1 / fan_in.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: LeCun, Bottou, Orr, Mueller, "Efficient BackProp",
    1998.

    >>> nn.initializers.lecun_normal()(random.key(0), (100, 100)).std().round(1)
    Array(0.1, dtype=float32)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Uniform with variance 2 / fan_in; also called kaiming_uniform.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: https://arxiv.org/abs/1502.01852.

    >>> nn.initializers.he_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Truncated normal with variance 2 / fan_in; also called kaiming_normal.

    `in_axis`, `out_axis`: the axes of the shape that are inputs and outputs; the others, but for
    `batch_axis`, are a receptive field, whose size both fans are multiplied by. Raises ValueError
    for shapes of fewer than two axes. Source: https://arxiv.org/abs/1502.01852.

    >>> nn.initializers.he_normal()(random.key(0), (50, 100)).std().round(1)
    Array(0.2, dtype=float32)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """The initialiser of orthonormal rows or columns (whichever are fewer) along `column_axis`,
    times `scale`.

    For shapes of two axes or more. Raises ValueError for fewer. Source:
    https://arxiv.org/abs/1312.6120.

    >>> q = nn.initializers.orthogonal()(random.key(0), (2, 2))
    >>> jnp.allclose(q @ q.T, jnp.eye(2), atol=1e-5)
    Array(True, dtype=bool)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "orthogonal", out_sharding)
        d = _inexact(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        columns = shape[column_axis]
        others = np.delete(shape, column_axis).tolist()
        rows = math.prod(others)
        q = jnp.reshape(random.orthogonal(key, rows, (), d, columns), (*others, columns))
        q = jnp.moveaxis(q, -1, column_axis)
        return jnp.array(scale, d) * q

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """The initialiser of convolution kernels that is orthogonal at the centre and 0 elsewhere; for
    shapes of 3, 4 or 5 axes.

    Raises ValueError for other shapes, or more input than output features. Source:
    https://arxiv.org/abs/1806.05393.

    >>> nn.initializers.delta_orthogonal()(random.key(0), (3, 2, 2))[0]
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    default = dtype

    def init(key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return lay_out(init(key, shape, dtype), "delta_orthogonal", out_sharding)
        d = _inexact(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, d)(key, tuple(shape[-2:]), d)
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        config = [(c, n - 1 - c, 0) for c, n in zip(centre, shape[:-2], strict=True)] + [
            (0, 0, 0),
            (0, 0, 0),
        ]
        matrix = lax.expand_dims(matrix, tuple(range(len(centre))))
        return lax.pad(matrix, np.zeros((), d)[()], config)

    return init


__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
