"""Products of matrices whose elements share scales along blocks of the contracted axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import typeof
from ..primitives.contract import dot_general
from ..primitives.convert import convert_element_type
from ..primitives.elementwise import mul
from ..primitives.layout import broadcast_in_dim, reshape


def _scaled(x: Any, scale: Any, name: str, contract: Sequence[int]) -> Any:
    """The elements times their scales, in float32."""
    x = convert_element_type(x, np.float32)
    if scale is None:
        return x
    shape, scales = typeof(x).shape, typeof(scale).shape
    if len(shape) != len(scales):
        raise TypeError(
            f"scaled_dot: {name} has shape {scales} for an operand of shape {shape}. Fix: a scale "
            "for each block of the contracted axis, and for each element of the others."
        )
    split: list[int] = []
    places: list[int] = []
    for axis, (n, s) in enumerate(zip(shape, scales, strict=True)):
        side = name[:3].upper()
        if axis not in contract and s != n:
            raise TypeError(f"{side} dim {axis} of size {n} does not match scale dim size {s}.")
        if axis in contract and (s == 0 or n % s):
            raise TypeError(
                f"{side} contracting dim {axis} of size {n} must be divisible by its scale's dim "
                f"size {s}."
            )
        if axis in contract and n // s < 2:
            raise TypeError(
                f"The ratio of {side} contracting dim {axis} to its scale's dim size ({n // s}) "
                "must be at least 2. Fix: multiply the operand by a scale for each element."
            )
        places.append(len(split))
        split += [s, n // s]
    wide = broadcast_in_dim(convert_element_type(scale, np.float32), split, places)
    return reshape(mul(reshape(x, split), wide), shape)


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`dot_general` of operands times their scales: a scale for each block of the contracted axis.

    Without `dimension_numbers` the last axis of `lhs` is contracted with the first of `rhs` that is
    not a batch axis (matrices, or stacks of them with one leading axis). The result has the dtype
    `preferred_element_type`, bfloat16 if there is none.

    >>> lax.scaled_dot(jnp.ones((1, 4)), jnp.ones((4, 1)), lhs_scale=jnp.full((1, 2), 3.0))
    Array([[12]], dtype=bfloat16)

    Raises TypeError if a scale's shape does not fit its operand's: blocks of two or more along the
    contracted axis, an element for each along the others.
    """
    if dimension_numbers is None:
        rank = typeof(lhs).ndim
        batch = tuple(range(rank - 2))
        dimension_numbers = (((rank - 1,), (len(batch),)), (batch, batch))
    (lhs_contract, rhs_contract), _ = dimension_numbers
    a = _scaled(lhs, lhs_scale, "lhs_scale", lhs_contract)
    b = _scaled(rhs, rhs_scale, "rhs_scale", rhs_contract)
    out = dtypes.bfloat16 if preferred_element_type is None else preferred_element_type
    product = dot_general(a, b, dimension_numbers, preferred_element_type=np.float32)
    return convert_element_type(product, out)
