"""What functions of matrices share: arguments as arrays, stacks of matrices and of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import numpy as jnp
from ...api.vmap import vmap
from ...core.avals import typeof
from ...numpy.util import check_arraylike, promote_dtypes_inexact


def arrays(name: str, *args: Any) -> list[Any]:
    check_arraylike(name, *args)
    return [jnp.asarray(x) for x in promote_dtypes_inexact(*args)]


def from_lists(*args: Any) -> list[Any]:
    """The same for functions that take nested lists of numbers, too. ValueError for None."""
    return promote_dtypes_inexact(*(jnp.asarray(x) for x in args))


def in_stacks(fun: Callable[..., Any], *args: Any) -> Any:
    """A function of matrices, of stacks of them that broadcast."""
    batch = jnp.broadcast_shapes(*(typeof(x).shape[:-2] for x in args))
    args = tuple(jnp.broadcast_to(x, (*batch, *typeof(x).shape[-2:])) for x in args)
    for _ in batch:
        fun = vmap(fun)
    return fun(*args)


def along_last(fun: Callable[..., Any], *args: Any) -> Any:
    """Applies a function of vectors along the last axes, the other axes broadcast."""
    batch = jnp.broadcast_shapes(*(typeof(a).shape[:-1] for a in args))
    args = tuple(jnp.broadcast_to(a, (*batch, typeof(a).shape[-1])) for a in args)
    for _ in batch:
        fun = vmap(fun)
    return fun(*args)
