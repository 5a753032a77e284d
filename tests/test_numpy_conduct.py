"""How numpy's functions behave where JAX's own tests ask: each call beside real JAX in values,
types, classes and words of errors, and classes of warnings."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.ndimage
import jax.scipy.stats
import numpy as np
import pytest
from oracle_compare import leaves

import pullback as pb
import pullback.numpy as pnp

BOTH = [(jax, jnp), (pb, pnp)]
MASKED = np.ma.array([1, 2], mask=[True, False])


class Held:
    """What knows its array, and NumPy nothing of it."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise AssertionError("NumPy is not to be asked")


for library in (jax, pb):
    library.tree_util.register_pytree_node(
        Held, lambda h: ((h.array,), None), lambda _, c: Held(*c)
    )


class Told:
    """What has a shape and a dtype, and no array yet."""

    shape = (2, 3)
    dtype = np.dtype("float32")

    def __jax_array__(self) -> Any:
        raise AssertionError("no array is needed")


# What calls give, or raise.
CALLS = {
    "mask of no rows": lambda j, n: n.ones((3, 4))[np.empty((0,), bool)],
    "mask of no columns": lambda j, n: n.ones((3, 4, 5))[np.empty((3, 0), bool)],
    "mask of no rows, set": lambda j, n: n.ones((2, 3)).at[0, np.empty((0,), bool)].set(2.0),
    "mask of no rows but other columns": lambda j, n: n.ones((3, 4))[np.empty((0, 3), bool)],
    "masked array": lambda j, n: n.array(MASKED),
    "masked array of another dtype": lambda j, n: n.asarray(MASKED, dtype=float),
    "masked array, not copied": lambda j, n: n.asarray(MASKED),
    "bytearray": lambda j, n: n.array(bytearray(b"\x2a\xf3"), ndmin=2),
    "bytearray as floats": lambda j, n: n.asarray(bytearray(b"ab"), dtype=float),
    "NumPy's own width is not asked for": lambda j, n: n.zeros_like(np.arange(3)),
    "nor of a number": lambda j, n: n.full_like(np.float64(1), 2),
    "nor by lax": lambda j, n: j.lax.full_like(np.uint64(3), 2, shape=(2,)),
    "another width is": lambda j, n: n.zeros_like(np.arange(3), dtype="int64"),
    "128 bits": lambda j, n: n.array(np.longdouble(2)),
    "128 bits, moved": lambda j, n: j.device_put(np.ones(2, np.longdouble)),
    "128 bits, traced": lambda j, n: j.jit(lambda x: x)(np.longdouble(2)),
    "256 bits asked for": lambda j, n: n.zeros(2, "complex256"),
    "128 bits asked for": lambda j, n: n.array([1, 2], dtype="longdouble"),
    "128 bits, the type of": lambda j, n: n.result_type(np.longdouble(2)),
    "shape of None": lambda j, n: n.shape(None),
    "ndim of a dict": lambda j, n: n.ndim({}),
    "a differentiated number of sections": lambda j, n: j.jvp(
        lambda k: n.split(n.zeros((12, 2)), k), (2.0,), (1.0,)
    ),
    "a differentiated place to split at": lambda j, n: j.jvp(
        lambda k: n.split(n.zeros((12, 2)), (1, k.astype(int))), (2.0,), (1.0,)
    ),
    "a differentiated end": lambda j, n: j.jvp(n.arange, (3.0,), (1.0,)),
    "a differentiated end, after a start": lambda j, n: j.jvp(
        lambda k: n.arange(0.0, k), (3.0,), (1.0,)
    ),
    "bits of a number in another half": lambda j, n: n.ones((), "bfloat16").view("float16"),
    "and back, in a program": lambda j, n: j.jit(lambda x: x.view("bfloat16"))(
        n.ones((), "float16")
    ),
    "products that pick, beyond the end": lambda j, n: n.take_along_axis(
        n.arange(12.0).reshape(3, 4), np.array([[1, 9], [0, -1], [-9, 2]]), 1, mode="one_hot"
    ),
    "products that pick, among rows": lambda j, n: n.take_along_axis(
        n.arange(12).reshape(3, 4), np.array([[1, 0, 2, 2]], "uint8"), 0, mode="one_hot"
    ),
    "products that pick, in take": lambda j, n: n.take(n.ones(2), n.array([0]), mode="one_hot"),
    "covariance in integers": lambda j, n: n.cov(n.arange(5), dtype=int),
    "covariance by negative weights": lambda j, n: n.cov(
        n.arange(12.0).reshape(3, 4) ** 2,
        fweights=n.array([1, -2, 1, 1]),
        aweights=n.array([1.0, 2, -1, 1]),
    ),
    "logarithms of sums of powers": lambda j, n: [
        getattr(n, name).reduce(n.arange(6.0).reshape(2, 3), **more)
        for name in ("logaddexp", "logaddexp2")
        for more in (
            {"dtype": "int32"},
            {"axis": (0, 1), "keepdims": True},
            {"axis": None, "initial": 2.0},
            {"where": n.array([True, False, True]), "axis": 1},
            {"initial": n.ones(3)},
        )
    ],
    "logarithms of sums of powers of no dtype": lambda j, n: n.logaddexp.reduce(
        n.ones(3), dtype="bad"
    ),
    "slopes of logarithms of sums": lambda j, n: j.grad(
        lambda x: n.logaddexp2.reduce(x, axis=None)
    )(n.arange(3.0)),
    "truth values run through integers": lambda j, n: n.logical_or.accumulate(
        n.arange(-1, 3), dtype="int32"
    ),
    "arrays that are no keys, cloned": lambda j, n: [
        j.random.clone(x) for x in (n.arange(3.0), 1, np.float32(2), n.zeros(3, "uint32"))
    ],
    "correlation in integers": lambda j, n: n.corrcoef(n.arange(5), n.arange(5), dtype="int8"),
    "64 bits of a type": lambda j, n: str(
        j.eval_shape(lambda x: x, j.ShapeDtypeStruct((2,), "int64"))
    ),
    "64 bits of a type, in a program": lambda j, n: str(
        j.make_jaxpr(n.dot)(*[j.ShapeDtypeStruct((5,), "float64")] * 2)
    ),
    "64 bits of a type, compiled": lambda j, n: str(
        j.jit(n.sin).lower(j.ShapeDtypeStruct((5,), "float64")).compile().out_info
    ),
    "ufuncs of one function": lambda j, n: (
        n.frompyfunc(n.sin, 1, 1) == n.frompyfunc(n.sin, 1, 1),
        hash(n.frompyfunc(n.sin, 1, 1)) == hash(n.frompyfunc(n.sin, 1, 1)),
        n.frompyfunc(n.sin, 1, 1) == n.frompyfunc(n.cos, 1, 1),
    ),
    "places of one operand": lambda j, n: n.frompyfunc(n.sin, 1, 1).reduceat(n.ones(3), [0]),
    "positions beyond the axes, ignored": lambda j, n: n.ravel_multi_index(
        (n.array([0, 5, -7], "int8"), n.array([0, 9, 1], "int8")), dims=(2, 3), mode="ignore"
    ),
    "positions, ignored, of another order": lambda j, n: n.ravel_multi_index(
        (n.array([0, 5, -7]), n.array([0, 9, 1])), (2, 3), mode="ignore", order="F", dtype="int16"
    ),
    "condition numbers of no matrices": lambda j, n: n.linalg.cond(np.zeros((0, 2, 2), "float32")),
    "unique of nothing, filled with several": lambda j, n: n.unique(
        np.zeros((0, 2), "float32"), axis=0, size=2, fill_value=np.array([9, 8])
    ),
    "remainder of held arrays": lambda j, n: n.fmod(Held(n.arange(3.0)), Held(n.array(2.0))),
    "differences before held arrays": lambda j, n: n.ediff1d(
        n.arange(3.0), to_end=Held(n.ones(2)), to_begin=Held(n.array(7.0))
    ),
    "places in a held array": lambda j, n: n.searchsorted(Held(n.arange(3.0)), Held(n.ones(2))),
    "zeros of a held array": lambda j, n: n.trim_zeros(Held(n.arange(3))),
    "ranks of floats of 8 bits": lambda j, n: (
        [
            f(x, q)
            for x in (n.arange(3, dtype="float8_e4m3fn"), n.arange(3.0), n.arange(3))
            for f in (n.quantile, n.nanquantile, n.percentile)
            for q in (
                n.array([0.5, 1.0], "float8_e5m2" if x.dtype == "int32" else "float8_e4m3fn"),
                0.5,
            )
        ]
        + [n.median(n.arange(3, dtype="float8_e4m3fn"))]
    ),
    "variances of narrow numbers": lambda j, n: [
        f(n.array([1, 0, 1], own), dtype=asked)
        for own in ("int4", "float8_e4m3fn")
        for f in (n.var, n.std, n.nanvar, n.nanstd)
        for asked in ("float16", "float32", "complex64")
    ],
    "histogram of held arrays": lambda j, n: n.histogram2d(
        Held(n.arange(3.0)), Held(n.arange(3.0)), 2
    ),
    "likeness of a type": lambda j, n: (n.zeros_like(Told()), n.full_like(Told(), 3)),
    "size of a type": lambda j, n: (n.shape(Told()), n.size(Told())),
    "kind of a type": lambda j, n: (n.iscomplexobj(Told()), n.isrealobj(Told())),
    "a range from 0": lambda j, n: str(j.make_jaxpr(lambda: n.arange(0, 5))()),
    "a range of floats from 0": lambda j, n: str(j.make_jaxpr(lambda: n.arange(0, 5.0))()),
    "a range from 0 by steps": lambda j, n: str(j.make_jaxpr(lambda: n.arange(0, 5, 1))()),
    "negative sizes": lambda j, n: n.broadcast_shapes((-1,), (2,)),
    "a copied tracer": lambda j, n: str(j.make_jaxpr(copy.copy)(n.ones(2))),
    "a deeply copied tracer": lambda j, n: str(j.make_jaxpr(copy.deepcopy)(n.ones(2))),
    "put somewhere": lambda j, n: j.device_put(n.ones(2), j.devices()[0])._committed,
    "lying anywhere": lambda j, n: n.ones(2)._committed,
    "more elements than int32 counts": lambda j, n: j.eval_shape(
        n.searchsorted, j.ShapeDtypeStruct((2**31,), "float32"), 1.0
    ),
}


def wide(call: Any) -> Any:
    """`call` with 64-bit types."""

    def run(j: Any, n: Any) -> Any:
        with j.enable_x64(True):
            return call(j, n)

    return run


CALLS["order of one key, wide"] = wide(lambda j, n: n.lexsort((n.array(1),)))


for _k in (2**33, -(2**33), 2**31 - 1):
    CALLS[f"diagonal {_k}, wide"] = wide(
        lambda j, n, k=_k: (n.tri(3, k=k), n.eye(3, k=np.int64(k)))
    )
    CALLS[f"diagonal {_k}, traced"] = wide(
        lambda j, n, k=_k: j.jit(lambda k: (n.tri(3, k=k), n.eye(3, k=k)))(k)
    )
    CALLS[f"triangles of {_k}, wide"] = wide(
        lambda j, n, k=_k: (n.tril(n.ones((3, 3)), k), n.triu(n.ones((3, 3)), k))
    )
    CALLS[f"the {_k}-th diagonal, wide"] = wide(
        lambda j, n, k=_k: (n.diagonal(n.ones((3, 3)), k), n.trace(n.ones((3, 3)), k))
    )


def ranks(mode: str, call: Any) -> Any:
    """`call`, where the flag says what becomes of operands of several ranks."""

    def run(j: Any, n: Any) -> Any:
        with j.numpy_rank_promotion(mode):
            return call(j, n)

    return run


def left_wide(call: Any) -> Any:
    """`call` without 64-bit types, on a float64 array and int64 positions that were made with
    them."""

    def run(j: Any, n: Any) -> Any:
        with j.enable_x64(True):
            x, i = n.arange(3.0), n.array([0, 0, 1])
        with j.enable_x64(False), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX's: of a dtype "explicitly requested" by nobody
            return call(j, x, i)

    return run


CALLS["wide positions, left wide"] = left_wide(lambda j, x, i: (x[i], x[:, None][i, :]))
CALLS["wide positions set, left wide"] = left_wide(lambda j, x, i: x.at[i].set(2))
CALLS["wide segments, left wide"] = left_wide(lambda j, x, i: j.ops.segment_sum(x, i, 2))
CALLS["a wide sum, left wide"] = left_wide(lambda j, x, i: (x.sum(), i.sum()))

for _level in (1 - 1e-12, np.float32(0.25), np.array([0.1, 0.7])):
    CALLS[f"ranks of {_level!r}, wide"] = wide(
        lambda j, n, q=_level: [
            f(n.arange(6, dtype="float32"), q, method="lower") for f in (n.quantile, n.nanquantile)
        ]
    )
for _dtype in ("float16", "bfloat16"):
    for _own in (_dtype, "float32"):
        CALLS[f"sums of {_own} made in {_dtype}, as programs"] = lambda j, n, d=_dtype, own=_own: [
            f"{eqn.primitive.name} {eqn.outvars[0].aval.str_short()}"
            for f in (n.sum, n.prod, n.mean)
            for eqn in j.make_jaxpr(lambda x, f=f: f(x, dtype=d))(n.ones(4, own)).eqns
        ]
for _shapes in (((4, 4), (4,)), ((4, 4), (4, 4)), ((4,), (4,)), ((4, 4), ()), ((1, 4), (4,))):
    CALLS[f"ranks of what is mapped, {_shapes}"] = ranks(
        "raise",
        lambda j, n, s=_shapes: n.vectorize(n.add, signature="(n),()->(n)")(*map(n.ones, s)),
    )
for _kind in ("int32", "bool", "float16"):
    CALLS[f"running products of {_kind}"] = lambda j, n, d=_kind: [
        n.cumulative_prod(n.array([1, 2, 3], d), include_initial=first) for first in (False, True)
    ]
for _ddof in (0.5, 1.0, np.float32(1.5)):
    CALLS[f"covariances with {_ddof!r} of a degree"] = lambda j, n, d=_ddof: n.cov(
        n.arange(6.0).reshape(2, 3), ddof=d
    )
for _value in (2**32 - 1, -1, 2**33, 7):
    CALLS[f"unsigned integers set to {_value}"] = lambda j, n, v=_value: [
        j.jit(lambda x, how=how: getattr(x.at[0], how)(v))(n.ones(2, "uint32"))
        for how in ("set", "add", "max")
    ]
for _name in ("nanmean", "nanvar", "nanstd", "std"):
    CALLS[f"{_name} in a dtype that is not available"] = lambda j, n, name=_name: getattr(n, name)(
        n.ones(3), dtype="float64"
    )
CALLS["coordinates in lists, of too many axes"] = lambda j, n: j.scipy.ndimage.map_coordinates(
    n.ones(3), [[n.ones(2)], [n.ones(2)]], order=1
)
CALLS["tails of a power that is no number"] = lambda j, n: [
    j.scipy.stats.pareto.sf(x, np.nan) for x in (0.5, 1.0, 2.0)
]
CALLS["a triangle as a program, wide"] = wide(
    lambda j, n: str(j.make_jaxpr(lambda x, k: (n.tril(x, 1), n.eye(2, k=k)))(np.ones((2, 2)), 1))
)


def outcome(call: Any, j: Any, n: Any) -> tuple[Any, Any, list[str]]:
    """(leaves, None) or (None, error), and the classes of what was warned of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result, error = leaves(call(j, n)), None
        except Exception as e:
            result, error = None, e
    return result, error, sorted({w.category.__name__ for w in warned})


@pytest.mark.parametrize("name", CALLS)
def test_as_in_jax(name: str) -> None:
    (want, error, warned), (got, raised, said) = (outcome(CALLS[name], j, n) for j, n in BOTH)
    assert said == warned
    if error is not None:
        assert type(error).__name__ in {c.__name__ for c in type(raised).__mro__}, (error, raised)
        return
    assert raised is None, raised
    for a, b in zip(want, got, strict=True):
        if isinstance(a, bool | int | str):
            assert a == b
            continue
        assert (b.dtype, b.shape, getattr(b, "weak_type", None)) == (
            a.dtype, a.shape, getattr(a, "weak_type", None)
        )  # fmt: skip
        np.testing.assert_allclose(b, a, rtol=1e-5)


def dot(n: Any) -> Any:
    return n.vectorize(n.dot, signature="(n),(n)->()")


# Calls whose errors JAX's tests know by words.
SAYING = {
    "jax.numpy.einsum does not support simultaneous contraction of 3 or more operands": (
        lambda j, n: n.einsum("i,i,i->i", *[n.ones(3)] * 3, optimize=[(0, 1, 2)])
    ),
    r"does not support multiple axes. Please use jax.numpy.fft.fftn. Got axis = \[1, 1\]": (
        lambda j, n: n.fft.fft(n.ones((2, 3)), axis=[1, 1])
    ),
    "jax.numpy.fft.hfft does not support multiple axes": lambda j, n: n.fft.hfft(
        n.ones((2, 3)), axis=[1, 1]
    ),
    r"jax.numpy.fft.fft2 only supports 2 axes. Got axes = \[0\]": lambda j, n: n.fft.fft2(
        n.ones((2, 3)), axes=[0]
    ),
    r"n argument of jax.numpy.fft.fftfreq only takes an int. Got n = \[0, 1\]": (
        lambda j, n: n.fft.fftfreq([0, 1])
    ),
    r"d argument of jax.numpy.fft.rfftfreq only takes a single value. Got d = \[0, 1\]": (
        lambda j, n: n.fft.rfftfreq(4, [0, 1])
    ),
    r"on vectorized function with excluded=frozenset\(\) and signature='\(n\),\(n\)->\(\)'": (
        lambda j, n: dot(n)(n.ones(3))
    ),
    r"core dimension 'n': 4 vs 3 on vectorized function": lambda j, n: dot(n)(n.ones(3), n.ones(4)),
    r"core dimensions \('n',\) on vectorized function with": lambda j, n: dot(n)(1.0, n.ones(4)),
    r"operands with shapes \[\(2, 3\), \(3,\)\] require rank promotion": ranks(
        "raise", lambda j, n: n.vectorize(n.add)(n.ones((2, 3)), n.ones(3))
    ),
    r"for add on shapes \(2,\) \(1, 2\) and with the config option": ranks(
        "raise", lambda j, n: n.ones(2) + n.ones((1, 2))
    ),
    r"initial value must be a scalar. Got array of shape \(1, 2\)": lambda j, n: n.sum(
        n.ones(2), initial=n.ones((1, 2))
    ),
    r"jnp.sum: where must be None or a boolean array; got where.dtype=dtype\('int32'\)": (
        lambda j, n: n.sum(n.ones(2), where=n.ones(2, int))
    ),
    "jnp.max: where must be None or a boolean array": lambda j, n: n.max(
        n.ones(2), where=n.ones(2, int)
    ),
    "for p=1, array must be square; got arr.shape=": lambda j, n: n.linalg.cond(n.ones((2, 3)), 1),
    "tensorinv is only possible when": lambda j, n: n.linalg.tensorinv(n.ones((2, 3)), 1),
    "method='bogus' is not implemented": lambda j, n: n.isin(n.ones(2), n.ones(2), method="bogus"),
    "0d array is only supported if the itemsize is": lambda j, n: n.ones(()).view("int8"),
    r"allowed; use `arr\[tuple\(seq\)\]`": lambda j, n: n.ones((3, 2))[[0, None]],
    r"not allowed; use `arr\[tuple\(seq\)\]`": lambda j, n: n.ones((3, 2)).at[[0, [0, 1]]].set(0),
    r"not allowed; use `arr\[array\(seq\)\]`": lambda j, n: n.ones((3, 2))[[0, np.array(1)]],
    "string indexing; got idx='abc'": lambda j, n: n.ones((2, 3))[:, "abc"],
    "rot90 requires its first argument to have ndim at least two": lambda j, n: n.rot90(n.ones(2)),
    "cov: dtype must be a subclass of float or complex": CALLS["covariance in integers"],
    "only supports number, bool, and string dtypes": lambda j, n: n.arange(3, dtype="float128"),
    "Python integer 2147483648 out of bounds for int32": CALLS["more elements than int32 counts"],
}


@pytest.mark.parametrize("words", SAYING)
def test_words_of_errors(words: str) -> None:
    for j, n in BOTH:
        _, error, _ = outcome(SAYING[words], j, n)
        assert re.search(words, str(error)), error


@pytest.mark.parametrize("dtype", ("int32", "bool"))
def test_running_results_keep_the_dtype_that_is_asked_for(dtype: str) -> None:
    """Fractions do not become integers on their way."""
    for n in (jnp, pnp):
        with pytest.raises(TypeError, match="type"):
            n.logaddexp.accumulate(n.arange(4.0), dtype=dtype)


def test_an_excluded_name_stands_in_a_collection() -> None:
    add = lambda x, y: x + y
    for n in (jnp, pnp):
        with pytest.raises(TypeError, match=r"string|collection"):
            n.vectorize(add, excluded="y")(n.ones(2), y=1.0)
        assert n.vectorize(add, excluded={"y"})(n.ones(2), y=1.0).tolist() == [2, 2]


def test_indices_and_shifts_may_be_objects_that_are_arrays() -> None:
    class Held:
        def __init__(self, x: object) -> None:
            self.x = x

        def __jax_array__(self) -> object:
            return pnp.asarray(self.x)

        def __array__(self, dtype: object = None, copy: object = None) -> object:
            raise ValueError("not asked for")

    assert pnp.roll(Held([1, 2, 3]), Held([1])).tolist() == [3, 1, 2]
    assert pnp.insert(Held([1, 2, 3]), Held(1), Held([9])).tolist() == [1, 9, 2, 3]
    assert pnp.linalg.matrix_transpose(Held([[1, 2]])).tolist() == [[1], [2]]


def test_lists_stand_for_what_is_no_number() -> None:
    for _, m in BOTH:
        x = m.array([np.inf, 1.0, np.nan, -np.inf])
        got = m.nan_to_num(x, nan=[1, 2, 3, 4], posinf=(5.0,), neginf=[[6.0], [7.0]])
        assert got.tolist() == [[5, 1, 3, 6], [5, 1, 3, 7]]
