"""Memory that lives shorter or longer than a kernel's step: `run_scoped`, semaphores, references
that are the kernel's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import lax, tree
from ...control.common import trace_function
from ...control.expand import register_inline
from ...control.refs import addupdate, empty_ref, freeze, get, new_ref, new_ref_p, run_discharged
from ...core.avals import ShapedArray
from ...core.jaxpr import Jaxpr, eval_jaxpr
from ...core.primitive import No, Primitive
from ...core.refs import is_ref_aval, ref_effect
from ...transforms.batch import batch_flat
from ...transforms.jvp import jvp_flat
from .lower import get_global_p, scratch_value, split_as
from .specs import MemoryRef


def _ref_avals(types: Sequence[Any], what: str) -> list[Any]:
    for t in types:
        if not hasattr(t, "get_ref_aval"):
            raise AttributeError(
                f"{what}: expected a type of memory, got {t!r} of type {type(t)}. Fix: "
                "pl.ANY(shape, dtype)."
            )
    return [t.get_ref_aval() for t in types]


# --- run_scoped ---
def _scoped_type(*avals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    own = not any(map(is_ref_aval, avals))
    return jaxpr.out_avals, frozenset(e for e in jaxpr.effects if not (own and e is ref_effect))


def _scoped(*consts: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    """The function on new references."""
    refs = [
        new_ref_p.bind(scratch_value(a), kind=a.kind, memory_space=a.memory_space)
        for a in jaxpr.in_avals
    ]
    return eval_jaxpr(jaxpr, consts, *refs)


def _scoped_alone(*consts: Any, **params: Any) -> list[Any]:
    return run_discharged(lambda *xs: _scoped(*xs, **params), consts)


def _scoped_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return jvp_flat(lambda *xs: _scoped(*xs, **params), primals, tangents)


def _scoped_batch(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
    return batch_flat(lambda *xs: _scoped(*xs, **params), args, dims, axis)


run_scoped_p = Primitive(
    "run_scoped",
    multiple_results=True,
    effectful=True,
    abstract_eval=_scoped_type,
    jvp=_scoped_jvp,
    transpose=No.NOT_LINEAR,
    axis_batch=_scoped_batch,
    partial_eval=split_as(_scoped),
    discharge=lambda args, params: _scoped(*args, **params),
    register=False,
)
register_inline(run_scoped_p, _scoped_alone)


def run_scoped(
    f: Callable[..., Any], *types: Any, collective_axes: Any = (), **kw_types: Any
) -> Any:
    """Calls `f` with references to new memory of the given types (`pl.ANY(shape, dtype)`); returns
    what it returns.

    The memory holds NaN, the least integer or False at first; semaphores hold 0. `collective_axes`
    is without meaning here: programs run one after the other.

    >>> def kernel(x_ref, o_ref):
    ...     def summed(acc_ref):
    ...         acc_ref[...] = jnp.zeros(2)
    ...         for k in range(3):
    ...             acc_ref[...] += x_ref[k]
    ...         return acc_ref[...]
    ...     o_ref[...] = pl.run_scoped(summed, pl.ANY((2,), jnp.float32))
    >>> pl.pallas_call(kernel, pb.ShapeDtypeStruct((2,), jnp.float32))(jnp.ones((3, 2)))
    Array([3., 3.], dtype=float32)

    Raises AttributeError for what is no type of memory.
    """
    leaves, in_tree = tree.flatten((types, kw_types), is_leaf=lambda x: hasattr(x, "get_ref_aval"))
    avals = _ref_avals(leaves, "run_scoped")

    def fun(args: Any, kwargs: Any) -> Any:
        return f(*args, **kwargs)

    closed, consts, out_tree = trace_function(
        fun, in_tree, avals, "run_scoped", owner=f, fixed=None, names=lambda: None
    )
    n = len(consts)
    jaxpr = closed.jaxpr.replace(
        constvars=[*closed.jaxpr.constvars, *closed.jaxpr.invars[:n]],
        invars=closed.jaxpr.invars[n:],
    )
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    outs = run_scoped_p.bind(
        *closed.consts,
        *consts,
        jaxpr=jaxpr,
        collective_axes=axes,
        ref_transforms=((),) * len(avals),
    )
    return tree.unflatten(out_tree, outs)


def with_scoped(*types: Any, collective_axes: Any = (), **kw_types: Any) -> Any:
    """A decorator: the function's last arguments are references to new memory, as `run_scoped`
    gives them; its callers give the first ones.

    >>> def kernel(x_ref, o_ref):
    ...     @pl.with_scoped(pl.ANY((2,), jnp.float32))
    ...     def doubled(factor, tmp_ref):
    ...         tmp_ref[...] = factor * x_ref[...]
    ...         return tmp_ref[...]
    ...     o_ref[...] = doubled(2.0)
    >>> pl.pallas_call(kernel, jnp.zeros(2))(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return run_scoped(
                lambda *refs, **kw_refs: f(*args, *refs, **kwargs, **kw_refs),
                *types, collective_axes=collective_axes, **kw_types,
            )  # fmt: skip

        return wrapped

    return decorate


# --- references of the kernel itself ---
def get_global(what: Any) -> Any:
    """Inside a kernel: a reference that keeps what it holds from step to step of the grid, as
    scratch memory does; each call is another one. To be called in the kernel itself, not in a loop
    or branch of it.

    >>> def kernel(o_ref):
    ...     steps = pl.get_global(pl.ANY((), pl.semaphore))
    ...     steps[...] += 1
    ...     o_ref[pl.program_id(0)] = steps[...]
    >>> pl.pallas_call(kernel, pb.ShapeDtypeStruct((3,), jnp.int32), grid=3)()
    Array([1, 2, 3], dtype=int32)
    """
    (aval,) = _ref_avals([what], "get_global")
    return get_global_p.bind(what=aval)


def empty_ref_like(x: Any) -> Any:
    """A reference to an array of the shape and dtype of `x`, a type of memory or a
    ShapeDtypeStruct; ValueError for anything else. It holds zeros.

    >>> pl.empty_ref_like(pl.ANY((2,), jnp.int32))[...]
    Array([0, 0], dtype=int32)
    """
    if isinstance(x, MemoryRef):
        return empty_ref(x.inner_aval, x.memory_space)
    if type(x).__name__ == "ShapeDtypeStruct":
        return empty_ref(ShapedArray(x.shape, x.dtype))
    raise ValueError(
        f"empty_ref_like does not support {type(x)}. Fix: pl.ANY(shape, dtype), or a "
        "ShapeDtypeStruct."
    )


def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """A function that turns the arrays of a tree into references, calls `f` with the tree of them,
    and returns the tree of what they hold then.

    >>> def body(refs):
    ...     x_ref, y_ref = refs
    ...     y_ref[...] = 2 * x_ref[...]
    >>> pl.run_state(body)((jnp.ones(2), jnp.zeros(2)))
    (Array([1., 1.], dtype=float32), Array([2., 2.], dtype=float32))
    """

    def wrapped(args: Any) -> Any:
        refs = tree.map(new_ref, args)
        f(refs)
        return tree.map(freeze, refs)

    return wrapped


class SelectedRef:
    """One of several references of one type, chosen by a traced index."""

    __slots__ = ("idx", "refs")

    shape = property(lambda self: self.refs[0].shape)
    dtype = property(lambda self: self.refs[0].dtype)
    ndim = property(lambda self: len(self.shape))

    def __init__(self, idx: Any, refs: tuple[Any, ...]) -> None:
        self.idx, self.refs = idx, refs

    def __getitem__(self, place: Any) -> Any:
        return lax.switch(self.idx, [functools.partial(get, r, place) for r in self.refs])

    def __setitem__(self, place: Any, value: Any) -> None:
        def setter(ref: Any) -> Callable[[], None]:
            return lambda: ref.set(value, place)

        lax.switch(self.idx, [setter(r) for r in self.refs])


def select_ref(idx: Any, *refs: Any) -> SelectedRef:
    """The reference number `idx` (a traced integer, clamped) of several of one type: it is read and
    written by indexing.

    >>> def kernel(x_ref, y_ref, o_ref):
    ...     o_ref[pl.program_id(0)] = pl.select_ref(pl.program_id(0), x_ref, y_ref)[0]
    >>> pl.pallas_call(kernel, jnp.zeros(2), grid=2)(jnp.ones(2), jnp.zeros(2))
    Array([1., 0.], dtype=float32)

    Raises ValueError unless there are references and all have one shape and dtype.
    """
    if not refs:
        raise ValueError("select_ref: there is no reference to select. Fix: pass at least one.")
    types = {(tuple(r.shape), r.dtype) for r in refs}
    if len(types) > 1:
        raise ValueError(
            f"select_ref: the references differ in type: {sorted(map(str, types))}. Fix: select "
            "among references of one shape and dtype."
        )
    return SelectedRef(idx, refs)


# --- semaphores ---
def semaphore_read(sem_or_view: Any) -> Any:
    """The value of a semaphore, an int32.

    >>> pl.semaphore_read(pl.empty_ref_like(pl.ANY((), pl.semaphore)))
    Array(0, dtype=int32)
    """
    return get(sem_or_view)


def semaphore_signal(
    sem_or_view: Any,
    inc: Any = 1,
    *,
    device_id: Any = None,
    device_id_type: Any = None,
    core_index: Any = None,
) -> None:
    """Adds to a semaphore. There is one device here, whose steps run one after the other: the
    other arguments are without meaning.

    >>> sem = pl.empty_ref_like(pl.ANY((), pl.semaphore))
    >>> pl.semaphore_signal(sem, 2)
    >>> pl.semaphore_read(sem)
    Array(2, dtype=int32)
    """
    addupdate(sem_or_view, ..., lax.convert_element_type(inc, np.int32))


def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Takes from a semaphore (with `decrement`). Steps run one after the other: whatever could
    raise the semaphore has done so, and nothing is waited for.

    >>> sem = pl.empty_ref_like(pl.ANY((), pl.semaphore))
    >>> pl.semaphore_signal(sem, 2)
    >>> pl.semaphore_wait(sem)
    >>> pl.semaphore_read(sem)
    Array(1, dtype=int32)
    """
    if decrement:
        addupdate(sem_or_view, ..., lax.neg(lax.convert_element_type(value, np.int32)))
