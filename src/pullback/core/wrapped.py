"""Functions under stacks of transformations, as `linear_util` makes and custom rules hand on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class WrappedFun:
    """A function under a stack of transformations.

    `f`: the function. `f_transformed`: it under all of them, with its keywords `params`; made of
    the others if it is not given. `transforms`: functions of the function below them and of its
    arguments, outermost first. `stores`: what the transformations note beside their results.
    `in_type`: the types of the arguments, if they are known. `debug_info`: where the function and
    its arguments come from, for messages.

    >>> from pullback.extend import linear_util
    >>> f = linear_util.WrappedFun(lambda x: x + 1)
    >>> f.call_wrapped(2)
    3
    """

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any] | None = None,
        transforms: tuple[Any, ...] = (),
        stores: tuple[Any, ...] = (),
        params: Any = (),
        in_type: Any = None,
        debug_info: Any = None,
    ) -> None:
        self.f, self.transforms, self.params = f, transforms, params
        self.stores, self.in_type, self.debug_info = stores, in_type, debug_info
        if f_transformed is None:
            f_transformed = functools.partial(f, **dict(params)) if params else f
            for transform in reversed(transforms):
                f_transformed = functools.partial(transform, f_transformed)
        self.f_transformed = f_transformed
        self.__wrapped__ = f  # of the object alone: the class has parameters of its own

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_wrapped(*args, **kwargs)

    def wrap(self, transform: Any) -> WrappedFun:
        return WrappedFun(
            self.f,
            functools.partial(transform, self.f_transformed),
            (transform, *self.transforms),
            self.stores,
            self.params,
            self.in_type,
            self.debug_info,
        )

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f_transformed(*args, **kwargs)
