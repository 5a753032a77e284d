"""Calls, as native code: operands to a key, key to an entry, entry to a result.

A call is flattened into a key (one word per array, scalar or piece of structure: the address of
its interned aval, or a structure word) and its leaves' data addresses. The key finds an entry; the
entry says how slots are filled, what runs, and how the result is built. Whatever does not fit (a
tracer, a pending array, a trace in progress in any thread, an unknown type, no entry) makes the
fast part return SLOW, and the Python function behind it is called. The big frames belong to the
fast parts, so that the Python side may recurse as deeply as it likes.
"""

# Longer than other files: one native program, read from its top to its end.

from __future__ import annotations

from pullback.runtime import native_layout as L
from pullback.runtime.native_array import _int_argument, _method, _return_none, _traverse
from pullback.runtime.native_build import Fn
from pullback.runtime.native_run import SLOW, run_functions

__all__ = ["call_functions"]

# The frame of one call: counts, then keys, data addresses, objects (null for scalars), cells for
# the scalars' values.
_NKEYS, _NLEAVES, _KEYS = 0, 8, 16
_DATAS = _KEYS + 8 * L.MAX_KEYS
_OBJS = _DATAS + 8 * L.MAX_LEAVES
_CELLS = _OBJS + 8 * L.MAX_LEAVES
_FRAME_BYTES = _CELLS + 16 * L.MAX_LEAVES


def _frame(f: Fn) -> str:
    p = f.local(f"[{_FRAME_BYTES} x i8], align 16")
    f.st("i64", 0, p, _NKEYS)
    f.st("i64", 0, p, _NLEAVES)
    return p


def _push_key() -> Fn:
    f = Fn("pb_push_key", "i64", "ptr frame, ptr key", inline=True)
    n = f.ld("i64", "%frame", _NKEYS)
    f.br(f.cmp("ult", n, L.MAX_KEYS), "room", "full")
    f.at("room")
    f.st("ptr", "%key", f.idx(f.gep("%frame", _KEYS), n))
    f.st("i64", f.op("add", n, 1), "%frame", _NKEYS)
    f.ret("i64 1")
    f.at("full")
    f.ret("i64 0")
    return f


def _push_leaf() -> Fn:
    """A key and a leaf; for a scalar (obj null) `data` is ignored and the leaf's own cell is "
    "used."""
    f = Fn("pb_push_leaf", "ptr", "ptr frame, ptr key, ptr data, ptr obj", inline=True)
    n = f.ld("i64", "%frame", _NLEAVES)
    f.when(f.is_null("%key"), "full")
    f.when(f.cmp("uge", n, L.MAX_LEAVES), "full")
    ok = f.own("i64", "pb_push_key", "ptr %frame", "ptr %key")
    f.when(f.cmp("eq", ok, 0), "full")
    cell = f.gep(f.gep("%frame", _CELLS), f.op("shl", n, 4))
    scalar = f.is_null("%obj")
    f.st(
        "ptr", f.v(f"select i1 {scalar}, ptr {cell}, ptr %data"), f.idx(f.gep("%frame", _DATAS), n)
    )
    f.st("ptr", "%obj", f.idx(f.gep("%frame", _OBJS), n))
    f.st("i64", f.op("add", n, 1), "%frame", _NLEAVES)
    f.ret("ptr " + cell)
    f.at("full")
    f.ret("ptr null")
    return f


def _push(f: Fn, word: str | int, kind: str = "ptr") -> None:
    """One more word of the key, else to `no`."""
    key = word if kind == "ptr" else f.v(f"inttoptr i64 {word} to ptr")
    f.when(f.cmp("eq", f.own("i64", "pb_push_key", "ptr %frame", f"ptr {key}"), 0), "no")


def _push_sized(f: Fn, word: int, size: str) -> None:
    _push(f, f.op("or", f.op("shl", size, 8), word), "i64")


def _push_foreign() -> Fn:
    """ptr push_foreign(frame, data, obj): a leaf whose key words stand already; data null: its
    cell, which is returned. Objects that are no Arrays are marked by their lowest bit."""
    f = Fn("pb_push_foreign", "ptr", "ptr frame, ptr data, ptr obj", internal=True)
    n = f.ld("i64", "%frame", _NLEAVES)
    f.when(f.cmp("uge", n, L.MAX_LEAVES), "full")
    cell = f.gep(f.gep("%frame", _CELLS), f.op("shl", n, 4))
    own = f.is_null("%data")
    f.st("ptr", f.v(f"select i1 {own}, ptr {cell}, ptr %data"), f.idx(f.gep("%frame", _DATAS), n))
    marked = f.v(f"select i1 {f.is_null('%obj')}, i64 0, i64 1")
    f.st("ptr", f.gep("%obj", marked), f.idx(f.gep("%frame", _OBJS), n))
    f.st("i64", f.op("add", n, 1), "%frame", _NLEAVES)
    f.ret("ptr " + cell)
    f.at("full")
    f.ret("ptr null")
    return f


def _type_info() -> Fn:
    """ptr type_info(type): what was registered for a type, or null."""
    f = Fn("pb_type_info", "ptr", "ptr t", internal=True)
    s = f.state()
    table, mask = f.ld("ptr", s, L.TYPES), f.ld("i64", s, L.TYPES_MASK)
    f.when(f.is_null(table), "none")
    i = f.var("i64", f.op("and", f.op("lshr", f.v("ptrtoint ptr %t to i64"), 4), mask))
    f.go("probe")
    f.at("probe")
    k = f.ld("i64", i)
    pair = f.gep(table, f.op("shl", k, 4))
    found = f.ld("ptr", pair)
    f.when(f.is_null(found), "none")
    f.br(f.cmp("eq", found, "%t", "ptr"), "hit", "next")
    f.at("next")
    f.st("i64", f.op("and", f.op("add", k, 1), mask), i)
    f.go("probe")
    f.at("hit")
    f.ret("ptr " + f.ld("ptr", pair, 8))
    f.at("none")
    f.ret("ptr null")
    return f


def _flat_numpy() -> Fn:
    """i64 flat_numpy(array, frame): an array of NumPy is read where it lies."""
    f = Fn("pb_flat_numpy", "i64", "ptr o, ptr frame", internal=True)
    flags = f.op("and", f.ld("i32", "%o", L.ND_FLAGS), L.ND_USABLE, "i32")
    f.unless(f.cmp("eq", flags, L.ND_USABLE, "i32"), "no")
    n = f.v(f"zext i32 {f.ld('i32', '%o', L.ND_NDIM)} to i64")
    dims = f.ld("ptr", "%o", L.ND_SHAPE)
    _push_sized(f, L.K_NUMPY, n)
    _push(f, f.ld("ptr", "%o", L.ND_DTYPE))
    i, count = f.var("i64", 0), f.var("i64", 1)
    f.go("dims")
    f.at("dims")
    k = f.ld("i64", i)
    f.br(f.cmp("ult", k, n), "dim", "leaf")
    f.at("dim")
    d = f.ld("i64", f.idx(dims, k))
    _push(f, d, "i64")
    f.st("i64", f.op("mul", f.ld("i64", count), d), count)
    f.bump(i, 0, 1)
    f.go("dims")
    f.at("leaf")
    data = f.ld("ptr", "%o", L.ND_DATA)
    cell = f.own("ptr", "pb_push_foreign", "ptr %frame", f"ptr {data}", "ptr %o")
    f.when(f.is_null(cell), "no")
    f.st("i64", f.ld("i64", count), cell)
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


def _flat_other() -> Fn:
    """i64 flat_other(object, information, frame, depth, mode): an object of a registered type."""
    f = Fn("pb_flat_other", "i64", "ptr o, ptr info, ptr frame, i64 depth, i64 mode", internal=True)
    index = f.local("i64")
    kind = f.ld("i64", "%info")
    t = f.ld("ptr", "%o", 8)
    cases = f"i64 {L.T_NAMED}, label %named i64 {L.T_STATIC}, label %static "
    cases += f"i64 {L.T_FIELDS}, label %fields i64 {L.T_NUMBER}, label %number"
    f.do(f"switch i64 {kind}, label %no [{cases}]")
    f.at("static")
    f.when(f.cmp("eq", f.op("and", "%mode", L.PARAMETERS), 0), "no")
    _push(f, L.K_STATIC, "i64")
    _push(f, "%o")
    f.go("yes")
    f.at("number")
    _push(f, L.K_NUMBER, "i64")
    _push(f, t)
    cell = f.own("ptr", "pb_push_foreign", "ptr %frame", "ptr null", "ptr null")
    f.when(f.is_null(cell), "no")
    value = f.gep("%o", L.NUMBER_VALUE)
    f.call("ptr", "memcpy", f"ptr {cell}", f"ptr {value}", f"i64 {f.ld('i64', '%info', 8)}")
    doubles = f.ld("i64", "%info", 16)
    f.when(f.cmp("eq", doubles, 0), "yes")
    f.unless(f.cmp("eq", f.ld("i64", f.state(), L.INT_BITS), 32), "yes")
    _narrowed(f, f.ld("double", cell))
    f.when(f.cmp("eq", doubles, 1), "yes")
    _narrowed(f, f.ld("double", cell, 8))
    f.go("yes")
    f.at("named")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _push(f, t)
    items, size = f.gep("%o", L.TUPLE_ITEMS), f.ld("i64", "%o", 16)
    _container(f, "names", L.K_NAMED, items, size, index)
    f.at("fields")
    f.when(f.cmp("eq", "%depth", 0), "no")
    children, statics = f.ld("i64", "%info", 8), f.ld("i64", "%info", 16)
    total = f.op("add", children, statics)
    _push_sized(f, L.K_FIELDS, total)
    _push(f, t)
    f.st("i64", 0, index)
    f.go("attributes")
    f.at("attributes")
    i = f.ld("i64", index)
    f.br(f.cmp("ult", i, total), "attribute", "yes")
    f.at("attribute")
    name = f.ld("ptr", f.idx(f.gep("%info", 24), i))
    v = f.call("ptr", "PyObject_GetAttr", "ptr %o", f"ptr {name}")
    f.br(f.is_null(v), "missing", "got")
    f.at("missing")
    f.call("void", "PyErr_Clear")
    f.go("no")
    f.at("got")
    # What the object itself does not hold (a property's value) is gone after the next line.
    fresh = f.cmp("eq", f.ld("i64", v), 1)
    f.decref(v)
    f.when(fresh, "no")
    static = f.cmp("uge", i, children)
    mode = f.v(f"select i1 {static}, i64 {L.BY_VALUE | L.PARAMETERS}, i64 %mode")
    below = f.op("sub", "%depth", 1)
    ok = f.own("i64", "pb_flat", f"ptr {v}", "ptr %frame", f"i64 {below}", f"i64 {mode}")
    f.when(f.cmp("eq", ok, 0), "no")
    f.bump(index, 0, 1)
    f.go("attributes")
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


def _container(f: Fn, name: str, word: int, items: str, size: str, index: str) -> None:
    """A tuple or list: a structure word, then its items."""
    _push_sized(f, word, size)
    f.st("i64", 0, index)
    f.go(name + "_loop")
    f.at(name + "_loop")
    i = f.ld("i64", index)
    f.br(f.cmp("ult", i, size), name + "_item", "yes")
    f.at(name + "_item")
    item = f.ld("ptr", f.idx(items, i))
    below = f.op("sub", "%depth", 1)
    ok = f.own("i64", "pb_flat", f"ptr {item}", "ptr %frame", f"i64 {below}", "i64 %mode")
    f.when(f.cmp("eq", ok, 0), "no")
    f.bump(index, 0, 1)
    f.go(name + "_loop")


def _narrowed(f: Fn, x: str) -> str:
    """A double as a float; leaves by "no" if it becomes infinite, of which Python's path warns."""
    narrow = f.v(f"fptrunc double {x} to float")
    low = f.op("and", f.v(f"bitcast float {narrow} to i32"), 2**31 - 1, "i32")
    exact = f.op("and", f.v(f"bitcast double {x} to i64"), 2**63 - 1)
    was_finite = f.cmp("ne", exact, 0x7FF << 52)
    f.when(f.op("and", f.cmp("eq", low, 0xFF << 23, "i32"), was_finite, "i1"), "no")
    return narrow


def _flat() -> Fn:
    """i64 flat(object, frame, depth, mode): appends an operand to the frame; 0 if it is nothing
    that the fast path knows."""
    f = Fn("pb_flat", "i64", "ptr o, ptr frame, i64 depth, i64 mode", internal=True)
    index, position, key, value = (f.local("i64") for _ in range(4))
    overflow = f.local("i32")
    s = f.state()
    t = f.ld("ptr", "%o", 8)
    f.br(f.cmp("eq", t, f.ld("ptr", s, L.ARRAY_TYPE), "ptr"), "array", "scalars")
    f.at("array")
    f.unless(f.cmp("eq", f.op("and", f.ld("i64", "%o", L.STATE), 3), 0), "no")
    cell = f.own(
        "ptr", "pb_push_leaf", "ptr %frame", f"ptr {f.ld('ptr', '%o', L.AVAL)}",
        f"ptr {f.ld('ptr', '%o', L.DATA)}", "ptr %o",
    )  # fmt: skip
    f.when(f.is_null(cell), "no")
    committed = f.ld("ptr", "%o", L.COMMITTED)
    f.br(f.is_null(committed), "yes", "committed")
    f.at("committed")  # one key more: results are committed too
    _push(f, committed)
    f.go("yes")
    f.at("scalars")
    for kind in ("Float", "Long", "Tuple", "List", "Dict", "Bool", "Complex"):
        f.when(f.cmp("eq", t, f.ext(f"Py{kind}_Type"), "ptr"), kind.lower())
    f.when(f.cmp("ne", "%o", f.ext("_Py_NoneStruct"), "ptr"), "others")
    f.br(f.cmp("eq", f.own("i64", "pb_push_key", "ptr %frame", "ptr %o"), 0), "no", "yes")
    f.at("others")
    f.br(f.cmp("eq", t, f.ld("ptr", s, L.NDARRAY_TYPE), "ptr"), "numpy", "registered")
    f.at("numpy")
    f.ret("i64 " + f.own("i64", "pb_flat_numpy", "ptr %o", "ptr %frame"))
    f.at("registered")
    f.when(f.cmp("eq", t, f.ext("PySlice_Type"), "ptr"), "slice")
    info = f.own("ptr", "pb_type_info", f"ptr {t}")
    f.when(f.is_null(info), "no")
    arguments = "ptr %o", f"ptr {info}", "ptr %frame", "i64 %depth", "i64 %mode"
    f.ret("i64 " + f.own("i64", "pb_flat_other", *arguments))
    f.at("slice")
    f.when(f.cmp("eq", f.op("and", "%mode", L.PARAMETERS), 0), "no")
    _push(f, L.K_SLICE, "i64")
    for offset in (16, 24, 32):
        part, how = f.ld("ptr", "%o", offset), f"i64 {L.BY_VALUE | L.PARAMETERS}"
        ok = f.own("i64", "pb_flat", f"ptr {part}", "ptr %frame", "i64 0", how)
        f.when(f.cmp("eq", ok, 0), "no")
    f.go("yes")
    for kind, offset in (
        ("float", L.SCALAR_FLOAT),
        ("bool", L.SCALAR_BOOL),
        ("complex", L.SCALAR_COMPLEX),
    ):
        f.at(kind)
        by_value = f.cmp("ne", f.op("and", "%mode", L.BY_VALUE), 0)
        f.br(by_value, kind + "_value", kind + "_operand")
        f.at(kind + "_value")
        if kind == "float":
            _push(f, L.K_FLOAT, "i64")
            exact = f.call("double", "PyFloat_AsDouble", "ptr %o")
            _push(f, f.v(f"bitcast double {exact} to i64"), "i64")
        elif kind == "bool":
            _push(f, L.K_STATIC, "i64")
            _push(f, "%o")
        f.go("yes" if kind != "complex" else "no")
        f.at(kind + "_operand")
        aval = f.ld("ptr", s, offset)
        cell = f.own("ptr", "pb_push_leaf", "ptr %frame", f"ptr {aval}", "ptr null", "ptr null")
        f.when(f.is_null(cell), "no")
        # The cell holds the type of the aval, as an array's memory does: an entry made for arrays
        # of that aval serves numbers too, and the other way round.
        if kind == "float":
            x = f.call("double", "PyFloat_AsDouble", "ptr %o")
            f.br(f.cmp("eq", f.ld("i64", s, L.INT_BITS), 32), "float32", "float64")
            f.at("float32")
            f.st("float", _narrowed(f, x), cell)
            f.go("yes")
            f.at("float64")
            f.st("double", x, cell)
        elif kind == "bool":
            f.st(
                "i64",
                f.v(f"zext i1 {f.cmp('eq', '%o', f.ext('_Py_TrueStruct'), 'ptr')} to i64"),
                cell,
            )
        else:
            real = f.call("double", "PyComplex_RealAsDouble", "ptr %o")
            imag = f.call("double", "PyComplex_ImagAsDouble", "ptr %o")
            f.br(f.cmp("eq", f.ld("i64", s, L.INT_BITS), 32), "complex64", "complex128")
            f.at("complex64")
            f.st("float", _narrowed(f, real), cell)
            f.st("float", _narrowed(f, imag), cell, 4)
            f.go("yes")
            f.at("complex128")
            f.st("double", real, cell)
            f.st("double", imag, cell, 8)
        f.go("yes")
    f.at("long")
    x = f.call("i64", "PyLong_AsLongLongAndOverflow", "ptr %o", f"ptr {overflow}")
    f.when(f.cmp("ne", f.v(f"load i32, ptr {overflow}"), 0, "i32"), "no")
    f.br(f.cmp("ne", f.op("and", "%mode", L.BY_VALUE), 0), "int_value", "int_operand")
    f.at("int_value")
    _push(f, L.K_INT, "i64")
    _push(f, x, "i64")
    f.go("yes")
    f.at("int_operand")
    bits = f.ld("i64", s, L.INT_BITS)
    f.br(f.cmp("eq", bits, 32), "narrow", "wide")
    f.at("narrow")
    low = f.v(f"sext i32 {f.v(f'trunc i64 {x} to i32')} to i64")
    f.br(f.cmp("eq", low, x), "wide", "no")
    f.at("wide")
    cell = f.own(
        "ptr",
        "pb_push_leaf",
        "ptr %frame",
        f"ptr {f.ld('ptr', s, L.SCALAR_INT)}",
        "ptr null",
        "ptr null",
    )
    f.when(f.is_null(cell), "no")
    f.st("i64", x, cell)
    f.go("yes")
    f.at("tuple")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _container(f, "tuples", L.K_TUPLE, f.gep("%o", L.TUPLE_ITEMS), f.ld("i64", "%o", 16), index)
    f.at("list")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _container(f, "lists", L.K_LIST, f.ld("ptr", "%o", 24), f.ld("i64", "%o", 16), index)
    f.at("dict")
    f.when(f.cmp("eq", "%depth", 0), "no")
    size = f.ld("i64", "%o", 16)
    word = f.v(f"inttoptr i64 {f.op('or', f.op('shl', size, 8), L.K_DICT)} to ptr")
    f.when(f.cmp("eq", f.own("i64", "pb_push_key", "ptr %frame", f"ptr {word}"), 0), "no")
    f.st("i64", 0, position)
    f.go("dicts")
    f.at("dicts")
    more = f.call("i32", "PyDict_Next", "ptr %o", f"ptr {position}", f"ptr {key}", f"ptr {value}")
    f.br(f.cmp("eq", more, 0, "i32"), "yes", "item")
    f.at("item")
    k = f.ld("ptr", key)
    f.when(f.cmp("eq", f.own("i64", "pb_push_key", "ptr %frame", f"ptr {k}"), 0), "no")
    below = f.op("sub", "%depth", 1)
    v = f.ld("ptr", value)
    ok = f.own("i64", "pb_flat", f"ptr {v}", "ptr %frame", f"i64 {below}", "i64 %mode")
    f.br(f.cmp("eq", ok, 0), "no", "dicts")
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


def _flatten_call() -> Fn:
    """i64 flatten(frame, args, n, kwnames, statics, named, eager): all operands of a call; 0 if
    one does not fit.

    `statics` is a mask of positions (the last bit stands for all behind it). In a jitted function
    they are compared by identity, as are keywords in the tuple `named`; in an eager one their
    numbers are part of the key, as are those of keywords that are not in the tuple.
    """
    arguments = "ptr frame, ptr args, i64 n, ptr kwnames, i64 statics, ptr named, i64 eager"
    f = Fn("pb_flatten", "i64", arguments, internal=True)
    i, j = f.var("i64", 0), f.local("i64")
    objects = f.v(f"select i1 {f.cmp('ne', '%eager', 0)}, i64 {L.PARAMETERS}, i64 0")
    by_value = f.op("or", objects, L.BY_VALUE)

    def flat(o: str, mode: str) -> None:
        depth = f"i64 {L.MAX_NESTING}"
        ok = f.own("i64", "pb_flat", f"ptr {o}", "ptr %frame", depth, f"i64 {mode}")
        f.when(f.cmp("eq", ok, 0), "no")

    f.go("loop")
    f.at("loop")
    k = f.ld("i64", i)
    f.br(f.cmp("slt", k, "%n"), "one", "positional")
    f.at("one")
    o = f.ld("ptr", f.idx("%args", k))
    place = f.v(f"call i64 @llvm.umin.i64(i64 {k}, i64 63)")
    bit = f.op("and", f.op("lshr", "%statics", place), 1)
    near = f.v(f"zext i1 {f.cmp('ult', k, 64)} to i64")
    far = f.op("or", near, objects)
    f.br(f.cmp("ne", f.v(f"select i1 {f.cmp('ne', far, 0)}, i64 {bit}, i64 0"), 0), "fixed", "leaf")
    f.at("fixed")
    f.br(f.cmp("eq", "%eager", 0), "static", "value")
    f.at("static")
    _push(f, L.K_STATIC, "i64")
    _push(f, o)
    f.go("next")
    f.at("value")
    flat(o, by_value)
    f.go("next")
    f.at("leaf")
    flat(o, objects)
    f.go("next")
    f.at("next")
    f.bump(i, 0, 1)
    f.go("loop")
    f.at("positional")
    f.when(f.is_null("%kwnames"), "yes")
    count = f.ld("i64", "%kwnames", 16)
    _push_sized(f, L.K_KEYWORDS, count)
    f.st("i64", 0, i)
    f.go("keywords")
    f.at("keywords")
    k = f.ld("i64", i)
    f.br(f.cmp("slt", k, count), "keyword", "yes")
    f.at("keyword")
    name = f.ld("ptr", f.idx(f.gep("%kwnames", L.TUPLE_ITEMS), k))
    _push(f, name)
    o = f.ld("ptr", f.idx("%args", f.op("add", k, "%n")))
    f.when(f.is_null("%named"), "unnamed")
    f.st("i64", 0, j)
    f.go("names")
    f.at("names")
    m = f.ld("i64", j)
    f.unless(f.cmp("slt", m, f.ld("i64", "%named", 16)), "unnamed")
    other = f.ld("ptr", f.idx(f.gep("%named", L.TUPLE_ITEMS), m))
    f.bump(j, 0, 1)
    f.br(f.cmp("eq", name, other, "ptr"), "found", "names")
    f.at("found")
    f.br(f.cmp("eq", "%eager", 0), "static_keyword", "operand")
    f.at("unnamed")
    f.br(f.cmp("eq", "%eager", 0), "operand", "parameter")
    f.at("static_keyword")
    _push(f, L.K_STATIC, "i64")
    _push(f, o)
    f.go("next_keyword")
    f.at("operand")
    flat(o, objects)
    f.go("next_keyword")
    f.at("parameter")
    flat(o, by_value)
    f.go("next_keyword")
    f.at("next_keyword")
    f.bump(i, 0, 1)
    f.go("keywords")
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


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
    keys, n = f.gep("%frame", _KEYS), f.ld("i64", "%frame", _NKEYS)
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
    datas, objs = f.gep(frame, _DATAS), f.gep(frame, _OBJS)
    cells = f.gep(frame, _CELLS)
    f.ret(
        "ptr " + f.own("ptr", "pb_run", f"ptr {e}", f"ptr {datas}", f"ptr {objs}", f"ptr {cells}")
    )


def _operators() -> list[Fn]:
    f = Fn("pb_fast_operator", "ptr", "ptr a, ptr b, ptr where", internal=True)
    _leave_if_tracing(f)
    f.when(f.is_null(f.ld("ptr", "%where")), "slow")
    frame = _frame(f)
    how = f"ptr {frame}", "i64 0", "i64 0"
    f.when(f.cmp("eq", f.own("i64", "pb_flat", "ptr %a", *how), 0), "slow")
    f.br(f.is_null("%b"), "run", "second")
    f.at("second")
    f.br(f.cmp("eq", f.own("i64", "pb_flat", "ptr %b", *how), 0), "slow", "run")
    f.at("run")
    _run_frame(f, "%where", frame)
    _slow_end(f)

    g = Fn("pb_operator", "ptr", "ptr a, ptr b, i64 k", internal=True)
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
            h = Fn("pb_op_power", "ptr", "ptr a, ptr b, ptr m")
            h.br(h.cmp("eq", "%m", h.ext("_Py_NoneStruct"), "ptr"), "two", "three")
            h.at("three")
            h.fail(
                "TypeError", "pow() with a modulus is not defined for arrays: write (x ** y) % m"
            )
            h.ret("ptr null")
            h.at("two")
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k}"))
        elif name in L.UNARY:
            h = Fn("pb_op_" + name, "ptr", "ptr a")
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr null", f"i64 {k}"))
        else:
            h = Fn("pb_op_" + name, "ptr", "ptr a, ptr b")
            h.ret("ptr " + h.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k}"))
        out.append(h)
    c = Fn("pb_richcompare", "ptr", "ptr a, ptr b, i32 op")
    k64 = c.op("add", c.v("zext i32 %op to i64"), L.OPERATOR_INDEX["lt"])
    c.ret("ptr " + c.own("ptr", "pb_operator", "ptr %a", "ptr %b", f"i64 {k64}"))
    return [*out, c]


def _is_slow(f: Fn, r: str) -> str:
    return f.cmp("eq", f.v(f"ptrtoint ptr {r} to i64"), SLOW)


def _subscripts() -> list[Fn]:
    """`a[i]` with an int: one row is copied out; everything else is Python's."""
    f = Fn("pb_fast_subscript", "ptr", "ptr a, ptr i, ptr where", internal=True)
    overflow = f.local("i32")
    _leave_if_tracing(f)
    f.unless(f.cmp("eq", f.ld("ptr", "%i", 8), f.ext("PyLong_Type"), "ptr"), "slow")
    frame = _frame(f)
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

    g = Fn("pb_subscript", "ptr", "ptr a, ptr i")
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


def _function_slots() -> list[Fn]:
    f = Fn("pb_fast_call", "ptr", "ptr self, ptr args, i64 n, ptr kwnames", internal=True)
    _leave_if_tracing(f)
    frame = _frame(f)
    f.when(f.cmp("eq", _flattened(f, "%self", frame, "%args", "%n"), 0), "slow")
    _run_frame(f, f.gep("%self", L.TABLE), frame)
    _slow_end(f)

    g = Fn("pb_vectorcall", "ptr", "ptr self, ptr args, i64 nf, ptr kwnames")
    position, total = g.var("i64", 0), g.var("i64", 0)
    n = g.op("and", "%nf", 0x7FFFFFFFFFFFFFFF)
    g.br(g.is_null(g.ld("ptr", "%self", L.TABLE)), "slow", "fast")
    g.at("fast")
    r = g.own("ptr", "pb_fast_call", "ptr %self", "ptr %args", f"i64 {n}", "ptr %kwnames")
    g.when(_is_slow(g, r), "slow")
    g.ret("ptr " + r)
    g.at("slow")
    slow = g.ld("ptr", "%self", L.SLOW)
    g.when(g.is_null(slow), "cleared")
    plain = g.ld("ptr", "%self", L.PLAIN)
    g.br(g.is_null(plain), "alone", "eager")
    g.at("eager")  # SLOW takes note of the call (not while something is traced), PLAIN does it
    g.incref(plain)
    tracing = g.cmp("ne", g.ld("i64", g.state(), L.TRACE_DEPTH), 0)
    g.br(tracing, "plainly", "note")
    g.at("note")
    g.incref(slow)
    arguments = "ptr %args", f"i64 {n}", "ptr %kwnames"
    noted = g.call("ptr", "PyObject_Vectorcall", f"ptr {slow}", *arguments)
    g.decref(slow)
    g.br(g.is_null(noted), "interrupted", "noted")
    g.at("interrupted")
    g.decref(plain)
    g.ret("ptr null")
    g.at("noted")  # a tuple holds the result
    g.br(g.cmp("eq", noted, g.ext("_Py_NoneStruct"), "ptr"), "unknown", "known")
    g.at("known")
    result = g.ld("ptr", noted, L.TUPLE_ITEMS)
    g.incref(result)
    g.decref(noted)
    g.decref(plain)
    g.ret("ptr " + result)
    g.at("unknown")
    g.decref(noted)
    g.go("plainly")
    g.at("plainly")
    y = g.call("ptr", "PyObject_Vectorcall", f"ptr {plain}", *arguments)
    g.decref(plain)
    forwards = g.cmp("ne", g.ld("i64", "%self", L.FORWARDS), 0)
    g.when(g.op("or", g.op("or", forwards, tracing, "i1"), g.is_null(y), "i1"), "finished")
    ours = g.cmp("eq", g.ld("ptr", y, 8), g.ld("ptr", g.state(), L.ARRAY_TYPE), "ptr")
    g.unless(ours, "finished")
    g.st("i64", 0, position)
    g.br(g.is_null("%kwnames"), "compare", "keywords")
    g.at("keywords")
    g.st("i64", g.ld("i64", "%kwnames", 16), total)
    g.go("compare")
    g.at("compare")
    k = g.ld("i64", position)
    g.br(g.cmp("slt", k, g.op("add", n, g.ld("i64", total))), "argument", "finished")
    g.at("argument")
    g.st("i64", g.op("add", k, 1), position)
    g.br(g.cmp("eq", g.ld("ptr", g.idx("%args", k)), y, "ptr"), "itself", "compare")
    g.at("itself")
    twin = g.own("ptr", "pb_twin", f"ptr {y}")
    g.decref(y)
    g.ret("ptr " + twin)
    g.at("finished")
    g.ret("ptr " + y)
    g.at("alone")
    g.incref(slow)  # the function may replace it, or die, meanwhile
    x = g.call("ptr", "PyObject_Vectorcall", f"ptr {slow}", "ptr %args", f"i64 {n}", "ptr %kwnames")
    g.decref(slow)
    g.ret("ptr " + x)
    g.at("cleared")
    g.fail("RuntimeError", "this jitted function was cleared by the garbage collector")
    g.ret("ptr null")

    d = Fn("pb_function_descr_get", "ptr", "ptr self, ptr obj, ptr type")
    d.br(d.is_null("%obj"), "plain", "some")
    d.at("some")
    d.br(d.cmp("eq", "%obj", d.ext("_Py_NoneStruct"), "ptr"), "plain", "bind")
    d.at("plain")
    d.incref("%self")
    d.ret("ptr %self")
    d.at("bind")
    d.ret("ptr " + d.call("ptr", "PyMethod_New", "ptr %self", "ptr %obj"))

    refs = (L.SLOW, L.KEEP, L.FN_DICT, L.PLAIN, L.NAMED)
    c = Fn("pb_function_clear", "i32", "ptr o")
    for offset in (L.TABLE, L.MASK, L.LAST):
        c.st("i64", 0, "%o", offset)
    for offset in refs:
        p = c.ld("ptr", "%o", offset)
        c.st("ptr", "null", "%o", offset)
        c.xdecref(p)
    c.ret("i32 0")

    dealloc = Fn("pb_function_dealloc", "void", "ptr o")
    dealloc.call("void", "PyObject_GC_UnTrack", "ptr %o")
    dealloc.br(dealloc.is_null(dealloc.ld("ptr", "%o", L.FN_WEAKREFS)), "drop", "weak")
    dealloc.at("weak")
    dealloc.call("void", "PyObject_ClearWeakRefs", "ptr %o")
    dealloc.go("drop")
    dealloc.at("drop")
    dealloc.own("i32", "pb_function_clear", "ptr %o")
    t = dealloc.ld("ptr", "%o", 8)
    dealloc.call("void", "PyObject_GC_Del", "ptr %o")
    dealloc.decref(t)
    dealloc.ret()
    return [f, g, d, c, dealloc, _traverse("pb_function_traverse", refs)]


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
    new.st("ptr", "@pb_vectorcall", o, L.VECTORCALL)
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
    frame = _frame(s)
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
    length = s.op("add", s.op("shl", s.ld("i64", frame, _NKEYS), 3), 8)
    s.ret(
        "ptr "
        + s.call(
            "ptr", "PyBytes_FromStringAndSize", f"ptr {s.gep(frame, _NLEAVES)}", f"i64 {length}"
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
        _push_key(), _push_leaf(), _push_foreign(), _type_info(), _flat_numpy(), _flat_other(),
        _flat(), _flatten_call(), _match(), _config(), _lookup(), *run_functions(),
        *_operators(),
        *_subscripts(), *_function_slots(), *_methods(),
    ]  # fmt: skip
