"""LLVM's library on its way: a native thread maps it while Python imports the package, and has it
compile a first function.

Mapping takes 5 ms of a process (a hundred thousand addresses are relocated), and the first function
3 ms more than the next ones: half of a small program's first call. The thread never enters Python.
Who asks for the library waits until the thread is done, and takes over its LLVM context and target
machine; a fork and the end of the process wait too.

While the first program was being lowered, which is later, the first function gained nothing: both
threads then touched the same memory for the first time.

Block: 0 state (2: done, or not to be had) | 8 dlopen | 16 dlsym | 24 path | 32 syscall
       40 initialised | 48 context | 56 machine | 64 message | 72 triple | 80 processor
       88 features | 96 text of the first function | 104 "pic" | 112 "small" | 120 ""
       128 the names of LLVM's functions
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable
from ctypes import c_int64

from pullback.backends.llvm import os_shim
from pullback.backends.llvm.target import Target
from pullback.forking import Gate, renewed

__all__ = ["NATIVE_TEXT", "begin", "compiler", "mapped"]

DONE = 2
PATIENCE = 60.0  # seconds that somebody waits for the library
LEVEL = 0  # of LLVM's code generation: that of first calls
# Words of the block.
STATE, INITIALISED, CONTEXT, MACHINE, MESSAGE, STRINGS, FUNCTIONS = 0, 5, 6, 7, 8, 9, 16
# What the thread calls of the library.
_CALLS = (
    "InitializeNativeTarget", "InitializeNativeAsmPrinter", "ContextCreate", "GetTargetFromTriple",
    "CreateTargetMachine", "ParseAssembly", "TargetMachineEmitToMemory", "DisposeMemoryBuffer",
    "DisposeModule",
)  # fmt: skip


def _native_text() -> str:
    """The function that the thread runs."""
    lines: list[str] = []

    def word(name: str, k: int) -> None:
        lines.append(f" %{name}p = getelementptr i8, ptr %block, i64 {8 * k}")
        lines.append(f" %{name} = load ptr, ptr %{name}p")

    def needed(name: str, then: str) -> None:
        lines.append(f" %no{name} = icmp eq ptr %{name}, null")
        lines.append(f" br i1 %no{name}, label %say, label %{then}\n{then}:")

    for name, k in (("open", 1), ("find", 2), ("path", 3), ("sys", 4)):
        word(name, k)
    for k, name in enumerate(("triple", "cpu", "features", "text", "pic", "small", "none")):
        word(name, STRINGS + k)
    for name, k in (("initialised", INITIALISED), ("context", CONTEXT), ("machine", MACHINE)):
        lines.append(f" %{name}p = getelementptr i8, ptr %block, i64 {8 * k}")
    lines.append(f" %message = getelementptr i8, ptr %block, i64 {8 * MESSAGE}")
    lines.append(" %handle = call ptr %open(ptr %path, i32 2)")
    needed("handle", "f0")
    for k in range(len(_CALLS)):
        word(f"name{k}", FUNCTIONS + k)
        lines.append(f" %call{k} = call ptr %find(ptr %handle, ptr %name{k})")
        needed(f"call{k}", f"f{k + 1}")
    lines += [
        " %i = call i32 %call0()",
        " %j = call i32 %call1()",
        " store i64 1, ptr %initialisedp",
        " %context = call ptr %call2()",
        " %target = call ptr %call3(ptr %triple, ptr %message)",
    ]
    needed("target", "make")
    lines.append(
        " %machine = call ptr %call4(ptr %target, ptr %triple, ptr %cpu, ptr %features, "
        f"i32 {LEVEL}, ptr %pic, ptr %small, i32 0, i32 1, ptr %none)"
    )
    needed("machine", "parse")
    lines.append(" %module = call ptr %call5(ptr %context, ptr %text, ptr %message)")
    needed("module", "emit")
    lines.append(" %object = call ptr %call6(ptr %machine, ptr %module, i32 1, ptr %message)")
    lines.append(" call void %call8(ptr %module)")
    needed("object", "keep")
    lines += [
        " call void %call7(ptr %object)",
        " store ptr %context, ptr %contextp",
        " store ptr %machine, ptr %machinep",
        " br label %say\nsay:",
        " store atomic i32 2, ptr %block release, align 8",
        " %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %block, i64 129, i32 2147483647)",
        " ret void",
    ]
    body = "\n".join(lines)
    return f"\ndefine void @pb_preload(ptr %block) nounwind {{\nentry:\n{body}\n}}\n"


NATIVE_TEXT = _native_text()


def _first_function(target: Target) -> str:
    """What the thread compiles: a sum with a bit of everything that small kernels have."""
    n = target.lanes(4)
    half = n // 2
    t, w, bits, h = f"<{n} x float>", f"<{n} x i32>", f"<{n} x i1>", f"<{half} x float>"
    low, high = (", ".join(f"i32 {k + s}" for k in range(half)) for s in (0, half))
    steps = ", ".join(f"i32 {k}" for k in range(n))
    return f"""target triple = "{target.triple}"
declare i64 @llvm.smin.i64(i64, i64)
declare {t} @llvm.fma.v{n}f32({t}, {t}, {t})
declare {t} @llvm.masked.load.v{n}f32.p0(ptr, i32, {bits}, {t})
declare void @llvm.masked.store.v{n}f32.p0({t}, ptr, i32, {bits})
define i32 @first(ptr %ctx, ptr %buffers, ptr %dims, ptr %scalars) nounwind {{
entry:
 %x = load ptr, ptr %buffers, align 8
 %yp = getelementptr i8, ptr %buffers, i64 8
 %y = load ptr, ptr %yp, align 8
 %n = load i64, ptr %dims, align 8
 %f = load float, ptr %scalars, align 4
 %f0 = insertelement {t} poison, float %f, i64 0
 %fs = shufflevector {t} %f0, {t} poison, {w} zeroinitializer
 %some = icmp slt i64 0, %n
 br i1 %some, label %loop, label %end
loop:
 %i = phi i64 [ 0, %entry ], [ %k, %loop ]
 %sum = phi {t} [ zeroinitializer, %entry ], [ %next, %loop ]
 %left = sub i64 %n, %i
 %few = call i64 @llvm.smin.i64(i64 %left, i64 {n})
 %l = trunc i64 %few to i32
 %l0 = insertelement {w} poison, i32 %l, i64 0
 %ls = shufflevector {w} %l0, {w} poison, {w} zeroinitializer
 %m = icmp slt {w} <{steps}>, %ls
 %at = getelementptr i32, ptr %x, i64 %i
 %a = call {t} @llvm.masked.load.v{n}f32.p0(ptr %at, i32 4, {bits} %m, {t} zeroinitializer)
 %b = call {t} @llvm.fma.v{n}f32({t} %a, {t} splat (float 1.5), {t} %fs)
 %c = fsub {t} %b, splat (float 1.5)
 %e = bitcast {t} %c to {w}
 %g = sub {w} %e, splat (i32 8388608)
 %u = ashr {w} %g, splat (i32 23)
 %q = sitofp {w} %u to {t}
 %r = fneg {t} %q
 %s = fmul {t} %r, %c
 %big = fcmp ogt {t} %s, splat (float 2.5)
 %v = select {bits} %big, {t} %a, {t} %s
 %to = getelementptr i32, ptr %y, i64 %i
 call void @llvm.masked.store.v{n}f32.p0({t} %v, ptr %to, i32 4, {bits} %m)
 %next = fadd {t} %sum, %v
 %k = add i64 %i, {n}
 %more = icmp slt i64 %k, %n
 br i1 %more, label %loop, label %end
end:
 %all = phi {t} [ zeroinitializer, %entry ], [ %next, %loop ]
 %low = shufflevector {t} %all, {t} poison, <{half} x i32> <{low}>
 %high = shufflevector {t} %all, {t} poison, <{half} x i32> <{high}>
 %both = fadd {h} %low, %high
 %one = extractelement {h} %both, i64 0
 store float %one, ptr %y, align 4
 ret i32 0
}}
"""


class _Preload(Gate):
    """A thread that maps the library at `path`; `wait(block, word)` returns when a word of the
    block may have become 2."""

    def __init__(
        self, path: str, target: Target, serve: int, wait: Callable[[int, int], None]
    ) -> None:
        super().__init__()
        self._wait, self.target = wait, target
        names = ["LLVMPY_" + name for name in _CALLS]
        texts = target.triple, target.cpu, target.features, _first_function(target)
        strings = [path, *texts, "pic", "small", "", *names]
        self._strings = [ctypes.create_string_buffer(os.fsencode(s)) for s in strings]
        at = [ctypes.addressof(s) for s in self._strings]
        calls = [os_shim.address_of(name) for name in ("dlopen", "dlsym", "syscall")]
        words = [0, *calls[:2], at[0], calls[2], *[0] * (STRINGS - INITIALISED), *at[1:]]
        self._block = (c_int64 * len(words))(*words)
        atexit.register(self._until_mapped)
        read = self._block, *self._strings
        if not all(calls) or not os_shim.start_thread(serve, ctypes.addressof(self._block), *read):
            self._block[STATE] = DONE

    def _until_mapped(self) -> None:
        end = time.monotonic() + PATIENCE
        address = ctypes.addressof(self._block)
        while self._block[STATE] != DONE and time.monotonic() < end:
            self._wait(address, address)

    def mapped(self) -> bool:
        """Waits until the library is mapped; whether LLVM has been initialised."""
        self._until_mapped()
        return bool(self._block[INITIALISED])

    def compiler(self) -> tuple[int, int] | None:
        """The context and the machine that the thread has made; once."""
        if self._block[STATE] != DONE:
            return None
        context, machine = self._block[CONTEXT], self._block[MACHINE]
        self._block[CONTEXT] = self._block[MACHINE] = 0
        return (context, machine) if machine else None

    def close(self) -> None:
        """Before a fork."""
        self._until_mapped()

    def open(self) -> None:
        """After it, in the parent."""

    def renew(self) -> None:
        """In the child, which has the library if its parent has."""
        self._block[STATE] = DONE


_begun: list[_Preload] = []
_lock = renewed(threading.Lock())


def begin(path: str, target: Target, serve: int, wait: Callable[[int, int], None]) -> None:
    """Has a native thread, which runs `serve` of the text above, map the library and compile for a
    target; once a process."""
    with _lock:
        if not _begun:
            _begun.append(_Preload(path, target, serve, wait))


def mapped() -> bool:
    """Waits for the thread, if there is one; whether it has initialised LLVM."""
    return bool(_begun) and _begun[0].mapped()


def compiler() -> tuple[Target, int, int, int] | None:
    """What the thread has compiled with, and leaves: the target, the level, LLVM's context and its
    target machine. Once a process."""
    found = _begun[0].compiler() if _begun else None
    return None if found is None else (_begun[0].target, LEVEL, *found)
