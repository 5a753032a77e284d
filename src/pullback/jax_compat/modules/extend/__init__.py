"""`jax.extend`: what libraries that extend JAX use."""
