"""`jax.core`: the names of the core that libraries use."""

from ...core.public import *  # noqa: F403
from ...core.public import OpaqueTraceState as OpaqueTraceState
