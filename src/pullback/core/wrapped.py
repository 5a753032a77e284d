"""Functions under stacks of transformations, as `linear_util` makes and custom rules hand on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class WrappedFun:
    """A function under a stack of transformations.

    `f`: the function. `transforms`: functions of the function below them and of its arguments,
    outermost first. `params`: keywords for `f`. `debug_info`: where the function and its arguments
    come from, for messages.

    >>> from pullback.extend import linear_util
    >>> f = linear_util.WrappedFun(lambda x: x + 1)
    >>> f.call_wrapped(2)
    3
    """

    def __init__(
        self,
        f: Callable[..., Any],
        transforms: tuple[Any, ...] = (),
        params: Any = (),
        debug_info: Any = None,
    ) -> None:
        self.f, self.transforms, self.params, self.debug_info = f, transforms, params, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.f

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_wrapped(*args, **kwargs)

    def wrap(self, transform: Any) -> WrappedFun:
        return WrappedFun(self.f, (transform, *self.transforms), self.params, self.debug_info)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        call = functools.partial(self.f, **dict(self.params)) if self.params else self.f
        for transform in reversed(self.transforms):
            call = functools.partial(transform, call)
        return call(*args, **kwargs)
