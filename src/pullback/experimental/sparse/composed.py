"""Primitives that mean a function of arrays: every rule is that function's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...api.derivatives import jvp, linear_transpose
from ...api.jit import jit
from ...api.staging import eval_shape
from ...api.vmap import vmap
from ...control.expand import register_inline
from ...core.avals import ShapedArray
from ...core.primitive import Primitive
from ...core.symbolic import Zero, instantiate_zeros, is_undefined_primal, is_zero
from ...numpy.util import promotes_freely


class SparseInfo(NamedTuple):
    """What is static of an array in BCOO or BCSR form."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class COOInfo(NamedTuple):
    """What is static of a COO matrix."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


def info(mat: Any) -> SparseInfo:
    """Of a BCOO or BCSR array."""
    return SparseInfo(tuple(mat.shape), mat.indices_sorted, mat.unique_indices)


def numbers(dimension_numbers: Any) -> Any:
    """Dimension numbers of a product as tuples of ints, which are parameters of equations."""
    return tuple(tuple(tuple(map(int, axes)) for axes in pair) for pair in dimension_numbers)


def _of(fun: Callable[..., Any], args: Sequence[Any], free: Sequence[int]) -> Callable[..., Any]:
    """`fun` of the arguments at the places `free`, the others being given."""

    def inner(*values: Any) -> Any:
        full = list(args)
        for k, value in zip(free, values, strict=True):
            full[k] = value
        return fun(*full)

    return inner


def _tangent(out: Any, tangent: Any) -> Any:
    return Zero.from_primal_value(out) if tangent.dtype == dtypes.float0 else tangent


def composed(
    name: str, fun: Callable[..., Any], statics: Sequence[str], *, multiple_results: bool = False
) -> Primitive:
    """The primitive whose meaning is `fun(*arrays, **params)`; `statics`: the parameters' names.

    Derivatives, batches and transposes are taken of what `fun` does, so that the primitive itself
    appears in programs where it was called, not in what is derived of them.
    """
    fun = promotes_freely(fun)

    def abstract_eval(*avals: Any, **params: Any) -> Any:
        outs = eval_shape(functools.partial(fun, **params), *avals)
        types = [ShapedArray(x.shape, x.dtype) for x in (outs if multiple_results else [outs])]
        return types if multiple_results else types[0]

    def jvp_rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        moving = [k for k, t in enumerate(tangents) if not is_zero(t)]
        along = _of(functools.partial(fun, **params), primals, moving)
        outs, slopes = jvp(
            along, tuple(primals[k] for k in moving), tuple(tangents[k] for k in moving)
        )
        if multiple_results:
            return list(outs), [_tangent(x, t) for x, t in zip(outs, slopes, strict=True)]
        return outs, _tangent(outs, slopes)

    def transpose(ct: Any, *args: Any, **params: Any) -> list[Any]:
        linear = [k for k, x in enumerate(args) if is_undefined_primal(x)]
        back = linear_transpose(
            _of(functools.partial(fun, **params), args, linear), *(args[k].aval for k in linear)
        )
        cts = [instantiate_zeros(c) for c in ct] if multiple_results else instantiate_zeros(ct)
        found: list[Any] = [None] * len(args)
        for k, out in zip(linear, back(cts), strict=True):
            found[k] = out
        return found

    def batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        outs = vmap(functools.partial(fun, **params), tuple(dims))(*args)
        return (list(outs), [0] * len(outs)) if multiple_results else (outs, 0)

    @functools.lru_cache(maxsize=256)
    def compiled(*params: Any) -> Any:
        return jit(functools.partial(fun, **dict(zip(statics, params, strict=True))))

    def impl(*args: Any, **params: Any) -> Any:
        # A function for each set of parameters: calls of it are native.
        return compiled(*(params[n] for n in statics))(*args)

    primitive = Primitive(
        name,
        abstract_eval=abstract_eval,
        jvp=jvp_rule,
        transpose=transpose,
        batch=batch,
        impl=impl,
        multiple_results=multiple_results,
        register=False,
    )
    register_inline(primitive, fun)
    return primitive
