"""`jax._src.random.threefry4x32`: Threefry with blocks of four words, on keys as words."""

from __future__ import annotations

from .....primitives.ciphers import threefry4x32_prng_impl as threefry4x32_prng_impl

threefry4x32_seed = threefry4x32_prng_impl.seed
threefry4x32_split = threefry4x32_prng_impl.split
threefry4x32_random_bits = threefry4x32_prng_impl.random_bits
threefry4x32_fold_in = threefry4x32_prng_impl.fold_in
