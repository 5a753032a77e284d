"""Images and grids of any rank, resampled."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes, lax, numpy as jnp
from .api.jit import jit
from .numpy.util import canonical_axis, promote_dtypes_inexact
from .primitives.common import canonical_shape, is_symbolic

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How samples between grid points are made.

    The `method` of `image.resize`; strings are accepted there too.

    >>> pullback.image.ResizeMethod.from_string('bilinear').name
    'LINEAR'
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name, ValueError if there is none."""
        if not isinstance(s, str) or s not in _NAMES:
            raise ValueError(f'Unknown resize method "{s}". Fix: one of {", ".join(_NAMES)}.')
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


def _triangle(x: Any) -> Any:
    return jnp.maximum(0, 1 - jnp.abs(x))


def _cubic(a: float) -> Callable[[Any], Any]:
    """The cubic convolution kernel (Keys, 1981) with slope `a` at distance one."""

    def kernel(x: Any) -> Any:
        x = jnp.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = a * (((x - 5) * x + 8) * x - 4)
        return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: float) -> Callable[[Any], Any]:
    """A windowed sinc: sinc(x) sinc(x / radius) within the radius."""

    def kernel(x: Any) -> Any:
        window = jnp.sinc(x) * jnp.sinc(x / radius)
        return jnp.where(jnp.abs(x) < radius, window, 0)

    return kernel


_KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.5),
}


def _pytorch_weights(size: int, out_size: int, scale: Any, translation: Any) -> Any:
    """As PyTorch resamples without antialiasing: the slope is -0.75, and the border pixel goes on
    outside of the image, so that what would fall there is added to it."""
    dtype = jnp.result_type(scale, translation)
    centre = (jnp.arange(out_size, dtype=dtype) + 0.5 - translation) / scale - 0.5
    grid = jnp.arange(-2, size + 2, dtype=dtype)
    weights = _cubic(-0.75)(centre[None, :] - grid[:, None])
    folded = weights[2:-2].at[0].add(weights[:2].sum(0)).at[-1].add(weights[-2:].sum(0))
    inside = (centre >= -0.5) & (centre <= size - 0.5)
    return jnp.where(inside[None, :], folded, 0)


def _matrix(
    size: int, out_size: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool
) -> Any:
    """The matrix (size, out_size) of one axis."""
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _pytorch_weights(size, out_size, scale, translation)
    return _weights(size, out_size, scale, translation, _KERNELS[method], antialias)


def _weights(
    size: int,
    out_size: int,
    scale: Any,
    translation: Any,
    kernel: Callable[[Any], Any],
    antialias: bool,
) -> Any:
    """The matrix (size, out_size) that resamples one axis: each column sums to one, or is zero
    outside of the image.

    An output sample lies at `(i + 0.5 - translation) / scale - 0.5` on the input's grid; when
    shrinking with antialiasing the kernel is as wide as an output sample.
    """
    dtype = jnp.result_type(scale, translation)
    inverse = 1.0 / scale
    width = jnp.maximum(inverse, 1.0) if antialias else 1.0
    centre = (jnp.arange(out_size, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    distance = jnp.abs(centre[None, :] - jnp.arange(size, dtype=dtype)[:, None]) / width
    weights = kernel(distance)
    total = jnp.sum(weights, axis=0, keepdims=True)
    tiny = 1000.0 * float(np.finfo(np.float32).eps)
    weights = jnp.where(jnp.abs(total) > tiny, weights / jnp.where(total != 0, total, 1), 0).astype(
        dtype
    )
    inside = (centre >= -0.5) & (centre <= size - 0.5)
    return jnp.where(inside[None, :], weights, 0)


def _area_weights(size: int, out_size: int, dtype: Any) -> Any:
    """The matrix that averages the part of the input which each output sample covers."""
    edges = np.arange(out_size + 1) * (size / out_size)
    grid = np.arange(size)[:, None]
    overlap = np.minimum(edges[1:], grid + 1) - np.maximum(edges[:-1], grid)
    return jnp.asarray(np.maximum(overlap, 0) * (out_size / size), dtype)


def _contract(x: Any, axes: Sequence[int], matrices: Sequence[Any], precision: Any) -> Any:
    for axis, matrix in zip(axes, matrices, strict=True):
        out = lax.dot_general(x, matrix, (((axis,), (0,)), ((), ())), precision=precision)
        x = jnp.moveaxis(out, -1, axis)
    return x


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    if not isinstance(method, ResizeMethod):
        raise TypeError(f"method must be a name or a ResizeMethod, got {method!r}.")
    return method


def scale_and_translate(
    image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any, translation: Any,
    method: str | ResizeMethod, antialias: bool = True, precision: Any = lax.Precision.HIGHEST,
) -> Any:  # fmt: skip
    """An image, scaled and then moved along `spatial_dims`, on a grid of the given shape.

    `scale` and `translation` have one entry for each of `spatial_dims` (translation in output
    samples); both may be traced and differentiated. What lies outside of the image is zero.

    ValueError for shapes that do not fit, or for the methods "nearest" and "area", TypeError for
    a method that is none.

    >>> x = jnp.array([[1.], [3.]])
    >>> scale, move = jnp.array([2.]), jnp.array([0.])
    >>> pullback.image.scale_and_translate(x, (4, 1), (0,), scale, move, 'linear').ravel()
    Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    image, scale, translation = jnp.asarray(image), jnp.asarray(scale), jnp.asarray(translation)
    kind = _method(method)
    shape = canonical_shape(shape)
    dims = tuple(canonical_axis(d, image.ndim) for d in spatial_dims)
    if len(shape) != image.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {shape} vs "
            f"{image.shape}"
        )
    if kind is ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for scale_and_translate."
        )
    if kind is ResizeMethod.AREA:
        raise ValueError(
            "Area resampling is for resize: scale_and_translate takes a kernel method."
        )
    for name, x in (("scale", scale), ("translation", translation)):
        if x.shape != (len(dims),):
            raise ValueError(
                f"scale_and_translate: {name} must have shape ({len(dims)},), one entry for each "
                f"of spatial_dims, got {x.shape}"
            )
    for d in range(image.ndim):
        if d not in dims and shape[d] != image.shape[d]:
            raise ValueError(
                f"scale_and_translate: axis {d} is not in spatial_dims, so its size must stay "
                f"{image.shape[d]}, got {shape[d]}"
            )
    (image,) = promote_dtypes_inexact(image)
    matrices = [
        _matrix(image.shape[d], shape[d], scale[k], translation[k], kind, antialias)
        for k, d in enumerate(dims)
    ]
    return _contract(image, dims, [m.astype(image.dtype) for m in matrices], precision)


def resize(
    image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Any:  # fmt: skip
    """An image (an array of any rank) of another shape.

    `method` is "nearest", "linear" (also "bilinear", "trilinear", "triangle"), "cubic" (also
    "bicubic", "tricubic"), "cubic-pytorch", "lanczos3", "lanczos5" or "area". With `antialias`,
    shrinking averages over what each sample covers.

    >>> pb.image.resize(jnp.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)

    ValueError for a shape of another rank or an unknown method.
    """
    image, shape = jnp.asarray(image), canonical_shape(shape)
    if len(shape) != image.ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {shape} vs "
            f"{image.shape}"
        )
    return _resize(image, shape, _method(method), bool(antialias), precision)


@functools.partial(jit, static_argnums=(1, 2, 3, 4))
def _resize(
    x: Any, shape: tuple[int, ...], method: ResizeMethod, antialias: bool, precision: Any
) -> Any:
    if method is ResizeMethod.NEAREST:
        for axis, (size, out_size) in enumerate(zip(x.shape, shape, strict=True)):
            if any(is_symbolic(n) for n in (size, out_size)):
                sizes = [lax.convert_element_type(n, np.float32) for n in (size, out_size)]
                middles = jnp.arange(out_size, dtype=np.float32) + np.float32(0.5)
                at = jnp.floor(middles * sizes[0] / sizes[1])
                x = jnp.take(x, at.astype(np.int32), axis=axis)
            elif size != out_size:
                at = np.floor((np.arange(out_size, dtype=np.float32) + 0.5) * size / out_size)
                x = jnp.take(x, at.astype(np.int32), axis=axis)
        return x
    (x,) = promote_dtypes_inexact(x)
    if any(type(n) is int and n == 0 for n in shape):  # nothing to sample
        return jnp.zeros(shape, x.dtype)
    number = dtypes.default_float().type  # weights are as exact as numbers can be
    axes = [d for d in range(x.ndim) if x.shape[d] != shape[d]]
    if method is ResizeMethod.AREA:
        matrices = [_area_weights(x.shape[d], shape[d], x.dtype) for d in axes]
    else:
        matrices = [
            _matrix(
                x.shape[d],
                shape[d],
                number(shape[d] / x.shape[d]),
                number(0),
                method,
                antialias,
            ).astype(x.dtype)
            for d in axes
        ]
    return _contract(x, axes, matrices, precision)
