"""`jax._src.deprecations`: what is deprecated warns, or raises once that is accelerated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_accelerated: dict[str, bool] = dict.fromkeys(
    [
        "jax-array-numpy-dtype",
        "jax-array-positional-args",
        "jax-nn-one-hot-float-input",
        "jax-numpy-astype-complex-to-real",
        "jax-pallas-call-mgpu",
        "jax-pallas-mgpu-shapes-types",
    ],
    False,
)
_accelerated_names: set[tuple[str, str]] = set()


def register(deprecation_id: str) -> None:
    """Makes a deprecation known."""
    _accelerated.setdefault(deprecation_id, False)


def unregister(deprecation_id: str) -> None:
    """Forgets a deprecation. Raises ValueError for one that is not known."""
    _check(deprecation_id)
    del _accelerated[deprecation_id]


def accelerate(deprecation_id: str) -> None:
    """From now on `warn` raises. Raises ValueError for a deprecation that is not known."""
    _check(deprecation_id)
    _accelerated[deprecation_id] = True


def is_accelerated(deprecation_id: str) -> bool:
    """Whether `warn` raises. Raises ValueError for a deprecation that is not known."""
    _check(deprecation_id)
    return _accelerated[deprecation_id]


def warn(
    deprecation_id: str,
    message: str,
    stacklevel: int,
    *,
    error_class: type[Exception] = ValueError,
) -> None:
    """A DeprecationWarning; an error of the class where the deprecation is accelerated."""
    if is_accelerated(deprecation_id):
        raise error_class(message)
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


def accelerate_getattr_deprecation(module: ModuleType, name: str) -> None:
    """From now on a module does without a deprecated name."""
    _accelerated_names.add((module.__name__, name))


def is_accelerated_attribute(module: ModuleType, name: str) -> bool:
    """Whether a module does without a deprecated name."""
    return (module.__name__, name) in _accelerated_names


def deprecation_getattr(
    module: str, deprecations: Mapping[str, tuple[str, Any]]
) -> Callable[[str], Any]:
    """A module's `__getattr__`: names with a message and a value warn; without a value, or once
    they are accelerated, they are an AttributeError.
    """

    def get(name: str) -> Any:
        if name not in deprecations:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message, value = deprecations[name]
        if value is None or (module, name) in _accelerated_names:
            raise AttributeError(message)
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return value

    return get


def _check(deprecation_id: str) -> None:
    if deprecation_id not in _accelerated:
        raise ValueError(f"deprecation_id={deprecation_id!r} not registered.")
