"""What every transformation does with a user's arguments: which are static, which are
differentiated, what a bad one is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, tree
from ..control.common import check_results
from ..core.avals import ManualAxisType, ShapedArray, no_manual_axes, register_typeof, typeof
from ..core.high import typeof_now
from ..core.jaxpr import DebugInfo
from ..core.naming import arg_names, fun_source_info
from ..core.refs import AbstractRef
from ..core.trace import Tracer
from ..runtime.layouts import Format, Layout
from ..runtime.meshes import get_mesh
from ..runtime.partition_spec import PartitionSpec
from ..runtime.shardings import NamedSharding, Sharding
from ..runtime.spreading import type_sharding


class ShapeDtypeStruct:
    """A shape and a dtype, where an array's value does not matter (`eval_shape`,
    `jit(f).lower`).

    `dtype`: anything that names one. `weak_type`: whether it yields to those of other operands.
    `sharding`: how the array lies, a sharding, a spec over the
    mesh in context, or a `Format`, whose layout it has, too. `manual_axis_type`: how it varies
    over the manual axes of a mesh. `is_ref`: for a mutable reference to such an array.
    Raises ValueError if the dtype is None, and for a sharding that is none or is of more axes.

    >>> pb.eval_shape(jnp.sum, pb.ShapeDtypeStruct((2, 3), jnp.float32))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """

    __slots__ = (
        "_layout",
        "_weak_type",
        "dtype",
        "is_ref",
        "manual_axis_type",
        "shape",
        "sharding",
    )
    has_no_value = True

    _layout: Any
    _weak_type: bool
    dtype: Any
    is_ref: bool
    manual_axis_type: Any
    shape: tuple[Any, ...]
    sharding: Any

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: Any = None,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        if manual_axis_type is not None and not isinstance(manual_axis_type, ManualAxisType):
            raise TypeError(
                "`manual_axis_type` argument passed to ShapeDtypeStruct should be of type "
                f"`jax.sharding.ManualAxisType`. Got type {type(manual_axis_type)}"
            )
        put = object.__setattr__
        shape, layout = tuple(shape), None
        if sharding is not None:
            sharding, layout = _placed(sharding, shape)
        put(self, "shape", shape)
        put(self, "dtype", dtypes.dtype(dtype))
        put(self, "sharding", sharding)
        put(self, "_layout", layout)
        put(self, "_weak_type", weak_type)
        put(self, "manual_axis_type", manual_axis_type)
        put(self, "is_ref", is_ref)

    size = property(lambda self: ShapedArray(self.shape, self.dtype).size)
    ndim = property(lambda self: len(self.shape))
    weak_type = property(lambda self: self._weak_type)
    format = property(lambda self: Format(self._layout, self.sharding))

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """That of `x`, an array, a type, or whatever has a shape and a dtype; where `x` was put
        says where it lies. TypeError for what has no dtype.

        >>> pb.ShapeDtypeStruct.like(jnp.ones((2, 3)))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        if isinstance(x, ShapeDtypeStruct):
            return x
        try:
            aval = x if isinstance(x, ShapedArray) else abstractify(x)
        except TypeError:
            raise TypeError(
                f"Cannot interpret value of type {type(x)} as an abstract array; it does not have "
                "a dtype attribute. Fix: pass an array, or what has a shape and a dtype."
            ) from None
        put = not isinstance(x, Tracer) and getattr(x, "committed", False) is True
        lies = x.format if put else None
        if isinstance(aval, AbstractRef):
            inner = aval.inner_aval
            return cls(inner.shape, inner.dtype, weak_type=aval.weak_type, is_ref=True)
        manual = aval.manual_axis_type or None
        return cls(
            aval.shape, aval.dtype, sharding=lies, weak_type=aval.weak_type, manual_axis_type=manual
        )

    def update(self, **kwargs: Any) -> ShapeDtypeStruct:
        """The same but for what the keywords, named as the parameters, say."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding if self._layout is None else self.format,
            "weak_type": self._weak_type,
            "manual_axis_type": self.manual_axis_type,
            "is_ref": self.is_ref,
        }
        new = kwargs.get("sharding")
        if self._layout is not None and isinstance(new, Sharding):
            raise ValueError(
                f"You are updating ShapeDtypeStruct with a {type(new)} when the original "
                f"ShapeDtypeStruct had a concrete layout {self.format}. This might lead to bugs. "
                "If you want to do this, create a new ShapeDtypeStruct via the constructor. Fix: "
                "update(sharding=Format(layout, sharding))."
            )
        fields.update(kwargs)
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def _key(self) -> tuple[Any, ...]:
        more = self._weak_type, self.manual_axis_type, self.is_ref
        return (self.shape, self.dtype, self.sharding, self._layout, *more)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"'ShapeDtypeStruct' object has no attribute '{name}'")
        raise RuntimeError(
            f"Cannot reassign attributes ({name}) of immutable ShapeDtypeStruct objects. Fix: "
            f"x.update({name}=...) makes another."
        )

    def __reduce__(self) -> Any:
        return _unpickled, (
            self.shape, self.dtype, self.sharding if self._layout is None else self.format,
            self._weak_type, self.manual_axis_type, self.is_ref,
        )  # fmt: skip

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        more = {
            "sharding": self.sharding,
            "format": self._layout,
            "weak_type": self._weak_type or None,
            "manual_axis_type": self.manual_axis_type,
            "is_ref": self.is_ref or None,
        }
        text = "".join(f", {k}={v}" for k, v in more.items() if v is not None)
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _unpickled(
    shape: Any, dtype: Any, sharding: Any, weak_type: bool, manual: Any, is_ref: bool
) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(
        shape, dtype, sharding=sharding, weak_type=weak_type, manual_axis_type=manual, is_ref=is_ref
    )


def _placed(sharding: Any, shape: tuple[Any, ...]) -> tuple[Any, Any]:
    """What a ShapeDtypeStruct is given as its sharding, as a sharding and a layout, checked."""
    layout = None
    if isinstance(sharding, Format):
        if sharding.layout is Layout.AUTO:
            raise TypeError(
                "`Layout.AUTO` cannot be used in place of a device-local layout in a "
                f"`ShapeDtypeStruct`. Got {sharding}"
            )
        sharding, layout = sharding.sharding, sharding.layout
    elif isinstance(sharding, PartitionSpec):
        mesh = get_mesh()
        if mesh.empty:
            raise TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                "empty. Please use `jax.set_mesh` to set the mesh context."
            )
        sharding = NamedSharding(mesh, sharding)
    elif not isinstance(sharding, Sharding):
        raise ValueError(
            "sharding should be an instance of `jax.sharding.Sharding`, "
            "`jax.sharding.PartitionSpec` or `jax.experimental.layout.Format`. Got "
            f"{sharding} of type {type(sharding)}."
        )
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise ValueError(
            f"Sharding {sharding} is only valid for values of rank at least {len(sharding.spec)}, "
            f"but was applied to a value of rank {len(shape)}."
        )
    return sharding, layout


def _type_of_struct(x: ShapeDtypeStruct) -> Any:
    lies = None if x.sharding is None else type_sharding(x.sharding, len(x.shape))
    d = x.dtype if dtypes.is_extended(x.dtype) else dtypes.canonicalize_dtype(x.dtype)
    aval = ShapedArray(
        x.shape, d, x.weak_type, sharding=lies,
        manual_axis_type=x.manual_axis_type or no_manual_axes,
    )  # fmt: skip
    return AbstractRef(aval) if x.is_ref else aval


# A program may mention one: only running it needs values. So is the type of a reference.
register_typeof(ShapeDtypeStruct, _type_of_struct)
register_typeof(AbstractRef, lambda aval: aval)


def argument_name(info: DebugInfo, k: int) -> str:
    """What leaf k of the arguments is called in messages."""
    names = info.arg_names
    return names[k] if names and k < len(names) else f"number {k}"


def other_structure(kept: Any, given: Any) -> list[tuple[str, str, str, str]]:
    """Where the structures of two calls' `(args, kwargs)` differ: for each place what it is called,
    what was there, what is there now, and why these are not alike."""
    both = [tree.unflatten(t, range(t.num_leaves)) for t in (kept, given)]
    return [
        (where + tree.keystr(path), was, now, why)
        for where, a, b in zip(("args", "kwargs"), *both, strict=True)
        for path, was, now, why in tree.equality_errors(a, b)
    ]


def abstractify(x: Any) -> Any:
    """The aval of an array, or of anything that has a shape and a dtype."""
    try:
        return typeof(x)
    except TypeError:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
            return ShapedArray(
                x.shape,
                dtype,
                bool(getattr(x, "weak_type", False)),
                sharding=getattr(x, "sharding", None),
            )
        raise


def check_callable(fun: Any) -> None:
    """TypeError unless `fun` can be called (generators cannot be traced)."""
    if isinstance(fun, staticmethod):
        raise TypeError(
            f"staticmethod arguments are not supported, got {fun}. Fix: transform the function, "
            "then make it a staticmethod."
        )
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}. Fix: pass the function itself.")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(
            f"Expected a function, got a generator function: {fun}. Fix: return a value instead of "
            "yielding."
        )


def as_tuple(x: Any, what: str) -> tuple[int, ...]:
    """An int or a sequence of ints, as a tuple."""
    if x is None:
        return ()
    if isinstance(x, int):
        return (x,)
    try:
        out = tuple(x)
    except TypeError:
        raise TypeError(f"{what} must be an int or a sequence of ints, got {x!r}") from None
    if not all(isinstance(k, int) for k in out):
        raise TypeError(f"{what} must be an int or a sequence of ints, got {x!r}")
    return out


def as_names(x: Any, what: str) -> tuple[str, ...]:
    """A string or a sequence of strings, as a tuple."""
    if x is None:
        return ()
    if isinstance(x, str):
        return (x,)
    out = tuple(x)
    if not all(isinstance(k, str) for k in out):
        raise TypeError(f"{what} must be a string or a sequence of strings, got {x!r}")
    return out


def debug_info(
    name: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> DebugInfo:
    """What to call the arguments in messages."""

    return DebugInfo(name, fun_source_info(fun), arg_names(fun, args, kwargs))


def _path_of(x: Any, k: int, leaves: Sequence[Any], fun: Any, args: Any, kwargs: Any) -> str:
    """What messages call leaf `k` of those arguments that are not static."""
    everything = tree.leaves((args, kwargs))
    if len(everything) != len(leaves):
        k = next((j for j, y in enumerate(everything) if y is x), k)
    return arg_names(fun, args, kwargs)[k]


def _instead_of_object(x: Any, path: str) -> str:
    """What to do about an argument that no array can hold."""
    fix = "jit(f, static_argnames=...) for it, or pass an array"
    if isinstance(x, (str, bytes, set, frozenset)) or hasattr(x, "__name__"):
        return fix
    own = "static_argnums=0" if path == "self" else "static_argnames=..."
    return (
        f"where its arrays change, make {type(x).__name__} a pytree "
        "(jax.tree_util.register_dataclass, register_pytree_node_class); where they never do, "
        f"jit(f, {own})"
    )


def checked_avals(
    fun: Any, leaves: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The avals of the leaves of a call; TypeError naming the argument that no array can hold,
    OverflowError the number that is too large."""
    try:
        return [typeof_now(x) for x in leaves]
    except (TypeError, OverflowError):
        avals = []
        for k, x in enumerate(leaves):
            try:
                avals.append(abstractify(x))
            except OverflowError as e:
                name = _path_of(x, k, leaves, fun, args, kwargs)
                raise OverflowError(
                    "An overflow was encountered while parsing an argument to a jitted "
                    f"computation, whose argument path is {name}. Got {type(x)} with value {x}."
                    f"\n{e}"
                ) from None
            except TypeError as e:
                if "is not a valid JAX" not in str(e):
                    raise
                name = _path_of(x, k, leaves, fun, args, kwargs)
                raise TypeError(
                    f"Error interpreting argument to {fun} as an abstract array. The problematic "
                    f"value is of type {type(x)} and was passed to the function at path {name}.\n"
                    "This typically means that a jit-wrapped function was called with a non-array "
                    "argument, and "
                    "this argument was not marked as static using the static_argnums or "
                    "static_argnames "
                    f"parameters of jax.jit.\nFix: {_instead_of_object(x, name)}."
                ) from None
        return avals


def flat_function(
    fun: Callable[..., Any], in_tree: Any, out: dict[str, Any], name: str
) -> Callable[..., list[Any]]:
    """`fun` of a tree (args, kwargs), as a function of leaves; its results' tree goes to
    `out["tree"]`.
    """

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(in_tree, leaves)
        results, out["tree"] = tree.flatten(fun(*args, **kwargs))
        check_results(results, out["tree"], fun, name)
        return results

    return flat
