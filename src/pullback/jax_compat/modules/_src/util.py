"""`jax._src.util`: small functions over sequences that tests and libraries reach for."""

from __future__ import annotations

import functools
import itertools
import logging
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....config import read, trace_values
from ....numpy import moveaxis as moveaxis
from .hashables import (
    Hashable as Hashable,
    HashableWrapper as HashableWrapper,
    StrictABC as StrictABC,
    StrictABCMeta as StrictABCMeta,
    Unhashable as Unhashable,
    fun_qual_name as fun_qual_name,
    immutable as immutable,
    pprint_bytes as pprint_bytes,
    subs_list2 as subs_list2,
    toposort as toposort,
)
from .weak_caches import (
    multi_weakref_lru_cache as multi_weakref_lru_cache,
    weakref_lru_cache as weakref_lru_cache,
)

logger = logging.getLogger("jax._src.util")
NumpyComplexWarning = np.exceptions.ComplexWarning


def safe_map(f: Callable[..., Any], *sequences: Iterable[Any]) -> list[Any]:
    """`list(map(...))`; ValueError where the sequences are not of one length."""
    return [f(*items) for items in safe_zip(*sequences)]


def safe_zip(*sequences: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`list(zip(...))`; ValueError where the sequences are not of one length."""
    return list(zip(*sequences, strict=True))


def foreach(f: Callable[..., Any], *sequences: Iterable[Any]) -> None:
    """Calls `f` with the items of sequences of one length."""
    for items in safe_zip(*sequences):
        f(*items)


def unzip2(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first items of pairs, and the second ones."""
    items = list(pairs)
    return tuple(x for x, _ in items), tuple(y for _, y in items)


def unzip3(
    triples: Iterable[tuple[Any, Any, Any]],
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """The first, second and third items of triples."""
    items = list(triples)
    return tuple(t[0] for t in items), tuple(t[1] for t in items), tuple(t[2] for t in items)


def split_list(args: Sequence[Any], ns: Sequence[int]) -> list[list[Any]]:
    """Parts of the lengths `ns`, and the rest."""
    stops = list(itertools.accumulate(ns, initial=0))
    args = list(args)
    return [*(args[a:b] for a, b in itertools.pairwise(stops)), args[stops[-1] :]]


def split_list_checked(args: Sequence[Any], ns: Sequence[int]) -> list[list[Any]]:
    """Parts of the lengths `ns`, which are those of everything."""
    if sum(ns) != len(args):
        raise ValueError(f"split_list_checked: lengths {list(ns)} of {len(args)} items")
    return split_list(args, ns)[:-1]


def partition_list(which: Sequence[bool], items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The items that are not picked, and those that are."""
    pairs = safe_zip(which, items)
    return [x for pick, x in pairs if not pick], [x for pick, x in pairs if pick]


def merge_lists(which: Sequence[bool], no: Sequence[Any], yes: Sequence[Any]) -> list[Any]:
    """What `partition_list` has taken apart."""
    sources = iter(no), iter(yes)
    return [next(sources[bool(pick)]) for pick in which]


def subs_list(subs: Sequence[int | None], src: Sequence[Any], base: Sequence[Any]) -> list[Any]:
    """`base`, with items of `src` where `subs` says which."""
    return [b if k is None else src[k] for k, b in safe_zip(subs, base)]


def subvals(items: Sequence[Any], replace: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """The items, some of them replaced."""
    out = list(items)
    for k, value in replace:
        out[k] = value
    return tuple(out)


def concatenate(xs: Iterable[Sequence[Any]]) -> list[Any]:
    """The items of sequences, one after the other."""
    return list(itertools.chain.from_iterable(xs))


flatten = concatenate


def unflatten(xs: Iterable[Any], ns: Sequence[int]) -> list[list[Any]]:
    """Lists of the lengths `ns`."""
    return split_list_checked(list(xs), ns)


def stable_unique(items: Iterable[Any]) -> Iterable[Any]:
    """Each item once, in the order of their first occurrences."""
    return dict.fromkeys(items).keys()


def tuple_insert(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """The tuple with a value put before position `idx`."""
    assert 0 <= idx <= len(t), (idx, len(t))
    return (*t[:idx], val, *t[idx:])


def tuple_delete(t: tuple[Any, ...], idx: int) -> tuple[Any, ...]:
    """The tuple without the item at `idx`."""
    assert 0 <= idx < len(t), (idx, len(t))
    return t[:idx] + t[idx + 1 :]


def tuple_update(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """The tuple with another item at `idx`."""
    assert 0 <= idx < len(t), (idx, len(t))
    return (*t[:idx], val, *t[idx + 1 :])


def canonicalize_axis(axis: Any, num_dims: int) -> int:
    """An axis counted from the front; ValueError outside of an array of so many axes."""
    number = int(axis.__index__())
    if not -num_dims <= number < num_dims:
        raise ValueError(f"axis {number} is out of bounds for array of dimension {num_dims}")
    return number % num_dims


def canonicalize_axis_tuple(axis: Any, ndim: int, allow_duplicate: bool = False) -> tuple[int, ...]:
    """Axes counted from the front; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    found = tuple(canonicalize_axis(a, ndim) for a in axes)
    if not allow_duplicate and len(set(found)) != len(found):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return found


def ceil_of_ratio(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def curry(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with its first arguments given one call earlier."""
    return functools.wraps(f)(functools.partial(functools.partial, f))


def memoize(f: Callable[[], Any]) -> Callable[[], Any]:
    """A function without arguments that is called once."""
    return functools.wraps(f)(functools.cache(f))


def cache(max_size: int | None = 4096, trace_context_in_key: Any = True) -> Callable[..., Any]:
    """A decorator that remembers results by hashable arguments."""

    def decorate(f: Callable[..., Any]) -> Any:
        if not trace_context_in_key:
            return functools.lru_cache(max_size)(f)

        @functools.lru_cache(max_size)
        def known(_: Any, *args: Any, **kwargs: Any) -> Any:
            return f(*args, **kwargs)

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            return known(trace_values(), *args, **kwargs)

        for name in ("cache_clear", "cache_info"):
            setattr(call, name, getattr(known, name))
        return call

    return decorate


def set_module(module: str) -> Callable[[Any], Any]:
    """A decorator that names the module of a public function."""

    def decorate(f: Any) -> Any:
        if module is not None:
            f.__module__ = module
        return f

    return decorate


def wraps(
    wrapped: Callable[..., Any],
    namestr: str | None = None,
    docstr: str | None = None,
    **kwargs: Any,
) -> Callable[[Any], Any]:
    """As functools.wraps, with a name and documentation made from the wrapped one's: `{fun}` and
    `{doc}` stand for them."""

    def decorate(f: Any) -> Any:
        name, doc = fun_name(wrapped), getattr(wrapped, "__doc__", "") or ""
        f.__name__ = name if namestr is None else namestr.format(fun=name)
        f.__module__ = getattr(wrapped, "__module__", "<unknown module>")
        f.__doc__ = doc if docstr is None else docstr.format(fun=name, doc=doc, **kwargs)
        f.__qualname__ = getattr(wrapped, "__qualname__", f.__name__)
        f.__wrapped__ = wrapped
        return f

    return decorate


def fun_name(fun: Callable[..., Any], default_name: str = "<unnamed function>") -> str:
    """A function's name, through partial applications."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", default_name)


def wrap_name(transform_name: str, name: str) -> str:
    """The name of a transformed function."""
    return f"{transform_name}({name})"


class HashableFunction:
    """A function that equals another with the same code and closure."""

    def __init__(self, f: Callable[..., Any], closure: Any) -> None:
        self.f, self.closure = f, closure

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is HashableFunction
            and self.f.__code__ is other.f.__code__
            and self.closure == other.closure
        )

    def __hash__(self) -> int:
        return hash((self.f.__code__, self.closure))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<hashable {self.f.__name__} with closure={self.closure}>"


class HashablePartial:
    """A partial application that equals another of the same function to the same arguments."""

    def __init__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs

    def _key(self) -> Any:
        return self.f.__code__, self.args, tuple(sorted(self.kwargs.items()))

    def __eq__(self, other: object) -> bool:
        return type(other) is HashablePartial and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*self.args, *args, **self.kwargs, **kwargs)


class OrderedSet:
    """A set that is walked in the order in which its items came."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = dict.fromkeys(items)

    def add(self, item: Any) -> None:
        """Puts an item at the end, if it is new."""
        self._items[item] = None

    def update(self, items: Iterable[Any]) -> None:
        """Puts items at the end, those that are new."""
        self._items.update(dict.fromkeys(items))

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: Any) -> bool:
        return item in self._items


# What is called with the name of an event and what belongs to it: tests listen here.
test_event_listener: list[Callable[..., None]] = []


def test_event(name: str, *args: Any) -> None:
    """Tells tests that something happened."""
    for listener in test_event_listener:
        listener(name, *args)


def distributed_debug_log(*pairs: tuple[str, Any]) -> None:
    """Logs values by name, if the flag jax_distributed_debug is set."""
    if read("jax_distributed_debug"):
        lines = [f"{name}: {value}" for name, value in pairs]
        logger.warning("%s", "\n".join(["DISTRIBUTED_DEBUG", *lines]))


# Functions that remember results, by what for.
_caches: dict[str, list[Any]] = {}


def register_cache(cache: Any, for_what: str) -> None:
    """Has `clear_all_caches` clear what remembers results."""
    _caches.setdefault(for_what, []).append(cache)


def clear_all_caches() -> None:
    """Clears what was registered."""
    for caches in _caches.values():
        for one in caches:
            one.cache_clear()


def maybe_named_axis(
    axis: Any, if_pos: Callable[[int], Any], if_named: Callable[[Any], Any]
) -> Any:
    """One function's result for the number of an axis, the other's for its name."""
    try:
        position = operator.index(axis)
    except TypeError:
        return if_named(axis)
    return if_pos(position)
