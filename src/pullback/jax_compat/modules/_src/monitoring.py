"""`jax._src.monitoring`: what `jax.monitoring` has, and who listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import monitoring as _public
from ....monitoring import _listeners
from .searched import searched


def get_event_listeners() -> list[Callable[..., None]]:
    """Who hears of events."""
    return list(_listeners["event"])


def get_event_duration_listeners() -> list[Callable[..., None]]:
    """Who hears of durations."""
    return list(_listeners["duration"])


def get_event_time_span_listeners() -> list[Callable[..., None]]:
    """Who hears of time spans."""
    return list(_listeners["span"])


def get_scalar_listeners() -> list[Callable[..., None]]:
    """Who hears of numbers."""
    return list(_listeners["scalar"])


def __getattr__(name: str) -> Any:
    return searched("jax._src.monitoring", _public)(name)
