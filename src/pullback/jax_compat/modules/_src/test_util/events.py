"""Counts of what happens in a block, by the names of events, and programs compiled in it."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..... import tree
from .....api import placement
from .....backends.xla import stage as xla_stage
from .....control import call
from .....runtime import dispatch, executable
from .....runtime.array import ArrayImpl
from .. import util


class EventThreadLocalState(threading.local):
    """What a thread counts."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.nested_device_put_count = 0
        self.lower_jaxpr_to_fun_counts: Any = None
        self.collect_lowered_jaxprs: list[Any] | None = None


thread_local_state = EventThreadLocalState()


def event_listener(name: str, *args: Any) -> None:
    """Counts an event."""
    thread_local_state.counts[name] += 1


util.test_event_listener.append(event_listener)


def count_events(event: str) -> Callable[[], Any]:
    """A function that makes blocks, which give a function that says how often an event happened."""

    @contextlib.contextmanager
    def counting() -> Iterator[Callable[[], int]]:
        before = thread_local_state.counts[event]
        yield lambda: thread_local_state.counts[event] - before

    return counting


@contextlib.contextmanager
def _watched(owner: Any, name: str, heard: Callable[..., Any]) -> Iterator[None]:
    """Has a function told of each call of another in the block."""
    original = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        heard(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, watched)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _as_stablehlo(closed: Any) -> Any:
    """A program as a module of StableHLO."""
    name = closed.jaxpr.debug_info.func_name if closed.jaxpr.debug_info else "main"
    out_tree = tree.structure(tuple(closed.out_avals))
    return xla_stage.lowered(closed, call.call_params(closed, name), out_tree, ("cpu",)).module


@contextlib.contextmanager
def collect_lowered_jaxprs() -> Iterator[list[Any]]:
    """(program, its module of StableHLO) of each program that is compiled in the block."""
    found: list[Any] = []
    seen: list[Any] = []

    def heard(self: Any, closed: Any, *_: Any, **__: Any) -> None:
        seen.append(closed)

    with _watched(executable.NativeExecutable, "__init__", heard):
        yield found
    found += [(closed, _as_stablehlo(closed)) for closed in seen]


@contextlib.contextmanager
def count_subjaxpr_to_hlo_conversion(fun_name: str) -> Iterator[Callable[[], int]]:
    """How often a program of that name is compiled in the block, by itself or within another."""
    count = 0

    def named(closed: Any, name: str) -> bool:
        return any(
            eqn.params.get("name") == name for eqn in closed.jaxpr.eqns
        ) or getattr(closed.jaxpr.debug_info, "func_name", None) == name  # fmt: skip

    def heard(self: Any, closed: Any, *_: Any, **__: Any) -> None:
        nonlocal count
        count += named(closed, fun_name)

    with _watched(executable.NativeExecutable, "__init__", heard):
        yield lambda: count


@contextlib.contextmanager
def count_device_put_fast_path_hit() -> Iterator[Callable[[], int]]:
    """How many arrays are put onto a device in the block, which needs no program."""
    count = 0

    def heard(leaf: Any, *_: Any) -> None:
        nonlocal count
        count += isinstance(leaf, ArrayImpl)

    with _watched(placement, "_put_now", heard):
        yield lambda: count


@contextlib.contextmanager
def count_internal_device_puts() -> Iterator[Callable[[], dict[str, int]]]:
    """How many values are put onto devices in the block, by how."""
    counts: Counter[str] = Counter()

    def put(*_: Any) -> None:
        counts["device_put_with_sharding"] += 1

    def made(*_: Any, **__: Any) -> None:
        counts["device_put_with_device"] += 1

    with _watched(placement, "_put_now", put), _watched(dispatch, "host_array", made):
        yield lambda: dict(counts)


@contextlib.contextmanager
def count_jax_array_shard_arg_calls() -> Iterator[Callable[[], int]]:
    """How many calls of programs hand arrays over in the block by Python."""
    count = 0

    def heard(*_: Any, **__: Any) -> None:
        nonlocal count
        count += 1

    with _watched(executable.NativeExecutable, "__call__", heard):
        yield lambda: count
