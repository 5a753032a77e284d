"""What every transformation does with a user's arguments: which are static, which are
differentiated, what a bad one is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, tree
from ..control.common import check_results
from ..core.avals import ShapedArray, register_typeof, typeof
from ..core.high import typeof_now
from ..core.jaxpr import DebugInfo
from ..core.naming import arg_names, fun_source_info, leaf_paths


class ShapeDtypeStruct:
    """A shape and a dtype, where an array's value does not matter (`eval_shape`,
    `jit(f).lower`).

    `dtype`: anything that names one. Raises ValueError if it is None.

    >>> pb.eval_shape(jnp.sum, pb.ShapeDtypeStruct((2, 3), jnp.float32))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """

    __slots__ = ("_weak_type", "dtype", "shape", "sharding", "vma")
    has_no_value = True

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        vma: Any = None,
        is_ref: bool = False,
    ) -> None:
        self.shape = tuple(shape)
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.dtype = dtypes.dtype(dtype)
        self.sharding, self._weak_type, self.vma = sharding, weak_type, vma

    size = property(lambda self: ShapedArray(self.shape, self.dtype).size)
    ndim = property(lambda self: len(self.shape))
    weak_type = property(lambda self: self._weak_type)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding,
            "weak_type": self._weak_type,
        }
        fields.update(changes)
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self._weak_type else ""
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (
            self.shape,
            self.dtype,
            self.sharding,
            self._weak_type,
        ) == (
            other.shape,
            other.dtype,
            other.sharding,
            other._weak_type,
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self._weak_type))


# A program may mention one: only running it needs values.
register_typeof(
    ShapeDtypeStruct, lambda x: ShapedArray(x.shape, x.dtype, x.weak_type, sharding=None)
)


def argument_name(info: DebugInfo, k: int) -> str:
    """What leaf k of the arguments is called in messages."""
    names = info.arg_names
    return names[k] if names and k < len(names) else f"number {k}"


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
    names = arg_names(fun, args, kwargs)
    if names is None:  # the call does not fit the signature
        names = tuple(f"args{p}" for p in leaf_paths(args))
        names += tuple(f"kwargs{p}" for p in leaf_paths(kwargs))
    return names[k]


def checked_avals(
    fun: Any, leaves: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The avals of the leaves of a call; TypeError naming the argument that no array can hold."""
    try:
        return [typeof_now(x) for x in leaves]
    except TypeError:
        avals = []
        for k, x in enumerate(leaves):
            try:
                avals.append(abstractify(x))
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
                    "parameters of jax.jit.\nFix: jit(f, static_argnames=...) for it, or pass an "
                    "array."
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
