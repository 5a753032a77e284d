"""`jax._src.dispatch`: waiting for effects."""

from ....api.placement import effects_barrier as wait_for_tokens  # noqa: F401
