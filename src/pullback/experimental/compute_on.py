"""Where parts of programs are computed: on CPUs, the device is the host, and so nothing moves."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

__all__ = ["compute_on", "compute_on2"]

_KINDS = re.compile(r"device_host|device|tpu_sparsecore|gpu_stream:\d+")


def _check(compute_type: Any) -> None:
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if not _KINDS.fullmatch(compute_type):
        raise ValueError(
            f"Invalid compute type {compute_type}. Fix: `device_host`, `device`, "
            "`tpu_sparsecore` or `gpu_stream:#`, with a number."
        )


class compute_on(contextlib.nullcontext[None], contextlib.ContextDecorator):
    """A context manager, and a decorator of functions: what is in the block is computed there, by
    the device itself, as it is without.

    `compute_type`: "device_host", "device", "tpu_sparsecore" or "gpu_stream:#". TypeError or
    ValueError for anything else.

    >>> from pullback.experimental.compute_on import compute_on
    >>> with compute_on("device_host"):
    ...     jnp.arange(3) * 2
    Array([0, 2, 4], dtype=int32)
    """

    def __init__(self, compute_type: str) -> None:
        _check(compute_type)
        super().__init__()
        self.compute_type = compute_type


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`f`, computed there: by the device itself, as it is without. A decorator without `f`.

    `compute_type` is as for `compute_on`; `out_memory_spaces` and `compiler_options` are for
    machines with several memories and compilers.

    >>> from pullback.experimental.compute_on import compute_on2
    >>> place = pb.memory.Space.Device
    >>> compute_on2(jnp.sin, compute_type="device_host", out_memory_spaces=place)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(
            compute_on2,
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    _check(compute_type)

    @functools.wraps(f)
    def there(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return there
