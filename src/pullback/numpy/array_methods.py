"""The methods and properties that arrays and tracers share: `x.sum()`, `x.T`, `x.at`,
`x.astype(...)` and so on.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.eager import methods
from ..api.placement import device_put
from ..api.recording import LazyPair
from ..core.avals import ShapedArray
from ..core.refs import RefIndexer, is_ref_aval, operations
from ..core.trace import Tracer
from ..lazy_imports import lazy_module
from ..primitives.convert import copy_p
from ..primitives.keys import PRNGKeyArray
from ..runtime.array import ArrayImpl
from . import (
    averages,
    complex_parts,
    creation,
    manipulation,
    operators,
    products,
    reductions,
    rounding,
)
from .util import static_axes, user_dtype

_joining: Any = lazy_module("pullback.numpy.joining")
_taking: Any = lazy_module("pullback.numpy.taking")
_scatter: Any = lazy_module("pullback.numpy.scatter")
_ufuncs_more: Any = lazy_module("pullback.numpy.ufuncs_more")


# --- methods that are not simply the function of the same name ---
def reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """The same elements in another shape, given as a tuple or as separate sizes (one may be -1).

    Raises TypeError if the sizes do not have the same product.

    >>> jnp.arange(6).reshape(2, -1)
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    shape = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    return manipulation.reshape(self, shape, order, out_sharding=out_sharding)


def transpose(self: Any, *args: Any) -> Any:
    """The axes in another order (reversed by default), given as a tuple or separately.

    >>> jnp.zeros((2, 3, 4)).transpose(1, 0, 2).shape
    (3, 2, 4)
    """
    if not args or (len(args) == 1 and args[0] is None):
        return manipulation.transpose(self)
    axes = static_axes(args[0] if len(args) == 1 else args)
    return manipulation.transpose(self, axes if isinstance(axes, tuple) else (axes,))


def flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as a one-dimensional array.

    `order`: 'C' (the last axis runs fastest) or 'F' (the first).

    >>> jnp.array([[1, 2], [3, 4]]).flatten()
    Array([1, 2, 3, 4], dtype=int32)
    """
    return manipulation.ravel(self, order, out_sharding=out_sharding)


def astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array with another dtype.

    Complex to real drops the imaginary part, with a warning; floats are cut toward 0 for integers.
    `copy`: a new array even where the dtype stays.

    >>> jnp.array([1.7, -1.7]).astype(jnp.int32)
    Array([ 1, -1], dtype=int32)
    """
    return creation.astype(self, dtype, copy=copy, device=device)


def clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """Limited to [min, max].

    None leaves a side open; arguments as for `jnp.clip`.

    >>> jnp.arange(5).clip(1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    return _ufuncs_more.clip(self, min, max)


def copy(self: Any) -> Any:
    """A copy."""
    return creation.copy(self)


def dot(self: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product with `b`: see `jnp.dot`.

    Vectors give a number, matrices the matrix product.

    >>> jnp.array([1, 2]).dot(jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    return products.dot(self, b, precision=precision, preferred_element_type=preferred_element_type)


def _by_bits(self: Any, dtype: Any) -> Any:
    """The bits read as another dtype: the last axis grows or shrinks with the size of an
    element.
    """
    old, new = dtypes.itemsize_bits(self.dtype), dtypes.itemsize_bits(dtype)
    if old == new:
        return lax.bitcast_convert_type(self, dtype)
    if old > new:
        out = lax.bitcast_convert_type(self, dtype)
        return lax.reshape(out, (*self.shape[:-1], self.shape[-1] * (old // new)))
    if self.shape[-1] * old % new:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            "bytes of the last axis of the array."
        )
    grouped = lax.reshape(self, (*self.shape[:-1], self.shape[-1] * old // new, new // old))
    return lax.bitcast_convert_type(grouped, dtype)


def _plain(x: Any) -> Any:
    """Bools and complex numbers as integers and floats of the same bits."""
    d = x.dtype
    if dtypes.is_bool(d):
        return lax.convert_element_type(x, np.uint8)
    if dtypes.is_complex(d):
        parts = lax.concatenate(
            [lax.expand_dims(v, (x.ndim,)) for v in (lax.real(x), lax.imag(x))], x.ndim
        )
        return lax.reshape(parts, (*x.shape[:-1], x.shape[-1] * 2)) if x.ndim else parts
    return x


def view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bits read as another dtype.

    The last axis grows or shrinks if the sizes of elements differ. Raises ValueError where that is
    not possible.

    >>> jnp.array([1.0]).view(jnp.int32)
    Array([1065353216], dtype=int32)
    """
    if type is not None:
        raise NotImplementedError(
            "`type` argument of array.view() is not supported. Fix: array.view(dtype)."
        )
    if dtype is None:
        return self
    wanted = user_dtype(dtype, "view")
    if wanted == self.dtype:
        return self
    if dtypes.is_extended(self.dtype) or dtypes.is_extended(wanted):
        raise TypeError("view: PRNG keys have no bits of their own. Fix: random.key_data(key).")
    if not self.ndim and dtypes.itemsize_bits(self.dtype) != dtypes.itemsize_bits(wanted):
        raise ValueError(
            "view() of a 0d array is only supported if the itemsize is unchanged. Fix: reshape it "
            "to (1,) first."
        )
    x = _plain(self)
    if dtypes.is_bool(wanted):
        return lax.ne(_by_bits(x, np.dtype("uint8")), np.uint8(0))
    if dtypes.is_complex(wanted):
        real = np.zeros((), wanted).real.dtype
        flat = x if x.dtype == real else _by_bits(x, real)
        if not flat.ndim or flat.shape[-1] % 2:
            raise ValueError(
                "When changing to a larger dtype, its size must be a divisor of the total size in "
                "bytes of the last axis of the array."
            )
        pairs = lax.reshape(flat, (*flat.shape[:-1], flat.shape[-1] // 2, 2))
        n = pairs.ndim - 1
        return lax.complex(
            lax.index_in_dim(pairs, 0, n, keepdims=False),
            lax.index_in_dim(pairs, 1, n, keepdims=False),
        )
    return x if x.dtype == wanted else _by_bits(x, wanted)


def byteswap(self: Any) -> Any:
    """The bytes of each element in reverse order.

    >>> jnp.array([1, 256], dtype=jnp.int16).byteswap()
    Array([256,   1], dtype=int16)
    """
    x = self
    size = x.dtype.itemsize
    if size == 1:
        return x
    if dtypes.is_complex(x.dtype):
        return lax.complex(byteswap(lax.real(x)), byteswap(lax.imag(x)))
    parts = lax.bitcast_convert_type(x, np.uint8)
    return lax.bitcast_convert_type(lax.rev(parts, (parts.ndim - 1,)), x.dtype)


def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
    """The module whose functions take this array."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"Only the array API up to 2024.12 is supported, got {api_version}")
    return sys.modules[__package__]


def __array_module__(self: Any, types: Any) -> Any:
    """As `__array_namespace__`, for those who ask so."""
    return sys.modules[__package__]


def to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device.

    `device`: a device or a sharding. NotImplementedError for a `stream`: CPUs have none.

    >>> jnp.zeros(3).to_device(pb.devices()[0]).device
    CpuDevice(id=0)
    """
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device(). Fix: leave it out.")
    return device_put(self, device)


def _flat(self: Any) -> Any:
    raise NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "astype": astype,
    "byteswap": byteswap,
    "clip": clip,
    "conj": complex_parts.conj,
    "conjugate": complex_parts.conjugate,
    "copy": copy,
    "diagonal": products.diagonal,
    "dot": dot,
    "flatten": flatten,
    "max": reductions.max,
    "mean": averages.mean,
    "min": reductions.min,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": manipulation.ravel,
    "repeat": manipulation.repeat,
    "reshape": reshape,
    "round": rounding.round,
    "squeeze": manipulation.squeeze,
    "std": averages.std,
    "sum": reductions.sum,
    "swapaxes": manipulation.swapaxes,
    "to_device": to_device,
    "trace": products.trace,
    "transpose": transpose,
    "var": averages.var,
    "view": view,
}


def compress(
    self: Any,
    condition: Any,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """The slices along `axis` where `condition` is true.

    `size` is needed under jit; arguments as for `jnp.compress`.

    >>> jnp.array([10, 20, 30]).compress(jnp.array([True, False, True]))
    Array([10, 30], dtype=int32)
    """
    return _taking.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


METHODS["compress"] = compress

# Methods whose module is imported when one is first asked for.
LATE_METHODS = {
    "argpartition": "sorting",
    "argsort": "sorting",
    "choose": "choosing",
    "cumprod": "cumulative",
    "cumsum": "cumulative",
    "nonzero": "nonzeros",
    "searchsorted": "sorting",
    "sort": "sorting",
    "take": "taking",
}


class LateMethod:
    """Stands in a class for a method of `LATE_METHODS` until it is first asked for, which puts the
    method in its place."""

    def __init__(self, cls: Any, name: str, native: bool) -> None:
        self.cls, self.name, self.native = cls, name, native

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        module = importlib.import_module(f".{LATE_METHODS[self.name]}", __package__)
        table = {self.name: getattr(module, self.name)}
        method = (methods(table) if self.native else table)[self.name]
        setattr(self.cls, self.name, method if self.native else _method(method))
        return getattr(owner if instance is None else instance, self.name)


def _swapped(self: Any) -> Any:
    return manipulation.transpose(self)


PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": _swapped,
    "mT": lambda self: manipulation.matrix_transpose(self),
    "real": lambda self: complex_parts.real(self),
    "imag": lambda self: complex_parts.imag(self),
    "at": lambda self: _scatter._IndexUpdateHelper(self),
    "flat": _flat,
}
PROPERTY_DOCS = {
    "T": """The array with its axes in reverse order.

    >>> jnp.array([[1, 2, 3], [4, 5, 6]]).T
    Array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """,
    "mT": """The array with its last two axes swapped. Raises ValueError for fewer than two axes.

    >>> jnp.zeros((5, 2, 3)).mT.shape
    (5, 3, 2)
    """,
    "real": """The real parts.

    >>> jnp.array([1 + 2j, 3]).real
    Array([1., 3.], dtype=float32)
    """,
    "imag": """The imaginary parts: zeros for real arrays.

    >>> jnp.array([1 + 2j, 3]).imag
    Array([2., 0.], dtype=float32)
    """,
    "at": """Copies of the array with some elements changed: `x.at[idx].set(y)`, and `add`,
    `subtract`, `multiply`, `divide`, `power`, `min`, `max`, `apply`; `get` reads.

    `idx` as in `x[idx]`. Elements that it names twice are added (multiplied, ...) twice. `mode`:
    what becomes of indices that are out of range: "drop" (nothing is written; "fill" for `get`),
    "clip", "wrap" or "promise_in_bounds"; `fill_value`: what `get` gives there.

    >>> x = jnp.zeros(4)
    >>> x.at[1].set(5.0)
    Array([0., 5., 0., 0.], dtype=float32)
    >>> x.at[jnp.array([0, 0, 9])].add(1.0)
    Array([2., 0., 0., 0.], dtype=float32)
    """,
    "flat": """Refused with NotImplementedError: an iterator that writes is not possible.

    >>> jnp.zeros((2, 2)).flat
    Traceback (most recent call last):
        ...
    NotImplementedError: ...
    """,
}
FACTS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda self: self.aval.shape,
    "dtype": lambda self: self.aval.dtype,
    "ndim": lambda self: len(self.aval.shape),
    "size": lambda self: self.aval.size,
    "weak_type": lambda self: self.aval.weak_type,
    "nbytes": lambda self: self.aval.size * self.aval.dtype.itemsize,
    "itemsize": lambda self: self.aval.dtype.itemsize,
}


def _method(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function as a method: plain functions are bound by Python itself."""
    if type(fun).__name__ == "function":
        return fun

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fun(self, *args, **kwargs)

    method.__name__ = getattr(fun, "__name__", "method")
    method.__doc__ = fun.__doc__
    return method


# Libraries call these two, as JAX has them.
def _split(self: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """`jnp.split` of it."""
    return _joining.split(self, indices_or_sections, axis)  # type: ignore[no-any-return]


def _unstack(self: Any, axis: int = 0) -> tuple[Any, ...]:
    """`jnp.unstack` of it."""
    return _joining.unstack(self, axis=axis)  # type: ignore[no-any-return]


def install(cls: Any, keep: frozenset[str] = frozenset(), native: bool = False) -> None:
    """Gives a class the methods and properties of arrays, but for those in `keep`, which it has of
    its own. `native`: the methods are eager functions.
    """
    table = methods(METHODS, ("to_device",)) if native else METHODS
    for name, fun in table.items():
        if name not in keep:
            setattr(cls, name, fun if getattr(fun, "_eager", False) else _method(fun))
    for name in LATE_METHODS.keys() - keep:
        setattr(cls, name, LateMethod(cls, name, native))
    getters = methods(PROPERTIES, ("at", "flat")) if native else PROPERTIES
    for name, getter in getters.items():
        if name not in keep:
            setattr(cls, name, property(getter, doc=PROPERTY_DOCS[name]))
    for fun in (__array_namespace__, __array_module__, _split, _unstack):
        setattr(cls, fun.__name__, fun)


# What only moves elements acts on arrays of keys too.
KEY_METHODS = ("compress", "diagonal", "repeat", "swapaxes", "take")
KEY_PROPERTIES = ("at", "mT")


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"arrays of PRNG keys have no {name}. Fix: use random.key_data(keys) for their words."
        )

    method.__name__ = name
    return method


def _install_on_keys() -> None:
    for name in KEY_METHODS:
        late = LateMethod(PRNGKeyArray, name, False)
        setattr(PRNGKeyArray, name, _method(METHODS[name]) if name in METHODS else late)
    for name in KEY_PROPERTIES:
        setattr(PRNGKeyArray, name, property(PROPERTIES[name]))
    has = set(dir(PRNGKeyArray))
    for name in {*METHODS, *LATE_METHODS, "item"} - has:
        setattr(PRNGKeyArray, name, _refused(name))
    for name in PROPERTIES:
        if name not in vars(PRNGKeyArray):
            setattr(PRNGKeyArray, name, property(_refused(name)))


def _view_or(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """What a traced array does; a traced reference gives a view of itself."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ref_aval(self.aval):
            return operations[name](self, *args, **kwargs)
        return plain(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _install_views() -> None:
    """Tracers may be of references, whose views are not arrays."""
    for name in ("reshape", "transpose"):
        setattr(Tracer, name, _view_or(name, getattr(Tracer, name)))
    at, swapped = PROPERTIES["at"], _view_or("transpose", _swapped)
    either = lambda self: (RefIndexer if is_ref_aval(self.aval) else at)(self)
    for name, getter in (("at", either), ("T", swapped)):
        setattr(Tracer, name, property(getter, doc=PROPERTY_DOCS[name]))


def _copied(self: Any, memo: Any = None) -> Any:
    """What the module `copy` makes of a traced array: a copy in the program too."""
    return copy_p.bind(self) if isinstance(self.aval, ShapedArray) else self


def install_all() -> None:
    """Methods and operators on tracers and on arrays."""
    for name, getter in FACTS.items():
        setattr(Tracer, name, property(getter, doc=f"`{name}` of the aval."))
    install(Tracer)
    _install_views()
    for name in ("__copy__", "__deepcopy__"):
        setattr(Tracer, name, _copied)
    install(ArrayImpl, native=True)
    install(LazyPair, native=True)
    _install_on_keys()
    operators.install_all()


install_all()
