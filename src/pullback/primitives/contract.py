"""dot_general: sums of products over pairs of axes. Its derivatives and batches are dot_generals
too.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import config, dtypes
from ..core.avals import ShapedArray, typeof
from ..core.explicit import parts_of
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .builders import add_tangents
from .common import ANY, asked_layout, check_dtype, int_tuple, requested_dtype
from .convert import convert_element_type_p
from .layout import layout_of, transpose

__all__ = [
    "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision", "PrecisionLike",
    "batch_matmul", "canonicalize_precision", "dot", "dot_general", "dot_general_p",
]  # fmt: skip


class Precision(enum.Enum):
    """How exactly float32 products are formed on hardware that has a faster, coarser way. CPUs are
    always exact.

    A `precision=` of products and convolutions; strings are accepted there too.

    >>> lax.dot(jnp.ones(2), jnp.ones(2), precision=lax.Precision.HIGHEST)
    Array(2., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return _BY_STRING.get(value) if isinstance(value, str) or value is None else None


_BY_STRING: dict[Any, Precision] = {
    None: Precision.DEFAULT,
    **dict.fromkeys(("default", "fastest", "bfloat16"), Precision.DEFAULT),
    **dict.fromkeys(("high", "tensorfloat32", "bfloat16_3x"), Precision.HIGH),
    **dict.fromkeys(("highest", "float32"), Precision.HIGHEST),
}


class DotAlgorithm(NamedTuple):
    """An algorithm for dot_general on accelerators: types of the factors and of the sum, and how
    often parts are multiplied.

    CPUs form products and sums in the types of the operands and of the result.

    >>> algorithm = lax.DotAlgorithm('float32', 'float32', 'float32')
    >>> algorithm.num_primitive_operations
    1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms for dot_general on accelerators.

    A `precision=` of `lax.dot_general`; see `lax.DotAlgorithm`.

    >>> x = jnp.ones((2, 2))
    >>> lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32)
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


PrecisionLike = Any
DotDimensionNumbers = Any


def canonicalize_precision(precision: Any) -> Any:
    """A `precision` argument as equations hold it: None, a pair of Precision, or an algorithm.
    Raises ValueError.
    """
    if precision is None:
        precision = config.default_matmul_precision.get()
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, str):
        if precision in _BY_STRING:
            return (_BY_STRING[precision],) * 2
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    if isinstance(precision, (tuple, list)) and len(precision) == 2:
        pair = tuple(_BY_STRING.get(p) if isinstance(p, str) else p for p in precision)
        if all(isinstance(p, Precision) for p in pair):
            return pair
    raise ValueError(
        "Precision argument must be one of:\n- None,\n"
        f"- a string in {[k for k in _BY_STRING if k is not None]},\n- a lax.Precision value,\n"
        "- a tuple of two lax.Precision values or strings,\n- a lax.DotAlgorithmPreset or the "
        "name of one of these presets, or\n"
        f"- a lax.DotAlgorithm value;\nbut got {precision!r}."
    )


def _check_operand(side: str, ndim: int, batch: Sequence[int], contract: Sequence[int]) -> None:
    if not all(0 <= d < ndim for d in (*batch, *contract)):
        raise TypeError(
            f"dot_general requires {side} dimension numbers to be nonnegative and less than the "
            f"number of axes of the {side} "
            f"value, got {side}_batch of {batch} and {side}_contracting of {contract} for {side} "
            f"of rank {ndim}"
        )
    if len(set(batch)) != len(batch):
        raise TypeError(
            f"dot_general requires {side} batch dimensions to be distinct, got {side}_batch "
            f"{batch}."
        )
    if len(set(contract)) != len(contract):
        raise TypeError(
            f"dot_general requires {side} contracting dimensions to be distinct, got "
            f"{side}_contracting {contract}."
        )
    if set(batch) & set(contract):
        raise TypeError(
            f"dot_general requires {side} batch dimensions to be disjoint from contracting "
            "dimensions, "
            f"got {side}_batch {batch} and {side}_contracting {contract}."
        )


def free_dims(ndim: int, *used: Sequence[int]) -> tuple[int, ...]:
    """The axes that are in none of `used`."""
    gone = {d for dims in used for d in dims}
    return tuple(d for d in range(ndim) if d not in gone)


def _dot_general_aval(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> ShapedArray:
    (lc, rc), (lb, rb) = dimension_numbers
    _check_operand("lhs", lhs.ndim, lb, lc)
    _check_operand("rhs", rhs.ndim, rb, rc)
    if len(lb) != len(rb):
        raise TypeError(
            "dot_general requires equal numbers of lhs_batch and rhs_batch dimensions, "
            f"got lhs_batch {lb} and rhs_batch {rb}."
        )
    for what, ld, rd in (("batch", lb, rb), ("contracting", lc, rc)):
        ls, rs = tuple(lhs.shape[d] for d in ld), tuple(rhs.shape[d] for d in rd)
        if ls != rs:
            start = (
                "lhs batch dimensions and rhs batch dimensions"
                if what == "batch"
                else "contracting dimensions"
            )
            raise TypeError(
                f"dot_general requires {start} to have the same shape, got {ls} and {rs} "
                f"(operands of shapes {lhs.shape} and {rhs.shape}). "
                "Fix: transpose an operand, or name other dimensions."
            )
    shape = (
        *(lhs.shape[d] for d in lb),
        *(lhs.shape[d] for d in free_dims(lhs.ndim, lc, lb)),
        *(rhs.shape[d] for d in free_dims(rhs.ndim, rc, rb)),
    )
    check_dtype("dot_general", lhs.dtype, ANY, 0)
    check_dtype("dot_general", rhs.dtype, ANY, 1)
    return ShapedArray(shape, *_dot_dtype(lhs, rhs, preferred_element_type))


def _dot_dtype(lhs: Any, rhs: Any, preferred: Any) -> tuple[Any, bool]:
    weak = lhs.weak_type and rhs.weak_type
    natural = lhs.dtype if lhs.dtype == rhs.dtype else max((lhs.dtype, rhs.dtype), key=_rank)
    if preferred is None:
        return natural, weak
    if not dtypes.is_float(natural) and _width(preferred) < _width(natural):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred} for original type of {natural}. Fix: "
            "ask for a wider type, and convert the result."
        )
    return preferred, False if preferred != lhs.dtype else weak


def _width(dtype: Any) -> int:
    """The bits of a dtype, of the real part of a complex one."""
    if dtype.kind == "b":
        return 1
    bits = int(dtypes.itemsize_bits(dtype))
    return bits // 2 if dtypes.is_complex(dtype) else bits


def _rank(dtype: Any) -> tuple[Any, ...]:
    """Orders the dtypes that a product may mix: the greater one is the product's, as in XLA. Not
    the promotion lattice: nothing wider than both comes out."""
    if dtypes.is_complex(dtype):
        return (2, dtype.itemsize)
    if dtypes.is_float(dtype):
        info = dtypes.finfo(dtype)
        return (1, info.maxexp, info.nmant)
    return (0, _width(dtype), int(dtypes.is_signed(dtype)))


def _dot_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    x, y = primals
    tx, ty = tangents
    out = dot_general_p.bind(x, y, **params)
    aval = typeof(out).to_tangent_aval()
    dx = Zero(aval) if type(tx) is Zero else dot_general_p.bind(tx, y, **params)
    dy = Zero(aval) if type(ty) is Zero else dot_general_p.bind(x, ty, **params)
    return out, Zero(aval) if aval.dtype == dtypes.float0 else add_tangents(dx, dy)


def _dot_transpose(ct: Any, x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> list[Any]:
    (xc, yc), (xb, yb) = dimension_numbers
    if type(x) is UndefinedPrimal:
        return [_dot_transpose_lhs(ct, x.aval, y, (xc, yc), (xb, yb), False, params), None]
    return [None, _dot_transpose_lhs(ct, y.aval, x, (yc, xc), (yb, xb), True, params)]


def _dot_transpose_lhs(
    ct: Any, aval: Any, y: Any, contract: Any, batch: Any, swapped: bool, params: dict[str, Any]
) -> Any:
    """The cotangent of one factor: the product of ct and the other, over the other's free axes, its
    axes put in order.
    """
    if type(ct) is Zero:
        return Zero(aval)
    (xc, yc), (xb, yb) = contract, batch
    y_aval, ndim = typeof(y), aval.ndim
    x_kept = free_dims(ndim, xc, xb)
    y_kept = free_dims(y_aval.ndim, yc, yb)
    n_batch = len(xb)
    # ct has axes (batch, x_kept, y_kept), or (batch, y_kept, x_kept) when the operands were
    # swapped.
    ct_y = (
        range(n_batch, n_batch + len(y_kept))
        if swapped
        else range(n_batch + len(x_kept), n_batch + len(x_kept) + len(y_kept))
    )
    dims = ((tuple(ct_y), y_kept), (tuple(range(n_batch)), tuple(yb)))
    # The product has axes (batch, x_kept, y's contracted axes in order); put each where x has it.
    order = sorted(range(len(yc)), key=lambda k: yc[k])
    places = [*xb, *x_kept, *(xc[k] for k in order)]
    lies = layout_of(aval, ct, y)
    if lies is not None:
        spec = lies.spec
        lies = lies.update(spec=type(spec)(*[spec[d] for d in places]))
    out = dot_general_p.bind(
        ct,
        y,
        dimension_numbers=dims,
        precision=_swapped(params["precision"], swapped),
        preferred_element_type=params.get("preferred_element_type"),
        out_sharding=lies,
    )
    permutation = [0] * ndim
    for k, d in enumerate(places):
        permutation[d] = k
    out = transpose(out, permutation)
    if typeof(out).dtype == aval.dtype:
        return out
    # Without the warning that a user's conversion of complex numbers to real ones gives.
    return convert_element_type_p.bind(
        out, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )


def _swapped(precision: Any, swapped: bool) -> Any:
    if swapped and type(precision) is tuple:
        return precision[1], precision[0]
    return precision


def _dot_batch(args: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    (lhs, rhs), (ld, rd) = args, dims
    (lc, rc), (lb, rb) = dimension_numbers
    if ld is not None and rd is not None:
        lc, lb = _shift(lc, ld), (ld, *_shift(lb, ld))
        rc, rb = _shift(rc, rd), (rd, *_shift(rb, rd))
        out_dim = 0
    elif ld is not None:
        lc, lb = _shift(lc, ld), _shift(lb, ld)
        out_dim = len(lb) + free_dims(typeof(lhs).ndim, lc, lb).index(ld)
    else:
        rc, rb = _shift(rc, rd), _shift(rb, rd)
        left = typeof(lhs).ndim - len(lc)
        out_dim = left + free_dims(typeof(rhs).ndim, rc, rb).index(rd)
    lies = params["out_sharding"]
    if lies is not None:
        x, d = (lhs, ld) if ld is not None else (rhs, rd)
        spec = [*lies.spec]
        spec.insert(out_dim, parts_of(typeof(x))[d])
        params = {**params, "out_sharding": lies.update(spec=type(lies.spec)(*spec))}
    return dot_general_p.bind(lhs, rhs, dimension_numbers=((lc, rc), (lb, rb)), **params), out_dim


def _shift(dims: Sequence[int], at: int) -> tuple[int, ...]:
    return tuple(d + (d >= at) for d in dims)


dot_general_p: Primitive = Primitive(
    "dot_general",
    abstract_eval=_dot_general_aval,
    jvp=_dot_jvp,
    transpose=_dot_transpose,
    batch=_dot_batch,
)
dot_general_p.remember_types()


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Sums of products over pairs of axes.

    `dimension_numbers` is ((lhs contracted, rhs contracted), (lhs batch, rhs batch)). The result
    has the batch axes, then the free axes
    of lhs, then those of rhs. `preferred_element_type` is the dtype of sums and result.

    >>> lax.dot_general(jnp.ones((2, 3)), jnp.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
    (2, 4)

    Raises TypeError if the axes do not fit.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    dims = ((int_tuple(lc), int_tuple(rc)), (int_tuple(lb), int_tuple(rb)))
    preferred = None
    if preferred_element_type is not None:
        preferred = requested_dtype(preferred_element_type, "dot_general")
    lies = out_sharding
    if lies is not None:
        ls, rs = typeof(lhs).shape, typeof(rhs).shape
        shape = [ls[k] for k in dims[1][0]] + [ls[k] for k in free_dims(len(ls), *_left(dims))]
        shape += [rs[k] for k in free_dims(len(rs), dims[0][1], dims[1][1])]
        lies = asked_layout("dot_general", out_sharding, shape, True)
    return dot_general_p.bind(
        lhs, rhs, dimension_numbers=dims, precision=canonicalize_precision(precision),
        preferred_element_type=preferred, out_sharding=lies,
    )  # fmt: skip


def _left(dims: Any) -> tuple[Any, Any]:
    """The axes of the left factor that are summed over, and those of the batch."""
    return dims[0][0], dims[1][0]


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general`; without dimension_numbers the product of vectors and matrices: the last axis
    of lhs with the first of rhs.

    Raises ValueError for arrays of higher rank without `dimension_numbers`, TypeError for sizes
    that do not fit. As `numpy.dot` of vectors and matrices.

    >>> lax.dot(jnp.array([[1., 2.], [3., 4.]]), jnp.array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    if dimension_numbers is None:
        ls, rs = typeof(lhs).shape, typeof(rhs).shape
        if not (1 <= len(ls) <= 2 and 1 <= len(rs) <= 2 and ls[-1] == rs[0]):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, "
                f"matrix-vector, or vector-vector products; got lhs_shape={ls} rhs_shape={rs}"
            )
        dimension_numbers = (((len(ls) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Products of stacks of matrices; the leading axes are equal.

    `lhs`: (..., m, k), `rhs`: (..., k, n), of rank 2 at least; the result is (..., m, n). Raises
    TypeError for ranks or sizes that do not fit. `jnp.matmul` broadcasts the leading axes.

    >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    ln, rn = typeof(lhs).ndim, typeof(rhs).ndim
    if ln < 2 or rn < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {ln}, {rn}")
    if ln != rn:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {ln}, {rn}")
    batch = tuple(range(ln - 2))
    return dot_general(lhs, rhs, (((ln - 1,), (rn - 2,)), (batch, batch)), precision=precision)
