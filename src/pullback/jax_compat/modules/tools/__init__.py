"""`jax.tools`: programs as files of other formats."""
