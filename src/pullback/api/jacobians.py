"""Jacobians and Hessians, `jacfwd`, `jacrev` and `hessian`: derivatives along all unit vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import typeof
from ..primitives.convert import convert_element_type, convert_element_type_p, convert_weak
from ..primitives.elementwise import add, eq
from ..primitives.layout import as_varying, reshape
from ..primitives.shape import broadcasted_iota, split
from .arguments import check_callable
from .derivatives import (
    check_grad_inputs,
    chosen_argnums,
    dtype_name,
    jvp,
    named_derivative,
    of_arguments,
    vjp,
)
from .placement import laid_anew
from .vmap import vmap

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian, column by column (forward mode). Its leaves have shape output.shape +
    input.shape.

    `fun`: a function of arrays, with `has_aux` of pairs; `argnums`: which arguments, an int
    or several; `holomorphic`: of complex arguments and results.

    >>> pb.jacfwd(lambda x: x ** 2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    chosen_argnums(argnums)

    @named_derivative(fun, "Jacobian of {}, by forward differentiation,", argnums)
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, single = of_arguments(fun, argnums, args, kwargs, "jacfwd")
        for x in tree.flatten(chosen)[0]:
            _check_jacfwd_input(x, holomorphic)
        basis = std_basis(chosen)

        def push(*tangents: Any) -> Any:
            return jvp(of_chosen, chosen, tangents, has_aux=has_aux)

        if has_aux:
            y, jac, aux = vmap(push, out_axes=(None, -1, None))(*basis)
        else:
            y, jac = vmap(push, out_axes=(None, -1))(*basis)
        example = chosen[0] if single else chosen
        result = tree.map(functools.partial(_columns, example), jac, y)
        return (result, aux) if has_aux else result

    return jacfun


def _columns(example: Any, jac: Any, out: Any) -> Any:
    """The parts of `jac` that belong to the leaves of `example`. As in JAX, those of an output
    without derivatives are zeros of its dtype.
    """
    parts = _unravel(example, jac, -1, typeof(out).shape)
    return tree.map(functools.partial(_derivative_like, typeof(out)), parts)


def _derivative_like(aval: Any, part: Any) -> Any:
    """A part of a Jacobian, as weak as `aval`; of float0, zeros of its dtype."""
    if dtypes.is_extended(aval.dtype):
        return part
    dtype = aval.dtype if typeof(part).dtype == dtypes.float0 else typeof(part).dtype
    return convert_weak(part, dtype, aval.weak_type)


def _check_jacfwd_input(x: Any, holomorphic: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.is_complex(dtype):
            raise TypeError(
                "jacfwd with holomorphic=True requires inputs with complex dtype, but got "
                f"{dtype_name(dtype)}."
            )
    elif not dtypes.is_float(dtype):
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {dtype_name(dtype)}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex inputs or integer inputs, use jax.jvp "
            "directly."
        )


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian, row by row (reverse mode). Its leaves have shape output.shape + input.shape.

    >>> pb.jacrev(lambda x: x ** 2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    chosen_argnums(argnums)

    @named_derivative(fun, "Jacobian of {}, by reverse differentiation,", argnums)
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, single = of_arguments(fun, argnums, args, kwargs, "jacrev")
        check_grad_inputs(chosen, holomorphic, allow_int, "jacrev")
        if has_aux:
            y, pull, aux = vjp(of_chosen, *chosen, has_aux=True)
        else:
            y, pull = vjp(of_chosen, *chosen)
        for x in tree.flatten(y)[0]:
            _check_jacrev_output(typeof(x), holomorphic)
        jac = vmap(pull)(std_basis(y))
        jac = jac[0] if single else jac
        example = chosen[0] if single else chosen
        by_input = tree.map(functools.partial(_rows, y), jac, example)
        result = tree.transpose(tree.structure(example), tree.structure(y), by_input)
        return (result, aux) if has_aux else result

    return jacfun


def _rows(outputs: Any, jac: Any, x: Any) -> Any:
    """The parts of `jac` that belong to the leaves of `outputs`. As in JAX, those of an input
    without derivatives are zeros of its dtype.
    """
    parts = _unravel(outputs, jac, 0, typeof(x).shape)
    return tree.map(functools.partial(_derivative_like, typeof(x)), parts)


def _check_jacrev_output(aval: Any, holomorphic: bool) -> None:
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(
                "jacrev with holomorphic=True requires outputs with complex dtype, but got "
                f"{dtype_name(aval.dtype)}."
            )
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(
            "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype_name(aval.dtype)}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "functions with integer or complex outputs, use jax.vjp directly."
        )


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives: forward over reverse.

    For a result of shape s and an argument of shape t: shape s + t + t; trees give trees of trees.
    `argnums`, `has_aux` and `holomorphic` as for `jacfwd`.

    >>> pb.hessian(lambda x: (x ** 3).sum())(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def std_basis(pytree: Any) -> Any:
    """All unit vectors of a tree of arrays, along new leading axes."""
    leaves, treedef = tree.flatten(pytree)
    avals = [typeof(x) for x in leaves]
    sizes = [math.prod(a.shape) for a in avals]
    total = sum(sizes)
    index = np.dtype("int32")
    rows = broadcasted_iota(index, (total, total), 0)
    columns = broadcasted_iota(index, (total, total), 1)
    # One matrix of the type that all leaves promote to, cut into the leaves' columns.
    unit = convert_element_type(eq(add(rows, np.int32(0)), columns), _common_dtype(avals))
    parts = []
    for a, block in zip(avals, split(unit, sizes, axis=1) if sizes else [], strict=True):
        shaped = block if len(a.shape) == 1 else reshape(block, (total, *a.shape))
        params = {"new_dtype": a.dtype, "weak_type": a.weak_type, "sharding": None}
        vectors = convert_element_type_p.bind(shaped, **params)
        if a._sharding is not None:
            spec = a._sharding.spec
            vectors = laid_anew(vectors, a._sharding.update(spec=type(spec)(None, *spec)))
        parts.append(as_varying(vectors, a))
    return tree.unflatten(treedef, parts)


def _common_dtype(avals: Sequence[Any]) -> Any:
    found = np.dtype("float32")
    for k, a in enumerate(avals):
        found = a.dtype if k == 0 else dtypes.promote_types(found, a.dtype)
    return found


def _unravel(example: Any, x: Any, axis: int, rest: tuple[int, ...]) -> Any:
    """Splits one axis of `x` by the leaves of `example`, and gives each part that leaf's shape
    there.
    """
    leaves, treedef = tree.flatten(example)
    shapes = [typeof(leaf).shape for leaf in leaves]
    axis = axis % typeof(x).ndim
    sizes = [math.prod(shape) for shape in shapes]
    parts = []
    for shape, part in zip(shapes, split(x, sizes, axis=axis) if sizes else [], strict=True):
        new = (*shape, *rest) if axis == 0 else (*rest, *shape)
        parts.append(part if typeof(part).shape == new else reshape(part, new))
    return tree.unflatten(treedef, parts)
