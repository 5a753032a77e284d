"""The fork-join pool of threads as textual IR, part of the native runtime (native.py).

Pool state (libc memory, never freed, because workers outlive the interpreter's shutdown):
  0 chunks left, in the upper half seats left | 64 chunks done | 128 fn, 136 closure, 144 n,
  152 ctx | 192 sequence | 256 sleepers | 320 lock 384 spin cycles | 392 syscall |
  400 sched_yield | 408 mutex_lock | 416 mutex_unlock | 424 cond_wait | 432 cond_broadcast
  512 mutex | 640 condition | 704 taken from the top | 768 taken from below

A caller publishes `n` chunks, and a seat for each thread that may help (the context's number of
threads, less its own); it takes chunks itself, workers claim theirs, the first one together with a
seat, so nobody waits for a worker that sleeps, and more workers than were asked for stay out. A
worker claims its next chunk before it says that the last one is done: until then the work cannot
end, so that what it claims belongs to the same call. The caller takes the first chunks, workers
the last ones: what one kernel leaves in a core's cache is where the next one reads it. The lock
makes a nested or concurrent call run its chunks serially.
"""

from __future__ import annotations

from pullback.backends.llvm.target import Target

__all__ = ["POOL_BYTES", "pool_text"]

POOL_BYTES = 1024

_SPIN = "".join(f" %s{k} = load atomic i64, ptr %p monotonic, align 8\n" for k in range(8))

_CHUNK = """
define internal void @chunk(ptr %ctx, ptr %fn, ptr %closure, i64 %k) nounwind {
entry:
 %cp = getelementptr i8, ptr %ctx, i64 24
 %ep = getelementptr i8, ptr %ctx, i64 40
 %word = load ptr, ptr %cp
 %flag = load atomic i32, ptr %word monotonic, align 4
 %cancelled = icmp ne i32 %flag, 0
 br i1 %cancelled, label %stop, label %look
stop:
 store atomic i64 1, ptr %ep monotonic, align 8
 ret void
look:
 %e = load atomic i64, ptr %ep monotonic, align 8
 %failed = icmp ne i64 %e, 0
 br i1 %failed, label %done, label %run
run:
 call void %fn(ptr %ctx, ptr %closure, i64 %k)
 br label %done
done:
 ret void
}
define internal void @pause(ptr %p) nounwind noinline {
entry:
{spin} ret void
}
define internal i1 @claim(ptr %pool, i64 %seat) nounwind {
entry:
 %take = add i64 %seat, 1
 %first = load atomic i64, ptr %pool monotonic, align 8
 br label %look
look:
 %cur = phi i64 [ %first, %entry ], [ %now, %try ]
 %chunks = and i64 %cur, 4294967295
 %some = icmp ne i64 %chunks, 0
 %free = icmp uge i64 %cur, %seat
 %may = and i1 %some, %free
 br i1 %may, label %try, label %none
try:
 %next = sub i64 %cur, %take
 %pair = cmpxchg ptr %pool, i64 %cur, i64 %next seq_cst monotonic
 %now = extractvalue { i64, i1 } %pair, 0
 %got = extractvalue { i64, i1 } %pair, 1
 br i1 %got, label %mine, label %look
mine:
 ret i1 true
none:
 ret i1 false
}
define internal i1 @open(ptr %pool) nounwind {
entry:
 %cur = load atomic i64, ptr %pool seq_cst, align 8
 %chunks = and i64 %cur, 4294967295
 %some = icmp ne i64 %chunks, 0
 %seats = icmp ugt i64 %cur, 4294967295
 %yes = and i1 %some, %seats
 ret i1 %yes
}
define internal void @work(ptr %pool, ptr %side, i64 %turn, i64 %seat) nounwind noinline {
entry:
 %in = call i1 @claim(ptr %pool, i64 %seat)
 br i1 %in, label %begin, label %none
begin:
 %donep = getelementptr i8, ptr %pool, i64 64
 %fnp = getelementptr i8, ptr %pool, i64 128
 %clp = getelementptr i8, ptr %pool, i64 136
 %np = getelementptr i8, ptr %pool, i64 144
 %ctxp = getelementptr i8, ptr %pool, i64 152
 %fn = load ptr, ptr %fnp
 %closure = load ptr, ptr %clp
 %n = load i64, ptr %np
 %ctx = load ptr, ptr %ctxp
 %last = and i64 %turn, %n
 br label %run
run:
 %at = atomicrmw add ptr %side, i64 1 monotonic
 %rest = xor i64 %at, %turn
 %k = add i64 %rest, %last
 call void @chunk(ptr %ctx, ptr %fn, ptr %closure, i64 %k)
 %more = call i1 @claim(ptr %pool, i64 0)
 %d = atomicrmw add ptr %donep, i64 1 release
 br i1 %more, label %run, label %none
none:
 ret void
}
define ptr @pb_worker(ptr %pool) nounwind {
entry:
{set_fp}
 %seqp = getelementptr i8, ptr %pool, i64 192
 %slp = getelementptr i8, ptr %pool, i64 256
 %spp = getelementptr i8, ptr %pool, i64 384
 %topp = getelementptr i8, ptr %pool, i64 704
 br label %wait
wait:
 call void @work(ptr %pool, ptr %topp, i64 -1, i64 4294967296)
 %t0 = call i64 @llvm.readcyclecounter()
 %spin = load i64, ptr %spp
 br label %spinning
spinning:
 %more = call i1 @open(ptr %pool)
 br i1 %more, label %wait, label %still
still:
 call void @pause(ptr %pool)
 %t1 = call i64 @llvm.readcyclecounter()
 %dt = sub i64 %t1, %t0
 %again = icmp ult i64 %dt, %spin
 br i1 %again, label %spinning, label %sleep
sleep:
 %o1 = atomicrmw add ptr %slp, i32 1 seq_cst
 br label %check
check:
 %q = load atomic i32, ptr %seqp seq_cst, align 4
 %awake = call i1 @open(ptr %pool)
 br i1 %awake, label %woke, label %rest
rest:
 call void @pool_sleep(ptr %pool, i32 %q)
 br label %check
woke:
 %o2 = atomicrmw sub ptr %slp, i32 1 seq_cst
 br label %wait
}
define void @pb_parallel_for(ptr %ctx, ptr %fn, ptr %closure, i64 %n) nounwind {
entry:
 %poolp = getelementptr i8, ptr %ctx, i64 64
 %pool = load ptr, ptr %poolp
 %nopool = icmp eq ptr %pool, null
 %tp = getelementptr i8, ptr %ctx, i64 56
 %threads = load i64, ptr %tp
 %others = sub i64 %threads, 1
 %many = icmp ugt i64 %n, 2147483647
 %one = icmp ule i64 %n, 1
 %single = icmp slt i64 %others, 1
 %a0 = or i1 %nopool, %one
 %a1 = or i1 %a0, %many
 %alone = or i1 %a1, %single
 br i1 %alone, label %serial, label %try
try:
 %lkp = getelementptr i8, ptr %pool, i64 320
 %lk = atomicrmw xchg ptr %lkp, i32 1 acquire
 %got = icmp eq i32 %lk, 0
 br i1 %got, label %go, label %serial
serial:
 br label %next
next:
 %i = phi i64 [ 0, %serial ], [ %i1, %body ]
 %c = icmp slt i64 %i, %n
 br i1 %c, label %body, label %out
body:
 call void @chunk(ptr %ctx, ptr %fn, ptr %closure, i64 %i)
 %i1 = add i64 %i, 1
 br label %next
go:
 %donep = getelementptr i8, ptr %pool, i64 64
 %fnp = getelementptr i8, ptr %pool, i64 128
 %clp = getelementptr i8, ptr %pool, i64 136
 %np = getelementptr i8, ptr %pool, i64 144
 %ctxp = getelementptr i8, ptr %pool, i64 152
 %seqp = getelementptr i8, ptr %pool, i64 192
 %slp = getelementptr i8, ptr %pool, i64 256
 store ptr %fn, ptr %fnp
 store ptr %closure, ptr %clp
 store i64 %n, ptr %np
 store ptr %ctx, ptr %ctxp
 %topp = getelementptr i8, ptr %pool, i64 704
 %lowp = getelementptr i8, ptr %pool, i64 768
 store atomic i64 0, ptr %topp monotonic, align 8
 store atomic i64 0, ptr %lowp monotonic, align 8
 store atomic i64 0, ptr %donep monotonic, align 8
 %seats = shl i64 %others, 32
 %offer = or i64 %seats, %n
 store atomic i64 %offer, ptr %pool seq_cst, align 8
 %o = atomicrmw add ptr %seqp, i32 1 seq_cst
 %sl = load atomic i32, ptr %slp seq_cst, align 4
 %any = icmp ne i32 %sl, 0
 br i1 %any, label %wake, label %own
wake:
 %number = trunc i64 %others to i32
 call void @pool_wake(ptr %pool, i32 %number)
 br label %own
own:
 call void @work(ptr %pool, ptr %lowp, i64 0, i64 0)
 br label %join
join:
 %k = phi i64 [ 0, %own ], [ %k1, %spin ], [ 0, %yield ]
 %d = load atomic i64, ptr %donep acquire, align 8
 %all = icmp eq i64 %d, %n
 br i1 %all, label %fin, label %spin
spin:
 call void @pause(ptr %donep)
 %k1 = add i64 %k, 1
 %few = icmp slt i64 %k1, 5000
 br i1 %few, label %join, label %yield
yield:
 %yp = getelementptr i8, ptr %pool, i64 400
 %yf = load ptr, ptr %yp
 %y = call i32 %yf()
 br label %join
fin:
 store atomic i32 0, ptr %lkp release, align 4
 br label %out
out:
 ret void
}
define void @pb_launch(ptr %ctx, ptr %fn, ptr %closure, i64 %n, i64 %cost, i64 %grain) nounwind {
entry:
 %pp = getelementptr i8, ptr %closure, i64 16
 %work = mul i64 %n, %cost
 %small = icmp slt i64 %work, {serial}
 br i1 %small, label %whole, label %split
whole:
 %one = icmp slt i64 %n, 1
 %all = select i1 %one, i64 1, i64 %n
 store i64 %all, ptr %pp
 call void %fn(ptr %ctx, ptr %closure, i64 0)
 ret void
split:
 %tp = getelementptr i8, ptr %ctx, i64 56
 %threads = load i64, ptr %tp
 %several = icmp sgt i64 %threads, 1
 %t4 = mul i64 %threads, 4
 %w0 = select i1 %several, i64 %t4, i64 1
 %s0 = udiv i64 %work, {slice}
 %s1 = add i64 %s0, 1
 %more = icmp sgt i64 %s1, %w0
 %w1 = select i1 %more, i64 %s1, i64 %w0
 %f0 = udiv i64 %work, {fair}
 %f1 = add i64 %f0, 1
 %less = icmp slt i64 %f1, %w1
 %w2 = select i1 %less, i64 %f1, i64 %w1
 %p0 = add i64 %n, %w2
 %p1 = sub i64 %p0, 1
 %p2 = udiv i64 %p1, %w2
 %g0 = add i64 %p2, %grain
 %g1 = sub i64 %g0, 1
 %g2 = udiv i64 %g1, %grain
 %per = mul i64 %g2, %grain
 store i64 %per, ptr %pp
 %c0 = add i64 %n, %per
 %c1 = sub i64 %c0, 1
 %chunks = udiv i64 %c1, %per
 call void @pb_parallel_for(ptr %ctx, ptr %fn, ptr %closure, i64 %chunks)
 ret void
}
"""

# Work is in sixteenths of an estimated scalar operation: serial below about 10 us; at most a few ms
# between two looks at the cancel word; no chunk below half of the serial limit.
_LIMITS = {"serial": 480_000, "slice": 64_000_000, "fair": 240_000}

_FUTEX = """
define internal void @pool_sleep(ptr %pool, i32 %q) nounwind {
entry:
 %seqp = getelementptr i8, ptr %pool, i64 192
 %fp = getelementptr i8, ptr %pool, i64 392
 %f = load ptr, ptr %fp
 %r = call i64 (i64, ...) %f(i64 {futex}, ptr %seqp, i64 128, i32 %q, ptr null)
 ret void
}
define internal void @pool_wake(ptr %pool, i32 %number) nounwind {
entry:
 %seqp = getelementptr i8, ptr %pool, i64 192
 %fp = getelementptr i8, ptr %pool, i64 392
 %f = load ptr, ptr %fp
 %r = call i64 (i64, ...) %f(i64 {futex}, ptr %seqp, i64 129, i32 %number)
 ret void
}
"""

_CONDITION = """
define internal void @pool_sleep(ptr %pool, i32 %q) nounwind {
entry:
 %seqp = getelementptr i8, ptr %pool, i64 192
 %lp = getelementptr i8, ptr %pool, i64 408
 %up = getelementptr i8, ptr %pool, i64 416
 %wp = getelementptr i8, ptr %pool, i64 424
 %m = getelementptr i8, ptr %pool, i64 512
 %c = getelementptr i8, ptr %pool, i64 640
 %lock = load ptr, ptr %lp
 %unlock = load ptr, ptr %up
 %wait = load ptr, ptr %wp
 %r0 = call i32 %lock(ptr %m)
 br label %look
look:
 %now = load atomic i32, ptr %seqp seq_cst, align 4
 %same = icmp eq i32 %now, %q
 br i1 %same, label %rest, label %done
rest:
 %r1 = call i32 %wait(ptr %c, ptr %m)
 br label %look
done:
 %r2 = call i32 %unlock(ptr %m)
 ret void
}
define internal void @pool_wake(ptr %pool, i32 %number) nounwind {
entry:
 %lp = getelementptr i8, ptr %pool, i64 408
 %up = getelementptr i8, ptr %pool, i64 416
 %bp = getelementptr i8, ptr %pool, i64 432
 %m = getelementptr i8, ptr %pool, i64 512
 %c = getelementptr i8, ptr %pool, i64 640
 %lock = load ptr, ptr %lp
 %unlock = load ptr, ptr %up
 %broadcast = load ptr, ptr %bp
 %r0 = call i32 %lock(ptr %m)
 %r1 = call i32 %broadcast(ptr %c)
 %r2 = call i32 %unlock(ptr %m)
 ret void
}
"""


def pool_text(target: Target, sleep: str) -> str:
    """The pool's functions, for a way to sleep (futex or condition). How threads set their
    floating-point state is left to native.py."""
    text = _CHUNK.replace("{spin}", _SPIN) + (_FUTEX if sleep == "futex" else _CONDITION)
    for name, value in _LIMITS.items():
        text = text.replace("{" + name + "}", str(value))
    return text.replace("{futex}", "98" if target.level == "neon" else "202")
