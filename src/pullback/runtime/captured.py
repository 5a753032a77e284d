"""Arrays that functions close over and that become constants of their programs: a warning where
they are large."""

from __future__ import annotations

import warnings

from .. import config
from ..core.jaxpr import ClosedJaxpr

__all__ = ["warn_of_constants"]


def warn_of_constants(closed: ClosedJaxpr) -> None:
    """Warns, once for a program, if its constants take more bytes than the flag
    `jax_captured_constants_warn_bytes` allows (-1: any number)."""
    most = config.captured_constants_warn_bytes.get()
    if most < 0 or not closed.consts or "captured" in closed.derived:
        return
    closed.derived["captured"] = True
    total = sum(int(getattr(x, "nbytes", 0)) for x in closed.consts)
    if total > most:
        warnings.warn(
            f"A large amount of constants were captured during lowering ({total:,} bytes in all): "
            "arrays that the function closes over are part of its program. Fix: pass them as "
            "arguments; or allow it with JAX_CAPTURED_CONSTANTS_WARN_BYTES=-1.",
            stacklevel=2,
        )
