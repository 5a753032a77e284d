"""`jax._src.compute_on`: where parts of programs are computed. There is one kind of place here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

_TYPES = ("device_host", "device", "tpu_sparsecore")


def _check(compute_type: str) -> None:
    if compute_type not in _TYPES and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, "
            "`device`, `tpu_sparsecore`, and `gpu_stream:#`."
        )


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """The block, or the function that it decorates, is computed there."""
    _check(compute_type)
    yield


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: Any = None,
) -> Callable[..., Any]:
    """A function that is computed there."""
    _check(compute_type)
    if f is None:
        return lambda fun: compute_on2(
            fun, compute_type=compute_type, out_memory_spaces=out_memory_spaces
        )
    return functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs))
