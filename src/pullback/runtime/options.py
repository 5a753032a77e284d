"""What `compiler_options` of a jitted function say: the number of its threads, and how much memory
it may take."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from .. import config, errors

__all__ = ["Options", "checked", "in_force", "memory_limit_of", "threads_of"]

OURS = "num_threads", "memory_limit"  # the latter in bytes
# What jit's options may be besides those of XLA, all of them of no consequence here.
_EFFORTS = (
    "exec_time_optimization_effort", "memory_fitting_effort", "optimization_level",
    "memory_fitting_level",
)  # fmt: skip
Options = tuple[tuple[str, Any], ...]  # the parameter `compiler_options_kvs` of a call


def checked(options: Any) -> Options:
    """The options as a call keeps them.

    TypeError for what is no dict, ValueError for a number of threads or of bytes that is not
    positive. Names are looked at when the program is run, as in JAX.
    """
    if options is None:
        return ()
    if isinstance(options, tuple):
        return options  # of a function that was pickled
    if not isinstance(options, dict):
        raise TypeError(
            f"compiler_options must be a dict of names and values, got {options!r}. "
            'Fix: compiler_options={"num_threads": 1}'
        )
    for name in OURS:
        value = options.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ValueError(f'compiler_options["{name}"] must be an int, got {value!r}')
        if value is not None and value < 1:
            raise ValueError(f'compiler_options["{name}"] must be positive, got {value!r}')
    return tuple(sorted((str(name), value) for name, value in options.items()))


def threads_of(options: Sequence[tuple[str, Any]]) -> int | None:
    """The number of threads that a call's options ask for. Options of XLA are of no consequence.

    JaxRuntimeError for a name that is none of them.
    """
    for name, _ in options:
        if name not in (*OURS, *_EFFORTS) and not name.startswith("xla_"):
            raise errors.JaxRuntimeError(
                f"INVALID_ARGUMENT: No such compile option: '{name}'. Fix: 'num_threads' and "
                "'memory_limit' are; options whose names begin with 'xla_' are accepted."
            )
    return dict(options).get("num_threads")


def memory_limit_of(options: Sequence[tuple[str, Any]]) -> int | None:
    """The bytes that a call's options allow its program, with arguments and results."""
    return dict(options).get("memory_limit") if options else None


def in_force(options: Sequence[tuple[str, Any]]) -> contextlib.AbstractContextManager[None]:
    """A block whose calls follow these options."""
    threads = threads_of(options)
    return contextlib.nullcontext() if threads is None else config.num_threads(threads)
