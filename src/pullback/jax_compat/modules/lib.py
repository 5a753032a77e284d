"""`jax.lib`: what JAX has left of it, the version."""

from .version import __version__ as __version__
