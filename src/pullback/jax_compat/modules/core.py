"""`jax.core`: the names of the core that libraries use."""

from typing import Any

from ...core import public as _public
from ...core.public import *  # noqa: F403
from ...core.public import OpaqueTraceState as OpaqueTraceState
from ...removed import no_attribute


def __getattr__(name: str) -> Any:
    if name in _public._late.where:
        return _public._late(name)
    raise no_attribute("pullback.core", name)
