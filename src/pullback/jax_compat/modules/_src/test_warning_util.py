"""`jax._src.test_warning_util`: what becomes of warnings in a block."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def raise_on_warnings() -> Iterator[None]:
    """Warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def record_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings are put into a list."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@contextlib.contextmanager
def ignore_warning(
    *, message: str | None = None, category: type[Warning] = Warning
) -> Iterator[None]:
    """Warnings of a class, whose message a pattern matches, are not shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message or "", category=category)
        yield
