"""A pytree of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes, lax, tree
from .core.avals import typeof
from .primitives.common import array_maker, as_array

__all__ = ["ravel_pytree"]


class _Unravel:
    """The inverse of ravelling one tree structure; equal for equal structures, so that jit caches
    see one function.
    """

    def __init__(
        self, treedef: Any, shapes: tuple[Any, ...], dtypes_: tuple[Any, ...], dtype: Any
    ) -> None:
        self.treedef, self.shapes, self.dtypes, self.dtype = treedef, shapes, dtypes_, dtype

    def _key(self) -> Any:
        return self.treedef, self.shapes, self.dtypes, self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, flat: Any) -> Any:
        if not self.shapes:
            return tree.unflatten(self.treedef, [])
        flat = as_array(flat)
        uniform = all(d == self.dtype for d in self.dtypes)
        if not uniform and typeof(flat).dtype != self.dtype:
            raise TypeError(
                f"unravel function given array of dtype {typeof(flat).dtype.name}, but expected "
                f"dtype {self.dtype.name}. "
                f"Fix: x.astype('{self.dtype.name}')."
            )
        sizes = tuple(int(np.prod(s, dtype=np.int64)) for s in self.shapes)
        chunks = lax.split(flat, sizes, 0)
        leaves = [
            x if typeof(x).shape == s else lax.reshape(x, s)
            for x, s in zip(chunks, self.shapes, strict=True)
        ]
        if not uniform:
            leaves = [_cast(x, d) for x, d in zip(leaves, self.dtypes, strict=True)]
        return tree.unflatten(self.treedef, leaves)


def _cast(x: Any, dtype: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype) and not dtypes.is_complex(dtype):
        x = lax.real(x)
    return lax.convert_element_type(x, dtype)


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The leaves of a pytree, concatenated into one vector of their common dtype, and the function
    that undoes it.

    >>> flat, unravel = pb.flatten_util.ravel_pytree({"a": jnp.ones((2, 2)), "b": 3.0})
    >>> flat.shape, unravel(flat)["a"].shape
    ((5,), (2, 2))

    Raises TypeError for leaves that are no numbers. The inverse raises ValueError for a vector of
    another size and, if dtypes were mixed, TypeError for one of another dtype.
    """
    leaves, treedef = tree.flatten(pytree)
    if not leaves:
        return array_maker[0](np.zeros(0, dtypes.default_float())), _Unravel(treedef, (), (), None)
    avals = [typeof(x) for x in leaves]
    for a in avals:
        if dtypes.is_extended(a.dtype):
            raise TypeError(
                f"ravel_pytree: a leaf of dtype {a.dtype} is no array of numbers. "
                "Fix: random.key_data(keys)."
            )
    kind, weak = dtypes.join_types([(a.dtype, a.weak_type) for a in avals])
    dtype = dtypes.canonicalize_dtype(kind)
    parts = []
    for x, a in zip(leaves, avals, strict=True):
        x = as_array(x)
        x = x if a.ndim == 1 else lax.reshape(x, (int(np.prod(a.shape, dtype=np.int64)),))
        if a.dtype != dtype or a.weak_type != weak:
            x = lax.convert_element_type(x, dtypes.scalar_type_of(dtype) if weak else dtype)
        parts.append(x)
    flat = parts[0] if len(parts) == 1 else lax.concatenate(parts, 0)
    return flat, _Unravel(
        treedef, tuple(a.shape for a in avals), tuple(a.dtype for a in avals), dtype
    )
