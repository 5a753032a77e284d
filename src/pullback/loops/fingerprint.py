"""The text of a program that determines what it is lowered to: equal texts are equal programs.

Only what is known to be told completely is told: a parameter of any other type, an effect, or an
array inside the program, and there is no text. Sources, names of variables and of functions do not
show.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.core.avals import ShapedArray
from pullback.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from pullback.loops.lower.program import CALLS

__all__ = ["equations", "fingerprint", "source_stamp"]


class _UntoldError(Exception):
    """Something in the program has no complete text."""


@lru_cache(maxsize=4096)
def _array_text(shape: tuple[Any, ...], dtype: Any, weak: bool) -> str:
    if not isinstance(dtype, np.dtype) or dtype.names:
        raise _UntoldError
    if not all(type(n) is int for n in shape):
        raise _UntoldError
    return f"{_name(dtype)}{shape}{'~' if weak else ''}"


@lru_cache(maxsize=256)
def _name(dtype: Any) -> str:
    """A dtype's name, which NumPy puts together anew each time."""
    return str(dtype.name)


class _Writer:
    """The lines of one program. `told` and `types`: the texts of the programs inside and of the
    types that have been met, by `id`: what is told lives as long as the program."""

    def __init__(self, told: dict[int, str], types: dict[int, str]) -> None:
        self.names: dict[int, str] = {}  # of variables, by `id`
        self.out: list[str] = []
        self.told, self.types = told, types

    def aval(self, a: Any) -> str:
        text = self.types.get(id(a))
        if text is None:
            if type(a) is not ShapedArray:
                raise _UntoldError
            text = self.types[id(a)] = _array_text(a.shape, a.dtype, a.weak_type)
        return text

    def define(self, v: Any) -> str:
        name = self.names[id(v)] = f"v{len(self.names)}"
        return f"{name}:{self.aval(v.aval)}"

    def atom(self, v: Any) -> str:
        if hasattr(v, "val"):
            return f"{self.value(v.val)}:{self.aval(v.aval)}"
        return self.names[id(v)]

    def value(self, v: Any) -> str:
        kind = type(v)
        if v is None or kind is int or kind is bool or kind is str:
            return repr(v)
        if kind is float:
            return str(v.hex())
        if kind is tuple or kind is list:
            return "(" + ",".join([self.value(x) for x in v]) + ")" if v else "()"
        if isinstance(v, np.dtype) and not v.names:
            return f"dtype {_name(v)}"
        if isinstance(v, np.generic | np.ndarray) and v.size == 1 and v.dtype.kind in "biufc":
            return f"{_name(v.dtype)}{v.shape} {v.tobytes().hex()}"
        if isinstance(v, enum.Enum):
            return f"{kind.__name__}.{v.name}"
        if isinstance(v, tuple) and hasattr(v, "_fields"):
            return kind.__name__ + "(" + ",".join([self.value(x) for x in v]) + ")"
        if kind is ClosedJaxpr or kind is Jaxpr:
            return self.inner(v)
        raise _UntoldError

    def inner(self, program: Any) -> str:
        text = self.told.get(id(program))
        if text is None:
            text = self.told[id(program)] = self.inner_text(program)
        return text

    def inner_text(self, program: Any) -> str:
        writer = _Writer(self.told, self.types)
        consts = ""
        if isinstance(program, ClosedJaxpr):
            consts = ",".join([self.value(c) for c in program.consts])
            program = program.jaxpr
        writer.jaxpr(program)
        return "{" + "\n".join(writer.out) + "}" + consts

    def jaxpr(self, jaxpr: Jaxpr) -> None:
        put = self.out.append
        if jaxpr.effects:
            raise _UntoldError
        for group in (jaxpr.constvars, jaxpr.invars):
            put(",".join([self.define(v) for v in group]))
        names, types = self.names, self.types
        for e in jaxpr.eqns:
            if e.effects:
                raise _UntoldError
            outs = []
            for v in e.outvars:
                at = names[id(v)] = f"v{len(names)}"
                outs.append(f"{at}:{types.get(id(v.aval)) or self.aval(v.aval)}")
            name, params = e.primitive.name, ""
            called = CALLS.get(name)
            if called in e.params:  # nothing but the program matters: it is put in place
                params = self.value(e.params[called])
            elif e.params:
                params = ",".join([f"{k}={self.value(v)}" for k, v in sorted(e.params.items())])
            ins = " ".join([names.get(id(v)) or self.atom(v) for v in e.invars])
            put(f"{' '.join(outs)}={name}[{params}] {ins}")
        put(" ".join([self.atom(v) for v in jaxpr.outvars]))


def fingerprint(closed: ClosedJaxpr, donated: Sequence[bool] = ()) -> str | None:
    """The text of a program and of which arguments it may overwrite; None if it has none."""
    writer = _Writer({}, {})
    try:
        writer.jaxpr(closed.jaxpr)
        for c in closed.consts:  # scalars become literals, arrays stay operands
            if getattr(c, "shape", ()) == ():
                writer.out.append(writer.value(np.asarray(c)))
    except _UntoldError:
        return None
    writer.out.append("".join("d" if d else "-" for d in donated).rstrip("-"))
    return "\n".join(writer.out)


def equations(program: Any) -> Iterator[JaxprEqn]:
    """The equations of a program and of the programs that these hold, in the order in which its
    text has them: those of equal texts are equal, one by one."""
    if isinstance(program, ClosedJaxpr):
        program = program.jaxpr
    if isinstance(program, tuple | list):
        for part in program:
            yield from equations(part)
    elif isinstance(program, Jaxpr):
        for e in program.eqns:
            yield e
            called = CALLS.get(e.primitive.name)
            inside = [called] if called in e.params else sorted(e.params)
            for name in inside:
                yield from equations(e.params[name])


def source_stamp() -> str:
    """Identifies the code that lowers programs, and what says of a primitive what it computes (the
    incomplete gamma function is a program of control/special.py): the sizes and times of files."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = (os.path.join(here, "..", name) for name in ("primitives", "control", "transforms"))
    parts = []
    for folder in (here, os.path.join(here, "lower"), *beside):
        with os.scandir(folder) as listing:
            files = [(e.name, e.stat()) for e in listing if e.name.endswith(".py")]
        parts += [f"{n}:{info.st_size}:{info.st_mtime_ns}" for n, info in sorted(files)]
    return "|".join(parts)
