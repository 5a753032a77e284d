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


def _forget(kind: str, callback: Callable[..., None]) -> None:
    if callback not in _listeners[kind]:
        raise AssertionError(f"{callback!r} was not registered, or is no longer")
    _listeners[kind].remove(callback)


def record_event(event: str, **metadata: Any) -> None:
    """Tells the listeners that something happened.

    Listeners are called as `callback(event, **metadata)`.

    >>> from pullback import monitoring
    >>> monitoring.register_event_listener(lambda event, **_: print("heard", event))
    >>> monitoring.record_event("/demo/started")
    heard /demo/started
    >>> monitoring.clear_event_listeners()
    """
    _tell("event", event, **metadata)


def record_event_duration_secs(event: str, duration: float, **metadata: Any) -> None:
    """Tells the listeners how long something took, in seconds.

    >>> from pullback import monitoring
    >>> monitoring.register_event_duration_secs_listener(lambda event, s, **_: print(event, s))
    >>> monitoring.record_event_duration_secs("/demo/load", 1.5)
    /demo/load 1.5
    >>> monitoring.clear_event_listeners()
    """
    _tell("duration", event, duration, **metadata)


def record_event_time_span(event: str, start_time: float, end_time: float, **metadata: Any) -> None:
    """Tells the listeners when something began and ended, in seconds.

    >>> from pullback import monitoring
    >>> monitoring.register_event_time_span_listener(lambda event, a, b, **_: print(event, a, b))
    >>> monitoring.record_event_time_span("/demo/load", 1.0, 2.5)
    /demo/load 1.0 2.5
    >>> monitoring.clear_event_listeners()
    """
    _tell("span", event, start_time, end_time, **metadata)


def record_scalar(event: str, value: float | int, **metadata: Any) -> None:
    """Tells the listeners a number.

    >>> from pullback import monitoring
    >>> monitoring.register_scalar_listener(lambda event, value, **_: print(event, value))
    >>> monitoring.record_scalar("/demo/loss", 0.25)
    /demo/loss 0.25
    >>> monitoring.clear_event_listeners()
    """
    _tell("scalar", event, value, **metadata)


def register_event_listener(callback: Callable[..., None]) -> None:
    """From now on `callback(event, **metadata)` hears of every `record_event`.

    >>> from pullback import monitoring
    >>> monitoring.register_event_listener(lambda event, **_: print("heard", event))
    >>> monitoring.record_event("/demo/started")
    heard /demo/started
    >>> monitoring.clear_event_listeners()
    """
    _listeners["event"].append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """From now on `callback(event, duration, **metadata)` hears of every
    `record_event_duration_secs`.

    >>> from pullback import monitoring
    >>> heard = []
    >>> monitoring.register_event_duration_secs_listener(lambda event, s, **_: heard.append(s))
    >>> monitoring.record_event_duration_secs("/demo/load", 1.5)
    >>> heard
    [1.5]
    >>> monitoring.clear_event_listeners()
    """
    _listeners["duration"].append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """From now on `callback(event, start_time, end_time, **metadata)` hears of every
    `record_event_time_span`.

    >>> from pullback import monitoring
    >>> heard = []
    >>> monitoring.register_event_time_span_listener(lambda event, a, b, **_: heard.append(b - a))
    >>> monitoring.record_event_time_span("/demo/load", 1.0, 2.5)
    >>> heard
    [1.5]
    >>> monitoring.clear_event_listeners()
    """
    _listeners["span"].append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """From now on `callback(event, value, **metadata)` hears of every `record_scalar`.

    >>> from pullback import monitoring
    >>> heard = []
    >>> monitoring.register_scalar_listener(lambda event, value, **_: heard.append(value))
    >>> monitoring.record_scalar("/demo/loss", 0.25)
    >>> heard
    [0.25]
    >>> monitoring.clear_event_listeners()
    """
    _listeners["scalar"].append(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """`callback` hears of no further events. AssertionError if it was not registered.

    >>> from pullback import monitoring
    >>> listener = lambda event, **_: print("heard", event)
    >>> monitoring.register_event_listener(listener)
    >>> monitoring.unregister_event_listener(listener)
    >>> monitoring.record_event("/demo/started")
    """
    _forget("event", callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """`callback` hears of no further durations. AssertionError if it was not registered.

    >>> from pullback import monitoring
    >>> listener = lambda event, seconds, **_: print(event, seconds)
    >>> monitoring.register_event_duration_secs_listener(listener)
    >>> monitoring.unregister_event_duration_listener(listener)
    >>> monitoring.record_event_duration_secs("/demo/load", 1.5)
    """
    _forget("duration", callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """`callback` hears of no further time spans. AssertionError if it was not registered.

    >>> from pullback import monitoring
    >>> listener = lambda event, start, end, **_: print(event, end)
    >>> monitoring.register_event_time_span_listener(listener)
    >>> monitoring.unregister_event_time_span_listener(listener)
    >>> monitoring.record_event_time_span("/demo/load", 1.0, 2.5)
    """
    _forget("span", callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """`callback` hears of no further numbers. AssertionError if it was not registered.

    >>> from pullback import monitoring
    >>> listener = lambda event, value, **_: print(event, value)
    >>> monitoring.register_scalar_listener(listener)
    >>> monitoring.unregister_scalar_listener(listener)
    >>> monitoring.record_scalar("/demo/loss", 0.25)
    """
    _forget("scalar", callback)


def clear_event_listeners() -> None:
    """Forgets every listener.

    >>> from pullback import monitoring
    >>> monitoring.register_event_listener(lambda event, **_: print("heard", event))
    >>> monitoring.clear_event_listeners()
    >>> monitoring.record_event("/demo/started")
    """
    for group in _listeners.values():
        group.clear()
