"""`ufunc`: a function of elements with NumPy's methods reduce, accumulate, at, reduceat and
outer.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, dtypes, lax
from ..api.eager import eager
from ..api.jit import jit
from ..api.staging import eval_shape
from ..api.vmap import vmap
from ..core.avals import typeof
from ..lazy_imports import lazy_module
from ..primitives.common import as_int
from ..primitives.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim
from ..runtime.operands import Policy
from . import indexing
from .selecting import select_where
from .util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    ndim_of,
    shape_of,
    static_axes,
    to_type,
    user_dtype,
)

scatter: Any = lazy_module("pullback.numpy.scatter")


def _call_signature(*args: Any, out: None = None, where: None = None) -> Any:
    """What every ufunc takes."""


_SIGNATURE = inspect.signature(_call_signature)


class ufunc:
    """An elementwise function of `nin` arguments, with NumPy's methods.

    `identity` starts reductions; `call`, `reduce`, `accumulate`, `at` and `reduceat` replace the
    general methods by better ones.

    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    """

    # The class has them, too, as NumPy's: whoever looks names up on it finds them.
    __slots__ = ("__dict__", "__weakref__", "identity", "nargs", "nin", "nout")

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Any = None,
        reduce: Any = None,
        accumulate: Any = None,
        at: Any = None,
        reduceat: Any = None,
    ) -> None:
        self.__name__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self.nin, self.nout = as_int(nin, "nin"), as_int(nout, "nout")
        self.nargs = operator.index(nargs if nargs is not None else nin)
        self.identity = identity
        self._func = func
        self._call = call or self._called()
        self._given = {"reduce": reduce, "accumulate": accumulate, "at": at, "reduceat": reduceat}
        self._jitted: dict[str, Any] = {}
        self.__signature__ = _SIGNATURE

    def _called(self) -> Any:
        return functools.partial(_call_vectorized, self)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __hash__(self) -> int:
        return hash((ufunc, self.__name__, self._func))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._parts() == other._parts()

    def _parts(self) -> tuple[Any, ...]:
        return self._func, self.__name__, self.nin, self.nout, self.identity

    def __get__(self, obj: Any, objtype: Any = None) -> ufunc:
        return self

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(f"out argument of {self}. Fix: use the returned array.")
        if where is not None:
            raise NotImplementedError(
                f"where argument of {self}. Fix: jnp.where(mask, {self.__name__}(...), x)."
            )
        if len(args) != self.nin:
            raise TypeError(
                f"{self.__name__}() takes {self.nin} positional arguments but {len(args)} were "
                "given"
            )
        return self._call(*args)

    def _needs_binary(self, method: str) -> None:
        if self.nin != 2:
            raise ValueError(
                f"{method} only supported for functions with two inputs; {self.__name__} has "
                f"{self.nin}."
            )
        if self.nout != 1:
            raise ValueError(
                f"{method} only supported for functions with one output; {self.__name__} has "
                f"{self.nout}."
            )

    def _jit(self, method: str, fun: Any, static: tuple[str, ...]) -> Any:
        found = self._jitted.get(method)
        if found is None:
            found = self._jitted[method] = jit(_named(fun, method), static_argnames=static)
        return found

    # --- reduce ---
    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Applies the function over one axis (None: all of them), from left to right."""
        check_arraylike(f"{self.__name__}.reduce", a)
        self._needs_binary("reduce")
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.reduce(). Fix: use the returned array."
            )
        if initial is not None:
            check_arraylike(f"{self.__name__}.reduce", initial)
        if where is not None:
            check_arraylike(f"{self.__name__}.reduce", where)
            if typeof(where).dtype != np.bool_:
                raise ValueError(
                    f"where argument must have dtype=bool; got dtype={typeof(where).dtype}"
                )
            if self.identity is None and initial is None:
                raise ValueError(
                    f"reduction operation {self.__name__!r} does not have an identity, so to use a "
                    "where mask one has to specify 'initial'."
                )
        axis, given = static_axes(axis), self._given["reduce"]
        if given is None and isinstance(axis, tuple) and self.identity is None:
            raise NotImplementedError(
                f"{self.__name__}.reduce() over several axes, got axis={axis}: their order would "
                "matter. Fix: one axis at a time, or None."
            )
        call = self._jit("reduce", given or self._reduce, ("axis", "dtype", "out", "keepdims"))
        return call(
            a, axis=axis, dtype=dtype, out=None, keepdims=keepdims, initial=initial, where=where
        )

    def _reduce(
        self, a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
    ) -> Any:
        if initial is None:
            initial = self.identity
        shape = shape_of(a)
        dtype = user_dtype(dtype, self.__name__) or self._dtype(*_unit(a, 2))  # type: ignore[arg-type]
        if axis is None:
            a = lax.reshape(a, (int(np.prod(shape)),))
            where = (
                None
                if where is None
                else lax.reshape(_broadcast(where, shape), (int(np.prod(shape)),))
            )
            k, kept = 0, (1,) * len(shape)
        elif isinstance(axis, tuple):
            axes = canonical_axes(axis, len(shape))
            kept = tuple(1 if j in axes else m for j, m in enumerate(shape))
            where = None if where is None else _gathered(_broadcast(where, shape), axes)
            a, k = _gathered(a, axes), len(shape) - len(axes)
        else:
            k = canonical_axis(axis, len(shape))
            kept = (*shape[:k], 1, *shape[k + 1 :])
        a = to_type(a, dtype, False)
        n = shape_of(a)[k]
        if n == 0 and initial is None:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        rest = (*shape_of(a)[:k], *shape_of(a)[k + 1 :])
        if initial is not None and not dtypes.is_inexact(dtype):
            # The initial value is of this dtype, unless, as in JAX, the function gives floats.
            given = self._dtype(*_unit(a, 2))
            dtype = given if dtypes.is_inexact(given) else dtype
        if initial is None:
            start, carry = 1, lax.index_in_dim(a, 0, k, keepdims=False)
        else:
            start, carry = 0, lax.broadcast_in_dim(to_type(initial, dtype, False), rest, ())
        mask = (
            None
            if where is None
            else lax.broadcast_in_dim(
                where,
                shape_of(a),
                tuple(range(len(shape_of(a)) - ndim_of(where), len(shape_of(a)))),
            )
        )

        def step(i: Any, value: Any) -> Any:
            new = to_type(
                self._call(value, dynamic_index_in_dim(a, i, k, keepdims=False)), dtype, False
            )
            if mask is None:
                return new
            return select_where(dynamic_index_in_dim(mask, i, k, keepdims=False), new, value)

        result = lax.fori_loop(start, n, step, carry) if n > start else carry
        return lax.reshape(result, kept) if keepdims else result

    def _dtype(self, *units: Any) -> Any:
        """The dtype of the function's results, without computing any."""
        return eval_shape(self._call, *units).dtype

    # --- accumulate ---
    def accumulate(self, a: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> Any:
        """The running results of `reduce` along one axis."""
        check_arraylike(f"{self.__name__}.accumulate", a)
        self._needs_binary("accumulate")
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.accumulate(). Fix: use the returned array."
            )
        given = self._given["accumulate"]
        if isinstance(axis, tuple) or (axis is None and given is None):
            raise ValueError(f"accumulate does not allow multiple axes, got axis={axis}")
        if axis is not None and given is None:
            canonical_axis(axis, ndim_of(a))
        call = self._jit("accumulate", given or self._accumulate, ("axis", "dtype"))
        return call(a, axis=axis, dtype=dtype)

    def _accumulate(self, a: Any, axis: Any, dtype: Any) -> Any:
        k = canonical_axis(axis, ndim_of(a))
        dtype = user_dtype(dtype, self.__name__) or self._dtype(*_unit(a, 2))  # type: ignore[arg-type]
        a = to_type(a, dtype, False)
        n = shape_of(a)[k]
        if n == 0:
            return a
        first = lax.index_in_dim(a, 0, k, keepdims=False)

        def step(value: Any, i: Any) -> Any:
            one = dynamic_index_in_dim(a, i, k, keepdims=False)
            new = self._call(value, one)
            if dtypes.promote_types(typeof(new).dtype, dtype) != dtype:
                raise TypeError(
                    f"{self.__name__}.accumulate(dtype={dtype}): the function's results have dtype "
                    f"{typeof(new).dtype}. Fix: ask for a dtype that the function keeps."
                )
            return (new := to_type(new, dtype, False)), new

        _, rest = (
            lax.scan(step, first, lax.add(lax.iota(np.int32, n - 1), np.int32(1)))
            if n > 1
            else (None, None)
        )
        head = lax.expand_dims(first, (k,))
        if rest is None:
            return head
        order = (*range(1, k + 1), 0, *range(k + 1, ndim_of(a)))
        return lax.concatenate([head, lax.transpose(rest, order)], k)

    # --- at, reduceat, outer ---
    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of `a` with the function applied at `indices` (each occurrence counts).
        `inplace=False` is required.
        """
        if inplace:
            raise NotImplementedError(
                "JAX arrays are immutable, so jnp.ufunc.at cannot change its argument. "
                f"Fix: a = jnp.{self.__name__}.at(a, indices, b, inplace=False)."
            )
        if (b is None) != (self.nin == 1):
            raise TypeError(
                f"{self.__name__}() takes {self.nin} positional arguments but {3 - self.nin} were "
                "given"
            )
        if b is not None:
            check_arraylike(f"{self.__name__}.at", b)
        given = self._given["at"]
        call = self._jit("at", given or self._at, ())
        return call(a, indices) if b is None else call(a, indices, b)

    def _at(self, a: Any, indices: Any, b: Any = None) -> Any:
        check_arraylike(f"{self.__name__}.at", a)
        # The function's own type for these arguments: integers may become floats.
        units = _unit(a, 1)
        if b is not None:
            units.append(_unit(b, 1)[0] if ndim_of(b) else b)
        dtype = self._dtype(*units)
        a = to_type(a, dtype, False)
        shape = shape_of(indexing.take_index(a, indices))
        if not int(np.prod(a.shape)):
            return a
        order = lax.reshape(lax.iota(np.int32, int(np.prod(a.shape))), a.shape)
        where = order.at[indices].get(mode="fill", fill_value=-1)  # places of what there is
        where = lax.reshape(where, (int(np.prod(shape)),))
        others = []
        if b is not None:
            b = _broadcast(b, shape) if shape_of(b) != shape else b
            others.append(lax.reshape(b, (int(np.prod(shape)),)))

        def step(k: Any, flat: Any) -> Any:
            i = dynamic_index_in_dim(where, k, 0, keepdims=False)
            old = dynamic_index_in_dim(flat, i, 0, False)
            new = self._call(old, *[dynamic_index_in_dim(x, k, 0, False) for x in others])
            kept = lax.select(lax.ge(i, np.int32(0)), to_type(new, dtype, False), old)
            return dynamic_update_index_in_dim(flat, kept, i, 0)

        flat = lax.fori_loop(0, int(np.prod(shape)), step, lax.reshape(a, (int(np.prod(a.shape)),)))
        return lax.reshape(flat, a.shape)

    def reduceat(
        self, a: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Reductions over the slices that start at `indices`; where the next index is not larger,
        the element itself.
        """
        self._needs_binary("reduceat")
        check_arraylike(f"{self.__name__}.reduceat", a, indices)
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.reduceat(). Fix: use the returned array."
            )
        if not ndim_of(a):
            raise ValueError("reduceat: a must have 1 or more dimension, got a.shape=()")
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"reduceat requires a single integer axis, got axis={axis}")
        if dtypes.is_bool(typeof(indices).dtype):
            indices = to_type(indices, np.dtype("int32"), False)
        if not dtypes.is_integer(typeof(indices).dtype):
            raise ValueError(
                f"reduceat: indices must have an integer type, got {typeof(indices).dtype.name}"
            )
        given = self._given["reduceat"]
        call = self._jit("reduceat", given or self._reduceat, ("axis", "dtype"))
        return call(a, indices, axis=axis, dtype=dtype)

    def _reduceat(self, a: Any, indices: Any, axis: Any, dtype: Any) -> Any:
        if ndim_of(indices) != 1:
            raise ValueError(
                f"reduceat: indices must be one-dimensional, got shape {shape_of(indices)}"
            )
        k = canonical_axis(axis, ndim_of(a))
        # As in JAX the operand's dtype is the result's, whatever `dtype` says.
        given, dtype = self._dtype(*_unit(a, 2)), typeof(a).dtype
        if dtypes.is_inexact(given) and not dtypes.is_inexact(dtype):
            raise TypeError(
                f"{self.__name__}.reduceat of {dtype.name} gives {given.name}, which the result "
                f"cannot hold. Fix: x.astype({given.name!r})"
            )
        n = shape_of(a)[k]
        starts = to_type(indices, np.dtype("int32"), False)
        ends = lax.concatenate(
            [lax.slice(starts, (1,), shape_of(starts)), np.full((1,), n, np.int32)], 0
        )
        take = (slice(None),) * k
        out = indexing.take_index(a, (*take, starts), mode="fill")
        shape = [1] * ndim_of(out)
        shape[k] = shape_of(starts)[0]
        lo, hi = lax.reshape(starts, tuple(shape)), lax.reshape(ends, tuple(shape))

        def step(i: Any, value: Any) -> Any:
            new = self._call(value, dynamic_index_in_dim(a, i, k, keepdims=True))
            inside = lax.bitwise_and(
                lax.gt(lax.full_like(lo, i), lo), lax.lt(lax.full_like(hi, i), hi)
            )
            return lax.select(
                lax.broadcast_in_dim(inside, shape_of(value), tuple(range(ndim_of(value)))),
                to_type(new, dtype, False),
                value,
            )

        return lax.fori_loop(0, n, step, out)

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every pair of elements; the result has the axes of `A`, then those of
        `B`.
        """
        self._needs_binary("outer")
        check_arraylike(f"{self.__name__}.outer", A, B)
        return self._jit("outer", self._outer, ())(A, B)

    def _outer(self, A: Any, B: Any) -> Any:
        nb = ndim_of(B)
        if not nb and not ndim_of(A):
            return self._call(A, B)
        left = lax.expand_dims(A, tuple(range(ndim_of(A), ndim_of(A) + nb))) if nb else A
        with config.numpy_rank_promotion("allow"):
            return self._call(left, B)


def _named(fun: Any, name: str) -> Any:
    """A function of its own with this name: methods cannot be renamed."""

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    call.__name__ = name
    return call


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """ValueError if the shapes do not fit."""
    if lax.broadcast_shapes(shape_of(x), shape) != shape:
        raise ValueError(f"an array of shape {shape_of(x)} cannot be broadcast to {shape}")
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim_of(x), len(shape))))


def _gathered(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with some of its axes as one, behind the others."""
    rest = [k for k in range(ndim_of(x)) if k not in axes]
    x = lax.transpose(x, (*rest, *axes))
    shape = shape_of(x)
    return lax.reshape(x, (*shape[: len(rest)], int(np.prod(shape[len(rest) :]))))


def _unit(a: Any, n: int) -> list[Any]:
    return [np.ones((), typeof(a).dtype)[()]] * n


class BuiltinUfunc(ufunc):
    """One of our own: pure, so that calls of it may be entered natively."""

    _pb_static_operand = True

    def _called(self) -> Any:
        return self._func

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"


BuiltinUfunc.__name__ = BuiltinUfunc.__qualname__ = "ufunc"
BuiltinUfunc.__call__ = eager(ufunc.__call__, Policy(0, (), True))  # type: ignore[method-assign]


@functools.partial(jit, static_argnums=0)
def _call_vectorized(function: ufunc, *args: Any) -> Any:
    """A ufunc of a user's function, in one program: named as JAX's is."""
    return function._func(*args)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a Python function of scalars.

    >>> jnp.frompyfunc(lambda x, y: x + 2 * y, 2, 1)(jnp.arange(3), 1)
    Array([2, 3, 4], dtype=int32)
    """
    elementwise = _Elementwise(func)
    return ufunc(elementwise, nin, nout, identity=identity, name=elementwise.__name__)


class _Elementwise:
    """A function of scalars as one of arrays; equal to others of the same function, as the ufuncs
    made of them are."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.__name__ = getattr(func, "__name__", "frompyfunc")
        self.__doc__ = func.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Elementwise) and self.func == other.func

    def __hash__(self) -> int:
        return hash((_Elementwise, self.func))

    def __call__(self, *args: Any) -> Any:
        check_arraylike(getattr(self.func, "__name__", "ufunc"), *args)
        shape = lax.broadcast_shapes(*(shape_of(x) for x in args))
        flat = [
            lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim_of(x), len(shape))))
            for x in args
        ]
        call: Any = self.func
        for _ in shape:
            call = vmap(call)
        return call(*flat)
