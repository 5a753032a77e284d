"""The making of StableHLO: contexts of MLIR and of rules. Needs jaxlib (`pip install
pullback[xla]`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.xla import library as _library
from ..backends.xla.contexts import LoweringRuleContext as LoweringRuleContext

_LATE: dict[str, Callable[[], Any]] = {
    "JaxIrContext": _library.context_class,
    "upstream_dialects": _library.upstream_dialects,
}


def __getattr__(name: str) -> Any:
    """What is jaxlib's is looked up when it is asked for."""
    if name in _LATE:
        return _LATE[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
