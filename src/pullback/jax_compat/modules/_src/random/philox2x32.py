"""`jax._src.random.philox2x32`: Philox with blocks of two words, on keys as words."""

from __future__ import annotations

from .....primitives.ciphers import philox2x32_prng_impl as philox2x32_prng_impl

philox2x32_seed = philox2x32_prng_impl.seed
philox2x32_split = philox2x32_prng_impl.split
philox2x32_random_bits = philox2x32_prng_impl.random_bits
philox2x32_fold_in = philox2x32_prng_impl.fold_in
