"""Values that are read across their rows: blocks are transposed in registers; small matrices by
lanes across them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lax, numpy as jnp
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.target import host_target
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

CASES: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = [
    ("plain", lambda x: x.T, (317, 401)),
    ("whole blocks", lambda x: x.T, (512, 256)),
    ("computed", lambda x: x.T * 2 + 1, (300, 333)),
    ("both ways", lambda x: x + x.T, (301, 301)),
    ("a row beside it", lambda x: x.T * x[0][:, None], (289, 289)),
    ("batch", lambda x: x.transpose(0, 2, 1), (5, 130, 201)),
    ("outer axis last", lambda x: x.transpose(1, 2, 0), (70, 33, 65)),
    ("last axis first", lambda x: x.transpose(2, 0, 1), (70, 33, 65)),
    ("reversed axes", lambda x: x.transpose(2, 1, 0) + 1, (70, 33, 65)),
    ("features last", lambda x: x.transpose(0, 2, 3, 1), (3, 40, 33, 34)),
    ("columns that are few", lambda x: x.T + 1, (1009, 17)),
    ("rows that are few", lambda x: x.T + 1, (16, 1024)),
    ("small matrices", lambda x: x.transpose(0, 2, 1), (80, 16, 16)),
    ("features first", lambda x: x.transpose(0, 3, 1, 2), (3, 33, 34, 40)),
]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
@pytest.mark.parametrize("name, f, shape", CASES, ids=[c[0] for c in CASES])
def test_values(name: str, f: Callable[..., Any], shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    g = pb.jit(f)
    np.testing.assert_array_equal(np.asarray(g(x)), f(x).astype(dtype))
    assert "turn_" in g.lower(x).compile().as_text()


def test_small_matrices_that_are_computed_with_are_read_as_they_are() -> None:
    x = numbers((31, 37, 41), "float32")
    g = pb.jit(lambda x: x.swapaxes(1, 2) + x[:, 0, :, None])
    np.testing.assert_array_equal(np.asarray(g(x)), x.swapaxes(1, 2) + x[:, 0, :, None])
    assert "turn_" not in g.lower(x).compile().as_text()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "float8_e4m3fn", "int16", "float16", "bfloat16"]
)
@pytest.mark.parametrize("shape", [(300, 333), (512, 256)])
def test_narrow_elements(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(jnp.dtype(dtype))
    g = pb.jit(lambda x: x.T)
    np.testing.assert_array_equal(np.asarray(g(x)), x.T)
    assert "turn_i" in g.lower(x).compile().as_text()


def test_complex_elements() -> None:
    x = numbers((300, 257), "float32") + 1j * numbers((300, 257), "float32")
    np.testing.assert_array_equal(np.asarray(pb.jit(lambda x: x.T)(x)), x.T)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64"])
def test_wide_elements(dtype: str) -> None:
    with pb.enable_x64(True):
        x = numbers((257, 300), dtype)
        g = pb.jit(lambda x: x.T - 1)
        np.testing.assert_array_equal(np.asarray(g(x)), x.T - np.asarray(1, dtype))
        assert "turn_" in g.lower(x).compile().as_text()


def test_of_two_sizes_at_once() -> None:
    with pb.enable_x64(True):
        x, y = numbers((300, 257), "float32"), numbers((300, 257), "float64")
        np.testing.assert_array_equal(pb.jit(lambda x, y: x.T + y.T)(x, y), x.T + y.T)


def test_donated_arguments_are_not_overwritten_too_soon() -> None:
    x = numbers((300, 300), "float32")
    g = pb.jit(lambda x: x + x.T, donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(g(jnp.asarray(x))), x + x.T)


def test_in_loops() -> None:
    x = numbers((260, 260), "float32")
    g = pb.jit(lambda x: lax.fori_loop(0, 3, lambda _, c: c.T + x, x))
    np.testing.assert_allclose(np.asarray(g(x)), ((x.T + x).T + x).T + x, rtol=1e-6)


def test_few_elements_are_read_one_by_one() -> None:
    """What is near already needs no function of its own."""
    text = pb.jit(lambda x: x.T + 1).lower(np.ones((50, 60), np.float32)).compile().as_text()
    assert "turn_" not in text


SMALL = [
    ((3, 3), (0, 2, 1)),
    ((2, 2), (0, 2, 1)),
    ((4, 4), (0, 2, 1)),
    ((2, 5), (0, 2, 1)),
    ((2, 2, 4), (0, 3, 2, 1)),
    ((2, 3, 2), (0, 2, 1, 3)),
]


@pytest.mark.parametrize(("inner", "axes"), SMALL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "complex64"])
def test_small_matrices_are_turned_in_lanes_across_them(
    inner: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    """Lanes run over the matrices, whose elements have code of their own."""

    def f(x: Any) -> Any:
        y = jnp.transpose(x, axes)
        return y * 2 - x if x.shape == y.shape else y * 2 + jnp.ones(y.shape, y.dtype)

    for rows in (1, 15, 16, 17, 65, 1000):
        x = np.random.default_rng(rows).integers(-9, 9, (rows, *inner)).astype(dtype)
        y = np.transpose(x, axes)
        expected = y * 2 - x if x.shape == y.shape else y * 2 + 1
        with pb.enable_x64():
            out = np.asarray(pb.jit(f)(x))
        assert out.dtype == x.dtype and np.array_equal(out, expected.astype(dtype)), rows
    if dtype == "float32":
        (kernel,) = pipeline.compile_jaxpr(pb.make_jaxpr(f)(x), reference_rule).kernels
        assert "for seq" not in show_kernel(kernel)


@pytest.mark.parametrize("channels", [2, 3, 7])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "complex64"])
def test_channels_go_to_planes_together(channels: int, dtype: str) -> None:
    """What lies side by side is read once, for all planes."""

    def f(x: Any, y: Any) -> Any:
        planes = jnp.transpose(x, (0, 3, 1, 2))
        return planes, planes * 2 + y, x[0, ..., ::-1].T, jnp.flip(planes, 1)

    for shape in ((2, 3, 17), (3, 65, 33), (1, 1023, 9)):
        r = np.random.default_rng(shape[-1])
        x = r.integers(0, 9, (*shape, channels)).astype(dtype)
        y = r.integers(0, 9, (shape[0], channels, *shape[1:])).astype(dtype)
        planes = np.transpose(x, (0, 3, 1, 2))
        expected = planes, planes * 2 + y, x[0, ..., ::-1].T, np.flip(planes, 1)
        with pb.enable_x64():
            for out, e in zip(pb.jit(f)(x, y), expected, strict=True):
                assert np.array_equal(np.asarray(out), e), shape
    if dtype == "float32" and host_target().masks:
        planes = lambda x: jnp.transpose(x, (0, 3, 1, 2)) + 1
        closed = pb.make_jaxpr(planes)(np.ones((2, 64, 128, channels), dtype))
        (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
        assert emit_module(kernel)[0].count("load <16 x float>") == channels
