"""Operands of a call to words and addresses, as native code: the same walk as `operands.py`'s, in
the same order.

A frame collects the words of the call's key (one per array, scalar or piece of structure: the
address of its interned aval, or a structure word) and its leaves' data addresses. What does not fit
(a tracer, a pending array, an unknown type, too much of it) makes the walk end with 0.
"""

from __future__ import annotations

from collections.abc import Callable

from pullback.runtime import native_layout as L
from pullback.runtime.native_build import Fn

__all__ = [
    "CELLS", "DATAS", "KEYS", "NKEYS", "NLEAVES", "OBJS",
    "new_frame", "only_array", "operand_functions",
]  # fmt: skip

# The frame of one call: counts, then keys, data addresses, objects (null for scalars), cells for
# the scalars' values.
NKEYS, NLEAVES, KEYS = 0, 8, 16
DATAS = KEYS + 8 * L.MAX_KEYS
OBJS = DATAS + 8 * L.MAX_LEAVES
CELLS = OBJS + 8 * L.MAX_LEAVES
_FRAME_BYTES = CELLS + 16 * L.MAX_LEAVES


def new_frame(f: Fn) -> str:
    """An empty frame."""
    p = f.local(f"[{_FRAME_BYTES} x i8], align 16")
    f.st("i64", 0, p, NKEYS)
    f.st("i64", 0, p, NLEAVES)
    return p


def _push_key() -> Fn:
    f = Fn("pb_push_key", "i64", "ptr frame, ptr key", inline=True)
    n = f.ld("i64", "%frame", NKEYS)
    f.br(f.cmp("ult", n, L.MAX_KEYS), "room", "full")
    f.at("room")
    f.st("ptr", "%key", f.idx(f.gep("%frame", KEYS), n))
    f.st("i64", f.op("add", n, 1), "%frame", NKEYS)
    f.ret("i64 1")
    f.at("full")
    f.ret("i64 0")
    return f


def _push_leaf() -> Fn:
    """A key and a leaf; for a scalar (obj null) `data` is ignored and the leaf's own cell is "
    "used."""
    f = Fn("pb_push_leaf", "ptr", "ptr frame, ptr key, ptr data, ptr obj", inline=True)
    n = f.ld("i64", "%frame", NLEAVES)
    f.when(f.is_null("%key"), "full")
    f.when(f.cmp("uge", n, L.MAX_LEAVES), "full")
    ok = f.own("i64", "pb_push_key", "ptr %frame", "ptr %key")
    f.when(f.cmp("eq", ok, 0), "full")
    cell = f.gep(f.gep("%frame", CELLS), f.op("shl", n, 4))
    scalar = f.is_null("%obj")
    f.st("ptr", f.v(f"select i1 {scalar}, ptr {cell}, ptr %data"), f.idx(f.gep("%frame", DATAS), n))
    f.st("ptr", "%obj", f.idx(f.gep("%frame", OBJS), n))
    f.st("i64", f.op("add", n, 1), "%frame", NLEAVES)
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
    f = Fn("pb_push_foreign", "ptr", "ptr frame, ptr data, ptr obj", internal=True, hot=True)
    n = f.ld("i64", "%frame", NLEAVES)
    f.when(f.cmp("uge", n, L.MAX_LEAVES), "full")
    cell = f.gep(f.gep("%frame", CELLS), f.op("shl", n, 4))
    own = f.is_null("%data")
    f.st("ptr", f.v(f"select i1 {own}, ptr {cell}, ptr %data"), f.idx(f.gep("%frame", DATAS), n))
    marked = f.v(f"select i1 {f.is_null('%obj')}, i64 0, i64 1")
    f.st("ptr", f.gep("%obj", marked), f.idx(f.gep("%frame", OBJS), n))
    f.st("i64", f.op("add", n, 1), "%frame", NLEAVES)
    f.ret("ptr " + cell)
    f.at("full")
    f.ret("ptr null")
    return f


def only_array(f: Fn, o: str) -> str:
    """An object of a frame, or null if it is marked as no Array."""
    bit = f.op("and", f.v(f"ptrtoint ptr {o} to i64"), 1)
    return f.v(f"select i1 {f.cmp('ne', bit, 0)}, ptr null, ptr {o}")


def _type_info() -> Fn:
    """ptr type_info(type): what was registered for a type, or null."""
    f = Fn("pb_type_info", "ptr", "ptr t", internal=True, hot=True)
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
    f = Fn("pb_flat_numpy", "i64", "ptr o, ptr frame", internal=True, hot=True)
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
    f = Fn(
        "pb_flat_other",
        "i64",
        "ptr o, ptr info, ptr frame, i64 depth, i64 mode",
        internal=True,
        hot=True,
    )
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
    f.unless(f.cmp("eq", f.op("and", "%mode", L.CONSTANT), 0), "no")
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
    constant = L.BY_VALUE | L.PARAMETERS | L.CONSTANT
    mode = f.v(f"select i1 {static}, i64 {constant}, i64 %mode")
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
    f = Fn("pb_flat", "i64", "ptr o, ptr frame, i64 depth, i64 mode", internal=True, hot=True)
    index, position, key, value = (f.local("i64") for _ in range(4))
    overflow = f.local("i32")
    s = f.state()
    t = f.ld("ptr", "%o", 8)
    f.br(f.cmp("eq", t, f.ld("ptr", s, L.ARRAY_TYPE), "ptr"), "array", "scalars")
    f.at("array")
    _array_case(f)
    f.at("scalars")
    for kind in ("Float", "Long", "Tuple", "List", "Dict", "Bool", "Complex"):
        f.when(f.cmp("eq", t, f.ext(f"Py{kind}_Type"), "ptr"), kind.lower())
    f.when(f.cmp("ne", "%o", f.ext("_Py_NoneStruct"), "ptr"), "others")
    f.br(f.cmp("eq", f.own("i64", "pb_push_key", "ptr %frame", "ptr %o"), 0), "no", "yes")
    f.at("others")
    _other_cases(f, s, t)
    f.at("float")
    _float_case(f, s)
    f.at("bool")
    _bool_case(f, s)
    f.at("complex")
    _complex_case(f, s)
    f.at("long")
    _long_case(f, s, overflow)
    f.at("tuple")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _container(f, "tuples", L.K_TUPLE, f.gep("%o", L.TUPLE_ITEMS), f.ld("i64", "%o", 16), index)
    f.at("list")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _container(f, "lists", L.K_LIST, f.ld("ptr", "%o", 24), f.ld("i64", "%o", 16), index)
    f.at("dict")
    f.when(f.cmp("eq", "%depth", 0), "no")
    _dict_case(f, position, key, value)
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


# The cases of `pb_flat`: each leaves by "yes" or by "no".


def _array_case(f: Fn) -> None:
    f.unless(f.cmp("eq", f.op("and", "%mode", L.CONSTANT), 0), "no")
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


def _other_cases(f: Fn, s: str, t: str) -> None:
    """Arrays of NumPy, slices, and objects of registered types."""
    f.br(f.cmp("eq", t, f.ld("ptr", s, L.NDARRAY_TYPE), "ptr"), "numpy", "registered")
    f.at("numpy")
    f.unless(f.cmp("eq", f.op("and", "%mode", L.CONSTANT), 0), "no")
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
        part = f.ld("ptr", "%o", offset)
        how = f.op("or", "%mode", L.BY_VALUE | L.PARAMETERS)
        ok = f.own("i64", "pb_flat", f"ptr {part}", "ptr %frame", "i64 0", f"i64 {how}")
        f.when(f.cmp("eq", ok, 0), "no")
    f.go("yes")


def _by_value(f: Fn, kind: str) -> None:
    """Goes on at `<kind>_value` if numbers are part of the key, else at `<kind>_operand`."""
    by_value = f.cmp("ne", f.op("and", "%mode", L.BY_VALUE), 0)
    f.br(by_value, kind + "_value", kind + "_operand")


def _scalar_cell(f: Fn, s: str, offset: int) -> str:
    """The cell of one more scalar. It holds the type of the aval, as an array's memory does: an
    entry made for arrays of that aval serves numbers too, and the other way round."""
    aval = f.ld("ptr", s, offset)
    cell = f.own("ptr", "pb_push_leaf", "ptr %frame", f"ptr {aval}", "ptr null", "ptr null")
    f.when(f.is_null(cell), "no")
    return cell


def _is_32_bit(f: Fn, s: str) -> str:
    return f.cmp("eq", f.ld("i64", s, L.INT_BITS), 32)


def _float_case(f: Fn, s: str) -> None:
    _by_value(f, "float")
    f.at("float_value")
    _push(f, L.K_FLOAT, "i64")
    exact = f.call("double", "PyFloat_AsDouble", "ptr %o")
    _push(f, f.v(f"bitcast double {exact} to i64"), "i64")
    f.go("yes")
    f.at("float_operand")
    cell = _scalar_cell(f, s, L.SCALAR_FLOAT)
    x = f.call("double", "PyFloat_AsDouble", "ptr %o")
    f.br(_is_32_bit(f, s), "float32", "float64")
    f.at("float32")
    f.st("float", _narrowed(f, x), cell)
    f.go("yes")
    f.at("float64")
    f.st("double", x, cell)
    f.go("yes")


def _bool_case(f: Fn, s: str) -> None:
    _by_value(f, "bool")
    f.at("bool_value")
    _push(f, L.K_STATIC, "i64")
    _push(f, "%o")
    f.go("yes")
    f.at("bool_operand")
    cell = _scalar_cell(f, s, L.SCALAR_BOOL)
    true = f.cmp("eq", "%o", f.ext("_Py_TrueStruct"), "ptr")
    f.st("i64", f.v(f"zext i1 {true} to i64"), cell)
    f.go("yes")


def _complex_case(f: Fn, s: str) -> None:
    _by_value(f, "complex")
    f.at("complex_value")
    f.go("no")
    f.at("complex_operand")
    cell = _scalar_cell(f, s, L.SCALAR_COMPLEX)
    real = f.call("double", "PyComplex_RealAsDouble", "ptr %o")
    imag = f.call("double", "PyComplex_ImagAsDouble", "ptr %o")
    f.br(_is_32_bit(f, s), "complex64", "complex128")
    f.at("complex64")
    f.st("float", _narrowed(f, real), cell)
    f.st("float", _narrowed(f, imag), cell, 4)
    f.go("yes")
    f.at("complex128")
    f.st("double", real, cell)
    f.st("double", imag, cell, 8)
    f.go("yes")


def _long_case(f: Fn, s: str, overflow: str) -> None:
    x = f.call("i64", "PyLong_AsLongLongAndOverflow", "ptr %o", f"ptr {overflow}")
    f.when(f.cmp("ne", f.v(f"load i32, ptr {overflow}"), 0, "i32"), "no")
    _by_value(f, "int")
    f.at("int_value")
    _push(f, L.K_INT, "i64")
    _push(f, x, "i64")
    f.go("yes")
    f.at("int_operand")
    f.br(_is_32_bit(f, s), "narrow", "wide")
    f.at("narrow")
    low = f.v(f"sext i32 {f.v(f'trunc i64 {x} to i32')} to i64")
    f.br(f.cmp("eq", low, x), "wide", "no")
    f.at("wide")
    f.st("i64", x, _scalar_cell(f, s, L.SCALAR_INT))
    f.go("yes")


def _dict_case(f: Fn, position: str, key: str, value: str) -> None:
    _push_sized(f, L.K_DICT, f.ld("i64", "%o", 16))
    f.st("i64", 0, position)
    f.go("dicts")
    f.at("dicts")
    more = f.call("i32", "PyDict_Next", "ptr %o", f"ptr {position}", f"ptr {key}", f"ptr {value}")
    f.br(f.cmp("eq", more, 0, "i32"), "yes", "item")
    f.at("item")
    _push(f, f.ld("ptr", key))
    below = f.op("sub", "%depth", 1)
    v = f.ld("ptr", value)
    ok = f.own("i64", "pb_flat", f"ptr {v}", "ptr %frame", f"i64 {below}", "i64 %mode")
    f.br(f.cmp("eq", ok, 0), "no", "dicts")


def _flatten_keywords(
    f: Fn, i: str, j: str, flat: Callable[[str, str], None], objects: str, by_value: str
) -> None:
    """The keywords of a call, one after the other: their names, then static values, operands or
    numbers that are parameters. `i` counts them, `j` the names in `named`."""
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
    _flatten_keywords(f, i, j, flat, objects, by_value)
    f.at("yes")
    f.ret("i64 1")
    f.at("no")
    f.ret("i64 0")
    return f


def operand_functions() -> list[Fn]:
    """Everything that turns operands into a frame."""
    return [
        _push_key(), _push_leaf(), _push_foreign(), _type_info(), _flat_numpy(), _flat_other(),
        _flat(), _flatten_call(),
    ]  # fmt: skip
