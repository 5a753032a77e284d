"""Callbacks: Python is called, here and now."""

from __future__ import annotations

from typing import Any

from ...primitives import callback as cb
from .table import rule


@rule(cb.pure_callback_p)
def pure_callback(*arrays: Any, callback: Any, result_avals: Any, **_: Any) -> list[Any]:
    return cb.call_python("pure_callback", callback, arrays, result_avals)


@rule(cb.io_callback_p)
def io_callback(*arrays: Any, callback: Any, result_avals: Any, **_: Any) -> list[Any]:
    return cb.call_python("io_callback", callback, arrays, result_avals)


@rule(cb.debug_callback_p)
def debug_callback(*arrays: Any, callback: Any, **_: Any) -> list[Any]:
    return cb.call_python("debug_callback", callback, arrays, ())


@rule(cb.debug_print_p)
def debug_print(*arrays: Any, **params: Any) -> list[Any]:
    cb.print_now(*arrays, **params)
    return []
