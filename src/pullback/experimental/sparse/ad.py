"""Derivatives with respect to sparse arrays, which are sparse at the same places."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as jnp, tree
from ...api.derivatives import (
    jacfwd as dense_jacfwd,
    jacrev as dense_jacrev,
    value_and_grad as dense_value_and_grad,
)
from .base import JAXSparse as JAXSparse, is_sparse
from .bcoo import BCOO
from .bcsr import BCSR


def _on_data(
    fun: Callable[..., Any], argnums: Any, args: Sequence[Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
    """(the function of the data of its sparse arguments, those arguments' data, the arguments)."""
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    chosen = [args[k] for k in nums]

    def inner(*data: Any, **kwargs: Any) -> Any:
        full = list(args)
        for k, x, d in zip(nums, chosen, data, strict=True):
            full[k] = _with(x, d)
        return fun(*full, **kwargs)

    return inner, tuple(_data(x) for x in chosen), chosen


def _data(x: Any) -> Any:
    return tree.map(lambda v: v.data if is_sparse(v) else v, x, is_leaf=is_sparse)


def _with(x: Any, data: Any) -> Any:
    return tree.map(lambda v, d: v._with_data(d) if is_sparse(v) else d, x, data, is_leaf=is_sparse)


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., tuple[Any, Any]]:
    """`value_and_grad`; gradients with respect to sparse arrays are sparse at the same places.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> value, slope = sparse.value_and_grad(lambda m: (m * m).sum())(m)
    >>> value, slope.data
    (Array(4., dtype=float32), Array([4.], dtype=float32))
    """

    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> tuple[Any, Any]:
        inner, data, chosen = _on_data(fun, argnums, args)
        count = tuple(range(len(data)))
        value, grads = dense_value_and_grad(inner, count, has_aux=has_aux, **kwargs)(*data, **kw)
        out = tuple(_with(x, g) for x, g in zip(chosen, grads, strict=True))
        return value, out[0] if isinstance(argnums, int) else out

    return wrapped


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`grad`; gradients with respect to sparse arrays are sparse at the same places.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2))
    >>> sparse.grad(lambda m: (m @ jnp.ones(2)).sum())(m).data
    Array([1., 1.], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> Any:
        value, grads = both(*args, **kw)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def _jacobian(dense: Any, fun: Any, argnums: Any, has_aux: bool, kwargs: Any) -> Any:
    @functools.wraps(fun)
    def wrapped(*args: Any, **kw: Any) -> Any:
        inner, data, chosen = _on_data(fun, argnums, args)
        jac = dense(inner, tuple(range(len(data))), has_aux=has_aux, **kwargs)(*data, **kw)
        jac, aux = jac if has_aux else (jac, None)
        out = tuple(_jacobian_of(x, j) for x, j in zip(chosen, jac, strict=True))
        result = out[0] if isinstance(argnums, int) else out
        return (result, aux) if has_aux else result

    return wrapped


def _jacobian_of(x: Any, jac: Any) -> Any:
    """The derivatives by the data, (*out, nse), as an array that is sparse in the last axes."""
    if not isinstance(x, BCOO | BCSR):
        return jac
    if x.n_batch or x.n_dense:
        raise NotImplementedError("Jacobians by arrays with batch or dense axes")
    lead = (1,) * (jac.ndim - 1)
    shape = (*jac.shape[:-1], *x.shape)
    places = [jnp.broadcast_to(part, (*lead, *part.shape)) for part in x.tree_flatten()[0][1:]]
    return (
        BCOO((jac, *places), shape=shape)
        if isinstance(x, BCOO)
        else BCSR((jac, *places), shape=shape)
    )


def jacfwd(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`jacfwd`, sparse where the argument is.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> sparse.jacfwd(lambda m: (m * 3.).sum())(m).todense()
    Array([3., 0.], dtype=float32)
    """
    return _jacobian(dense_jacfwd, fun, argnums, has_aux, kwargs)  # type: ignore[no-any-return]


def jacrev(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`jacrev`, sparse where the argument is.

    Also called `jacrev`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([2., 0.]))
    >>> sparse.jacobian(lambda m: (m * 3.).sum())(m).todense()
    Array([3., 0.], dtype=float32)
    """
    return _jacobian(dense_jacrev, fun, argnums, has_aux, kwargs)  # type: ignore[no-any-return]


jacobian = jacrev


__all__ = ["grad", "is_sparse", "jacfwd", "jacobian", "jacrev", "value_and_grad"]
