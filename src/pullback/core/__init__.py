"""Programs, not operations: abstract values, primitives, traces, and the jaxpr grammar.

The names that users see (`pullback.core.Tracer` and so on) are those of core/public.
"""

from typing import Any

from . import public as public


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        try:
            return getattr(public, name)
        except AttributeError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
