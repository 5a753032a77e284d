"""Attention under masks known before the call, beside JAX's reference: masks, values, gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu import splash_attention as theirs

import pullback
from pullback.experimental.pallas.ops.tpu import splash_attention as ours

HEADS, QUERIES, KEYS, D = 2, 128, 256, 16
RANDOM = np.random.default_rng(0)
MASKS = {
    "full": lambda m: m.FullMask((QUERIES, KEYS)),
    "causal": lambda m: m.CausalMask((QUERIES, KEYS)),
    "causal, later": lambda m: m.CausalMask((QUERIES, KEYS), offset=128),
    "window": lambda m: m.LocalMask((QUERIES, KEYS), (10, 5), 0),
    "window to one side": lambda m: m.LocalMask((QUERIES, KEYS), (10, None), 3),
    "chunks": lambda m: m.ChunkedCausalMask((QUERIES, KEYS), 64),
    "both": lambda m: m.CausalMask((QUERIES, KEYS)) & m.LocalMask((QUERIES, KEYS), (10, None), 0),
    "either": lambda m: m.CausalMask((QUERIES, KEYS)) | m.LocalMask((QUERIES, KEYS), (3, 9), 1),
    "random": lambda m: m.NumpyMask(m.make_random_mask((QUERIES, KEYS), 0.5, 3)),
}


def operands() -> list[Any]:
    shapes = (HEADS, QUERIES, D), (HEADS, KEYS, D), (HEADS, KEYS, D)
    return [RANDOM.normal(size=s).astype("float32") for s in shapes]


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    want, got = (MASKS[name](m.splash_attention_mask) for m in (theirs, ours))
    assert want.shape == got.shape
    np.testing.assert_array_equal(got[:, :], want[:, :])
    np.testing.assert_array_equal(got[3:9, 2:20], want[3:9, 2:20])
    assert got == MASKS[name](ours.splash_attention_mask)
    assert hash(got) == hash(MASKS[name](ours.splash_attention_mask))
    assert got != ours.CausalMask((QUERIES, KEYS), offset=7)


@pytest.mark.parametrize("cap", [None, 5.0])
@pytest.mark.parametrize("name", ["causal", "window", "random"])
def test_attention(name: str, cap: float | None) -> None:
    args = operands()
    mask = [MASKS[name](ours.splash_attention_mask)] * HEADS
    how: dict[str, Any] = {"attn_logits_soft_cap": cap}
    dense = np.stack([np.array(m[:, :]) for m in mask])
    f = partial(theirs.make_masked_mha_reference(dense), **how)
    g = ours.make_splash_mha(ours.MultiHeadMask(mask), head_shards=1, q_seq_shards=1, **how)
    np.testing.assert_allclose(g(*args), f(*args), rtol=1e-4, atol=1e-5)
    want = jax.grad(lambda *a: (f(*a) ** 2).sum(), (0, 1, 2))(*args)
    got = pullback.grad(lambda *a: (g(*a) ** 2).sum(), (0, 1, 2))(*args)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def test_segments_batches_and_shared_keys() -> None:
    q, k, v = operands()
    k, v = k[:, :QUERIES], v[:, :QUERIES]
    parts = np.arange(QUERIES) // 50
    mask = ours.MultiHeadMask([ours.CausalMask((QUERIES, QUERIES))] * HEADS)
    f = ours.make_splash_mha_single_device(mask)
    seen = np.array(mask[:, :, :]) & (parts[:, None] == parts)
    want = ours.make_masked_mha_reference(seen)(q, k, v)
    segments = ours.SegmentIds(parts, parts)
    np.testing.assert_allclose(f(q, k, v, segment_ids=segments), want, rtol=1e-6)
    batched = pullback.vmap(f)(
        q[None], k[None], v[None], segment_ids=ours.SegmentIds(parts[None], parts[None])
    )
    np.testing.assert_allclose(batched[0], want, rtol=1e-5)
    shared = ours.make_splash_mqa_single_device(mask)(q, k[0], v[0])
    np.testing.assert_allclose(shared, f(q, k[:1], v[:1]), rtol=1e-6)
    out, (total,) = ours.make_splash_mha_single_device(mask, save_residuals=True)(q, k, v)
    assert out.shape == q.shape and total.shape == (HEADS, QUERIES)


def test_lengths_are_multiples_of_blocks() -> None:
    mask = ours.MultiHeadMask([ours.CausalMask((100, 100))] * HEADS)
    x = np.ones((HEADS, 100, D), "float32")
    with pytest.raises(ValueError, match="q_block_size=128 should divide q_seq_len=100"):
        ours.make_splash_mha_single_device(mask)(x, x, x)
