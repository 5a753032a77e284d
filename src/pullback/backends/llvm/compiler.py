"""compile_kernel: the cache in the process, the cache on disk, emission, LLVM, loading."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pullback.backends.llvm import link, loader, os_shim
from pullback.backends.llvm.analysis import walk
from pullback.backends.llvm.aside import aside
from pullback.backends.llvm.build import FUNCTION_ATTRIBUTES
from pullback.backends.llvm.cache import DiskCache, Entry, disk_cache, kernel_key
from pullback.backends.llvm.called import calls, mark
from pullback.backends.llvm.calledcode import functions_of, provide_functions
from pullback.backends.llvm.convert import from_memory, memory_type
from pullback.backends.llvm.emit import Emitter, Module
from pullback.backends.llvm.emit_kinds import AllLoops
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.kept import load_text
from pullback.backends.llvm.patch_while import begins_again
from pullback.backends.llvm.patched import patched
from pullback.backends.llvm.stencils import provided
from pullback.backends.llvm.table import function_offset, provide
from pullback.backends.llvm.target import Target, host_target
from pullback.backends.llvm.tier import Haste
from pullback.backends.llvm.tilecode import USUAL_TILES, order_tile, provide_tile
from pullback.backends.llvm.workshop import Job, Workshop, workshop_text
from pullback.compile_log import KernelEntry, Progress
from pullback.forking import renewed
from pullback.loops import libraries
from pullback.loops.canon import called_by, canonical_text, waits
from pullback.loops.ir import For, Kernel
from pullback.loops.nesting import deep
from pullback.loops.tiles import is_radix, is_tile, panel_width, tile_name
from pullback.records import made, record, replaced
from pullback.switches import switched_off

__all__ = [
    "Compilation", "CompiledKernel", "compile_kernel", "compile_kernels", "emit_module",
    "foresee_llvm", "kernel_compile_count", "workshop",
]  # fmt: skip

STORE_AFTER = 0.02  # seconds
_KEEP = 256  # kernels that stay loaded although no executable holds them
_lock = threading.Lock()
_improving = threading.Lock()
_SHOWN, _NOTHING = frozenset({"llvm", "asm"}), frozenset[str]()
_live: weakref.WeakValueDictionary[str, CompiledKernel] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, CompiledKernel] = OrderedDict()
_compiled = 0


def kernel_compile_count() -> int:
    """How many kernels this process has made code for, through LLVM or from stencils (hits in
    either cache do not count).

    >>> before = pullback.kernel_compile_count()
    >>> out = pullback.jit(lambda x: jnp.sin(x) + 1)(1.0)
    >>> pullback.kernel_compile_count() >= before
    True
    """
    return _compiled


@record(frozen=False, weak=True)
class CompiledKernel:
    """Machine code `i32 kernel(ctx*, buffers*, dims*, scalars*)`. Hold it while `address` is in
    use. `source` is there while the code is LLVM's quick work (see tier.py)."""

    name: str
    address: int
    code: loader.Code | JitCode
    key: str
    source: tuple[Kernel | Callable[[], Kernel], Target] | None = None
    outdated: list[loader.Code | JitCode] = made(default_factory=list)
    better: _Better | None = None

    @property
    def multiplies(self) -> bool:
        """Whether tile functions, or LAPACK, do most of its work, as far as is known of quick
        code."""
        kernel = self.source[0] if self.source is not None else None
        return isinstance(kernel, Kernel) and any(map(_multiplies, needs_of(kernel)))

    def improved(self, between: Callable[[], None] | None = None) -> int:
        """The address of the best code, which is compiled if need be, by a native thread if there
        is one that has time. What `address` was stays valid: somebody may be running it. `between`
        is called now and then while the interpreter is needed."""
        with _improving:
            if self.source is not None and self.better is None:
                kernel, target = self.source
                kernel = kernel() if callable(kernel) else kernel
                self.source = kernel, target
                self.better = _begun(kernel, target, between)
        better = self.better
        if better is not None and not better.wait() and better.shop.ended:
            return self.address
        image = None
        with _improving:
            if self.source is not None:
                kernel, target = self.source
                assert not callable(kernel)
                image = _well_made(kernel, target, self.better)
                code = loader.load_image(image)
                self.outdated.append(self.code)
                self.code, self.address = code, code.symbols["pb_kernel"]
                self.source = self.better = None
        cache = disk_cache() if image is not None else None
        if cache is not None and image is not None:
            cache.put(self.key, image)
        return self.address

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name!r} at {self.address:#x})"


def _debug() -> frozenset[str]:
    """What of the machine code PULLBACK_DEBUG asks to be printed."""
    text = os.environ.get("PULLBACK_DEBUG")
    return _SHOWN.intersection(text.replace(";", ",").split(",")) if text else _NOTHING


# A kernel of more loops (parts of what is joined, leaves of a tree) takes LLVM long.
MANY_LOOPS = 6


def emit_module(
    kernel: Kernel,
    target: Target | None = None,
    brief: bool = False,
    shared: bool = False,
    alone: bool = False,
    between: Callable[[], None] | None = None,
) -> tuple[str, int]:
    """The textual IR of a kernel's module and the code generation level that good code of it wants.
    `brief` writes the least code, not the fastest, for one thread unless it is `shared`; `alone`
    without lanes. `between` is called now and then."""
    target = target or host_target()
    streamed, vast = (
        frozenset(kernel.params[k] for k in kernel.attrs.get(name, ()))
        for name in ("streamed", "vast")
    )
    module = Module(target, "pb", attrs=dict(kernel.attrs), streamed=streamed, brief=brief)
    module.alone, module.between = brief and alone, between
    module.calls = brief
    module.short = frozenset(kernel.params) - vast
    loops = sum(isinstance(s, For) and s.kind == "vector" for s in walk(kernel.body))
    module.many = loops > MANY_LOOPS
    head = (
        "define i32 @pb_kernel(ptr %ctx, ptr %buffers, ptr %dims, ptr %scalars) "
        f"{FUNCTION_ATTRIBUTES}"
    )
    e = Emitter(module, head, loops=AllLoops())
    e.parallel = brief and not shared
    b = e.b
    for k, d in enumerate(kernel.dims):
        e.env[d] = b.argument("dims", k, "i64")
    for k, v in enumerate(kernel.scalars):
        e.env[v] = from_memory(b, v.dtype, b.argument("scalars", k, memory_type(v.dtype)))
    for k, buf in enumerate(kernel.params):
        e.buffers[buf] = b.argument("buffers", k, "ptr")
    e.statements(kernel.body)
    b.line("ret i32 0")
    if not e.hot:  # nothing but outlined loops: LLVM's quick path does for the rest
        b.head = b.head.replace(FUNCTION_ATTRIBUTES, FUNCTION_ATTRIBUTES + " optnone noinline")
    module.functions.append(b.text())
    level = kernel.attrs.get("codegen", 0 if module.straight else 2)
    return module.text(), int(level)


# Lines of a text for which good code would take LLVM minutes: second derivatives of batched loops
# of unknown length are such (106,000 lines: 20 s, quick code 1.6 s, on a quiet machine).
LONG = 50_000


def _emitted(
    kernel: Kernel,
    target: Target,
    quick: bool,
    shared: bool = False,
    alone: bool = False,
    between: Callable[[], None] | None = None,
) -> tuple[str, int, bool]:
    """A kernel as textual IR, the level it is compiled at, and whether that is the quick one
    where good code would differ."""
    debug = _debug()
    quick = quick and not waits(kernel)
    ir, level = emit_module(kernel, target, quick, shared, alone, between)
    level = 0 if ir.count("\n") > LONG else level
    # Tiles may be quick as well; good code calls no elementary functions.
    quick = quick and (level > 0 or bool(tiles_of(kernel)) or calls(ir))
    if quick:
        level = 0
    if "llvm" in debug:
        print(f"; {kernel.name} (code generation level {level})\n{ir}", file=sys.stderr)
    if "asm" in debug:
        print(f"# {kernel.name}\n{link.assembly(ir, target, level)}", file=sys.stderr)
    return ir, level, quick


@record(eq=True, frozen=False)
class _Better:
    """Good code on its way: of a kernel, and of the tile functions that it calls."""

    shop: Workshop
    job: Job
    tiles: list[Job]

    def wait(self) -> bool:
        """Returns when it is done; False if it never will be, after a fork or at exit."""
        return all(self.shop.await_(job) for job in (*self.tiles, self.job))


def _begun(kernel: Kernel, target: Target, between: Callable[[], None] | None) -> _Better | None:
    """Good code of a kernel and of its tile functions, which a patient native thread makes from
    now on. None where there is none."""
    shop = workshop(target, patient=True)
    if shop is None:
        return None
    tiles = [order_tile(name, target, False, shop.publish) for name in tiles_of(kernel)]
    ir, level, _ = _emitted(kernel, target, False, between=between)
    job = Job(ir, level)
    if level not in link.LEVELS or not shop.publish(job):
        return None
    return _Better(shop, job, [tile for tile in tiles if tile is not None])


def _well_made(kernel: Kernel, target: Target, better: _Better | None) -> loader.Image:
    """Good code of a kernel, and of its tile functions: what a native thread has made, if one
    has."""
    if better is not None and better.job.done:
        obj = better.job.take()
    else:
        ir, level, _ = _emitted(kernel, target, False)
        obj = link.assemble(ir, target, level)
    for name in tiles_of(kernel):
        provide_tile(name, target, quick=False)
    return loader.link(obj)


def _options(kernel: Kernel, target: Target) -> str:
    """What else determines the code: whether it may call elementary functions, and the places in
    the context's table of what else it calls, which routines of LAPACK and BLAS take now."""
    loader_name = os.environ.get("PULLBACK_LOADER", "") + mark(target)
    names = called_by(kernel) - {"raise_if", "prefetch"}
    if not names:
        return loader_name
    for name in names:
        if libraries.is_routine(name):
            _provide_routine(name)
    return ",".join(f"{c}@{function_offset(c)}" for c in sorted(names)) + loader_name


def _provide_routine(name: str) -> None:
    provide(name, libraries.address(name))
    for entry, value in zip(
        ("library_threads", "library_usual"), libraries.library_threads(), strict=True
    ):
        provide(entry, value)


def tiles_of(kernel: Kernel) -> set[str]:
    """The tile functions that a kernel calls."""
    return {name for name in called_by(kernel) if is_tile(name)}


def _multiplies(name: str) -> bool:
    if is_tile(name):
        return panel_width(name) > 0 or is_radix(name)
    return libraries.is_routine(name)


def needs_of(kernel: Kernel) -> set[str]:
    """The tile functions and the routines of LAPACK and BLAS that a kernel calls."""
    return {n for n in called_by(kernel) if is_tile(n) or libraries.is_routine(n)}


def _store(entries: Sequence[Entry]) -> None:
    """On a thread of its own, a moment later: the program is about to run for the first time."""
    time.sleep(STORE_AFTER)
    for cache, key, image in entries:
        cache.put(key, image)


def _in_process(key: str) -> CompiledKernel | None:
    """A kernel that this process has."""
    with _lock:
        found = _live.get(key)
        if found is not None:
            _recent[key] = found
            _recent.move_to_end(key)
    return found


def _on_disk(
    key: str, quick: bool, cache: DiskCache | None
) -> tuple[loader.Image, loader.Code | JitCode] | None:
    """An image and its code, if the disk has one that does: quick code only where that does."""
    image = cache.get(key) if cache is not None and not _debug() else None
    if image is None or (image.quick and not quick):
        return None
    code = loader.load_entry(image, "pb_kernel")
    return None if code is None else (image, code)


def _known(
    kernel: Kernel, target: Target, quick: bool, cache: DiskCache | None
) -> tuple[str, CompiledKernel | None, str]:
    """The key of a kernel; its code if this process or the disk has it; where it comes from."""
    text = canonical_text(kernel)
    key = kernel_key(text, target.key, _options(kernel, target))
    found = _in_process(key)
    if found is not None:
        if not quick:
            found.improved()
        return key, found, "process"
    entry = _on_disk(key, quick, cache)
    if entry is None:
        return key, None, "LLVM"
    return key, _registered(kernel, target, key, *entry), "disk"


def _registered(
    kernel: Kernel,
    target: Target,
    key: str,
    image: loader.Image,
    code: loader.Code | JitCode | None = None,
) -> CompiledKernel:
    """A kernel's code, known from now on."""
    code = code or loader.load_image(image)
    if image.quick:
        provide_functions(target, functions_of(canonical_text(kernel)))
    return _entered(kernel.name, (kernel, target), key, image, code)


def _entered(
    name: str,
    source: tuple[Kernel | Callable[[], Kernel], Target],
    key: str,
    image: loader.Image,
    code: loader.Code | JitCode,
) -> CompiledKernel:
    address = code.symbols["pb_kernel"]
    compiled = CompiledKernel(name, address, code, key, source if image.quick else None)
    with _lock:
        compiled = _live.setdefault(key, compiled)
        _recent[key] = compiled
        while len(_recent) > _KEEP:
            _recent.popitem(last=False)
    return compiled


def recalled_kernel(
    key: str,
    name: str,
    needs: Sequence[str],
    functions: Sequence[str],
    again: Callable[[], Kernel],
    haste: Haste,
) -> tuple[CompiledKernel, str] | None:
    """The code of a kernel by its key, and whether this process or the disk had it; None if
    neither has any that does. `needs` are the tiles and routines it calls, `functions` are those
    that quick code calls; `again` makes the kernel, should better code be wanted."""
    target = host_target()
    found, origin = _in_process(key), "process"
    if found is None:
        entry = _on_disk(key, haste.kernel, disk_cache())
        if entry is None:
            return None
        if entry[0].quick:
            provide_functions(target, functions)
        found, origin = _entered(name, (again, target), key, *entry), "disk"
    elif not haste.kernel:
        found.improved()
    for needed in needs:
        if libraries.is_routine(needed):
            _provide_routine(needed)
        else:
            provide_tile(needed, target, haste.of(needed))
    return found, origin


def _count_one() -> None:
    global _compiled
    with _lock:
        _compiled += 1


@deep
def compile_kernel(
    kernel: Kernel,
    target: Target | None = None,
    quick: bool = False,
    later: list[Entry] | None = None,
) -> CompiledKernel:
    """Machine code of a kernel: from this process, from disk, or new. `quick` takes stencils, or
    LLVM's quick path, for a kernel that has little to do (unless it holds a loop of unknown
    length). What is to be stored on disk is stored, or put into `later`: somebody waits for the
    code, not for the file.

    Raises CompileError or LinkError for what must not happen (internal errors), ValueError for
    a wrong PULLBACK_ISA.
    """
    return _directly(
        _Ordered(kernel, Haste(quick, quick)), target or host_target(), later, disk_cache()
    )


def _directly(
    order: _Ordered, target: Target, later: list[Entry] | None, cache: DiskCache | None
) -> CompiledKernel:
    """A kernel's code, made on this thread."""
    kernel = order.kernel
    for name in tiles_of(kernel):
        provide_tile(name, target, order.haste.of(name))
    key, found, order.origin = _known(kernel, target, order.haste.kernel, cache)
    image = order.put_together(target) if found is None else None
    if image is not None:
        found = _stored(order, target, key, image, later, cache)
    if found is None:
        ir, level = order.write(target)
        start = time.perf_counter()
        obj = link.assemble(ir, target, level)
        order.llvm_seconds = time.perf_counter() - start
        found = _finished(order, target, key, obj, later, cache)
    return found


def _finished(
    order: _Ordered,
    target: Target,
    key: str,
    obj: bytes,
    later: list[Entry] | None,
    cache: DiskCache | None,
) -> CompiledKernel:
    """What LLVM has just compiled."""
    image = loader.link(obj)
    image = replaced(image, quick=loader.QUICK) if order.is_quick else image
    return _stored(order, target, key, image, later, cache)


def _stored(
    order: _Ordered,
    target: Target,
    key: str,
    image: loader.Image,
    later: list[Entry] | None,
    cache: DiskCache | None,
) -> CompiledKernel:
    """New code: counted, stored, loaded."""
    _count_one()
    if cache is not None and later is not None:
        later.append((cache, key, image))
    elif cache is not None:
        cache.put(key, image)
    return _registered(order.kernel, target, key, image)


@record(eq=True, frozen=False)
class _Ordered:
    """A kernel of a compilation: what is known of its code so far."""

    kernel: Kernel
    haste: Haste
    dims: tuple[int, ...] = ()
    key: str = ""
    job: Job | None = None
    is_quick: bool = False
    done: CompiledKernel | None = None
    origin: str = "LLVM"
    text_seconds: float = 0.0
    llvm_seconds: float = 0.0
    lines: int = 0

    def write(self, target: Target) -> tuple[str, int]:
        """The textual IR and the level it is to be compiled at."""
        start = time.perf_counter()
        ir, level, self.is_quick = _emitted(
            self.kernel, target, self.haste.kernel, self.haste.shared, self.haste.alone
        )
        self.text_seconds = time.perf_counter() - start
        self.lines = ir.count("\n")
        return ir, level

    def put_together(self, target: Target) -> loader.Image | None:
        """Code without LLVM, where quick code does and all of the kernel is covered."""
        kernel, haste = self.kernel, self.haste
        stencils = provided(target) if haste.kernel else None
        if stencils is None or (waits(kernel) and not begins_again(kernel)) or _debug():
            return None
        start = time.perf_counter()
        how = haste.divided, self.dims, haste.patience, haste.sharing
        image = patched(kernel, target, stencils, *how)
        self.text_seconds = time.perf_counter() - start
        if image is not None:
            self.is_quick, self.origin = True, "stencils"
        return image

    def entry(self) -> KernelEntry:
        """How it went, for `explain_compile`."""
        quick = self.done is not None and self.done.source is not None
        return KernelEntry(
            self.kernel.name, self.origin, quick, self.text_seconds, self.llvm_seconds, self.lines
        )


class Compilation:
    """Several kernels, compiled side by side while more are added: this thread writes their texts,
    native threads have LLVM translate them (workshop.py). One that stays alone is compiled where
    its code is asked for."""

    def __init__(self, target: Target | None = None) -> None:
        self.target, self.cache = target or host_target(), disk_cache()
        self.orders: list[_Ordered] = []
        self.later: list[Entry] = []
        self.tiles: dict[str, bool] = {}  # called by these kernels: whether quick code does
        self.jobs: list[Job] = []
        self.tile_jobs: dict[str, Job] = {}

    def add(
        self, kernel: Kernel, haste: Haste, alone: bool = False, dims: tuple[int, ...] = ()
    ) -> None:
        """One more kernel, which will be called with sizes like these; `alone` if there will hardly
        be another: its tile functions only are compiled beside it."""
        self.orders.append(_Ordered(kernel, haste, dims))
        if alone and len(self.orders) == 1:
            self._begin_tiles(self.orders[0])
            return
        for order in self.orders[-2:]:
            if not order.key:
                self._begin(order)

    def foresee(self, kind: str) -> None:
        """Some kernel will multiply blocks of a type, quickly made code will do: LLVM may begin,
        as it has nothing else to do yet. The disk has what the first import on a machine
        compiles."""
        name = tile_name(kind, 1)
        shop = workshop(self.target) if self.cache is None or name not in USUAL_TILES else None
        if shop is not None:
            self._order(name, True, shop)

    def _order(self, tile: str, quick: bool, shop: Workshop) -> None:
        job = order_tile(tile, self.target, quick, shop.publish)
        if job is not None and job not in self.jobs:
            self.jobs.append(job)
            self.tile_jobs[tile] = job

    def _begin_tiles(self, order: _Ordered) -> None:
        tiles = tiles_of(order.kernel)
        shop = workshop(self.target) if tiles else None
        if shop is None:
            return
        for name in tiles:
            quick = order.haste.of(name)
            self.tiles[name] = self.tiles.get(name, True) and quick
            self._order(name, quick, shop)

    def _begin(self, order: _Ordered) -> None:
        shop = workshop(self.target)
        if shop is None:
            return
        self._begin_tiles(order)
        known = _known(order.kernel, self.target, order.haste.kernel, self.cache)
        order.key, order.done, order.origin = known
        image = order.put_together(self.target) if order.done is None else None
        if image is not None:
            stored = _stored(order, self.target, order.key, image, self.later, self.cache)
            order.done = stored
        if order.done is None:
            ir, level = order.write(self.target)
            job = Job(ir, level)
            if level in link.LEVELS and shop.publish(job):
                order.job = job
                self.jobs.append(job)

    def finish(self, progress: Progress | None = None) -> list[CompiledKernel]:
        """The machine code, in order. Raises what `compile_kernel` raises."""

        def tell() -> None:
            if progress is not None:
                count = sum(job.done for job in self.jobs)
                progress.tell(f"{count} of {len(self.jobs)} kernels")

        shop = workshop(self.target) if self.jobs else None
        if shop is not None:
            for order in self.orders:
                if not order.key:
                    self._begin(order)
            shop.finish(self.jobs, tell, self._end_one)
        for name, quick in self.tiles.items():
            provide_tile(name, self.target, quick, self.later)
        done = []
        for k, order in enumerate(self.orders):
            order.done = order.done or self._end(order)
            done.append(order.done)
            if progress is not None:
                progress.tell(f"{k + 1} of {len(self.orders)} kernels")
        if self.later:
            aside(_store, self.later)
        return done

    def _end_one(self) -> bool:
        """Loads a kernel that LLVM is done with, if there is one."""
        for order in self.orders:
            if order.done is None and order.job is not None and order.job.done:
                order.done = self._end(order)
                return True
        return False

    def _end(self, order: _Ordered) -> CompiledKernel:
        if order.job is None:
            return _directly(order, self.target, self.later, self.cache)
        order.llvm_seconds = order.job.seconds
        obj = order.job.take()
        return _finished(order, self.target, order.key, obj, self.later, self.cache)

    def entries(self) -> tuple[KernelEntry, ...]:
        """How each kernel was made."""
        return tuple(order.entry() for order in self.orders)

    def tile_entries(self) -> tuple[KernelEntry, ...]:
        """How the tile functions were made that no other program had called for."""
        return tuple(
            KernelEntry(name, "LLVM", job.level == 0, 0.0, job.seconds, job.lines)
            for name, job in self.tile_jobs.items()
        )


_shops: dict[bool, Workshop] = {}
_building = renewed(threading.Lock())


def workshop(target: Target, patient: bool = False) -> Workshop | None:
    """Native threads that compile for this machine, or the one that has time; None where there are
    none."""
    if target.key != host_target().key or os_shim.sleep_kind() != "futex":
        return None
    shop = _shops.get(patient)
    if shop is None or not shop.usable:
        with _building:
            shop = _shops.get(patient)
            if shop is None or not shop.usable:
                shop = _shops[patient] = Workshop(target, _workshop_code(target), patient)
    return shop


def _workshop_code(target: Target) -> loader.Code | JitCode:
    if _shops:
        return next(iter(_shops.values())).code
    text = workshop_text(target)
    name = "workshop" + os.environ.get("PULLBACK_LOADER", "")
    return load_text(text, target, 0, kernel_key(text, target.key, name))


def foresee_llvm() -> None:
    """The package is being imported: LLVM will be asked for soon, unless all programs are on disk.
    Where there is one processor for all, or with PULLBACK_PRELOAD=0 (for processes that compile
    nothing new), it is loaded when it is asked for."""
    if switched_off("PULLBACK_PRELOAD"):
        return
    with contextlib.suppress(Exception):  # who needs the library meets the error
        shop = None if link.loaded() else workshop(host_target())
        if shop is not None:
            shop.foresee()


def compile_kernels(
    kernels: Sequence[Kernel], target: Target | None = None, quick: bool = False
) -> list[CompiledKernel]:
    """The machine code of several kernels, in order; see `Compilation`.

    Raises what `compile_kernel` raises.
    """
    compilation = Compilation(target)
    for kernel in kernels:
        compilation.add(kernel, Haste(quick, quick), len(kernels) == 1)
    return compilation.finish()


def _after_fork() -> None:
    """Nobody in the child holds the locks."""
    global _lock, _improving
    _lock, _improving = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
