"""`jax.core`: the names of the core that libraries use."""

from typing import Any

from ...core.public import *  # noqa: F403
from ...core.public import OpaqueTraceState as OpaqueTraceState
from ...removed import no_attribute


def __getattr__(name: str) -> Any:
    raise no_attribute("pullback.core", name)
