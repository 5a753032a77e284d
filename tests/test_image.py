"""Resampling, beside JAX."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

METHODS = ["nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]
IMAGE = np.random.default_rng(0).normal(size=(5, 7, 2)).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(3, 9, 2), (10, 4, 2), (5, 14, 1)])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize(method: str, shape: tuple[int, ...], antialias: bool) -> None:
    want = jax.image.resize(IMAGE, shape, method, antialias)
    got = pullback.image.resize(IMAGE, shape, method, antialias)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
def test_scale_and_translate_and_its_gradients(method: str) -> None:
    def results(module: object, scale: object, translation: object) -> list[np.ndarray]:
        def f(s: object, t: object) -> object:
            return module.image.scale_and_translate(x, (6, 8, 2), (0, 1), s, t, method)

        x = module.numpy.asarray(IMAGE)
        grads = module.jit(module.grad(lambda s, t: (f(s, t) ** 2).sum(), (0, 1)))
        return [f(scale, translation), *grads(scale, translation)]

    arguments = np.array([1.3, 0.8], np.float32), np.array([0.4, -0.7], np.float32)
    want = results(jax, *map(jax.numpy.asarray, arguments))
    got = results(pullback, *map(jnp.asarray, arguments))
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def test_bad_arguments() -> None:
    x = jnp.ones((3, 4))
    with pytest.raises(ValueError, match="length equal to the number of dimensions"):
        pullback.image.resize(x, (5, 3, 1), "linear")
    with pytest.raises(ValueError, match='Unknown resize method "foo"'):
        pullback.image.resize(x, (5, 3), "foo")
    one = jnp.ones(1)
    with pytest.raises(TypeError, match="method must be a name or a ResizeMethod, got 1"):
        pullback.image.resize(x, (5, 3), 1)
    with pytest.raises(TypeError, match="method must be a name or a ResizeMethod, got None"):
        pullback.image.scale_and_translate(x, (5, 4), (0,), one, one, None)
    with pytest.raises(ValueError, match="Nearest neighbor"):
        pullback.image.scale_and_translate(x, (5, 4), (0,), one, one, "nearest")
    with pytest.raises(ValueError, match="translation must have shape"):
        pullback.image.scale_and_translate(x, (5, 4), (0,), one, jnp.ones(2), "linear")
    with pytest.raises(ValueError, match="axis 1 is not in spatial_dims"):
        pullback.image.scale_and_translate(x, (5, 5), (0,), one, one, "linear")
    for axes in ((0, 2), (0, -3)):
        with pytest.raises(ValueError, match=f"axis {axes[1]} is out of bounds"):
            pullback.image.scale_and_translate(x, (5, 5), axes, jnp.ones(2), jnp.ones(2), "linear")


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3", "area"])
def test_an_image_of_no_pixels_is_made_without_a_warning(method: str) -> None:
    """As in JAX, which has no area."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = pullback.image.resize(jnp.ones((3, 4), np.int32), (0, 2), method)
    assert (out.shape, out.dtype) == ((0, 2), np.float32)
