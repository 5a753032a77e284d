"""`jax._src.compiler`: the function that turns a program into an executable."""

from __future__ import annotations

from typing import Any

from ....runtime.dispatch import executable


def backend_compile_and_load(backend: Any, module: Any, *options: Any, **more: Any) -> Any:
    """Compiles a closed jaxpr."""
    return executable(module)
