"""`jax.interpreters.xla`."""

from ....core.avals import typeof as abstractify  # noqa: F401
