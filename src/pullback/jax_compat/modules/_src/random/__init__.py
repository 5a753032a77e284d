"""`jax._src.random`: the generators of random bits."""
