"""The native runtime as textual IR: the pool of threads (pool_text.py), the plan driver, the look
for signals, argument reduction. One module, cached like a kernel.
"""

from __future__ import annotations

from pullback.backends.llvm.pool_text import pool_text
from pullback.backends.llvm.table import (
    AT_UNFINISHED,
    NEXT_CHECK,
    UNFINISHED,
    function_offset,
)
from pullback.backends.llvm.target import Target

__all__ = ["runtime_text"]

_NUMBERS = {
    "check_cycles": 100_000_000, "next_check": NEXT_CHECK, "unfinished": UNFINISHED,
    "before_step": AT_UNFINISHED - 1,
}  # fmt: skip
_CHECK_NAMES = (
    "gil_ensure", "gil_release", "pthread_self", "main_thread", "check_signals", "error_fetch",
    "pending_error", "pending_value", "pending_traceback",
)  # fmt: skip

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

# What runs in the place of first code (driver.py): three words before a step's scalars say where
# all such time of the plan is added up, how much it is of this step, and which code is meant.
_TIMED = """
define i32 @pb_timed(ptr %ctx, ptr %bufs, ptr %dims, ptr %scalars) nounwind {
entry:
 %allp = getelementptr i64, ptr %scalars, i64 -3
 %ownp = getelementptr i64, ptr %scalars, i64 -2
 %fnp = getelementptr i64, ptr %scalars, i64 -1
 %fn = load ptr, ptr %fnp
 %all = load ptr, ptr %allp
 %t0 = call i64 @llvm.readcyclecounter()
 %status = call i32 %fn(ptr %ctx, ptr %bufs, ptr %dims, ptr %scalars)
 %t1 = call i64 @llvm.readcyclecounter()
 %dt = sub i64 %t1, %t0
 %a = load i64, ptr %all
 %a1 = add i64 %a, %dt
 store i64 %a1, ptr %all
 %o = load i64, ptr %ownp
 %o1 = add i64 %o, %dt
 store i64 %o1, ptr %ownp
 ret i32 %status
}
define i64 @pb_cycles() nounwind {
entry:
 %t = call i64 @llvm.readcyclecounter()
 ret i64 %t
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
 %again = icmp eq i32 %status, {unfinished}
 br i1 %again, label %unfinished, label %error
unfinished:
 store i64 0, ptr %epc
{restore_fp}
 %u1 = add i64 %pc, {before_step}
 %u2 = mul i64 %u1, 2
 %u3 = add i64 %u2, 1
 ret i64 %u3
error:
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
        pool_text(target, sleep),
        _CHECK,
        _TIMED,
        _DRIVER,
        extra,
    ]
    text = "".join(parts)
    for name in ("save_fp", "restore_fp", "set_fp"):
        text = text.replace("{" + name + "}", fp[name])
    for name in _CHECK_NAMES:
        text = text.replace("{" + name + "}", str(function_offset(name)))
    for name, value in _NUMBERS.items():
        text = text.replace("{" + name + "}", str(value))
    return text.replace("{memmove}", str(memmove_offset))
