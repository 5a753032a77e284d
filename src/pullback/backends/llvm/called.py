"""Elementary functions of full vectors as functions, which quick code calls: LLVM sees a line
instead of twenty to four hundred. They are compiled once per machine (calledcode.py) by the same
emitter that writes them into good code, so that both give the same bits.

A function takes the context and one register for each operand. Its address is in the context's
table, for one target a process: code for another target, and where nothing is kept on disk, has the
functions' bodies in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm import maths_special
from pullback.backends.llvm.build import FUNCTION_ATTRIBUTES, TABLE_READ, Builder, Val
from pullback.backends.llvm.literals import BITS
from pullback.backends.llvm.table import FUNCTIONS_CALLED, function_offset
from pullback.backends.llvm.target import Target

__all__ = ["call_functions", "call_of", "calls", "functions_text", "mark"]

_TYPES = ("float", "double")
_OF_TWO = frozenset({"pow", "atan2"})
_target: list[str] = [""]  # the key of the one whose functions are called


def _name(op: str, t: str) -> str:
    """Of a function in the table, and in its module."""
    return f"{op}_{t}"


def mark(target: Target) -> str:
    """What tells in the keys of kernels and programs that their code may call."""
    return "calls" if _target[0] == target.key else ""


def call_of(b: Builder, op: str, args: Sequence[Val]) -> Val | None:
    """A function's value by calls, one for each register. None where its body must be written: in
    good code, for what fills no register, and where no functions are kept."""
    t, n = args[0].t, max(a.n for a in args)
    if not b.calls or op not in FUNCTIONS_CALLED or t not in _TYPES or n == 1:
        return None
    if n != b.target.lanes(BITS[t] // 8) or _target[0] != b.target.key:
        return None
    pointer = b.from_table(function_offset(_name(op, t)))
    operands = ", ".join(f"{{T}} {{{k}}}" for k in range(len(args)))
    return b.pure(f"call {{R}} {pointer}(ptr %ctx, {operands})", args, t)


def calls(text: str) -> bool:
    """Whether a kernel's module calls such functions: good code would differ."""
    return TABLE_READ in text


def functions_text(target: Target, names: Sequence[str]) -> str:
    """The module of some functions."""
    declarations: dict[str, str] = {}
    parts = [name.rpartition("_") for name in names]
    functions = [_function(target, op, t, declarations) for op, _, t in parts]
    head = f'target triple = "{target.triple}"\n'
    return head + "\n".join([*declarations.values(), *functions])


def _function(target: Target, op: str, t: str, declarations: dict[str, str]) -> str:
    n = target.lanes(BITS[t] // 8)
    names = ["%x", "%y"][: 2 if op in _OF_TWO else 1]
    one = f"<{n} x {t}>"
    parts = "".join(f", {one} {x}" for x in names)
    head = f"define {one} @{_name(op, t)}(ptr %ctx{parts}) {FUNCTION_ATTRIBUTES}"
    b = Builder(target, head, declarations)
    value = maths_special.emit(b, op, [Val(b, t, n, (x,)) for x in names])
    b.line(f"ret {one} {value.regs[0]}")
    return b.text()


def call_functions(target: Target | None) -> None:
    """From now on quick code for a target calls functions, or for none: who loads such code
    provides them."""
    _target[0] = "" if target is None else target.key
