"""Functions that remember results by arguments which they do not keep alive."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ....core.trace import trace_context


class WeakrefLRUCache(NamedTuple):
    """What `cache_info` says."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class _Remembering:
    """A function whose results are remembered by keys, the most recently used ones."""

    def __init__(
        self, call: Callable[..., Any], maxsize: int | None, trace_context_in_key: bool
    ) -> None:
        functools.update_wrapper(self, call)  # type: ignore[arg-type]
        self._context: Callable[[], Any] = trace_context if trace_context_in_key else tuple
        self._call, self._maxsize = call, 1 << 62 if maxsize is None else maxsize
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._hits = self._misses = 0

    def _found(self, key: Any, made: Callable[[], Any]) -> Any:
        """What is remembered by a key, or is from now on."""
        if key in self._kept:
            self._hits += 1
            self._kept.move_to_end(key)
            return self._kept[key]
        self._misses += 1
        out = self._kept[key] = made()
        while len(self._kept) > self._maxsize:
            self._kept.popitem(last=False)
        return out

    def _forget(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._kept.pop(key, None)

    def cache_clear(self) -> None:
        """Forgets everything."""
        self._kept.clear()
        self._hits = self._misses = 0


class _Weak(_Remembering):
    """Results are remembered by the first argument as long as it lives, by the others, and by what
    a trace depends on."""

    def __call__(self, weak: Any, *args: Any, **kwargs: Any) -> Any:
        ref = weakref.ref(weak, self._gone)
        key = ref, args, tuple(sorted(kwargs.items())), self._context()
        return self._found(key, lambda: self._call(weak, *args, **kwargs))

    def _gone(self, ref: Any) -> None:
        self._forget([k for k in self._kept if k[0] is ref or k[0]() is None])

    def evict_weakref(self, weak: Any) -> None:
        """Forgets what was remembered of an argument."""
        self._forget([k for k in self._kept if k[0]() is weak])

    def cache_info(self) -> WeakrefLRUCache:
        """How often a result was remembered, and how many are."""
        return WeakrefLRUCache(self._hits, self._misses, self._maxsize, len(self._kept))

    def cache_keys(self) -> list[Any]:
        """What results are remembered by."""
        return list(self._kept)


class _Multi(_Remembering):
    """Results are remembered as long as all arguments live that can be weakly referred to."""

    def _part(self, x: Any, refs: list[Any]) -> Any:
        if type(x) is tuple:
            return tuple(self._part(y, refs) for y in x)
        if not hasattr(type(x), "__weakref__"):
            return x
        refs.append(weakref.ref(x))
        return refs[-1]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refs: list[Any] = []
        named = tuple(sorted(kwargs.items()))
        key = self._part(args, refs), self._part(named, refs), self._context()

        def made() -> Any:
            out = self._call(*args, **kwargs)
            gone = functools.partial(self._gone, key)
            return out, [weakref.ref(r(), gone) for r in refs]

        return self._found(key, made)[0]

    def _gone(self, key: Any, _: Any) -> None:
        self._forget([key])

    def cache_info(self) -> dict[str, int]:
        """How often a result was remembered, and how many are."""
        counts = {"hits": self._hits, "misses": self._misses}
        return {**counts, "maxsize": self._maxsize, "currsize": len(self._kept)}


def weakref_lru_cache(
    call: Callable[..., Any], maxsize: int | None = 2048, trace_context_in_key: bool = True
) -> _Weak:
    """A function that remembers its results by its first argument, which it does not keep alive,
    and by the others."""
    return _Weak(call, maxsize, trace_context_in_key)


def multi_weakref_lru_cache(
    call: Callable[..., Any], *, maxsize: int | None = 2048, trace_context_in_key: bool = True
) -> _Multi:
    """A function that remembers its results by its arguments, none of which it keeps alive."""
    return _Multi(call, maxsize, trace_context_in_key)
