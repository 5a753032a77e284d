"""How tables of elementwise functions are made: one entry is a name, an operation, a docstring."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import config
from ..api.jit import jit
from ..lazy_imports import lazy_module
from .util import promote_args, promote_args_inexact

noting: Any = lazy_module("pullback.numpy.error_check")

# What all functions of a table have in common; it stands between summary and example.
OF_FLOATS = """
    `x`: an array or number of any shape; integers and bools are taken as floats. The result has
    the shape of `x`."""

OF_ANY = """
    `x`: an array or number of any shape. The result has the shape of `x`."""

OF_PAIRS = """
    `x1`, `x2`: arrays or numbers, promoted to one dtype and broadcast. Raises TypeError if their
    shapes do not fit."""

# Functions whose results that are not numbers are noted under the flag
# jax_error_checking_behavior_nan.
_NAN_IS_NOTED = frozenset(
    "log log1p log2 log10 sin cos tan arcsin arccos arccosh arctanh sqrt add subtract "
    "true_divide".split()
)


def documented(doc: str, about: str) -> str:
    """A docstring of a table's entry, with what is true of the whole table."""
    summary, blank, example = doc.partition("\n\n")
    return f"{summary}\n{about}{blank}{example}"


def unary(
    name: str,
    op: Callable[[Any], Any],
    doc: str,
    promote: Any = promote_args_inexact,
    named: bool = False,
) -> Any:
    noted = name in _NAN_IS_NOTED

    def f(x: Any, /) -> Any:
        if config.noting and noted:
            return noting_nan(op(*promote(name, x)))
        return op(*promote(name, x))

    f.__name__ = f.__qualname__ = name
    f.__module__ = _asking_module()
    f.__doc__ = documented(doc, OF_FLOATS if promote is promote_args_inexact else OF_ANY)
    return jit(f) if named else f


def binary(name: str, op: Callable[[Any, Any], Any], doc: str, promote: Any = promote_args) -> Any:
    noted = name in _NAN_IS_NOTED

    def f(x1: Any, x2: Any, /) -> Any:
        if config.noting and noted:
            x1, x2 = promote(name, x1, x2)
            if name == "true_divide":
                noting.note_zero(x2)
            return noting_nan(op(x1, x2))
        return op(*promote(name, x1, x2))

    f.__name__ = f.__qualname__ = name
    f.__module__ = _asking_module()
    f.__doc__ = documented(doc, OF_PAIRS)
    return f


def _asking_module() -> str:
    """The module that is having a function made: pickles look for it there."""
    return str(sys._getframe(2).f_globals["__name__"])


def noting_nan(x: Any) -> Any:
    noting.note_nan(x)
    return x
