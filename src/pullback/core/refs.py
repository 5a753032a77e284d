"""Mutable references: their type, their effect, and the object that users hold.

A reference is a cell with an array in it. Outside of transformations it is a `Ref`, under them a
tracer whose aval is an `AbstractRef`; both are read and written by the primitives of control/refs,
which give their indexing functions to `operations` here. Programs that mention references have
`ref_effect`; before a backend sees them they are discharged: references become values that are
passed in and handed out.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import tree
from . import effects as fx
from .avals import AbstractValue, typeof
from .jaxpr import jaxprs_in_params
from .trace import Tracer, aval_method


class RefEffect(fx.Effect):
    """The program reads or writes a reference."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefEffect)

    def __hash__(self) -> int:
        return hash(RefEffect)

    def __repr__(self) -> str:
        return "Ref"


ref_effect = RefEffect()
for _set in (
    fx.control_flow_allowed_effects,
    fx.custom_derivatives_allowed_effects,
    fx.lowerable_effects,
    fx.remat_allowed_effects,
    fx.vmap_allowed_effects,
):
    _set.add_type(RefEffect)


class AbstractRef(AbstractValue):
    """The type of references to arrays of the type `inner_aval`.

    >>> pb.typeof(pb.new_ref(jnp.zeros(3)))
    Ref{float32[3]}
    """

    __slots__ = ("inner_aval", "kind", "memory_space", "weak_type")
    is_reference = True

    def __init__(
        self, inner_aval: Any, memory_space: Any = None, kind: Any = None, weak_type: bool = False
    ) -> None:
        # `weak_type`: what is read is weakly typed, as the array was that the reference was made
        # of; `inner_aval`, the type of the array in it, never is.
        self.inner_aval, self.memory_space, self.kind = inner_aval, memory_space, kind
        self.weak_type = weak_type

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: len(self.inner_aval.shape))
    size = property(lambda self: self.inner_aval.size)
    sharding = property(lambda self: self.inner_aval.sharding)
    vma = property(lambda self: self.inner_aval.vma)

    def update(
        self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None, **changes: Any
    ) -> AbstractRef:
        inner = self.inner_aval if inner_aval is None else inner_aval
        return AbstractRef(
            inner.update(**changes) if changes else inner,
            self.memory_space if memory_space is None else memory_space,
            self.kind if kind is None else kind,
            self.weak_type,
        )

    # The methods of a tracer of this type.
    @aval_method
    def get(self: Any, idx: Any = ...) -> Any:
        return operations["get"](self, idx)

    @aval_method
    def set(self: Any, value: Any, idx: Any = ...) -> None:
        operations["set"](self, idx, value)

    @aval_method
    def swap(self: Any, value: Any, idx: Any = ...) -> Any:
        return operations["swap"](self, idx, value)

    @aval_method
    def addupdate(self: Any, value: Any, idx: Any = ...) -> None:
        operations["addupdate"](self, idx, value)

    @aval_method
    def bitcast(self: Any, dtype: Any) -> Any:
        return operations["bitcast"](self, dtype)

    # What a tracer of this type does when it is indexed.
    def _getitem(self, tracer: Any, idx: Any) -> Any:
        return operations["get"](tracer, idx)

    def _setitem(self, tracer: Any, idx: Any, value: Any) -> None:
        operations["set"](tracer, idx, value)

    def to_tangent_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_tangent_aval(), self.memory_space, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((AbstractRef, *self._key()))

    def _key(self) -> tuple[Any, ...]:
        return self.inner_aval, self.memory_space, self.weak_type

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        return f"Ref{space}{{{self.inner_aval.str_short(short_dtypes=short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    __str__ = __repr__


def is_ref_aval(aval: Any) -> bool:
    return type(aval) is AbstractRef


def is_ref(x: Any) -> bool:
    """Is `x` a reference: a Ref, or a tracer of one?"""
    if type(x) is Ref:
        return True
    return isinstance(x, Tracer) and type(x.aval) is AbstractRef


def freed_error(aval: Any) -> ValueError:
    """What every use of a freed or frozen reference raises."""
    return ValueError(
        f"the reference of type {aval} was freed. Fix: read it before free_ref, or make a new one "
        "with new_ref."
    )


class _Operations(dict[str, Callable[..., Any]]):
    """get(ref, index), set(ref, index, value), swap and addupdate like set; views: index(ref,
    index), reshape, transpose and bitcast; check_numbers(jaxpr) before a program is batched;
    discharge(jaxpr, consts) for programs whose references are their own; taken_apart(primitive,
    args, params) for calls that are differentiated and write references in the backward pass.
    control/refs enters them: few programs need it.
    """

    def __missing__(self, name: str) -> Callable[..., Any]:
        importlib.import_module("pullback.control.refs")
        return self[name]


operations = _Operations()


class _RefMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return is_ref(x)


class Ref(metaclass=_RefMeta):
    """A reference to an array that operations can change in place; made by `new_ref`.

    >>> r = pb.new_ref(jnp.zeros(3)); r[0] = 5.0; r[...]
    Array([5., 0., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_aval", "_value")

    def __init__(self, aval: AbstractRef, value: Any) -> None:
        self._aval, self._value = aval, value

    aval = property(lambda self: self._aval)
    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)
    ndim = property(lambda self: self._aval.ndim)
    size = property(lambda self: self._aval.size)
    sharding = property(lambda self: getattr(self._held(), "sharding", None))
    committed = property(lambda self: bool(getattr(self._held(), "committed", False)))
    format = property(lambda self: getattr(self._held(), "format", None))

    def _held(self) -> Any:
        """The array; ValueError if the reference was frozen or freed."""
        if self._value is None:
            raise freed_error(self._aval)
        return self._value

    def unsafe_buffer_pointer(self) -> Any:
        return self._held().unsafe_buffer_pointer()

    def addupdate(self, value: Any, idx: Any = ...) -> None:
        """Adds to the elements at an index."""
        operations["addupdate"](self, idx, value)

    @property
    def at(self) -> Any:
        """`ref.at[idx]`: a view of a part, which is read and written as a reference is.

        >>> r = pb.new_ref(jnp.zeros((2, 2))); r.at[0][1] = 5.0; r[...]
        Array([[0., 5.],
               [0., 0.]], dtype=float32)
        """
        return RefIndexer(self)

    def __getitem__(self, idx: Any) -> Any:
        return operations["get"](self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        operations["set"](self, idx, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"a reference of type {self._aval} cannot be iterated over. Fix: read it first, "
            "ref[...]."
        )

    def __repr__(self) -> str:
        shown = repr(self._value).removeprefix("Array")
        return f"Ref{shown[:-1]}, weak_type=True)" if self._aval.weak_type else f"Ref{shown}"


class RefIndexer:
    """`ref.at`: indexed, it is a view of a part of the reference."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, idx: Any) -> TransformedRef:
        return operations["index"](self.ref, idx)  # type: ignore[no-any-return]


class TransformedRef:
    """A view of a reference: a part of it (`ref.at[idx]`), or the whole in another shape, order or
    dtype. What is written into it is written into the reference. A pytree of the reference and of
    the indices that are not slices.

    `transforms`: what the view does, one after the other. Raises ValueError for indices that are
    not made of integers, integer arrays and slices.

    >>> r = pb.new_ref(jnp.arange(6.0).reshape(2, 3)); r.at[1].at[1:].set(jnp.zeros(2)); r[1]
    Array([3., 0., 0.], dtype=float32)
    >>> r.at[:].T[0]
    Array([0., 3.], dtype=float32)
    """

    __slots__ = ("ref", "transforms")

    is_dynamic_size = property(lambda self: False)
    multiref = property(lambda self: False)
    dtype = property(lambda self: self._type()[1])
    shape = property(lambda self: self._type()[0])
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    at = property(lambda self: RefIndexer(self))
    T = property(lambda self: operations["transpose"](self))

    def __init__(self, ref: Any, transforms: tuple[Any, ...]) -> None:
        self.ref, self.transforms = ref, transforms

    def _type(self) -> tuple[tuple[int, ...], Any]:
        shape, dtype = self.ref.shape, self.ref.dtype
        for transform in self.transforms:
            shape, dtype = transform.type_of(shape, dtype)
        return shape, dtype

    @property
    def type(self) -> Any:
        """The type of a reference like the view."""
        aval = typeof(self.ref)
        shape, dtype = self._type()
        return aval.update(shape=shape, dtype=dtype)

    def get(self, idx: Any = ()) -> Any:
        return operations["get"](self, idx)

    def set(self, value: Any, idx: Any = ()) -> None:
        operations["set"](self, idx, value)

    def swap(self, value: Any, idx: Any = ()) -> Any:
        return operations["swap"](self, idx, value)

    def addupdate(self, value: Any, idx: Any = ()) -> None:
        operations["addupdate"](self, idx, value)

    def reshape(self, *shape: Any) -> TransformedRef:
        return operations["reshape"](self, *shape)  # type: ignore[no-any-return]

    def transpose(self, permutation: Sequence[int]) -> TransformedRef:
        return operations["transpose"](self, permutation)  # type: ignore[no-any-return]

    def bitcast(self, dtype: Any) -> TransformedRef:
        return operations["bitcast"](self, dtype)  # type: ignore[no-any-return]

    def __getitem__(self, idx: Any) -> Any:
        return operations["get"](self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        operations["set"](self, idx, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is TransformedRef and (self.ref, self.transforms) == (
            other.ref,
            other.transforms,
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"a view of type {self.type} cannot be iterated over. Fix: read it, view[...]."
        )

    def __repr__(self) -> str:
        return f"TransformedRef(ref={self.ref!r}, transforms={self.transforms!r})"


tree.register_pytree_node(
    TransformedRef, lambda v: ((v.ref, v.transforms), None), lambda _, xs: TransformedRef(*xs)
)


def holds_refs(primitive: Any, params: dict[str, Any]) -> bool:
    """Does an operation hold a program that mentions references, and know how to discharge it?"""
    return "discharge" in primitive.rules and any(
        ref_effect in j.effects for j in jaxprs_in_params(params)
    )


def writes_late(params: dict[str, Any]) -> bool:
    """Does an operation hold a call of a function with its own backward pass that is given a
    reference? The backward pass may write it: it must be the reference itself, not its value."""
    return any(map(_writes_late, jaxprs_in_params(params)))


def _writes_late(jaxpr: Any) -> bool:
    found = jaxpr.derived.get("writes late")
    if found is None:
        found = jaxpr.derived["writes late"] = any(
            writes_late(e.params)
            or (
                e.primitive.name == "custom_vjp_call" and any(is_ref_aval(v.aval) for v in e.invars)
            )
            for e in jaxpr.eqns
        )
    return bool(found)


def check_not_returned(x: Any, what: Callable[[], str], path: Callable[[], str] = str) -> None:
    """ValueError if a function that is traced, as `what` says, returns a reference. `path()`: where
    in its result it is."""
    if is_ref(x):
        where = f" at output tree path {path()}" if path() else ""
        raise ValueError(
            f"{what()} returned a mutable array reference of type {x.aval}{where}, but mutable "
            f"array references cannot be returned.{_origin_of(x)}\n\nFix: return its value, "
            "ref[...]; a reference that the function is given is changed in place, and need not be "
            "returned."
        )


def _origin_of(x: Any) -> str:
    """Where a traced reference comes from: an argument of the program, or a line that made it."""
    var, trace = getattr(x, "_var", None), getattr(x, "_trace", None)
    invars, info = getattr(trace, "invars", ()), getattr(trace, "debug_info", None)
    for k, v in enumerate(invars):
        if v is var and info is not None:
            name = name_of_argument(lambda: info.arg_names, k)
            return f"\n\nThe returned mutable array was passed in as the argument {name}."
    made = getattr(x, "source_info", None)
    if made is None or made.code is None:
        return ""
    return f"\n\nThe returned mutable array was created on line {made.summary()}."


def ref_identity(x: Any) -> int:
    """What tells references apart: tracers of one variable are one reference."""
    return id(getattr(x, "_var", x))


def ref_places(
    values: Sequence[Any], what: Callable[[], str], names: Callable[[], Sequence[str] | None]
) -> dict[int, int]:
    """The references among the flat arguments of a traced function: identity -> position.
    ValueError if one comes twice: the program would have two cells for it.
    """
    found: dict[int, int] = {}
    for k, x in enumerate(values):
        if type(x) is not Ref and not (isinstance(x, Tracer) and is_ref(x)):
            continue
        first = found.setdefault(ref_identity(x), k)
        if first != k:
            a, b = (name_of_argument(names, n) for n in (first, k))
            raise ValueError(
                "only one reference to a mutable array may be passed as an argument to a function, "
                f"but when tracing {what()} the mutable array reference of type {x.aval} appeared "
                f"at both {a} and {b}. Fix: pass it once."
            )
    return found


def check_not_closed_over(
    found: dict[int, int],
    consts: Sequence[Any],
    what: Callable[[], str],
    names: Callable[[], Sequence[str] | None],
) -> None:
    """ValueError if a reference that is an argument is closed over as well."""
    for c in consts:
        at = found.get(ref_identity(c)) if is_ref(c) else None
        if at is not None:
            raise ValueError(
                f"when tracing {what()}, a mutable array reference of type {c.aval} was both "
                f"closed over and passed as the argument {name_of_argument(names, at)}. Fix: use "
                "one of them."
            )


def name_of_argument(names: Callable[[], Sequence[str] | None], k: int) -> str:
    """What to call the k-th leaf of a call's arguments."""
    given = names()
    return given[k] if given and k < len(given) else f"number {k}"
