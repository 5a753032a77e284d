"""`jax._src.flatten_util`: what `jax.flatten_util` has."""

from ....flatten_util import ravel_pytree as ravel_pytree
