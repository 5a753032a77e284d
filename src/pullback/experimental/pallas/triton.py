"""What kernels written for Triton on GPUs say, with a CPU's meaning: masked reads and writes,
atomic updates, hints.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...records import record
from . import specs
from .helpers import dot as dot

__all__ = [
    "CompilerParams",
    "approx_tanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "debug_barrier",
    "dot",
    "load",
    "max_contiguous",
    "store",
]


@record(eq=True)
class CompilerParams(specs.CompilerParams):
    """How many warps run a program, and how many stages its loops are cut into: for GPUs; without
    meaning here.

    >>> plt.CompilerParams(num_warps=4)
    CompilerParams(num_warps=4, num_stages=None)
    """

    num_warps: int | None = None
    num_stages: int | None = None


# --- reads and writes ---
def load(
    ref: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """The elements of a reference, or of a view of one (`ref.at[...]`); `other` where `mask` does
    not hold, if both are given. The other parameters are for GPUs, without meaning here.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.load(ref, mask=jnp.array([True, False, True]), other=-1)
    Array([ 0, -1,  2], dtype=int32)
    """
    values = ref[...]
    if mask is None or other is None:
        return values
    return jnp.where(mask, values, jnp.asarray(other, values.dtype))


def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Sets the elements of a reference, or of a view of one, where `mask` holds. `eviction_policy`
    is for GPUs, without meaning here.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.store(ref, jnp.full(3, 9), mask=jnp.array([True, False, True]))
    >>> ref[...]
    Array([9, 1, 9], dtype=int32)
    """
    ref[...] = val if mask is None else jnp.where(mask, val, ref[...])


# --- atomic updates ---
def _update(ref: Any, idx: Any, values: Any, mask: Any, combine: Callable[..., Any]) -> Any:
    """Element by element in their order, each seeing those before it, as threads that take turns
    do: positions that come twice are updated twice. Positions outside are left alone."""
    whole = ref[...]
    numbers = jnp.arange(whole.size).reshape(whole.shape)
    places = numbers.at[idx].get(mode="fill", fill_value=whole.size)
    values = jnp.broadcast_to(jnp.asarray(values, whole.dtype), places.shape).ravel()
    holds = jnp.broadcast_to(True if mask is None else mask, places.shape).ravel()
    flat_places = jnp.where(holds, places.ravel(), whole.size)

    def turn(i: Any, carry: Any) -> Any:
        array, before = carry
        old = array.at[flat_places[i]].get(mode="fill", fill_value=0)
        new = combine(old, values[i])
        return array.at[flat_places[i]].set(new, mode="drop"), before.at[i].set(old)

    start = (whole.ravel(), jnp.zeros(places.size, whole.dtype))
    array, before = lax.fori_loop(0, places.size, turn, start)
    ref[...] = array.reshape(whole.shape)
    return before.reshape(places.shape)


def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """Sets the elements at `idx` where `mask` holds; returns what they were.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.atomic_xchg(ref, 1, 7)
    Array(1, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, lambda old, new: new)


def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """Adds to the elements at `idx` where `mask` holds; returns what they were.

    >>> ref = pb.new_ref(jnp.zeros(3))
    >>> plt.atomic_add(ref, jnp.array([0, 0, 2]), 1.0)
    Array([0., 1., 0.], dtype=float32)
    >>> ref[...]
    Array([2., 0., 1.], dtype=float32)
    """
    return _update(x_ref_or_view, idx, val, mask, operator.add)


def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """The larger of each element at `idx` and of `val` where `mask` holds; returns what the
    elements were.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.atomic_max(ref, 1, 7)
    Array(1, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, jnp.maximum)


def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """The smaller of each element at `idx` and of `val` where `mask` holds; returns what the
    elements were.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.atomic_min(ref, 1, 0)
    Array(1, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, jnp.minimum)


def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """The bits that each element at `idx` and `val` share, where `mask` holds; returns what the
    elements were.

    >>> ref = pb.new_ref(jnp.arange(4))
    >>> plt.atomic_and(ref, 3, 6)
    Array(3, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, operator.and_)


def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """The bits that each element at `idx` or `val` has, where `mask` holds; returns what the
    elements were.

    >>> ref = pb.new_ref(jnp.arange(4))
    >>> plt.atomic_or(ref, 3, 6)
    Array(3, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, operator.or_)


def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
    """The bits in which each element at `idx` and `val` differ, where `mask` holds; returns what
    the elements were.

    >>> ref = pb.new_ref(jnp.arange(4))
    >>> plt.atomic_xor(ref, 3, 6)
    Array(3, dtype=int32)
    """
    return _update(x_ref_or_view, idx, val, mask, operator.xor)


def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Sets a scalar to `val` if it equals `cmp`; returns what it was.

    >>> ref = pb.new_ref(jnp.arange(3))
    >>> plt.atomic_cas(ref.at[1], 1, 7)
    Array(1, dtype=int32)

    Raises ValueError for what is no scalar.
    """
    for name, x in (("ref", ref), ("cmp", cmp), ("val", val)):
        if np.shape(x) != ():
            raise ValueError(f"{name} must be scalar. Fix: pass ref.at[index] for one element.")
    old = ref[...]
    ref[...] = jnp.where(old == cmp, jnp.asarray(val, old.dtype), old)
    return old


# --- hints, and what a GPU approximates ---
def approx_tanh(x: Any) -> Any:
    """The hyperbolic tangent, which some GPUs have an approximate instruction for.

    >>> plt.approx_tanh(jnp.zeros(2))
    Array([0., 0.], dtype=float32)

    Raises TypeError unless `x` is of float16, bfloat16 or float32.
    """
    if x.dtype not in (np.float16, dtypes.bfloat16, np.float32):
        raise TypeError(f"approx_tanh does not accept {x.dtype} arrays")
    return lax.tanh(x)


def max_contiguous(x: Any, values: Any) -> Any:
    """`x`: that so many of its indices follow each other is said to compilers for GPUs.

    >>> plt.max_contiguous(jnp.arange(2), 2)
    Array([0, 1], dtype=int32)
    """
    return x


def debug_barrier() -> None:
    """Waits for the threads of a program: here there is one.

    >>> plt.debug_barrier()
    """
