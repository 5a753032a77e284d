"""Scaled dot-product attention, with grouped queries, masks, windows and sequence lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax, numpy as jnp
from ..core.avals import typeof
from .functions import logsumexp, softmax


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query @ key^T * scale + bias) @ value: each query's mean of the values, weighted by
    how well the keys match.

    query: (batch, T, N, H); key and value: (batch, S, K, H), N a multiple of K (each key head
    serves N/K query heads); the batch axis may be left out of all three. bias and mask (true:
    attend) broadcast to (batch, N, T, S); scale is 1/sqrt(H) by default. `is_causal`: a query sees
    no later key. Elements past the sequence lengths are padding: padded queries give 0.
    `local_window_size` (left, right) bounds the distance. Returns an array of query's shape; with
    `return_residual` also the logsumexp of the logits, (batch, T, N).

    Raises ValueError for arguments whose shapes or dtypes do not fit, RuntimeError for
    implementation="cudnn" (there is none).

    >>> query, key = jnp.array([[[1., 0.]]]), jnp.array([[[1., 0.]], [[1., 0.]]])
    >>> nn.dot_product_attention(query, key, jnp.array([[[2., 4.]], [[4., 8.]]]))
    Array([[[3., 6.]]], dtype=float32)
    """
    out_shape = jnp.shape(query)
    query, key, value = (_batched(jnp.asarray(x)) for x in (query, key, value))
    bias = None if bias is None else _batched(jnp.asarray(bias))
    mask = None if mask is None else _batched(jnp.asarray(mask))
    q_lengths, k_lengths = (
        None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths)
    )
    window = (
        (local_window_size, local_window_size)
        if isinstance(local_window_size, int)
        else local_window_size
    )
    _check(query, key, value, bias, mask, q_lengths, k_lengths)
    if implementation == "cudnn":
        raise RuntimeError("cuDNN is not detected. Fix: leave implementation=None.")
    if implementation not in (None, "xla"):
        raise ValueError(
            f"Unsupported implementation option: {implementation}. Fix: leave implementation=None."
        )
    bias, mask = (
        x if x is None or x.ndim > 3 else lax.broadcast_to_rank(x, 4) for x in (bias, mask)
    )
    batch, t, n, h = typeof(query).shape
    s, k = typeof(key).shape[1:3]
    if scale is None:
        scale = 1.0 / np.sqrt(h)
    grouped = lax.reshape(query, (batch, t, k, n // k, h))
    logits = _logits(grouped, key) * jnp.array(scale, dtype=np.float32)
    if bias is not None:
        logits = logits + _group(bias, k).astype(np.float32)
    allowed = _allowed(
        None if mask is None else _group(mask, k), is_causal, window, q_lengths, k_lengths, t, s
    )
    if allowed is not None:
        logits = jnp.where(
            allowed, logits, jnp.array(-0.7 * float(np.finfo(np.float32).max), dtype=np.float32)
        )
    logits = logits.astype(np.float32)
    weights = softmax(logits, axis=-1).astype(typeof(key).dtype)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    if q_lengths is not None:
        alive = jnp.arange(t)[None, :] < q_lengths[:, None]
        out = out * alive[:, :, None, None, None].astype(typeof(out).dtype)
    out = lax.reshape(out, out_shape)
    if not return_residual:
        return out
    residual = logsumexp(logits, axis=-1).astype(typeof(key).dtype)
    residual = lax.stop_gradient(lax.transpose(residual, (0, 3, 1, 2)))
    return out, lax.reshape(residual, out_shape[:-1])


def _batched(x: Any) -> Any:
    return x[None] if typeof(x).ndim == 3 else x


def _logits(query: Any, key: Any) -> Any:
    precision = (
        lax.DotAlgorithmPreset.BF16_BF16_F32 if typeof(query).dtype == jnp.bfloat16 else None
    )
    return jnp.einsum(
        "btkgh,bskh->bkgts", query, key, precision=precision, preferred_element_type=np.float32
    )


def _group(x: Any, k: int) -> Any:
    """(batch, N or 1, T, S) as (batch, K or 1, N/K or 1, T, S)."""
    b, n, t, s = typeof(x).shape
    if n == 1:
        return lax.expand_dims(x, (2,))
    return lax.reshape(x, (b, k, n // k, t, s))


def _allowed(
    mask: Any, is_causal: bool, window: Any, q_lengths: Any, k_lengths: Any, t: int, s: int
) -> Any:
    """What may be attended, of a shape that broadcasts to (batch, K, N/K, T, S); None:
    everything.
    """
    parts = [] if mask is None else [mask]
    rows, columns = jnp.arange(t), jnp.arange(s)
    if is_causal:
        parts.append((rows[:, None] >= columns[None, :])[None, None, None])
    if window is not None:
        left, right = window
        near = (rows[:, None] <= columns[None, :] + left) & (
            rows[:, None] >= columns[None, :] - right
        )
        parts.append(near[None, None, None])
    if q_lengths is not None or k_lengths is not None:
        valid: Any = True
        if q_lengths is not None:
            valid = rows[None, :, None] < q_lengths[:, None, None]
        if k_lengths is not None:
            valid = valid & (columns[None, None, :] < k_lengths[:, None, None])
        parts.append(valid[:, None, None])
    if not parts:
        return None
    out = parts[0]
    for part in parts[1:]:
        out = jnp.logical_and(out, part)
    return out


def _check(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, q_lengths: Any, k_lengths: Any
) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if typeof(x).ndim != 4:
            raise ValueError(
                f"{name} ndim should be 3 or 4, but got {typeof(x).ndim}: give (batch, length, "
                "heads, head size)"
            )
    batch, s, k, h = typeof(key).shape
    t, n = typeof(query).shape[1:3]
    _check_like("value", value, (batch, s, k, h), typeof(key).dtype)
    _check_like("query", query, (batch, -1, -1, h), typeof(key).dtype)
    if n % k:
        raise ValueError(
            f"The number of query heads must be a multiple of key/value heads, but got {n} vs {k}"
        )
    if mask is not None and typeof(mask).dtype != np.bool_:
        raise ValueError(f"mask dtype should be bool, but got {typeof(mask).dtype.name}")
    for name, x in (("bias", bias), ("mask", mask)):
        if x is None:
            continue
        shape = typeof(x).shape
        wanted = (batch, n, t, s)[max(0, 4 - len(shape)) :]
        if len(shape) > 4 or any(
            have not in (1, want) for have, want in zip(shape, wanted, strict=True)
        ):
            raise ValueError(
                f"{name} shape should broadcast to {(batch, n, t, s)}, but got {shape}"
            )
    for name, x in (("query_seq_lengths", q_lengths), ("key_value_seq_lengths", k_lengths)):
        if x is not None:
            _check_like(name, x, (batch,), np.dtype(np.int32))


def _check_like(name: str, x: Any, want: tuple[int, ...], dtype: Any) -> None:
    """ValueError unless x is of this dtype and shape; a size of -1 may be any."""
    aval = typeof(x)
    if aval.ndim != len(want):
        raise ValueError(f"{name} ndim should be {len(want)}, but got {aval.ndim}")
    if aval.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype.name}, but got {aval.dtype.name}")
    if any(n not in (-1, m) for n, m in zip(want, aval.shape, strict=True)):
        raise ValueError(f"{name} shape should be {list(want)}: but got {aval.shape}")
