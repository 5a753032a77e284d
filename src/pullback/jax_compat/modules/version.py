"""`jax.version`: the version that libraries compare with what they need."""

from .. import JAX_VERSION

__version__ = JAX_VERSION
__version_info__ = tuple(int(part) for part in JAX_VERSION.split("."))
