"""Elements chosen among arrays by conditions or numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.vmap import vmap
from ..core.avals import typeof
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError
from ..lazy_imports import lazy_module
from ..primitives.common import as_array
from . import arithmetic, cumulative, indexing, reductions
from .creation import asarray
from .joining import concatenate
from .manipulation import broadcast_arrays
from .nonzeros import nonzero
from .selecting import select_where
from .util import (
    check_arraylike,
    dtype_of,
    literal,
    ndim_of,
    promote_dtypes,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
)

ufuncs_more: Any = lazy_module("pullback.numpy.ufuncs_more")


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition`, else `y`. With one argument: `nonzero(condition)`, with its `size` and
    `fill_value`.

    >>> jnp.where(jnp.arange(3) > 0, jnp.arange(3), -1)
    Array([-1,  1,  2], dtype=int32)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    check_arraylike("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    return select_where(condition, x, y)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """For each element of `a`, the element of the array of that number among `choices`. `mode`
    'wrap' or 'clip' for what is out of range.

    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([10, 20, 30])])
    Array([ 1, 20,  3], dtype=int32)
    """
    refuse_out("choose", out)
    parts = (
        list(choices)
        if isinstance(choices, list | tuple)
        else list(indexing.iterate(as_array(choices)))
    )
    check_arraylike("choose", a, *parts)
    if not dtypes.is_integer(dtype_of(a)):
        raise ValueError("`a` array must be integer typed")
    n = len(parts)
    a = as_array(unwrap(a))
    if mode == "raise":
        if isinstance(a, Tracer):
            raise ConcretizationTypeError(
                a,
                "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use "
                "mode='wrap' or mode='clip' instead.",
            )
        if (np.asarray(a) < 0).any() or (np.asarray(a) >= n).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        a = arithmetic.remainder(a, n)
    elif mode == "clip":
        a = ufuncs_more.clip_jit(a, 0, n - 1)
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    a, *parts = broadcast_arrays(a, *promote_dtypes(*parts))
    parts = [to_type(p, typeof(p).dtype, False) for p in parts]
    whole = lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)
    grid = [lax.broadcasted_iota(np.int32, shape_of(a), k) for k in range(ndim_of(a))]
    return indexing.take_index(whole, (a, *grid))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Of `choicelist`, the array whose condition is the first true one; `default` where none is.

    Conditions and choices broadcast. Raises ValueError if there is not one choice for each
    condition.

    >>> x = jnp.arange(5)
    >>> jnp.select([x < 2, x > 3], [x, x * 10], default=-1)
    Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    condlist, choicelist = (
        list(indexing.iterate(as_array(x))) if hasattr(x, "shape") else x
        for x in (condlist, choicelist)
    )
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not condlist:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    default, *choices = promote_dtypes(default, *choicelist)
    conditions = [as_array(unwrap(c)) for c in condlist]
    dtypes.result_type(np.dtype(bool), *conditions)  # refused by strict promotion
    conditions = [
        c if dtypes.is_bool(typeof(c).dtype) else lax.ne(c, literal(c, 0)) for c in conditions
    ]
    arrays = broadcast_arrays(*conditions, default, *choices)
    conditions, default, choices = (
        arrays[: len(conditions)],
        arrays[len(conditions)],
        arrays[len(conditions) + 1 :],
    )
    if len(conditions) == 1:
        return lax.select(conditions[0], choices[0], default)
    # The first true condition: the position of the first maximum, with a condition in front that is
    # never true.
    table = lax.stack([lax.full_like(conditions[0], False), *conditions], 0)
    return lax.select_n(lax.argmax(table, 0, np.int32), default, *choices)


def _piecewise(
    x: Any, masks: Any, values: Any, args: Any, kw: Any, functions: tuple[Any, ...]
) -> Any:
    """Each element of x through the function whose mask is the last that holds there (the last
    function where none does). `values` are what stands for None among `functions`.
    """
    none = lax.full_like(masks[:1], False)
    which = reductions.argmax(cumulative.cumsum(concatenate([none, masks]), axis=0), axis=0)
    d = typeof(x).dtype

    def branch(f: Any, place: int) -> Callable[..., Any]:
        def chosen(element: Any, values: Any) -> Any:
            y = values[place] if f is None else f(element, *args, **kw)
            return to_type(y, d, False)

        return chosen

    places = np.cumsum([f is None for f in functions]) - 1
    branches = [branch(f, int(k)) for f, k in zip(functions, places, strict=True)]

    def element(which: Any, x: Any, values: Any) -> Any:
        return lax.switch(which, branches, x, values)

    which, x = broadcast_arrays(which, x)
    for _ in range(x.ndim):
        element = vmap(element, in_axes=(0, 0, None))
    return element(which, x, values)


_piecewise_jit = jit(_piecewise, static_argnames=("functions",))


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions (or values) by condition: of `funclist`, the last whose condition is true; one more
    entry is for elsewhere, else 0.

    A function is called with one element, and with `args` and `kw`. Derivatives are those of the
    function that is chosen, whatever the others' are.

    >>> x = jnp.array([-2.0, 0.0, 3.0])
    >>> jnp.piecewise(x, [x < 0, x > 0], [lambda v: -v, lambda v: v * v, 100.0])
    Array([  2., 100.,   9.], dtype=float32)
    """
    check_arraylike("piecewise", x)
    x = as_array(unwrap(x))
    if not isinstance(condlist, list | tuple):
        condlist = as_array(unwrap(condlist))
        condlist = indexing.iterate(condlist) if ndim_of(condlist) else [condlist]
    conditions = [asarray(c, dtype=bool) for c in condlist]
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.insert(0, 0)
    elif len(functions) == len(conditions) + 1:
        functions.insert(0, functions.pop())
    else:
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected; got {len(functions)}"
        )
    values = [f for f in functions if not callable(f)]
    called = tuple(f if callable(f) else None for f in functions)
    rows = [lax.expand_dims(c, (0,)) for c in conditions]
    masks = concatenate(rows) if rows else np.zeros((0, *x.shape), bool)
    return _piecewise_jit(x, masks, values, args, kw, functions=called)
