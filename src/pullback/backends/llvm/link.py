"""Textual LLVM IR -> object bytes, through our own ctypes handle on llvmlite's shared library.

llvmlite's Python layer holds a lock around every call; ctypes alone releases the GIL, and with one
LLVM context and one
target machine per thread two threads compile twice as fast. Nothing here is process-global (no
options, no shared
contexts), because Numba and others use the same library. No IR pass runs over kernels: we emit what
we want executed. The runtime's own code, written plainly, asks for some.
The library is loaded by path, without importing llvmlite, and only when something has to be
compiled.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

from pullback.backends.llvm import preload
from pullback.backends.llvm.target import Target, llvmlite_directory
from pullback.forking import Gate, renewed

__all__ = [
    "LEVELS", "CompileError", "assemble", "assembly", "desk", "library_path", "llvm_library",
    "loaded", "put_back", "taken",
]  # fmt: skip

_FILE = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}.get(sys.platform, "libllvmlite.so")
_lock = renewed(threading.Lock())
# LLVM has locks of its own: a child that is forked while another thread is inside would meet them
# shut.
_gate = Gate()
_idle: list[_Compiler] = []  # at nobody's service
_library: ctypes.CDLL | None = None
_MODULES_PER_CONTEXT = 400  # a context never forgets its types and constants: renew it now and then


class CompileError(RuntimeError):
    """LLVM refused what we emitted: an internal error of Pullback."""


def _declare(lib: ctypes.CDLL, quick: ctypes.PyDLL) -> None:
    """Argument types. What takes no time is called with the GIL: giving it away for a microsecond
    means waiting for whoever took it, up to a switch interval, five times a kernel."""
    p, s = c_void_p, c_char_p
    for name, result, arguments in (
        ("ContextCreate", p, []),
        ("ContextDispose", None, [p]),
        ("ParseAssembly", p, [p, s, POINTER(p)]),
        ("VerifyModule", c_int, [p, POINTER(p)]),
        ("DisposeModule", None, [p]),
        ("DisposeString", None, [p]),
        ("GetTargetFromTriple", p, [s, POINTER(p)]),
        ("CreateTargetMachine", p, [p, s, s, s, c_int, s, s, c_int, c_int, s]),
        ("TargetMachineEmitToMemory", p, [p, p, c_int, POINTER(p)]),
        ("GetBufferStart", p, [p]),
        ("GetBufferSize", c_size_t, [p]),
        ("DisposeMemoryBuffer", None, [p]),
        ("InitializeNativeTarget", c_int, []),
        ("InitializeNativeAsmPrinter", c_int, []),
    ):
        f = getattr(lib if name in _LONG else quick, "LLVMPY_" + name)
        f.restype, f.argtypes = result, arguments
        setattr(lib, "LLVMPY_" + name, f)


_LONG = frozenset({"TargetMachineEmitToMemory", "VerifyModule"})


def _declare_passes(lib: ctypes.CDLL) -> bool:
    """Argument types of what runs IR passes; False if llvmlite has no such functions."""
    p = c_void_p
    for name, result, arguments in (
        ("CreatePipelineTuningOptions", p, []),
        ("DisposePipelineTuningOptions", None, [p]),
        ("CreatePassBuilder", p, [p, p]),
        ("DisposePassBuilder", None, [p]),
        ("CreateNewModulePassManager", p, []),
        ("RunNewModulePassManager", None, [p, p, p]),
        ("DisposeNewModulePassManger", None, [p]),  # so it is called
    ):
        f = getattr(lib, "LLVMPY_" + name, None)
        if f is None:
            return False
        f.restype, f.argtypes = result, arguments
    return True


def library_path() -> str:
    """Where llvmlite's shared library is."""
    return os.path.join(llvmlite_directory(), _FILE)


def loaded() -> bool:
    """Whether this process has the library."""
    return _library is not None


def llvm_library() -> ctypes.CDLL:
    """The shared library of llvmlite, initialised for the native target."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                initialised = preload.mapped()
                lib = ctypes.CDLL(library_path())
                _declare(lib, ctypes.PyDLL(lib._name))
                if not initialised:
                    lib.LLVMPY_InitializeNativeTarget()
                    lib.LLVMPY_InitializeNativeAsmPrinter()
                _library = lib
                left = preload.compiler()
                if left is not None:
                    target, level, context, machine = left
                    _idle.append(_Compiler(context, {(target.key, level): machine}))
    return _library


def _take_string(lib: ctypes.CDLL, pointer: c_void_p) -> str:
    if not pointer.value:
        return ""
    text = ctypes.string_at(pointer.value).decode("utf-8", "replace")
    lib.LLVMPY_DisposeString(pointer)
    return text


class _Compiler:
    """An LLVM context and its target machines, for one thread at a time: what LLVM prepares for a
    machine's first function takes longer than a function."""

    def __init__(
        self, context: int = 0, machines: dict[tuple[str, int], int] | None = None
    ) -> None:
        self.lib = llvm_library()
        self.context = context or self.lib.LLVMPY_ContextCreate()
        self.modules = 0
        self.machines = {} if machines is None else machines

    def machine(self, target: Target, level: int) -> int:
        key = (target.key, level)
        if key not in self.machines:
            message = c_void_p()
            triple = target.triple.encode()
            handle = self.lib.LLVMPY_GetTargetFromTriple(triple, byref(message))
            if not handle:
                raise CompileError(
                    f"LLVM has no target for {target.triple}: {_take_string(self.lib, message)}"
                )
            machine = self.lib.LLVMPY_CreateTargetMachine(
                handle,
                triple,
                target.cpu.encode(),
                target.features.encode(),
                level,
                b"pic",
                b"small",
                0,
                1,
                b"",
            )
            if not machine:
                raise CompileError(f"LLVM makes no target machine for {target.triple} {target.cpu}")
            self.machines[key] = machine
        return self.machines[key]

    def run_passes(self, module: int, machine: int, passes: Sequence[str]) -> None:
        """Runs IR passes over a module, in their order; those that llvmlite does not have under
        that name are left out."""
        lib = self.lib
        if not _declare_passes(lib):
            return
        options = lib.LLVMPY_CreatePipelineTuningOptions()
        builder = lib.LLVMPY_CreatePassBuilder(machine, options)
        manager = lib.LLVMPY_CreateNewModulePassManager()
        for name in passes:
            add = getattr(lib, f"LLVMPY_module_Add{name}Pass", None)
            if add is not None:
                add.restype, add.argtypes = None, [c_void_p]
                add(manager)
        lib.LLVMPY_RunNewModulePassManager(manager, module, builder)
        lib.LLVMPY_DisposeNewModulePassManger(manager)
        lib.LLVMPY_DisposePassBuilder(builder)
        lib.LLVMPY_DisposePipelineTuningOptions(options)

    def emit(
        self, text: str, target: Target, level: int, as_object: bool, passes: Sequence[str] = ()
    ) -> bytes:
        lib = self.lib
        self.modules += 1
        if self.modules > _MODULES_PER_CONTEXT:
            self.modules = 0
            lib.LLVMPY_ContextDispose(self.context)
            self.context = lib.LLVMPY_ContextCreate()
        message = c_void_p()
        module = lib.LLVMPY_ParseAssembly(self.context, text.encode(), byref(message))
        error = _take_string(lib, message)
        if error or not module:
            if module:
                lib.LLVMPY_DisposeModule(module)
            raise CompileError(
                f"internal error in pullback: LLVM does not parse the kernel: {error}\n{text}"
            )
        try:
            machine = self.machine(target, level)
            if passes:
                self.run_passes(module, machine, passes)
            message = c_void_p()
            buffer = lib.LLVMPY_TargetMachineEmitToMemory(
                machine, module, int(as_object), byref(message)
            )
            if not buffer:
                raise CompileError(
                    f"internal error in pullback: LLVM: {_take_string(lib, message)}\n{text}"
                )
            try:
                return ctypes.string_at(
                    lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer)
                )
            finally:
                lib.LLVMPY_DisposeMemoryBuffer(buffer)
        finally:
            lib.LLVMPY_DisposeModule(module)


LEVELS = (0, 2)  # the code generation levels that we use


def desk() -> tuple[_Compiler, list[int]]:
    """What a native thread needs to compile by itself (see workshop.py): who owns it and makes its
    target machines; then the addresses of five functions, a context, and how many modules it has
    held. Who owns a desk that is left is put back."""
    lib, own = llvm_library(), _compiler()
    names = "ParseAssembly TargetMachineEmitToMemory DisposeModule ContextCreate ContextDispose"
    functions = [
        ctypes.cast(getattr(lib, "LLVMPY_" + name), c_void_p).value or 0 for name in names.split()
    ]
    return own, [*functions, own.context, own.modules]


def put_back(compiler: _Compiler, context: int, modules: int) -> None:
    """A compiler that a desk was made of is idle again, with the context that native code has left
    it and the number of modules that this has held."""
    compiler.context, compiler.modules = context, modules
    _idle.append(compiler)


def taken(text: bytes, buffer: int, message: int) -> bytes:
    """The bytes in a memory buffer that LLVM has filled, which this frees.

    Raises CompileError when there is none, or when LLVM has left a message.
    """
    lib = llvm_library()
    error = _take_string(lib, c_void_p(message))
    if error or not buffer:
        raise CompileError(f"internal error in pullback: LLVM: {error}\n{text.decode()}")
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _compiler() -> _Compiler:
    """One that is idle, or a new one."""
    llvm_library()  # with which the first may come
    try:
        return _idle.pop()
    except IndexError:
        return _Compiler()


def _emitted(
    text: str, target: Target, level: int, as_object: bool, passes: Sequence[str] = ()
) -> bytes:
    with _gate:
        compiler = _compiler()
        try:
            return compiler.emit(text, target, level, as_object, passes)
        finally:
            _idle.append(compiler)


def assemble(text: str, target: Target, level: int = 2, passes: Sequence[str] = ()) -> bytes:
    """Object bytes of a module in textual IR; `level` is LLVM's code generation level (0 quick, 2
    good), `passes` name IR passes as llvmlite's library does ("SROA"): none for kernels, which are
    written as they shall be executed.

    Raises CompileError when LLVM refuses the text.
    """
    return _emitted(text, target, level, True, passes)


def assembly(text: str, target: Target, level: int = 2) -> str:
    """The same module as assembler text, for PULLBACK_DEBUG=asm."""
    return _emitted(text, target, level, False).decode("utf-8", "replace")
