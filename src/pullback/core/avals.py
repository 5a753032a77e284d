"""Abstract values: the types of the jaxpr grammar. An open class; every field is changed through
`update` only.
"""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, dtypes
from ..errors import JAXTypeError
from ..forking import renewed


class AbstractValue:
    """The type of a value in a jaxpr. Subclasses say how they compare, print, and look as a
    tangent.

    >>> isinstance(pb.typeof(1.0), pb.core.AbstractValue)
    True
    """

    __slots__ = ()
    # What types of arrays may say of meshes; others say nothing.
    _sharding: Any = None
    manual_axis_type: Any = None
    vma: Any = frozenset()
    is_high = False
    has_qdd = False
    is_reference = False

    def normalize(self) -> AbstractValue:
        return self

    # What a value of a high-level type is made of; others are what they are.
    def lo_ty(self) -> list[Any]:
        return [self]

    def lower_val(self, val: Any) -> list[Any]:
        return [val]

    def raise_val(self, *vals: Any) -> Any:
        (val,) = vals
        return val

    def to_tangent_aval(self) -> AbstractValue:
        raise TypeError(f"values of type {self} have no tangents")

    def at_least_vspace(self) -> AbstractValue:
        return self.to_tangent_aval()

    def to_ct_aval(self) -> AbstractValue:
        return self.to_tangent_aval()

    def update(self, **changes: Any) -> AbstractValue:
        raise TypeError(f"values of type {self} have no fields to update")

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return repr(self)

    def strip_weak_type(self) -> AbstractValue:
        return self

    def __repr__(self) -> str:
        fields = ",".join(f"{k}={v}" for k, v in getattr(self, "__dict__", {}).items())
        return f"{type(self).__name__}({fields})"


class AbstractToken(AbstractValue):
    """The type of tokens, which order effects.

    >>> from pullback.extend import core
    >>> isinstance(pb.typeof(lax.create_token()), core.AbstractToken)
    True
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractToken)

    def __hash__(self) -> int:
        return hash(AbstractToken)

    def to_tangent_aval(self) -> AbstractValue:
        return self

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return "Tok"

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()


class ManualAxisType:
    """How a value varies over the manual axes of a mesh: varying, unreduced or reduced over
    each.

    >>> pb.sharding.ManualAxisType(varying=("i",)).varying
    frozenset({'i'})
    """

    __slots__ = ("reduced", "unreduced", "varying")

    def __init__(self, varying: Any = (), unreduced: Any = (), reduced: Any = ()) -> None:
        self.varying, self.unreduced, self.reduced = map(frozenset, (varying, unreduced, reduced))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualAxisType) and (
            self.varying,
            self.unreduced,
            self.reduced,
        ) == (
            other.varying,
            other.unreduced,
            other.reduced,
        )

    def __hash__(self) -> int:
        return hash((self.varying, self.unreduced, self.reduced))

    def __bool__(self) -> bool:
        return bool(self.varying or self.unreduced or self.reduced)

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
            f"reduced={self.reduced})"
        )


no_manual_axes = ManualAxisType()


# Has any type said that it lies over axes of a mesh, or that it varies over some?
said = [False]


def _for_shape(sharding: Any, shape: tuple[Any, ...]) -> Any:
    """What the type of an array of this shape says for a sharding: an entry for each axis; None,
    so that equal types are equal, if it lies over no axis of a mesh. ValueError if a size cannot
    be divided."""
    spec = getattr(sharding, "spec", None)
    if spec is None or not (any(p is not None for p in spec) or spec.unreduced or spec.reduced):
        return None
    said[0] = True
    if len(spec) < len(shape):
        parts = (*spec, *(None,) * (len(shape) - len(spec)))
        sharding = sharding.update(spec=spec.update(partitions=parts))
    sizes = sharding.mesh.shape
    for k, (n, part) in enumerate(zip(shape, spec)):
        names = part if type(part) is tuple else (part,)
        times = math.prod(sizes.get(name, 1) for name in names)
        if type(n) is int and n % times:
            raise ValueError(
                f"Sharding spec {names} implies that array axis {k} is partitioned {times} times, "
                f"but does not evenly divide the dimension size {n}. Got shape: {shape} and "
                f"sharding {sharding}"
            )
    return sharding


class Space(enum.Enum):
    """The kinds of memory that `device_put` may name."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__


class UnshapedArray(AbstractValue):
    """A dtype and a weakness, without a shape: the base of ShapedArray."""

    __slots__ = ()


_unsharded: list[Callable[[int], Any]] = []


def set_unsharded(of_rank: Callable[[int], Any]) -> None:
    """Says what `unsharded` gives: the layer that knows shardings does."""
    _unsharded[:] = [of_rank]


def unsharded(ndim: int) -> Any:
    """The sharding of arrays of this rank that lie on no mesh."""
    return _unsharded[-1](ndim) if _unsharded else None


class ShapedArray(UnshapedArray):
    """The type of arrays: shape (ints or symbolic dims), dtype (NumPy or extended), weak type,
    sharding, manual axes, memory space.

    >>> pb.core.ShapedArray((3,), np.dtype("float32")).str_short()
    'float32[3]'
    """

    __slots__ = (
        "__weakref__",
        "_hash",
        "_memory_space",  # None where it is the device's, as it is of nearly all
        "_sharding",
        "buffer_layout",  # set by the runtime: how a buffer of such an array lies
        "dtype",
        "manual_axis_type",
        "shape",
        "weak_type",
    )
    array_abstraction_level = 2
    buffer_layout: bytes

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        weak_type: bool = False,
        *,
        sharding: Any = None,
        manual_axis_type: ManualAxisType = no_manual_axes,
        memory_space: Any = None,
    ) -> None:
        self.shape = shape if type(shape) is tuple else tuple(shape)
        self.dtype = (
            dtype if isinstance(dtype, (np.dtype, dtypes.ExtendedDType)) else dtypes.dtype(dtype)
        )
        self.weak_type = weak_type
        self._sharding = None if sharding is None else _for_shape(sharding, self.shape)
        self.manual_axis_type = manual_axis_type
        self._memory_space = None if memory_space is Space.Device else memory_space
        if self._memory_space is not None:
            said[0] = True
        self._hash = hash((self.shape, self.dtype, weak_type))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        total = 1
        for n in self.shape:
            total = total * n
        return total

    @property
    def sharding(self) -> Any:
        """How the axes lie on a mesh. Where nothing was said: on none, an empty mesh's."""
        return unsharded(len(self.shape)) if self._sharding is None else self._sharding

    @property
    def memory_space(self) -> Any:
        """The memory that an array is in: the device's where nothing was said."""
        return Space.Device if self._memory_space is None else self._memory_space

    @property
    def mat(self) -> ManualAxisType:
        """`manual_axis_type`, by its short name."""
        return self.manual_axis_type  # type: ignore[no-any-return]

    @property
    def vma(self) -> frozenset[Any]:
        """The manual axes over which a value varies."""
        return self.manual_axis_type.varying  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is type(self)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self._sharding == other._sharding
            and self.manual_axis_type == other.manual_axis_type
            and self._memory_space == other._memory_space
        )

    def __hash__(self) -> int:
        return self._hash

    def update(self, **changes: Any) -> ShapedArray:
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "sharding": self._sharding,
            "manual_axis_type": self.manual_axis_type,
            "memory_space": self._memory_space,
        }
        fields.update(changes)
        if self._sharding is not None and "sharding" not in changes:
            if fields["shape"] != self.shape:
                fields["sharding"] = None  # what it said was of other axes
        return type(self)(
            fields.pop("shape"), fields.pop("dtype"), fields.pop("weak_type"), **fields
        )

    def to_tangent_aval(self) -> ShapedArray:
        # Weakness is kept, as JAX keeps it: a tangent promotes as its primal does.
        d = dtypes.tangent_dtype(self.dtype)
        return self if d == self.dtype else self.update(dtype=d, weak_type=self.weak_type)

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        name = (
            dtypes.short_name(self.dtype)
            if short_dtypes
            else getattr(self.dtype, "name", str(self.dtype))
        )
        if self.dtype == dtypes.float0:
            name = "float0"
        kind = "" if self._memory_space is None else f"<{self._memory_space.name.lower()}>"
        said = f"{name}{kind}[{','.join(self._axes())}]"
        if self._sharding is None and self.manual_axis_type is no_manual_axes:
            return said
        if mesh_axis_types and self._sharding is not None:
            said += _axis_types(self._sharding.mesh)
        return said + self._variance()

    def _variance(self) -> str:
        """Over which manual axes a value varies, and over which sums are to come or were done."""
        spec, manual = getattr(self._sharding, "spec", None), self.manual_axis_type
        parts = []
        for letter, name in (("V", "varying"), ("U", "unreduced"), ("R", "reduced")):
            axes = sorted(getattr(manual, name) | getattr(spec, name, frozenset()), key=_place)
            if axes:
                listed = ",".join(map(str, axes))
                parts.append(f"{letter}:{listed if len(axes) == 1 else f'({listed})'}")
        return f"{{{', '.join(parts)}}}" if parts else ""

    def _axes(self) -> list[str]:
        """The axes' sizes, with `@` and the axes of the mesh over which a type says they lie."""
        out = [str(n) for n in self.shape]
        for k, part in enumerate(getattr(self._sharding, "spec", ())[: len(out)]):
            if part is not None and part != ():
                over = f"({','.join(map(str, part))})" if isinstance(part, tuple) else part
                out[k] += f"@{over}"
        return out

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __reduce__(self) -> Any:
        return _rebuild, (
            self.shape, self.dtype, self.weak_type, self._sharding, self._memory_space,
            self.manual_axis_type,
        )  # fmt: skip

    # The attributes that arrays and tracers share are read through the aval by upper layers.


def _rebuild(
    shape: Any, dtype: Any, weak_type: bool, sharding: Any, memory_space: Any, manual: Any = None
) -> ShapedArray:
    return ShapedArray(
        shape, dtype, weak_type, sharding=sharding, memory_space=memory_space,
        manual_axis_type=manual or no_manual_axes,
    )  # fmt: skip


# The order of the axes of the mesh in force: what the layer that knows meshes says.
order_of_axes: list[Callable[[], Any]] = [lambda: ()]


def _place(name: Any) -> Any:
    names = order_of_axes[0]()
    return (names.index(name), "") if name in names else (len(names), str(name))


def _axis_types(mesh: Any) -> str:
    """The axes of a mesh by their types, as messages show them."""
    kinds: dict[str, list[Any]] = {}
    for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True):
        kinds.setdefault(kind.name, []).append(name)
    return f"({{{', '.join(f'{kind}: {tuple(names)}' for kind, names in kinds.items())}}})"


_interned: dict[ShapedArray, ShapedArray] = {}
_intern_lock = renewed(threading.Lock())


def intern(aval: ShapedArray) -> ShapedArray:
    """The one object for all avals equal to this: native fast paths compare avals by address."""
    found = _interned.get(aval)
    if found is None:
        with _intern_lock:
            found = _interned.setdefault(aval, aval)
    return found


_TYPEOF: dict[type, Callable[[Any], AbstractValue]] = {}
# Classes of libraries whose values are of high-level types; they may look like arrays.
high_types: set[type] = set()


def register_typeof(cls: type, rule: Callable[[Any], AbstractValue]) -> None:
    """Makes values of type `cls` acceptable to primitives; `rule(x)` is their aval."""
    _TYPEOF[cls] = rule


_numpy_avals: dict[tuple[Any, ...], ShapedArray] = {}
_MOST_NUMPY_AVALS = 4096


def _numpy_aval(x: Any) -> ShapedArray:
    key = (x.shape, x.dtype, config.enable_x64.get())
    found = _numpy_avals.get(key)
    if found is None:
        found = _checked_numpy_aval(x)
        if len(_numpy_avals) >= _MOST_NUMPY_AVALS:
            _numpy_avals.clear()
        _numpy_avals[key] = found
    return found


def _checked_numpy_aval(x: Any) -> ShapedArray:
    d = x.dtype
    if not d.isnative:  # arrays of ours are in the machine's order of bytes
        d = d.newbyteorder("=")
    if d not in dtypes._KNOWN:  # text, dates, floats of 128 bits
        raise JAXTypeError(
            f"Value {x!r} with dtype {d} is not a valid JAX array type. Only arrays of numeric "
            "types are supported by JAX. Fix: convert it to numbers, x.astype(float)."
        )
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(d))


_scalar_avals: dict[tuple[type, bool], ShapedArray] = {}


def _scalar_aval(x: Any) -> ShapedArray:
    kind = type(x)
    x64 = config.enable_x64.get()
    if kind is int and not -(2**31) <= x < 2**31:
        return _large_int_aval(x, x64)
    aval = _scalar_avals.get((kind, x64))
    if aval is None:
        if kind not in dtypes.python_scalar_dtypes:  # a class derived from one of them
            return _scalar_aval(plain_scalar(x))
        aval = aval_of_numbers(kind, x64)
    return aval


def aval_of_numbers(kind: type, x64: bool) -> ShapedArray:
    """The aval of Python's numbers of a type: bool, int, float or complex."""
    aval = _scalar_avals.get((kind, x64))
    if aval is None:
        d = dtypes.python_scalar_dtypes[kind]
        if not x64:
            d = dtypes.narrowed(d)
        aval = _scalar_avals[kind, x64] = intern(ShapedArray((), d, weak_type=kind is not bool))
    return aval


def plain_scalar(x: Any) -> Any:
    """`x`, a number of a class derived from Python's, as Python's own."""
    kind = dtypes.python_scalar_type(x)
    assert kind is not None, x
    return kind(x)


def _large_int_aval(x: int, x64: bool) -> ShapedArray:
    if x64 and -(2**63) <= x < 2**63:
        return ShapedArray((), np.dtype("int64"), weak_type=True)
    if 0 <= x < 2 ** (64 if x64 else 32):
        fix = f"give it a dtype, as in np.uint{64 if x64 else 32}({x})"
    else:
        fix = "enable x64" if not x64 and -(2**63) <= x < 2**64 else f"make it a float: float({x})"
    raise OverflowError(
        f"Python int {x} too large to convert to {'int64' if x64 else 'int32'}. Fix: {fix}."
    )


for _kind in (bool, int, float, complex):
    register_typeof(_kind, _scalar_aval)
register_typeof(np.ndarray, _numpy_aval)
register_typeof(np.generic, _numpy_aval)


def typeof(x: Any) -> Any:
    """The aval of any value that a primitive accepts: array, tracer, NumPy array or scalar, Python
    scalar.

    Raises TypeError for anything else.

    >>> pb.typeof(jnp.zeros((2, 3))), pb.typeof(1.5)
    (ShapedArray(float32[2,3]), ShapedArray(float32[], weak_type=True))
    """
    if high_types and type(x) in high_types:
        return _TYPEOF[type(x)](x)
    aval = getattr(x, "aval", None)
    if aval.__class__ is ShapedArray or (aval is not None and isinstance(aval, AbstractValue)):
        return aval
    rule = _TYPEOF.get(type(x))
    if rule is None:
        rule = _find_rule(x)
    return rule(x)


def _find_rule(x: Any) -> Callable[[Any], AbstractValue]:
    for cls in type(x).__mro__:
        if cls.__name__ == "MaskedArray" and cls.__module__.startswith("numpy"):
            raise ValueError(
                "numpy masked arrays are not supported as direct inputs to JAX functions. Use "
                "arr.filled() to convert the value to a standard numpy array."
            )
        if cls in _TYPEOF:
            _TYPEOF[type(x)] = _TYPEOF[cls]
            return _TYPEOF[cls]
    if hasattr(x, "__jax_array__"):
        return lambda value: typeof(value.__jax_array__())
    raise TypeError(
        f"Argument '{x}' of type {type(x)} is not a valid JAX type. "
        "Fix: pass arrays or numbers (or a pytree of them), or mark the argument static with "
        "static_argnums/static_argnames."
    )


def is_operand(x: Any) -> bool:
    """Has `x` a type that primitives know? Symbolic zeros and what else has an aval included."""
    if hasattr(x, "aval"):
        return True
    try:
        typeof(x)
    except TypeError:
        return False
    except Exception:  # a number out of range, a masked array: they say themselves what is wrong
        return True
    return True


def is_valid_value(x: Any) -> bool:
    """Can `x` be an operand of a primitive?

    >>> from pullback.extend import core
    >>> core.valid_jaxtype(1.0), core.valid_jaxtype("text")
    (True, False)
    """
    try:
        typeof(x)
    except (TypeError, OverflowError):
        return False
    return True


def typematch(a: AbstractValue, b: AbstractValue) -> bool:
    """Equal up to weak type."""
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return (
            a.shape == b.shape
            and a.dtype == b.dtype
            and (a._sharding is b._sharding or a._sharding == b._sharding)
            and a.manual_axis_type == b.manual_axis_type
        )
    return bool(a == b)


def zeros_like_aval(aval: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of zeros of the aval's shape and (physical) dtype, sharing one element of
    memory.
    """
    return np.broadcast_to(np.zeros((), aval.dtype), aval.shape)
