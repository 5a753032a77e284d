"""Arithmetic that is rounded as JAX's compiler does it: what makes random numbers of bits.

Programs show `add`, `div`, `dot_general`; the rules here say how they are computed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..processor import computes_halves
from .builders import jvp_of, nary_batch
from .common import broadcast_dims, complex_dtype, size_of
from .contract import dot_general_p
from .convert import convert_element_type
from .elementwise import add, add_p, div_p, mul, mul_p, neg, pow_p, sub_p
from .keys import physical_rules, rules_of_pairs
from .layout import broadcast_in_dim, broadcast_in_dim_p, reduce_sum_p, reduction_batch, reshape
from .shape import index_in_dim


def _fma_aval(x: Any, y: Any, z: Any) -> ShapedArray:
    return ShapedArray(broadcast_dims("fused_multiply_add", [a.shape for a in (x, y, z)]), x.dtype)


# x * y + z, rounded once where the processor can. Only the lowering of programs on keys makes it.
fused_multiply_add_p: Primitive = Primitive(
    "fused_multiply_add",
    abstract_eval=_fma_aval,
    jvp=jvp_of(
        lambda: fused_multiply_add_p,
        lambda t, out, x, y, z: mul(t, y),
        lambda t, out, x, y, z: mul(x, t),
        lambda t, out, x, y, z: t,
    ),
    transpose=No.NOT_LINEAR,
    batch=nary_batch(lambda: fused_multiply_add_p),
    register=False,
)


# A power, in float64 as the C library computes it. Only the lowering of programs on keys makes it.
library_pow_p: Primitive = Primitive(
    "library_pow",
    abstract_eval=lambda *avals: pow_p.rule("abstract_eval")(*avals),
    jvp=lambda primals, tangents: pow_p.rule("jvp")(primals, tangents),
    transpose=No.NOT_LINEAR,
    batch=nary_batch(lambda: library_pow_p),
    register=False,
)


def compiled_as_jaxs(
    plain: Primitive, physical: Callable[..., Any], batch: Callable[..., Any] | None = None
) -> Primitive:
    """What programs show as `plain`, rounded as JAX's compiler does it: by the rule `physical`.
    `batch` makes the rule for batches, where that is neither a reduction's nor elementwise."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        return made.bind(*primals, **params), plain.rule("jvp")(primals, tangents, **params)[1]

    made: Primitive = Primitive(
        plain.name,
        abstract_eval=lambda *avals, **params: plain.rule("abstract_eval")(*avals, **params),
        jvp=jvp,
        transpose=lambda ct, *args, **params: plain.rule("transpose")(ct, *args, **params),
        batch=batch(lambda: made) if batch is not None else _batched_as(plain, lambda: made),
        multiple_results=plain.multiple_results,
        register=False,
    )
    physical_rules[made] = physical
    return made


def _batched_as(plain: Primitive, made: Callable[[], Primitive]) -> Callable[..., Any]:
    if plain is dot_general_p:  # what is batched is another product, rounded otherwise
        return lambda args, dims, **params: plain.rule("batch")(args, dims, **params)
    return reduction_batch(made) if plain is reduce_sum_p else nary_batch(made)


def _sum_physical(avals: Any, x: Any, y: Any, *, parts: Any = None) -> Any:
    """`parts`: the factors of x, if x is a product."""
    dtype = typeof(x).dtype
    if parts is None or dtype not in _CONTRACTED:
        return add_p.bind(x, y)
    if dtype == np.float16:  # the product is exact in float32
        if not computes_halves():
            return add_p.bind(x, y)
        wide = [convert_element_type(v, np.float32) for v in (*parts, y)]
        return convert_element_type(add(mul(wide[0], wide[1]), wide[2]), dtype)
    return fused_multiply_add_p.bind(*parts, y)


def _difference_physical(avals: Any, x: Any, y: Any, *, parts: Any = None) -> Any:
    """`parts`: the factors of y, if y is a product."""
    if parts is None or typeof(x).dtype not in _NATIVE:
        return sub_p.bind(x, y)
    return fused_multiply_add_p.bind(neg(parts[0]), parts[1], x)


def _quotient_physical(avals: Any, x: Any, y: Any, *, parts: Any = None) -> Any:
    """`parts`: what y is broadcast from, if it is."""
    whole, dtype = broadcast_dims("div", [a.shape for a in avals]), typeof(x).dtype
    if isinstance(y, np.generic) and dtype in (*_NATIVE, *map(complex_dtype, _NATIVE)):
        return mul(x, dtype.type(1) / y)
    if dtype not in _NATIVE or (typeof(y).shape == whole and parts is None):
        return div_p.bind(x, y)
    return mul(x, div_p.bind(dtype.type(1), y))


def _library_pow_physical(avals: Any, x: Any, y: Any) -> Any:
    dtype = typeof(x).dtype
    if dtype not in _NATIVE:
        return pow_p.bind(x, y)
    number = isinstance(y, np.generic)
    return library_pow_p.bind(x, y.astype(dtype) if number else convert_element_type(y, dtype))


def _over_power_physical(avals: Any, x: Any, y: Any, *, parts: Any = None) -> Any:
    """`parts`: base and exponent of the power that y is, with axes of size 1, if it is one."""
    if parts is None or typeof(x).dtype not in _NATIVE:
        return div_p.bind(x, y)
    power = _library_pow_physical(avals, parts[0], neg(parts[1]))
    return mul(x, reshape(power, avals[1].shape))


def _product_physical(avals: Any, x: Any, y: Any, **params: Any) -> Any:
    """Of vectors and a matrix, with few terms: in the order in which JAX's compiler adds them."""
    (over_x, over_y), batched = params["dimension_numbers"]
    shapes, dtype = (typeof(x).shape, typeof(y).shape), typeof(x).dtype
    n = shapes[0][over_x[0]] if len(over_x) == 1 else 0
    static = all(type(k) is int for shape in shapes for k in shape)
    if batched != ((), ()) or dtype not in _NATIVE or not static or not 1 < n <= _TERMS:
        return dot_general_p.bind(x, y, **params)
    out = dot_general_p.rule("abstract_eval")(*avals, **params).shape

    def terms(k: int) -> tuple[Any, Any]:
        columns = (index_in_dim(x, k, over_x[0], False), index_in_dim(y, k, over_y[0], False))
        ranks = [typeof(c).ndim for c in columns]
        starts = 0, ranks[0]
        return tuple(
            broadcast_in_dim(c, out, tuple(range(s, s + r)))
            for c, s, r in zip(columns, starts, ranks, strict=True)
        )

    order = _order_of_wide if dtype == np.float64 else _order_of_singles
    vectors = 1 if 1 in map(len, shapes) else size_of(shapes[0]) // n  # which come first
    return order(n, vectors)(terms, range(n))


def _one_by_one(terms: Any, ks: Any) -> Any:
    """A sum of products, each rounded."""
    return functools.reduce(add, [mul(*terms(k)) for k in ks])


def _fused(terms: Any, ks: Any) -> Any:
    """A sum of products, each fused with the sum of those before."""
    first, *others = ks
    total = mul(*terms(first))
    for k in others:
        total = fused_multiply_add_p.bind(*terms(k), total)
    return total


def _in_lanes(width: int, rest: Any, halves: bool = False) -> Any:
    """Every so many products in one sum; neighbouring sums are added in turn, or halves of them,
    then what is left over."""

    def total(terms: Any, ks: Any) -> Any:
        n = len(ks)
        whole = n - n % width
        lanes = [_fused(terms, range(k, whole, width)) for k in range(width)]
        while len(lanes) > 1:
            m = len(lanes) // 2
            pairs = zip(lanes[:m], lanes[m:]) if halves else zip(lanes[::2], lanes[1::2])
            lanes = [add(a, b) for a, b in pairs]
        return add(lanes[0], rest(terms, range(whole, n))) if n > whole else lanes[0]

    return total


# What JAX's compiler chooses by the number of terms and of vectors that a matrix is multiplied
# with, as its results show.
def _order_of_singles(n: int, vectors: int) -> Any:
    if n < 8 and vectors < 8:
        return _fused
    if n < 4:
        return _one_by_one
    return _in_lanes(8, _fused) if vectors == 1 else _in_lanes(4, _one_by_one)


def _order_of_wide(n: int, vectors: int) -> Any:
    if n > 3 and vectors == 1:
        return _in_lanes(4, _fused, halves=n > 4)
    return _one_by_one if 3 < n < 8 and vectors < 8 else _fused


def _short_sum_physical(
    avals: Any, x: Any, *, axes: Any, out_sharding: Any, parts: Any = None
) -> Any:
    """`parts`: the factors of x, if x is a product."""
    shape, dtype = typeof(x).shape, typeof(x).dtype
    last = len(shape) - 1
    n, size = shape[last], size_of(shape)
    static = type(n) is int and type(size) is int
    if axes != (last,) or dtype not in _NATIVE or not static or not 2 < n <= _SHORT:
        return reduce_sum_p.bind(x, axes=axes, out_sharding=out_sharding)

    def column(of: Any, k: int) -> Any:
        return index_in_dim(of, k, last, keepdims=False)

    if size >= _MANY:
        return _sum_in_halves([column(x, k) for k in range(n)])
    if parts is None:
        return functools.reduce(add, [column(x, k) for k in range(n)])
    first, second = (0, 1) if dtype == np.float32 else (1, 0)
    total = column(x, second)
    for k in (first, *range(2, n)):
        total = fused_multiply_add_p.bind(*(column(part, k) for part in parts), total)
    return total


def _sum_in_halves(terms: list[Any]) -> Any:
    """The second half of a power of two of terms is added to the first until one is left."""
    half = 1 << (len(terms) - 1).bit_length()
    while half > 1:
        half //= 2
        for k in range(half, len(terms)):
            terms[k - half] = add(terms[k - half], terms[k])
        del terms[half:]
    return terms[0]


# JAX's compiler has a library reduce so many numbers, by halves of rows. Fewer it adds in order,
# products fused with the sum before them.
_MANY, _SHORT = 4096, 32
_TERMS = 16  # of a product's elements, up to which they are written one by one

# Floats that JAX's compiler rounds by themselves on every processor.
_NATIVE = tuple(np.dtype(t) for t in (np.float32, np.float64))
_CONTRACTED = (np.dtype(np.float16), *_NATIVE)

# A product and another number: their `add` or `sub` takes the product's factors for one
# fused_multiply_add. JAX's compiler does the same to uniform numbers in a range.
contracted_add_p = compiled_as_jaxs(add_p, _sum_physical)
contracted_sub_p = compiled_as_jaxs(sub_p, _difference_physical)
# A uniform number, of which 1 was taken off, and the least normal number: JAX's compiler adds both
# constants, whose sum is -1 again. Only in float16 are others near enough to show it.
lost_add_p = compiled_as_jaxs(add_p, lambda avals, x, y: x)
# A quotient: JAX's compiler multiplies by the reciprocal, rounded, of a divisor that is a constant
# or is broadcast.
spread_div_p = compiled_as_jaxs(div_p, _quotient_physical)
# A power: float64 ones are the C library's.
compiled_pow_p = compiled_as_jaxs(pow_p, _library_pow_physical)
# A quotient by powers, one a row: JAX's compiler multiplies by the powers of negative exponents.
power_div_p = compiled_as_jaxs(div_p, _over_power_physical)
# A matrix product.
compiled_dot_p = compiled_as_jaxs(dot_general_p, _product_physical)
# A sum of each row's few numbers, or products.
short_sum_p = compiled_as_jaxs(reduce_sum_p, _short_sum_physical)
rules_of_pairs[short_sum_p] = 0, mul_p
rules_of_pairs[contracted_add_p] = 0, mul_p
rules_of_pairs[contracted_sub_p] = 1, mul_p
rules_of_pairs[spread_div_p] = 1, broadcast_in_dim_p
rules_of_pairs[power_div_p] = 1, broadcast_in_dim_p, compiled_pow_p
