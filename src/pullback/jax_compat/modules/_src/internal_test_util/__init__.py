"""`jax._src.internal_test_util`: what several of JAX's test files share."""
