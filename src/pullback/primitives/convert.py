"""Changes of representation, and identities: convert_element_type, bitcast, reduce_precision, copy,
stop_gradient, optimization_barrier.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core import source
from ..core.avals import ShapedArray, typeof
from ..core.build import JaxprTrace, JaxprTracer, staged
from ..core.jaxpr import Literal
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from ..core.trace import Tracer
from .builders import full_batch, jvp_of
from .common import FLOAT, as_array, as_int, check_dtype, requested_dtype, zero_of
from .layout import is_python_scalar, linear_jvp, scalar_constant


# --- conversion ---
def _convert_aval(x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> ShapedArray:
    if dtypes.is_extended(x.dtype) or dtypes.is_extended(new_dtype):
        if x.dtype != new_dtype:
            raise ValueError(
                f"Cannot convert_element_type from {x.dtype.name} to "
                f"{getattr(new_dtype, 'name', new_dtype)}. "
                "Fix: use random.key_data to read the words of keys."
            )
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_jvp(
    primals: Any, tangents: Any, *, new_dtype: Any, weak_type: bool, sharding: Any
) -> Any:
    out = convert_element_type_p.bind(
        *primals, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding
    )
    if type(tangents[0]) is Zero or not dtypes.is_inexact(new_dtype):
        return out, zero_of(out)
    return out, convert_element_type_p.bind(
        tangents[0], new_dtype=new_dtype, weak_type=weak_type, sharding=sharding
    )


def _convert_transpose(
    ct: Any, x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any
) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    have = typeof(ct)
    if (have.dtype, have.weak_type, sharding) == (x.aval.dtype, x.aval.weak_type, None):
        return [ct]
    return [
        convert_element_type_p.bind(
            ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type, sharding=sharding
        )
    ]


def _convert_staged(trace: JaxprTrace, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
    """A number that a program mentions is converted now: the program mentions what it becomes."""
    x, dtype, weak = tracers[0], params["new_dtype"], params["weak_type"]
    atom = trace.atom(x)
    if (
        isinstance(atom, Literal)
        and params["sharding"] is None
        and not (dtypes.is_extended(dtype) or dtypes.is_extended(atom.aval.dtype))
        and _defined(atom.val, atom.aval.dtype, dtype)
    ):
        number = scalar_constant(atom.val, dtype)
        aval = _convert_aval(atom.aval, **params)
        # What is weakly typed is Python's, which has no numbers of other types.
        if not weak or typeof(number.item()) == aval:
            literal = Literal(number.item() if weak else number, aval)
            return JaxprTracer(trace, literal, source.current(2))
    if not isinstance(x, Tracer) and params["sharding"] is None:
        if (atom.aval.dtype, atom.aval.weak_type) == (dtype, weak):
            return JaxprTracer(trace, atom, source.current(2))  # it has been made so on the way in
    if not isinstance(x, Tracer):  # an equation may have been written for it: the value of a size
        x = JaxprTracer(trace, atom, None)
    return trace.emit(convert_element_type_p, [x], params, source.current(2))


convert_element_type_p: Primitive = Primitive(
    "convert_element_type",
    abstract_eval=_convert_aval,
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    batch=lambda args, dims, **params: (convert_element_type_p.bind(args[0], **params), dims[0]),
    staging=_convert_staged,
)
convert_element_type_p.remember_types()


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The operand with another dtype; the result is not weakly typed. Complex to real drops the
    imaginary part (with a warning).

    >>> lax.convert_element_type(1.5, 'int32')
    Array(1, dtype=int32)
    """
    dtype = requested_dtype(new_dtype, "convert_element_type")
    if type(operand) is int and dtype is not None and not dtypes.is_extended(dtype):
        return staged(as_array(scalar_constant(operand, dtype)))  # of any size, as NumPy converts
    return convert_weak(operand, dtype, False)


def _defined(number: Any, old: Any, new: Any) -> bool:
    """Can a number be converted now? Not where NumPy leaves it undefined."""
    return not dtypes.is_integer(new) or not dtypes.is_inexact(old) or bool(abs(number) < 32768)


def warn_of_real_parts() -> None:
    """ComplexWarning: of complex numbers the real parts are taken."""
    warnings.warn(
        "Casting complex values to real discards the imaginary part",
        np.exceptions.ComplexWarning,
        stacklevel=4,
    )


def convert_weak(operand: Any, new_dtype: Any = None, weak_type: bool = False) -> Any:
    """`convert_element_type` to a canonical dtype (None: keep it) and weakness."""
    aval = typeof(operand)
    dtype = aval.dtype if new_dtype is None else new_dtype
    if aval.dtype == dtype and aval.weak_type == weak_type and hasattr(operand, "aval"):
        return operand
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(dtype) and not dtypes.is_bool(dtype):
        warn_of_real_parts()
    if is_python_scalar(operand) and not weak_type and not dtypes.is_extended(dtype):
        if _defined(operand, aval.dtype, dtype):
            return staged(as_array(scalar_constant(operand, dtype)))
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=weak_type, sharding=None)


def _bitcast_aval(x: Any, *, new_dtype: Any) -> ShapedArray:
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    special = [d for d in (x.dtype, new_dtype) if dtypes.is_bool(d) or dtypes.is_complex(d)]
    shape = x.shape
    if old < new:
        if not shape or shape[-1] * old != new:
            raise ValueError(
                f"Attempting to convert array of shape {shape} from {x.dtype.name} of size {old} "
                "bits "
                f"to {new_dtype.name} of size {new}, bits but {shape[-1] if shape else 1} * {old} "
                f"!= {new}"
            )
        shape = shape[:-1]
    elif old > new:
        shape = (*shape, old // new)
    if special and x.dtype != new_dtype:
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand "
            "and destination types match. "
            f"Got operand dtype={x.dtype.name}, new_dtype={new_dtype.name}. Consider using the "
            "arr.view() method instead."
        )
    return ShapedArray(shape, new_dtype)


def _bitcast_batch(args: Any, dims: Any, *, new_dtype: Any) -> Any:
    if dtypes.itemsize_bits(typeof(args[0]).dtype) == dtypes.itemsize_bits(new_dtype):
        return bitcast_convert_type_p.bind(args[0], new_dtype=new_dtype), dims[0]
    # The last axis is made or eaten, so the batch axis goes first.
    x = full_batch(args[0], dims[0], None)
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), 0


bitcast_convert_type_p: Primitive = Primitive(
    "bitcast_convert_type",
    abstract_eval=_bitcast_aval,
    jvp=jvp_of(lambda: bitcast_convert_type_p, None),
    transpose=No.NOT_LINEAR,
    batch=_bitcast_batch,
)


def _reduce_precision_aval(x: Any, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )
    check_dtype("reduce_precision", x.dtype, (FLOAT,))
    return ShapedArray(x.shape, x.dtype, x.weak_type)


reduce_precision_p: Primitive = Primitive(
    "reduce_precision",
    abstract_eval=_reduce_precision_aval,
    jvp=linear_jvp(lambda: reduce_precision_p),
    transpose=lambda ct, x, **params: [
        Zero(x.aval) if type(ct) is Zero else reduce_precision_p.bind(ct, **params)
    ],
    batch=lambda args, dims, **params: (reduce_precision_p.bind(args[0], **params), dims[0]),
)
reduce_precision_p.remember_types()

# --- identities ---
copy_p: Primitive = Primitive(
    "copy",
    abstract_eval=lambda x: x.update(),
    jvp=linear_jvp(lambda: copy_p),
    transpose=lambda ct, x: [ct],
    batch=lambda args, dims: (copy_p.bind(args[0]), dims[0]),
)
copy_p.remember_types()
stop_gradient_p: Primitive = Primitive(
    "stop_gradient",
    abstract_eval=lambda x: x.update(),
    jvp=jvp_of(lambda: stop_gradient_p, None),
    # Linear programs hold one where lanes of a batch take different branches: what a lane does not
    # take gets nothing.
    transpose=lambda ct, x: [None],
    batch=lambda args, dims: (stop_gradient_p.bind(args[0]), dims[0]),
)
stop_gradient_p.remember_types()
# A value as a value of the program that is being traced; it writes no equation.
stage_p: Primitive = Primitive(
    "stage",
    abstract_eval=lambda x: x.update(),
    jvp=linear_jvp(lambda: stage_p),
    transpose=lambda ct, x: [ct],
    batch=lambda args, dims: (stage_p.bind(args[0]), dims[0]),
    staging=lambda trace, tracers, params: trace.lift(tracers[0]),
)


def _barrier_jvp(primals: Any, tangents: Any) -> Any:
    outs = optimization_barrier_p.bind(*primals)
    live = [t for t in tangents if type(t) is not Zero]
    passed = iter(optimization_barrier_p.bind(*live) if live else ())
    return outs, [t if type(t) is Zero else next(passed) for t in tangents]


def _barrier_transpose(cts: Any, *args: Any) -> list[Any]:
    live = [ct for ct in cts if type(ct) is not Zero]
    passed = iter(optimization_barrier_p.bind(*live) if live else ())
    outs = [ct if type(ct) is Zero else next(passed) for ct in cts]
    return [ct if type(x) is UndefinedPrimal else None for ct, x in zip(outs, args)]


optimization_barrier_p: Primitive = Primitive(
    "optimization_barrier",
    abstract_eval=lambda *xs: [x.update() for x in xs],
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda args, dims: (optimization_barrier_p.bind(*args), list(dims)),
    multiple_results=True,
)


# --- what users call ---
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The same bits as another dtype. To a narrower one the result has a new last axis; to a wider
    one the last axis is eaten.

    Raises ValueError where the last axis does not hold a whole number of wider elements. As
    `numpy.ndarray.view`.

    >>> lax.bitcast_convert_type(jnp.float32(1), 'int32')
    Array(1065353216, dtype=int32)
    """
    return bitcast_convert_type_p.bind(
        operand, new_dtype=requested_dtype(new_dtype, "bitcast_convert_type")
    )


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Floats rounded as if they had this many bits of exponent and mantissa.

    `operand`: floats; the dtype stays. Raises ValueError for less than one bit of exponent, or a
    negative number of bits of mantissa.

    >>> lax.reduce_precision(jnp.array([1.2345]), 8, 2)
    Array([1.25], dtype=float32)
    """
    return reduce_precision_p.bind(
        operand,
        exponent_bits=as_int(exponent_bits, "exponent_bits"),
        mantissa_bits=as_int(mantissa_bits, "mantissa_bits"),
    )


def copy(x: Any) -> Any:
    """A copy of an array."""
    return copy_p.bind(x)


def stop_gradient(x: Any) -> Any:
    """The value, without its derivative, of every leaf of a pytree.

    >>> pullback.grad(lambda x: x * lax.stop_gradient(x))(3.)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree.tree_map(_without_derivative, x)


def _without_derivative(x: Any) -> Any:
    if dtypes.is_extended(getattr(x, "dtype", None)):  # keys have no derivative
        return x
    return stop_gradient_p.bind(x)


def stage(x: Any, /) -> Any:
    """The value as a value of the program being traced.

    `x`: an array. While `jit` traces, a constant becomes a traced value.

    >>> pullback.jit(lambda: lax.stage(3.))()
    Array(3., dtype=float32, weak_type=True)
    """
    return stage_p.bind(x)


def optimization_barrier(operand: Any, /) -> Any:
    """The pytree unchanged; the compiler moves nothing across, and computes all of its leaves
    before any user of one.

    >>> lax.optimization_barrier((jnp.array([1., 2.]), 3.))
    (Array([1., 2.], dtype=float32), Array(3., dtype=float32, weak_type=True))
    """
    leaves, treedef = tree.flatten(operand)
    return tree.unflatten(treedef, optimization_barrier_p.bind(*leaves) if leaves else [])
