"""Running reductions in lanes: every dtype and direction, lengths around the vectors', against
NumPy; and accesses that go down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
from pullback import config, lax
from pullback import numpy as jnp

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
