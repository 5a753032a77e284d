"""`vectorize`, `apply_along_axis`, `apply_over_axes`: functions of parts, applied over whole arrays
by vmap.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import config, lax
from ..api.vmap import vmap
from ..primitives.common import as_array
from .core_axes import check_outputs, parse_signature, sizes_of
from .creation import asarray
from .util import (
    canonical_axis,
    check_arraylike,
    ndim_of,
    shape_of,
    unwrap,
)


def vectorize(pyfunc: Any, *, excluded: Any = frozenset(), signature: str | None = None) -> Any:
    """A function of scalars (or, with a `signature`, of arrays with named core axes) made one of
    arrays, which broadcast.

    `excluded`: positions (or names) of arguments that are passed on as they are.

    >>> rows_dot = jnp.vectorize(lambda v, w: jnp.vdot(v, w), signature="(n),(n)->()")
    >>> rows_dot(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    if isinstance(excluded, str) and excluded:
        raise TypeError(
            f"excluded={excluded!r} is a name, not a collection. Fix: {{{excluded!r}}}."
        )
    if any(not isinstance(e, str | int) for e in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"excluded={excluded!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    excluded = set(excluded)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = {e for e in excluded if isinstance(e, str)}
        named = {k: v for k, v in kwargs.items() if k not in names}
        fixed_kw = {k: v for k, v in kwargs.items() if k in names}
        fixed = {
            k: args[k] for k in sorted(e for e in excluded if isinstance(e, int)) if k < len(args)
        }
        dynamic = [a for k, a in enumerate(args) if k not in fixed]
        n_positional, labels = len(dynamic), list(named)

        def call(*xs: Any) -> Any:
            rest = iter(xs[:n_positional])
            full = [fixed[k] if k in fixed else next(rest) for k in range(len(args))]
            return pyfunc(*full, **dict(zip(labels, xs[n_positional:], strict=True)), **fixed_kw)

        call.__name__ = getattr(pyfunc, "__name__", "vectorized")
        which = f"on vectorized function with excluded={frozenset(excluded)!r} and {signature=}"
        return _apply(call, [*dynamic, *named.values()], signature, which)

    return wrapped


def _apply(fun: Callable[..., Any], values: list[Any], signature: str | None, which: str) -> Any:
    none_at = [k for k, v in enumerate(values) if v is None]
    given = [asarray(v) for v in values if v is not None]  # lists too, as NumPy's takes them
    if none_at:
        inner = fun

        def fun(*xs: Any) -> Any:
            rest = iter(xs)
            return inner(*(None if k in none_at else next(rest) for k in range(len(values))))

    if signature is None:
        core_in: list[tuple[str, ...]] = [()] * len(given)
        checked = fun
    else:
        core_in, core_out = parse_signature(signature)
        if len(core_in) != len(values):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(core_in)}, got {len(values)} "
                f"{which}"
            )
        wrong = {k for k in none_at if core_in[k]}
        if wrong:
            raise ValueError(
                f"Cannot pass None at locations {wrong} with signature={signature!r}. Fix: None "
                "may stand for a scalar, ()."
            )
        core_in = [dims for k, dims in enumerate(core_in) if k not in none_at]
    loops, sizes = sizes_of(given, core_in, which)
    if signature is not None:
        checked = check_outputs(fun, core_out, sizes, which)
    if len({len(loop) for a, loop in zip(given, loops, strict=True) if shape_of(a)}) > 1:
        _check_ranks([shape_of(a) for a in given], signature)
    target = lax.broadcast_shapes(*loops) if loops else ()
    return _mapped(checked, given, loops, target)


def _check_ranks(shapes: list[Any], signature: str | None) -> None:
    """Says, or warns, that arguments of several ranks are aligned, where the flag asks for it."""
    mode = config.numpy_rank_promotion.get()
    if mode == "allow":
        return
    said = (
        f"operands with shapes {shapes} require rank promotion for jnp.vectorize function with "
        f"signature {signature}. Set the jax_numpy_rank_promotion config option to 'allow' to "
        "disable this message; for more information, see "
        "https://docs.jax.dev/en/latest/rank_promotion_warning.html."
    )
    if mode == "raise":
        raise ValueError(said)
    warnings.warn(said, stacklevel=4)


def _mapped(
    fun: Callable[..., Any], args: list[Any], loops: list[tuple[Any, ...]], target: tuple[Any, ...]
) -> Any:
    """One vmap for each axis of the loop; axes of size 1 that broadcast are squeezed instead of
    repeated.
    """
    n = len(target)
    squeezed, call = [], fun
    axes_of: list[list[bool]] = []
    for a, loop in zip(args, loops, strict=True):
        drop = tuple(k for k, m in enumerate(loop) if m == 1 and target[n - len(loop) + k] != 1)
        has = [k >= n - len(loop) and (k - (n - len(loop))) not in drop for k in range(n)]
        squeezed.append(lax.squeeze(a, drop) if drop else a)
        axes_of.append(has)
    for k in reversed(range(n)):
        in_axes = tuple(0 if has[k] else None for has in axes_of)
        if all(x is None for x in in_axes):
            call = _repeated(call, target[k])
        else:
            call = vmap(call, in_axes=in_axes)
    return call(*squeezed)


def _repeated(fun: Callable[..., Any], size: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return vmap(lambda _: fun(*args))(lax.iota("int32", size))

    return call


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """`func1d` of every one-dimensional slice along `axis`; its results' axes stand where `axis`
    was.

    The shape is that of `arr` with `axis` replaced by the shape of what `func1d` returns; further
    arguments are passed on.

    >>> jnp.apply_along_axis(lambda v: v[::-1], 1, jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    check_arraylike("apply_along_axis", arr)
    arr = as_array(unwrap(arr))
    n = ndim_of(arr)
    k = canonical_axis(axis, n)
    call: Any = lambda x: func1d(x, *args, **kwargs)
    for i in range(1, n - k):
        call = vmap(call, in_axes=i, out_axes=-1)
    for _ in range(k):
        call = vmap(call, in_axes=0, out_axes=0)
    return call(arr)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Sequence[int]) -> Any:
    """`func(a, axis)` for one axis after another; lost axes are put back with size 1.

    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), [0, 2])
    Array([[[8.],
            [8.],
            [8.]]], dtype=float32)
    """
    check_arraylike("apply_over_axes", a)
    out = as_array(unwrap(a))
    for axis in axes:
        b = func(out, axis)
        if ndim_of(b) == ndim_of(out):
            out = b
        elif ndim_of(b) == ndim_of(out) - 1:
            out = lax.expand_dims(b, (canonical_axis(axis, ndim_of(out)),))
        else:
            raise ValueError("function is not returning an array of the correct shape")
    return out
