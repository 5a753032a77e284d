"""`jax._src.random.core`: what `jax.random` has, and how keys and bits are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..... import lax, numpy as jnp, random
from .....extend import random as generators
from .....primitives.keys import find_impl
from .....random.base import check_key as _check_prng_key, default_impl as default_prng_impl
from ..searched import searched

__all__ = ["_check_prng_key", "default_prng_impl"]


def resolve_prng_impl(impl_spec: Any) -> Any:
    """The generator that is meant; None means the default one."""
    return default_prng_impl() if impl_spec is None else find_impl(impl_spec)


def _safe_int_to_float(bits: Any, dtype: Any) -> Any:
    """Numbers of 64 bits as fractions of 2**64, cut off after the 24 bits of a float32; what is 0
    becomes half of the least one. `bits` are their high words, and their low ones.

    RuntimeError unless words are uint32 and fractions float32.
    """
    high, low = bits
    if high.dtype != np.uint32 or np.dtype(dtype) != np.float32:
        raise RuntimeError("_safe_int_to_float only works for u32 -> f32")
    in_high = high != 0
    # The 32 bits from the first that is set on: its 24 highest are the fraction's.
    before = lax.clz(jnp.where(in_high, high, low)).astype(np.uint32)
    first = jnp.where(in_high, high, low) << before
    rest = jnp.where(in_high & (before > 0), low >> (32 - before) % 32, 0).astype(np.uint32)
    fraction = ((first | rest) >> 8).astype(np.float32) * np.float32(2.0**-24)
    exponent = -jnp.where(in_high, before, before + 32).astype(np.int32)
    zero = ~in_high & (low == 0)
    # In two steps: 2**-64 is no weaker than float32, its square would be.
    return jnp.where(zero, np.float32(2.0**-65), jnp.ldexp(fraction, exponent))


__getattr__ = searched("jax._src.random.core", random, generators)
