"""Attention of many heads under a mask that is known before the call."""

from __future__ import annotations

import enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...... import lax, nn, numpy as jnp, tree_util
from ......api.jit import jit
from ......api.vmap import vmap
from .splash_attention_mask import BoolArray, Mask, MultiHeadMask

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.dtype("float32")).max)
NUM_LANES = 128


class SegmentIds(NamedTuple):
    """Which part of its sequence a query or key belongs to: `q` and `kv`, one int for each. Only
    keys of a query's own part are seen.
    """

    q: Any
    kv: Any


class QKVLayout(enum.IntEnum):
    """Which axis of an operand lies last in a kernel's memory; of no effect here."""

    HEAD_DIM_MINOR = enum.auto()
    SEQ_MINOR = enum.auto()


class BlockSizes(NamedTuple):
    """How large the blocks of JAX's kernel are; here they are checked and have no other effect."""

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    @property
    def has_backward_blocks(self) -> bool:
        """Are there blocks for the backward pass?"""
        return self.block_q_dkv is not None

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Blocks of 128."""
        n = NUM_LANES
        return cls(n, n, n, n, n, n, n, n)


def attention_reference(
    mask: Any,
    q: Any,
    k: Any,
    v: Any,
    segment_ids: SegmentIds | None,
    sinks: Any = None,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    save_residuals: bool = False,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """Attention of one head, softmax(q k^T) v, computed in float32.

    `mask`: bool (queries, keys). `q`: (queries, d), not scaled here; `k`: (keys, d);
    `v`: (keys, e). `sinks`: a logit beside those of the keys, which takes of the weights and gives
    nothing. The result has v's width and q's dtype; with `save_residuals` it is a pair of that and
    (logsumexp,).
    """
    f32 = np.dtype("float32")
    logits = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=f32)
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * jnp.tanh(logits / attn_logits_soft_cap)
    if segment_ids is not None:
        mask = mask & (segment_ids.q[:, None] == segment_ids.kv[None])
    logits = jnp.where(mask, logits, mask_value)
    total = nn.logsumexp(logits, axis=-1)
    if sinks is not None:
        total = jnp.logaddexp(total, sinks.astype(f32))
    weights = jnp.exp(logits - total[:, None])
    out = (weights @ v.astype(f32)).astype(q.dtype)
    return (out, (total,)) if save_residuals else out


class SplashAttentionKernel:
    """Attention under a mask: what `make_splash_mha` and `make_splash_mqa` make.

    Called with q (heads, queries, d), k and v (heads of keys, keys, d; without heads where all
    queries have the same keys), and optionally `segment_ids` and `sinks` (heads,).
    """

    def __init__(self, mask: Any, **how: Any) -> None:
        self.mask, self.how = mask, how

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        segment_ids: SegmentIds | None = None,
        sinks: Any = None,
    ) -> Any:
        return _attention(self.mask, q, k, v, segment_ids, sinks, **self.how)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The mask, and how attention is computed under it."""
        return (self.mask,), tuple(sorted(self.how.items()))

    @classmethod
    def tree_unflatten(cls, how: Any, children: Any) -> SplashAttentionKernel:
        """The kernel that `tree_flatten` took apart."""
        return cls(*children, **dict(how))


tree_util.register_pytree_node_class(SplashAttentionKernel)


@partial(
    jit, static_argnames=("is_mqa", "mask_value", "save_residuals", "attn_logits_soft_cap", "block")
)
def _attention(
    mask: Any,
    q: Any,
    k: Any,
    v: Any,
    segment_ids: SegmentIds | None,
    sinks: Any,
    *,
    is_mqa: bool,
    mask_value: float,
    save_residuals: bool,
    attn_logits_soft_cap: float | None,
    block: tuple[int, int],
) -> Any:
    rank = 2 if is_mqa else 3
    if q.ndim != 3 or k.ndim != rank or v.ndim != rank:
        raise ValueError(
            f"Expected q of 3 axes, k and v of {rank}; got {q.shape}, {k.shape}, {v.shape}. "
            "Fix: vmap the kernel over a batch."
        )
    heads, queries, _ = q.shape
    if heads != mask.shape[0]:
        raise ValueError(f"the mask has {mask.shape[0]} heads, q has {heads}")
    for size, name, at in zip(block, ("q", "kv"), (queries, k.shape[-2]), strict=True):
        if at % size:
            raise ValueError(f"{name}_block_size={size} should divide {name}_seq_len={at}.")
    if not is_mqa:
        if heads % k.shape[0]:
            raise ValueError(f"{heads} heads of queries are no multiple of {k.shape[0]} of keys")
        k, v = (jnp.repeat(x, heads // x.shape[0], axis=0) for x in (k, v))
    one = partial(
        attention_reference,
        mask_value=mask_value,
        save_residuals=save_residuals,
        attn_logits_soft_cap=attn_logits_soft_cap,
    )
    shared = None if is_mqa else 0
    axes = (0, 0, shared, shared, None, None if sinks is None else 0)
    mask = mask[:, :queries, : k.shape[-2]]
    return vmap(one, axes)(mask, q, k, v, segment_ids, sinks)


def _make_splash_attention(
    mask: BoolArray | MultiHeadMask,
    *,
    block_sizes: BlockSizes | None = None,
    is_mqa: bool,
    save_residuals: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    downcast_smem_data: bool = True,
    head_shards: int = 1,
    q_seq_shards: int = 1,
    residual_checkpoint_name: str | None = None,
    interpret: bool = False,
) -> SplashAttentionKernel:
    if len(mask.shape) != 3:
        raise ValueError(f"Unexpected mask shape: {mask.shape}. Fix: wrap it in MultiHeadMask.")
    if mask.shape[0] % head_shards or mask.shape[1] % q_seq_shards:
        raise ValueError(f"{head_shards=} and {q_seq_shards=} must divide {mask.shape=}")
    sizes = block_sizes or BlockSizes.get_default()
    dense = mask[:, :, :] if isinstance(mask, Mask) else np.asarray(mask, bool)
    return SplashAttentionKernel(
        jnp.asarray(dense),
        is_mqa=is_mqa,
        mask_value=mask_value,
        save_residuals=save_residuals,
        attn_logits_soft_cap=attn_logits_soft_cap,
        block=(sizes.block_q, sizes.block_kv),
    )


make_splash_mha = partial(_make_splash_attention, is_mqa=False)
make_splash_mqa = partial(_make_splash_attention, is_mqa=True)
make_splash_mha_single_device = partial(make_splash_mha, head_shards=1, q_seq_shards=1)
make_splash_mqa_single_device = partial(make_splash_mqa, head_shards=1, q_seq_shards=1)


def make_attention_reference(mask: Mask | BoolArray, is_mqa: bool) -> Any:
    """Attention under a mask, as a function of q, k, v, `segment_ids` and `sinks`, and of
    `mask_value`, `save_residuals` and `attn_logits_soft_cap` by name.
    """
    dense = jnp.asarray(mask[tuple([slice(None)] * len(mask.shape))])

    def attention(
        q: Any,
        k: Any,
        v: Any,
        segment_ids: SegmentIds | None = None,
        sinks: Any = None,
        *,
        mask_value: float = DEFAULT_MASK_VALUE,
        save_residuals: bool = False,
        attn_logits_soft_cap: float | None = None,
    ) -> Any:
        return _attention(
            dense,
            q,
            k,
            v,
            segment_ids,
            sinks,
            is_mqa=is_mqa,
            mask_value=mask_value,
            save_residuals=save_residuals,
            attn_logits_soft_cap=attn_logits_soft_cap,
            block=(1, 1),
        )

    return attention


make_masked_mha_reference = partial(make_attention_reference, is_mqa=False)
make_masked_mqa_reference = partial(make_attention_reference, is_mqa=True)
