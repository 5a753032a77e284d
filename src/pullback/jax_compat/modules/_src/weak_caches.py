"""Functions that remember results by an argument which they do not keep alive."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from ....core.trace import trace_context


class WeakrefLRUCache(NamedTuple):
    """What `cache_info` says."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class _Weak:
    """A function whose results are remembered: by the first argument as long as it lives, by the
    others, and by what a trace depends on."""

    def __init__(self, call: Callable[..., Any], maxsize: int, with_context: bool) -> None:
        functools.update_wrapper(self, call)
        self._context: Callable[[], Any] = trace_context if with_context else tuple
        self._call, self._maxsize = call, maxsize
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._hits = self._misses = 0

    def __call__(self, weak: Any, *args: Any, **kwargs: Any) -> Any:
        ref = weakref.ref(weak, self._forget)
        key = (ref, args, tuple(sorted(kwargs.items())), self._context())
        if key in self._kept:
            self._hits += 1
            self._kept.move_to_end(key)
            return self._kept[key]
        self._misses += 1
        out = self._call(weak, *args, **kwargs)
        self._kept[key] = out
        while len(self._kept) > self._maxsize:
            self._kept.popitem(last=False)
        return out

    def _forget(self, ref: Any) -> None:
        for key in [k for k in self._kept if k[0] is ref or k[0]() is None]:
            del self._kept[key]

    def evict_weakref(self, weak: Any) -> None:
        """Forgets what was remembered of an argument."""
        for key in [k for k in self._kept if k[0]() is weak]:
            del self._kept[key]

    def cache_info(self) -> WeakrefLRUCache:
        """How often a result was remembered, and how many are."""
        return WeakrefLRUCache(self._hits, self._misses, self._maxsize, len(self._kept))

    def cache_keys(self) -> list[Any]:
        """What results are remembered by."""
        return list(self._kept)

    def cache_clear(self) -> None:
        """Forgets everything."""
        self._kept.clear()
        self._hits = self._misses = 0


def weakref_lru_cache(
    call: Callable[..., Any], maxsize: int | None = 2048, trace_context_in_key: bool = True
) -> _Weak:
    """A function that remembers its results by its first argument, which it does not keep alive,
    and by the others."""
    return _Weak(call, 1 << 62 if maxsize is None else maxsize, trace_context_in_key)
