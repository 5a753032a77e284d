"""The Array's native code: creation, destruction, garbage collection, buffer export, and the
functions Python calls on it.

Array objects are made untracked by the garbage collector and tracked only when they get an owner
or attributes; freed ones wait in a short list, with their reference to the type, because
allocating an object that the collector may track costs more than a small kernel.
"""

from __future__ import annotations

from pullback.runtime import native_layout as L
from pullback.runtime.native_build import Fn, string

__all__ = ["array_functions"]

_REFS = (L.OWNER, L.EVENT, L.COMMITTED, L.NPY_VALUE, L.DICT)


def _object() -> Fn:
    """ptr object(): a fresh Array with every field zero; null with MemoryError set."""
    f = Fn("pb_object", "ptr", "", inline=True)
    s = f.state()
    head = f.ld("ptr", s, L.OBJECTS)
    f.br(f.is_null(head), "fresh", "reuse")
    f.at("reuse")
    f.st("ptr", f.ld("ptr", head, L.DATA), s, L.OBJECTS)
    f.bump(s, L.OBJECT_COUNT, -1)
    f.st("i64", 1, head)
    f.go("clear")
    f.at("fresh")
    new = f.call("ptr", "_PyObject_GC_New", f"ptr {f.ld('ptr', s, L.ARRAY_TYPE)}")
    f.br(f.is_null(new), "failed", "clear")
    f.at("clear")
    o = f.v(f"phi ptr [{head}, %reuse], [{new}, %fresh]")
    for offset in range(L.STATE, L.ARRAY_BYTES, 8):
        f.st("i64", 0, o, offset)
    f.ret("ptr " + o)
    f.at("failed")
    f.ret("ptr null")
    return f


def _make() -> Fn:
    """ptr make(aval, data, nbytes): a ready Array that owns a block of our allocator; null with
    MemoryError set."""
    f = Fn("pb_make", "ptr", "ptr aval, ptr data, i64 nbytes", inline=True)
    o = f.own("ptr", "pb_object")
    f.when(f.is_null(o), "failed")
    f.incref("%aval")
    f.st("ptr", "%aval", o, L.AVAL)
    f.st("ptr", "%data", o, L.DATA)
    f.st("i64", "%nbytes", o, L.NBYTES)
    f.ret("ptr " + o)
    f.at("failed")
    f.ret("ptr null")
    return f


def _dealloc() -> Fn:
    f = Fn("pb_array_dealloc", "void", "ptr o", hot=True)
    # Tracked? The collector's links lie before the object; the first of them is zero if it is not.
    f.br(f.is_null(f.ld("ptr", "%o", L.GC_NEXT)), "untracked", "tracked")
    f.at("tracked")
    f.call("void", "PyObject_GC_UnTrack", "ptr %o")
    f.go("untracked")
    f.at("untracked")
    f.br(f.is_null(f.ld("ptr", "%o", L.WEAKREFS)), "drop", "weak")
    f.at("weak")
    f.call("void", "PyObject_ClearWeakRefs", "ptr %o")
    f.go("drop")
    f.at("drop")
    f.own("void", "pb_drop_data", "ptr %o")
    for offset in (*_REFS[1:], L.AVAL):
        f.xdecref(f.ld("ptr", "%o", offset))
    s = f.state()
    full = f.cmp("uge", f.ld("i64", s, L.OBJECT_COUNT), f.ld("i64", s, L.OBJECT_LIMIT))
    f.br(full, "delete", "keep")
    f.at("keep")
    f.st("ptr", f.ld("ptr", s, L.OBJECTS), "%o", L.DATA)
    f.st("ptr", "%o", s, L.OBJECTS)
    f.bump(s, L.OBJECT_COUNT, 1)
    f.ret()
    f.at("delete")
    t = f.ld("ptr", "%o", 8)
    f.call("void", "PyObject_GC_Del", "ptr %o")
    f.decref(t)
    f.ret()
    return f


def _drop_data() -> Fn:
    """Gives back the data of an array: to the allocator, or to its owner."""
    f = Fn("pb_drop_data", "void", "ptr o", inline=True)
    data = f.ld("ptr", "%o", L.DATA)
    owner = f.ld("ptr", "%o", L.OWNER)
    f.st("ptr", "null", "%o", L.DATA)
    f.st("ptr", "null", "%o", L.OWNER)
    f.br(f.is_null(owner), "ours", "theirs")
    f.at("ours")
    f.own("void", "pb_free_held", f"ptr {data}", f"i64 {f.ld('i64', '%o', L.NBYTES)}")
    f.ret()
    f.at("theirs")
    f.decref(owner)
    f.ret()
    return f


def _visit(f: Fn, offsets: tuple[int, ...]) -> None:
    for k, offset in enumerate(offsets):
        p = f.ld("ptr", "%o", offset)
        f.br(f.is_null(p), f"next{k}", f"visit{k}")
        f.at(f"visit{k}")
        r = f.v(f"call i32 %visit(ptr {p}, ptr %arg)")
        f.br(f.cmp("eq", r, 0, "i32"), f"next{k}", f"stop{k}")
        f.at(f"stop{k}")
        f.ret("i32 " + r)
        f.at(f"next{k}")
    f.ret("i32 0")


def _traverse(name: str, offsets: tuple[int, ...]) -> Fn:
    f = Fn(name, "i32", "ptr o, ptr visit, ptr arg")
    _visit(f, (8, *offsets))  # 8: the type, as heap types must
    return f


def _clear() -> Fn:
    """Breaks cycles: an array whose owner goes is deleted first."""
    f = Fn("pb_array_clear", "i32", "ptr o")
    f.br(f.is_null(f.ld("ptr", "%o", L.OWNER)), "refs", "data")
    f.at("data")
    f.st("i64", L.DELETED, "%o", L.STATE)
    f.own("void", "pb_drop_data", "ptr %o")
    f.go("refs")
    f.at("refs")
    for offset in _REFS[1:]:
        p = f.ld("ptr", "%o", offset)
        f.st("ptr", "null", "%o", offset)
        f.xdecref(p)
    f.ret("i32 0")
    return f


def _setattro() -> Fn:
    """Attributes make an array part of possible cycles: from now on the collector sees it."""
    f = Fn("pb_array_setattro", "i32", "ptr o, ptr name, ptr value")
    tracked = f.call("i32", "PyObject_GC_IsTracked", "ptr %o")
    f.br(f.cmp("eq", tracked, 0, "i32"), "track", "set")
    f.at("track")
    f.call("void", "PyObject_GC_Track", "ptr %o")
    f.go("set")
    f.at("set")
    r = f.call("i32", "PyObject_GenericSetAttr", "ptr %o", "ptr %name", "ptr %value")
    f.ret("i32 " + r)
    return f


# Py_buffer, and what CPython's object.h asks of it: format, shape and strides, not writable.
_BUF, _OBJ, _LEN, _ITEMSIZE, _READONLY, _NDIM, _FORMAT, _SHAPE, _STRIDES, _SUBOFFSETS, _INTERNAL = (
    0, 8, 16, 24, 32, 36, 40, 48, 56, 64, 72
)  # fmt: skip
_WRITABLE, _FULL = 0x01, 0x1C


def _getbuffer() -> Fn:
    """Exports a ready array whose aval has a buffer's layout (`array._buffer_layout`). Else Python
    makes a read-only NumPy view (which pins), gives the aval a layout if there is one, and if there
    is none or it is not all asked for, the view's buffer is exported in our place."""
    f = Fn("pb_array_getbuffer", "i32", "ptr o, ptr view, i32 flags")
    f.st("ptr", "null", "%view", _OBJ)
    theirs = f.var("ptr", "null")
    asked = f.op("and", "%flags", _WRITABLE | _FULL, "i32")
    full = f.cmp("eq", asked, _FULL, "i32")
    ready = f.cmp("eq", f.op("and", f.ld("i64", "%o", L.STATE), 3), 0)
    f.br(f.op("and", full, ready, "i1"), "lies", "python")
    f.at("lies")  # what was put somewhere may be on several devices, which Python refuses
    lies = f.ld("ptr", "%o", L.COMMITTED)
    f.when(f.is_null(lies), "ours")
    one = f.cmp("eq", f.ld("ptr", lies, 8), f.ld("ptr", f.state(), L.ONE_DEVICE), "ptr")
    f.br(one, "ours", "python")
    f.at("ours")
    aval, name = f.ld("ptr", "%o", L.AVAL), f.ld("ptr", f.state(), L.BUFFER_LAYOUT_NAME)
    layout = f.call("ptr", "PyObject_GetAttr", f"ptr {aval}", f"ptr {name}")
    f.br(f.is_null(layout), "unmet", "export")
    f.at("export")
    _fill_view(f, layout)
    f.xdecref(f.ld("ptr", theirs))
    f.ret("i32 0")
    f.at("unmet")
    f.call("void", "PyErr_Clear")
    f.br(f.is_null(f.ld("ptr", theirs)), "python", "borrow")
    f.at("python")
    hook = f.ld("ptr", f.state(), L.BUFFER_HOOK)
    n = f.call("ptr", "PyObject_CallOneArg", f"ptr {hook}", "ptr %o")
    f.when(f.is_null(n), "failed")
    f.st("ptr", n, theirs)
    f.br(full, "ours", "borrow")
    f.at("borrow")
    n = f.ld("ptr", theirs)
    r = f.call("i32", "PyObject_GetBuffer", f"ptr {n}", "ptr %view", "i32 %flags")
    f.decref(n)
    f.ret("i32 " + r)
    f.at("failed")
    f.ret("i32 -1")
    return f


def _fill_view(f: Fn, layout: str) -> None:
    """A Py_buffer of %o in %view, which takes over the reference to the layout."""
    words = f.gep(layout, L.BYTES_ITEMS)
    ndim = f.ld("i64", words, L.LAYOUT_NDIM)
    shape = f.gep(words, L.LAYOUT_SHAPE)
    f.st("ptr", f.ld("ptr", "%o", L.DATA), "%view", _BUF)
    f.st("i64", f.ld("i64", words, L.LAYOUT_BYTES), "%view", _LEN)
    f.st("i64", f.ld("i64", words, L.LAYOUT_ITEMSIZE), "%view", _ITEMSIZE)
    f.st("i32", 1, "%view", _READONLY)
    f.st("i32", f.v(f"trunc i64 {ndim} to i32"), "%view", _NDIM)
    f.st("ptr", f.gep(words, L.LAYOUT_FORMAT), "%view", _FORMAT)
    f.st("ptr", shape, "%view", _SHAPE)
    f.st("ptr", f.idx(shape, ndim), "%view", _STRIDES)
    f.st("ptr", "null", "%view", _SUBOFFSETS)
    f.st("ptr", layout, "%view", _INTERNAL)
    f.incref("%o")
    f.st("ptr", "%o", "%view", _OBJ)
    f.bump("%o", L.PINS, 1)


def _releasebuffer() -> Fn:
    """Gives back what `_getbuffer` exported itself."""
    f = Fn("pb_array_releasebuffer", "void", "ptr o, ptr view")
    f.bump("%o", L.PINS, -1)
    f.decref(f.ld("ptr", "%view", _INTERNAL))
    f.ret()
    return f


def _attribute() -> Fn:
    """A getter that asks the aval: the closure is the attribute's name."""
    f = Fn("pb_array_attribute", "ptr", "ptr o, ptr name", hot=True)
    f.ret(
        "ptr " + f.call("ptr", "PyObject_GetAttr", f"ptr {f.ld('ptr', '%o', L.AVAL)}", "ptr %name")
    )
    return f


def _pin_dealloc() -> Fn:
    f = Fn("pb_pin_dealloc", "void", "ptr o")
    a = f.ld("ptr", "%o", L.PIN_ARRAY)
    f.br(f.is_null(a), "free", "drop")
    f.at("drop")
    f.bump(a, L.PINS, -1)
    f.decref(a)
    f.go("free")
    f.at("free")
    t = f.ld("ptr", "%o", 8)
    f.call("void", "PyObject_Free", "ptr %o")
    f.decref(t)
    f.ret()
    return f


def _pin_getbuffer() -> Fn:
    f = Fn("pb_pin_getbuffer", "i32", "ptr o, ptr view, i32 flags")
    a = f.ld("ptr", "%o", L.PIN_ARRAY)
    data, n = f.ld("ptr", a, L.DATA), f.ld("i64", a, L.NBYTES)
    r = f.call(
        "i32",
        "PyBuffer_FillInfo",
        "ptr %view",
        "ptr %o",
        f"ptr {data}",
        f"i64 {n}",
        "i32 1",
        "i32 %flags",
    )
    f.ret("i32 " + r)
    return f


# --- functions called from Python: ptr f(ptr self, ptr args, i64 n), METH_FASTCALL ---


def _method(name: str, arguments: int) -> Fn:
    """Checks the number of arguments; the body may leave for `failed` with an exception set."""
    f = Fn("py_" + name, "ptr", "ptr self, ptr args, i64 n")
    f.br(f.cmp("eq", "%n", arguments), "arguments", "wrong")
    f.at("wrong")
    f.fail("TypeError", f"internal error in pullback: {name} takes {arguments} arguments")
    f.go("failed")
    f.at("failed")
    f.ret("ptr null")
    f.at("arguments")
    return f


def _array_argument(f: Fn, k: int) -> str:
    """Argument k, which must be one of our arrays."""
    a = f.ld("ptr", "%args", 8 * k)
    ours = f.cmp("eq", f.ld("ptr", a, 8), f.ld("ptr", f.state(), L.ARRAY_TYPE), "ptr")
    f.br(ours, f"array{k}", f"other{k}")
    f.at(f"other{k}")
    f.fail("TypeError", "expected a pullback Array")
    f.go("failed")
    f.at(f"array{k}")
    return a


def _int_argument(f: Fn, k: int) -> str:
    x = f.call("i64", "PyLong_AsLongLong", f"ptr {f.ld('ptr', '%args', 8 * k)}")
    f.br(f.cmp("eq", x, -1), f"maybe{k}", f"int{k}")
    f.at(f"maybe{k}")
    f.br(f.is_null(f.call("ptr", "PyErr_Occurred")), f"int{k}", "failed")
    f.at(f"int{k}")
    return x


def _return_none(f: Fn) -> None:
    none = f.ext("_Py_NoneStruct")
    f.incref(none)
    f.ret("ptr " + none)


def out_of_memory(f: Fn, n: str) -> None:
    """Sets the exception of a request for n bytes that failed: Python says it."""
    hook = f.ld("ptr", f.state(), L.MEMORY_HOOK)
    f.call("ptr", "PyObject_CallFunction", f"ptr {hook}", f"ptr {string('L')}", f"i64 {n}")


def _alloc_array() -> Fn:
    """alloc_array(aval, nbytes): a ready array of uninitialised memory."""
    f = _method("alloc_array", 2)
    n = _int_argument(f, 1)
    data = f.own("ptr", "pb_alloc_held", f"i64 {n}")
    f.br(f.is_null(data), "memory", "made")
    f.at("memory")
    out_of_memory(f, n)
    f.go("failed")
    f.at("made")
    o = f.own("ptr", "pb_make", f"ptr {f.ld('ptr', '%args')}", f"ptr {data}", f"i64 {n}")
    f.br(f.is_null(o), "undo", "good")
    f.at("undo")
    f.own("void", "pb_free_held", f"ptr {data}", f"i64 {n}")
    f.go("failed")
    f.at("good")
    f.ret("ptr " + o)
    return f


def _wrap_array() -> Fn:
    """wrap_array(aval, address, nbytes, owner or None, state): an array of memory that exists."""
    f = _method("wrap_array", 5)
    address, n, state = _int_argument(f, 1), _int_argument(f, 2), _int_argument(f, 4)
    data = f.v(f"inttoptr i64 {address} to ptr")
    o = f.own("ptr", "pb_make", f"ptr {f.ld('ptr', '%args')}", f"ptr {data}", f"i64 {n}")
    f.when(f.is_null(o), "failed")
    f.st("i64", state, o, L.STATE)
    owner = f.ld("ptr", "%args", 24)
    f.br(f.cmp("eq", owner, f.ext("_Py_NoneStruct"), "ptr"), "done", "owned")
    f.at("owned")
    f.incref(owner)
    f.st("ptr", owner, o, L.OWNER)
    f.call("void", "PyObject_GC_Track", f"ptr {o}")
    f.go("done")
    f.at("done")
    f.ret("ptr " + o)
    return f


def _from_buffer() -> Fn:
    """from_buffer(aval, object, copy): an array of the bytes that `object` exports contiguously,
    copied or shared."""
    f = _method("from_buffer", 3)
    aval, source = f.ld("ptr", "%args"), f.ld("ptr", "%args", 8)
    view = f.local("[10 x i64], align 8")
    made = f.var("ptr", "null")
    copy = _int_argument(f, 2)
    r = f.call("i32", "PyObject_GetBuffer", f"ptr {source}", f"ptr {view}", "i32 0")
    f.when(f.cmp("ne", r, 0, "i32"), "failed")
    data, n = f.ld("ptr", view), f.ld("i64", view, 16)
    f.br(f.cmp("eq", copy, 0), "share", "copy")
    f.at("share")
    o = f.own("ptr", "pb_make", f"ptr {aval}", f"ptr {data}", f"i64 {n}")
    f.st("ptr", o, made)
    f.br(f.is_null(o), "done", "shared")
    f.at("shared")
    f.incref(source)
    f.st("ptr", source, o, L.OWNER)
    f.st("i64", L.EXTERNAL, o, L.STATE)
    f.call("void", "PyObject_GC_Track", f"ptr {o}")
    f.go("done")
    f.at("copy")
    block = f.own("ptr", "pb_alloc_held", f"i64 {n}")
    f.br(f.is_null(block), "memory", "filled")
    f.at("memory")
    out_of_memory(f, n)
    f.go("done")
    f.at("filled")
    f.call("ptr", "memcpy", f"ptr {block}", f"ptr {data}", f"i64 {n}")
    o = f.own("ptr", "pb_make", f"ptr {aval}", f"ptr {block}", f"i64 {n}")
    f.st("ptr", o, made)
    f.br(f.is_null(o), "undo", "done")
    f.at("undo")
    f.own("void", "pb_free_held", f"ptr {block}", f"i64 {n}")
    f.go("done")
    f.at("done")
    f.call("void", "PyBuffer_Release", f"ptr {view}")
    f.ret("ptr " + f.ld("ptr", made))
    return f


def _release() -> Fn:
    """release(array): deleted now; memory goes back unless a view pins it (then with the array)."""
    f = _method("release", 1)
    a = _array_argument(f, 0)
    f.st("i64", L.DELETED, a, L.STATE)
    f.br(f.cmp("eq", f.ld("i64", a, L.PINS), 0), "drop", "done")
    f.at("drop")
    f.own("void", "pb_drop_data", f"ptr {a}")
    f.go("done")
    f.at("done")
    _return_none(f)
    return f


def _steal() -> Fn:
    """steal(array): its block's address, the array deleted; 0 if it is pinned, foreign or not
    ready (left as it is)."""
    f = _method("steal", 1)
    a = _array_argument(f, 0)
    mine = f.is_null(f.ld("ptr", a, L.OWNER))
    free = f.cmp("eq", f.ld("i64", a, L.PINS), 0)
    ready = f.cmp("eq", f.ld("i64", a, L.STATE), L.READY)
    f.br(f.op("and", f.op("and", mine, free, "i1"), ready, "i1"), "take", "leave")
    f.at("leave")
    f.ret("ptr " + f.call("ptr", "PyLong_FromLongLong", "i64 0"))
    f.at("take")
    p = f.ld("ptr", a, L.DATA)
    f.st("ptr", "null", a, L.DATA)
    f.st("i64", L.DELETED, a, L.STATE)
    f.ret("ptr " + f.call("ptr", "PyLong_FromVoidPtr", f"ptr {p}"))
    return f


def _fulfil() -> Fn:
    """fulfil(array, address, nbytes, state): a pending array gets its data, or fails (address "
    "0)."""
    f = _method("fulfil", 4)
    a = _array_argument(f, 0)
    address, n, state = _int_argument(f, 1), _int_argument(f, 2), _int_argument(f, 3)
    f.own("void", "pb_drop_data", f"ptr {a}")
    f.st("i64", address, a, L.DATA)
    f.st("i64", n, a, L.NBYTES)
    f.st("i64", state, a, L.STATE)
    _return_none(f)
    return f


def _pin() -> Fn:
    """pin(array): an object that exports the array's bytes, read-only, and keeps them."""
    f = _method("pin", 1)
    a = _array_argument(f, 0)
    usable = f.cmp("eq", f.op("and", f.ld("i64", a, L.STATE), 3), 0)
    f.br(usable, "ready", "unready")
    f.at("unready")
    f.fail("RuntimeError", "the array has no data to look at")
    f.go("failed")
    f.at("ready")
    o = f.call("ptr", "_PyObject_New", f"ptr {f.ld('ptr', f.state(), L.PIN_TYPE)}")
    f.when(f.is_null(o), "failed")
    f.incref(a)
    f.bump(a, L.PINS, 1)
    f.st("ptr", a, o, L.PIN_ARRAY)
    f.ret("ptr " + o)
    return f


def _twin() -> Fn:
    """ptr twin(array): another array over the same memory, which goes when both have gone; neither
    can be donated in place meanwhile. The array itself if its values are still to come."""
    f = Fn("pb_twin", "ptr", "ptr a", internal=True, hot=True)
    keeper = f.var("ptr", f.ld("ptr", "%a", L.OWNER))
    ready = f.cmp("eq", f.op("and", f.ld("i64", "%a", L.STATE), 3), 0)
    f.br(ready, "ready", "unready")
    f.at("unready")
    f.incref("%a")
    f.ret("ptr %a")
    f.at("failed")
    f.ret("ptr null")
    f.at("ready")
    f.br(f.is_null(f.ld("ptr", keeper)), "pin", "shared")
    f.at("pin")
    pin = f.call("ptr", "_PyObject_New", f"ptr {f.ld('ptr', f.state(), L.PIN_TYPE)}")
    f.when(f.is_null(pin), "failed")
    f.incref("%a")
    f.bump("%a", L.PINS, 1)
    f.st("ptr", "%a", pin, L.PIN_ARRAY)
    f.st("ptr", pin, keeper)
    f.go("make")
    f.at("shared")  # the memory is another's: both hold on to that one
    f.incref(f.ld("ptr", keeper))
    f.go("make")
    f.at("make")
    aval, data, n = (
        f.ld("ptr", "%a", L.AVAL),
        f.ld("ptr", "%a", L.DATA),
        f.ld("i64", "%a", L.NBYTES),
    )
    x = f.own("ptr", "pb_make", f"ptr {aval}", f"ptr {data}", f"i64 {n}")
    f.br(f.is_null(x), "drop", "made")
    f.at("drop")
    f.decref(f.ld("ptr", keeper))
    f.go("failed")
    f.at("made")
    f.st("i64", L.EXTERNAL, x, L.STATE)
    f.st("ptr", f.ld("ptr", keeper), x, L.OWNER)
    committed = f.ld("ptr", "%a", L.COMMITTED)
    f.st("ptr", committed, x, L.COMMITTED)
    f.br(f.is_null(committed), "track", "committed")
    f.at("committed")
    f.incref(committed)
    f.go("track")
    f.at("track")
    f.call("void", "PyObject_GC_Track", f"ptr {x}")
    f.ret("ptr " + x)
    return f


def _twin_method() -> Fn:
    """twin(array): see `_twin`."""
    f = _method("twin", 1)
    f.ret("ptr " + f.own("ptr", "pb_twin", f"ptr {_array_argument(f, 0)}"))
    return f


def _count_pins() -> Fn:
    """add_pins(array, delta): exports that are no Python objects (DLPack) pin by hand."""
    f = _method("add_pins", 2)
    a = _array_argument(f, 0)
    f.bump(a, L.PINS, _int_argument(f, 1))
    _return_none(f)
    return f


_SCALARS = {  # by L.SCALAR_CODES -> (LLVM type, how it becomes a Python object)
    "i8": "sext", "i16": "sext", "i32": "sext", "i64": "", "u8": "zext", "u16": "zext", "u32":
    "zext", "u64": "",
    "f32": "fpext", "f64": "", "bool": "",
}  # fmt: skip
assert tuple(_SCALARS) == tuple(L.SCALAR_CODES)


def _load_scalar() -> Fn:
    """load_scalar(array, code): the first element as a Python number; RuntimeError unless the
    array is ready."""
    f = _method("load_scalar", 2)
    a = _array_argument(f, 0)
    code = _int_argument(f, 1)
    usable = f.cmp("eq", f.op("and", f.ld("i64", a, L.STATE), 3), 0)
    f.br(usable, "ready", "unready")
    f.at("unready")
    f.fail("RuntimeError", "the array has no data to look at")
    f.go("failed")
    f.at("ready")
    p = f.ld("ptr", a, L.DATA)
    cases = " ".join(f"i64 {k}, label %c{k}" for k in range(len(_SCALARS)))
    f.do(f"switch i64 {code}, label %unready [{cases}]")
    for k, (name, extend) in enumerate(_SCALARS.items()):
        f.at(f"c{k}")
        if name == "bool":
            x = f.v(f"zext i8 {f.v(f'load i8, ptr {p}')} to i64")
            r = f.call("ptr", "PyBool_FromLong", f"i64 {x}")
        elif name[0] == "f":
            kind = "float" if name == "f32" else "double"
            x = f.v(f"load {kind}, ptr {p}, align {int(name[1:]) // 8}")
            if extend:
                x = f.v(f"fpext float {x} to double")
            r = f.call("ptr", "PyFloat_FromDouble", f"double {x}")
        else:
            kind = "i" + name[1:]
            x = f.v(f"load {kind}, ptr {p}, align {int(name[1:]) // 8}")
            if extend:
                x = f.v(f"{extend} {kind} {x} to i64")
            build = "PyLong_FromUnsignedLongLong" if name == "u64" else "PyLong_FromLongLong"
            r = f.call("ptr", build, f"i64 {x}")
        f.ret("ptr " + r)
    return f


def _words() -> list[Fn]:
    """add_word(offset, delta), set_word(offset, value): the state block's words, atomic under the
    GIL."""
    out = []
    for name, add in (("add_word", True), ("set_word", False)):
        f = _method(name, 2)
        offset, value = _int_argument(f, 0), _int_argument(f, 1)
        p = f.gep(f.state(), offset)
        if add:
            f.v(f"atomicrmw add ptr {p}, i64 {value} seq_cst")
        else:
            f.do(f"store atomic i64 {value}, ptr {p} seq_cst, align 8")
        _return_none(f)
        out.append(f)
    return out


def _set_object() -> Fn:
    """set_object(offset, object): a reference held by the state block for ever, or None for null
    (the old one is kept alive)."""
    f = _method("set_object", 2)
    offset = _int_argument(f, 0)
    x = f.ld("ptr", "%args", 8)
    f.incref(x)  # never given back: a call may be using the old one
    p = f.gep(f.state(), offset)
    isnone = f.cmp("eq", x, f.ext("_Py_NoneStruct"), "ptr")
    f.st("ptr", f.v(f"select i1 {isnone}, ptr null, ptr {x}"), p)
    _return_none(f)
    return f


def array_functions() -> list[Fn]:
    """Everything about arrays that is native."""
    return [
        _object(), _make(), _dealloc(), _drop_data(), _clear(), _setattro(), _getbuffer(),
        _releasebuffer(),
        _attribute(),
        _traverse("pb_array_traverse", (*_REFS, L.AVAL)), _pin_dealloc(), _pin_getbuffer(),
        _alloc_array(), _wrap_array(), _from_buffer(), _release(), _steal(), _fulfil(), _pin(),
        _twin(), _twin_method(), _count_pins(), _load_scalar(),
        *_words(), _set_object(),
    ]  # fmt: skip
