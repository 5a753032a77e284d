"""`jax._src.cudnn.fused_attention_stablehlo`: attention by cuDNN, which is on no machine that
Pullback compiles for."""

from __future__ import annotations

import enum
from typing import Any, NoReturn


class MaskType(enum.Enum):
    """Which masks cuDNN makes by itself."""

    NO_MASK = 0
    PADDING = 1
    CAUSAL = 2
    PADDING_CAUSAL = 3
    ALIBI = 4


class AttentionLayout(enum.Enum):
    """The order of the axes: batch, time, head, width."""

    BTNH = 0
    BNTH = 1


def check_cudnn_version() -> NoReturn:
    """RuntimeError: there is no cuDNN."""
    raise RuntimeError("cuDNN is not detected.")


def check_is_flash_attention(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is no cuDNN that could tell."""
    check_cudnn_version()


def dot_product_attention(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is no cuDNN. `jax.nn.dot_product_attention` needs none."""
    check_cudnn_version()
