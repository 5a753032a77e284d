"""The flags on a program's command line, for programs that read theirs with absl
(`--jax_enable_x64=true`). absl is imported when they ask for it: it comes with them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import config

__all__ = ["complete", "define", "parse"]


def _absl(part: str) -> Any:
    return importlib.import_module(f"absl.{part}")


def define() -> None:
    """Makes every flag one of absl's; once the program's flags are read, they have effect here."""
    flags = _absl("flags")
    for flag in config.FLAGS.values():
        if flag.name in flags.FLAGS:
            continue
        kinds = (bool, flags.DEFINE_bool), (int, flags.DEFINE_integer), (float, flags.DEFINE_float)
        make = next((f for kind, f in kinds if isinstance(flag.default, kind)), flags.DEFINE_string)
        make(flag.name, flag.value, flag.doc)
    _absl("app").call_after_init(complete)


def complete() -> None:
    """Takes over what the command line said."""
    given = _absl("flags").FLAGS
    for name in config.FLAGS:
        if name in given and given[name].present:
            config.update(name, given[name].value)


def parse() -> None:
    """Reads the flags that are known, and leaves the others to the program."""
    define()
    _absl("flags").FLAGS(sys.argv, known_only=True)
    complete()
