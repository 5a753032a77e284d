"""Calls, as native code: operands to a key, key to an entry, entry to a result.

A call is flattened into a key (one word per array, scalar or piece of structure: the address of
its interned aval, or a structure word) and its leaves' data addresses. The key finds an entry; the
entry says how slots are filled, what runs, and how the result is built. Whatever does not fit (a
tracer, a pending array, a trace in progress in any thread, an unknown type, no entry) makes the
fast part return SLOW, and the Python function behind it is called. The big frames belong to the
fast parts, so that the Python side may recurse as deeply as it likes.
"""

from __future__ import annotations

from pullback.runtime import native_layout as L
from pullback.runtime.native_array import _int_argument, _method, _return_none, _traverse
from pullback.runtime.native_build import Fn
from pullback.runtime.native_operands import (
    CELLS,
    DATAS,
    KEYS,
    NKEYS,
    NLEAVES,
    OBJS,
    new_frame,
    operand_functions,
)
from pullback.runtime.native_run import SLOW, run_functions

__all__ = ["call_functions"]


def _match() -> Fn:
    f = Fn("pb_match", "i64", "ptr e, ptr keys, i64 n, i64 config", inline=True)
    f.when(f.cmp("ne", f.ld("i64", "%e", L.E_NKEYS), "%n"), "no")
    f.when(f.cmp("ne", f.ld("i64", "%e", L.E_CONFIG), "%config"), "no")
    mine = f.ld("ptr", "%e", L.E_KEYS)
    i = f.var("i64", 0)
    f.go("loop")
    f.at("loop")
    k = f.ld("i64", i)
    f.br(f.cmp("ult", k, "%n"), "one", "yes")
    f.at("one")
    same = f.cmp("eq", f.ld("i64", f.idx(mine, k)), f.ld("i64", f.idx("%keys", k)))
    f.unless(same, "no")
    f.bump(i, 0, 1)
    f.go("loop")
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


def _config() -> Fn:
    """i64 config(): the number of the flags' values, and of the mesh in force, for this thread."""
    f = Fn("pb_config", "i64", "", inline=True)
    s = f.state()
    config, thread = f.ld("i64", s, L.CONFIG_KEY), f.ld("i64", s, L.OWN_THREAD)
    f.br(f.cmp("eq", thread, 0), "usual", "own")
    f.at("usual")
    f.ret("i64 " + config)
    f.at("own")
    mine = f.cmp("eq", f.call("i64", "PyThread_get_thread_ident"), thread)
    f.ret("i64 " + f.v(f"select i1 {mine}, i64 {f.ld('i64', s, L.OWN_CONFIG)}, i64 {config}"))
    return f


def _lookup() -> Fn:
    """ptr lookup(where, frame): `where` points at the words table, mask, last; the entry or "
    "null."""
    f = Fn("pb_lookup", "ptr", "ptr where, ptr frame", inline=True)
    config = f.own("i64", "pb_config")
    keys, n = f.gep("%frame", KEYS), f.ld("i64", "%frame", NKEYS)
    last = f.ld("ptr", "%where", 16)
    f.br(f.is_null(last), "table", "try")
    f.at("try")
    hit = f.own("i64", "pb_match", f"ptr {last}", f"ptr {keys}", f"i64 {n}", f"i64 {config}")
    f.br(f.cmp("ne", hit, 0), "same", "table")
    f.at("same")
    f.ret("ptr " + last)
    f.at("table")
    table, mask = f.ld("ptr", "%where"), f.ld("i64", "%where", 8)
    f.when(f.is_null(table), "miss")
    h, i = f.var("i64", n), f.var("i64", 0)
    f.go("hash")
    f.at("hash")
    k = f.ld("i64", i)
    f.br(f.cmp("ult", k, n), "mix", "probe_first")
    f.at("mix")
    x = f.op(
        "mul",
        f.op("xor", f.ld("i64", h), f.ld("i64", f.idx(keys, k))),
        L.HASH_MULTIPLIER - (1 << 64),
    )
    f.st("i64", f.op("xor", x, f.op("lshr", x, 32)), h)
    f.bump(i, 0, 1)
    f.go("hash")
    f.at("probe_first")
    hashed = f.ld("i64", h)
    f.st("i64", f.op("and", hashed, mask), i)
    f.go("probe")
    f.at("probe")
    k = f.ld("i64", i)
    pair = f.gep(table, f.op("shl", k, 4))
    e = f.ld("ptr", pair, 8)
    f.when(f.is_null(e), "miss")
    f.br(f.cmp("eq", f.ld("i64", pair), hashed), "compare", "next")
    f.at("compare")
    hit = f.own("i64", "pb_match", f"ptr {e}", f"ptr {keys}", f"i64 {n}", f"i64 {config}")
    f.br(f.cmp("ne", hit, 0), "found", "next")
    f.at("found")
    f.st("ptr", e, "%where", 16)
    f.ret("ptr " + e)
    f.at("next")
    f.st("i64", f.op("and", f.op("add", k, 1), mask), i)
    f.go("probe")
    f.at("miss")
    f.ret("ptr null")
    return f


def _leave_if_tracing(f: Fn) -> None:
    f.when(f.cmp("ne", f.ld("i64", f.state(), L.TRACE_DEPTH), 0), "slow")


def _slow_end(f: Fn) -> None:
    f.at("slow")
    f.ret(f"ptr inttoptr (i64 {SLOW} to ptr)")


def _run_frame(f: Fn, where: str, frame: str) -> None:
    e = f.own("ptr", "pb_lookup", f"ptr {where}", f"ptr {frame}")
    f.when(f.is_null(e), "slow")
    datas, objs = f.gep(frame, DATAS), f.gep(frame, OBJS)
    cells = f.gep(frame, CELLS)
    f.ret(
        "ptr " + f.own("ptr", "pb_run", f"ptr {e}", f"ptr {datas}", f"ptr {objs}", f"ptr {cells}")
    )


def _operators() -> list[Fn]:
    f = Fn("pb_fast_operator", "ptr", "ptr a, ptr b, ptr where", internal=True, hot=True)
    _leave_if_tracing(f)
    f.when(f.is_null(f.ld("ptr", "%where")), "slow")
    frame = new_frame(f)
    how = f"ptr {frame}", "i64 0", "i64 0"
    f.when(f.cmp("eq", f.own("i64", "pb_flat", "ptr %a", *how), 0), "slow")
    f.br(f.is_null("%b"), "run", "second")
    f.at("second")
    f.br(f.cmp("eq", f.own("i64", "pb_flat", "ptr %b", *how), 0), "slow", "run")
    f.at("run")
    _run_frame(f, "%where", frame)
    _slow_end(f)

    g = Fn("pb_operator", "ptr", "ptr a, ptr b, i64 k", internal=True, hot=True)
    where = g.gep(g.gep(g.state(), L.OPERATORS), g.op("mul", "%k", L.OPERATOR_BYTES))
    fn = g.ld("ptr", where, L.OPERATOR_FUNCTION)
    table = g.v(f"select i1 {g.is_null(fn)}, ptr {where}, ptr {g.gep(fn, L.TABLE)}")
    r = g.own("ptr", "pb_fast_operator", "ptr %a", "ptr %b", f"ptr {table}")
    g.when(_is_slow(g, r), "slow")
    g.ret("ptr " + r)
    g.at("slow")
    slow = g.ld("ptr", where, L.OPERATOR_SLOW)
    g.when(g.is_null(slow), "unknown")
    g.ret(
        "ptr "
        + g.call(
            "ptr", "PyObject_CallFunctionObjArgs", f"ptr {slow}", "ptr %a", "ptr %b", "ptr null"
        )
    )
    g.at("unknown")
    g.br(g.is_null("%b"), "unary", "binary")
    g.at("unary")
    g.fail("TypeError", "this operator is installed by pullback.numpy: import pullback first")
    g.ret("ptr null")
    g.at("binary")
    ni = g.ext("_Py_NotImplementedStruct")
    g.incref(ni)
    g.ret("ptr " + ni)

    out = [f, g]
    for name in (*L.BINARY[:13], *L.UNARY):
        k = L.OPERATOR_INDEX[name]
        if name == "power":
            h = Fn("pb_op_power", "ptr", "ptr a, ptr b, ptr m", hot=True)
            h.br(h.cmp("eq", "%m", h.ext("_Py_NoneStruct"), "ptr"), "two", "three")
            h.at("three")
            h.fail(
                "TypeError", "pow() with a modulus is not defined for arrays: write (x ** y) % m"
            )
            h.ret("ptr null")
            h.at("two")
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k}"))
        elif name in L.UNARY:
            h = Fn("pb_op_" + name, "ptr", "ptr a", hot=True)
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr null", f"i64 {k}"))
        else:
            h = Fn("pb_op_" + name, "ptr", "ptr a, ptr b", hot=True)
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k}"))
        out.append(h)
    c = Fn("pb_richcompare", "ptr", "ptr a, ptr b, i32 op", hot=True)
    k64 = c.op("add", c.v("zext i32 %op to i64"), L.OPERATOR_INDEX["lt"])
    c.ret("ptr " + c.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k64}"))
    return [*out, c]


def _is_slow(f: Fn, r: str) -> str:
    return f.cmp("eq", f.v(f"ptrtoint ptr {r} to i64"), SLOW)


def _subscripts() -> list[Fn]:
    """`a[i]` with an int: one row is copied out; everything else is Python's."""
    f = Fn("pb_fast_subscript", "ptr", "ptr a, ptr i, ptr where", internal=True, hot=True)
    overflow = f.local("i32")
    _leave_if_tracing(f)
    f.unless(f.cmp("eq", f.ld("ptr", "%i", 8), f.ext("PyLong_Type"), "ptr"), "slow")
    frame = new_frame(f)
    how = f"ptr {frame}", "i64 0", "i64 0"
    f.when(f.cmp("eq", f.own("i64", "pb_flat", "ptr %a", *how), 0), "slow")
    e = f.own("ptr", "pb_lookup", "ptr %where", f"ptr {frame}")
    f.when(f.is_null(e), "slow")
    x = f.call("i64", "PyLong_AsLongLongAndOverflow", "ptr %i", f"ptr {overflow}")
    f.when(f.cmp("ne", f.v(f"load i32, ptr {overflow}"), 0, "i32"), "slow")
    rows, size = f.ld("i64", e, L.R_ROWS), f.ld("i64", e, L.R_BYTES)
    wrapped = f.v(f"select i1 {f.cmp('slt', x, 0)}, i64 {f.op('add', x, rows)}, i64 {x}")
    f.unless(f.cmp("ult", wrapped, rows), "slow")
    block = f.own("ptr", "pb_alloc_held", f"i64 {size}")
    f.when(f.is_null(block), "slow")  # Python's path reports it
    row = f.gep(f.ld("ptr", "%a", L.DATA), f.op("mul", wrapped, size))
    f.call("ptr", "memcpy", f"ptr {block}", f"ptr {row}", f"i64 {size}")
    o = f.own("ptr", "pb_make", f"ptr {f.ld('ptr', e, L.R_AVAL)}", f"ptr {block}", f"i64 {size}")
    f.br(f.is_null(o), "undo", "good")
    f.at("undo")
    f.own("void", "pb_free_held", f"ptr {block}", f"i64 {size}")
    f.ret("ptr null")
    f.at("good")
    committed = f.ld("ptr", e, L.R_COMMITTED)
    f.br(f.is_null(committed), "row", "committed")
    f.at("committed")
    f.incref(committed)
    f.st("ptr", committed, o, L.COMMITTED)
    f.go("row")
    f.at("row")
    f.ret("ptr " + o)
    _slow_end(f)

    g = Fn("pb_subscript", "ptr", "ptr a, ptr i", hot=True)
    offset = L.OPERATORS + L.OPERATOR_BYTES * L.OPERATOR_INDEX["getitem"]
    where = g.gep(g.state(), offset)
    r = g.own("ptr", "pb_fast_subscript", "ptr %a", "ptr %i", f"ptr {where}")
    g.when(_is_slow(g, r), "slow")
    g.ret("ptr " + r)
    g.at("slow")
    slow = g.ld("ptr", where, L.OPERATOR_SLOW)
    g.when(g.is_null(slow), "unknown")
    g.ret(
        "ptr "
        + g.call(
            "ptr", "PyObject_CallFunctionObjArgs", f"ptr {slow}", "ptr %a", "ptr %i", "ptr null"
        )
    )
    g.at("unknown")
    g.fail("TypeError", "indexing of arrays is installed by pullback.numpy: import pullback first")
    g.ret("ptr null")
    return [f, g]


def _flattened(f: Fn, function: str, frame: str, args: str, n: str) -> str:
    """Flattens the operands of a call as the function wants them."""
    statics, named = f.ld("i64", function, L.STATICS), f.ld("ptr", function, L.NAMED)
    eager = f.v(f"ptrtoint ptr {f.ld('ptr', function, L.PLAIN)} to i64")
    return f.own(
        "i64", "pb_flatten", f"ptr {frame}", f"ptr {args}", f"i64 {n}", "ptr %kwnames",
        f"i64 {statics}", f"ptr {named}", f"i64 {eager}",
    )  # fmt: skip


def _fast_call() -> Fn:
    """ptr fast_call(function, args, n, kwnames): the result, null with an exception, or SLOW."""
    f = Fn("pb_fast_call", "ptr", "ptr self, ptr args, i64 n, ptr kwnames", internal=True, hot=True)
    _leave_if_tracing(f)
    frame = new_frame(f)
    f.when(f.cmp("eq", _flattened(f, "%self", frame, "%args", "%n"), 0), "slow")
    _run_frame(f, f.gep("%self", L.TABLE), frame)
    _slow_end(f)
    return f


def _vectorcall() -> Fn:
    """A call of a JitFunction: natively where an entry fits, else by Python's functions."""
    f = Fn("pb_vectorcall", "ptr", "ptr self, ptr args, i64 nf, ptr kwnames", hot=True)
    position, total = f.var("i64", 0), f.var("i64", 0)
    n = f.op("and", "%nf", 0x7FFFFFFFFFFFFFFF)
    f.br(f.is_null(f.ld("ptr", "%self", L.TABLE)), "slow", "fast")
    f.at("fast")
    r = f.own("ptr", "pb_fast_call", "ptr %self", "ptr %args", f"i64 {n}", "ptr %kwnames")
    f.when(_is_slow(f, r), "slow")
    f.ret("ptr " + r)
    f.at("slow")
    slow = f.ld("ptr", "%self", L.SLOW)
    f.when(f.is_null(slow), "cleared")
    plain = f.ld("ptr", "%self", L.PLAIN)
    f.br(f.is_null(plain), "alone", "eager")
    f.at("eager")
    y, tracing = _noted_call(f, slow, plain, n)
    _own_result(f, y, tracing, n, position, total)
    f.at("finished")
    f.ret("ptr " + y)
    f.at("alone")
    f.incref(slow)  # the function may replace it, or die, meanwhile
    x = f.call("ptr", "PyObject_Vectorcall", f"ptr {slow}", "ptr %args", f"i64 {n}", "ptr %kwnames")
    f.decref(slow)
    f.ret("ptr " + x)
    f.at("cleared")
    f.fail("RuntimeError", "this jitted function was cleared by the garbage collector")
    f.ret("ptr null")
    return f


def _noted_call(f: Fn, slow: str, plain: str, n: str) -> tuple[str, str]:
    """SLOW takes note of the call (not while something is traced), PLAIN does it: its result, and
    whether something is traced."""
    f.incref(plain)
    tracing = f.cmp("ne", f.ld("i64", f.state(), L.TRACE_DEPTH), 0)
    f.br(tracing, "plainly", "note")
    f.at("note")
    f.incref(slow)
    arguments = "ptr %args", f"i64 {n}", "ptr %kwnames"
    noted = f.call("ptr", "PyObject_Vectorcall", f"ptr {slow}", *arguments)
    f.decref(slow)
    f.br(f.is_null(noted), "interrupted", "noted")
    f.at("interrupted")
    f.decref(plain)
    f.ret("ptr null")
    f.at("noted")  # a tuple holds the result
    f.br(f.cmp("eq", noted, f.ext("_Py_NoneStruct"), "ptr"), "unknown", "known")
    f.at("known")
    result = f.ld("ptr", noted, L.TUPLE_ITEMS)
    f.incref(result)
    f.decref(noted)
    f.decref(plain)
    f.ret("ptr " + result)
    f.at("unknown")
    f.decref(noted)
    f.go("plainly")
    f.at("plainly")
    y = f.call("ptr", "PyObject_Vectorcall", f"ptr {plain}", *arguments)
    f.decref(plain)
    return y, tracing


def _own_result(f: Fn, y: str, tracing: str, n: str, position: str, total: str) -> None:
    """Goes on at "finished", or returns: a result that is one of the operands becomes an array of
    its own, as compiled functions' results are."""
    forwards = f.cmp("ne", f.ld("i64", "%self", L.FORWARDS), 0)
    f.when(f.op("or", f.op("or", forwards, tracing, "i1"), f.is_null(y), "i1"), "finished")
    ours = f.cmp("eq", f.ld("ptr", y, 8), f.ld("ptr", f.state(), L.ARRAY_TYPE), "ptr")
    f.unless(ours, "finished")
    f.st("i64", 0, position)
    f.br(f.is_null("%kwnames"), "compare", "keywords")
    f.at("keywords")
    f.st("i64", f.ld("i64", "%kwnames", 16), total)
    f.go("compare")
    f.at("compare")
    k = f.ld("i64", position)
    f.br(f.cmp("slt", k, f.op("add", n, f.ld("i64", total))), "argument", "finished")
    f.at("argument")
    f.st("i64", f.op("add", k, 1), position)
    f.br(f.cmp("eq", f.ld("ptr", f.idx("%args", k)), y, "ptr"), "itself", "compare")
    f.at("itself")
    twin = f.own("ptr", "pb_twin", f"ptr {y}")
    f.decref(y)
    f.ret("ptr " + twin)


def _descr_get() -> Fn:
    """A JitFunction in a class body is a method."""
    f = Fn("pb_function_descr_get", "ptr", "ptr self, ptr obj, ptr type", hot=True)
    f.br(f.is_null("%obj"), "plain", "some")
    f.at("some")
    f.br(f.cmp("eq", "%obj", f.ext("_Py_NoneStruct"), "ptr"), "plain", "bind")
    f.at("plain")
    f.incref("%self")
    f.ret("ptr %self")
    f.at("bind")
    f.ret("ptr " + f.call("ptr", "PyMethod_New", "ptr %self", "ptr %obj"))
    return f


_FUNCTION_REFERENCES = (L.SLOW, L.KEEP, L.FN_DICT, L.PLAIN, L.NAMED)


def _clear() -> Fn:
    f = Fn("pb_function_clear", "i32", "ptr o")
    for offset in (L.TABLE, L.MASK, L.LAST):
        f.st("i64", 0, "%o", offset)
    for offset in _FUNCTION_REFERENCES:
        p = f.ld("ptr", "%o", offset)
        f.st("ptr", "null", "%o", offset)
        f.xdecref(p)
    f.ret("i32 0")
    return f


def _dealloc() -> Fn:
    f = Fn("pb_function_dealloc", "void", "ptr o")
    f.call("void", "PyObject_GC_UnTrack", "ptr %o")
    f.br(f.is_null(f.ld("ptr", "%o", L.FN_WEAKREFS)), "drop", "weak")
    f.at("weak")
    f.call("void", "PyObject_ClearWeakRefs", "ptr %o")
    f.go("drop")
    f.at("drop")
    f.own("i32", "pb_function_clear", "ptr %o")
    t = f.ld("ptr", "%o", 8)
    f.call("void", "PyObject_GC_Del", "ptr %o")
    f.decref(t)
    f.ret()
    return f


def _function_slots() -> list[Fn]:
    traverse = _traverse("pb_function_traverse", _FUNCTION_REFERENCES)
    return [_fast_call(), _vectorcall(), _descr_get(), _clear(), _dealloc(), traverse]


def _function_argument(f: Fn) -> str:
    a = f.ld("ptr", "%args")
    ours = f.cmp("eq", f.ld("ptr", a, 8), f.ld("ptr", f.state(), L.FUNCTION_TYPE), "ptr")
    f.br(ours, "function", "other")
    f.at("other")
    f.fail("TypeError", "expected a pullback JitFunction")
    f.go("failed")
    f.at("function")
    return a


def _methods() -> list[Fn]:
    # new_function(slow, statics, plain, named, forwards): see native_layout
    new = _method("new_function", 5)
    statics, forwards = _int_argument(new, 1), _int_argument(new, 4)
    o = new.call("ptr", "_PyObject_GC_New", f"ptr {new.ld('ptr', new.state(), L.FUNCTION_TYPE)}")
    new.when(new.is_null(o), "failed")
    for offset in range(L.VECTORCALL, L.FUNCTION_BYTES, 8):
        new.st("i64", 0, o, offset)
    new.st("ptr", new.address("pb_vectorcall"), o, L.VECTORCALL)
    new.st("i64", statics, o, L.STATICS)
    new.st("i64", forwards, o, L.FORWARDS)
    for k, offset in ((0, L.SLOW), (2, L.PLAIN), (3, L.NAMED)):
        x = new.ld("ptr", "%args", 8 * k)
        new.br(new.cmp("eq", x, new.ext("_Py_NoneStruct"), "ptr"), f"none_{k}", f"given_{k}")
        new.at(f"given_{k}")
        new.incref(x)
        new.st("ptr", x, o, offset)
        new.go(f"none_{k}")
        new.at(f"none_{k}")
    new.call("void", "PyObject_GC_Track", f"ptr {o}")
    new.ret("ptr " + o)

    table = _method("set_table", 4)  # set_table(function, address, mask, keep)
    fn = _function_argument(table)
    address, mask = _int_argument(table, 1), _int_argument(table, 2)
    table.st("i64", address, fn, L.TABLE)
    table.st("i64", mask, fn, L.MASK)
    table.st("ptr", "null", fn, L.LAST)
    keep, old = table.ld("ptr", "%args", 24), table.ld("ptr", fn, L.KEEP)
    table.incref(keep)
    table.st("ptr", keep, fn, L.KEEP)
    table.xdecref(old)
    _return_none(table)

    # signature(function, *args, **kwargs): bytes of the number of leaves and the key's words, or
    # None. A mask of static positions stands for a jitted function that has it.
    s = Fn("py_signature", "ptr", "ptr self, ptr args, i64 n, ptr kwnames")
    frame = new_frame(s)
    s.br(s.cmp("slt", "%n", 1), "no", "some")
    s.at("some")
    fn = s.ld("ptr", "%args")
    rest, n = s.gep("%args", 8), s.op("sub", "%n", 1)
    ours = s.cmp("eq", s.ld("ptr", fn, 8), s.ld("ptr", s.state(), L.FUNCTION_TYPE), "ptr")
    s.br(ours, "function", "operator")
    s.at("operator")
    mask = s.call("i64", "PyLong_AsLongLong", f"ptr {fn}")
    s.br(s.is_null(s.call("ptr", "PyErr_Occurred")), "good", "failed")
    s.at("failed")
    s.ret("ptr null")
    s.at("good")
    plain = s.own(
        "i64", "pb_flatten", f"ptr {frame}", f"ptr {rest}", f"i64 {n}", "ptr %kwnames",
        f"i64 {mask}", "ptr null", "i64 0",
    )  # fmt: skip
    s.br(s.cmp("eq", plain, 0), "no", "yes")
    s.at("function")
    s.br(s.cmp("eq", _flattened(s, fn, frame, rest, n), 0), "no", "yes")
    s.at("yes")
    length = s.op("add", s.op("shl", s.ld("i64", frame, NKEYS), 3), 8)
    s.ret(
        "ptr "
        + s.call(
            "ptr", "PyBytes_FromStringAndSize", f"ptr {s.gep(frame, NLEAVES)}", f"i64 {length}"
        )
    )
    s.at("no")
    none = s.ext("_Py_NoneStruct")
    s.incref(none)
    s.ret("ptr " + none)
    return [new, table, s]


def call_functions() -> list[Fn]:
    """Everything about calls that is native."""
    return [
        *operand_functions(), _match(), _config(), _lookup(), *run_functions(),
        *_operators(),
        *_subscripts(), *_function_slots(), *_methods(),
    ]  # fmt: skip
