"""`jax._src.random.philox4x32`: Philox with blocks of four words, on keys as words."""

from __future__ import annotations

from .....primitives.ciphers import philox4x32_prng_impl as philox4x32_prng_impl

philox4x32_seed = philox4x32_prng_impl.seed
philox4x32_split = philox4x32_prng_impl.split
philox4x32_random_bits = philox4x32_prng_impl.random_bits
philox4x32_fold_in = philox4x32_prng_impl.fold_in
