"""Products with masks: where JAX's compiler selects instead of multiplying, infinities times False
are +0; where it multiplies, they are NaN. Each case beside JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import pullback as pb

X = np.array([np.inf, -np.inf, np.nan, -2.0, -2.0, np.inf], np.float32)
B = np.array([False] * 4 + [True] * 2)


def cases(m):
    """name -> (function of (x, b), its result's elements 0 to 3 where `x` is not masked)"""
    np_, lax = m.numpy, m.lax
    conv = lambda b, x: lax.convert_element_type(b, x.dtype)
    spread = lambda v: lax.broadcast_in_dim(v, (3, 6), (1,))

    def scanned(x, b):
        return lax.scan(lambda c, t: (c, t[0] * t[1]), 0, (x, b))[1]

    def scanned_outside(x, b):
        mask = conv(b, x)
        return lax.scan(lambda c, t: (c, t * mask), 0, np_.stack([x, x]))[1]

    def unrolled(x, b):
        mask, y = conv(b, x), x
        for _ in range(24):
            y = np_.sin(y * mask) + x * mask
        return y

    def gradient(x, b):
        return m.grad(lambda x: (x * x * b).sum().real)(x)

    return {
        "operator": lambda x, b: x * b,
        "mask first": lambda x, b: b * x,
        "negated": lambda x, b: x * ~~b,
        "lax": lambda x, b: lax.mul(conv(b, x), x),
        "compared": lambda x, b: x * (np_.arange(6) > 3),
        "chain": lambda x, b: x * x * b,
        "twice": lambda x, b: x * b * b,
        "inside": lambda x, b: 2 * b * x,
        "other factor first": lambda x, b: (x[4] * b) * x,
        "through an integer": lambda x, b: x * b.astype("int32"),
        "through a comparison": lambda x, b: x * b.astype("int32").astype(bool),
        "both spread": lambda x, b: spread(x) * spread(conv(b, x)),
        "spread, then converted": lambda x, b: spread(x) * conv(spread(b), x),
        "mask spread": lambda x, b: x.reshape(2, 3) * conv(b[:3], x),
        "number spread": lambda x, b: x[0] * b,
        "both reshaped": lambda x, b: x.reshape(2, 3) * conv(b, x).reshape(2, 3),
        "both turned": lambda x, b: (x.reshape(2, 3).T * conv(b.reshape(2, 3), x).T).T,
        "sliced": lambda x, b: x[:5] * conv(b, x)[:5],
        "barrier": lambda x, b: x * lax.optimization_barrier(conv(b, x)),
        "called": lambda x, b: m.jit(lambda x, c: x * c)(x, conv(b, x)),
        "summed": lambda x, b: (x * b).sum(),
        "dot": lambda x, b: x @ b,
        "dot with matrix": lambda x, b: np_.stack([x, x]) @ b,
        "scan": scanned,
        "scan, converted outside": scanned_outside,
        "loop": lambda x, b: lax.fori_loop(0, 1, lambda i, c: c * b, x),
        "unrolled": unrolled,
        "vmap": m.vmap(lambda x, b: x * b),
        "gradient": gradient,
    }


def shown(v):
    """Values, with the signs of zeros; a NaN is a NaN."""
    v = np.asarray(v)
    v = v.astype(np.complex64 if v.dtype.kind == "c" else np.float32)
    parts = np.stack([v.real, v.imag])
    return np.where(np.isnan(parts), 9, np.sign(parts)), np.signbit(parts) & (parts == 0)


@pytest.mark.parametrize("name", cases(pb))
def test_a_mask_selects_where_jax_selects(name):
    want = jax.jit(cases(jax)[name])(X, B)
    for got, known in zip(shown(pb.jit(cases(pb)[name])(X, B)), shown(want), strict=True):
        np.testing.assert_array_equal(got, known)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_dtypes(dtype):
    product = lambda x, b: x * b
    x, y = pb.numpy.array(X).astype(dtype), jax.numpy.array(X).astype(dtype)
    for got, known in zip(shown(pb.jit(product)(x, B)), shown(jax.jit(product)(y, B)), strict=True):
        np.testing.assert_array_equal(got, known)


def test_eager_calls_select_from_the_first():
    np_, lax = pb.numpy, pb.lax
    x, b = np_.array(X), np_.array(B)
    want = np.array([0, 0, 0, 0, -2, np.inf], np.float32)
    for _ in range(4):
        for got in (x * b, b * x, np_.multiply(x, b), np_.multiply(b, x), X * b, x * B):
            np.testing.assert_array_equal(got, want)
            assert not np.signbit(np.asarray(got)[:4]).any()
        # Two calls are two programs: the second sees numbers.
        assert np.isnan(lax.mul(x, lax.convert_element_type(b, x.dtype))[0])


def test_eager_gradients_are_the_same_at_every_call():
    """Recorded or not: the product selects, its derivative is a call of its own and multiplies."""
    np_ = pb.numpy
    x, b = np_.full(3, np.inf), np_.zeros(3, bool)
    value_and_grad = pb.value_and_grad(lambda x: (np_.exp(x) * b).sum())
    for _ in range(5):
        value, slope = value_and_grad(x)
        assert value == 0
        assert np.isnan(slope).all()
    slope = pb.jit(pb.grad(lambda x, b: (np_.exp(x) * b).sum()))(x, b)
    np.testing.assert_array_equal(slope, np.zeros(3))


def test_constant_masks_multiply_as_in_jax():
    assert np.isnan(pb.jit(lambda x: x * B)(X)[0])
    assert pb.jit(lambda z: z * pb.numpy.array(B))(X.astype(np.complex64))[0] == 0
