"""Events that libraries record, and listeners that hear of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_listeners: dict[str, list[Callable[..., None]]] = {
    "event": [],
    "duration": [],
    "span": [],
    "scalar": [],
}


def _tell(kind: str, *args: Any, **metadata: Any) -> None:
    for listener in list(_listeners[kind]):
        listener(*args, **metadata)


def record_event(event: str, **metadata: Any) -> None:
    """Tells the listeners that something happened."""
    _tell("event", event, **metadata)


def record_event_duration_secs(event: str, duration: float, **metadata: Any) -> None:
    """Tells the listeners how long something took, in seconds."""
    _tell("duration", event, duration, **metadata)


def record_event_time_span(event: str, start_time: float, end_time: float, **metadata: Any) -> None:
    """Tells the listeners when something began and ended, in seconds."""
    _tell("span", event, start_time, end_time, **metadata)


def record_scalar(event: str, value: float | int, **metadata: Any) -> None:
    """Tells the listeners a number."""
    _tell("scalar", event, value, **metadata)


def register_event_listener(callback: Callable[..., None]) -> None:
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    _listeners["span"].append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    _listeners["scalar"].append(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    _listeners["event"].remove(callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    _listeners["duration"].remove(callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    _listeners["span"].remove(callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    _listeners["scalar"].remove(callback)


def clear_event_listeners() -> None:
    """Forgets every listener."""
    for group in _listeners.values():
        group.clear()
