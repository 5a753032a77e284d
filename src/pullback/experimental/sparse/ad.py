"""Derivatives with respect to sparse arrays, which are sparse at the same places."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as jnp, tree
from ...api.derivatives import value_and_grad as dense_value_and_grad
from ...api.jacobians import jacfwd as dense_jacfwd, jacrev as dense_jacrev
from .base import JAXSparse as JAXSparse, is_sparse
from .bcoo import BCOO
from .bcsr import BCSR


def flatten_fun_for_sparse_ad(
    fun: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[int, ...], list[Any], Callable[[Sequence[Any]], Any]]:
    """What derivatives with respect to sparse arguments are made of.

    Gives `fun` as a function of its arguments' buffers; the positions, among those, of what is
    differentiated: the data of sparse arrays, and dense ones; the buffers; and a function that
    makes of derivatives at these positions what belongs to `argnums`, sparse at the same places.
    Raises ValueError for an argument that is not there.

    >>> from pullback.experimental.sparse import BCOO, ad
    >>> m = BCOO.fromdense(jnp.array([2., 0.]))
    >>> flat, argnums, buffers, unflat = ad.flatten_fun_for_sparse_ad(lambda m: m.sum(), 0, (m,))
    >>> argnums, len(buffers), unflat([jnp.ones(1)])
    ((0,), 2, BCOO(float32[2], nse=1))
    """
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for k in nums:
        if not -len(args) <= k < len(args):
            raise ValueError(f"argnums={argnums}: the call has {len(args)} positional arguments")
    buffers, structure = tree.flatten(tuple(args))
    starts = list(itertools.accumulate((tree.structure(x).num_leaves for x in args), initial=0))
    chosen = [tree.flatten(args[k], is_leaf=is_sparse) for k in nums]
    positions: list[int] = []
    for k, (leaves, _) in zip(nums, chosen, strict=True):
        sizes = (tree.structure(x).num_leaves for x in leaves)
        at = itertools.accumulate(sizes, initial=starts[k % len(args)])
        positions.extend(list(at)[:-1])  # a sparse array's data come first among its buffers

    def flat(*values: Any, **kwargs: Any) -> Any:
        return fun(*tree.unflatten(structure, values), **kwargs)

    def postprocess(derivatives: Sequence[Any]) -> Any:
        rest = iter(derivatives)
        found = [
            tree.unflatten(shape, [_derivative(x, next(rest)) for x in leaves])
            for leaves, shape in chosen
        ]
        return found[0] if isinstance(argnums, int) else tuple(found)

    return flat, tuple(positions), buffers, postprocess


def _derivative(x: Any, by_data: Any) -> Any:
    """The derivative by `x`, (*results, *x.shape), from that by its data: x's places in each."""
    if not is_sparse(x):
        return by_data
    lead = by_data.ndim - x.data.ndim
    if not lead:
        return x._with_data(by_data)
    if not isinstance(x, BCOO | BCSR):
        return by_data
    places = [jnp.broadcast_to(part, (*[1] * lead, *part.shape)) for part in x._bufs[1:]]
    return type(x)((by_data, *places), shape=(*by_data.shape[:lead], *x.shape))


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
        flat, nums, buffers, unflat = flatten_fun_for_sparse_ad(fun, argnums, args)
        value, grads = dense_value_and_grad(flat, nums, has_aux=has_aux, **kwargs)(*buffers, **kw)
        return value, unflat(grads)

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
        flat, nums, buffers, unflat = flatten_fun_for_sparse_ad(fun, argnums, args)
        found: list[Any] = []

        def noting_structure(*values: Any, **kw: Any) -> Any:
            out = flat(*values, **kw)
            found.append(tree.structure(out[0] if has_aux else out))
            return out

        jac = dense(noting_structure, nums, has_aux=has_aux, **kwargs)(*buffers, **kw)
        jac, aux = jac if has_aux else (jac, None)
        structure = found[-1]
        out = tree.unflatten(structure, [unflat(j) for j in structure.flatten_up_to(jac)])
        return (out, aux) if has_aux else out

    return wrapped


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


__all__ = [
    "flatten_fun_for_sparse_ad",
    "grad",
    "is_sparse",
    "jacfwd",
    "jacobian",
    "jacrev",
    "value_and_grad",
]
