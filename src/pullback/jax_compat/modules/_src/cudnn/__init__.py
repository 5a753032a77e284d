"""`jax._src.cudnn`: what JAX has cuDNN compute."""
