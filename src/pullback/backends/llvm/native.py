"""The native runtime as textual IR: fork-join pool, plan driver, argument reduction. One module,
cached like a kernel.

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

# Longer than other files: one native program, whose state block all parts share.

from __future__ import annotations

from pullback.backends.llvm.table import NEXT_CHECK, function_offset
from pullback.backends.llvm.target import Target

__all__ = ["POOL_BYTES", "runtime_text"]

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
_LIMITS = {"serial": 480_000, "slice": 64_000_000, "fair": 240_000,
           "check_cycles": 100_000_000, "next_check": NEXT_CHECK}  # fmt: skip
_CHECK_NAMES = (
    "gil_ensure", "gil_release", "pthread_self", "main_thread", "check_signals", "error_fetch",
    "pending_error", "pending_value", "pending_traceback",
)  # fmt: skip

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

# Loops of unknown length call this now and then. Once in about 40 ms the main thread lets Python
# run its signal handlers; if one raises, the exception is kept for whoever reports that the run was
# cancelled. Pool workers never touch Python.
_CHECK = """
define void @pb_check(ptr %ctx) nounwind {
entry:
 %np = getelementptr i8, ptr %ctx, i64 {next_check}
 %now = call i64 @llvm.readcyclecounter()
 %next = load atomic i64, ptr %np monotonic, align 8
 %early = icmp ult i64 %now, %next
 br i1 %early, label %out, label %late
late:
 %then = add i64 %now, {check_cycles}
 store atomic i64 %then, ptr %np monotonic, align 8
 %first = icmp eq i64 %next, 0
 br i1 %first, label %out, label %look
look:
 %tbp = getelementptr i8, ptr %ctx, i64 48
 %table = load ptr, ptr %tbp
 %ep = getelementptr i8, ptr %table, i64 {gil_ensure}
 %ensure = load ptr, ptr %ep
 %nopython = icmp eq ptr %ensure, null
 br i1 %nopython, label %out, label %who
who:
 %sp = getelementptr i8, ptr %table, i64 {pthread_self}
 %self = load ptr, ptr %sp
 %alone = icmp eq ptr %self, null
 br i1 %alone, label %ask, label %compare
compare:
 %me = call i64 %self()
 %mp = getelementptr i8, ptr %table, i64 {main_thread}
 %main = load i64, ptr %mp
 %mine = icmp eq i64 %me, %main
 br i1 %mine, label %ask, label %out
ask:
 %gil = call i32 %ensure()
 %cp = getelementptr i8, ptr %table, i64 {check_signals}
 %check = load ptr, ptr %cp
 %raised = call i32 %check()
 %fine = icmp eq i32 %raised, 0
 br i1 %fine, label %leave, label %keep
keep:
 %fp = getelementptr i8, ptr %table, i64 {error_fetch}
 %fetch = load ptr, ptr %fp
 %x = getelementptr i8, ptr %table, i64 {pending_error}
 %y = getelementptr i8, ptr %table, i64 {pending_value}
 %z = getelementptr i8, ptr %table, i64 {pending_traceback}
 call void %fetch(ptr %x, ptr %y, ptr %z)
 %wp = getelementptr i8, ptr %ctx, i64 24
 %word = load ptr, ptr %wp
 store atomic i32 1, ptr %word monotonic, align 4
 br label %leave
leave:
 %rp = getelementptr i8, ptr %table, i64 {gil_release}
 %release = load ptr, ptr %rp
 call void %release(i32 %gil)
 br label %out
out:
 ret void
}
"""

# A step is eight words: opcode, six operands, equation. The opcodes are those of driver.py.
_DRIVER = """
define internal i64 @amount(ptr %slots, i64 %bytes, i64 %slot) nounwind {
entry:
 %dynamic = icmp sge i64 %slot, 0
 br i1 %dynamic, label %read, label %const
read:
 %sp = getelementptr ptr, ptr %slots, i64 %slot
 %p = load ptr, ptr %sp
 %n = load i64, ptr %p
 %m = mul i64 %n, %bytes
 ret i64 %m
const:
 ret i64 %bytes
}
define void @pb_cleanup(ptr %plan, ptr %slots, ptr %ctx) nounwind {
entry:
 %np = getelementptr i64, ptr %plan, i64 1
 %nslots = load i64, ptr %np
 %cp = getelementptr i64, ptr %plan, i64 4
 %count = load i64, ptr %cp
 %op = getelementptr i64, ptr %plan, i64 5
 %owned = load ptr, ptr %op
 %fp = getelementptr i8, ptr %ctx, i64 8
 %free = load ptr, ptr %fp
 br label %next
next:
 %i = phi i64 [ 0, %entry ], [ %i1, %step ]
 %c = icmp slt i64 %i, %count
 br i1 %c, label %body, label %out
body:
 %ip = getelementptr i64, ptr %owned, i64 %i
 %s = load i64, ptr %ip
 %sp = getelementptr ptr, ptr %slots, i64 %s
 %p = load ptr, ptr %sp
 %held = icmp ne ptr %p, null
 br i1 %held, label %drop, label %step
drop:
 %z = add i64 %s, %nslots
 %zp = getelementptr i64, ptr %slots, i64 %z
 %bytes = load i64, ptr %zp
 call void %free(ptr %p, i64 %bytes)
 store ptr null, ptr %sp
 br label %step
step:
 %i1 = add i64 %i, 1
 br label %next
out:
 ret void
}
define i64 @pb_drive(ptr %plan, ptr %slots, ptr %ctx, i64 %start) nounwind {
entry:
 %old_fp = alloca i32
 %new_fp = alloca i32
{save_fp}
 %steps = load ptr, ptr %plan
 %np = getelementptr i64, ptr %plan, i64 1
 %nslots = load i64, ptr %np
 %mb = getelementptr i64, ptr %plan, i64 2
 %maxbuf = load i64, ptr %mb
 %md = getelementptr i64, ptr %plan, i64 3
 %maxdim = load i64, ptr %md
 %bufs = alloca ptr, i64 %maxbuf
 %dims = alloca i64, i64 %maxdim
 %epc = getelementptr i8, ptr %ctx, i64 40
 %eqp = getelementptr i8, ptr %ctx, i64 32
 %alp = getelementptr i8, ptr %ctx, i64 0
 %frp = getelementptr i8, ptr %ctx, i64 8
 %cwp = getelementptr i8, ptr %ctx, i64 24
 %tbp = getelementptr i8, ptr %ctx, i64 48
 br label %top
top:
 %pc = phi i64 [ %start, %entry ], [ %pc1, %advance ], [ %target, %jump ]
 %at = mul i64 %pc, 64
 %step = getelementptr i8, ptr %steps, i64 %at
 %op = load i64, ptr %step
 %ap = getelementptr i64, ptr %step, i64 1
 %bp = getelementptr i64, ptr %step, i64 2
 %cp = getelementptr i64, ptr %step, i64 3
 %dp = getelementptr i64, ptr %step, i64 4
 %ep = getelementptr i64, ptr %step, i64 5
 %fp = getelementptr i64, ptr %step, i64 6
 %qp = getelementptr i64, ptr %step, i64 7
 %a = load i64, ptr %ap
 %b = load i64, ptr %bp
 %c = load i64, ptr %cp
 %d = load i64, ptr %dp
 switch i64 %op, label %bad [ i64 0, label %ret i64 1, label %kernel
  i64 2, label %alloc i64 3, label %free
  i64 4, label %copy i64 5, label %swap i64 6, label %jumpto
  i64 7, label %jumpnot i64 8, label %host ]
ret:
{restore_fp}
 ret i64 0
bad:
 store i64 -1, ptr %epc
 br label %fail
kernel:
 %ranp = getelementptr i64, ptr %plan, i64 6
 %ran = load i64, ptr %ranp
 %ran1 = add i64 %ran, 1
 store i64 %ran1, ptr %ranp
 %fn = inttoptr i64 %a to ptr
 %list = inttoptr i64 %b to ptr
 br label %bnext
bnext:
 %bi = phi i64 [ 0, %kernel ], [ %bi1, %bbody ]
 %bc = icmp slt i64 %bi, %c
 br i1 %bc, label %bbody, label %dimsof
bbody:
 %lp = getelementptr i64, ptr %list, i64 %bi
 %ls = load i64, ptr %lp
 %lsp = getelementptr ptr, ptr %slots, i64 %ls
 %lv = load ptr, ptr %lsp
 %bd = getelementptr ptr, ptr %bufs, i64 %bi
 store ptr %lv, ptr %bd
 %bi1 = add i64 %bi, 1
 br label %bnext
dimsof:
 %fixed = inttoptr i64 %d to ptr
 %e = load i64, ptr %ep
 %f = load i64, ptr %fp
 %scal = inttoptr i64 %e to ptr
 %patch = inttoptr i64 %f to ptr
 %nopatch = icmp eq ptr %patch, null
 br i1 %nopatch, label %invoke, label %patching
patching:
 %nd = load i64, ptr %patch
 %npp = getelementptr i64, ptr %patch, i64 1
 %npatch = load i64, ptr %npp
 br label %dnext
dnext:
 %di = phi i64 [ 0, %patching ], [ %di1, %dbody ]
 %dc = icmp slt i64 %di, %nd
 br i1 %dc, label %dbody, label %pnext
dbody:
 %dsp = getelementptr i64, ptr %fixed, i64 %di
 %dv = load i64, ptr %dsp
 %ddp = getelementptr i64, ptr %dims, i64 %di
 store i64 %dv, ptr %ddp
 %di1 = add i64 %di, 1
 br label %dnext
pnext:
 %pi = phi i64 [ 0, %dnext ], [ %pi1, %pbody ]
 %pcnd = icmp slt i64 %pi, %npatch
 br i1 %pcnd, label %pbody, label %invoke
pbody:
 %p2 = mul i64 %pi, 2
 %p3 = add i64 %p2, 2
 %p4 = add i64 %p2, 3
 %pwp = getelementptr i64, ptr %patch, i64 %p3
 %pw = load i64, ptr %pwp
 %psp = getelementptr i64, ptr %patch, i64 %p4
 %ps = load i64, ptr %psp
 %pslot = getelementptr ptr, ptr %slots, i64 %ps
 %pptr = load ptr, ptr %pslot
 %pval = load i64, ptr %pptr
 %pdst = getelementptr i64, ptr %dims, i64 %pw
 store i64 %pval, ptr %pdst
 %pi1 = add i64 %pi, 1
 br label %pnext
invoke:
 %dimsarg = phi ptr [ %fixed, %dimsof ], [ %dims, %pnext ]
 %status = call i32 %fn(ptr %ctx, ptr %bufs, ptr %dimsarg, ptr %scal)
 %fine = icmp eq i32 %status, 0
 br i1 %fine, label %advance, label %failed
failed:
 %have = load i64, ptr %epc
 %none = icmp eq i64 %have, 0
 %code = zext i32 %status to i64
 %which = select i1 %none, i64 %code, i64 %have
 store i64 %which, ptr %epc
 br label %fail
alloc:
 %an = call i64 @amount(ptr %slots, i64 %b, i64 %c)
 %af = load ptr, ptr %alp
 %small = icmp slt i64 %an, 64
 %asz = select i1 %small, i64 64, i64 %an
 %mem = call ptr %af(i64 %asz)
 %asl = getelementptr ptr, ptr %slots, i64 %a
 store ptr %mem, ptr %asl
 %az = add i64 %a, %nslots
 %azp = getelementptr i64, ptr %slots, i64 %az
 store i64 %asz, ptr %azp
 %nomem = icmp eq ptr %mem, null
 br i1 %nomem, label %oom, label %advance
oom:
 store i64 2, ptr %epc
 br label %fail
free:
 %fsl = getelementptr ptr, ptr %slots, i64 %a
 %fmem = load ptr, ptr %fsl
 %fz = add i64 %a, %nslots
 %fzp = getelementptr i64, ptr %slots, i64 %fz
 %fbytes = load i64, ptr %fzp
 %ff = load ptr, ptr %frp
 call void %ff(ptr %fmem, i64 %fbytes)
 store ptr null, ptr %fsl
 br label %advance
copy:
 %cn = call i64 @amount(ptr %slots, i64 %c, i64 %d)
 %cdp = getelementptr ptr, ptr %slots, i64 %a
 %csp = getelementptr ptr, ptr %slots, i64 %b
 %cdst = load ptr, ptr %cdp
 %csrc = load ptr, ptr %csp
 %table = load ptr, ptr %tbp
 %mcp = getelementptr i8, ptr %table, i64 {memmove}
 %mc = load ptr, ptr %mcp
 %mr = call ptr %mc(ptr %cdst, ptr %csrc, i64 %cn)
 br label %advance
swap:
 %s1 = getelementptr ptr, ptr %slots, i64 %a
 %s2 = getelementptr ptr, ptr %slots, i64 %b
 %w1 = load ptr, ptr %s1
 %w2 = load ptr, ptr %s2
 store ptr %w2, ptr %s1
 store ptr %w1, ptr %s2
 %z1 = add i64 %a, %nslots
 %z2 = add i64 %b, %nslots
 %q1 = getelementptr i64, ptr %slots, i64 %z1
 %q2 = getelementptr i64, ptr %slots, i64 %z2
 %x1 = load i64, ptr %q1
 %x2 = load i64, ptr %q2
 store i64 %x2, ptr %q1
 store i64 %x1, ptr %q2
 br label %advance
jumpto:
 %back = icmp sle i64 %a, %pc
 br i1 %back, label %poll, label %jump
jumpnot:
 %jsl = getelementptr ptr, ptr %slots, i64 %a
 %jp = load ptr, ptr %jsl
 %jv = load i8, ptr %jp
 %jz = icmp eq i8 %jv, 0
 br i1 %jz, label %jump, label %advance
poll:
 call void @pb_check(ptr %ctx)
 %word = load ptr, ptr %cwp
 %flag = load atomic i32, ptr %word monotonic, align 4
 %stop = icmp ne i32 %flag, 0
 br i1 %stop, label %cancelled, label %jump
cancelled:
 store i64 1, ptr %epc
 br label %fail
jump:
 %target = phi i64 [ %a, %jumpto ], [ %b, %jumpnot ], [ %a, %poll ]
 br label %top
host:
{restore_fp}
 %h2 = mul i64 %pc, 2
 %h3 = add i64 %h2, 1
 ret i64 %h3
advance:
 %pc1 = add i64 %pc, 1
 br label %top
fail:
 %eq = load i64, ptr %eqp
 %noeq = icmp slt i64 %eq, 0
 %mine = load i64, ptr %qp
 %eqn = select i1 %noeq, i64 %mine, i64 %eq
 store i64 %eqn, ptr %eqp
 call void @pb_cleanup(ptr %plan, ptr %slots, ptr %ctx)
{restore_fp}
 %f2 = mul i64 %pc, 2
 %f3 = add i64 %f2, 2
 ret i64 %f3
}
"""


def _fp_state(target: Target, flush: bool) -> dict[str, str]:
    """Lines that set round to nearest, no traps, denormals kept or taken for zeros; and put back
    what was there.
    """
    if target.level == "neon":
        state = 1 << 24 if flush else 0
        return {
            "declare": "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void "
            "@llvm.aarch64.set.fpcr(i64)\n",
            "save_fp": " %fpcr = call i64 @llvm.aarch64.get.fpcr()\n call void "
            f"@llvm.aarch64.set.fpcr(i64 {state})",
            "restore_fp": " call void @llvm.aarch64.set.fpcr(i64 %fpcr)",
            "set_fp": f" call void @llvm.aarch64.set.fpcr(i64 {state})",
        }
    state = 0x9FC0 if flush else 0x1F80
    setting = f" store i32 {state}, ptr %new_fp\n call void @llvm.x86.sse.ldmxcsr(ptr %new_fp)"
    return {
        "declare": "declare void @llvm.x86.sse.ldmxcsr(ptr)\ndeclare void "
        "@llvm.x86.sse.stmxcsr(ptr)\n",
        "save_fp": " call void @llvm.x86.sse.stmxcsr(ptr %old_fp)\n" + setting,
        "restore_fp": " call void @llvm.x86.sse.ldmxcsr(ptr %old_fp)",
        "set_fp": " %new_fp = alloca i32\n" + setting,
    }


def runtime_text(
    target: Target, sleep: str, memmove_offset: int, extra: str = "", flush: bool = False
) -> str:
    """The module's text for a target, a way to sleep (futex or condition), and whether denormals
    are taken for zeros."""
    fp = _fp_state(target, flush)
    parts = [
        f'target triple = "{target.triple}"\n',
        "declare i64 @llvm.readcyclecounter()\n",
        fp["declare"],
        _CHUNK.replace("{spin}", _SPIN),
        _FUTEX if sleep == "futex" else _CONDITION,
        _CHECK,
        _DRIVER,
        extra,
    ]
    text = "".join(parts)
    for name in ("save_fp", "restore_fp", "set_fp"):
        text = text.replace("{" + name + "}", fp[name])
    for name in _CHECK_NAMES:
        text = text.replace("{" + name + "}", str(function_offset(name)))
    for name, value in _LIMITS.items():
        text = text.replace("{" + name + "}", str(value))
    futex = "98" if target.level == "neon" else "202"
    return text.replace("{futex}", futex).replace("{memmove}", str(memmove_offset))
