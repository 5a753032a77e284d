"""The allocator, as native code: size classes, free lists, slabs, huge pages.

Blocks are 64-byte aligned. Classes: multiples of 64 bytes up to 512, then four steps per doubling.
A free block's first word links it to the next of its class. Blocks up to 32 KiB are carved from
slabs and stay ours; larger ones are mapped one by one, kept when freed up to a bound, and given
back to the system above it. Huge pages are asked for unless the system was slow to make one. One
spin lock guards everything: the critical sections are a few instructions, system calls are made
outside it.
"""

from __future__ import annotations

from pullback.runtime import native_layout as L
from pullback.runtime.native_build import Fn

__all__ = ["memory_functions"]

_PROT_RW, _PRIVATE_ANONYMOUS, _MADV_HUGEPAGE, _MADV_NOHUGEPAGE = 3, 0x22, 14, 15
_THREAD_TIME = 3  # CLOCK_THREAD_CPUTIME_ID
_PAST_END = 255  # as far as vectors of a loop reach
_HUGE_ALIGN = 2 << 20


def _class_of() -> Fn:
    """i64 class(i64 n) for 1 <= n."""
    f = Fn("pb_class", "i64", "i64 n", inline=True)
    m = f.op("sub", "%n", 1)
    f.br(f.cmp("ult", m, 512), "small", "large")
    f.at("small")
    f.ret("i64 " + f.op("lshr", m, 6))
    f.at("large")
    zeros = f.v(f"call i64 @llvm.ctlz.i64(i64 {m}, i1 true)")
    e = f.op("sub", 63, zeros)
    step = f.op("and", f.op("lshr", m, f.op("sub", e, 2)), 3)
    f.ret("i64 " + f.op("add", f.op("add", f.op("shl", f.op("sub", e, 9), 2), step), 8))
    return f


def _size_of() -> Fn:
    """i64 bytes(i64 class)."""
    f = Fn("pb_size", "i64", "i64 c", inline=True)
    f.br(f.cmp("ult", "%c", 8), "small", "large")
    f.at("small")
    f.ret("i64 " + f.op("shl", f.op("add", "%c", 1), 6))
    f.at("large")
    k = f.op("sub", "%c", 8)
    e = f.op("add", f.op("lshr", k, 2), 7)  # log2 of the doubling, less 2
    f.ret("i64 " + f.op("shl", f.op("add", f.op("and", k, 3), 5), e))
    return f


def _lock() -> Fn:
    f = Fn("pb_lock", "void", "ptr s", internal=True, hot=True)
    p = f.gep("%s", L.LOCK)
    spins = f.var("i64", 0)
    f.go("try")
    f.at("try")
    old = f.v(f"atomicrmw xchg ptr {p}, i32 1 acquire")
    f.br(f.cmp("eq", old, 0, "i32"), "got", "wait")
    f.at("wait")
    now = f.v(f"load atomic i32, ptr {p} monotonic, align 4")
    f.when(f.cmp("eq", now, 0, "i32"), "try")
    n = f.bump(spins, 0, 1)
    f.when(f.cmp("ult", n, 2000), "wait")
    f.call("i32", "sched_yield")
    f.st("i64", 0, spins)
    f.go("wait")
    f.at("got")
    f.ret()
    return f


def _unlock() -> Fn:
    f = Fn("pb_unlock", "void", "ptr s", internal=True, hot=True)
    f.do(f"store atomic i32 0, ptr {f.gep('%s', L.LOCK)} release, align 4")
    f.ret()
    return f


def _forks() -> list[Fn]:
    """void fork_begins(), void fork_ends(): what the C library calls around a fork, in the thread
    that forks. Nothing else of Python runs between them, so nobody waits for the lock with the GIL
    held; whoever holds the lock now holds it for a few instructions."""
    out = []
    for name, what in (("pb_fork_begins", "pb_lock"), ("pb_fork_ends", "pb_unlock")):
        f = Fn(name, "void", "")
        f.own("void", what, f"ptr {f.state()}")
        f.ret()
        out.append(f)
    return out


def _count_use(f: Fn, s: str, size: str, label: str) -> None:
    """Under the lock: a block of `size` bytes goes out."""
    used = f.bump(s, L.IN_USE, size)
    f.bump(s, L.ALLOCATIONS, 1)
    total = f.op("add", used, f.ld("i64", s, L.HELD_IN_USE))
    f.br(f.cmp("sgt", total, f.ld("i64", s, L.PEAK)), label + "_peak", label)
    f.at(label + "_peak")
    f.st("i64", total, s, L.PEAK)
    f.go(label)
    f.at(label)


def _thread_time() -> Fn:
    """i64 nanoseconds of the processor that this thread has had; 0 where nobody tells."""
    f = Fn("pb_thread_time", "i64", "", internal=True)
    t = f.local("[2 x i64]")
    f.st("i64", 0, t)
    f.st("i64", 0, t, 8)
    f.call("i32", "clock_gettime", f"i32 {_THREAD_TIME}", f"ptr {t}")
    f.ret("i64 " + f.op("add", f.op("mul", f.ld("i64", t), 1_000_000_000), f.ld("i64", t, 8)))
    return f


def _advise() -> Fn:
    """void advise(ptr state, ptr p, i64 size): huge pages for a new block, unless they are slow to
    come; what the first one takes tells."""
    f = Fn("pb_advise", "void", "ptr s, ptr p, i64 size", internal=True)
    pause = f.gep("%s", L.HUGE_PAUSE)
    left = f.v(f"load atomic i64, ptr {pause} monotonic, align 8")
    f.br(f.cmp("sgt", left, 0), "without", "ask")
    f.at("without")
    f.v(f"atomicrmw sub ptr {pause}, i64 1 monotonic")
    f.ret()
    f.at("ask")
    f.call("i32", "madvise", "ptr %p", "i64 %size", f"i32 {_MADV_HUGEPAGE}")
    begin = f.own("i64", "pb_thread_time")
    f.do("store volatile i8 0, ptr %p")
    took = f.op("sub", f.own("i64", "pb_thread_time"), begin)
    f.br(f.cmp("sgt", took, L.HUGE_SLOW), "slow", "done")
    f.at("slow")
    f.call("i32", "madvise", "ptr %p", "i64 %size", f"i32 {_MADV_NOHUGEPAGE}")
    f.do(f"store atomic i64 {L.HUGE_PAUSED_MAPS}, ptr {pause} monotonic, align 8")
    f.go("done")
    f.at("done")
    f.ret()
    return f


def _map() -> Fn:
    """ptr map(i64 size): pages from the system; huge ones on 2 MiB boundaries. Null on failure."""
    f = Fn("pb_map", "ptr", "i64 size", internal=True)
    s = f.state()
    f.v(f"atomicrmw add ptr {f.gep(s, L.SYSTEM_CALLS)}, i64 1 monotonic")
    f.br(f.cmp("uge", "%size", L.HUGE), "huge", "plain")
    f.at("plain")
    arguments = f"i32 {_PROT_RW}", f"i32 {_PRIVATE_ANONYMOUS}", "i32 -1", "i64 0"
    p = f.call("ptr", "mmap", "ptr null", "i64 %size", *arguments)
    f.when(f.cmp("eq", f.v(f"ptrtoint ptr {p} to i64"), -1), "failed")
    f.v(f"atomicrmw add ptr {f.gep(s, L.MAPPED)}, i64 %size monotonic")
    f.ret("ptr " + p)
    f.at("huge")
    more = f.op("add", "%size", _HUGE_ALIGN)
    q = f.call("ptr", "mmap", "ptr null", f"i64 {more}", *arguments)
    raw = f.v(f"ptrtoint ptr {q} to i64")
    f.when(f.cmp("eq", raw, -1), "failed")
    base = f.op("and", f.op("add", raw, _HUGE_ALIGN - 1), -_HUGE_ALIGN)
    head = f.op("sub", base, raw)
    f.br(f.cmp("eq", head, 0), "tail", "trim")
    f.at("trim")
    f.call("i32", "munmap", f"ptr {q}", f"i64 {head}")
    f.go("tail")
    f.at("tail")
    end = f.op("add", base, "%size")
    rest = f.op("sub", _HUGE_ALIGN, head)
    p = f.v(f"inttoptr i64 {base} to ptr")
    f.br(f.cmp("eq", rest, 0), "advise", "trim2")
    f.at("trim2")
    f.call("i32", "munmap", f"ptr {f.v(f'inttoptr i64 {end} to ptr')}", f"i64 {rest}")
    f.go("advise")
    f.at("advise")
    f.own("void", "pb_advise", f"ptr {s}", f"ptr {p}", "i64 %size")
    f.v(f"atomicrmw add ptr {f.gep(s, L.MAPPED)}, i64 %size monotonic")
    f.ret("ptr " + p)
    f.at("failed")
    f.ret("ptr null")
    return f


def _page_round(f: Fn, size: str) -> str:
    return f.op("and", f.op("add", size, 4095), -4096)


def _grow_small() -> Fn:
    """ptr carve(ptr state, i64 size): a fresh small block; called with the lock held, which it
    keeps. Some bytes after the block are touched: masked loads that point there, behind an array's
    last element, cost hundreds of cycles where a page is not in memory yet."""
    f = Fn("pb_carve", "ptr", "ptr s, i64 size", internal=True)
    at = f.ld("i64", "%s", L.SLAB)
    end, limit = f.op("add", at, "%size"), f.ld("i64", "%s", L.SLAB_END)
    f.br(f.cmp("ule", end, limit), "fits", "new")
    f.at("fits")
    f.st("i64", end, "%s", L.SLAB)
    last, past = f.op("sub", limit, 1), f.op("add", end, _PAST_END)
    near = f.v(f"call i64 @llvm.umin.i64(i64 {last}, i64 {past})")
    f.st("i8", 0, f.v(f"inttoptr i64 {near} to ptr"))
    f.ret("ptr " + f.v(f"inttoptr i64 {at} to ptr"))
    f.at("new")
    p = f.own("ptr", "pb_map", f"i64 {L.SLAB_BYTES - 4096}")  # just below HUGE: plain pages
    f.when(f.is_null(p), "failed")
    first = f.v(f"ptrtoint ptr {p} to i64")
    f.st("i64", f.op("add", first, "%size"), "%s", L.SLAB)
    f.st("i64", f.op("add", first, L.SLAB_BYTES - 4096), "%s", L.SLAB_END)
    f.ret("ptr " + p)
    f.at("failed")
    f.ret("ptr null")
    return f


def _alloc() -> Fn:
    f = Fn("pb_alloc", "ptr", "i64 n", hot=True)
    s = f.state()
    f.when(f.cmp("ugt", "%n", f.ld("i64", s, L.MEMORY_TOTAL)), "failed")
    n = f.v(f"call i64 @llvm.umax.i64(i64 {'%n'}, i64 1)")
    c = f.own("i64", "pb_class", f"i64 {n}")
    size = f.own("i64", "pb_size", f"i64 {c}")
    head = f.idx(f.gep(s, L.FREE_LISTS), c)
    f.own("void", "pb_lock", f"ptr {s}")
    p = f.ld("ptr", head)
    f.br(f.is_null(p), "miss", "hit")
    f.at("hit")
    f.st("ptr", f.ld("ptr", p), head)
    f.br(f.cmp("ugt", size, L.SMALL), "cached", "count")
    f.at("cached")
    f.bump(s, L.CACHED, f.op("sub", 0, size))
    f.go("count")
    f.at("count")
    _count_use(f, s, size, "hit_done")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.ret("ptr " + p)
    f.at("miss")
    f.br(f.cmp("ugt", size, L.SMALL), "map", "carve")
    f.at("carve")
    small = f.own("ptr", "pb_carve", f"ptr {s}", f"i64 {size}")
    f.br(f.is_null(small), "unlock_failed", "carved")
    f.at("carved")
    _count_use(f, s, size, "carve_done")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.ret("ptr " + small)
    f.at("map")
    f.own("void", "pb_unlock", f"ptr {s}")
    pages = _page_round(f, size)
    big = f.own("ptr", "pb_map", f"i64 {pages}")
    f.br(f.is_null(big), "trim", "mapped")
    f.at("trim")
    f.own("i64", "pb_trim")
    again = f.own("ptr", "pb_map", f"i64 {pages}")
    f.br(f.is_null(again), "failed", "mapped")
    f.at("mapped")
    q = f.v(f"phi ptr [{big}, %map], [{again}, %trim]")
    f.own("void", "pb_lock", f"ptr {s}")
    _count_use(f, s, size, "map_done")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.ret("ptr " + q)
    f.at("unlock_failed")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.go("failed")
    f.at("failed")
    f.ret("ptr null")
    return f


def _free() -> Fn:
    f = Fn("pb_free", "void", "ptr p, i64 n", hot=True)
    f.when(f.is_null("%p"), "done")
    n = f.v("call i64 @llvm.umax.i64(i64 %n, i64 1)")
    s = f.state()
    c = f.own("i64", "pb_class", f"i64 {n}")
    size = f.own("i64", "pb_size", f"i64 {c}")
    head = f.idx(f.gep(s, L.FREE_LISTS), c)
    f.own("void", "pb_lock", f"ptr {s}")
    f.bump(s, L.IN_USE, f.op("sub", 0, size))
    f.br(f.cmp("ugt", size, L.SMALL), "large", "push")
    f.at("large")
    cached = f.op("add", f.ld("i64", s, L.CACHED), size)
    f.br(f.cmp("ugt", cached, f.ld("i64", s, L.CACHE_LIMIT)), "unmap", "keep")
    f.at("keep")
    f.st("i64", cached, s, L.CACHED)
    f.go("push")
    f.at("push")
    f.st("ptr", f.ld("ptr", head), "%p")
    f.st("ptr", "%p", head)
    f.own("void", "pb_unlock", f"ptr {s}")
    f.ret()
    f.at("unmap")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.own("void", "pb_unmap", "ptr %p", f"i64 {size}")
    f.go("done")
    f.at("done")
    f.ret()
    return f


def _held() -> list[Fn]:
    """ptr alloc_held(n), void free_held(p, n): the same for callers that hold the GIL, and that
    is their lock: an atomic exchange costs more than all the rest. Arrays live and die here."""
    f = Fn("pb_alloc_held", "ptr", "i64 n", inline=True)
    f.when(f.cmp("ugt", "%n", L.SMALL), "shared")
    n = f.v("call i64 @llvm.umax.i64(i64 %n, i64 1)")
    s = f.state()
    c = f.own("i64", "pb_class", f"i64 {n}")
    head = f.idx(f.gep(s, L.HELD_LISTS), c)
    p = f.ld("ptr", head)
    f.when(f.is_null(p), "shared")
    size = f.own("i64", "pb_size", f"i64 {c}")
    f.st("ptr", f.ld("ptr", p), head)
    f.bump(s, L.HELD_CACHED, f.op("sub", 0, size))
    f.bump(s, L.HELD_ALLOCATIONS, 1)
    used = f.op("add", f.bump(s, L.HELD_IN_USE, size), f.ld("i64", s, L.IN_USE))
    f.br(f.cmp("sgt", used, f.ld("i64", s, L.PEAK)), "peak", "done")
    f.at("peak")
    f.st("i64", used, s, L.PEAK)
    f.go("done")
    f.at("done")
    f.ret("ptr " + p)
    f.at("shared")
    f.ret("ptr " + f.own("ptr", "pb_alloc", "i64 %n"))

    g = Fn("pb_free_held", "void", "ptr p, i64 n", inline=True)
    g.when(g.is_null("%p"), "done")
    g.when(g.cmp("ugt", "%n", L.SMALL), "shared")
    n = g.v("call i64 @llvm.umax.i64(i64 %n, i64 1)")
    s = g.state()
    c = g.own("i64", "pb_class", f"i64 {n}")
    size = g.own("i64", "pb_size", f"i64 {c}")
    kept = g.op("add", g.ld("i64", s, L.HELD_CACHED), size)
    g.when(g.cmp("ugt", kept, L.HELD_LIMIT), "shared")
    g.st("i64", kept, s, L.HELD_CACHED)
    head = g.idx(g.gep(s, L.HELD_LISTS), c)
    g.st("ptr", g.ld("ptr", head), "%p")
    g.st("ptr", "%p", head)
    g.bump(s, L.HELD_IN_USE, g.op("sub", 0, size))
    g.go("done")
    g.at("done")
    g.ret()
    g.at("shared")
    g.own("void", "pb_free", "ptr %p", "i64 %n")
    g.ret()
    return [f, g]


def _unmap() -> Fn:
    f = Fn("pb_unmap", "void", "ptr p, i64 size", internal=True)
    pages = _page_round(f, "%size")
    f.call("i32", "munmap", "ptr %p", f"i64 {pages}")
    s = f.state()
    f.v(f"atomicrmw sub ptr {f.gep(s, L.MAPPED)}, i64 {pages} monotonic")
    f.ret()
    return f


def _trim() -> Fn:
    """i64 trim(): gives every cached large block back to the system; how many."""
    f = Fn("pb_trim", "i64", "")
    s = f.state()
    c, freed = f.var("i64", 0), f.var("i64", 0)
    f.go("loop")
    f.at("loop")
    k = f.ld("i64", c)
    f.br(f.cmp("ult", k, L.CLASSES), "body", "done")
    f.at("body")
    size = f.own("i64", "pb_size", f"i64 {k}")
    head = f.idx(f.gep(s, L.FREE_LISTS), k)
    f.br(f.cmp("ugt", size, L.SMALL), "pop", "next")
    f.at("pop")
    f.own("void", "pb_lock", f"ptr {s}")
    p = f.ld("ptr", head)
    f.br(f.is_null(p), "empty", "take")
    f.at("take")
    f.st("ptr", f.ld("ptr", p), head)
    f.bump(s, L.CACHED, f.op("sub", 0, size))
    f.own("void", "pb_unlock", f"ptr {s}")
    f.own("void", "pb_unmap", f"ptr {p}", f"i64 {size}")
    f.bump(freed, 0, 1)
    f.go("pop")
    f.at("empty")
    f.own("void", "pb_unlock", f"ptr {s}")
    f.go("next")
    f.at("next")
    f.bump(c, 0, 1)
    f.go("loop")
    f.at("done")
    f.ret("i64 " + f.ld("i64", freed))
    return f


def memory_functions() -> list[Fn]:
    """Every function of the allocator; `pb_alloc`, `pb_free`, `pb_trim`, `pb_fork_begins`,
    `pb_fork_ends` are called from outside."""
    return [
        _class_of(), _size_of(), _lock(), _unlock(), *_forks(), _thread_time(), _advise(), _map(),
        _unmap(), _grow_small(), _alloc(), _free(), *_held(), _trim(),
    ]  # fmt: skip
