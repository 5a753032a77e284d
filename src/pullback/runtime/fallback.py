"""The runtime's types in plain Python: what `native.py` gives, for interpreters and platforms
where native code is not had.

Same attributes, same functions, same behaviour; only slower. Blocks come from the C library's
malloc, so that compiled kernels can be used (or from NumPy where even ctypes finds none). Tests
run everything on both.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from pullback.errors import OutOfMemoryError
from pullback.forking import renewed
from pullback.runtime import native_layout as L

__all__ = ["ArrayImpl", "Fallback", "JitFunction"]

_OPERATORS: dict[str, Callable[..., Any]] = {}
_EXPORT: list[Callable[[Any], Any]] = []


class _Blocks:
    """malloc and free of the C library, with the allocator's statistics."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.cdll.msvcrt
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        self._malloc, self._free = libc.malloc, libc.free
        self.alloc_address: int = ctypes.cast(libc.malloc, ctypes.c_void_p).value or 0
        self.free_address: int = ctypes.cast(libc.free, ctypes.c_void_p).value or 0
        self.in_use = self.peak = self.allocations = 0
        self.largest = L.LARGEST
        self._lock = renewed(threading.Lock())

    def alloc(self, n: int) -> int | None:
        address: int | None = self._malloc(max(n, 64)) if 0 <= n <= self.largest else None
        if address:
            with self._lock:
                self.in_use += n
                self.allocations += 1
                self.peak = max(self.peak, self.in_use)
        return address

    def free(self, address: int, n: int) -> None:
        self._free(address)
        with self._lock:
            self.in_use -= n


blocks = _Blocks()


class Pin:
    """What an exported view holds on to: keeps the array, and keeps it from being donated or
    freed."""

    __slots__ = ("__array_interface__", "_array")

    def __init__(self, array: ArrayImpl) -> None:
        if array._state & 3:
            raise RuntimeError("the array has no data to look at")
        self._array = array
        array._pins += 1
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (array._capacity,), "data": (array._data, True)
        }  # fmt: skip

    def __del__(self) -> None:
        array = getattr(self, "_array", None)
        if array is not None:
            array._pins -= 1


class ArrayImpl:
    """An array. Made by `pullback.runtime.array.make_array` and friends."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_capacity",
        "_data",
        "_event",
        "_lies_on",
        "_npy_value",
        "_owner",
        "_pins",
        "_state",
        "aval",
    )  # fmt: skip
    __hash__ = None  # type: ignore[assignment]
    _capacity: int
    _lies_on: Any
    _data: int
    _event: Any
    _npy_value: Any
    _owner: Any
    _pins: int
    _state: int
    aval: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> ArrayImpl:
        raise TypeError(f"cannot create '{cls.__module__}.{cls.__qualname__}' instances")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("type 'pullback.runtime.array.ArrayImpl' is not an acceptable base type")

    _aval = property(lambda self: self.aval, lambda self, aval: setattr(self, "aval", aval))
    shape = property(lambda self: self.aval.shape, doc=L.DOCS["shape"])
    dtype = property(lambda self: self.aval.dtype, doc=L.DOCS["dtype"])
    ndim = property(lambda self: self.aval.ndim, doc=L.DOCS["ndim"])
    size = property(lambda self: self.aval.size, doc=L.DOCS["size"])
    weak_type = property(lambda self: self.aval.weak_type, doc=L.DOCS["weak_type"])

    def __del__(self) -> None:
        _drop(self)

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol, where Python code can have it (3.12)."""
        return memoryview(_EXPORT[0](self))

    def __getitem__(self, index: Any) -> Any:
        slow = _OPERATORS.get("getitem")
        if slow is None:
            raise TypeError(
                "indexing of arrays is installed by pullback.numpy: import pullback first"
            )
        return slow(self, index)


ArrayImpl.__module__ = "pullback.runtime.array"


def _drop(array: ArrayImpl) -> None:
    """Gives back the data of an array: to the allocator, or to its owner."""
    data, array._data = array._data, 0
    owner, array._owner = array._owner, None
    if owner is None and data and blocks is not None:  # None while the interpreter goes down
        blocks.free(data, array._capacity)


def _binary(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        slow = _OPERATORS.get(name)
        if slow is None:
            return NotImplemented
        return slow(other, self) if reflected else slow(self, other)

    return method


_SPELLED = {
    "subtract": "sub", "multiply": "mul", "true_divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow", "negative": "neg", "positive": "pos", "absolute": "abs",
}  # fmt: skip


def _power(self: Any, other: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise TypeError("pow() with a modulus is not defined for arrays: write (x ** y) % m")
    slow = _OPERATORS.get("power")
    return NotImplemented if slow is None else slow(self, other)


def _install_operators() -> None:
    for name in L.BINARY:
        short = _SPELLED.get(name, name)
        setattr(ArrayImpl, f"__{short}__", _power if name == "power" else _binary(name, False))
        if name not in L.BINARY[13:]:
            setattr(ArrayImpl, f"__r{short}__", _binary(name, True))
    for name in L.UNARY:

        def method(self: Any, name: str = name) -> Any:
            slow = _OPERATORS.get(name)
            if slow is None:
                raise TypeError(
                    "this operator is installed by pullback.numpy: import pullback first"
                )
            return slow(self)

        setattr(ArrayImpl, f"__{_SPELLED.get(name, name)}__", method)


_install_operators()


class JitFunction:
    __doc__ = L.DOCS["JitFunction"]

    __slots__ = ("__dict__", "__weakref__", "_entries", "_slow")
    _class: Any
    _entries: Any
    _slow: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> JitFunction:
        raise TypeError(f"cannot create '{cls.__module__}.{cls.__qualname__}' instances")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._slow(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What layers above say it is."""
        found: type = self._class
        return found


JitFunction._class = JitFunction
JitFunction.__module__ = "pullback.runtime.stub"
JitFunction.__name__ = JitFunction.__qualname__ = "PjitFunction"  # what libraries look for


def _make(aval: Any, data: int, nbytes: int, owner: Any = None, state: int = L.READY) -> ArrayImpl:
    a: ArrayImpl = object.__new__(ArrayImpl)
    a._state, a._data, a._capacity, a.aval, a._owner, a._pins = state, data, nbytes, aval, owner, 0
    a._event = a._lies_on = a._npy_value = None
    return a


def _check(array: Any) -> ArrayImpl:
    if type(array) is not ArrayImpl:
        raise TypeError("expected a pullback Array")
    return array


def alloc_array(aval: Any, nbytes: int) -> ArrayImpl:
    data = blocks.alloc(nbytes)
    if not data:
        raise OutOfMemoryError.allocating(nbytes)
    return _make(aval, data, nbytes)


def wrap_array(aval: Any, address: int, nbytes: int, owner: Any, state: int) -> ArrayImpl:
    return _make(aval, address, nbytes, owner, state)


def from_buffer(aval: Any, source: Any, copy: int) -> ArrayImpl:
    flat = np.frombuffer(source, np.uint8) if memoryview(source).nbytes else np.empty(0, np.uint8)
    address = flat.__array_interface__["data"][0]
    if not copy:
        return _make(aval, address, flat.nbytes, source, L.EXTERNAL)
    a = alloc_array(aval, flat.nbytes)
    ctypes.memmove(a._data, address, flat.nbytes)
    return a


def release(array: Any) -> None:
    a = _check(array)
    a._state = L.DELETED
    if a._pins == 0:
        _drop(a)


def steal(array: Any) -> int:
    a = _check(array)
    if a._owner is not None or a._pins or a._state != L.READY:
        return 0
    data, a._data, a._state = a._data, 0, L.DELETED
    return data


def fulfil(array: Any, address: int, nbytes: int, state: int) -> None:
    a = _check(array)
    _drop(a)
    a._data, a._capacity, a._state = address, nbytes, state


def twin(array: Any) -> ArrayImpl:
    a = _check(array)
    if a._state & 3:
        return a
    other = _make(a.aval, a._data, a._capacity, a._owner or Pin(a), L.EXTERNAL)
    other._lies_on = a._lies_on
    return other


def add_pins(array: Any, delta: int) -> None:
    _check(array)._pins += delta


_CODES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?"]


def load_scalar(array: Any, code: int) -> Any:
    a = _check(array)
    dtype = np.dtype(_CODES[code])
    return np.frombuffer(np.asarray(Pin(a)), dtype, 1)[0].item()


def _never_an_argument(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An eager function whose result is another array where it would be an argument."""

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = plain(*args, **kwargs)
        if type(y) is ArrayImpl and any(y is x for x in (*args, *kwargs.values())):
            return twin(y)
        return y

    call.plain = plain  # type: ignore[attr-defined]  # what is pickled
    return call


class Fallback:
    """Stands for `native.Native`, without native code."""

    def __init__(self) -> None:
        self.ArrayImpl, self.JitFunction, self.Pin = ArrayImpl, JitFunction, Pin
        self.alloc_address, self.free_address = blocks.alloc_address, blocks.free_address
        self.alloc, self.free = blocks.alloc, blocks.free
        self.functions: dict[str, Callable[..., Any]] = {
            f.__name__: f
            for f in (
                alloc_array, wrap_array, from_buffer, release, steal, fulfil, twin, add_pins,
                load_scalar,
                self.new_function, self.set_table, self.signature,
            )
        }  # fmt: skip
        self.functions["pin"] = lambda array: np.asarray(Pin(array))

    def new_function(
        self,
        slow: Any,
        statics: int,
        plain: Any = None,
        named: Any = None,
        forwards: int = 0,
    ) -> JitFunction:
        function: JitFunction = object.__new__(JitFunction)
        function._slow, function._entries = plain or slow, None
        if plain is not None and not forwards:
            function._slow = _never_an_argument(plain)
        return function

    def set_table(self, function: JitFunction, address: int, mask: int, keep: Any) -> None:
        function._entries = keep

    def signature(self, statics: int, /, *args: Any, **kwargs: Any) -> None:
        """No call has a native key here."""

    def set_operator(self, name: str, slow: Callable[..., Any]) -> None:
        _OPERATORS[name] = slow

    def set_export(self, export: Callable[[Any], Any]) -> None:
        _EXPORT[:] = [export]

    def trim(self) -> int:
        return 0
