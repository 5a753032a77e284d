"""What `compiler_options` of a jitted function say: the number of its threads."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from .. import config, errors

__all__ = ["Options", "checked", "in_force", "threads_of"]

Options = tuple[tuple[str, Any], ...]  # the parameter `compiler_options_kvs` of a call


def checked(options: Any) -> Options:
    """The options as a call keeps them.

    TypeError for what is no dict, ValueError for a number of threads that is not positive. Names
    are looked at when the program is run, as in JAX.
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
    threads = options.get("num_threads")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
        raise ValueError(f'compiler_options["num_threads"] must be an int, got {threads!r}')
    if threads is not None and threads < 1:
        raise ValueError(f'compiler_options["num_threads"] must be positive, got {threads!r}')
    return tuple(sorted((str(name), value) for name, value in options.items()))


def threads_of(options: Sequence[tuple[str, Any]]) -> int | None:
    """The number of threads that a call's options ask for. Options of XLA are of no consequence.

    JaxRuntimeError for a name that is none of them.
    """
    threads = None
    for name, value in options:
        if name == "num_threads":
            threads = value
        elif not name.startswith("xla_"):
            raise errors.JaxRuntimeError(
                f"INVALID_ARGUMENT: No such compile option: '{name}'. Fix: 'num_threads' is one; "
                "options whose names begin with 'xla_' are accepted."
            )
    return threads


def in_force(options: Sequence[tuple[str, Any]]) -> contextlib.AbstractContextManager[None]:
    """A block whose calls follow these options."""
    threads = threads_of(options)
    return contextlib.nullcontext() if threads is None else config.num_threads(threads)
