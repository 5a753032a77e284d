"""compile_kernel: the cache in the process, the cache on disk, emission, LLVM, loading."""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pullback.backends.llvm import link, loader
from pullback.backends.llvm.analysis import has, walk
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.cache import DiskCache, disk_cache, kernel_key
from pullback.backends.llvm.convert import from_memory, memory_type
from pullback.backends.llvm.dense import tile_text
from pullback.backends.llvm.emit import FUNCTION_ATTRIBUTES, Emitter, Module
from pullback.backends.llvm.emit_reduce import AllLoops
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.table import function_offset, provide
from pullback.backends.llvm.target import Target, host_target
from pullback.loops import libraries
from pullback.loops.canon import canonical_text
from pullback.loops.ir import Call, Kernel, While
from pullback.loops.tiles import is_tile

__all__ = [
    "Compilation", "CompiledKernel", "compile_kernel", "compile_kernels", "emit_module",
    "kernel_compile_count", "load_text",
]  # fmt: skip

T = TypeVar("T")
_COMPILER_THREADS = 8
_KEEP = 256  # kernels that stay loaded although no executable holds them
_lock = threading.Lock()
_improving = threading.Lock()
_live: weakref.WeakValueDictionary[str, CompiledKernel] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, CompiledKernel] = OrderedDict()
_compiled = 0


def kernel_compile_count() -> int:
    """How many kernels this process has sent through LLVM (hits in either cache do not count)."""
    return _compiled


@dataclass(eq=False)
class CompiledKernel:
    """Machine code `i32 kernel(ctx*, buffers*, dims*, scalars*)`. Hold it while `address` is in
    use. `source` is there while the code is LLVM's quick work (see tier.py)."""

    name: str
    address: int
    code: loader.Code | JitCode
    key: str
    source: tuple[Kernel, Target] | None = None
    outdated: list[loader.Code | JitCode] = field(default_factory=list)

    def improved(self) -> int:
        """The address of the best code, which is compiled if need be. What `address` was stays
        valid: somebody may be running it."""
        with _improving:
            if self.source is not None:
                kernel, target = self.source
                image = _machine_code(kernel, target, quick=False)
                cache = disk_cache()
                if cache is not None:
                    cache.put(self.key, image)
                code = loader.load_image(image)
                self.outdated.append(self.code)
                self.code, self.address, self.source = code, code.symbols["pb_kernel"], None
        return self.address

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name!r} at {self.address:#x})"


def _debug() -> set[str]:
    return set(os.environ.get("PULLBACK_DEBUG", "").replace(";", ",").split(","))


def emit_module(
    kernel: Kernel, target: Target | None = None, brief: bool = False
) -> tuple[str, int]:
    """The textual IR of a kernel's module and the code generation level it wants. `brief` writes
    the least code, not the fastest."""
    target = target or host_target()
    module = Module(target, "pb", attrs=dict(kernel.attrs), brief=brief)
    head = (
        "define i32 @pb_kernel(ptr %ctx, ptr %buffers, ptr %dims, ptr %scalars) "
        f"{FUNCTION_ATTRIBUTES}"
    )
    e = Emitter(module, head, loops=AllLoops())
    e.parallel = brief  # a run is too short to be shared out
    b = e.b
    for k, d in enumerate(kernel.dims):
        e.env[d] = b.load("i64", b.gep(Val(b, "ptr", 1, ("%dims",)), 8 * k))
    for k, v in enumerate(kernel.scalars):
        raw = b.load(memory_type(v.dtype), b.gep(Val(b, "ptr", 1, ("%scalars",)), 8 * k))
        e.env[v] = from_memory(b, v.dtype, raw)
    for k, buf in enumerate(kernel.params):
        e.buffers[buf] = b.load("ptr", b.gep(Val(b, "ptr", 1, ("%buffers",)), 8 * k))
    e.statements(kernel.body)
    b.line("ret i32 0")
    if not e.hot:  # nothing but outlined loops: LLVM's quick path does for the rest
        b.head = b.head.replace(FUNCTION_ATTRIBUTES, FUNCTION_ATTRIBUTES + " optnone noinline")
    module.functions.append(b.text())
    level = kernel.attrs.get("codegen", 0 if module.straight else 2)
    return module.text(), int(level)


def load_text(text: str, target: Target, level: int, key: str) -> loader.Code | JitCode:
    """Code of a module of hand-written IR (the runtime), through the disk cache; not counted as a
    kernel."""
    cache = disk_cache()
    code = _loaded(cache.get(key) if cache is not None else None)
    if code is None:
        image = loader.link(link.assemble(text, target, level))
        if cache is not None:
            cache.put(key, image)
        code = loader.load_image(image)
    return code


_tiles: dict[tuple[str, str], loader.Code | JitCode] = {}
_tiling = threading.Lock()


def _provide_tile(name: str, target: Target) -> None:
    """Makes a tile function of matrix products callable: from this process, from disk, or through
    LLVM."""
    with _tiling:
        code = _tiles.get((name, target.key))
        if code is None:
            text = tile_text(target, name)
            loader_name = os.environ.get("PULLBACK_LOADER", "")
            code = load_text(text, target, 2, kernel_key(text, target.key, "tile" + loader_name))
            code.keep_forever()
            _tiles[name, target.key] = code
        provide(name, code.symbols["pb_tile"])


def _loaded(image: loader.Image | None, *needed: str) -> loader.Code | JitCode | None:
    """The code of an entry of the disk cache; None if it cannot be what we stored."""
    if image is None:
        return None
    try:
        code = loader.load_image(image)
        for name in needed:
            code.symbols[name]
    except (ValueError, KeyError, TypeError, RuntimeError, MemoryError, struct.error):
        return None
    return code


def _machine_code(kernel: Kernel, target: Target, quick: bool) -> loader.Image:
    """A kernel through the emitter and LLVM."""
    debug = _debug()
    quick = quick and not has(kernel.body, While)
    ir, level = emit_module(kernel, target, quick)
    quick = quick and level > 0
    if quick:
        level = 0
    if "llvm" in debug:
        print(f"; {kernel.name} (code generation level {level})\n{ir}", file=sys.stderr)
    if "asm" in debug:
        print(f"# {kernel.name}\n{link.assembly(ir, target, level)}", file=sys.stderr)
    image = loader.link(link.assemble(ir, target, level))
    return replace(image, quick=True) if quick else image


def _options(kernel: Kernel, text: str) -> str:
    """What else determines the code: the places in the context's table of what it calls."""
    loader_name = os.environ.get("PULLBACK_LOADER", "")
    if "=call " not in text:
        return loader_name
    names = {s.name for s in walk(kernel.body) if isinstance(s, Call) and s.name != "raise_if"}
    return ",".join(f"{c}@{function_offset(c)}" for c in sorted(names)) + loader_name


Entry = tuple[DiskCache, str, loader.Image]


def _store(entries: Sequence[Entry]) -> None:
    for cache, key, image in entries:
        cache.put(key, image)


def compile_kernel(
    kernel: Kernel,
    target: Target | None = None,
    quick: bool = False,
    later: list[Entry] | None = None,
) -> CompiledKernel:
    """Machine code of a kernel: from this process, from disk, or through LLVM. `quick` takes
    LLVM's quick path, for a kernel that has little to do (unless it holds a loop of unknown
    length). What is to be stored on disk is stored, or put into `later`: somebody waits for the
    code, not for the file.

    Raises CompileError or LinkError for what must not happen (internal errors), ValueError for
    a wrong PULLBACK_ISA.
    """
    global _compiled
    target = target or host_target()
    text = canonical_text(kernel)
    calls = sorted(
        {s.name for s in walk(kernel.body) if isinstance(s, Call) and s.name != "raise_if"}
    )
    for c in calls:
        if libraries.is_routine(c):
            provide(c, libraries.address(c))
        elif is_tile(c):
            _provide_tile(c, target)
    options = ",".join(f"{c}@{function_offset(c)}" for c in calls) + os.environ.get(
        "PULLBACK_LOADER", ""
    )
    key = kernel_key(text, target.key, options)
    with _lock:
        found = _live.get(key)
        if found is not None:
            _recent[key] = found
            _recent.move_to_end(key)
    if found is not None:
        if not quick:
            found.improved()
        return found
    cache = disk_cache()
    image = cache.get(key) if cache is not None and not _debug() & {"llvm", "asm"} else None
    code = None if image is not None and image.quick and not quick else _loaded(image, "pb_kernel")
    if image is None or code is None:
        image = _machine_code(kernel, target, quick)
        with _lock:
            _compiled += 1
        if cache is not None and later is not None:
            later.append((cache, key, image))
        elif cache is not None:
            cache.put(key, image)
        code = loader.load_image(image)
    source = (kernel, target) if image.quick else None
    compiled = CompiledKernel(kernel.name, code.symbols["pb_kernel"], code, key, source)
    with _lock:
        compiled = _live.setdefault(key, compiled)
        _recent[key] = compiled
        while len(_recent) > _KEEP:
            _recent.popitem(last=False)
    return compiled


class Compilation:
    """Several kernels, compiled side by side while more are added: LLVM runs without the GIL, and
    each thread has its own context. A single one is compiled where its code is asked for."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target
        self.first: tuple[Kernel, bool] | None = None
        self.futures: list[Future[CompiledKernel]] = []
        self.later: list[Entry] = []
        self.hurried = False

    def add(self, kernel: Kernel, quick: bool = False) -> None:
        """One more kernel; `quick` as in `compile_kernel`."""
        if self.first is None and not self.futures:
            self.first = kernel, quick
            return
        if self.first is not None:
            _hurry.begin()
            self.hurried = True
            self._submit(*self.first)
            self.first = None
        self._submit(kernel, quick)

    def _submit(self, kernel: Kernel, quick: bool) -> None:
        self.futures.append(beside(compile_kernel, kernel, self.target, quick, self.later))

    def finish(self) -> list[CompiledKernel]:
        """The machine code, in order. Raises what `compile_kernel` raises."""
        if self.first is not None:
            done = [compile_kernel(self.first[0], self.target, self.first[1], self.later)]
        else:
            done = [f.result() for f in self.futures]
        if self.later:
            beside(_store, self.later)
        return done

    def close(self) -> None:
        """Call it when no more is asked of this compilation, whatever happened."""
        if self.hurried:
            self.hurried = False
            _hurry.end()


class _Hurry:
    """Short turns with the GIL while several threads compile: one that comes back from LLVM has a
    few hundred microseconds to do and would wait five milliseconds for each of them."""

    TURN = 2e-4

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = 0.005

    def begin(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.before = sys.getswitchinterval()
                sys.setswitchinterval(min(self.TURN, self.before))

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                sys.setswitchinterval(self.before)

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        if self.count:  # threads of the parent that the child does not have
            self.count = 0
            sys.setswitchinterval(self.before)


_hurry = _Hurry()


def compile_kernels(
    kernels: Sequence[Kernel], target: Target | None = None, quick: bool = False
) -> list[CompiledKernel]:
    """The machine code of several kernels, in order; see `Compilation`.

    Raises what `compile_kernel` raises.
    """
    compilation = Compilation(target)
    try:
        for kernel in kernels:
            compilation.add(kernel, quick)
        return compilation.finish()
    finally:
        compilation.close()


_pool: ThreadPoolExecutor | None = None


def compilers() -> ThreadPoolExecutor:
    """The threads that compile; each keeps its LLVM context."""
    global _pool
    with _lock:
        if _pool is None:
            count = min(os.cpu_count() or 1, _COMPILER_THREADS)
            _pool = ThreadPoolExecutor(count, thread_name_prefix="pullback-llvm")
        return _pool


def beside(function: Callable[..., T], *arguments: Any) -> Future[T]:
    """The call on a compiler's thread; here and now where no thread can be had, as while the
    interpreter ends."""
    try:
        return compilers().submit(function, *arguments)
    except RuntimeError:
        done: Future[T] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def _after_fork() -> None:
    """The child has none of the threads, and nobody there holds the locks."""
    global _pool, _lock, _improving, _tiling
    _pool, _lock, _improving = None, threading.Lock(), threading.Lock()
    _tiling = threading.Lock()
    _hurry.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
