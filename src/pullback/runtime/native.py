"""Brings the runtime's native code to life: assembles (or loads from the disk cache), links, makes
the heap types.

`available` says whether that worked; where it did not (another platform or interpreter, a failed
self-test, PULLBACK_NATIVE=0) `reason` says why and `fallback.py` takes over with the same
behaviour. Nothing here imports llvmlite when the code is in the disk cache.

Every name below is internal: most of these functions take raw addresses.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import platform
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.backends import llvm
from pullback.backends.llvm.cache import disk_cache, image_key
from pullback.backends.llvm.loader import Image, link_elf, load_image
from pullback.backends.llvm.target import host_target
from pullback.lazy_imports import lazy_module
from pullback.runtime import native_layout as L
from pullback.runtime.native_table import EXTERNALS, MAGIC, STATE_ENTRY, TABLE_WORDS
from pullback.switches import switched_off

__all__ = ["Native", "load"]

# What writes and assembles the code: few processes need it.
build: Any = lazy_module("pullback.runtime.native_build")
link: Any = lazy_module("pullback.backends.llvm.link")

_P = ctypes.c_void_p


_FUNCTION_DOC = ctypes.create_string_buffer(L.DOCS["JitFunction"].encode())


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("pointer", _P)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot)),
    ]  # fmt: skip


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _GetSet(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("get", _P),
        ("set", _P),
        ("doc", ctypes.c_char_p),
        ("closure", _P),
    ]


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", _P),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


# The numbers of CPython's typeslots.h; they are part of the stable ABI.
_SLOTS = {
    "getbuffer": 1, "releasebuffer": 2, "mp_subscript": 5, "absolute": 6, "add": 7, "and": 8,
    "floor_divide": 12,
    "invert": 27, "lshift": 28,
    "multiply": 29, "negative": 30, "or": 31, "positive": 32, "power": 33, "remainder": 34,
    "rshift": 35, "subtract": 36,
    "true_divide": 37, "xor": 38, "sq_item": 44, "call": 50, "clear": 51, "dealloc": 52,
    "descr_get": 54, "doc": 56, "richcompare": 67,
    "setattro": 69, "traverse": 71, "members": 72, "getset": 73, "matmul": 75,
}  # fmt: skip
_DEFAULT, _HAVE_GC, _NO_NEW, _VECTORCALL, _METHOD_DESCRIPTOR = (
    1 << 18,
    1 << 14,
    1 << 7,
    1 << 11,
    1 << 17,
)
_T_OBJECT, _T_OBJECT_EX, _T_LONGLONG, _T_ULONGLONG, _T_SSIZE, _READONLY = 6, 16, 17, 18, 19, 1
_FASTCALL, _KEYWORDS = 0x80, 0x02


class _Indexed:
    def __getitem__(self, index: Any) -> Any:
        return index


def _item_of_sequence() -> int:
    """The slot by which C code gets an item by its number, as classes written in Python fill it:
    it calls `__getitem__`. NumPy takes for sequences only what has it."""
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = _P, [ctypes.py_object, ctypes.c_int]
    return slot(_Indexed, _SLOTS["sq_item"]) or 0


def _address(name: str) -> int:
    """What an entry of EXTERNALS stands for in this process."""
    api: ctypes.CDLL = ctypes.pythonapi
    if name[0] == "*":
        return _P.in_dll(api, name[1:]).value or 0
    symbol = name.lstrip("&")
    try:
        found = ctypes.c_char.in_dll(api, symbol)  # quicker than a callable, which nobody needs
    except ValueError:
        found = ctypes.c_char.in_dll(ctypes.CDLL(None), symbol)
    return ctypes.addressof(found)


def _unsupported() -> str:
    """Why this interpreter or machine is not one that the native code knows, or an empty string."""
    if switched_off("PULLBACK_NATIVE"):
        return "PULLBACK_NATIVE=0"
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return "not a CPython that the native code knows"
    if hasattr(sys, "gettotalrefcount") or "t" in sys.abiflags:
        return "a debug or free-threaded build of CPython"
    if (
        sys.platform != "linux"
        or platform.machine() not in ("x86_64", "AMD64")
        or struct.calcsize("P") != 8
    ):
        return "the native runtime is made for Linux on x86-64"
    return ""


def _source_key() -> str:
    """Identifies the files that write the code, so that a cached image needs no text to be written
    at all."""
    here = os.path.dirname(os.path.abspath(__file__))
    with os.scandir(here) as listing:
        files = [e.path for e in listing if e.name.startswith("native") and e.name.endswith(".py")]
    linking = os.path.join(os.path.dirname(here), "backends", "llvm")
    files += [os.path.join(linking, name) for name in ("link.py", "loader.py")]
    stats = [(os.path.basename(f), s.st_size, s.st_mtime_ns) for f in files if (s := os.stat(f))]
    return f"runtime {sys.version_info[:2]} {sorted(stats)}"


def _functions() -> list[Any]:
    """All functions of the code. Their writers are imported here: few processes need them."""
    found: list[Any] = []
    for part in ("memory", "array", "call"):
        writer = importlib.import_module(f"pullback.runtime.native_{part}")
        found += getattr(writer, f"{part}_functions")()
    return found


def _assembled(functions: list[Any], hot: bool) -> bytes:
    """The object of a part of the code."""
    target = host_target()
    text = build.module_text(functions, target.triple, hot)
    return link.assemble(text, target, build.LEVELS[hot], build.PASSES[hot])  # type: ignore[no-any-return]


def _image() -> Image:
    """The linked code, from the disk cache or assembled now."""
    target = host_target()
    cache = disk_cache()
    key = image_key(_source_key(), target.key)
    image = cache.get(key) if cache is not None else None
    if image is None or image.data.count(struct.pack("<2Q", *MAGIC)) != 1 or not image.symbols:
        llvm.first_import.begin()
        functions = _functions()
        image = link_elf(*(_assembled(functions, hot) for hot in (True, False)))
        if cache is not None:
            cache.put(key, image)
    return image


def _load_code(state: int) -> Any:
    """The code in memory, its table filled with this process's addresses."""
    image = _image()
    at = image.data.find(struct.pack("<2Q", *MAGIC))
    if at < 0 or image.data.find(struct.pack("<2Q", *MAGIC), at + 1) >= 0:
        raise RuntimeError(
            "internal error in pullback: the native runtime's table of addresses is not where it "
            "should be"
        )
    words = [*MAGIC, *map(_address, EXTERNALS), state]
    words += [0] * (TABLE_WORDS - len(words))
    assert words[STATE_ENTRY] == state
    data = bytearray(image.data)
    struct.pack_into(f"<{TABLE_WORDS}Q", data, at, *words)
    code = load_image(Image(bytes(data), image.symbols, image.absolute))
    code.keep_forever()
    return code


def _around_forks(begins: int, ends: int) -> None:
    """Has the C library call the first before a fork, the second after it in parent and child: the
    child must not inherit a lock that a thread it does not have was holding.

    Not os.register_at_fork: between its hooks Python may switch to a thread that then spins for
    the lock with the GIL held, which the forking thread needs to go on.
    """
    libc = ctypes.CDLL(None)
    hooks = [_P(begins), _P(ends), _P(ends)]
    if hasattr(libc, "pthread_atfork"):
        failed = libc.pthread_atfork(*hooks)
    else:  # glibc has it in a part that is linked statically, over this:
        failed = getattr(libc, "__register_atfork")(*hooks, _P(None))
    if failed:
        raise MemoryError("no memory for the hooks around a fork")


class Native:
    """The native runtime of this process: code, state block, heap types, functions
    (`native_array.py` has them)."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        libc.calloc.restype, libc.calloc.argtypes = _P, [ctypes.c_size_t, ctypes.c_size_t]
        raw = libc.calloc(1, L.STATE_BYTES + 64)
        if not raw:
            raise MemoryError("no memory for the runtime's state")
        self.state: int = (raw + 63) & ~63
        self.code = _load_code(self.state)
        self._keep: list[Any] = []
        for offset, value in (
            (L.OBJECT_LIMIT, 256), (L.INT_BITS, 32), (L.MEMORY_TOTAL, L.LARGEST),
        ):  # fmt: skip
            self.word(offset).value = value
        self.functions: dict[str, Callable[..., Any]] = {
            symbol[3:]: self._function(
                symbol[3:], _FASTCALL | (_KEYWORDS if symbol == "py_signature" else 0)
            )
            for symbol in self.code.symbols
            if symbol.startswith("py_")
        }
        self.Pin = self._pin_type()
        self.ArrayImpl = self._array_type()
        self.JitFunction = self._function_type()
        set_object = self.functions["set_object"]
        set_object(L.PIN_TYPE, self.Pin)
        set_object(L.ARRAY_TYPE, self.ArrayImpl)
        set_object(L.FUNCTION_TYPE, self.JitFunction)
        set_object(L.BUFFER_LAYOUT_NAME, "buffer_layout")
        symbols = self.code.symbols
        self.alloc_address: int = symbols["pb_alloc"]
        self.free_address: int = symbols["pb_free"]
        self.trim = ctypes.CFUNCTYPE(ctypes.c_int64)(symbols["pb_trim"])
        self.alloc = ctypes.PYFUNCTYPE(_P, ctypes.c_int64)(self.alloc_address)
        self.free = ctypes.PYFUNCTYPE(None, _P, ctypes.c_int64)(self.free_address)
        _around_forks(symbols["pb_fork_begins"], symbols["pb_fork_ends"])

    def word(self, offset: int) -> ctypes.c_int64:
        """A word of the state block."""
        return ctypes.c_int64.from_address(self.state + offset)

    def _function(self, name: str, flags: int) -> Callable[..., Any]:
        method = _Method(name.encode(), self.code.symbols["py_" + name], flags, None)
        self._keep.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [_P, _P, _P]
        return make(ctypes.addressof(method), None, None)  # type: ignore[no-any-return]

    def _table(self, kind: type[ctypes.Structure], rows: list[tuple[Any, ...]]) -> int:
        array = (kind * (len(rows) + 1))(*[kind(*row) for row in rows])
        self._keep.append(array)
        return ctypes.addressof(array)

    def _type(self, name: str, size: int, flags: int, slots: list[tuple[str, int]]) -> Any:
        rows = (_Slot * (len(slots) + 1))(*[_Slot(_SLOTS[s], p) for s, p in slots], _Slot(0, None))
        encoded = name.encode()
        spec = _Spec(encoded, size, 0, flags, rows)
        self._keep += [rows, spec, encoded]
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, [_P]
        return make(ctypes.addressof(spec))

    def _pin_type(self) -> Any:
        symbols = self.code.symbols
        slots = [("dealloc", symbols["pb_pin_dealloc"]), ("getbuffer", symbols["pb_pin_getbuffer"])]
        return self._type("pullback.runtime.array.Pin", L.PIN_BYTES, _DEFAULT | _NO_NEW, slots)

    def _array_type(self) -> Any:
        symbols = self.code.symbols
        members = self._table(_Member, [
            (b"_state", _T_LONGLONG, L.STATE, _READONLY, None),
            (b"_data", _T_ULONGLONG, L.DATA, _READONLY, None),
            (b"_capacity", _T_LONGLONG, L.NBYTES, _READONLY, None),
            (b"aval", _T_OBJECT_EX, L.AVAL, _READONLY, L.DOCS["aval"].encode()),
            (b"_aval", _T_OBJECT_EX, L.AVAL, 0, None),  # for who lays it out anew
            (b"_owner", _T_OBJECT, L.OWNER, _READONLY, None),
            (b"_pins", _T_LONGLONG, L.PINS, _READONLY, None),
            (b"_event", _T_OBJECT, L.EVENT, 0, None),
            (b"_lies_on", _T_OBJECT, L.COMMITTED, 0, None),
            (b"_npy_value", _T_OBJECT, L.NPY_VALUE, 0, None),
            (b"__weaklistoffset__", _T_SSIZE, L.WEAKREFS, _READONLY, None),
            (b"__dictoffset__", _T_SSIZE, L.DICT, _READONLY, None),
        ])  # fmt: skip
        names = [sys.intern(n) for n in ("shape", "dtype", "ndim", "size", "weak_type")]
        self._keep.append(names)
        get = symbols["pb_array_attribute"]
        rows = [(n.encode(), get, None, L.DOCS[n].encode(), id(n)) for n in names]
        generic = (_address("PyObject_GenericGetDict"), _address("PyObject_GenericSetDict"))
        getset = self._table(_GetSet, [*rows, (b"__dict__", *generic, None, None)])
        slots = [
            ("dealloc", symbols["pb_array_dealloc"]), ("traverse", symbols["pb_array_traverse"]),
            ("clear", symbols["pb_array_clear"]), ("setattro", symbols["pb_array_setattro"]),
            ("getbuffer", symbols["pb_array_getbuffer"]),
            ("releasebuffer", symbols["pb_array_releasebuffer"]),
            ("members", members), ("getset", getset),
            ("richcompare", symbols["pb_richcompare"]), ("mp_subscript", symbols["pb_subscript"]),
            ("sq_item", _item_of_sequence()),
        ]  # fmt: skip
        slots += [(name, symbols["pb_op_" + name]) for name in (*L.BINARY[:13], *L.UNARY)]
        flags = _DEFAULT | _HAVE_GC | _NO_NEW
        cls = self._type("pullback.runtime.array.ArrayImpl", L.ARRAY_BYTES, flags, slots)
        for name in names:  # libraries look for properties, and copy them
            setattr(cls, name, property(vars(cls)[name].__get__, doc=L.DOCS[name]))
        return cls

    def _function_type(self) -> Any:
        symbols = self.code.symbols
        members = self._table(_Member, [
            (b"__vectorcalloffset__", _T_SSIZE, L.VECTORCALL, _READONLY, None),
            (b"__weaklistoffset__", _T_SSIZE, L.FN_WEAKREFS, _READONLY, None),
            (b"__dictoffset__", _T_SSIZE, L.FN_DICT, _READONLY, None),
            (b"_slow", _T_OBJECT, L.SLOW, _READONLY, None),
            (b"_entries", _T_OBJECT, L.KEEP, _READONLY, None),
        ])  # fmt: skip
        generic = (_address("PyObject_GenericGetDict"), _address("PyObject_GenericSetDict"))
        name = sys.intern("_class")  # which layers above define: what a function says its class is
        self._keep.append(name)
        getset = self._table(
            _GetSet,
            [
                (b"__dict__", *generic, None, None),
                (b"__class__", _address("PyObject_GetAttr"), None, None, id(name)),
            ],
        )
        slots = [
            ("call", _address("PyVectorcall_Call")), ("dealloc", symbols["pb_function_dealloc"]),
            ("traverse", symbols["pb_function_traverse"]), ("clear", symbols["pb_function_clear"]),
            ("descr_get", symbols["pb_function_descr_get"]), ("members", members),
            ("getset", getset), ("doc", ctypes.addressof(_FUNCTION_DOC)),
        ]  # fmt: skip
        flags = _DEFAULT | _HAVE_GC | _NO_NEW | _VECTORCALL | _METHOD_DESCRIPTOR
        made = self._type("pullback.runtime.stub.PjitFunction", L.FUNCTION_BYTES, flags, slots)
        made._class = made
        return made


class _Aval:
    """Stands for an aval in the self-test."""

    shape, dtype, ndim, size, weak_type = (3,), "f", 1, 3, False
    buffer_layout = struct.pack("<3q8s2q", 12, 4, 1, b"f", 3, 4)


def _self_test(native: Native) -> None:
    """Checks, on this interpreter, everything that was assumed of its objects' layout."""
    f, aval = native.functions, _Aval()
    before = sys.getrefcount(aval)
    a = f["alloc_array"](aval, 12)
    checks = [a.aval is aval, a.shape == (3,), a._capacity == 12, a._data % 64 == 0, a._state == 0]
    pin = f["pin"](a)
    checks += [a._pins == 1, memoryview(pin).nbytes == 12]
    del pin
    with memoryview(a) as m:
        checks += [a._pins == 1, (m.obj, m.nbytes, m.format) == (a, 12, "f")]
        checks += [m.shape == (3,), m.strides == (4,), m.readonly]
    checks += [a._pins == 0]
    link = ctypes.c_uint64.from_address(id(a) + L.GC_NEXT)
    checks += [link.value == 0 and not gc.is_tracked(a)]
    a.note, watch = [a], weakref.ref(a)
    checks += [link.value != 0 and gc.is_tracked(a)]
    block = f["steal"](a)
    checks += [a._pins == 0, watch() is a, block != 0, a._state == L.DELETED]
    native.free(block, 12)
    a.note.clear()
    del a
    checks += [watch() is None, sys.getrefcount(aval) == before]
    set_object, word = f["set_object"], native.word
    set_object(L.SCALAR_FLOAT, aval)
    key = f["signature"](0, (1.5, [None]), {"k": 2.5}, name=3.5)
    words = struct.unpack(f"<{len(key) // 8}Q", key) if key else ()
    (keyword,) = (lambda **kw: kw)(name=0)
    numbers = np.arange(6.0).reshape(2, 3)
    set_object(L.NDARRAY_TYPE, np.ndarray)
    array_key = f["signature"](0, numbers)
    expected = (
        3, 2 << 8 | L.K_TUPLE, id(aval), 1 << 8 | L.K_LIST, id(None), 1 << 8 | L.K_DICT, id("k"),
        id(aval), 1 << 8 | L.K_KEYWORDS, id(keyword), id(aval),
    )  # fmt: skip
    checks.append(words == expected)
    word(L.SCALAR_FLOAT).value = 0
    array_words = 1, 2 << 8 | L.K_NUMPY, id(numbers.dtype), 2, 3
    checks.append(array_key == struct.pack("<5Q", *array_words))
    at = numbers.__array_interface__["data"][0]
    checks.append(ctypes.c_uint64.from_address(id(numbers) + L.ND_DATA).value == at)
    single = np.float32(1.5)
    checks.append(ctypes.c_float.from_address(id(single) + L.NUMBER_VALUE).value == 1.5)
    call = f["new_function"](lambda *args, **kw: (args, kw), 0, None, None, 0)
    checks.append(call(1, 2, k=3) == ((1, 2), {"k": 3}))
    if not all(checks):
        raise RuntimeError(
            f"the self-test failed: {[k for k, good in enumerate(checks) if not good]}"
        )


def load() -> tuple[Native | None, str]:
    """The native runtime, or None and the reason."""
    reason = _unsupported()
    if reason:
        return None, reason
    try:
        native = Native()
        _self_test(native)
        # Types point into tables that `native` keeps: nothing of it may go, not even while the
        # interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        return native, ""
    except (OSError, RuntimeError, ImportError, MemoryError, AttributeError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}"
