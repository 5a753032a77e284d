"""`jax._src.cudnn.scaled_matmul_stablehlo`: matrices of narrow elements, with scales by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..... import numpy as jnp
from .....nn.scaled import _quantise as quantize  # noqa: F401


def shape_normalization(x: Any, dimension_numbers: tuple[Sequence[int], Sequence[int]]) -> Any:
    """An operand of a product as a stack of matrices, whose rows are summed over: from the axes
    that are summed over and those of the stack."""
    contract, batch = (tuple(axes) for axes in dimension_numbers)
    free = tuple(a for a in range(x.ndim) if a not in contract and a not in batch)
    sizes = [math.prod(x.shape[a] for a in axes) for axes in (batch, free, contract)]
    return jnp.transpose(x, (*batch, *free, *contract)).reshape(sizes)
