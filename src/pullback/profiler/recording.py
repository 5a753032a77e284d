"""Recording when a program's parts run, as a trace that chrome://tracing and Perfetto show.

`trace(directory)` records the annotated parts, and the events that `pullback.monitoring` tells of,
of every thread.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pullback import monitoring

__all__ = [
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "start_trace",
    "stop_trace",
    "trace",
]

_lock = threading.Lock()


class _Session:
    """A recording: events in the format that Chrome and Perfetto read (times in microseconds)."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.events = directory, list[dict[str, Any]]()
        monitoring.register_event_duration_secs_listener(self.duration)

    def add(self, name: str, start: float, seconds: float, data: dict[str, Any]) -> None:
        self.events.append({
            "name": name, "ph": "X", "ts": start * 1e6, "dur": seconds * 1e6, "pid": os.getpid(),
            "tid": threading.get_native_id(), "args": {k: str(v) for k, v in data.items()},
        })  # fmt: skip

    def duration(self, event: str, seconds: float, **data: Any) -> None:
        self.add(event, time.perf_counter() - seconds, seconds, data)

    def write(self) -> Path:
        monitoring.unregister_event_duration_listener(self.duration)
        folder = self.directory / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "perfetto_trace.json"
        path.write_text(json.dumps({"traceEvents": self.events, "displayTimeUnit": "ns"}))
        return path


_session: list[_Session] = []


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begins to record. RuntimeError if a recording is under way.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pb.profiler.start_trace(folder)
    ...     x = jnp.ones(3).sum()
    ...     pb.profiler.stop_trace()
    """
    with _lock:
        if _session:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time."
            )
        _session.append(_Session(Path(log_dir)))


def stop_trace() -> None:
    """Ends the recording and writes it under its directory. RuntimeError if there is none.

    >>> pb.profiler.stop_trace()
    Traceback (most recent call last):
        ...
    RuntimeError: ...
    """
    with _lock:
        if not _session:
            raise RuntimeError("No profile started")
        _session.pop().write()


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Iterator[None]:
    """`with trace(directory):` records what runs inside.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, pb.profiler.trace(folder):
    ...     with pb.profiler.TraceAnnotation("step"):
    ...         x = jnp.ones(3).sum().block_until_ready()
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(contextlib.ContextDecorator):
    """`with TraceAnnotation(name):` names a part of the program in the recording.

    >>> with pb.profiler.TraceAnnotation("loading"):
    ...     x = jnp.zeros(3)
    """

    def __init__(self, name: str, **data: Any) -> None:
        self.name, self.data = name, data

    def _recreate_cm(self) -> TraceAnnotation:
        return TraceAnnotation(self.name, **self.data)

    def __enter__(self) -> TraceAnnotation:
        self.start = time.perf_counter()
        return self

    def __exit__(self, *exc: Any) -> None:
        for session in _session[:1]:
            session.add(self.name, self.start, time.perf_counter() - self.start, self.data)

    def set_metadata(self, **data: Any) -> None:
        """Adds to what the recording says about this part."""
        self.data.update(data)

    @staticmethod
    def is_enabled() -> bool:
        """Is a recording under way?"""
        return bool(_session)


class StepTraceAnnotation(TraceAnnotation):
    """`with StepTraceAnnotation("train", step_num=k):` names one step of a loop.

    >>> for k in range(2):
    ...     with pb.profiler.StepTraceAnnotation("train", step_num=k):
    ...         x = jnp.zeros(3)
    """


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """`func`, whose calls are named in recordings.

    >>> @pb.profiler.annotate_function
    ... def f(x):
    ...     return x + 1
    >>> f(1)
    2
    """
    label = name or getattr(func, "__qualname__", None) or getattr(func, "func", func).__name__

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated
