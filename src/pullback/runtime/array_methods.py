"""The methods that an Array has by itself: conversion to Python and NumPy, printing, pickling,
export.

Installed on ArrayImpl when this module is imported; arithmetic, indexing and NumPy's methods come
from `pullback.numpy`, devices and shardings from `runtime.devices`. Printed forms and error
classes are JAX's.
"""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback import errors
from pullback.core.avals import ShapedArray, intern
from pullback.runtime import capsules, native_layout as L
from pullback.runtime.array import (
    ArrayImpl,
    data_address,
    delete,
    deleted_error,
    make_array,
    np_view,
    twin,
    wait,
)  # fmt: skip
from pullback.runtime.devices import devices
from pullback.runtime.memory import engine
from pullback.runtime.native_layout import SCALAR_CODES

__all__ = ["rebuild_array"]

_load_scalar = engine.functions["load_scalar"]
_CODES: dict[Any, int] = {
    np.dtype(name): SCALAR_CODES[code]
    for name, code in {
        "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16":
        "u16", "uint32": "u32",
        "uint64": "u64", "float32": "f32", "float64": "f64", "bool": "bool",
    }.items()
}  # fmt: skip


def _is_extension(dtype: Any) -> bool:
    """Is it one of the dtypes that NumPy itself does not have (bfloat16, int4, ...)?"""
    return bool(dtype.kind == "V" or dtype.num >= 256)


def _python_scalar(value: Any) -> Any:
    """One NumPy scalar as Python's int, float, complex or bool."""
    if not _is_extension(value.dtype):
        return value.item()
    return int(value) if "int" in value.dtype.name else float(value)


def _scalar(a: Any) -> Any:
    """The only element of an array, as a Python scalar."""
    if a._state & 3:
        wait(a)
    code = _CODES.get(a.aval.dtype)
    return _load_scalar(a, code) if code is not None else _python_scalar(np_view(a).reshape(())[()])


# --- to Python's numbers ---
def _need_scalar(a: Any) -> None:
    ndim = len(a.aval.shape)
    if ndim:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; got arr.ndim={ndim}. "
            "Fix: take one element, x[0], or use x.astype(int)."
        )


def __bool__(self: Any) -> bool:
    size = self.aval.size
    if size == 1:
        return bool(_scalar(self))
    if size == 0:
        raise ValueError(
            "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that "
            "an array is not empty."
        )
    raise ValueError(
        "The truth value of an array with more than one element is ambiguous. Use a.any() or "
        "a.all()"
    )


def __float__(self: Any) -> float:
    _need_scalar(self)
    return float(_scalar(self))


def __int__(self: Any) -> int:
    _need_scalar(self)
    return int(_scalar(self))


def __complex__(self: Any) -> complex:
    _need_scalar(self)
    return complex(_scalar(self))


def __index__(self: Any) -> int:
    if self.aval.shape or self.aval.dtype.kind not in "iu":
        raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
    return int(_scalar(self))


def item(self: Any, *args: Any) -> bool | int | float | complex:
    """The only element, or the one at the given index, as a Python scalar.

    Raises ValueError for an array of several elements without an index.

    >>> jnp.array([[7]]).item(), jnp.array([1, 2, 3]).item(1)
    (7, 2)
    """
    if not args:
        if self.aval.size != 1:
            if self._state == L.DELETED:
                raise deleted_error(self)
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return _scalar(self)  # type: ignore[no-any-return]
    view = np_view(self)
    if not _is_extension(view.dtype):
        return view.item(*args)  # type: ignore[no-any-return]
    index = np.arange(view.size).reshape(view.shape).item(*args)  # checks the index as NumPy does
    return _python_scalar(view.reshape(-1)[index])  # type: ignore[no-any-return]


def tolist(self: Any) -> Any:
    """The values as nested lists of Python scalars.

    >>> jnp.array([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    view = np_view(self)
    if _is_extension(view.dtype):
        view = view.astype(np.int64 if "int" in view.dtype.name else np.float64)
    return view.tolist()


def tobytes(self: Any, order: Any = "C") -> bytes:
    r"""The values' bytes.

    `order`: 'C' or 'F', as in NumPy.

    >>> jnp.array([1, 2], dtype=jnp.uint8).tobytes()
    b'\x01\x02'
    """
    return np_view(self).tobytes(order)


# --- sequences ---
def __len__(self: Any) -> int:
    shape = self.aval.shape
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]  # type: ignore[no-any-return]


def __iter__(self: Any) -> Iterator[Any]:
    shape = self.aval.shape
    if not shape:
        raise TypeError("iteration over a 0-d array")
    own = self if self.is_fully_replicated else _on_one(self)
    return (own[i] for i in range(shape[0]))


def __reversed__(self: Any) -> Iterator[Any]:
    shape = self.aval.shape
    if not shape:
        raise TypeError("iteration over a 0-d array")
    return (self[i] for i in range(shape[0] - 1, -1, -1))


def _on_one(self: Any) -> Any:
    """The array, on one device if it lies on several: its rows are to lie on one."""
    if _devices_of(self) == 1:
        return self
    wait(self)
    own = twin(self)
    own._lies_on = None
    own._aval = intern(self.aval.update(sharding=None, memory_space=None))
    return own


def __setitem__(self: Any, index: Any, value: Any) -> None:
    raise TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] "
        "= y, use "
        "x = x.at[idx].set(y) or another .at[] method."
    )


# --- printing ---
def __repr__(self: Any) -> str:
    aval = self.aval
    dtype = f"dtype={aval.dtype.name}" + (", weak_type=True" if aval.weak_type else "")
    if aval.size == 0:
        if self._state == L.DELETED:
            raise deleted_error(self)
        return f"Array([], shape={aval.shape}, {dtype})"
    text = np.array2string(np_view(self), separator=", ", prefix="Array(", suffix=",")
    last = len(text) - text.rfind("\n") - 1  # what precedes a first line is not counted: as JAX
    fits = last + len(dtype) + 3 < np.get_printoptions()["linewidth"]
    return f"Array({text},{' ' if fits else ' ' * len('Array(')}{dtype})"


def __str__(self: Any) -> str:
    return str(np_view(self))


def __format__(self: Any, spec: str) -> str:
    if self.aval.shape:
        return format(np_view(self), spec)
    value = np_view(self)[()]
    return format(_python_scalar(value) if spec and _is_extension(value.dtype) else value, spec)


# --- to NumPy and others ---
def __array__(
    self: Any, dtype: Any = None, context: Any = None, copy: bool | None = None
) -> np.ndarray[Any, Any]:
    view = np_view(self)
    if dtype is not None and np.dtype(dtype) != view.dtype:
        if copy is False:
            raise ValueError(
                "Unable to avoid copy while creating an array as requested: the dtype changes."
            )
        return view.astype(dtype)
    return view.copy() if copy else view


class DLDeviceType(enum.IntEnum):
    """Where a DLPack tensor lies."""

    kDLCPU = 1


def __dlpack_device__(self: Any) -> tuple[enum.Enum, int]:
    if self._state == L.DELETED:
        raise deleted_error(self)
    if getattr(self._lies_on, "num_devices", 1) > 1:
        raise BufferError("__dlpack__ only supported for unsharded arrays.")
    return DLDeviceType.kDLCPU, 0


class _Writable:
    """The memory of an array as NumPy takes it for writable: DLPack's old form cannot say read-
    only."""

    def __init__(
        self, view: Any, address: int, nbytes: int, dtype: str, shape: tuple[int, ...]
    ) -> None:
        self.view = view  # keeps and pins the array
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype,
            "shape": shape,
            "data": (address, False),
        }


def _copied_for(self: Any, dl_device: Any, copy: bool | None) -> bool | None:
    """Whether an array is copied that is exported to one of our devices: to another one it is."""
    kind, number = map(int, dl_device)
    if kind != DLDeviceType.kDLCPU.value or not 0 <= number < len(devices()):
        raise BufferError(
            f"an array on the CPU cannot be exported to the DLPack device {dl_device}"
        )
    target = devices()[number]
    if target in self.devices():
        return copy
    capsules.check_copied(target, self.device, copy)
    return True


def __dlpack__(
    self: Any,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the array's memory, which stays pinned as long as the consumer holds
    it."""
    count = _devices_of(self)
    if count > 1:
        raise BufferError(
            "to_dlpack can only pack a dlpack tensor from an array on a singular device, but an "
            f"array with a Sharding over {count} devices was provided. Fix: "
            "x.addressable_shards[k].data is the part of one device."
        )
    if dl_device is not None:
        copy = _copied_for(self, dl_device, copy)
    if stream is not None:
        raise errors.JaxRuntimeError(
            f"UNIMPLEMENTED: arrays on the CPU have no streams, got stream={stream!r}. Fix: "
            "stream=None"
        )
    view = np_view(self)
    foreign = _is_extension(view.dtype)
    if foreign and not capsules.has_code(view.dtype):
        raise BufferError(
            f"DLPack has no type for arrays of {view.dtype.name}; convert them with x.astype(...)"
        )
    if copy:
        view = view.copy()
    bits = view.view(f"u{view.itemsize}") if foreign else view
    address = bits.__array_interface__["data"][0]
    carrier = np.asarray(_Writable(bits, address, bits.nbytes, bits.dtype.str, bits.shape))
    capsule = carrier.__dlpack__()
    return capsules.relabel(capsule, view.dtype) if foreign else capsule


# --- life ---
def is_deleted(self: Any) -> bool:
    """Has the array been deleted or donated?

    >>> x = jnp.zeros(3)
    >>> x.is_deleted()
    False
    """
    return bool(self._state == L.DELETED)


def is_ready(self: Any) -> bool:
    """Are the values there, so that using them does not block?

    >>> jnp.zeros(3).block_until_ready().is_ready()
    True
    """
    if self._state == L.DELETED:
        raise errors.JaxRuntimeError(f"INVALID_ARGUMENT: {deleted_error(self)}")
    return bool(self._state != L.PENDING)


def block_until_ready(self: Any) -> Any:
    """Waits for the computation that makes the array; returns the array. Raises that computation's
    error.

    >>> (jnp.ones(3) * 2).block_until_ready()
    Array([2., 2., 2.], dtype=float32)
    """
    state = self._state
    if state & 3 == 0:
        return self
    if state == L.DELETED:
        raise errors.JaxRuntimeError(
            "INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated buffer"
        )
    wait(self)
    return self


def unsafe_buffer_pointer(self: Any) -> int:
    """The address of the values.

    >>> x = jnp.zeros(3)
    >>> x.unsafe_buffer_pointer() == np.asarray(x).__array_interface__["data"][0]
    True
    """
    if self._state == L.DELETED:
        raise errors.JaxRuntimeError(
            "INVALID_ARGUMENT: Buffer has been deleted or donated: it has no address."
        )
    if _devices_of(self) > 1:
        raise errors.JaxRuntimeError(
            "INVALID_ARGUMENT: UnsafeBufferPointer() is supported only for unsharded arrays."
        )
    return data_address(self)


def _devices_of(self: Any) -> int:
    """On how many devices an array lies."""
    lies = self._lies_on
    return 1 if lies is None else len(lies.device_set)


def copy_to_host_async(self: Any) -> None:
    """Nothing to do: the values are in the host's memory.

    >>> jnp.zeros(3).copy_to_host_async()
    """
    if self._state == L.DELETED:
        raise deleted_error(self)


def copy(self: Any) -> Any:
    """A new array with the same values and weak type.

    >>> x = jnp.arange(3)
    >>> x.copy() is x
    False
    """
    out = make_array(np_view(self), self.aval, copy=True)
    if self.committed:
        out._lies_on = self._lies_on
    return out


def __deepcopy__(self: Any, memo: Any) -> Any:
    return copy(self)


def rebuild_array(values: np.ndarray[Any, Any], weak_type: bool) -> Any:
    """What pickles call."""
    return make_array(values, ShapedArray(values.shape, values.dtype, weak_type), copy=True)


def __reduce__(self: Any) -> Any:
    return rebuild_array, (np_view(self), self.aval.weak_type)


def platform(self: Any) -> str:
    """The platform that holds the values.

    >>> jnp.zeros(3).platform()
    'cpu'
    """
    return "cpu"


def on_device_size_in_bytes(self: Any) -> int:
    """Bytes that the values take, on all devices together.

    >>> jnp.zeros(3).on_device_size_in_bytes()
    12
    """
    if self._state == L.DELETED:
        raise errors.JaxRuntimeError(
            "INVALID_ARGUMENT: GetOnDeviceSizeInBytes() called on deleted or donated buffer"
        )
    sharding = self.sharding
    size, parts = int(self.nbytes), math.prod(self.shape)
    if sharding.num_devices == 1 or not parts:
        return size
    return int(size // parts * math.prod(sharding.shard_shape(self.shape)) * sharding.num_devices)


def __hex__(self: Any) -> str:
    """`hex(x)` of an integer scalar."""
    return hex(self.__index__())


def __oct__(self: Any) -> str:
    """`oct(x)` of an integer scalar."""
    return oct(self.__index__())


def _numpy_dtype(self: Any) -> Any:
    """What `numpy.dtype(x)` asks for."""
    warnings.warn(
        "Implicit conversion of an array to a dtype is deprecated; rather than dtype=arr use "
        "dtype=arr.dtype. In the future this will result in an error.",
        DeprecationWarning,
        stacklevel=2,
    )
    return self.aval.dtype


nbytes = property(
    lambda self: self.aval.size * self.aval.dtype.itemsize,
    doc="""Bytes of the values.

    >>> jnp.zeros((2, 3)).nbytes
    24
    """,
)
itemsize = property(
    lambda self: self.aval.dtype.itemsize,
    doc="""Bytes of one element.

    >>> jnp.zeros(3, dtype=jnp.int16).itemsize
    2
    """,
)
committed = property(
    lambda self: self._lies_on is not None and not hasattr(self._lies_on, "sharding"),
    doc="""Was the array put on a device explicitly?

    >>> jnp.zeros(3).committed, pb.device_put(jnp.zeros(3), pb.devices()[0]).committed
    (False, True)
    """,
)
_committed = property(committed.fget, doc="As `committed`.")
is_fully_addressable = property(
    lambda self: True,
    doc="""Is every element in this process? Always true here.

    >>> jnp.zeros(3).is_fully_addressable
    True
    """,
)
_INSTALLED = (
    __bool__, __float__, __int__, __complex__, __index__, item, tolist, tobytes, __len__, __iter__,
    __reversed__,
    __setitem__, __repr__, __str__, __format__, __array__, __dlpack_device__, __dlpack__,
    is_deleted, is_ready,
    block_until_ready, unsafe_buffer_pointer, copy_to_host_async, copy, __deepcopy__, __reduce__,
    platform, on_device_size_in_bytes, __hex__, __oct__,
)  # fmt: skip


def _install() -> None:
    for function in _INSTALLED:
        function.__qualname__ = f"ArrayImpl.{function.__name__}"
        setattr(ArrayImpl, function.__name__, function)
    for name in ("nbytes", "itemsize", "committed", "_committed", "is_fully_addressable"):
        setattr(ArrayImpl, name, globals()[name])
    ArrayImpl.delete = lambda self: delete(self)
    ArrayImpl.delete.__doc__ = """Gives the memory back; the array cannot be used afterwards.

    >>> x = jnp.zeros(3)
    >>> x.delete()
    >>> x.is_deleted()
    True
    """
    ArrayImpl.__copy__ = ArrayImpl.clone = copy
    ArrayImpl.__numpy_dtype__ = property(_numpy_dtype, doc="The dtype, to NumPy.")
    ArrayImpl.__array_priority__ = 100


_install()
