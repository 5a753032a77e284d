"""Room for deep recursion. A kernel's temporaries enclose the statements that use them, so a long
loop body is as deep as it has temporaries, deeper than Python recurses by default.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Frames of Python functions are on the heap (since 3.11): this bounds memory, not the C stack.
LIMIT = 100_000

_lock = threading.Lock()
_inside = 0
_before = 0


def _enter() -> None:
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, LIMIT))
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside == 0:
            sys.setrecursionlimit(_before)


def deep(fun: F) -> F:
    """`fun` with the recursion limit raised while it runs, in any thread."""

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        try:
            return fun(*args, **kwargs)
        finally:
            _leave()

    return run  # type: ignore[return-value]
