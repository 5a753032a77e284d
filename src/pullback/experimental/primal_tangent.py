"""Element types whose tangents are of another dtype than the elements are stored in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import ExtendedDType, extended, is_extended, short_name


class PrimalTangentDType(ExtendedDType):
    """Elements of one dtype, tangents of another.

    >>> from pullback.experimental import primal_tangent_dtype
    >>> primal_tangent_dtype("int8", "float32").tangent_dtype
    dtype('float32')
    """

    type = extended

    def __init__(self, primal_dtype: Any, tangent_dtype: Any, name: str | None) -> None:
        self.primal_dtype, self.tangent_dtype = primal_dtype, tangent_dtype
        kinds = f"{short_name(primal_dtype)}/{short_name(tangent_dtype)}"
        self.name = name or f"PrimalTangentDType{{{kinds}}}"

    @property
    def physical(self) -> tuple[tuple[int, ...], Any]:
        """How an element is stored."""
        return (), self.primal_dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimalTangentDType) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.primal_dtype, self.tangent_dtype, self.name))

    def __repr__(self) -> str:
        return self.name


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> PrimalTangentDType:
    """An element type of one dtype, with tangents of another. TypeError for what names no dtype.

    >>> from pullback.experimental import primal_tangent_dtype
    >>> primal_tangent_dtype("int8", "float32")
    PrimalTangentDType{i8/f32}
    """
    primal, tangent = (d if is_extended(d) else np.dtype(d) for d in (primal_dtype, tangent_dtype))
    return PrimalTangentDType(primal, tangent, name)
