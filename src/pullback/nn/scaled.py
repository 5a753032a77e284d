"""Products of block-scaled matrices (MX and NV formats): narrow floats that share a scale along
blocks of the contracted axis.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes, lax, numpy as jnp
from ..api.jit import jit
from ..control.custom_vjp import custom_vjp
from ..core.avals import typeof


@dataclasses.dataclass
class BlockScaleConfig:
    """How an operand is quantised: blocks of `block_size` elements of `data_type` share one scale
    of `scale_type`.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """The quantisation of a format: "mxfp8" (blocks of 32, scales powers of two) or "nvfp4" (blocks
    of 16, and one scale for all).

    Raises ValueError for another mode.

    >>> nn.get_scaled_dot_general_config('mxfp8').block_size
    32
    """
    if mode == "nvfp4":
        one = jnp.ones((1,), dtype=np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(
            mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, one, False
        )
    if mode == "mxfp8":
        return BlockScaleConfig(
            mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False
        )
    raise ValueError(f"Unsupported mode: {mode}. Fix: 'nvfp4' or 'mxfp8'.")


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Any:
    """lhs (B, M, K) times rhs (B, N, K) along K, each multiplied by its scales (B, M or N, K /
    block): (B, M, N).

    Raises ValueError for shapes that do not fit.

    >>> lhs = rhs = jnp.ones((1, 2, 4))
    >>> nn.scaled_matmul(lhs, rhs, jnp.full((1, 2, 1), 2.), jnp.full((1, 2, 1), 3.))
    Array([[[24., 24.],
            [24., 24.]]], dtype=float32)
    """
    lhs, rhs, lhs_scales, rhs_scales = (jnp.asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales))
    a, b, sa, sb = (typeof(x).shape for x in (lhs, rhs, lhs_scales, rhs_scales))
    if not all(len(s) == 3 for s in (a, b, sa, sb)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    if a[0] != b[0] or a[2] != b[2]:
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) "
            f"dimensions, but got shapes {a} and {b}"
        )
    if sa[0] != sb[0] or sa[2] != sb[2]:
        raise ValueError(
            "scaled_matmul requires scales to have matching batch (B) and contract (K) "
            f"dimensions, but got shapes {sa} and {sb}"
        )
    for name, x, s in (("lhs", a, sa), ("rhs", b, sb)):
        if x[:2] != s[:2] or s[2] == 0 or x[2] % s[2]:
            raise ValueError(
                f"scaled_matmul: {name}_scales of shape {s} do not divide {name} of shape {x} into "
                "blocks"
            )
    out = dtypes.canonicalize_dtype(preferred_element_type)
    return _scaled_matmul(lhs, rhs, lhs_scales, rhs_scales, out)


@functools.partial(jit, static_argnames=("out",))
def _scaled_matmul(lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, out: Any) -> Any:
    wide = np.promote_types(np.float32, out) if out.kind == "f" else np.dtype(np.float32)
    product = jnp.einsum(
        "bmk,bnk->bmn", _dequantise(lhs, lhs_scales, wide), _dequantise(rhs, rhs_scales, wide)
    )
    return product.astype(out)


def _dequantise(x: Any, scales: Any, dtype: Any) -> Any:
    b, m, k = typeof(x).shape
    blocks = typeof(scales).shape[2]
    grouped = lax.reshape(lax.convert_element_type(x, dtype), (b, m, blocks, k // blocks))
    return lax.reshape(grouped * lax.convert_element_type(scales, dtype)[..., None], (b, m, k))


def _quantise(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """(narrow data, scales) of an array (B, M, K): each block is scaled so that its largest
    magnitude is the narrow type's largest.
    """
    b, m, k = typeof(x).shape
    if k % config.block_size:
        raise ValueError(
            f"scaled_dot_general: the contracted size {k} is not a multiple of the block size "
            f"{config.block_size}"
        )
    grouped = lax.reshape(
        lax.convert_element_type(x, np.float32), (b, m, k // config.block_size, config.block_size)
    )
    largest = float(ml_dtypes.finfo(config.data_type).max)  # type: ignore[no-untyped-call]
    amax = jnp.max(jnp.abs(grouped), axis=-1)
    if config.mode == "nvfp4":
        scale = amax / largest / config.global_scale
        top = float(ml_dtypes.finfo(config.scale_type).max)  # type: ignore[no-untyped-call]
        scales = lax.convert_element_type(jnp.clip(scale, 0, top), config.scale_type)
        factor = lax.convert_element_type(scales, np.float32) * config.global_scale
    else:
        # The shared exponent is rounded up, so that no element of the block overflows.
        exponent = jnp.ceil(jnp.log2(amax / largest))
        factor = jnp.where(amax > 0, jnp.exp2(jnp.clip(exponent, -127, 127)), 1.0)
        scales = lax.convert_element_type(factor, config.scale_type)
    factor = jnp.where(factor == 0, 1.0, factor)[..., None]
    data = jnp.clip(grouped / factor, -largest, largest)
    return lax.convert_element_type(lax.reshape(data, (b, m, k)), config.data_type), scales


def _product(a: Any, b: Any, configs: tuple[BlockScaleConfig, BlockScaleConfig], out: Any) -> Any:
    data_a, scales_a = _quantise(a, configs[0])
    data_b, scales_b = _quantise(b, configs[1])
    result = scaled_matmul(data_a, data_b, scales_a, scales_b, np.float32)
    for config in configs:
        if config.global_scale is not None:
            result = result * config.global_scale
    return result.astype(out)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Any = None,
    implementation: Any = None,
) -> Any:
    """`lax.dot_general` of operands that are quantised in blocks: the operands and, backwards, the
    cotangent, by `configs` (lhs, rhs, cotangent).

    Without configs it is `lax.dot_general`. Raises RuntimeError for implementation="cudnn" (there
    is none).

    `dimension_numbers` and the result are those of `lax.dot_general`; the contracted sizes are
    multiples of the blocks.

    >>> config = nn.get_scaled_dot_general_config('mxfp8')
    >>> numbers = (((2,), (2,)), ((0,), (0,)))
    >>> lhs, rhs = jnp.ones((1, 2, 32)), jnp.ones((1, 1, 32))
    >>> nn.scaled_dot_general(lhs, rhs, numbers, configs=[config] * 3)
    Array([[[32.],
            [32.]]], dtype=float32)
    """
    if implementation == "cudnn":
        raise RuntimeError("cuDNN is not detected. Fix: leave implementation=None.")
    if configs is None:
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    if len(configs) != 3:
        raise ValueError(
            f"scaled_dot_general needs three configs (lhs, rhs, cotangent), got {len(configs)}"
        )
    lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
    (lc, rc), (lb, rb) = dimension_numbers
    a, batch, free_a = _as_matrix(lhs, lb, lc)
    b, _, free_b = _as_matrix(rhs, rb, rc)
    out_dtype = dtypes.canonicalize_dtype(preferred_element_type)

    @custom_vjp
    def product(x: Any, y: Any) -> Any:
        return _product(x, y, (configs[0], configs[1]), out_dtype)

    def forward(x: Any, y: Any) -> Any:
        return product(x, y), (x, y)

    def backward(residuals: Any, ct: Any) -> Any:
        x, y = residuals
        x_t, y_t, ct_t = (lax.transpose(v, (0, 2, 1)) for v in (x, y, ct))
        grad_x = _cotangent(ct, y_t, (configs[2], configs[1]), typeof(x).dtype)
        grad_y = _cotangent(ct_t, x_t, (configs[2], configs[0]), typeof(y).dtype)
        return grad_x, grad_y

    product.defvjp(forward, backward)
    return lax.reshape(product(a, b), (*batch, *free_a, *free_b))


def _cotangent(ct: Any, other: Any, configs: Any, dtype: Any) -> Any:
    """ct times other, quantised if the contracted size has whole blocks."""
    k = typeof(ct).shape[2]
    if any(c.infer_only or k % c.block_size for c in configs):
        return jnp.einsum("bmk,bnk->bmn", ct, other.astype(typeof(ct).dtype)).astype(dtype)
    return _product(ct, other, configs, dtype)


def _as_matrix(x: Any, batch: Any, contract: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    shape = typeof(x).shape
    free = [k for k in range(len(shape)) if k not in batch and k not in contract]
    sizes = [tuple(shape[k] for k in axes) for axes in (batch, free, contract)]
    moved = lax.transpose(x, (*batch, *free, *contract))
    return (
        lax.reshape(moved, tuple(int(np.prod(s, dtype=np.int64)) for s in sizes)),
        sizes[0],
        sizes[1],
    )
