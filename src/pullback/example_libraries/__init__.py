"""Small libraries that JAX keeps beside its core."""
