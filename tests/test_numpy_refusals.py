"""What numpy, random and ops refuse, accept and give at their edges, beside real JAX."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import pytest
from oracle_compare import refused

import pullback as pb
import pullback.experimental.sparse
import pullback.numpy as pnp

BOTH = [(jax, jnp), (pb, pnp)]

REFUSED = {
    "no rows side by side": lambda j, n: n.hstack(n.zeros((0, 2))),
    "array for a resize method": lambda j, n: j.image.ResizeMethod.from_string(n.arange(3)),
    "array for a dtype": lambda j, n: n.ones(3).astype(n.ones(2)),
    "array for a dtype of zeros": lambda j, n: n.zeros(3, n.ones(2)),
    "array for a dtype of a range": lambda j, n: j.lax.iota(n.ones(2), 3),
    "array for a dtype of bits": lambda j, n: n.ones(3).view(n.array(1)),
    "NumPy's array for a dtype": lambda j, n: n.zeros(3, np.ones(2)),
    "array for a draw's dtype": lambda j, n: j.random.normal(j.random.key(0), (2,), n.ones(2)),
    "map of a number": lambda j, n: j.lax.map(0, n.ones(3)),
    "checkpoint of a tuple": lambda j, n: j.checkpoint(())(n.ones(3)),
    "array for a mode": lambda j, n: j.nn.initializers.variance_scaling(1.0, n.ones(2), "normal")(
        j.random.key(0), (3, 4)
    ),
    "meshgrid of scalars": lambda j, n: n.meshgrid(n.arange(3), 2.0),
    "indices of an int": lambda j, n: n.indices(2),
    "no constant": lambda j, n: n.pad(n.ones(2), 1, constant_values=((1, None),)),
    "pads that are no pairs": lambda j, n: n.pad(n.ones((2, 3)), ((1,), (2,))),
    "float offset": lambda j, n: n.tri(3, k=1.0),
    "float cuts": lambda j, n: n.split(n.arange(3), [1.0]),
    "no sections": lambda j, n: n.split(n.arange(3), 0),
    "array of a float for bins": lambda j, n: n.histogram(n.arange(3.0), n.array(3.0)),
    "weak float for bins": lambda j, n: n.histogram_bin_edges(n.arange(3.0), n.sin(1.0)),
    "take, dropping": lambda j, n: n.take(n.arange(3), n.array([5]), mode="drop"),
    "float positions": lambda j, n: n.ravel_multi_index(([1], [2]), (2, 3), dtype="float32"),
    "list for a mask": lambda j, n: n.max(n.arange(3.0), where=[True, False, True]),
    "mean of another shape's mask": lambda j, n: n.mean(n.ones((2, 6)), where=n.arange(3) > 0),
    "std of another shape's mask": lambda j, n: n.std(n.ones((2, 6)), where=n.arange(3) > 0),
    "float seed": lambda j, n: j.random.key(np.array(3.0)),
    "seed of one bit": lambda j, n: j.random.key(np.array(True)),
    "unknown generator": lambda j, n: j.default_prng_impl("nope").__enter__(),
    "size of an axis twice": lambda j, n: n.size(n.ones((2, 3)), (0, -2)),
    "zeros of an axis twice": lambda j, n: n.trim_zeros(n.ones((2, 3)), axis=(0, 0)),
    "one axis of rotation": lambda j, n: n.rot90(n.ones((2, 3)), axes=(0,)),
    "three axes of rotation": lambda j, n: n.rot90(n.ones((2, 3)), axes=(0, 1, 2)),
    "permutation's axis": lambda j, n: j.random.permutation(j.random.key(0), 5, axis=1),
    "complex mean": lambda j, n: j.random.multivariate_normal(
        j.random.key(0), n.ones(2, complex), n.eye(2)
    ),
    "int of 33 bits beside a float": lambda j, n: n.multiply(2**32, 3.0),
    "int of 33 bits divided": lambda j, n: n.divide(3, 2**32),
    "int of 101 bits for a float": lambda j, n: n.sin(2**100),
    "int of 33 bits as a truth": lambda j, n: n.logical_and(2**32, 1j),
    "several fills": lambda j, n: n.arange(3).at[n.array([5])].get(mode="fill", fill_value=[1, 2]),
    "an array of fills": lambda j, n: n.ones(3).at[5:].get(mode="fill", fill_value=np.ones(1)),
    "None for a vector": lambda j, n: n.vectorize(
        lambda x, y: x if y is None else x + y, signature="(n),(n)->(n)"
    )(n.ones(3), None),
    "complex chance": lambda j, n: j.random.geometric(j.random.key(0), n.array([0.5 + 1j])),
    "float segments": lambda j, n: j.ops.segment_sum(n.ones(3), n.array([0, 1, 0]), 2.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_jax(name: str) -> None:
    refused(REFUSED[name], BOTH)


class Held:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array


GIVEN = {
    "steps that a narrow float rounds": lambda j, n: n.arange(0.0, 1.0, 0.1, "bfloat16"),
    "as many steps as fit in float16": lambda j, n: n.arange(
        np.float16(0), np.float16(1), np.float16(0.1)
    ),
    "points by a complex step": lambda j, n: n.r_[-1:1:6j, 5],
    "complex shape parameter": lambda j, n: j.random.weibull_min(
        j.random.key(0), 2.0, n.array([1 + 1j])
    ),
    "int of 34 bits for a float": lambda j, n: j.scipy.special.gammaln(2**33),
    "int of 34 bits beside floats": lambda j, n: j.scipy.special.rel_entr(n.ones(2), 2**33),
    "int of 34 bits as a logarithm of a sum": lambda j, n: j.nn.logsumexp(2**33),
    "int of 34 bits as a factor": lambda j, n: j.nn.logsumexp(n.arange(2.0), b=2**33),
    "int of 71 bits in gelu": lambda j, n: j.nn.gelu(-(2**70)),
    "int of 34 bits for a draw": lambda j, n: j.scipy.stats.norm.logpdf(2**33),
    "an initial value is of the reduction's dtype": lambda j, n: n.subtract.reduce(
        n.arange(6).reshape(2, 3), initial=0.5
    ),
    "of the dtype that is asked for": lambda j, n: n.subtract.reduce(
        n.ones(3), dtype="int8", initial=2.5
    ),
    "None for a scalar": lambda j, n: n.vectorize(
        lambda x, y: x[::-1] if y is None else x + y, signature="(n),()->(n)"
    )(n.arange(6.0).reshape(2, 3), None),
    "what an object holds is not weak": lambda j, n: n.array(Held(n.asarray(1.0))),
    "nor as it is": lambda j, n: n.asarray(Held(n.asarray(1))),
    "complex fill": lambda j, n: n.take(
        n.ones(3, complex), n.array([1, 5]), mode="fill", fill_value=2j
    ),
    "unique complex": lambda j, n: n.unique(1j),
    "difference of complex": lambda j, n: n.setdiff1d(1j, n.ones(2)),
    "unique, filled": lambda j, n: n.unique(n.array([1, 1], "uint8"), size=3, fill_value=-7),
    "scalars have no zeros": lambda j, n: n.trim_zeros(0.0),
    "complex lognormal": lambda j, n: j.random.lognormal(j.random.key(0), 0.5, (3,), "complex64"),
    "buckets of a number": lambda j, n: j.ops.segment_max(
        1.0, n.array([0, 0, 1, 3, -1]), 4, bucket_size=2
    ),
    "buckets of one row": lambda j, n: j.ops.segment_sum(
        n.ones((1, 2)), n.array([0, 0, 1, 3, 2]), 4, bucket_size=2
    ),
    "orthogonal, of no columns": lambda j, n: j.nn.initializers.orthogonal(1.0, 0)(
        j.random.key(0), (0, 2)
    ),
    "wald of mean 0": lambda j, n: j.random.wald(j.random.key(0), n.array([0.0, 2.0])),
    "narrow segment ids": lambda j, n: j.ops.segment_prod(
        n.arange(1.0, 4.0), n.array([0, 1, 0], "int8"), 3, bucket_size=1
    ),
}


NO_INTEGERS = {
    "axis must be an integer, got 'a'": lambda j, n: n.argmin(n.ones(3), axis="a"),
    "axis must be an integer, got 1.5": lambda j, n: j.nn.log_softmax(n.ones(3), axis=1.5),
    r"axis must be an integer, got float32\[\]": lambda j, n: n.size(n.ones(3), axis=n.ones(3)),
    "axis must be an integer, got None": lambda j, n: j.lax.cumsum(n.ones(3), axis=None),
    "the axes must be a sequence of integers, got 1.5": (
        lambda j, n: j.lax.reduce_max(n.ones(3), 1.5)
    ),
    "dimensions must be a sequence": lambda j, n: j.lax.expand_dims(n.ones(3), None),
    "reps must be a sequence of integers, got -1": lambda j, n: j.lax.tile(n.ones(3), -1),
    "exponent_bits must be an integer": lambda j, n: j.lax.reduce_precision(n.ones(3), (7, 7), 0),
    "num_classes must be an integer": lambda j, n: j.nn.one_hot(n.arange(3), "abc"),
    "offset must be an integer": lambda j, n: n.diagonal(n.ones((3, 3)), "a"),
    "polyadd: .* got a scalar at position 0": lambda j, n: n.polyadd(99, n.ones(3)),
    "Input 1 to ormqr must have rank at least 1": (
        lambda j, n: j.lax.linalg.ormqr(n.eye(3), 1.5, n.eye(3))
    ),
}


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_what_is_no_integer_is_named(text: str) -> None:
    """Of JAX's class; the message says which argument, and what was given."""
    with pytest.raises(Exception) as wanted:
        NO_INTEGERS[text](jax, jnp)
    with pytest.raises(wanted.type, match=text):
        NO_INTEGERS[text](pb, pnp)


# What both libraries say, in words that programs' tests look for.
SAID = {
    "Number of tensordot axes.*exceeds input ranks": lambda j, n: n.tensordot(
        n.ones((3, 2, 2)), n.ones(2), axes=2
    ),
    "either ints, tuples or lists, got bad and axes": lambda j, n: n.tensordot(
        n.ones(2), n.ones(2), axes=("bad", "axes")
    ),
    "axes argument must be an int, a pair of ints": lambda j, n: n.tensordot(
        n.ones(2), n.ones(2), axes="badaxes"
    ),
    "complex x values not supported": lambda j, n: n.interp(1j, 1j * n.arange(3), n.arange(3.0)),
    "axis1 and axis2 can not be same. axis1=1 and axis2=-2": lambda j, n: n.trace(
        n.ones((2, 3, 2)), axis1=1, axis2=-2
    ),
    "Invalid mode 'bad' for np.take": lambda j, n: n.take(n.ones(3), 0, mode="bad"),
    "slice start of jnp.r_": lambda j, n: j.jit(lambda a: n.r_[a:3])(0),
    "slice step of jnp.c_": lambda j, n: j.jit(lambda a: n.c_[0:3:a])(1),
    "jax.numpy.put cannot modify arrays in-place": lambda j, n: n.put(n.ones(3), 0, 1.0),
    "arrays are immutable, must use inplace=False": lambda j, n: n.fill_diagonal(n.eye(2), 1.0),
    r"when you meant `jax.numpy.ones\(\(2, 3\)\)`": lambda j, n: n.ones(2, 3),
    "'block_until_ready' method is not available on traced": (
        lambda j, n: j.grad(lambda x: x.block_until_ready())(1.0)
    ),
    "'copy_to_host_async' method is not available on traced": (
        lambda j, n: j.jit(lambda x: x.copy_to_host_async())(1.0)
    ),
    r"The tobytes\(\) method was called on traced array": lambda j, n: j.jit(lambda x: x.tobytes())(
        n.arange(3)
    ),
    "JAX only supports number, bool, and string dtypes": lambda j, n: n.array(3, [("a", "<i4")]),
    r"jitted computation, whose argument path is y\['a'\]\[0\]. Got <class 'int'> with value": (
        lambda j, n: j.jit(lambda x, y: x)(1, y={"a": [2**40]})
    ),
    "whose argument path is z. Got": lambda j, n: j.make_jaxpr(lambda z: z)(-(2**40)),
    "Python int 1099511627776 too large to convert to int32": lambda j, n: j.lax.add(1, 2**40),
    "dtype=.*?is not supported, see docstring for supported types": (
        lambda j, n: j.scipy.special.ndtri(n.arange(3))
    ),
    "weights tensor with default in_axis. Must be at least 2D or specify in_axis explicitly": (
        lambda j, n: j.nn.initializers.he_normal()(j.random.key(0), (5,))
    ),
    "jax.numpy.fft.fft requires ndarray or scalar arguments": lambda j, n: n.fft.fft([1.0]),
    "select must have a value in {'a', 'i', 'v'}": lambda j, n: j.scipy.linalg.eigh_tridiagonal(
        n.ones(3), n.ones(2), eigvals_only=True, select="x"
    ),
    "sparse rule for eq is not implemented because it would result in dense": (
        lambda j, n: j.experimental.sparse.eye(3) == 0
    ),
    "sparse rule for exp is not implemented because it would result in dense": (
        lambda j, n: j.experimental.sparse.sparsify(n.exp)(j.experimental.sparse.eye(3))
    ),
    "sparse rule for sort is not implemented": (
        lambda j, n: j.experimental.sparse.sparsify(n.sort)(j.experimental.sparse.eye(3))
    ),
    "Division by a sparse array is not implemented because it would result in dense": (
        lambda j, n: 1 / j.experimental.sparse.eye(3)
    ),
    r"contracting dimensions to have the same shape, got \(3,\) and \(4,\)": (
        lambda j, n: j.experimental.sparse.eye(3) @ n.ones(4)
    ),
    r"of shape \(3, 3\), increasing n_dense from 0 to 1 results in inefficient storage": (
        lambda j, n: j.experimental.sparse.bcoo_update_layout(
            j.experimental.sparse.eye(3), n_dense=1
        )
    ),
    "The error arose for the nse argument of bcoo_fromdense": lambda j, n: j.jit(
        j.experimental.sparse.BCOO.fromdense
    )(n.eye(2)),
    "for select='i', select_range must be specified": (
        lambda j, n: j.scipy.linalg.eigh_tridiagonal(
            n.ones(3), n.ones(2), eigvals_only=True, select="i"
        )
    ),
}


@pytest.mark.parametrize("text", SAID)
def test_said_as_in_jax(text: str) -> None:
    with pytest.raises(Exception, match=text) as wanted:
        SAID[text](jax, jnp)
    with pytest.raises(Exception, match=text) as given:
        SAID[text](pb, pnp)
    assert given.type.__name__ == wanted.type.__name__


@pytest.mark.parametrize("name", GIVEN)
def test_given_as_in_jax(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (GIVEN[name](j, n) for j, n in BOTH)
    assert (ours.dtype, ours.shape, ours.weak_type) == (
        theirs.dtype,
        theirs.shape,
        theirs.weak_type,
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pnp.zeros((2**40, 2**40)),
        lambda: pnp.bincount(pnp.arange(3), length=2**70),
        lambda: pnp.tile(pnp.ones((3, 4)), (2**40, 2**40)),
        lambda: pnp.broadcast_to(1.0, (2**62, 2**10)),
    ],
)
def test_more_bytes_than_there_are(call: Any) -> None:
    """Arrays whose bytes 64 bits cannot count are refused in words of memory."""
    for _ in range(3):
        with pytest.raises(pb.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
            call()


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("shape", [(0, -1), (-1, 0), (0, 2, -1)])
def test_no_size_follows_beside_an_axis_of_size_0(size: int, shape: tuple[int, ...]) -> None:
    """As in NumPy, whatever the number of elements."""
    with pytest.raises(ValueError, match="cannot reshape"):
        np.zeros(size).reshape(shape)
    for reshape in (lambda x: x.reshape(shape), lambda x: pnp.reshape(x, shape)):
        for f in (reshape, pb.jit(reshape)):
            with pytest.raises(TypeError, match=r"cannot reshape .* say the size"):
                f(pnp.zeros(size))
    assert pnp.zeros((0, 4)).reshape(-1).shape == (0,)
    assert pnp.zeros((0, 4)).reshape(3, -1).shape == (3, 0)


@pytest.mark.parametrize(
    "number, x64, fix",
    [
        (2**31, False, r"np\.uint32\(2147483648\)"),
        (-(2**31) - 1, False, "enable x64"),
        (2**40, False, "enable x64"),
        (2**63, True, r"np\.uint64\(9223372036854775808\)"),
        (-(2**70), True, r"float\(-1180591620717411303424\)"),
    ],
)
def test_what_a_large_integer_can_be_instead(number: int, x64: bool, fix: str) -> None:
    with pb.enable_x64(x64), pytest.raises(OverflowError, match=fix):
        pnp.maximum(pnp.ones(2), number)
