"""What users do wrong: the class of the error is JAX's, and the message names what was wrong, on
which line, and what to write instead. The tables are fault_table.py and fault_table_control.py."""

from __future__ import annotations

import re
import traceback
import warnings
from typing import Any

import fault_table_control
import jax
import jax.numpy
import numpy as np
import pytest
from fault_table import Fault, rows

import pullback
import pullback.lax
import pullback.numpy
import pullback.random

FILE = "user_program.py"
FIX = re.compile(
    r"\bFix:|\binstead\b|\bUse\b|\buse\b|\bmust\b|\bshould\b|\bTry\b|\bRevise\b|\bplease\b|\bPlease\b"
    r"|\bPass\b|\bexpected\b|\baccept|\bdefine\b"
)


def run(fault: Fault, library: Any) -> BaseException | None:
    """The error that a snippet raises in a library."""
    names = {"jax": library, "jnp": library.numpy, "lax": library.lax, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of donated arrays that it cannot use
        try:
            exec(compile(fault.code, FILE, "exec"), names)
        except Exception as error:
            return error
    return None


def public_name(error: BaseException) -> str | None:
    """The error's name, if it is one of the public classes of jax.errors."""
    name = type(error).__name__
    return name if hasattr(jax.errors, name) else None


def builtin_class(error: BaseException) -> type:
    """The nearest of Python's own classes."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


CONTROL = rows(fault_table_control.TEXT)


@pytest.mark.parametrize("fault", [*rows(), *CONTROL], ids=lambda f: f.name)
def test_fault(fault: Fault) -> None:
    expected = run(fault, jax)
    error = run(fault, pullback)
    assert expected is not None, "JAX accepts this"
    assert error is not None, f"accepted; JAX raises {expected!r}"
    shown = "".join(traceback.format_exception(error))
    if not isinstance(expected, AssertionError):  # where JAX asserts, we say what is wrong
        assert isinstance(error, builtin_class(expected)), f"JAX: {expected!r}\n{shown}"
    if public_name(expected):
        assert type(error).__name__ == public_name(expected), shown
    message = str(error)
    for word in fault.says:
        assert word in message, shown
    assert "internal error" not in message, shown
    assert fault.python or FIX.search(message), f"no fix in the message:\n{shown}"
    line = 1 + next(k for k, text in enumerate(fault.code.splitlines()) if "# fault" in text)
    if fault.line:
        assert f"{FILE}:{line}" in message, shown
    else:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
        assert frames[-1] == line, shown


def test_the_tables_are_large() -> None:
    for table, least in ((rows(), 60), (CONTROL, 80)):
        names = [fault.name for fault in table]
        assert len(names) == len(set(names)) >= least
