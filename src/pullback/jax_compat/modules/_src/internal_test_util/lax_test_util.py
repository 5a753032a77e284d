"""`jax._src.internal_test_util.lax_test_util`: which operations of `lax` tests go through, with
which dtypes and numbers, and the axes that batches of them have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..... import lax
from .. import test_util as jtu


class OpRecord(NamedTuple):
    """An operation, how many operands it has, their dtypes and values, and the tolerance."""

    op: str
    nargs: int
    dtypes: Sequence[Any]
    rng_factory: Callable[..., Any]
    tol: Any


class ReducerOpRecord(NamedTuple):
    """A function of two values that reductions are made of."""

    op: Callable[..., Any]
    reference_op: Callable[..., Any]
    init_val: Any
    dtypes: Any
    primitive: Any


class NamedReducerOpRecord(NamedTuple):
    """A reduction."""

    op: Callable[..., Any]
    reference_op: Callable[..., Any]
    dtypes: Sequence[Any]


def op_record(
    op: str, nargs: int, dtypes: Sequence[Any], rng_factory: Callable[..., Any], tol: Any = None
) -> OpRecord:
    """An operation, with the default tolerance."""
    return OpRecord(op, nargs, dtypes, rng_factory, tol)


_GROUPS: dict[str, Callable[[], list[Any]]] = {
    "float_dtypes": lambda: jtu.dtypes.all_floating,
    "complex_elem_dtypes": lambda: jtu.dtypes.floating,
    "complex_dtypes": lambda: jtu.dtypes.complex,
    "inexact_dtypes": lambda: jtu.dtypes.all_inexact,
    "int_dtypes": lambda: jtu.dtypes.all_integer,
    "uint_dtypes": lambda: jtu.dtypes.all_unsigned,
    "bool_dtypes": lambda: jtu.dtypes.boolean,
    "default_dtypes": lambda: jtu.dtypes.all_floating + jtu.dtypes.all_integer,
    "number_dtypes": lambda: (
        jtu.dtypes.all_floating + jtu.dtypes.complex
        + jtu.dtypes.all_integer + jtu.dtypes.all_unsigned
    ),
    "all_dtypes": lambda: _GROUPS["number_dtypes"]() + jtu.dtypes.boolean,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Groups of dtypes, which depend on whether there are 64-bit types."""
    if name in _GROUPS:
        return _GROUPS[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


python_scalar_types = [bool, int, float, complex]
compatible_shapes = [[(3,)], [(3, 4), (3, 1), (1, 4)], [(2, 3, 4), (2, 1, 4)]]


def lax_ops() -> list[OpRecord]:
    """The elementwise operations."""
    f, c, i, u, b = (_GROUPS[g + "_dtypes"]() for g in ("float", "complex", "int", "uint", "bool"))
    ce = _GROUPS["complex_elem_dtypes"]()
    every, f16up = (
        _GROUPS["all_dtypes"](),
        [d for d in f if d in (np.float16, np.float32, np.float64)],
    )
    x = f + c
    default, small, positive = jtu.rand_default, jtu.rand_small, jtu.rand_positive
    f64, c64, c128, f32 = np.float64, np.complex64, np.complex128, np.float32
    rows: list[tuple[Any, ...]] = [
        ("neg", 1, f + i + c, small), ("sign", 1, f + i + u, small), ("floor", 1, f, small),
        ("ceil", 1, f, small), ("round", 1, f, default), ("nextafter", 2, f16up, default, 0),
        ("is_finite", 1, f, small), ("exp", 1, x, small), ("exp2", 1, x, small),
        ("expm1", 1, x, small, {f64: 1e-8}), ("log", 1, x, positive), ("log1p", 1, x, positive),
        ("tanh", 1, x, small, {f64: 1e-9, c128: 1e-7}), ("logistic", 1, x, default),
        ("sin", 1, x, default), ("cos", 1, x, default), ("atan2", 2, f, default),
        ("sqrt", 1, f, positive), ("sqrt", 1, c, default), ("rsqrt", 1, f, positive),
        ("rsqrt", 1, c, default), ("cbrt", 1, f, default), ("square", 1, x, default),
        ("reciprocal", 1, x, positive), ("tan", 1, x, default, {f32: 3e-5}),
        ("asin", 1, x, small, {c128: 5e-12}), ("acos", 1, x, small), ("atan", 1, x, small),
        ("asinh", 1, x, default, {c64: 1e-4, c128: 1e-5}), ("acosh", 1, x, positive),
        ("atanh", 1, x, small, {f64: 1e-9}), ("sinh", 1, x, default), ("cosh", 1, x, default),
        ("lgamma", 1, f, positive, {f32: 1e-5, f64: 1e-14}),
        ("digamma", 1, f, positive, {f64: 1e-14}),
        ("betainc", 3, f, jtu.rand_uniform, {f32: 2e-5, f64: 1e-12}),
        ("igamma", 2, ce, positive, {f64: 1e-14}), ("igammac", 2, ce, positive, {f64: 1e-14}),
        ("erf", 1, f, small), ("erfc", 1, f, small), ("erf_inv", 1, f, small, {f64: 1e-9}),
        ("bessel_i0e", 1, f, default), ("bessel_i1e", 1, f, default), ("real", 1, c, default),
        ("imag", 1, c, default), ("complex", 2, ce, default), ("conj", 1, ce + c, default),
        ("abs", 1, f + i + c, default), ("pow", 2, x, positive), ("bitwise_and", 2, b, small),
        ("bitwise_not", 1, b, small), ("bitwise_or", 2, b, small), ("bitwise_xor", 2, b, small),
        ("population_count", 1, i + u, jtu.rand_int), ("clz", 1, i + u, jtu.rand_int),
        ("add", 2, f + i + c, small), ("sub", 2, f + i + c, small), ("mul", 2, f + i + c, small),
        ("mulhi", 2, i + u, jtu.rand_fullrange), ("div", 2, f + i + c, jtu.rand_nonzero),
        ("rem", 2, f + i, jtu.rand_nonzero), ("max", 2, every, small), ("min", 2, every, small),
        ("eq", 2, every, jtu.rand_some_equal), ("ne", 2, every, small), ("ge", 2, f + i, small),
        ("gt", 2, f + i, small), ("le", 2, f + i, small), ("lt", 2, f + i, small),
    ]  # fmt: skip
    return [op_record(*row) for row in rows]


def lax_out_dtype_ops() -> list[OpRecord]:
    """The elementwise operations that compute in a dtype of choice."""
    kinds = [d for g in ("float", "int", "complex") for d in _GROUPS[g + "_dtypes"]()]
    return [op_record("mul", 2, kinds, jtu.rand_small)]


def lax_reduce_ops() -> list[ReducerOpRecord]:
    """Functions of two values, with what they begin from."""
    g = {name.removesuffix("_dtypes"): make() for name, make in _GROUPS.items()}
    bits = g["int"] + g["uint"] + g["bool"]

    def largest(d: Any) -> int:
        return int(np.iinfo(d).max)

    def least(d: Any) -> int:
        return int(np.iinfo(d).min)

    rows: list[tuple[Any, ...]] = [
        (lax.add, np.add, 0, g["default"], lax.reduce_sum_p),
        (lax.mul, np.multiply, 1, g["default"], lax.reduce_prod_p),
        (lax.max, np.maximum, 0, g["uint"] + g["bool"], lax.reduce_max_p),
        (lax.max, np.maximum, -np.inf, g["float"], lax.reduce_max_p),
        (lax.max, np.maximum, least(np.int32), [np.int32], lax.reduce_max_p),
        (lax.max, np.maximum, least(np.int64), [np.int64], lax.reduce_max_p),
        (lax.min, np.minimum, np.inf, g["float"], lax.reduce_min_p),
        (lax.min, np.minimum, largest(np.int32), [np.int32], lax.reduce_min_p),
        (lax.min, np.minimum, largest(np.int64), [np.int64], lax.reduce_min_p),
        (lax.min, np.minimum, largest(np.uint32), [np.uint32], lax.reduce_min_p),
        (lax.min, np.minimum, largest(np.uint64), [np.uint64], lax.reduce_min_p),
        (lax.bitwise_and, np.bitwise_and, -1, bits, lax.reduce_and_p),
        (lax.bitwise_or, np.bitwise_or, 0, bits, lax.reduce_or_p),
        (lax.bitwise_xor, np.bitwise_xor, 0, bits, lax.reduce_xor_p),
    ]
    return [ReducerOpRecord(*row) for row in rows]


def lax_named_reduce_ops() -> list[NamedReducerOpRecord]:
    """The reductions that have names."""
    numbers, every = _GROUPS["number_dtypes"](), _GROUPS["all_dtypes"]()
    bits = _GROUPS["bool_dtypes"]() + _GROUPS["int_dtypes"]() + _GROUPS["uint_dtypes"]()
    return [
        NamedReducerOpRecord(lax.reduce_sum, np.sum, numbers),
        NamedReducerOpRecord(lax.reduce_prod, np.prod, numbers),
        NamedReducerOpRecord(lax.reduce_max, np.max, every),
        NamedReducerOpRecord(lax.reduce_min, np.min, every),
        NamedReducerOpRecord(lax.reduce_and, np.bitwise_and.reduce, bits),
        NamedReducerOpRecord(lax.reduce_or, np.bitwise_or.reduce, bits),
        NamedReducerOpRecord(lax.reduce_xor, np.bitwise_xor.reduce, bits),
    ]


# ---- batches


def all_bdims(*shapes: Sequence[int]) -> Iterator[tuple[int | None, ...]]:
    """Where the batch axis of each operand may be; at least one has it."""
    places = ([*range(len(shape) + 1)] for shape in shapes)
    found = itertools.product(*([None, *p] for p in places))
    return (bdims for bdims in found if any(b is not None for b in bdims))


def add_bdim(bdim_size: int, bdim: int | None, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with a batch axis."""
    if bdim is None:
        return tuple(shape)
    return (*shape[:bdim], bdim_size, *shape[bdim:])


def slicer(x: Any, bdim: int | None) -> Callable[[int], Any]:
    """A function from an index to an element of a batch."""
    if bdim is None:
        return lambda _: x
    return lambda i: lax.index_in_dim(x, i, bdim, keepdims=False)


def args_slicer(args: Sequence[Any], bdims: Sequence[int | None]) -> Callable[[int], Any]:
    """A function from an index to elements of batches."""
    pick = [slicer(x, d) for x, d in zip(args, bdims, strict=True)]
    return lambda i: [p(i) for p in pick]
