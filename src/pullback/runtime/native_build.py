"""A small writer of textual LLVM IR for the runtime's own native code (slots of heap types, call
stubs, the allocator).

The code is linked without symbols (see `backends/llvm/loader.py`), so whatever lies outside is
reached through one read-only table of addresses, `@pb_table`: the linked image holds a magic
number where the table starts, and the loader in `native.py` writes the process's addresses behind
it before the pages are sealed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from pullback.runtime.native_table import EXTERNALS, MAGIC, STATE_ENTRY, TABLE_WORDS

__all__ = ["LEVELS", "PASSES", "Fn", "module_text"]

# What LLVM does with this code before it makes machine code of it: small functions become a part of
# their callers and, in what calls run, locals registers. No pass may write a call of the C library
# (there is no linker).
PASSES = {True: ("AlwaysInliner", "SROA"), False: ("AlwaysInliner",)}
LEVELS = {True: 2, False: 0}  # of LLVM's code generation, for what is hot and what is not

_INDEX = {name.lstrip("&*"): 2 + k for k, name in enumerate(EXTERNALS)}

_VARIADIC = {
    "PyObject_CallFunctionObjArgs": "ptr (ptr, ...)",
    "PyObject_CallFunction": "ptr (ptr, ptr, ...)",
}

# CPython 3.11 has no immortal objects and plain counts: there reference counting is inline,
# elsewhere by exported functions.
_INLINE_REFCOUNT = sys.version_info[:2] == (3, 11)


def _table(word: int) -> str:
    return f"getelementptr (i8, ptr @pb_table, i64 {8 * word})"


class Fn:
    """One function under construction. Values are IR operands as text; labels are given by name."""

    def __init__(
        self,
        name: str,
        ret: str,
        args: str,
        internal: bool = False,
        inline: bool = False,
        hot: bool = False,
    ) -> None:
        """`args` reads `ptr a, i64 n`; what is to be `inline` is internal too. `hot` is what calls
        of compiled programs run: the rest is LLVM's quick work."""
        parts = [a.split() for a in args.split(",") if a.strip()]
        linkage = "internal" if inline else "hidden" if internal else "dso_local"
        how = "alwaysinline nounwind" if inline else "nounwind"
        joined = ", ".join(f"{t} %{n}" for t, n in parts)
        self.name, self.inline, self.hot = name, inline, hot
        self.calls: set[str] = set()  # of our functions
        kinds = ", ".join(t for t, _ in parts)
        self.declaration = f"declare {linkage} {ret} @{name}({kinds})"
        self._head = f"define {linkage} {ret} @{name}({joined}) {how} {{\nentry:"
        self._lines: list[str] = []
        self._locals: list[str] = []
        self._count = 0

    def v(self, text: str) -> str:
        """An instruction with a result."""
        self._count += 1
        self._lines.append(f" %v{self._count} = {text}")
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(" " + text)

    def at(self, label: str) -> None:
        """Starts a block."""
        self._lines.append(label + ":")

    def go(self, label: str) -> None:
        self.do(f"br label %{label}")

    def br(self, condition: str, yes: str, no: str) -> None:
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def when(self, condition: str, target: str) -> None:
        """Leaves for `target` if the condition holds, else goes on."""
        self._count += 1
        self.br(condition, target, f"on{self._count}")
        self.at(f"on{self._count}")

    def unless(self, condition: str, target: str) -> None:
        self._count += 1
        self.br(condition, f"on{self._count}", target)
        self.at(f"on{self._count}")

    def loop(self, name: str, n: str, body: Callable[[str], None]) -> None:
        """for i < n; the body may `go` to `<name>_next`."""
        i = self.local("i64")
        self.st("i64", 0, i)
        self.go(name)
        self.at(name)
        k = self.ld("i64", i)
        self.br(self.cmp("slt", k, n), name + "_body", name + "_end")
        self.at(name + "_body")
        body(k)
        self.go(name + "_next")
        self.at(name + "_next")
        self.bump(i, 0, 1)
        self.go(name)
        self.at(name + "_end")

    def ret(self, value: str = "void") -> None:
        self.do(f"ret {value}")

    def gep(self, base: str, offset: int | str) -> str:
        return self.v(f"getelementptr i8, ptr {base}, i64 {offset}")

    def idx(self, base: str, index: str) -> str:
        """The address of a word of an array of words."""
        return self.v(f"getelementptr i64, ptr {base}, i64 {index}")

    def ld(self, kind: str, base: str, offset: int = 0) -> str:
        p = self.gep(base, offset) if offset else base
        return self.v(f"load {kind}, ptr {p}")

    def st(self, kind: str, value: str | int, base: str, offset: int = 0) -> None:
        p = self.gep(base, offset) if offset else base
        self.do(f"store {kind} {value}, ptr {p}")

    def var(self, kind: str, value: str | int) -> str:
        """A local variable."""
        p = self.local(kind)
        self.do(f"store {kind} {value}, ptr {p}")
        return p

    def local(self, kind: str) -> str:
        """An uninitialised local variable; it lies in the entry block, so that loops do not eat
        the stack."""
        self._count += 1
        self._locals.append(f" %v{self._count} = alloca {kind}")
        return f"%v{self._count}"

    def op(self, name: str, a: str | int, b: str | int, kind: str = "i64") -> str:
        return self.v(f"{name} {kind} {a}, {b}")

    def cmp(self, how: str, a: str | int, b: str | int, kind: str = "i64") -> str:
        return self.v(f"icmp {how} {kind} {a}, {b}")

    def is_null(self, p: str) -> str:
        return self.v(f"icmp eq ptr {p}, null")

    def bump(self, base: str, offset: int, by: str | int) -> str:
        """Adds to a word in memory; the new value."""
        new = self.op("add", self.ld("i64", base, offset), by)
        self.st("i64", new, base, offset)
        return new

    def state(self) -> str:
        return self.v(f"load ptr, ptr {_table(STATE_ENTRY)}")

    def ext(self, name: str) -> str:
        """The address of an external function or object."""
        return self.v(f"load ptr, ptr {_table(_INDEX[name])}")

    def call(self, ret: str, name: str, *args: str, internal: bool = False) -> str:
        """Calls an external (or, if `internal`, one of our functions); `args` read `ptr %a`."""
        target = self.address(name) if internal else self.ext(name)
        kind = _VARIADIC.get(name, ret)
        text = f"call {kind} {target}({', '.join(args)})"
        if ret == "void":
            self.do(text)
            return ""
        return self.v(text)

    def address(self, name: str) -> str:
        """Where one of our functions lies."""
        self.calls.add(name)
        return "@" + name

    def own(self, ret: str, name: str, *args: str) -> str:
        return self.call(ret, name, *args, internal=True)

    def incref(self, p: str) -> None:
        if _INLINE_REFCOUNT:
            self.bump(p, 0, 1)
        else:
            self.call("void", "Py_IncRef", f"ptr {p}")

    def decref(self, p: str) -> None:
        if not _INLINE_REFCOUNT:
            self.call("void", "Py_DecRef", f"ptr {p}")
            return
        zero = self.cmp("eq", self.bump(p, 0, -1), 0)
        self._count += 1
        n = self._count
        self.br(zero, f"die{n}", f"live{n}")
        self.at(f"die{n}")
        self.call("void", "_Py_Dealloc", f"ptr {p}")
        self.go(f"live{n}")
        self.at(f"live{n}")

    def xdecref(self, p: str) -> None:
        """Gives up a reference that may be null."""
        self._count += 1
        n = self._count
        self.br(self.is_null(p), f"none{n}", f"some{n}")
        self.at(f"some{n}")
        self.decref(p)
        self.go(f"none{n}")
        self.at(f"none{n}")

    def fail(self, exception: str, message: str) -> None:
        """Sets an exception; the caller returns."""
        kind = self.ext("PyExc_" + exception)
        self.call("void", "PyErr_SetString", f"ptr {kind}", f"ptr {string(message)}")

    def text(self) -> str:
        return "\n".join([self._head, *self._locals, *self._lines, "}", ""])


_strings: dict[str, str] = {}


def string(text: str) -> str:
    """A constant C string."""
    if text not in _strings:
        _strings[text] = f"@pb_s{len(_strings)}"
    return _strings[text]


def module_text(functions: Sequence[Fn], triple: str, hot: bool) -> str:
    """The module of what is hot among functions, or of the rest. Each has the small functions that
    become a part of their callers; what else it calls is linked to it, and the table is in the
    hot one."""
    words = [*MAGIC, *[0] * (TABLE_WORDS - 2)]
    numbers = ", ".join(f"i64 {w}" for w in words)
    table = f"constant [{TABLE_WORDS} x i64]"
    parts = [
        f'target triple = "{triple}"',
        f"@pb_table = hidden externally_initialized {table} [{numbers}], align 16"
        if hot
        else f"@pb_table = external hidden {table}, align 16",
        "declare i64 @llvm.ctlz.i64(i64, i1)",
        "declare i64 @llvm.umax.i64(i64, i64)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare ptr @llvm.ptrmask.p0.i64(ptr, i64)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    inside = [f for f in functions if f.inline or f.hot == hot]
    known = {f.name: f for f in functions}
    outside = {name for f in inside for name in f.calls} - {f.name for f in inside}
    parts += [known[name].declaration for name in sorted(outside)]
    body = "\n".join(f.text() for f in inside)
    for text, name in _strings.items():
        if name + ")" not in body and name + "," not in body:
            continue
        data = text.encode() + b"\0"
        escaped = "".join(f"\\{b:02x}" for b in data)
        parts.append(f'{name} = internal constant [{len(data)} x i8] c"{escaped}"')
    return "\n".join([*parts, body])
