"""What runs in lanes: running reductions of every dtype and direction, accesses that go down or
take every other element, functions of many scalars; against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
from pullback import config, lax, numpy as jnp

FLOATS = ["f4", "f8", "f2", "c8", "c16"]
INTS = ["i4", "u4", "i8", "i2", "u1"]
NAMES = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}
SHAPES = [(1,), (5,), (16,), (67,), (5, 40), (3, 4, 33), (5000,), (3, 5, 2)]


def wanted(name: str, x: Any, reverse: bool) -> Any:
    wide = x.astype({"c": "c16", "f": "f8"}[x.dtype.kind]) if x.dtype.kind in "fc" else x
    wide = wide[..., ::-1] if reverse else wide
    with np.errstate(invalid="ignore"):
        out = NAMES[name].accumulate(wide, axis=-1, dtype=wide.dtype)
    return out[..., ::-1] if reverse else out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_prefixes(dtype: str, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    kind, tolerance = dtype[0], {"f2": 4e-2, "f4": 5e-4, "c8": 5e-4}.get(dtype, 1e-9)
    with config.enable_x64(True):
        for name in NAMES:
            if (kind == "c" and name not in ("cumsum", "cumprod")) or (
                kind != "f" and name == "cumlogsumexp"
            ):
                continue
            run = pullback.jit(
                lambda x, name=name: getattr(lax, name)(x, axis=x.ndim - 1, reverse=reverse)
            )
            for shape in SHAPES if dtype in ("f4", "i4") else SHAPES[3:5]:
                x = rng.integers(1, 5, shape) if kind in "iu" else rng.standard_normal(shape)
                x = (x * 0.02 + 1 if name == "cumprod" and kind in "fc" else x).astype(dtype)
                if kind == "f" and len(x) == 67:
                    x[60] = np.nan
                got = np.asarray(run(jnp.asarray(x)))
                assert got.dtype == x.dtype
                if kind in "iu":
                    np.testing.assert_array_equal(got, wanted(name, x, reverse))
                else:
                    want = wanted(name, x, reverse)
                    np.testing.assert_allclose(got, want, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("n", [1, 3, 16, 17, 33, 1000])
def test_lanes_that_go_down(n: int) -> None:
    for dtype in ("f4", "i2", "i1", "bool", "c8"):
        x = (np.random.default_rng(n).standard_normal((3, n)) * 3).astype(dtype)
        got = pullback.jit(lambda x: jnp.concatenate([jnp.flip(x), x[:, ::-1]], 1))(jnp.asarray(x))
        np.testing.assert_array_equal(got, np.concatenate([np.flip(x), x[:, ::-1]], 1))


def test_carry_in_order() -> None:
    """A combiner whose order matters: products of affine maps, as one scan of two values."""
    x = np.random.default_rng(1).standard_normal((2, 300)).astype("f4") * 0.5

    def f(x: Any) -> Any:
        return lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (x[0], x[1]))

    a, c, want = 1.0, 0.0, []
    for m, k in x.T:
        a, c = a * m, c * m + k
        want.append((a, c))
    np.testing.assert_allclose(np.stack(f(jnp.asarray(x))).T, want, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 5, 16, 17, 40])
def test_functions_of_many_scalars(count: int) -> None:
    """Scalars of a loop whose functions are computed in lanes: each as it is alone."""

    def one(ns: Any, k: int, a: Any, b: Any, t: Any) -> Any:
        return 0.5 * a + 0.3 * ns.tanh(b + 0.1 * k) * ns.exp(-a * a) + ns.sin(ns.sin(t) + a)

    def f(start: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            new = [one(jnp, k, a, c[k - 1], x) for k, a in enumerate(c)]
            return new, new[0]

        return lax.scan(step, start, xs)

    start, xs = [np.float32(0.1 * k) for k in range(count)], np.linspace(0, 3, 9).astype("f4")
    got, ys = pullback.jit(f)(start, xs)
    c, first = [np.float64(a) for a in start], []
    for x in xs:
        c = [one(np, k, a, c[k - 1], np.float64(x)) for k, a in enumerate(c)]
        first.append(c[0])
    np.testing.assert_allclose(np.array(got), c, rtol=2e-5)
    np.testing.assert_allclose(ys, first, rtol=2e-5)


def test_long_chains_of_functions() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            a, b, d = c
            for _ in range(25):
                a, b, d = jnp.sin(b), jnp.sin(d), jnp.sin(a) + 1
            return (a, b, d), None

        return jnp.stack(lax.scan(step, (x, x * 2, x * 3), None, length=3)[0])

    a, b, d = 0.3, 0.6, 0.9
    for _ in range(75):
        a, b, d = np.sin(b), np.sin(d), np.sin(a) + 1
    np.testing.assert_allclose(pullback.jit(f)(np.float32(0.3)), [a, b, d], rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 33, 100])
def test_complex_parts(n: int) -> None:
    rng = np.random.default_rng(n)
    for shape in ((n,), (3, n), (n, 5)):
        x, y = (
            (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype("c8")
            for _ in "ab"
        )
        f = lambda ns, x, y: (x * y + 1j * x, x.conj().T, ns.abs(x), ns.flip(x) * 2, x[..., ::2])
        got = pullback.jit(lambda x, y, f=f: f(jnp, x, y))(jnp.asarray(x), jnp.asarray(y))
        for p, q in zip(got, f(np, x, y), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-5)


def padded(x: Any, low: int, high: int, gap: int) -> Any:
    """NumPy's padding of the last axis: between elements, then at its ends, where it may cut."""
    n = x.shape[-1]
    out = np.full((*x.shape[:-1], (n - 1) * (gap + 1) + 1), 0.5, x.dtype)
    out[..., :: gap + 1] = x
    ends = [(0, 0)] * (x.ndim - 1) + [(max(low, 0), max(high, 0))]
    out = np.pad(out, ends, constant_values=0.5)
    return out[..., max(-low, 0) : out.shape[-1] - max(-high, 0)]


@pytest.mark.parametrize("config", [(0, 0, 1), (1, 0, 1), (-3, 1, 1), (2, 3, 2), (-2, -1, 3)])
def test_padding_between_elements(config: tuple[int, int, int]) -> None:
    """Neighbours are computed by code of their own: some read, some are known to be padding."""

    def twice(x: Any) -> Any:
        full = [(0, 0, 0)] * (x.ndim - 1) + [config]
        y = lax.pad(x, np.float32(0.5), full)
        return y, jnp.sin(y) + 1, lax.pad(y * 2, np.float32(0.5), full)

    for n in (4, 5, 17, 33, 1000):
        for shape in ((n,), (3, n), (n, 4)):
            x = np.random.default_rng(n).standard_normal(shape).astype("f4")
            y = padded(x, *config)
            want = (y, np.sin(y) + 1, padded(y * 2, *config))
            for p, q in zip(pullback.jit(twice)(jnp.asarray(x)), want, strict=True):
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)
