"""`jax._src`: the few private names that libraries reach for."""
