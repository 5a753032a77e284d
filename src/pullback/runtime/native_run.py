"""Running an entry, as native code: slots filled, outputs allocated, kernel or plan run, result
built.

Order matters for safety: memory is taken before the run and Python objects are made after it, so
that a garbage collection (which may run anyone's finalizers) never happens between reading an
argument's address and using it. While the GIL is released, or Python may run for another reason,
arguments are held and pinned.
"""

from __future__ import annotations

from pullback.backends.llvm.table import AT_UNFINISHED, CANCEL, CONTEXT_BYTES, NUM_THREADS, POOL
from pullback.runtime import native_layout as L
from pullback.runtime.native_build import Fn, string
from pullback.runtime.native_operands import only_array
from pullback.runtime.native_results import result_functions

__all__ = ["SLOW", "run_functions"]

SLOW = -1  # as a result pointer: Python must handle this call


# An array of NumPy in a wider type than the program's: how its elements are narrowed, the bytes of
# one, the numbers of one.
_NARROWED = {
    L.CODE_ARRAY_F32: ("double", "float", "fptrunc", 4, 1),
    L.CODE_ARRAY_I32: ("i64", "i32", "trunc", 4, 1),
    L.CODE_ARRAY_C64: ("double", "float", "fptrunc", 8, 2),
}


def _narrowed_bytes(f: Fn, code: str, cell: str) -> str:
    wide = f.cmp("eq", code, L.CODE_ARRAY_C64)
    return f.op("mul", f.ld("i64", cell), f.v(f"select i1 {wide}, i64 8, i64 4"))


def _convert() -> Fn:
    """i64 convert(e, slots, datas, cells, temps): narrows NumPy's arrays into blocks of ours, which
    go to the slots and to `temps`; 0 when memory is out, or a number becomes infinite, of which
    Python's path warns."""
    arguments = "ptr e, ptr slots, ptr datas, ptr cells, ptr temps"
    f = Fn("pb_convert", "i64", arguments, internal=True, hot=True)
    slots, codes = f.ld("ptr", "%e", L.E_ARG_SLOTS), f.ld("ptr", "%e", L.E_ARG_CODES)
    i = f.local("i64")

    def one(k: str) -> None:
        f.st("ptr", "null", f.idx("%temps", k))
        code, slot = f.ld("i64", f.idx(codes, k)), f.ld("i64", f.idx(slots, k))
        f.when(f.cmp("slt", slot, 0), "one_next")
        f.when(f.cmp("ult", code, L.CODE_ARRAY_F32), "one_next")
        cell = f.gep("%cells", f.op("shl", k, 4))
        size = _narrowed_bytes(f, code, cell)
        block = f.own("ptr", "pb_alloc_held", f"i64 {size}")
        f.when(f.is_null(block), "failed")
        f.st("ptr", block, f.idx("%temps", k))
        f.st("ptr", block, f.idx("%slots", slot))
        data = f.ld("ptr", f.idx("%datas", k))
        f.st("i64", 0, i)
        cases = " ".join(f"i64 {c}, label %kind{c}" for c in _NARROWED)
        f.do(f"switch i64 {code}, label %one_next [{cases}]")
        for c, (wide, narrow, how, _, parts) in _NARROWED.items():
            f.at(f"kind{c}")
            n = f.op("mul", f.ld("i64", cell), parts)
            f.go(f"loop{c}")
            f.at(f"loop{c}")
            j = f.ld("i64", i)
            f.br(f.cmp("ult", j, n), f"element{c}", "one_next")
            f.at(f"element{c}")
            source = f.v(f"getelementptr {wide}, ptr {data}, i64 {j}")
            x = f.v(f"{how} {wide} {f.v(f'load {wide}, ptr {source}')} to {narrow}")
            target = f.v(f"getelementptr {narrow}, ptr {block}, i64 {j}")
            f.do(f"store {narrow} {x}, ptr {target}")
            f.bump(i, 0, 1)
            if how != "fptrunc":
                f.go(f"loop{c}")
                continue
            bits = f.op("and", f.v(f"bitcast float {x} to i32"), 2**31 - 1, "i32")
            f.br(f.cmp("eq", bits, 0xFF << 23, "i32"), f"infinite{c}", f"loop{c}")
            f.at(f"infinite{c}")
            exact = f.op("and", f.ld("i64", source), 2**63 - 1)
            f.br(f.cmp("eq", exact, 0x7FF << 52), f"loop{c}", "failed")

    n = f.ld("i64", "%e", L.E_NLEAVES)
    f.loop("clear", n, lambda k: f.st("ptr", "null", f.idx("%temps", k)))
    f.loop("one", n, one)
    f.ret("i64 1")
    f.at("failed")
    f.own("void", "pb_free_temps", "ptr %e", "ptr %cells", "ptr %temps")
    f.ret("i64 0")
    return f


def _free_temps() -> Fn:
    f = Fn("pb_free_temps", "void", "ptr e, ptr cells, ptr temps", internal=True, hot=True)
    codes = f.ld("ptr", "%e", L.E_ARG_CODES)

    def one(k: str) -> None:
        block = f.ld("ptr", f.idx("%temps", k))
        f.when(f.is_null(block), "one_next")
        size = _narrowed_bytes(f, f.ld("i64", f.idx(codes, k)), f.gep("%cells", f.op("shl", k, 4)))
        f.own("void", "pb_free_held", f"ptr {block}", f"i64 {size}")

    f.loop("one", f.ld("i64", "%e", L.E_NLEAVES), one)
    f.ret()
    return f


def _fill() -> Fn:
    """Writes the template and the arguments' addresses into the slots, converting scalars in their
    cells."""
    f = Fn("pb_fill", "void", "ptr e, ptr slots, ptr datas", inline=True)
    template = f.ld("ptr", "%e", L.E_SLOTS)

    def copy(k: str) -> None:
        f.st("i64", f.ld("i64", f.idx(template, k)), f.idx("%slots", k))

    f.loop("template", f.ld("i64", "%e", L.E_NSLOTS), copy)
    slots, codes = f.ld("ptr", "%e", L.E_ARG_SLOTS), f.ld("ptr", "%e", L.E_ARG_CODES)
    plain = f.is_null(codes)

    def argument(k: str) -> None:
        slot = f.ld("i64", f.idx(slots, k))
        f.br(f.cmp("slt", slot, 0), "argument_next", "used")
        f.at("used")
        data = f.ld("ptr", f.idx("%datas", k))
        f.st("ptr", data, f.idx("%slots", slot))
        f.br(plain, "argument_next", "coded")
        f.at("coded")
        code = f.ld("i64", f.idx(codes, k))
        cases = f"i64 {L.CODE_F32}, label %f32 i64 {L.CODE_C64}, label %c64"
        f.do(f"switch i64 {code}, label %argument_next [{cases}]")
        f.at("c64")
        imag = f.v(f"fptrunc double {f.ld('double', data, 8)} to float")
        real = f.v(f"fptrunc double {f.ld('double', data)} to float")
        f.st("float", real, data)
        f.st("float", imag, data, 4)
        f.go("argument_next")
        f.at("f32")
        f.st("float", f.v(f"fptrunc double {f.ld('double', data)} to float"), data)

    f.loop("argument", f.ld("i64", "%e", L.E_NLEAVES), argument)
    f.ret()
    return f


def _outputs() -> Fn:
    """i64 outputs(e, slots, saved): allocates what the entry asks for; 0 when memory is out
    (nothing is kept then)."""
    f = Fn("pb_outputs", "i64", "ptr e, ptr slots, ptr saved", inline=True)
    n, outs = f.ld("i64", "%e", L.E_NOUTS), f.ld("ptr", "%e", L.E_OUTS)
    sizes = f.ld("i64", "%e", L.E_SIZES)  # where a plan's slot table keeps sizes, or -1
    f.loop("clear", n, lambda k: f.st("ptr", "null", f.idx("%saved", k)))

    def one(k: str) -> None:
        o = f.gep(outs, f.op("shl", k, 5))
        f.br(f.cmp("ule", f.ld("i64", o, 24), L.OUT_SWAPPED), "allocate", "one_next")
        f.at("allocate")
        size, slot = f.ld("i64", o, 8), f.ld("i64", o)
        p = f.own("ptr", "pb_alloc_held", f"i64 {size}")
        f.when(f.is_null(p), "failed")
        f.st("ptr", p, f.idx("%saved", k))
        f.st("ptr", p, f.idx("%slots", slot))
        f.br(f.cmp("slt", sizes, 0), "one_next", "sized")
        f.at("sized")
        f.st("i64", size, f.idx("%slots", f.op("add", slot, sizes)))

    f.loop("one", n, one)
    f.ret("i64 1")
    f.at("failed")
    f.own("void", "pb_free_saved", "ptr %e", "ptr %saved", "i64 1")
    f.ret("i64 0")
    return f


def _free_saved() -> Fn:
    """Frees the outputs' blocks; those that a plan's clean-up has freed only if `all`."""
    f = Fn("pb_free_saved", "void", "ptr e, ptr saved, i64 all", internal=True)
    outs = f.ld("ptr", "%e", L.E_OUTS)

    def one(k: str) -> None:
        o = f.gep(outs, f.op("shl", k, 5))
        size = f.ld("i64", o, 8)
        swapped = f.cmp("eq", f.ld("i64", o, 24), L.OUT_SWAPPED)
        f.br(f.op("and", swapped, f.cmp("eq", "%all", 0), "i1"), "one_next", "free")
        f.at("free")
        f.own("void", "pb_free_held", f"ptr {f.ld('ptr', f.idx('%saved', k))}", f"i64 {size}")

    f.loop("one", f.ld("i64", "%e", L.E_NOUTS), one)
    f.ret()
    return f


def _hold() -> list[Fn]:
    """Keeps (or gives back) every argument array: a reference, and a pin if it is ours."""
    out = []
    for name, delta in (("pb_hold", 1), ("pb_unhold", -1)):
        f = Fn(name, "void", "ptr e, ptr objs", internal=True)

        def one(k: str, f: Fn = f, delta: int = delta) -> None:
            given = f.ld("ptr", f.idx("%objs", k))
            f.when(f.is_null(given), "one_next")
            o = f.v(f"call ptr @llvm.ptrmask.p0.i64(ptr {given}, i64 -2)")
            f.br(f.cmp("eq", o, given, "ptr"), "array", "held")
            f.at("array")
            f.bump(o, L.PINS, delta)
            f.go("held")
            f.at("held")
            if delta > 0:
                f.incref(o)
            else:
                f.decref(o)

        f.loop("one", f.ld("i64", "%e", L.E_NLEAVES), one)
        f.ret()
        out.append(f)
    return out


def _donate() -> Fn:
    """i64 donate(e, objs, blocks): marks donated arrays deleted and takes their blocks; 0 (and
    nothing done) if one may not go."""
    f = Fn("pb_donate", "i64", "ptr e, ptr objs, ptr blocks", internal=True, hot=True)
    n, list_ = f.ld("i64", "%e", L.E_NDONATED), f.ld("ptr", "%e", L.E_DONATED)
    done, deleted = f.var("i64", 0), f.var("i64", 0)

    def one(k: str) -> None:
        o = f.ld("ptr", f.idx("%objs", f.ld("i64", f.gep(list_, f.op("shl", k, 4)))))
        o = only_array(f, o)
        f.when(f.is_null(o), "revert")
        f.unless(f.cmp("eq", f.ld("i64", o, L.STATE), L.READY), "revert")
        f.unless(f.cmp("eq", f.ld("i64", o, L.PINS), 0), "revert")
        f.unless(f.is_null(f.ld("ptr", o, L.OWNER)), "revert")
        f.st("i64", L.DELETED, o, L.STATE)
        f.bump(done, 0, 1)

    f.loop("one", n, one)

    # The same array given again where it is not donated: its values are still needed.
    def count(k: str) -> None:
        o = only_array(f, f.ld("ptr", f.idx("%objs", k)))
        f.br(f.is_null(o), "count_next", "array")
        f.at("array")
        f.br(f.cmp("eq", f.ld("i64", o, L.STATE), L.DELETED), "gone", "count_next")
        f.at("gone")
        f.bump(deleted, 0, 1)

    f.loop("count", f.ld("i64", "%e", L.E_NLEAVES), count)
    f.unless(f.cmp("eq", f.ld("i64", deleted), n), "revert")

    def take(k: str) -> None:
        o = f.ld("ptr", f.idx("%objs", f.ld("i64", f.gep(list_, f.op("shl", k, 4)))))
        f.st("ptr", f.ld("ptr", o, L.DATA), f.gep("%blocks", f.op("shl", k, 4)))
        f.st("i64", f.ld("i64", o, L.NBYTES), f.gep("%blocks", f.op("shl", k, 4)), 8)
        f.st("ptr", "null", o, L.DATA)

    f.loop("take", n, take)
    f.ret("i64 1")
    f.at("revert")

    def undo(k: str) -> None:
        o = f.ld("ptr", f.idx("%objs", f.ld("i64", f.gep(list_, f.op("shl", k, 4)))))
        f.st("i64", L.READY, o, L.STATE)

    f.loop("undo", f.ld("i64", done), undo)
    f.ret("i64 0")
    return f


def _free_donated() -> Fn:
    """Frees donated blocks that nobody has taken over: after success (`all` 0) an output may have,
    after failure clean-up."""
    f = Fn("pb_free_donated", "void", "ptr e, ptr blocks, i64 all", internal=True, hot=True)
    list_ = f.ld("ptr", "%e", L.E_DONATED)

    def one(k: str) -> None:
        pair = f.op("shl", k, 4)
        bits = f.ld("i64", f.gep(list_, pair), 8)
        mask = f.v(
            f"select i1 {f.cmp('eq', '%all', 0)}, i64 {L.DONATED_TAKEN}, i64 {L.DONATED_SWAPPED}"
        )
        f.br(f.cmp("ne", f.op("and", bits, mask), 0), "one_next", "free")
        f.at("free")
        b = f.gep("%blocks", pair)
        f.own("void", "pb_free_held", f"ptr {f.ld('ptr', b)}", f"i64 {f.ld('i64', b, 8)}")

    f.loop("one", f.ld("i64", "%e", L.E_NDONATED), one)
    f.ret()
    return f


def _thread_count() -> Fn:
    """Writes this thread's own number of threads, if it has one, into a run's context."""
    f = Fn("pb_thread_count", "void", "ptr ctx, ptr counts", internal=True)
    me = f.call("i64", "PyThread_get_thread_ident")

    def one(k: str) -> None:
        pair = f.gep("%counts", f.op("add", f.op("shl", k, 4), 16))
        f.br(f.cmp("eq", f.ld("i64", pair), me), "mine", "one_next")
        f.at("mine")
        n = f.ld("i64", pair, 8)
        several = f.cmp("sgt", n, 1)
        pool = f.v(f"select i1 {several}, ptr {f.ld('ptr', '%counts', 8)}, ptr null")
        f.st("i64", n, "%ctx", NUM_THREADS)
        f.st("ptr", pool, "%ctx", POOL)
        f.ret()
        f.at("never")

    f.loop("one", f.ld("i64", "%counts"), one)
    f.ret()
    return f


def _own_context(f: Fn) -> str:
    """The context of this run: the entry's, with this thread's number of threads and a cancel word
    of its own, the last of its block: what stops a run stops no other."""
    ctx = f.local("[16 x i64], align 16")
    f.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {ctx}, ptr {f.ld('ptr', '%e', L.E_CTX)}, i64 128, "
        "i1 false)"
    )
    counts = f.ld("ptr", f.state(), L.THREAD_COUNTS)
    f.br(f.is_null(counts), "counted", "count")
    f.at("count")
    asked = f.op("and", f.ld("i64", "%e", L.E_FLAGS), L.FLAG_THREADS)
    f.when(f.cmp("ne", asked, 0), "counted")
    f.own("void", "pb_thread_count", f"ptr {ctx}", f"ptr {counts}")
    f.go("counted")
    f.at("counted")
    f.st("ptr", f.gep(ctx, CONTEXT_BYTES - 8), ctx, CANCEL)
    return ctx


def _after_stop(f: Fn, r: str, ctx: str, owner: str, plan: str, pc: str) -> None:
    """What becomes of a plan that has stopped: its host step is done, after which it goes on, or
    Python says what went wrong."""
    f.br(f.cmp("eq", f.op("and", r, 1), 1), "host", "error")
    f.at("host")
    step = f.op("lshr", f.op("sub", r, 1), 1)
    hook = f.ld("ptr", f.state(), L.HOST_HOOK)
    x = f.call(
        "ptr", "PyObject_CallFunction", f"ptr {hook}", f"ptr {string('OLKK')}",
        f"ptr {owner}", f"i64 {step}", "ptr %slots", f"ptr {ctx}",
    )  # fmt: skip
    f.when(f.is_null(x), "clean")
    f.decref(x)
    f.st("i64", f.op("and", f.op("add", step, 1), AT_UNFINISHED - 1), pc)
    f.go("enter")
    f.at("clean")
    f.do(f"call void {f.ld('ptr', '%e', L.E_CLEANUP)}(ptr {plan}, ptr %slots, ptr {ctx})")
    f.go("failed")
    f.at("error")
    at = f.op("lshr", f.op("sub", r, 2), 1)
    hook = f.ld("ptr", f.state(), L.ERROR_HOOK)
    f.when(f.is_null(hook), "lost")
    x = f.call(
        "ptr", "PyObject_CallFunction", f"ptr {hook}", f"ptr {string('OLLL')}", f"ptr {owner}",
        f"i64 {at}",
        f"i64 {f.ld('i64', ctx, 40)}", f"i64 {f.ld('i64', ctx, 32)}",
    )  # fmt: skip
    f.when(f.is_null(x), "failed")
    f.decref(x)
    f.go("lost")
    f.at("lost")
    f.fail(
        "SystemError", "internal error in pullback: a compiled program failed and nobody says why"
    )
    f.go("failed")
    f.at("failed")
    f.ret("i64 -1")


def _execute() -> Fn:
    """i64 execute(e, slots): 0, or -1 with an exception set."""
    f = Fn("pb_execute", "i64", "ptr e, ptr slots", inline=True)
    ctx = _own_context(f)
    pc, saved, result = f.var("i64", 0), f.var("ptr", "null"), f.var("i64", 0)
    owner, fn = f.ld("ptr", "%e", L.E_OWNER), f.ld("ptr", "%e", L.E_FN)
    plan, scalars = f.ld("ptr", "%e", L.E_PLAN), f.ld("ptr", "%e", L.E_SCALARS)
    release = f.cmp("ne", f.op("and", f.ld("i64", "%e", L.E_FLAGS), L.FLAG_RELEASE_GIL), 0)
    kernel = f.cmp("eq", f.ld("i64", "%e", L.E_MODE), L.MODE_KERNEL)
    f.go("enter")
    f.at("enter")
    f.br(release, "unlock", "run")
    f.at("unlock")
    f.st("ptr", f.call("ptr", "PyEval_SaveThread"), saved)
    f.go("run")
    f.at("run")
    f.br(kernel, "kernel", "plan")
    f.at("kernel")
    status = f.v(f"call i32 {fn}(ptr {ctx}, ptr %slots, ptr {plan}, ptr {scalars})")
    bad = f.cmp("ne", status, 0, "i32")
    f.st("i64", f.v(f"select i1 {bad}, i64 2, i64 0"), result)
    f.go("leave")
    f.at("plan")
    f.st(
        "i64",
        f.v(f"call i64 {fn}(ptr {plan}, ptr %slots, ptr {ctx}, i64 {f.ld('i64', pc)})"),
        result,
    )
    f.go("leave")
    f.at("leave")
    f.br(release, "lock", "locked")
    f.at("lock")
    f.call("void", "PyEval_RestoreThread", f"ptr {f.ld('ptr', saved)}")
    f.go("locked")
    f.at("locked")
    r = f.ld("i64", result)
    f.br(f.cmp("eq", r, 0), "done", "stopped")
    f.at("done")
    f.ret("i64 0")
    f.at("stopped")
    _after_stop(f, r, ctx, owner, plan, pc)
    return f


def _left_to_python(f: Fn, saved: str, converts: str, temps: str) -> None:
    """The ends of a run that has not begun: what was allocated is freed, and Python does it."""
    f.at("unsaved")
    f.own("void", "pb_free_saved", "ptr %e", f"ptr {saved}", "i64 1")
    f.go("slowly")
    f.at("refused")
    f.own("void", "pb_free_saved", "ptr %e", f"ptr {saved}", "i64 1")
    f.br(converts, "unconverted", "slowly")
    f.at("unconverted")
    f.own("void", "pb_free_temps", "ptr %e", "ptr %cells", f"ptr {temps}")
    f.go("slowly")
    f.at("slowly")
    f.ret(f"ptr inttoptr (i64 {SLOW} to ptr)")


def _run() -> Fn:
    """ptr run(e, datas, objs): the result, null with an exception set, or SLOW."""
    f = Fn("pb_run", "ptr", "ptr e, ptr datas, ptr objs, ptr cells", internal=True, hot=True)
    owner, nouts = f.ld("ptr", "%e", L.E_OWNER), f.ld("i64", "%e", L.E_NOUTS)
    slots = f.v(f"alloca i64, i64 {f.ld('i64', '%e', L.E_NSLOTS)}, align 16")
    saved = f.v(f"alloca ptr, i64 {nouts}, align 16")
    ndonated = f.ld("i64", "%e", L.E_NDONATED)
    blocks = f.v(f"alloca i64, i64 {f.op('shl', ndonated, 1)}, align 16")
    donates = f.cmp("ne", ndonated, 0)
    f.own("void", "pb_fill", "ptr %e", f"ptr {slots}", "ptr %datas")
    f.unless(
        f.cmp("ne", f.own("i64", "pb_outputs", "ptr %e", f"ptr {slots}", f"ptr {saved}"), 0),
        "slowly",  # Python says how much memory there is not
    )
    flags = f.ld("i64", "%e", L.E_FLAGS)
    converts = f.cmp("ne", f.op("and", flags, L.FLAG_CONVERT), 0)
    many = f.v(f"select i1 {converts}, i64 {f.ld('i64', '%e', L.E_NLEAVES)}, i64 0")
    temps = f.v(f"alloca ptr, i64 {many}, align 16")
    f.br(converts, "convert", "own")
    f.at("convert")
    arguments = "ptr %e", f"ptr {slots}", "ptr %datas", "ptr %cells", f"ptr {temps}"
    f.unless(f.cmp("ne", f.own("i64", "pb_convert", *arguments), 0), "unsaved")
    f.go("own")
    f.at("own")
    f.br(donates, "donate", "go")
    f.at("donate")
    ok = f.own("i64", "pb_donate", "ptr %e", "ptr %objs", f"ptr {blocks}")
    f.br(f.cmp("ne", ok, 0), "go", "refused")
    f.at("go")
    f.incref(owner)
    hold = f.cmp("ne", f.op("and", flags, L.FLAG_RELEASE_GIL | L.FLAG_HOLD), 0)
    f.br(hold, "hold", "run")
    f.at("hold")
    f.own("void", "pb_hold", "ptr %e", "ptr %objs")
    f.go("run")
    f.at("run")
    status = f.own("i64", "pb_execute", "ptr %e", f"ptr {slots}")
    good = f.cmp("eq", status, 0)
    f.br(good, "make", "bad")
    f.at("bad")
    f.own("void", "pb_free_saved", "ptr %e", f"ptr {saved}", "i64 0")
    f.go("made")
    f.at("make")  # `saved` serves for the result objects now
    made = f.own(
        "i64", "pb_results", "ptr %e", f"ptr {slots}", "ptr %objs", f"ptr {saved}", "i64 0"
    )
    f.go("made")
    f.at("made")
    final = f.v(f"phi i64 [-1, %bad], [{made}, %make]")
    f.br(converts, "converted", "release")
    f.at("converted")
    f.own("void", "pb_free_temps", "ptr %e", "ptr %cells", f"ptr {temps}")
    f.go("release")
    f.at("release")
    f.br(hold, "unhold", "after")
    f.at("unhold")
    f.own("void", "pb_unhold", "ptr %e", "ptr %objs")
    f.go("after")
    f.at("after")
    f.br(donates, "donated", "build")
    f.at("donated")
    failed = f.v(f"zext i1 {f.op('xor', good, 'true', 'i1')} to i64")
    f.own("void", "pb_free_donated", "ptr %e", f"ptr {blocks}", f"i64 {failed}")
    f.go("build")
    f.at("build")
    f.br(f.cmp("eq", final, 0), "result", "failed")
    f.at("result")
    r = f.own("ptr", "pb_build", "ptr %e", f"ptr {saved}")
    f.decref(owner)
    f.ret("ptr " + r)
    f.at("failed")
    f.decref(owner)
    f.ret("ptr null")
    _left_to_python(f, saved, converts, temps)
    return f


def _serial() -> Fn:
    """parallel_for of the default context: one chunk after the other."""
    f = Fn("pb_serial_for", "void", "ptr ctx, ptr fn, ptr closure, i64 n", hot=True)
    f.loop("chunk", "%n", lambda k: f.do(f"call void %fn(ptr %ctx, ptr %closure, i64 {k})"))
    f.ret()
    return f


def run_functions() -> list[Fn]:
    """Everything that runs entries."""
    return [
        _fill(), _convert(), _free_temps(), _outputs(), _free_saved(), *_hold(), _donate(),
        _free_donated(), _thread_count(), _execute(), *result_functions(),
        _run(), _serial(),
    ]  # fmt: skip
