"""`jax._src.deprecations`: what is deprecated warns, or raises once that is accelerated."""

from __future__ import annotations

import warnings

_accelerated: dict[str, bool] = {}


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


def _check(deprecation_id: str) -> None:
    if deprecation_id not in _accelerated:
        raise ValueError(f"deprecation_id={deprecation_id!r} not registered.")
