"""Programs, not operations: abstract values, primitives, traces, and the jaxpr grammar.

The names that users see (`pullback.core.Tracer` and so on) are those of core/public.
"""

from typing import Any

from ..removed import no_attribute as _no_attribute
from . import public as public


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        try:
            return getattr(public, name)
        except AttributeError:
            pass
    raise _no_attribute(__name__, name)
