"""Samples of every operation of lax and lax.linalg: a call and the arrays it takes, in any dtype.

`sample(names, call, *arrays)`: `call(lax, *operands)` works on either library's module. An array
is a shape and a range; its dtype is the one that is swept, unless it has its own. Samples of
operations that JAX refuses for a dtype are samples of the refusal.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

DTYPES = {
    **{n: np.dtype(n) for n in ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{n: np.dtype(n) for n in ("float16", "float32", "complex64")},
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    # These need 64-bit types to be enabled.
    **{n: np.dtype(n) for n in ("int64", "uint64", "float64", "complex128")},
}
WIDE = ("int64", "uint64", "float64", "complex128")
STORAGE = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4")
FLOATS = ("float16", "bfloat16", "float32", "float64")
REALS = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Array:
    """A shape, a range of values, and a dtype if it is not the swept one."""

    def __init__(
        self, *shape: int, low: float = -3.0, high: float = 3.0, dtype: str | None = None,
        diff: bool = True, form: str = "", batch: bool = True,
    ) -> None:  # fmt: skip
        self.shape, self.low, self.high, self.dtype = shape, low, high, dtype
        self.diff, self.form, self.batch = diff and dtype is None, form, batch

    def make(self, rng: Any, swept: str) -> Any:
        d = DTYPES[self.dtype or swept]
        if d == np.bool_:
            return rng.integers(0, 2, self.shape).astype(bool)
        if d.kind in "iu" or d.name in ("int4", "uint4"):
            low, high = int(np.floor(self.low)), int(np.ceil(self.high))
            signed = d.kind == "i" or d.name == "int4"
            low, high = (low, high) if signed else (max(low, 0), max(high, 0))
            return np.asarray(rng.integers(low, high + 1, self.shape)).astype(d)
        x = rng.uniform(self.low, self.high, self.shape)
        if d.kind == "c":
            x = x + 1j * rng.uniform(self.low, self.high, self.shape)
        x = np.asarray(x)
        if self.form == "spd":
            x = x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * x.shape[-1] * np.eye(x.shape[-1])
        elif self.form == "symmetric":
            x = x + np.conj(np.swapaxes(x, -1, -2))
        elif self.form == "triangle":
            x = np.tril(x) + 4 * np.eye(x.shape[-1])
        elif self.form == "apart":  # all elements differ by more than derivatives' steps
            order = rng.permutation(x.size).reshape(x.shape)
            x = (order / max(x.size, 1) * (self.high - self.low) + self.low).astype(x.dtype)
        return x.astype(d)


class Sample:
    """One call. `order`: how often it can be differentiated at random points; `only`: the dtypes
    for which the values are compared (elsewhere they depend on how, as signs of eigenvectors do);
    `truth`: SciPy's function, the judge in float64 where JAX is less exact.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], arrays: tuple[Array, ...], order: int,
        only: tuple[str, ...] | None, tol: float, batch: bool, truth: Any,
    ) -> None:  # fmt: skip
        self.name, self.call, self.arrays, self.order = name, call, arrays, order
        self.only, self.tol, self.batch, self.truth = only, tol, batch, truth

    def operands(self, seed: int, dtype: str) -> list[Any]:
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.name} {dtype}".encode())])
        return [a.make(rng, dtype) for a in self.arrays]


SAMPLES: dict[str, Sample] = {}


def sample(
    names: str, call: Callable[..., Any], *arrays: Array, order: int = 2,
    only: tuple[str, ...] | None = None, tol: float = 1.0, batch: bool = True, truth: Any = None,
) -> None:  # fmt: skip
    """A sample for each of the names: the first word is the operation, what follows says which
    variant; a call of several operations gets the operation's name as `op`.
    """
    for name in names.split(", "):
        op = name.split()[0]
        made = (lambda lax, *xs, op=op: call(lax, op, *xs)) if "," in names else call
        assert name not in SAMPLES, name
        SAMPLES[name] = Sample(name, made, arrays, order, only, tol, batch, truth)


def get(lax: Any, op: str) -> Any:
    return getattr(lax, op)


A, X = Array, (2, 3)
POS = {"low": 0.3, "high": 3.0}
UNIT = {"low": -0.9, "high": 0.9}


def _unary(lax: Any, op: str, x: Any) -> Any:
    return get(lax, op)(x)


# --- elementwise ---
sample("abs, neg, square, sin, cos, exp, exp2, expm1, sinh, cosh, tanh, asinh, atan, erf, erfc, "
       "cbrt, logistic, real, imag, conj", _unary, A(*X))  # fmt: skip
sample("log, log1p, sqrt, rsqrt, reciprocal, digamma, bessel_i0e, bessel_i1e",
       _unary, A(*X, **POS))  # fmt: skip
# Near its zeros, 1 and 2, JAX's is the difference of numbers that cancel.
sample("lgamma", lambda lax, x: lax.lgamma(x), A(*X, **POS), truth=scipy.special.gammaln)
sample("asin, acos, atanh, erf_inv, tan", _unary, A(*X, **UNIT))
sample("acosh", _unary and (lambda lax, x: lax.acosh(x)), A(*X, low=1.2, high=4.0))
sample("sign, floor, ceil, is_finite, population_count, clz, bitwise_not, stop_gradient",
       _unary, A(*X), order=0)  # fmt: skip
sample("round, round even", lambda lax, op, x: lax.round(
    x, lax.RoundingMethod.TO_NEAREST_EVEN), A(*X), order=0)  # fmt: skip
sample("integer_pow", lambda lax, x: lax.integer_pow(x, 3), A(*X))
sample("integer_pow negative", lambda lax, x: lax.integer_pow(x, -2), A(*X, **POS))
sample("reduce_precision", lambda lax, x: lax.reduce_precision(x, 5, 3), A(*X), order=0)
sample(
    "polygamma",
    lambda lax, m, x: lax.polygamma(m, x),
    A(*X, low=1.0, high=3.0, diff=False, dtype=None),
    A(*X, low=0.5, high=3.0),
    order=0,
    tol=8,
)
sample("zeta", lambda lax, x, q: lax.zeta(x, q), A(*X, low=2.0, high=4.0, diff=False),
       A(*X, **POS), order=0, tol=8)  # fmt: skip


def _binary(lax: Any, op: str, x: Any, y: Any) -> Any:
    return get(lax, op)(x, y)


sample("add, sub, mul, max, min", _binary, A(*X, form="apart"), A(*X, form="apart", low=-2.9))
sample("div, atan2", _binary, A(*X, **POS), A(*X, **POS))
sample("rem", lambda lax, x, y: lax.rem(x, y), A(*X, **POS), A(*X, low=4, high=5), order=1)
sample("pow", lambda lax, x, y: lax.pow(x, y), A(*X, **POS), A(*X, **POS))
sample("pow integer", lambda lax, x, y: lax.pow(x, y), A(*X), A(*X, low=0, high=3, dtype="int32"))
sample("nextafter, eq, ne, lt, le, gt, ge, bitwise_and, bitwise_or, bitwise_xor, mulhi",
       _binary, A(*X), A(*X), order=0)  # fmt: skip
sample("shift_left, shift_right_logical, shift_right_arithmetic", _binary, A(*X),
       A(*X, low=0, high=9), order=0)  # fmt: skip
sample("complex", lambda lax, x, y: lax.complex(x, y), A(*X), A(*X))
sample("add scalar, mul scalar, max scalar", lambda lax, op, x, y: get(lax, op)(x, y), A(), A())
sample("add weak, mul weak, sub weak", lambda lax, op, x: get(lax, op)(x, 2), A(*X))
sample("mul out_dtype", lambda lax, x, y: lax.mul(x, y, out_dtype="float32"), A(*X), A(*X), order=0)
sample("select", lambda lax, p, x, y: lax.select(p, x, y), A(*X, dtype="bool"), A(*X), A(*X))
sample("select_n", lambda lax, w, x, y, z: lax.select_n(w, x, y, z),
       A(*X, low=0, high=2, dtype="int32"), A(*X), A(*X), A(*X))  # fmt: skip
sample("clamp", lambda lax, lo, x, hi: lax.clamp(lo, x, hi), A(low=-2, high=-1.2),
       A(*X, form="apart"), A(low=1.3, high=2))  # fmt: skip
sample("igamma, igammac, random_gamma_grad", _binary, A(*X, **POS), A(*X, **POS), order=0, tol=50)
sample("igamma_grad_a", lambda lax, a, x: lax.igamma_grad_a(a, x), A(*X, **POS), A(*X, **POS),
       order=0, tol=50)  # fmt: skip
sample("betainc", lambda lax, a, b, x: lax.betainc(a, b, x), A(*X, **POS), A(*X, **POS),
       A(*X, low=0.1, high=0.9), order=0, tol=50)  # fmt: skip

# --- types ---
for _d in ("float32", "int32", "bool", "bfloat16", "float16", "uint8", "complex64", "int4",
           "float8_e4m3fn"):  # fmt: skip
    sample(f"convert_element_type {_d}",
           lambda lax, x, d=_d: lax.convert_element_type(x, DTYPES[d]),
           A(*X, low=0, high=1.9), order=0)  # fmt: skip
sample("bitcast_convert_type", lambda lax, x: lax.bitcast_convert_type(x, np.int32), A(*X), order=0)
sample("bitcast_convert_type narrower",
       lambda lax, x: lax.bitcast_convert_type(x, np.uint8), A(*X), order=0)  # fmt: skip
sample("bitcast_convert_type wider",
       lambda lax, x: lax.bitcast_convert_type(x, np.uint32), A(3, 2), order=0)  # fmt: skip
sample("optimization_barrier", lambda lax, x, y: lax.optimization_barrier((x, y)), A(3), A(2))

# --- shapes ---
sample("broadcast", lambda lax, x: lax.broadcast(x, (2, 1)), A(*X))
sample("broadcast_in_dim", lambda lax, x: lax.broadcast_in_dim(x, (2, 4, 3), (0, 2)), A(2, 1))
sample(
    "broadcast_in_dim turned", lambda lax, x: lax.broadcast_in_dim(x, (3, 4, 2), (2, 0)), A(1, 3)
)
sample("broadcast_to_rank", lambda lax, x: lax.broadcast_to_rank(x, 4), A(*X))
sample("broadcast_like", lambda lax, x, y: lax.broadcast_like(x, y), A(3), A(3))
sample("reshape", lambda lax, x: lax.reshape(x, (3, 2)), A(*X))
sample("reshape order", lambda lax, x: lax.reshape(x, (6,), dimensions=(1, 0)), A(*X))
sample("collapse", lambda lax, x: lax.collapse(x, 0, 2), A(2, 3, 2))
sample("expand_dims", lambda lax, x: lax.expand_dims(x, (0, 2)), A(*X))
sample("squeeze", lambda lax, x: lax.squeeze(x, (1,)), A(2, 1, 3))
sample("transpose", lambda lax, x: lax.transpose(x, (2, 0, 1)), A(2, 3, 4))
sample("rev", lambda lax, x: lax.rev(x, (1,)), A(*X))
sample("slice", lambda lax, x: lax.slice(x, (0, 1), (2, 6), (1, 2)), A(3, 7))
sample("slice_in_dim", lambda lax, x: lax.slice_in_dim(x, -3, None, 1, 1), A(2, 5))
sample("index_in_dim", lambda lax, x: lax.index_in_dim(x, -1, 1, False), A(*X))
sample("pad", lambda lax, x, v: lax.pad(x, v, ((1, 2, 1), (-1, 0, 0))), A(*X), A())
sample("concatenate", lambda lax, x, y: lax.concatenate([x, y, x], 1), A(2, 3), A(2, 1))
sample("stack", lambda lax, x, y: lax.stack([x, y], 1), A(*X), A(*X))
sample("unstack", lambda lax, x: lax.unstack(x, 1), A(*X))
sample("split", lambda lax, x: lax.split(x, (1, 3), axis=1), A(2, 4))
sample("tile", lambda lax, x: lax.tile(x, (2, 1)), A(*X))
sample("full", lambda lax, x: lax.full((2, 2), x), A())
sample("full_like", lambda lax, x, y: lax.full_like(x, y), A(*X, diff=False), A(), batch=True)
sample("iota", lambda lax, x: lax.iota(x.dtype, 5), A(1), order=0, batch=False)
sample("broadcasted_iota", lambda lax, x: lax.broadcasted_iota(x.dtype, (2, 3), 1), A(1), order=0,
       batch=False)  # fmt: skip
sample("dynamic_slice", lambda lax, x, i, j: lax.dynamic_slice(x, (i, j), (2, 2)), A(3, 4),
       A(low=-1, high=3, dtype="int32"), A(low=-1, high=4, dtype="int32"))  # fmt: skip
sample("dynamic_slice_in_dim", lambda lax, x, i: lax.dynamic_slice_in_dim(x, i, 2, 1), A(3, 4),
       A(low=-1, high=3, dtype="int32"))  # fmt: skip
sample("dynamic_index_in_dim", lambda lax, x, i: lax.dynamic_index_in_dim(x, i, 1, False), A(3, 4),
       A(low=-1, high=3, dtype="int32"))  # fmt: skip
sample("dynamic_update_slice", lambda lax, x, u, i: lax.dynamic_update_slice(
    x, u, (i, np.int32(1))), A(3, 4), A(2, 2), A(low=-1, high=3, dtype="int32"))  # fmt: skip
sample("dynamic_update_slice_in_dim",
       lambda lax, x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1), A(3, 4), A(3, 2),
       A(low=-1, high=3, dtype="int32"))  # fmt: skip
sample("dynamic_update_index_in_dim",
       lambda lax, x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1), A(3, 4), A(3),
       A(low=-1, high=3, dtype="int32"))  # fmt: skip

# --- reductions ---
sample("reduce_sum, reduce_prod", lambda lax, op, x: get(lax, op)(x, (1,)), A(2, 5, **POS))
sample(
    "reduce_max, reduce_min", lambda lax, op, x: get(lax, op)(x, (0, 2)), A(2, 5, 2, form="apart")
)
sample("reduce_and, reduce_or, reduce_xor", lambda lax, op, x: get(lax, op)(x, (1,)), A(2, 5),
       order=0)  # fmt: skip
sample("argmax, argmin", lambda lax, op, x: get(lax, op)(x, 1, np.int32), A(3, 5), order=0,
       only=("bool", *REALS))  # fmt: skip
sample("cumsum, cumprod", lambda lax, op, x: get(lax, op)(x, 1), A(2, 5, **POS))
sample("cummax, cummin", lambda lax, op, x: get(lax, op)(x, 0, reverse=True), A(5, 2, form="apart"))
# JAX starts from -inf, which float8_e4m3fn lacks: it has NaN throughout.
sample("cumlogsumexp", lambda lax, x: lax.cumlogsumexp(x, 1), A(2, 5),
       only=[d for d in DTYPES if d != "float8_e4m3fn"])  # fmt: skip
sample("reduce", lambda lax, x, i: lax.reduce(x, i, lambda a, b: a * b + a, (1,)), A(2, 4), A(),
       order=0, batch=False)  # fmt: skip
sample(
    "reduce add", lambda lax, x: lax.reduce(x, np.zeros((), x.dtype)[()], lax.add, (1,)), A(2, 4)
)
sample("reduce pair", lambda lax, x, y: lax.reduce(
    (x, y), (np.zeros((), x.dtype)[()],) * 2,
    lambda a, b: (lax.add(a[0], b[0]), lax.max(a[1], b[1])), (0,)), A(4, 3),
    A(4, 3, form="apart"), order=0)  # fmt: skip
_W = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((0, 1), (1, 0))}
sample("reduce_window sum", lambda lax, x: lax.reduce_window(
    x, np.zeros((), x.dtype)[()], lax.add, **_W), A(4, 7))  # fmt: skip
sample("reduce_window max", lambda lax, x: lax.reduce_window(
    x, -np.inf if np.issubdtype(x.dtype, np.floating) or x.dtype.name == "bfloat16" else
    np.array(np.iinfo(x.dtype).min if x.dtype.kind in "iu" else 0, x.dtype)[()], lax.max,
    **_W), A(4, 7, form="apart"), order=1)  # fmt: skip
sample("reduce_window dilated", lambda lax, x: lax.reduce_window(
    x, np.zeros((), x.dtype)[()], lax.add, **_W, base_dilation=(2, 1), window_dilation=(1, 2)),
    A(4, 7))  # fmt: skip
sample("reduce_window general", lambda lax, x: lax.reduce_window(
    x, np.zeros((), x.dtype)[()], lambda a, b: a + b + a * b, **_W), A(4, 7), order=0)  # fmt: skip
sample("sort", lambda lax, x: lax.sort(x, dimension=1), A(2, 7, form="apart"))
sample("sort keys", lambda lax, x, y, z: lax.sort((x, y, z), num_keys=2, dimension=0),
       A(9, low=0, high=2), A(9, form="apart"), A(9), order=0)  # fmt: skip
sample("sort_key_val", lambda lax, x, y: lax.sort_key_val(x, y), A(2, 7, form="apart"), A(2, 7))
sample("top_k", lambda lax, x: lax.top_k(x, 3), A(2, 7, form="apart"), order=0)
sample("top_k values", lambda lax, x: lax.top_k(x, 3)[0], A(2, 7, form="apart"))
sample("approx_max_k, approx_min_k", lambda lax, op, x: get(lax, op)(x, 3), A(2, 9, form="apart"),
       order=0)  # fmt: skip

# --- products ---
sample("dot", lambda lax, x, y: lax.dot(x, y), A(2, 3), A(3, 4))
sample("dot vectors", lambda lax, x, y: lax.dot(x, y), A(5), A(5))
sample("batch_matmul", lambda lax, x, y: lax.batch_matmul(x, y), A(2, 3, 4), A(2, 4, 2))
sample("dot_general", lambda lax, x, y: lax.dot_general(x, y, (((2, 0), (1, 3)), ((1,), (2,)))),
       A(3, 2, 4), A(5, 4, 2, 3))  # fmt: skip
sample("dot_general preferred", lambda lax, x, y: lax.dot_general(
    x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32), A(2, 3), A(3, 4),
    order=0)  # fmt: skip
sample("dot_general preferred int", lambda lax, x, y: lax.dot_general(
    x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.int32), A(2, 3), A(3, 4),
    order=0)  # fmt: skip
sample("ragged_dot", lambda lax, x, y: lax.ragged_dot(x, y, np.array([2, 3], np.int32)), A(5, 3),
       A(2, 3, 4), order=1)  # fmt: skip
_C = ("NCHW", "OIHW", "NCHW")
sample("conv", lambda lax, x, k: lax.conv(x, k, (1, 2), "SAME"), A(2, 3, 5, 6), A(4, 3, 3, 2))
sample("conv_with_general_padding", lambda lax, x, k: lax.conv_with_general_padding(
    x, k, (2, 1), ((1, 0), (-1, 2)), (1, 2), (2, 1)), A(1, 2, 5, 4), A(3, 2, 2, 2))  # fmt: skip
sample("conv_general_dilated", lambda lax, x, k: lax.conv_general_dilated(
    x, k, (1, 2), ((1, 1), (0, 2)), lhs_dilation=(2, 1), rhs_dilation=(1, 2),
    dimension_numbers=("NHWC", "HWIO", "HWNC")), A(2, 5, 4, 3), A(2, 2, 3, 2))  # fmt: skip
sample("conv_general_dilated groups", lambda lax, x, k: lax.conv_general_dilated(
    x, k, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=2),
    A(2, 4, 6), A(6, 2, 3))  # fmt: skip
sample("conv_general_dilated batch groups", lambda lax, x, k: lax.conv_general_dilated(
    x, k, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"), batch_group_count=2),
    A(4, 2, 5), A(6, 2, 3))  # fmt: skip
sample("conv_transpose", lambda lax, x, k: lax.conv_transpose(x, k, (2,), "SAME",
       dimension_numbers=("NHC", "HIO", "NHC")), A(2, 4, 3), A(3, 3, 2))  # fmt: skip
sample("conv_general_dilated_patches", lambda lax, x: lax.conv_general_dilated_patches(
    x, (2, 3), (1, 2), "SAME"), A(1, 2, 4, 5))  # fmt: skip
sample("conv_general_dilated_local", lambda lax, x, k: lax.conv_general_dilated_local(
    x, k, (1,), "VALID", (2,), dimension_numbers=("NCH", "OIH", "NCH")), A(2, 2, 4),
    A(3, 4, 3))  # fmt: skip

# --- indexing ---


def _gather_numbers(lax: Any) -> Any:
    return lax.GatherDimensionNumbers((1,), (0,), (0,))


def _scatter_numbers(lax: Any) -> Any:
    return lax.ScatterDimensionNumbers((1,), (0,), (0,))


_I = A(4, 1, low=-1, high=5, dtype="int32")
for _mode in ("clip", "fill", "promise_in_bounds"):
    _at = A(4, 1, low=0, high=3, dtype="int32") if _mode == "promise_in_bounds" else _I
    sample(f"gather {_mode}", lambda lax, x, i, m=_mode: lax.gather(
        x, i, _gather_numbers(lax), (1, 3), mode=m), A(5, 3), _at,
        order=0 if _mode == "fill" else 2)  # fmt: skip
sample("scatter, scatter_add, scatter_sub, scatter_mul, scatter_min, scatter_max",
       lambda lax, op, x, i, u: get(lax, op)(x, i, u, _scatter_numbers(lax)),
       A(6, 3, form="apart"), A(4, 1, low=-1, high=6, dtype="int32"),
       A(4, 3, form="apart", low=-2.8), order=1)  # fmt: skip
sample("scatter_apply", lambda lax, x, i: lax.scatter_apply(
    x, i, lambda v: v * v + v, _scatter_numbers(lax), update_shape=(1, 3)), A(6, 3),
    A(1, 1, low=0, high=5, dtype="int32"), order=0)  # fmt: skip
sample("index_take", lambda lax, x, i: lax.index_take(x, (i,), (0,)), A(5, 3),
       A(4, low=0, high=4, dtype="int32"))  # fmt: skip

# --- bits and transforms ---
sample("rng_bit_generator", lambda lax, k: lax.rng_bit_generator(k, (3, 2), np.uint32),
       A(4, low=0, high=99, dtype="uint32"), order=0, batch=False)  # fmt: skip
for _kind, _shape, _lengths in (
    ("FFT", (2, 6), (6,)), ("IFFT", (2, 6), (6,)), ("RFFT", (2, 6), (6,)), ("IRFFT", (2, 4), (6,)),
    ("FFT", (2, 3, 4), (3, 4)), ("RFFT", (3, 4), (3, 4)), ("IRFFT", (3, 3), (3, 4)),
):  # fmt: skip
    sample(f"fft {_kind} {len(_lengths)}", lambda lax, x, k=_kind, n=_lengths: lax.fft(x, k, n),
           A(*_shape), tol=4)  # fmt: skip

# --- control flow ---
sample(
    "cond", lambda lax, x: lax.cond(x[0].astype(bool), lambda v: v * v, lambda v: v + v, x), A(4)
)
sample("switch", lambda lax, i, x: lax.switch(
    i, [lambda v: v * v, lambda v: v + v, lambda v: v], x),
    A(low=-1, high=4, dtype="int32"), A(4))  # fmt: skip
sample("while_loop", lambda lax, x: lax.while_loop(
    lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[1]), (0, x)), A(3, low=0, high=1.2),
    order=0)  # fmt: skip
sample("fori_loop", lambda lax, x: lax.fori_loop(0, 3, lambda i, v: v * v + v, x),
       A(3, low=0, high=1))  # fmt: skip
sample("scan", lambda lax, c, xs: lax.scan(lambda c, x: (c * x + x, c + x), c, xs),
       A(3, **UNIT), A(4, 3, **UNIT))  # fmt: skip
sample("scan reverse", lambda lax, c, xs: lax.scan(
    lambda c, x: (c * x, c), c, xs, reverse=True, unroll=2), A(3, **UNIT),
    A(5, 3, **UNIT))  # fmt: skip
sample("map", lambda lax, x: lax.map(lambda v: v * v, x, batch_size=2), A(5, 2))
sample("associative_scan", lambda lax, x: lax.associative_scan(lax.mul, x, reverse=True, axis=1),
       A(2, 5, **POS))  # fmt: skip
sample("platform_dependent", lambda lax, x: lax.platform_dependent(
    x, cpu=lambda v: v * v, default=lambda v: v), A(3))  # fmt: skip


# --- linear algebra (the functions of lax.linalg) ---
M = ("float32", "float64", "complex64", "complex128")


def _low(lax: Any, x: Any) -> Any:
    """The lower triangle: what factorisations are functions of."""
    mask = np.tril(np.ones(x.shape[-2:], bool))
    return lax.select(np.broadcast_to(mask, x.shape), x, lax.full_like(x, 0))


def _symmetric(lax: Any, x: Any) -> Any:
    return (x + lax.conj(lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)))
            if np.iscomplexobj(x) or x.dtype.kind == "c"
            else x + lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)))  # fmt: skip


sample("cholesky", lambda lax, x: lax.linalg.cholesky(_symmetric(lax, x)), A(2, 3, 3, form="spd"),
       tol=20)  # fmt: skip
sample("cholesky_update", lambda lax, r, v: lax.linalg.cholesky_update(r, v),
       A(3, 3, form="triangle"), A(3), order=0, tol=20)  # fmt: skip
sample("eigh", lambda lax, x: lax.linalg.eigh(x)[1], A(3, 3, form="symmetric"), order=0, tol=50)
sample("eig", lambda lax, x: lax.linalg.eig(x, compute_left_eigenvectors=False,
       compute_right_eigenvectors=False)[0], A(3, 3), order=0, tol=50)  # fmt: skip
sample("hessenberg", lambda lax, x: lax.linalg.hessenberg(x), A(4, 4), order=0, tol=50)
sample("householder_product", lambda lax, a, t: lax.linalg.householder_product(a, t),
       A(2, 4, 3), A(2, 3), order=0, tol=50)  # fmt: skip
sample("lu", lambda lax, x: lax.linalg.lu(x), A(2, 3, 3), order=0, tol=50)
sample("lu_pivots_to_permutation", lambda lax, p: lax.linalg.lu_pivots_to_permutation(p, 4),
       A(2, 3, low=0, high=3, dtype="int32"), order=0)  # fmt: skip
sample("qr", lambda lax, x: lax.linalg.qr(x, full_matrices=False), A(2, 4, 3), order=0, tol=50)
sample("qr pivoting", lambda lax, x: lax.linalg.qr(x, pivoting=True), A(4, 3), order=0, tol=50)
sample("schur", lambda lax, x: lax.linalg.schur(x), A(3, 3, form="symmetric"), order=0, tol=50)
sample("svd", lambda lax, x: lax.linalg.svd(x, compute_uv=False), A(2, 4, 3), order=0, tol=50)
sample("svd vectors", lambda lax, x: lax.linalg.svd(x, full_matrices=False)[1], A(3, 5), order=0,
       tol=50)  # fmt: skip
sample("triangular_solve", lambda lax, a, b: lax.linalg.triangular_solve(
    a, b, left_side=True, lower=True, transpose_a=True), A(2, 3, 3, form="triangle"), A(2, 3, 2),
    tol=20)  # fmt: skip
sample("tridiagonal", lambda lax, x: lax.linalg.tridiagonal(x)[1:3], A(4, 4, form="symmetric"),
       order=0, tol=50)  # fmt: skip
sample("tridiagonal_solve", lambda lax, d, m, u, b: lax.linalg.tridiagonal_solve(d, m, u, b),
       A(4), A(4, low=6, high=9), A(4), A(4, 2), order=0, tol=20)  # fmt: skip
sample("symmetric_product", lambda lax, a, c: lax.linalg.symmetric_product(a, c),
       A(3, 2), A(3, 3, form="symmetric"), order=0, tol=20)  # fmt: skip
sample("ormqr", lambda lax, a, t, c: lax.linalg.ormqr(a, t, c), A(4, 3), A(3), A(4, 2), order=0,
       tol=50)  # fmt: skip
sample("qdwh", lambda lax, x: lax.linalg.qdwh(x)[:2], A(4, 3), order=0, tol=100)


def operations() -> Iterator[str]:
    """The operations that have samples."""
    yield from dict.fromkeys(name.split()[0] for name in SAMPLES)
