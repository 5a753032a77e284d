"""Small neural networks from layers: each layer is a pair (init, apply).

`init(key, input_shape)` gives (output shape, parameters); `apply(params, inputs, **options)` gives
the outputs. `serial` and `parallel` make layers of layers.

>>> init, apply = serial(Dense(8), Relu, Dense(1))
>>> _, params = init(random.key(0), (-1, 3))
>>> apply(params, jnp.ones((2, 3))).shape
(2, 1)
"""

from __future__ import annotations

import functools
import operator as op
from collections.abc import Callable, Sequence
from typing import Any

from .. import lax, numpy as jnp, random
from ..nn import (
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    relu as relu,
    selu as selu,
    sigmoid as sigmoid,
    softmax as softmax,
    softplus as softplus,
    standardize as standardize,
)
from ..nn.initializers import (
    glorot_normal as glorot_normal,
    normal as normal,
    ones as ones,
    zeros as zeros,
)

logsoftmax = log_softmax
glorot = glorot_normal
randn = normal
Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: B008
    """`x @ W + b`.

    `W_init`, `b_init`: initialisers, of `nn.initializers`; W is (inputs, out_dim).

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.Dense(3)
    >>> shape, (w, b) = init(random.key(0), (-1, 2))
    >>> shape, w.shape, b.shape
    ((-1, 3), (2, 3), (3,))
    """

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        k1, k2 = random.split(rng)
        w, b = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), (w, b)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return jnp.dot(inputs, w) + b

    return init_fun, apply_fun


def _kernel_shape(
    spec: str, filter_shape: Any, input_shape: Any, channels: str, out_chan: int
) -> list[int]:
    """The kernel's shape in its own layout: I and O are channels, the rest the window."""
    window = iter(filter_shape)
    sizes = {"O": out_chan, "I": input_shape[channels.index("C")]}
    return [sizes[c] if c in sizes else next(window) for c in spec]


def _convolution(
    transposed: bool,
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any,
    padding: Any,
    W_init: Any,
    b_init: Any,
) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    steps = strides or (1,) * len(filter_shape)
    make = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    run = lax.conv_transpose if transposed else lax.conv_general_dilated

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        k1, k2 = random.split(rng)
        kernel = _kernel_shape(rhs_spec, filter_shape, input_shape, lhs_spec, out_chan)
        shape_of = lax.conv_transpose_shape_tuple if transposed else lax.conv_general_shape_tuple
        out_shape = shape_of(tuple(input_shape), tuple(kernel), steps, padding, dimension_numbers)
        bias = tuple(out_chan if c == "C" else 1 for c in out_spec)
        return out_shape, (make(k1, kernel), b_init(k2, bias))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        w, b = params
        return run(inputs, w, steps, padding, dimension_numbers=dimension_numbers) + b

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:
    """A convolution in any layout, such as ("NHWC", "HWIO", "NHWC").

    `W_init`, `b_init`: initialisers, of `nn.initializers`; `strides` and `padding`: those of
    `lax.conv_general_dilated`.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.GeneralConv(('NHWC', 'HWIO', 'NHWC'), 4, (3, 3), padding='SAME')
    >>> init(random.key(0), (1, 8, 8, 3))[0]
    (1, 8, 8, 4)
    """
    return _convolution(
        False, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init
    )


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:
    """The transpose of a convolution, in any layout.

    `W_init`, `b_init`: initialisers, of `nn.initializers`; `strides` and `padding`: those of
    `lax.conv_transpose`.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.GeneralConvTranspose(('NHC', 'HIO', 'NHC'), 4, (2,), (2,))
    >>> init(random.key(0), (1, 8, 3))[0]
    (1, 16, 4)
    """
    return _convolution(
        True, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init
    )


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))

Conv.__doc__ = """`GeneralConv` of (batch, height, width, features).

>>> from pullback.example_libraries import stax
>>> init, apply = stax.Conv(4, (3, 3), padding='SAME')
>>> init(random.key(0), (1, 8, 8, 3))[0]
(1, 8, 8, 4)
"""
Conv1DTranspose.__doc__ = """`GeneralConvTranspose` of (batch, length, features).

>>> from pullback.example_libraries import stax
>>> init, apply = stax.Conv1DTranspose(4, (2,), (2,))
>>> init(random.key(0), (1, 8, 3))[0]
(1, 16, 4)
"""
ConvTranspose.__doc__ = """`GeneralConvTranspose` of (batch, height, width, features).

>>> from pullback.example_libraries import stax
>>> init, apply = stax.ConvTranspose(4, (2, 2), (2, 2))
>>> init(random.key(0), (1, 8, 8, 3))[0]
(1, 16, 16, 4)
"""


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Normalises over `axis`, then scales and shifts by parameters of the other axes' sizes.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.BatchNorm(axis=(0,))
    >>> shape, params = init(random.key(0), (-1, 2))
    >>> apply(params, jnp.array([[1., 2.], [3., 6.]])).round(2)
    Array([[-1., -1.],
           [ 1.,  1.]], dtype=float32)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
        shape = tuple(n for k, n in enumerate(input_shape) if k not in axes)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        return input_shape, (beta, gamma_init(k2, shape) if scale else ())

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        place = tuple(None if k in axes else slice(None) for k in range(jnp.ndim(x)))
        beta, gamma = params
        z = standardize(x, axes, epsilon=epsilon)
        if scale:
            z = gamma[place] * z
        return z + beta[place] if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function of elements.

    Further arguments are handed on to `fun`.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.elementwise(jnp.sin)
    >>> apply((), 0.)
    Array(0., dtype=float32, weak_type=True)
    """
    return (
        lambda rng, input_shape: (input_shape, ()),
        lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs),
    )


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(reducer: Any, init_val: Any, rescaler: Any = None) -> Callable[..., Layer]:
    def pooling_layer(
        window_shape: Any, strides: Any = None, padding: Any = "VALID", spec: Any = None
    ) -> Layer:
        """Reduces windows of the axes that `spec` does not call N or C."""
        steps = strides or (1,) * len(window_shape)
        scale = rescaler(window_shape, steps, padding) if rescaler else None
        layout = spec if spec is not None else ("N" + "W" * len(window_shape) + "C")
        fixed = sorted((layout.index("N"), layout.index("C")))
        window, stride = list(window_shape), list(steps)
        for k in fixed:
            window.insert(k, 1)
            stride.insert(k, 1)

        def init_fun(rng: Any, input_shape: Sequence[int]) -> Any:
            pads = lax.padtype_to_pads(input_shape, window, stride, padding)
            out = tuple(
                (n + lo + hi - w) // s + 1
                for n, (lo, hi), w, s in zip(input_shape, pads, window, stride, strict=True)
            )
            return out, ()

        def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = lax.reduce_window(inputs, init_val, reducer, window, stride, padding)
            return scale(out, inputs, layout) if scale else out

        return init_fun, apply_fun

    return pooling_layer


def _mean_scale(dims: Any, strides: Any, padding: Any) -> Callable[..., Any]:
    """Divides sums of windows by how many elements each had."""

    def rescale(outputs: Any, inputs: Any, spec: str) -> Any:
        places = [k for k in range(inputs.ndim) if k not in (spec.index("N"), spec.index("C"))]
        one = jnp.ones([inputs.shape[k] for k in places], dtype=inputs.dtype)
        counts = lax.reduce_window(one, 0.0, lax.add, dims, strides, padding)
        for k in sorted((spec.index("N"), spec.index("C"))):
            counts = jnp.expand_dims(counts, k)
        return outputs / counts

    return rescale


MaxPool = _pooling(lax.max, -jnp.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, _mean_scale)

MaxPool.__doc__ = """The maxima of windows of the axes that `spec` does not call N or C
("NHWC" by default). Strides are 1 by default; `padding` is "VALID" or "SAME".

>>> from pullback.example_libraries import stax
>>> init, apply = stax.MaxPool((2,), spec='NHC')
>>> apply((), jnp.array([1., 3., 5.]).reshape(1, 3, 1)).ravel()
Array([3., 5.], dtype=float32)
"""
SumPool.__doc__ = """The sums of windows of the axes that `spec` does not call N or C
("NHWC" by default). Strides are 1 by default; `padding` is "VALID" or "SAME".

>>> from pullback.example_libraries import stax
>>> init, apply = stax.SumPool((2,), spec='NHC')
>>> apply((), jnp.array([1., 3., 5.]).reshape(1, 3, 1)).ravel()
Array([4., 8.], dtype=float32)
"""
AvgPool.__doc__ = """The means of windows of the axes that `spec` does not call N or C
("NHWC" by default). Strides are 1 by default; `padding` is "VALID" or "SAME".

>>> from pullback.example_libraries import stax
>>> init, apply = stax.AvgPool((2,), spec='NHC')
>>> apply((), jnp.array([1., 3., 5.]).reshape(1, 3, 1)).ravel()
Array([2., 4.], dtype=float32)
"""

Identity: Layer = (lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kw: inputs)


def _flatten_shape(rng: Any, input_shape: Sequence[int]) -> Any:
    return (input_shape[0], functools.reduce(op.mul, input_shape[1:], 1)), ()


Flatten: Layer = (
    _flatten_shape,
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def FanOut(num: int) -> Layer:
    """Hands on its input `num` times.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.FanOut(2)
    >>> init(random.key(0), (3,))[0]
    [(3,), (3,)]
    """
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: functools.reduce(op.add, inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """Joins its inputs along an axis.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.FanInConcat()
    >>> apply((), [jnp.ones(2), jnp.zeros(1)])
    Array([1., 1., 0.], dtype=float32)
    """

    def init_fun(rng: Any, input_shape: Sequence[Any]) -> Any:
        k = axis % len(input_shape[0])
        joined = sum(shape[k] for shape in input_shape)
        return (*input_shape[0][:k], joined, *input_shape[0][k + 1 :]), ()

    return init_fun, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each element with probability `rate`, scaled up; does nothing unless `mode` is
    "train". Applied with `rng=key`; ValueError without it.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.Dropout(0.5, mode='test')
    >>> apply((), jnp.ones(3), rng=random.key(0))
    Array([1., 1., 1.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument. That is, "
                "instead of `apply_fun(params, inputs)`, call it like `apply_fun(params, inputs, "
                "rng)` where `rng` is a PRNG key (e.g. from `jax.random.key`)."
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun


def serial(*layers: Layer) -> Layer:
    """One layer after the other.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(4), stax.Relu, stax.Dense(1))
    >>> shape, params = init(random.key(0), (-1, 2))
    >>> apply(params, jnp.ones((5, 2))).shape
    (5, 1)
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params = []
        for init in inits:
            rng, layer_rng = random.split(rng)
            input_shape, found = init(layer_rng, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = random.split(rng, len(layers)) if rng is not None else (None,) * len(layers)
        for fun, p, key in zip(applies, params, rngs, strict=True):
            inputs = fun(p, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: a list of inputs to a list of outputs.

    >>> from pullback.example_libraries import stax
    >>> init, apply = stax.parallel(stax.Identity, stax.Relu)
    >>> apply(((), ()), (jnp.array([-1.]), jnp.array([-1.])))
    [Array([-1.], dtype=float32), Array([0.], dtype=float32)]
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> Any:
        rngs = random.split(rng, len(layers))
        pairs = [f(k, s) for f, k, s in zip(inits, rngs, input_shape, strict=True)]
        return tuple(s for s, _ in pairs), tuple(p for _, p in pairs)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = random.split(rng, len(layers)) if rng is not None else (None,) * len(layers)
        return [
            f(p, x, rng=k, **kwargs)
            for f, p, x, k in zip(applies, params, inputs, rngs, strict=True)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[..., Layer]) -> Layer:
    """The layer that `make_layer(input_shape)` gives.

    >>> from pullback.example_libraries import stax
    >>> layer = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
    >>> layer[0](random.key(0), (-1, 3))[0]
    (-1, 3)
    """
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
