"""The native executable: a compiled plan, run over the memory of Arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import compile_log, config, dtypes, errors
from ..backends import interface, llvm
from ..backends.llvm import driver, programs, tier
from ..backends.llvm.aside import aside
from ..backends.llvm.cache import disk_cache
from ..backends.llvm.compiler import Compilation, needs_of
from ..backends.llvm.threads import Context
from ..core import effects as fx
from ..core.avals import ShapedArray
from ..core.jaxpr import ClosedJaxpr
from ..core.trace import empty_context, valueless_error
from ..garbage import uncollected
from ..lazy_imports import lazy_module
from ..loops import pipeline
from ..loops.canon import statements, waits
from ..loops.ir import Kernel
from ..loops.nesting import deep
from ..loops.plan import JumpStep
from ..records import record
from . import array as array_module, memory, native_layout as L
from .queue import Job, queue

# Plans that take longer than this go to the queue: their caller gets pending arrays at once. The
# way to the queue's thread and back costs 50 us. Our estimate says how long a plan takes, until so
# many runs on the queue have been timed, one of which took less than the second number.
ASYNC_SECONDS, SURELY_SHORT, TIMED_RUNS = 1e-3, 5e-4, 3
MOST_TIMED = 100
# Plans with more work than this run without the GIL.
GIL_WORK = 5e4

# NumPy's rules of every primitive: hardly any program has an equation without a lowering.
reference: Any = lazy_module("pullback.backends.reference")
memory_limit: Any = lazy_module("pullback.loops.memory_limit")
scratch: Any = lazy_module("pullback.loops.scratch")
show: Any = lazy_module("pullback.loops.show")


@record(eq=True)
class MemoryAnalysis:
    """Bytes of a program: its arguments, its results, what its temporaries and the scratch of its
    kernels take at most, and the results that lie in the memory of donated arguments."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int = 0
    generated_code_size_in_bytes: int = 0

    @property
    def peak_memory_in_bytes(self) -> int:
        results = self.output_size_in_bytes - self.alias_size_in_bytes
        return self.argument_size_in_bytes + results + self.temp_size_in_bytes


def physical(aval: Any) -> ShapedArray:
    """The type of the memory behind a value: keys are words, a value without information is one
    byte an element."""
    d = aval.dtype
    if isinstance(d, dtypes.ExtendedDType):
        suffix, base = d.physical
        return ShapedArray((*aval.shape, *suffix), base)
    if d == dtypes.float0:
        return ShapedArray(aval.shape, np.dtype(bool))
    return aval  # type: ignore[no-any-return]


def reference_rule(eqn: Any) -> Callable[..., list[Any]]:
    """An equation that has no lowering, as a function of NumPy arrays: the reference backend's
    rule."""
    primitive, params = eqn.primitive, eqn.params
    rule = reference.rule_of(primitive)

    def call(*arrays: Any) -> list[Any]:
        # Python code inside a computation starts from an empty trace context.
        with empty_context(), np.errstate(all="ignore"):
            out = rule(*arrays, **params)
        return list(out) if primitive.multiple_results else [out]

    return call


@functools.lru_cache(None)
def _words(n: int) -> Any:
    """The type of blocks of so many words. Made anew each time it would be garbage of the kind that
    only the collector finds."""
    return ctypes.c_int64 * n


class _Contexts(threading.local):
    def __init__(self) -> None:
        self.free: list[Context] = []


_contexts = _Contexts()


@contextlib.contextmanager
def _context() -> Iterator[Context]:
    """A context block of this thread; nested runs get another."""
    ctx = (
        _contexts.free.pop()
        if _contexts.free
        else Context(memory.alloc_address, memory.free_address)
    )
    ctx.reset()
    try:
        yield ctx
    finally:
        _contexts.free.append(ctx)


def prepare() -> None:
    """Makes what runs programs, so that no first call waits for it. Where that fails, who needs it
    meets the error."""
    with contextlib.suppress(Exception):
        for release_gil in (False, True):
            driver.functions(release_gil)


class NativeExecutable:
    """A compiled program: call it with Arrays of its argument types."""

    def __init__(
        self, closed: ClosedJaxpr, donated: Sequence[bool] = (), limit: int | None = None
    ) -> None:
        fx.check_lowerable(closed.effects)
        info = closed.jaxpr.debug_info
        self.name = (
            info.func_name
            if info is not None
            else (closed.eqns[0].primitive.name if closed.eqns else "identity")
        )
        self._room: int | None = None  # bytes of temporaries, if they are limited
        if limit is not None:
            closed = self._fitted(closed, donated, limit)
        self._compile(closed, donated)
        self.plan = driver.encode(self.program, self.kernels)
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self._consts = [(slot, self._constant(value, slot)) for slot, value in self.program.consts]
        self._physical_out = [array_module._intern(physical(a)) for a in self.out_avals]
        # Arguments without information: kernels see bytes, which the caller's arrays have not.
        self._bare = [k for k, a in enumerate(self.in_avals) if a.dtype == dtypes.float0]
        self._equations = self.program.equations
        # Arguments that the plan overwrites with a result, and the types of those results.
        self._given = {k: self._physical_out[n] for k, n in self.program.donated}
        # What the native fast path needs to make calls without Python: see runtime/stub.
        self.consts = self._consts
        self.plan_ins = self.program.ins
        self.plan_outs = list(zip(self.program.outs, self._physical_out, strict=True))
        self.has_host = bool(self.program.host)
        self._host_calls = [
            (h.call, [_spec(*x) for x in h.ins], [_spec(*x) for x in h.outs])
            for h in self.program.host
        ]
        # Loops of unknown length let other threads go on, and look for signals now and then.
        self.releases_gil = self.program.work > GIL_WORK or self._unbounded
        plain = all(
            isinstance(a.dtype, np.dtype) and a.dtype != dtypes.float0
            for a in (*self.in_avals, *self.out_avals)
        )
        self._plain = plain and len(self.in_avals) == len(self.plan_ins)
        self._seconds = self.program.seconds
        self._timed, self._fastest = 0, math.inf  # runs on the queue

    @property
    def nativable(self) -> bool:
        """Whether calls may run the plan at once, without Python."""
        return self._plain and self._seconds <= ASYNC_SECONDS

    def settled(self) -> bool:
        """Whether runs are as fast as they will soon be: the second may wait for better code."""
        return not self.plan.hasty or tier.settled(self.plan)

    @deep
    def _compile(self, closed: ClosedJaxpr, donated: Sequence[bool]) -> None:
        """The program and the machine code of its kernels, from disk or made now."""
        start = time.perf_counter()
        key = None if pipeline.debug() else programs.program_key(closed, donated, self._room)
        # A copy: the program keeps what was made of it, this executable too, which is to go at once
        # when nobody holds the program any more.
        copy = ClosedJaxpr(closed.jaxpr, closed.consts)
        again = functools.partial(pipeline.compile_jaxpr, copy, reference_rule, donated)
        if self._room is not None:
            again = functools.partial(again, room=self._room, rolls=False)
        known = None if key is None else programs.recall(key, closed, again, reference_rule)
        if known is not None:
            self.program, self.kernels, self._unbounded = (
                known.program, known.kernels, known.unbounded,
            )  # fmt: skip
            entries, tiles = known.entries(), known.tile_entries()
            lowered = time.perf_counter()
        else:
            compilation, lowered = self._made(closed, donated)
            entries, tiles = compilation.entries(), compilation.tile_entries()
            cache = disk_cache()
            if key is not None and cache is not None:
                keep = closed, self.program, self.kernels, self._unbounded
                aside(programs.remember, cache, key, *keep)
        traced = float(closed.derived.get("trace seconds", 0.0))
        times = lowered - start, time.perf_counter() - lowered
        compile_log.note(
            compile_log.ProgramEntry(self.name, len(closed.eqns), traced, *times, entries, tiles)
        )

    def _fitted(self, closed: ClosedJaxpr, donated: Sequence[bool], limit: int) -> ClosedJaxpr:
        """The program, if its plan takes `limit` bytes or less, else one that does for the same
        results; JaxRuntimeError if there is none."""
        plan = functools.partial(pipeline.compile_jaxpr, reference=reference_rule, donated=donated)
        threads = llvm.num_threads()
        with uncollected:
            first = plan(closed)
            if memory_limit.peak_bytes(first, threads) <= limit:
                return closed
            room = max(0, limit - memory_limit.fixed_bytes(first))
            planned = lambda c, room, survey: plan(c, rolls=False, room=room, survey=survey)
            progress = compile_log.Progress(self.name)
            try:
                found = memory_limit.within(closed, limit, room, planned, threads, progress.tell)
            finally:
                progress.done()
        fitted: ClosedJaxpr = found[0]
        self._room, peak = found[1:]
        if peak > limit:
            args, outs = (sum(map(_nbytes, avals)) for avals in (closed.in_avals, closed.out_avals))
            raise errors.JaxRuntimeError(
                f"RESOURCE_EXHAUSTED: {self.name} takes {peak:,} bytes at least, {args:,} of them "
                f"arguments and {outs:,} results, and its memory_limit is {limit:,}. Fix: a larger "
                "limit, smaller batches, donated arguments, or checkpoint in the bodies of loops."
            )
        return fitted

    def _made(self, closed: ClosedJaxpr, donated: Sequence[bool]) -> tuple[Compilation, float]:
        """Lowers and compiles; the compilation, and when it had nothing more to wait for than
        LLVM."""
        compilation = Compilation()

        def ready(kernel: Kernel, cost: pipeline.Cost, alone: bool = False) -> None:
            what = bool(needs_of(kernel)), statements(kernel), cost.runs
            haste = tier.haste(cost.work, cost.seconds, cost.own, *what)
            compilation.add(kernel, haste, alone, cost.dims)
            progress.tell(f"{len(compilation.orders)} kernels so far")

        def foresee(kind: str, work: float) -> None:
            if tier.haste(work, math.inf, math.inf, tiles=True).tiles:
                compilation.foresee(kind)

        progress = compile_log.Progress(self.name)
        try:
            with uncollected:
                self.program = pipeline.compile_jaxpr(
                    closed, reference_rule, donated, ready=ready, foresee=foresee,
                    room=self._room, rolls=self._room is None,
                )  # fmt: skip
                lowered = time.perf_counter()
                self.kernels = compilation.finish(progress)
        finally:
            progress.done()
        self._unbounded = any(isinstance(s, JumpStep) for s in self.program.steps) or any(
            map(waits, self.program.kernels)
        )
        return compilation, lowered

    def _constant(self, value: Any, slot: int) -> Any:
        if isinstance(value, array_module.ArrayImpl):
            return _of_its_own(value)
        if getattr(value, "has_no_value", False):
            raise valueless_error(value)
        spec = self.program.slots[slot]
        base = getattr(value, "_base_array", value)
        if isinstance(base, array_module.ArrayImpl):
            return _of_its_own(base)
        x = np.ascontiguousarray(np.asarray(base))
        if x.dtype == dtypes.float0:
            return array_module.make_array(np.zeros(spec.shape, bool))
        d = dtypes.canonicalize_dtype(x.dtype)
        return array_module.make_array(x.astype(d, copy=False).reshape(x.shape), copy=True)

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]:
        self.settled()
        if self._seconds > ASYNC_SECONDS and not queue().is_current():
            outs = self._submit(arrays, donated)
        else:
            outs = self.run(arrays, None, donated)
            for x, d in zip(arrays, donated, strict=False):
                if d:
                    array_module.delete(x)
        return [wrap(aval, out) for aval, out in zip(self.out_avals, outs, strict=True)]

    def run(
        self, arrays: Sequence[Any], job: Job | None = None, donated: Sequence[bool] = ()
    ) -> list[Any]:
        """The physical results for physical arguments, computed now."""
        if self._bare:
            arrays = self._with_bytes(arrays)
        if self._given:
            arrays = self._overwritable(arrays, donated)
        slots = _words(self.plan.slot_words)()
        held: dict[int, Any] = {}
        for slot, x in zip(self.program.ins, arrays, strict=True):
            held[slot] = x
            slots[slot] = array_module.data_address(x)
        for slot, x in self._consts:
            held[slot] = x
            slots[slot] = x._data
        outs = []
        given = {slot for slot, d in zip(self.program.ins, donated, strict=False) if d}
        for slot, aval in self.plan_outs:
            if slot in held:
                x = held[slot]
                out = _handed_over(x, aval) if slot in given else self._share(x, aval)
                held[slot] = out
                given.discard(slot)
            else:
                out = held[slot] = array_module.empty(aval)
                slots[slot] = out._data
            outs.append(out)
        self._run(slots, job)
        if self.plan.hasty:
            tier.ran(self.plan)
        return outs

    def _with_bytes(self, arrays: Sequence[Any]) -> list[Any]:
        """The arguments, those without information as arrays of one byte an element."""
        out = list(arrays)
        for k in self._bare:
            out[k] = array_module.make_array(np.zeros(self.in_avals[k].shape, bool))
        return out

    def _overwritable(self, arrays: Sequence[Any], donated: Sequence[bool]) -> list[Any]:
        """The arguments, those that the plan overwrites as arrays of their results: in the memory
        of the argument if it was donated and nothing else holds it, else in a copy."""
        out = list(arrays)
        for k, aval in self._given.items():
            x, address = arrays[k], 0
            source, nbytes = array_module.data_address(x), _nbytes(aval)
            alone = sum(other is x for other in arrays) == 1 and x._capacity == nbytes
            if alone and k < len(donated) and donated[k]:
                address = array_module.steal(x)
            if address:
                out[k] = array_module.adopt(aval, address, nbytes)
            else:
                out[k] = array_module.empty(aval)
                ctypes.memmove(out[k]._data, source, nbytes)
        return out

    def _submit(self, arrays: Sequence[Any], donated: Sequence[bool]) -> list[Any]:
        """Queues the computation; its results are pending. Donated arguments are deleted
        now, and freed by the computation."""
        taken = {id(x): _take(x) for x, d in zip(arrays, donated, strict=False) if d}
        held = [taken.get(id(x), x) for x in arrays]
        taken.clear()

        # The caller's own number of threads goes with the work.
        own = config.thread_counts.get(threading.get_ident())

        def work(job: Job) -> None:
            start = time.perf_counter()
            with config.num_threads(own) if own else contextlib.nullcontext():
                outs = self.run(held, job, donated)
            self._learn(time.perf_counter() - start)
            held.clear()
            with job.lock:
                for target in job.targets:
                    _move(outs.pop(0), target)

        job = Job(self.name, work, _fail_targets)
        job.targets = [array_module.pending(aval, job) for aval in self._physical_out]
        outs = list(job.targets)
        queue().submit(job)
        if not config.cpu_enable_async_dispatch.get():
            job.wait()
        return outs

    def _learn(self, seconds: float) -> None:
        """What runs take says more than the estimate. The first ones may have met quick code."""
        self._timed, self._fastest = self._timed + 1, min(self._fastest, seconds)
        if TIMED_RUNS <= self._timed <= MOST_TIMED and self._fastest < SURELY_SHORT:
            self._seconds = self._fastest

    def _share(self, x: Any, aval: Any) -> Any:
        """An output that is an input, a constant or another output: the same memory, as an array
        of its own, whose type may be another. Another output's values are still to come. What
        another library may write to is copied, as native calls copy NumPy's arrays."""
        own = _of_its_own(x) if array_module.is_foreign(x) else array_module.twin(x)
        if x.aval is not aval:
            own._aval = aval
        return own

    def _run(self, slots: Any, job: Job | None) -> None:
        job = job or queue().current()
        with _context() as ctx:
            if job is not None:
                job.hook(ctx.cancel)
            try:
                self.plan.run(
                    slots, ctx, lambda k: self.run_host(k, slots), release_gil=self.releases_gil
                )
            except driver.PlanError as error:
                raise self._explain(error) from None
            finally:
                if job is not None:
                    job.unhook(ctx.cancel)

    def raise_error(self, pc: int, code: int, equation: int) -> None:
        """Raises what a failed step of the plan means."""
        raise self._explain(driver.PlanError(code, equation, pc))

    def _explain(self, error: driver.PlanError) -> BaseException:
        k = error.equation
        where = (
            f" at {self._equations[k].source_info.summary()}"
            if 0 <= k < len(self._equations)
            else ""
        )
        if error.code == 1:
            text = f"the computation {self.name} was interrupted{where}"
            raised = llvm.runtime().take_error()  # what a signal's handler raised in this run
            if raised is None:
                return KeyboardInterrupt(text)
            raised.add_note(text)
            return raised
        if error.code == 2:
            peak = self.program.peak_bytes
            return errors.OutOfMemoryError.allocating(peak, f", the peak of {self.name}{where}")
        return errors.JaxRuntimeError(f"{self.name} failed{where}: {error}")

    def run_host(self, number: int, slots: Any) -> None:
        call, ins, outs = self._host_calls[number]
        results = call(*[_at(slots[slot], *spec) for slot, *spec in ins])
        kept = [r for r in results if r is not None]
        for (slot, *spec), r in zip(outs, kept, strict=True):
            target = _at(slots[slot], *spec)
            if target.dtype != dtypes.float0:
                target[...] = np.asarray(r).reshape(target.shape)

    # --- what the stages of ahead-of-time compilation ask ---
    def as_text(self) -> str:
        """The plan and the kernels as loops (`PULLBACK_DEBUG=llvm` prints their LLVM IR)."""
        parts = [f"program {self.name}", *(f"  {k}: {s}" for k, s in enumerate(self.program.steps))]
        for kernel in self.program.kernels:
            parts += ["", show.show_kernel(kernel)]
        return "\n".join(parts)

    def memory_analysis(self) -> MemoryAnalysis:
        args = sum(_nbytes(a) for a in self.in_avals)
        outs = sum(_nbytes(a) for a in self.out_avals)
        temps = scratch.temporary_bytes(self.program, llvm.num_threads())
        alias = sum(_nbytes(aval) for aval in self._given.values())
        return MemoryAnalysis(args, outs, temps, alias)


def _nbytes(aval: Any) -> int:
    p = physical(aval)
    return int(p.size) * int(p.dtype.itemsize)  # type: ignore[union-attr]


def _fail_targets(job: Job) -> None:
    with job.lock:
        for x in job.targets:
            if x._state == L.PENDING:
                array_module.fail(x)


def _take(x: Any) -> Any:
    """A donated argument: its memory under a new array, the argument deleted. Memory that others
    hold stays theirs."""
    event = x._event
    if x._state == L.PENDING and isinstance(event, Job):
        # Its values are on their way: they go to another array.
        with event.lock:
            for k, target in enumerate(event.targets):
                if target is x and x._state == L.PENDING:
                    event.targets[k] = other = array_module.pending(x.aval, event)
                    array_module.abandon(x)
                    return other
    array_module.wait(x)
    capacity = x._capacity
    address = array_module.steal(x)
    if address:
        return array_module.adopt(x.aval, address, capacity)
    kept = array_module.make_array(array_module.np_view(x), x.aval)
    array_module.delete(x)
    return kept


def _handed_over(x: Any, aval: Any) -> Any:
    """An output that is a donated argument: in its memory, or a copy where others hold on to that,
    so that the next call's donation finds an array of our own."""
    capacity, source = x._capacity, array_module.data_address(x)
    address = array_module.steal(x) if capacity == _nbytes(aval) else 0
    if address:
        return array_module.adopt(aval, address, capacity)
    out = array_module.empty(aval)
    ctypes.memmove(out._data, source, _nbytes(aval))
    return out


def _of_its_own(x: Any) -> Any:
    """An array in memory that nobody else writes to: a program keeps the values that constants had
    when it was made, also if these lie in arrays of NumPy."""
    if not array_module.is_foreign(x):
        return x
    out = array_module.empty(x.aval)
    ctypes.memmove(out._data, array_module.data_address(x), _nbytes(x.aval))
    return out


def _move(out: Any, target: Any) -> None:
    """Gives a computed array's memory to the pending array that stands for it; a copy if others
    hold on to that memory."""
    capacity = out._capacity
    address = array_module.steal(out)
    if not address:
        capacity = max(_nbytes(out.aval), 1)
        address = memory.alloc(capacity)  # type: ignore[assignment]
        if not address:
            raise errors.OutOfMemoryError.allocating(capacity, " for a result")
        ctypes.memmove(address, array_module.data_address(out), _nbytes(out.aval))  # type: ignore[unreachable]
    array_module.fulfil(target, address, capacity)


def wrap(aval: Any, x: Any) -> Any:
    """The value that a program's result is: an array, or a key array over one."""
    d = aval.dtype
    if isinstance(d, dtypes.ExtendedDType):
        return interface.wrap_extended(d, x)
    if d == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return x


def _spec(slot: int, _: Any, aval: Any) -> tuple[int, tuple[int, ...], Any, Any]:
    """What a host step needs to see a slot as a NumPy array: shape, dtype, type of its bytes."""
    if aval.dtype == dtypes.float0:
        return slot, aval.shape, aval.dtype, None
    p = physical(aval)
    return slot, p.shape, p.dtype, ctypes.c_char * (p.size * p.dtype.itemsize)  # type: ignore[union-attr]


def _at(address: int, shape: tuple[int, ...], dtype: Any, raw: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over a slot's memory."""
    if raw is None:
        return np.zeros(shape, dtypes.float0)
    if not raw._length_:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, raw.from_address(address))
