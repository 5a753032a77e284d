"""The Array: `pullback.Array` (abstract) and `ArrayImpl`, its one implementation, an object made
of native code.

For the layers above:

* `make_array(x, aval=None, copy=False)`: an ArrayImpl of a NumPy array, zero-copy where its memory
  allows.
* `np_view(a)`: a read-only NumPy view of an Array's memory; it pins the array (no donation, no
  reuse) while it lives. Blocks until the array is ready; raises what its computation raised,
  RuntimeError if it was deleted.
* `empty(aval)`: a ready array of uninitialised memory, `adopt(aval, address, nbytes)` one around a
  block of `memory.alloc`, `pending(aval, event)` one whose data comes later (`fulfil`, `fail`);
  `delete(a)`, `steal(a)`.
* `set_operator(name, function, fast=None)`: what `a + b` and the like do when no native entry
  applies (names: `native_layout`'s OPERATOR_NAMES, e.g. "add", "lt", "negative", "getitem"); it
  gets the operands in order (either may be the Array) and may return NotImplemented. `fast`: a
  jitted function whose native entries the operator uses. Other methods are set with setattr.
* `register_array_class(cls)`: instances of `cls` (tracers, key arrays) count as `pullback.Array`
  too.

The event of a pending array has one method, `wait()`: it returns when the array has been fulfilled
or failed, and raises the computation's error in the second case.
"""

from __future__ import annotations

import operator
import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import errors
from pullback.core import avals
from pullback.runtime import native_layout as L
from pullback.runtime.memory import engine
from pullback.runtime.native import Native

__all__ = [
    "Array", "ArrayImpl", "abandon", "adopt", "data_address", "delete", "empty", "fail", "fulfil",
    "is_foreign", "make_array", "np_view", "pending",
    "register_array_class", "set_operator", "steal", "twin", "wait",
]  # fmt: skip

ArrayImpl: Any = engine.ArrayImpl
_F = engine.functions
_alloc_array, _wrap_array, _from_buffer, _pin = (
    _F[n] for n in ("alloc_array", "wrap_array", "from_buffer", "pin")
)
_fulfil, _steal, _release, _twin = _F["fulfil"], _F["steal"], _F["release"], _F["twin"]
_ndarray = np.ndarray
_intern = avals.intern
_ShapedArray = avals.ShapedArray

_classes: tuple[type, ...] = (ArrayImpl,)


class _ArrayMeta(type):
    """Makes isinstance(x, Array) true for arrays and for whatever stands for one while a program
    is traced."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Array:
            return isinstance(instance, _classes)
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is Array and issubclass(subclass, _classes):
            return True
        return type.__subclasscheck__(cls, subclass)

    def __getattr__(cls, name: str) -> Any:
        """What every array has is found on the class too: libraries that wrap arrays read it."""
        if cls is not Array or not _is_of_every_array(name):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return _shown.get(name) or _shown.setdefault(name, _of_any_array(name))

    def __dir__(cls) -> list[str]:
        names = list(type.__dir__(cls))
        return [*names, *filter(_is_of_every_array, dir(ArrayImpl))] if cls is Array else names


# What arrays have and traced values have not, or raise at.
_OF_COMPUTED_ARRAYS = frozenset(
    "__array__ __array_module__ __array_priority__ __bool__ __complex__ __dlpack__ "
    "__dlpack_device__ __float__ __hex__ __index__ __int__ __iter__ __len__ __oct__ "
    "__reversed__ aval block_until_ready clone delete devices format is_deleted is_ready "
    "on_device_size_in_bytes platform tobytes tolist traceback unsafe_buffer_pointer "
    "weak_type".split()
)
_shown: dict[str, Any] = {}  # attributes of the class `Array` that were asked for


def _is_of_every_array(name: str) -> bool:
    private = name.startswith("_") and not name.startswith("__")
    return not private and name not in _OF_COMPUTED_ARRAYS and hasattr(ArrayImpl, name)


def _of_any_array(name: str) -> Any:
    """The method or property `name` for instances of any array class, traced values included."""
    found = getattr(ArrayImpl, name)
    if not callable(found):
        return property(operator.attrgetter(name), doc=found.__doc__)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Array.{name}", found.__doc__
    return method


class Array(metaclass=_ArrayMeta):
    """The type of arrays, for isinstance and annotations; also true of traced values.

    >>> isinstance(jnp.ones(3), pb.Array)
    True
    """

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        raise TypeError(
            "Cannot create array instances: pullback.Array is for isinstance checks and "
            "annotations. "
            "Use pullback.numpy.array(...) or pullback.numpy.zeros(...) to make an array."
        )


Array.__module__ = "pullback"


def register_array_class(cls: type) -> None:
    """From now on instances of `cls` are instances of Array."""
    global _classes
    if cls not in _classes:
        _classes = (*_classes, cls)


_met: dict[Any, Any] = {}  # the types of NumPy arrays that buffers export, by shape and dtype

# Says of a new array on which device it lies, while another one than the first is the default.
place_new: list[Callable[[Any], Any]] = []


def make_array(x: Any, aval: Any = None, copy: bool = False, shared: bool = False) -> Any:
    """An ArrayImpl with the values of a NumPy array.

    Memory is shared (the array becomes the owner; do not write to it afterwards) if it is
    contiguous, aligned, in native byte order and of the aval's dtype, and `copy` is false; else it
    is copied, as small arrays are unless `shared`. ValueError if the shapes differ.
    """
    if type(x) is not _ndarray:
        x = np.asarray(x)
    if aval is None:
        key = x.shape, x.dtype
        aval = _met.get(key)
        if aval is not None:
            flags = x.flags
            if flags.c_contiguous and flags.aligned:
                small = x.nbytes <= 256 and not shared
                made = _from_buffer(aval, x, 1 if copy or small else 0)
                return made if not place_new else place_new[0](made)
        else:
            aval = _intern(_ShapedArray(x.shape, x.dtype))
            if x.dtype.isnative and x.dtype.kind != "V" and x.dtype.num < 256:
                if len(_met) >= 4096:
                    _met.clear()
                _met[key] = aval
    if type(aval) is _ShapedArray:
        aval = _intern(aval)
    dtype = aval.dtype
    if not dtype.isnative:  # our arrays are in the machine's order of bytes
        dtype = dtype.newbyteorder("=")
        aval = _intern(_ShapedArray(aval.shape, dtype, aval.weak_type))
    if x.dtype is not dtype and x.dtype != dtype:
        x, copy = x.astype(dtype), False
    if x.shape != aval.shape:
        raise ValueError(
            f"make_array: a NumPy array of shape {x.shape} cannot be an array of type {aval}"
        )
    flags = x.flags
    if not (flags.c_contiguous and flags.aligned):
        x, copy = np.array(x, order="C", copy=True, subok=False), False
    if dtype.kind == "V" or dtype.num >= 256:  # not exported by the buffer protocol: as bytes
        x = x.reshape(-1).view(np.uint8) if x.size else np.empty(0, np.uint8)
    # Small arrays are copied: a block of ours is aligned, recycled and untracked.
    made = _from_buffer(aval, x, 1 if copy or (x.nbytes <= 256 and not shared) else 0)
    return made if not place_new else place_new[0](made)


def empty(aval: Any) -> Any:
    """A ready array of uninitialised memory. OutOfMemoryError if there is none."""
    aval = _intern(aval) if type(aval) is _ShapedArray else aval
    nbytes = aval.size * aval.dtype.itemsize
    try:
        return _alloc_array(aval, nbytes)
    except OverflowError:  # more bytes than 64 bits count
        raise errors.OutOfMemoryError.allocating(nbytes) from None


def _out_of_memory(nbytes: int) -> None:
    raise errors.OutOfMemoryError.allocating(nbytes)


def adopt(aval: Any, address: int, nbytes: int) -> Any:
    """An array that takes over a block of `memory.alloc(nbytes)`."""
    return _wrap_array(aval, address, nbytes, None, L.READY)


def pending(aval: Any, event: Any) -> Any:
    """An array whose data comes later; `event.wait()` blocks until then."""
    a = _wrap_array(_intern(aval) if type(aval) is _ShapedArray else aval, 0, 0, None, L.PENDING)
    a._event = event
    return a


def fulfil(a: Any, address: int, nbytes: int) -> None:
    """A pending array takes over a block and is ready."""
    _fulfil(a, address, nbytes, L.READY)
    a._event = None


def fail(a: Any) -> None:
    """A pending array fails; its event goes on to raise the reason."""
    _fulfil(a, 0, 0, L.FAILED)


def delete(a: Any) -> None:
    """Deletes an array; its memory is free at once unless a view pins it."""
    if a._state == L.PENDING:
        wait(a)
    _release(a)


def abandon(a: Any) -> None:
    """Deletes a pending array whose values go elsewhere; does not wait for them."""
    _release(a)
    a._event = None


def steal(a: Any) -> int:
    """The address of an array's block, the array deleted; 0 if it is pinned, foreign or not ready,
    and nothing happens."""
    return _steal(a)  # type: ignore[no-any-return]


def twin(a: Any) -> Any:
    """Another array over the memory of `a`: what is done to one (deleting, donating) leaves the
    other as it is. `a` itself if its values are still to come."""
    return _twin(a)


def is_foreign(a: Any) -> bool:
    """Does the memory of a belong to another library, which may write to it?"""
    return a._owner is not None and type(a._owner) is not engine.Pin


def deleted_error(a: Any) -> RuntimeError:
    """What every use of a deleted array raises."""
    return RuntimeError(
        f"Array has been deleted with shape={a.aval.str_short()}. It was donated to a computation, "
        "or deleted. Fix: use the computation's result instead, or donate a copy (x.copy())."
    )


def wait(a: Any) -> None:
    """Blocks until an array is ready. Raises the error of its computation, RuntimeError if it was
    deleted."""
    state = a._state
    if state & 3 == 0:
        return
    if _interrupted:
        _raise_again(a)
    if state != L.DELETED and a._event is not None:
        a._event.wait()
        state = a._state
    if state == L.DELETED:
        raise deleted_error(a)
    if state & 3:
        raise errors.JaxRuntimeError("internal error in pullback: an array was never computed")


# NumPy asks for a buffer first and ignores whatever that raises, Ctrl-C included; then it calls
# `__array__`, which raises it again.
_interrupted: list[tuple[Any, BaseException]] = []


def _raise_again(a: Any) -> None:
    waiting, _interrupted[:] = list(_interrupted), []
    for ref, error in waiting:
        if ref() is a:
            raise error


def data_address(a: Any) -> int:
    """Where the values lie; blocks until they do."""
    if a._state & 3:
        wait(a)
    return a._data  # type: ignore[no-any-return]


def np_view(a: Any) -> np.ndarray[Any, Any]:
    """A read-only NumPy array over the memory of an Array, which it keeps and pins."""
    if a._state & 3:
        wait(a)
    aval = a.aval
    return _ndarray(aval.shape, aval.dtype, _pin(a))


_HALF = np.dtype(np.float16).num
_NO_FORMAT = np.dtype(np.void).num  # numbers of records, dates and foreign types begin here


def _export(a: Any) -> Any:
    """What the buffer protocol exports in an array's place."""
    if getattr(a._lies_on, "num_devices", 1) > 1:
        raise BufferError(
            "Python buffer protocol is only defined for buffers with a single shard. Fix: "
            "numpy.asarray(x), or x.addressable_data(k)."
        )
    try:  # np_view, written here: small arrays become NumPy's as often as not
        if a._state & 3:
            wait(a)
        aval = a.aval
        dtype = aval.dtype
        view = _ndarray(aval.shape, dtype, _pin(a))
    except RuntimeError as error:
        raise BufferError(str(error)) from error
    except KeyboardInterrupt as error:
        _interrupted.append((weakref.ref(a), error))
        raise
    if dtype.num >= _NO_FORMAT and dtype.num != _HALF:
        raise BufferError(
            f"Buffers of type {_xla_name(dtype)} are not supported by the Python buffer protocol: "
            f"it has no format for {dtype.name}. Fix: numpy.asarray(x) or x.view(...)."
        )
    if type(aval) is _ShapedArray and view.size and not hasattr(aval, "buffer_layout"):
        aval.buffer_layout = _buffer_layout(view)  # the next such array needs no NumPy view
    return view


def _xla_name(dtype: np.dtype[Any]) -> str:
    """What XLA calls a narrow dtype: BF16, S4, U4, F8E4M3FN."""
    for start, letter in (("bfloat", "BF"), ("float", "F"), ("uint", "U"), ("int", "S")):
        if dtype.name.startswith(start):
            return letter + dtype.name.removeprefix(start).replace("_", "").upper()
    return dtype.name


def _buffer_layout(view: np.ndarray[Any, Any]) -> bytes:
    """How the buffer of such a view lies, in the words of `native_layout.LAYOUT_...`."""
    shape_and_strides = view.shape + view.strides
    code = memoryview(view).format.encode()  # type: ignore[arg-type]
    head = struct.pack("<3q8s", view.nbytes, view.itemsize, view.ndim, code)
    return head + struct.pack(f"<{len(shape_and_strides)}q", *shape_and_strides)


def set_operator(name: str, function: Callable[..., Any], fast: Any = None) -> None:
    """Sets what an operator does when no native entry applies to its operands.

    `fast` is a JitFunction (of the operands in order) whose native entries serve for the operator:
    once `function` has called it with operands of some type, the operator runs natively on them.
    """
    if name not in L.OPERATOR_INDEX:
        raise ValueError(
            f"{name!r} is no operator that arrays have natively; they are "
            f"{', '.join(L.OPERATOR_NAMES)}"
        )
    if not isinstance(engine, Native):
        engine.set_operator(name, function)
        return
    if fast is not None and type(fast) is not engine.JitFunction:
        raise TypeError(f"set_operator: fast must be a jitted function, got {fast!r}")
    where = L.OPERATORS + L.OPERATOR_BYTES * L.OPERATOR_INDEX[name]
    engine.functions["set_object"](where + L.OPERATOR_SLOW, function)
    engine.functions["set_object"](where + L.OPERATOR_FUNCTION, fast)


def set_one_device(kind: type) -> None:
    """Says which type shardings on one device have: Python is lent the memory of arrays that lie so
    without being asked."""
    if isinstance(engine, Native):
        engine.functions["set_object"](L.ONE_DEVICE, kind)


if not isinstance(engine, Native):
    engine.set_export(_export)
else:
    engine.functions["set_object"](L.BUFFER_HOOK, _export)
    engine.functions["set_object"](L.MEMORY_HOOK, _out_of_memory)
