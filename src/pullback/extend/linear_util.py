"""Functions wrapped with transformations of their arguments and results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.wrapped import WrappedFun as WrappedFun


class StoreException(Exception):
    """A Store was read before it was written, or written twice.

    >>> from pullback.extend import linear_util
    >>> linear_util.Store().val
    Traceback (most recent call last):
        ...
    pullback.extend.linear_util.StoreException: ...
    """


class Store:
    """Holds one value that a wrapped call leaves behind."""

    def __init__(self) -> None:
        self._val: Any = None
        self._set = False

    def store(self, val: Any) -> None:
        if self._set:
            raise StoreException("Store occupied")
        self._val, self._set = val, True

    @property
    def val(self) -> Any:
        if not self._set:
            raise StoreException("Store empty")
        return self._val

    def __bool__(self) -> bool:
        return self._set


class EqualStore(Store):
    """Takes a value again that equals the one it holds."""

    def store(self, val: Any) -> None:
        if self._set and val == self._val:
            return
        super().store(val)


def wrap_init(f: Callable[..., Any], params: Any = None, *, debug_info: Any = None) -> WrappedFun:
    """A function, ready to be transformed.

    >>> from pullback.extend import linear_util
    >>> linear_util.wrap_init(lambda x: x + 1).call_wrapped(2)
    3
    """
    return WrappedFun(f, params=tuple(sorted((params or {}).items())), debug_info=debug_info)


def _wrapped(fun: Any) -> WrappedFun:
    return fun if isinstance(fun, WrappedFun) else WrappedFun(fun)


def _adding(transformation: Callable[..., Any], gen: Callable[..., Any]) -> Any:
    """What a decorated `gen` becomes: it adds itself around functions; documented as `gen` is."""
    adding: Any = functools.partial(transformation, gen)
    adding.__doc__ = gen.__doc__
    return adding


def transformation2(
    gen: Callable[..., Any], fun: WrappedFun | None = None, *gen_static_args: Any
) -> Any:
    """Adds `gen(f, *args, *call_args)` around a function; as a decorator, gives what adds it.

    >>> from pullback.extend import linear_util
    >>> @linear_util.transformation2
    ... def doubled(f, *args):
    ...     return 2 * f(*args)
    >>> doubled(linear_util.wrap_init(lambda x: x + 1)).call_wrapped(2)
    6
    """
    if fun is None:
        return _adding(transformation2, gen)

    def transform(call: Any, *call_args: Any, **kwargs: Any) -> Any:
        return gen(call, *gen_static_args, *call_args, **kwargs)

    return _wrapped(fun).wrap(transform)


def transformation_with_aux2(
    gen: Callable[..., Any],
    fun: WrappedFun | None = None,
    *gen_static_args: Any,
    use_eq_store: bool = False,
    unk_names: bool = False,
) -> Any:
    """As transformation2; `gen(f, store, *args, *call_args)` leaves a value, which the second
    result reads. With `use_eq_store` it may leave equal values several times; with `unk_names` the
    function that is made says nothing of its arguments' names.

    >>> from pullback.extend import linear_util
    >>> @linear_util.transformation_with_aux2
    ... def counted(f, store, *args):
    ...     store.store(len(args))
    ...     return f(*args)
    >>> f, count = counted(linear_util.wrap_init(lambda x, y: x + y))
    >>> f.call_wrapped(2, 3), count()
    (5, 2)
    """
    if fun is None:
        held: Any = {"use_eq_store": use_eq_store, "unk_names": unk_names}
        return _adding(functools.partial(transformation_with_aux2, **held), gen)
    store = EqualStore() if use_eq_store else Store()

    def transform(call: Any, *call_args: Any, **kwargs: Any) -> Any:
        return gen(call, store, *gen_static_args, *call_args, **kwargs)

    made = _wrapped(fun).wrap(transform)
    if unk_names:
        made.debug_info = None
    return made, lambda: store.val


def transformation(
    gen: Callable[..., Any], fun: WrappedFun | None = None, *gen_static_args: Any
) -> Any:
    """As transformation2, for a generator that yields (args, kwargs), gets the results, and yields
    its own.

    >>> from pullback.extend import linear_util
    >>> @linear_util.transformation
    ... def doubled(*args):
    ...     result = yield args, {}
    ...     yield 2 * result
    >>> doubled(linear_util.wrap_init(lambda x: x + 1)).call_wrapped(2)
    6
    """
    if fun is None:
        return _adding(transformation, gen)

    def transform(call: Any, *call_args: Any, **kwargs: Any) -> Any:
        steps = gen(*gen_static_args, *call_args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        return steps.send(call(*inner_args, **inner_kwargs))

    return _wrapped(fun).wrap(transform)


def transformation_with_aux(
    gen: Callable[..., Any], fun: WrappedFun | None = None, *gen_static_args: Any
) -> Any:
    """As transformation; the generator yields (results, aux), and the second result reads aux.

    >>> from pullback.extend import linear_util
    >>> @linear_util.transformation_with_aux
    ... def counted(*args):
    ...     result = yield args, {}
    ...     yield result, len(args)
    >>> f, count = counted(linear_util.wrap_init(lambda x, y: x + y))
    >>> f.call_wrapped(2, 3), count()
    (5, 2)
    """
    if fun is None:
        return _adding(transformation_with_aux, gen)
    store = Store()

    def transform(call: Any, *call_args: Any, **kwargs: Any) -> Any:
        steps = gen(*gen_static_args, *call_args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        results, aux = steps.send(call(*inner_args, **inner_kwargs))
        store.store(aux)
        return results

    return _wrapped(fun).wrap(transform), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """(whether the first was left, the value of the one that was).

    >>> from pullback.extend import linear_util
    >>> linear_util.merge_linear_aux(lambda: "first", lambda: "second")
    (True, 'first')
    """
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()


def cache(
    call: Callable[..., Any], *, explain: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """`call`, remembering its results by the wrapped function's identity and the other
    arguments.

    >>> from pullback.extend import linear_util
    >>> @linear_util.cache
    ... def result(f, x):
    ...     print("computed")
    ...     return f.call_wrapped(x)
    >>> f = linear_util.wrap_init(lambda x: x + 1)
    >>> result(f, 2), result(f, 2)
    computed
    (3, 3)
    """
    known: dict[Any, Any] = {}

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        key = (id(fun.f), fun.params, args)
        if key not in known:
            if explain is not None:
                explain(fun, *args)
            known[key] = (fun, call(fun, *args))
        return known[key][1]

    cached.cache_clear = known.clear  # type: ignore[attr-defined]
    return cached
