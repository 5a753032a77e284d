"""LLVM beside Python: native threads that compile texts while the interpreter writes the next ones.

A thread that comes back from LLVM into Python must wait for the GIL, up to five milliseconds each
time, and makes the others wait in turn. These threads never come back: a job is a block of memory
that the interpreter fills and publishes in a ring; a native thread claims it, has LLVM parse the
text and write the object, and marks it done. Whoever wants the result compiles what is still
unclaimed, then sleeps until the rest is done.

A patient workshop has one thread and a ring of its own: what it makes is better code for what runs
meanwhile, and nobody's first call stands behind it.

Shop:  0 sequence | 8 published | 16 claimed | 24 ring | 32 syscall | 40 at work | 48 closed
       56 clock_gettime
Desk:  0 shop | 8 parse | 16 emit | 24 dispose | 32 new context | 40 drop context | 48 context
       56 modules | 64 machines by level (4); one for each thread
Job:   0 state (1 dropped, 2 done) | 8 text | 16 level | 24 object | 32 message | 40 nanoseconds
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p
from typing import Any

from pullback.backends.llvm import link, os_shim, preload
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.loader import Code
from pullback.backends.llvm.target import Target
from pullback.forking import Gate

__all__ = ["Job", "Workshop", "workshop_text"]

RING = 4096
MOST_THREADS = 7
MODULES_PER_CONTEXT = 400  # a context never forgets its types and constants
NAP = 0.05  # seconds of waiting in native code between two looks at Python's signals
DROPPED, DONE = 1, 2
CONTEXT = 6  # words of a desk before its context, and the number of modules that this has held
MACHINES = 8  # words before its machines

_TEXT = """
define internal i64 @now(ptr %desk) nounwind {
entry:
 %t = alloca [2 x i64]
 %shop = load ptr, ptr %desk
 %kp = getelementptr i8, ptr %shop, i64 56
 %clock = load ptr, ptr %kp
 %r = call i32 %clock(i32 1, ptr %t)
 %np = getelementptr i8, ptr %t, i64 8
 %s = load i64, ptr %t
 %n = load i64, ptr %np
 %k = mul i64 %s, 1000000000
 %v = add i64 %k, %n
 ret i64 %v
}
define internal void @run(ptr %desk, ptr %job) nounwind {
entry:
 %t0 = call i64 @now(ptr %desk)
 %pp = getelementptr i8, ptr %desk, i64 8
 %ep = getelementptr i8, ptr %desk, i64 16
 %dp = getelementptr i8, ptr %desk, i64 24
 %cp = getelementptr i8, ptr %desk, i64 48
 %np = getelementptr i8, ptr %desk, i64 56
 %mp = getelementptr i8, ptr %desk, i64 64
 %tp = getelementptr i8, ptr %job, i64 8
 %lp = getelementptr i8, ptr %job, i64 16
 %op = getelementptr i8, ptr %job, i64 24
 %gp = getelementptr i8, ptr %job, i64 32
 %n = load i64, ptr %np
 %n1 = add i64 %n, 1
 store i64 %n1, ptr %np
 %many = icmp sgt i64 %n, {modules}
 br i1 %many, label %renew, label %parse
renew:
 %newp = getelementptr i8, ptr %desk, i64 32
 %dropp = getelementptr i8, ptr %desk, i64 40
 %new = load ptr, ptr %newp
 %drop = load ptr, ptr %dropp
 %old = load ptr, ptr %cp
 call void %drop(ptr %old)
 %fresh = call ptr %new()
 store ptr %fresh, ptr %cp
 store i64 0, ptr %np
 br label %parse
parse:
 %pf = load ptr, ptr %pp
 %c = load ptr, ptr %cp
 %t = load ptr, ptr %tp
 %m = call ptr %pf(ptr %c, ptr %t, ptr %gp)
 %none = icmp eq ptr %m, null
 br i1 %none, label %done, label %emit
emit:
 %ef = load ptr, ptr %ep
 %level = load i64, ptr %lp
 %at = getelementptr ptr, ptr %mp, i64 %level
 %machine = load ptr, ptr %at
 %o = call ptr %ef(ptr %machine, ptr %m, i32 1, ptr %gp)
 store ptr %o, ptr %op
 %df = load ptr, ptr %dp
 call void %df(ptr %m)
 br label %done
done:
 %t1 = call i64 @now(ptr %desk)
 %dt = sub i64 %t1, %t0
 %tt = getelementptr i8, ptr %job, i64 40
 store i64 %dt, ptr %tt
 store atomic i32 2, ptr %job release, align 4
 %shop = load ptr, ptr %desk
 %sp = getelementptr i8, ptr %shop, i64 32
 %sys = load ptr, ptr %sp
 %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %job, i64 129, i32 2147483647)
 ret void
}
define internal i1 @take(ptr %desk) nounwind {
entry:
 %shop = load ptr, ptr %desk
 %pp = getelementptr i8, ptr %shop, i64 8
 %cp = getelementptr i8, ptr %shop, i64 16
 %rp = getelementptr i8, ptr %shop, i64 24
 %bp = getelementptr i8, ptr %shop, i64 40
 %xp = getelementptr i8, ptr %shop, i64 48
 %ring = load ptr, ptr %rp
 br label %look
look:
 %closed = load atomic i64, ptr %xp seq_cst, align 8
 %open = icmp eq i64 %closed, 0
 br i1 %open, label %see, label %none
see:
 %c = load atomic i64, ptr %cp seq_cst, align 8
 %p = load atomic i64, ptr %pp seq_cst, align 8
 %some = icmp slt i64 %c, %p
 br i1 %some, label %claim, label %none
claim:
 %slot = and i64 %c, {last}
 %jp = getelementptr ptr, ptr %ring, i64 %slot
 %job = load ptr, ptr %jp
 %c1 = add i64 %c, 1
 %b0 = atomicrmw add ptr %bp, i64 1 seq_cst
 %closed2 = load atomic i64, ptr %xp seq_cst, align 8
 %still = icmp eq i64 %closed2, 0
 br i1 %still, label %go, label %lost
go:
 %pair = cmpxchg ptr %cp, i64 %c, i64 %c1 seq_cst seq_cst
 %mine = extractvalue { i64, i1 } %pair, 1
 br i1 %mine, label %work, label %lost
lost:
 %b1 = atomicrmw sub ptr %bp, i64 1 seq_cst
 br label %look
work:
 call void @run(ptr %desk, ptr %job)
 %b2 = atomicrmw sub ptr %bp, i64 1 seq_cst
 ret i1 true
none:
 ret i1 false
}
define ptr @pb_serve(ptr %desk) nounwind {
entry:
 %shop = load ptr, ptr %desk
 %sp = getelementptr i8, ptr %shop, i64 32
 br label %top
top:
 %seq = load atomic i32, ptr %shop seq_cst, align 4
 %did = call i1 @take(ptr %desk)
 br i1 %did, label %top, label %sleep
sleep:
 %sys = load ptr, ptr %sp
 %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %shop, i64 128, i32 %seq, ptr null)
 br label %top
}
define i64 @pb_help(ptr %desk) nounwind {
entry:
 %did = call i1 @take(ptr %desk)
 %r = zext i1 %did to i64
 ret i64 %r
}
define void @pb_publish(ptr %shop, ptr %job) nounwind {
entry:
 %nothing = icmp eq ptr %job, null
 br i1 %nothing, label %rouse, label %push
push:
 %pp = getelementptr i8, ptr %shop, i64 8
 %rp = getelementptr i8, ptr %shop, i64 24
 %ring = load ptr, ptr %rp
 %p = load atomic i64, ptr %pp seq_cst, align 8
 %slot = and i64 %p, {last}
 %jp = getelementptr ptr, ptr %ring, i64 %slot
 store ptr %job, ptr %jp
 %p1 = add i64 %p, 1
 store atomic i64 %p1, ptr %pp seq_cst, align 8
 br label %rouse
rouse:
 %count = phi i32 [ 2147483647, %entry ], [ 1, %push ]
 %sp = getelementptr i8, ptr %shop, i64 32
 %o = atomicrmw add ptr %shop, i32 1 seq_cst
 %sys = load ptr, ptr %sp
 %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %shop, i64 129, i32 %count)
 ret void
}
define void @pb_wait(ptr %shop, ptr %job) nounwind {
entry:
 %span = alloca [2 x i64]
 %sp = getelementptr i8, ptr %shop, i64 32
 %sys = load ptr, ptr %sp
 %s = load atomic i32, ptr %job acquire, align 4
 %done = icmp eq i32 %s, 2
 br i1 %done, label %out, label %sleep
sleep:
 store i64 0, ptr %span
 %np = getelementptr i8, ptr %span, i64 8
 store i64 {nap}, ptr %np
 %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %job, i64 128, i32 %s, ptr %span)
 br label %out
out:
 ret void
}
"""


def _futex(target: Target) -> int:
    """The number of the system call."""
    return 98 if target.level == "neon" else 202


def workshop_text(target: Target) -> str:
    """The native half, as textual IR."""
    values = {
        "futex": str(_futex(target)),
        "modules": str(MODULES_PER_CONTEXT),
        "last": str(RING - 1),
        "nap": str(int(NAP * 1e9)),
    }
    text = _TEXT + preload.NATIVE_TEXT
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return f'target triple = "{target.triple}"\n{text}'


class Job:
    """One module on its way through LLVM."""

    __slots__ = ("block", "level", "text")

    def __init__(self, text: str, level: int) -> None:
        self.text, self.level = text.encode(), level
        address = ctypes.cast(ctypes.c_char_p(self.text), c_void_p).value
        self.block = (c_int64 * 6)(0, address or 0, level, 0, 0, 0)

    @property
    def done(self) -> bool:
        return self.block[0] == DONE

    @property
    def dropped(self) -> bool:
        return self.block[0] == DROPPED

    @property
    def lines(self) -> int:
        """How long its text is."""
        return self.text.count(b"\n")

    @property
    def seconds(self) -> float:
        """How long LLVM took."""
        return self.block[5] * 1e-9

    def take(self) -> bytes:
        """The object of a job that is done; once.

        Raises CompileError when LLVM refused the text.
        """
        buffer, message = self.block[3], self.block[4]
        self.block[3] = self.block[4] = 0  # both are freed now
        return link.taken(self.text, buffer, message)


class Workshop(Gate):
    """The ring, its native threads, and a desk for each thread that compiles. A fork waits until
    nobody is at work; the child must make a workshop of its own."""

    def __init__(self, target: Target, code: Code | JitCode, patient: bool = False) -> None:
        super().__init__()
        self.target, self.code = target, code
        code.keep_forever()
        p, at = c_void_p, code.symbols
        self._serve = at["pb_serve"]
        self._publish = ctypes.PYFUNCTYPE(None, p, p)(at["pb_publish"])
        self._help = ctypes.CFUNCTYPE(c_int64, p)(at["pb_help"])
        self._wait = ctypes.CFUNCTYPE(None, p, p)(at["pb_wait"])
        self._lock = threading.Lock()
        self._ring = (c_void_p * RING)()
        syscall, clock = (os_shim.address_of(name) for name in ("syscall", "clock_gettime"))
        self._shop = (c_int64 * 8)(0, 0, 0, ctypes.addressof(self._ring), syscall, 0, 0, clock)
        self._address = ctypes.addressof(self._shop)
        self._most = min(os_shim.cpu_count() - 1, 1 if patient else MOST_THREADS)
        self._threads = 0
        self._desks: list[tuple[Any, Any]] = []
        self._levels: set[int] = set()  # that all desks have machines for
        self._open: list[Job] = []  # published: their memory must stay until they are done
        self.usable, self.ended = True, False
        atexit.register(self._end, 10.0)

    def _desk(self) -> tuple[Any, Any]:
        """A thread's context and machines, and the block that tells native code of them; with the
        lock held."""
        owner, words = link.desk()
        block = (c_int64 * 12)(self._address, *words)
        for level in self._levels:
            block[MACHINES + level] = owner.machine(self.target, level)
        self._desks.append((owner, block))
        return owner, block

    def _leave(self, owner: Any, block: Any) -> None:
        """A desk that is left: what is compiled next, here or by whoever needs a compiler, has its
        machines, which have been prepared."""
        with self._lock:
            self._desks.remove((owner, block))
        link.put_back(owner, block[CONTEXT], block[CONTEXT + 1])

    def _provide(self, level: int) -> None:
        """Machines of a level for every desk, before there is a job that asks for it."""
        for owner, block in self._desks:
            block[MACHINES + level] = owner.machine(self.target, level)
        self._levels.add(level)

    def publish(self, job: Job) -> bool:
        """Offers a job to the native threads. False when there are none or they have too much."""
        with self._lock:
            waiting = self._shop[1] - self._shop[2]
            if waiting >= RING - 1 or not self.usable or self._shop[6]:
                return False
            if job.level not in self._levels:
                self._provide(job.level)
            if len(self._open) > 64:
                self._open = [j for j in self._open if not j.done]
            if self._threads < self._most and waiting >= self._threads:
                _, block = self._desk()
                self._threads += os_shim.start_thread(
                    self._serve, ctypes.addressof(block), block, self._shop, self._ring
                )
            if not self._threads:
                return False
            self._open.append(job)
            self._publish(self._address, ctypes.addressof(job.block))
        return True

    def finish(
        self,
        jobs: Sequence[Job],
        each: Callable[[], None] | None = None,
        other: Callable[[], bool] | None = None,
    ) -> None:
        """Returns when all these jobs, which have been published, are done; takes part in the
        work. `each` is called now and then; `other` does some other work, if there is any, when
        there is nothing left to take."""
        waiting = [job for job in jobs if not job.done]
        if not waiting:
            return
        with self._lock:
            owner, block = self._desk()
        desk = ctypes.addressof(block)
        try:
            while waiting := [job for job in waiting if not job.done]:
                if not self.usable:  # a child of the process that published them
                    raise RuntimeError("internal error in pullback: a compilation was forked")
                if not self._help(desk) and not (other is not None and other()):
                    self._wait(self._address, ctypes.addressof(waiting[0].block))
                if each is not None:
                    each()
        finally:
            self._leave(owner, block)

    def await_(self, job: Job) -> bool:
        """Returns when a job that has been published is done; False if it never will be."""
        while not job.done:
            if not self.usable or job.dropped:
                return False
            self._wait(self._address, ctypes.addressof(job.block))
        return True

    def _end(self, patience: float) -> None:
        """At exit: whoever waits for what nobody has begun is told."""
        self.ended = True
        self._stop(patience)
        for job in self._open:
            if not job.done:
                job.block[0] = DROPPED
                wake = ctypes.c_void_p(ctypes.addressof(job.block)), 129, 2**31 - 1
                os_shim.libc().syscall(_futex(self.target), *wake)

    def _stop(self, patience: float) -> None:
        """Nothing is begun any more, and what has been begun is finished: LLVM must not be at work
        while its library is torn down, nor while the process is copied."""
        self._shop[6] += 1
        end = time.monotonic() + patience
        while self._shop[5] > 0 and time.monotonic() < end:
            time.sleep(0.0005)

    def foresee(self) -> None:
        """LLVM may be asked for: its library is mapped meanwhile, where that can be."""
        if not link.loaded() and self._most > 0:
            serve = self.code.symbols["pb_preload"]
            preload.begin(link.library_path(), self.target, serve, self._wait)

    def close(self) -> None:
        """Before a fork."""
        self._stop(30.0)

    def open(self) -> None:
        """After it, in the parent."""
        self._shop[6] -= 1
        if self._shop[6] == 0:
            self._publish(self._address, None)

    def renew(self) -> None:
        """In the child: no threads, and nothing of this is used again."""
        self.usable = False
