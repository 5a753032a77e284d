"""The code of elementary functions that quick code calls (called.py): from this process, from disk,
or through LLVM. The usual ones are a module that comes with the first import on a machine; others
are compiled when a kernel first calls them, one by one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial

from pullback import config
from pullback.backends.llvm.cache import kernel_key
from pullback.backends.llvm.called import functions_text, mark
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.kept import found_text, load_text
from pullback.backends.llvm.loader import Code
from pullback.backends.llvm.table import FUNCTIONS_CALLED, provide
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.workshop import Job
from pullback.forking import renewed

__all__ = ["functions_of", "order_functions", "provide_functions", "provide_usual"]

# What a first call may want at once. The others are rare, or take LLVM long (the gamma function's
# logarithm 9 ms).
USUAL = tuple(
    "exp exp2 expm1 log log1p logistic pow cbrt sin cos tan atan2 tanh erf erfc erf_inv".split()
)
_RARE = tuple(op for op in FUNCTIONS_CALLED if op not in USUAL)
_have: set[str] = set()
_ordered: dict[str, Job] = {}  # on their way, by type
_lock = renewed(threading.RLock())


def functions_of(text: str) -> list[str]:
    """The functions that quick code of a kernel with this canonical text may call, but for usual
    ones of float32."""
    found = []
    doubles = ":f64=" in text
    for op in FUNCTIONS_CALLED if doubles else _RARE:
        double = text.count(f":f64={op} ") if doubles else 0
        if double:
            found.append(f"{op}_double")
        if op in _RARE and text.count(f"={op} ") > double:
            found.append(f"{op}_float")
    return found


def _types() -> Sequence[str]:
    """Of which types the first import has the usual functions compiled."""
    return ("float", "double") if config.enable_x64.get() else ("float",)


def _names(t: str) -> list[str]:
    return [f"{op}_{t}" for op in USUAL]


def _key(target: Target, name: str) -> str:
    return kernel_key("", target.key, f"functions/{name}" + os.environ.get("PULLBACK_LOADER", ""))


def _enter(names: Sequence[str], code: Code | JitCode) -> None:
    code.keep_forever()
    for name in names:
        provide(name, code.symbols[name])
        _have.add(name)


def order_functions(target: Target, publish: Callable[[Job], bool]) -> list[Job]:
    """Has the usual functions compiled beside us where the disk does not have them;
    `provide_usual` ends it. The jobs to wait for."""
    with _lock:
        for t in _types():
            if t in _ordered or _have.issuperset(_names(t)):
                continue
            code = found_text(_key(target, t))
            if code is not None:
                _enter(_names(t), code)
                continue
            job = Job(functions_text(target, _names(t)), 0)
            if publish(job):
                _ordered[t] = job
        return list(_ordered.values())


def provide_usual(target: Target) -> None:
    """Has the usual functions in this process."""
    with _lock:
        for t in _types():
            names = _names(t)
            if names[0] not in _have:
                text = partial(functions_text, target, names)
                code = load_text(text, target, 0, _key(target, t), _ordered.pop(t, None))
                _enter(names, code)


def provide_functions(target: Target, names: Sequence[str]) -> None:
    """Has other functions in this process, for quick code that calls them."""
    if not mark(target) or _have.issuperset(names):
        return
    with _lock:
        for name in names:
            if name not in _have:
                text = partial(functions_text, target, [name])
                _enter([name], load_text(text, target, 0, _key(target, name)))


def _after_fork() -> None:
    """Nobody in the child ends what the parent has published."""
    _ordered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
