"""`jax.interpreters`: the open tables of rules."""
