"""Names that JAX keeps under `jax.experimental`."""

from ..primitives.callback import io_callback as io_callback

__all__ = ["io_callback"]
