"""`jax._src.custom_api_util`: decorators that keep what another decorator added to a function."""

from __future__ import annotations

from typing import Any

_custom_wrapper_types: set[type] = set()


def register_custom_decorator_type(cls: type) -> type:
    """Instances of `cls` have the attributes of what they wrap."""
    _custom_wrapper_types.add(cls)
    return cls


def forward_attr(self_: Any, name: str) -> Any:
    """The attribute of what `self_` wraps, if that is the instance of such a class; AttributeError
    if not."""
    wrapped = self_.__dict__.get("__wrapped__")
    if isinstance(wrapped, tuple(_custom_wrapper_types)) and name != "__wrapped__":
        return getattr(wrapped, name)
    raise AttributeError(f"{type(self_).__name__!r} object has no attribute {name!r}")
