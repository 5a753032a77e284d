"""numpy's functions under jit, jvp, grad and vmap, in 64 bits, on PRNG keys: each as in JAX.

JAX's answers are kept in `numpy_expressions/transforms.jsonl`: its compiles would take a minute.
Each run asks JAX itself for some (`--fuzz-seed` picks them); `--regenerate` asks it for all.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recorded_answers import Answer, answer, failures, read, write

import pullback as ours

ANSWERS = pathlib.Path(__file__).parent / "numpy_expressions" / "transforms.jsonl"

# Functions of a matrix x of shape (3, 4), of a matrix y like it, and of a square matrix s.
FUNCTIONS = """
jnp.abs(x) + jnp.square(x)
jnp.sin(x) * jnp.cos(x)
jnp.arctan2(x, y)
jnp.arcsinh(x) + jnp.arctan(x)
jnp.exp2(x) + jnp.expm1(x)
jnp.log1p(x * x) + jnp.log2(y)
jnp.logaddexp(x, y)
jnp.logaddexp2(x, y)
jnp.hypot(x, y)
jnp.power(y, x)
x ** 3 + x ** -2
jnp.float_power(y, 1.5)
jnp.cbrt(x)
jnp.sinc(x)
jnp.i0(x)
jnp.maximum(x, y) + jnp.minimum(x, 0.1)
jnp.fmod(x, y) + x % y
jnp.clip(x, -0.5, 0.5)
jnp.nan_to_num(x / y)
jnp.heaviside(x, 0.5) * x
jnp.copysign(x, y)
jnp.where(x > 0, x * y, x - y)
jnp.select([x > 0.5, x > -0.5], [x * x, y * x], x)
jnp.sum(x, axis=0, keepdims=True)
jnp.mean(x, axis=(0, 1))
jnp.prod(x, axis=1)
jnp.var(x, axis=0, ddof=1)
jnp.std(x)
jnp.max(x, axis=1) - jnp.min(x, axis=0)[:3]
jnp.ptp(x, axis=1)
jnp.average(x, axis=1, weights=y[0])
jnp.nanmean(x, axis=0)
jnp.nansum(x, axis=1)
jnp.nanmax(x)
jnp.cumsum(x, axis=1)
jnp.cumprod(x, axis=0)
jnp.cumulative_sum(x, axis=0, include_initial=True)
jnp.median(x, axis=1)
jnp.quantile(x, 0.3, axis=0)
jnp.nanquantile(x, 0.7)
jnp.sort(x, axis=0)
jnp.partition(x, 2)
jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
jnp.dot(x, y.T)
x @ y.T
jnp.inner(x, y)
jnp.outer(x[0], y[1])
jnp.tensordot(x, y, axes=([0, 1], [0, 1]))
jnp.vdot(x, y)
jnp.vecdot(x, y)
jnp.kron(x[:2, :2], y[:2, :2])
jnp.cross(x[:, :3], y[:, :3])
jnp.einsum('ij,kj->ik', x, y)
jnp.einsum('ij,ij,j->i', x, y, y[0])
jnp.trace(x)
jnp.diagonal(x, offset=1)
jnp.diag(x[0], k=1)
jnp.tril(x) + jnp.triu(y, 1)
jnp.linalg.norm(x)
jnp.linalg.norm(x, axis=1)
jnp.linalg.det(s)
jnp.linalg.slogdet(s)[1]
jnp.linalg.inv(s)
jnp.linalg.solve(s, x)
jnp.linalg.cholesky(s @ s.T + 3 * jnp.eye(3))
jnp.linalg.qr(s)[1]
jnp.linalg.svd(x, compute_uv=False)
jnp.linalg.eigvalsh(s + s.T)
jnp.linalg.pinv(x)
jnp.linalg.matrix_power(s, 3)
jnp.reshape(x, (4, 3), order='F')
jnp.transpose(x)[::2, ::-1]
jnp.moveaxis(x[None], 0, 2)
jnp.concatenate([x, y], axis=1)
jnp.stack([x, y], axis=1)
jnp.hstack([x[0], y[1]])
jnp.split(x, 2, axis=1)[1]
jnp.tile(x, (2, 1))
jnp.repeat(x, 2, axis=0)
jnp.roll(x, 1, axis=1)
jnp.flip(x, 1) + jnp.rot90(y, 2)
jnp.pad(x, ((1, 0), (0, 2)), mode='reflect')
jnp.pad(x, 1, constant_values=2.)
jnp.insert(x, 1, y[0], axis=0)
jnp.broadcast_to(x[0], (2, 4))
x[1:, [0, 3, -1]]
x[jnp.array([2, 0, 2])]
x.at[jnp.array([0, 2]), 1].add(y[0, :2])
x.at[1].set(y[1] * x[0])
x.at[1:, ::2].multiply(y[1:, ::2])
x.at[0].max(y[0])
jnp.take(x, jnp.array([3, 0]), axis=1)
jnp.diff(x, axis=1)
jnp.gradient(x, axis=0)
jnp.convolve(x[0], y[1])
jnp.interp(y[0] / 3, jnp.arange(4.), x[1])
jnp.trapezoid(x, axis=1)
jnp.polyval(x[0], y[0])
jnp.cov(x)
jnp.corrcoef(x)
jnp.vander(x[0], 3)
jnp.real(jnp.fft.fft(x)) + jnp.abs(jnp.fft.rfft(y, n=7)[:, :4])
jnp.apply_along_axis(lambda r: r * r[0], 1, x)
jnp.vectorize(jnp.dot, signature='(n),(n)->()')(x, y)
jnp.piecewise(x, [x < 0, x > 1], [lambda t: t * t, lambda t: 2 * t, 0.5])
""".strip().splitlines()


# In 64 bits, of f (float64), g (float32), i (int64), k (int32), c (complex128).
WIDE = """
f + 1
f * g
i + k
i / k
k + 1.5
g + np.float64(1)
i << 3
jnp.arange(5)
jnp.arange(0, 1, 0.25)
jnp.linspace(0, 1, 5)
jnp.zeros(3)
jnp.ones(3, int)
jnp.array([1, 2])
jnp.array([1.5, 2])
jnp.array(1j)
jnp.asarray(g, dtype=float)
jnp.sum(k)
jnp.sum(g)
jnp.mean(i)
jnp.mean(k)
jnp.median(k)
jnp.exp(k)
jnp.fft.fft(k)
jnp.argpartition(f, 1)
jnp.lexsort((f, f))
jnp.argwhere(i > 0)
jnp.tril_indices(3)
jnp.tri(2)
jnp.cumsum(k)
jnp.argmax(f)
jnp.argsort(f)
jnp.nonzero(i > 0)
jnp.searchsorted(jnp.sort(f), 0.1)
jnp.abs(c)
jnp.exp(c)
jnp.fft.fft(f)
jnp.var(i)
jnp.matmul(f, jnp.arange(4))
jnp.dot(g, f)
jnp.linalg.norm(f)
jnp.power(i, 2)
jnp.power(2, k)
jnp.float_power(k, 2)
jnp.int32(2**31 - 1) + 1
jnp.uint32(1) + i
f[i % 4]
f.at[k % 4].add(1)
jnp.where(f > 0, f, 0)
jnp.clip(i, 0, 2)
jnp.unique(k)
jnp.bincount(k % 3)
jnp.where(k > 0, 1, 2.5)
jnp.prod(i)
jnp.std(f)
jnp.interp(0.5, f, f)
lib.grad(lambda t: jnp.sum(t ** 3))(f)
lib.grad(lambda t: t ** 2)(2.0)
lib.vmap(jnp.sin)(f)
lib.jit(lambda t: t * 2 + k)(f)
jnp.linspace(0, 1, 4, retstep=True, dtype=int)
jnp.linspace(0, g[0], 4, dtype=int)
jnp.cov(jnp.stack([g, g[::-1]]), aweights=f * f)
jnp.cov(jnp.stack([g, g[::-1]]), fweights=k * k, aweights=f * f)
jnp.gradient(k, 2.0)
jnp.gradient(i, 2.0)
jnp.gradient(jnp.outer(g, g), 2.0, jnp.sort(f))
jnp.unwrap(k)
jnp.unwrap(g, period=jnp.float64(2))
jnp.unwrap(k, period=7)
jnp.unwrap(k.astype("uint8"), period=7)
jnp.angle(k)
jnp.angle(k > 0)
jnp.histogram(f, bins=jnp.sort(g))
jnp.histogram(g, bins=jnp.array([-2.0, 0.0, 4.0]))
jnp.histogram(i, bins=jnp.sort(g))
jnp.quantile(g, 0.5, weights=f * f, method="inverted_cdf")
jnp.roots(jnp.array([0.0, 1.0, -3.0, 2.0, 0.0]))
jnp.roots(jnp.array([0.0, 1.0, -3.0, 2.0, 0.0]), strip_zeros=False)
lib.scipy.stats.mode(k)
""".strip().splitlines()

# Of six keys, one key `one`, positions i and a mask m.
KEYS = """
ks[0]
ks[jnp.int32(2)]
ks[7]
ks[i]
ks[m]
ks[1:5:2]
ks[::-1]
ks[None, ..., None]
ks[0, 0]
one[0]
ks['a']
ks[1.5]
ks.reshape(2, -1)[1]
ks.reshape(2, 3)[:, i[:2]]
ks.reshape(2, 3)[jnp.array([0, 1]), jnp.array([1, 2])]
ks.reshape(2, 3).T.ravel()
ks.at[0].set(one)
ks.at[i].set(one)
ks.at[i].set(ks[:3])
ks.at[1:3].set(ks[3:5])
ks.at[9].set(one)
ks.at[i].get(mode='clip')
ks.at[9].get(mode='fill')
ks.at[0].add(one)
ks.at[0].set(1)
jnp.stack([ks, ks], axis=1)
jnp.stack([one, one])
jnp.array([one, one])
jnp.asarray(ks)
jnp.concatenate([ks, ks[:1]])
jnp.where(m, ks, ks[::-1])
jnp.take(ks, i)
jnp.take_along_axis(ks, i % 6, axis=0)
jnp.repeat(ks, 2)
jnp.tile(ks, 2)
jnp.roll(ks, 1)
jnp.flip(ks)
jnp.broadcast_to(one, (2, 2))
jnp.expand_dims(ks, 1)
jnp.squeeze(ks[None])
jnp.swapaxes(ks.reshape(2, 3), 0, 1)
jnp.split(ks, 2)[1]
jnp.delete(ks, 1)
jnp.zeros(2, ks.dtype)
jnp.full((2,), 3, ks.dtype)
jnp.zeros_like(ks)
jnp.full((2,), one)
ks == ks[::-1]
ks != ks
jnp.sum(ks)
jnp.sort(ks)
ks + ks
ks.sum()
ks.astype(int)
bool(one)
len(ks)
len(one)
lib.jit(lambda k, p: k[p])(ks, i)
lib.jit(lambda k, p: k.at[p].set(k[0]))(ks, i)
lib.vmap(lambda p: ks[p])(i)
lib.vmap(lambda k, p: k[p])(ks.reshape(2, 3), i[:2])
lib.vmap(lambda k: lib.random.normal(k, (2,)))(ks)
lib.random.uniform(ks[2], (3,))
""".strip().splitlines()


def _operands(*lead: int) -> list[Any]:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((*lead, 3, 4)), rng.uniform(0.5, 2.0, (*lead, 3, 4))
    s = rng.standard_normal((*lead, 3, 3)) + 3 * np.eye(3)
    return [v.astype(np.float32) for v in (x, y, s)]


def _transformed(source: str, lib: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """name -> a transformation of an expression: a function of its operands and of batches."""
    jnp = lib.numpy

    def f(x: Any, y: Any, s: Any) -> Any:
        return eval(source, {"jnp": jnp, "x": x, "y": y, "s": s})

    def loss(*args: Any) -> Any:
        out = f(*args)
        return jnp.sum(out * jnp.cos(jnp.arange(out.size, dtype=out.dtype)).reshape(out.shape))

    gradient = lib.grad(loss, argnums=(0, 1, 2))
    return {
        "value": lambda one, many: f(*one),
        "jvp": lambda one, many: lib.jvp(f, tuple(one), tuple(jnp.sin(t) for t in one))[1],
        "grad": lambda one, many: gradient(*one),
        "vmap": lambda one, many: lib.vmap(f)(*many),
        "vmap of x": lambda one, many: lib.vmap(f, (0, None, None), -1)(many[0], *one[1:]),
        "vmap of grad": lambda one, many: lib.vmap(gradient)(*many),
    }


def transformed(source: str, lib: Any, jitted: bool) -> dict[str, Answer]:
    """The answers of all transformations of an expression; `jitted`: of one program."""
    one, many = ([lib.numpy.asarray(v) for v in _operands(*lead)] for lead in ((), (2,)))
    functions = _transformed(source, lib)
    if jitted:
        outs = lib.jit(lambda *args: {k: f(*args) for k, f in functions.items()})(one, many)
        return {f"{k} of {source}": answer(lambda k=k: outs[k]) for k in functions}
    return {f"{k} of {source}": answer(lambda f=f: f(one, many)) for k, f in functions.items()}


def wide(source: str, lib: Any) -> dict[str, Answer]:
    """The answer of an expression in 64 bits."""
    jnp = lib.numpy
    with lib.enable_x64(True):
        f = jnp.asarray([0.5, -1.25, 3.0, 0.1])
        i = jnp.asarray([3, -1, 2, 7])
        values = {"f": f, "g": f.astype("float32"), "i": i, "k": i.astype("int32"), "c": f + 1j}
        scope = {**values, "jnp": jnp, "np": np, "lib": lib}
        return {f"x64: {source}": answer(lambda: eval(source, scope))}


def of_keys(source: str, lib: Any) -> dict[str, Answer]:
    """The answer of an expression on keys: of keys, their words."""
    jnp = lib.numpy
    scope = {
        "ks": lib.random.split(lib.random.key(0), 6), "one": lib.random.key(9), "jnp": jnp,
        "i": jnp.array([0, 2, -1]), "m": np.array([1, 0, 1, 1, 0, 0], bool), "lib": lib,
    }  # fmt: skip

    def run() -> Any:
        out = eval(source, scope)
        is_key = jnp.issubdtype(getattr(out, "dtype", np.dtype(bool)), lib.dtypes.prng_key)
        return lib.random.key_data(out) if is_key else out

    return {f"keys: {source}": answer(run)}


@functools.cache
def recorded() -> dict[str, Answer]:
    """JAX's answers, by what was asked."""
    return read(ANSWERS)


def _wrong(answers: dict[str, Answer], **options: Any) -> str:
    return failures(((k, a, recorded()[k]) for k, a in answers.items()), **options)


def _joined(parts: Any) -> dict[str, Answer]:
    return {k: a for part in parts for k, a in part.items()}


def everything(lib: Any, part: slice) -> dict[str, Answer]:
    """The answers of a part of every table."""
    return _joined(
        [
            *(transformed(s, lib, True) for s in FUNCTIONS[part]),
            *(wide(s, lib) for s in WIDE[part]),
            *(of_keys(s, lib) for s in KEYS[part]),
        ]
    )


@pytest.mark.parametrize("start", range(0, len(FUNCTIONS), 12))
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_transformed(start: int, jitted: bool) -> None:
    sources = FUNCTIONS[start : start + 12]
    wrong = _wrong(
        _joined(transformed(s, ours, jitted) for s in sources), tolerance=1e-4, scaled=True
    )
    assert not wrong, wrong


def test_in_64_bits() -> None:
    wrong = _wrong(_joined(wide(s, ours) for s in WIDE), tolerance=1e-12)
    assert not wrong, wrong


def test_keys() -> None:
    wrong = _wrong(_joined(of_keys(s, ours) for s in KEYS))
    assert not wrong, wrong


def test_named_axes() -> None:
    """Reductions cross the elements of a `vmap` whose axis they name."""
    jnp, nn = ours.numpy, ours.nn
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for f in (jnp.sum, jnp.min, jnp.var, jnp.ptp, nn.logsumexp, nn.logmeanexp):
        for axis, whole in (("i", 0), ((-1, "i"), (0, 1))):
            got = ours.vmap(lambda r, f=f, a=axis: f(r, axis=a), axis_name="i", out_axes=None)(x)
            np.testing.assert_allclose(got, f(x, axis=whole), rtol=1e-5)
    for g in (nn.softmax, nn.log_softmax, nn.standardize):
        got = ours.vmap(lambda r, g=g: g(r, axis="i"), axis_name="i")(x)
        np.testing.assert_allclose(got, g(x, axis=0), rtol=1e-4, atol=1e-6)
    mask = x > 0
    got = ours.vmap(lambda r, m: jnp.sum(r, "i", where=m, initial=2, keepdims=True), axis_name="i")
    np.testing.assert_allclose(got(x, mask)[0], x.sum(0, where=mask, initial=2), rtol=1e-5)
    slope = ours.grad(lambda x: ours.vmap(lambda r: jnp.mean(r, "i") ** 2, axis_name="i")(x).sum())
    np.testing.assert_allclose(slope(x), np.broadcast_to(2 * x.mean(0), x.shape), rtol=1e-5)
    for f in (jnp.sum, jnp.max, jnp.mean):
        with pytest.raises(NameError, match="unbound axis name: i"):
            f(jnp.asarray(x), axis="i")
    for f in (jnp.prod, jnp.any, jnp.all):
        with pytest.raises(NotImplementedError, match="Named reductions"):
            ours.vmap(lambda r, f=f: f(r, axis="i"), axis_name="i")(x)


def test_fill_value_without_size() -> None:
    """Nothing is filled, but the value's dtype counts, and its shape is looked at."""
    jnp = ours.numpy
    x = jnp.array([[True, False], [True, True]])
    for value, dtype in ((1j, "complex64"), (np.int8(7), "int32")):
        for part in jnp.nonzero(x, fill_value=value):
            assert part.dtype == dtype and part.shape == (3,)
        assert jnp.where(x, size=5, fill_value=value)[0].dtype == dtype
    assert jnp.nonzero(x, size=0, fill_value=2.5)[0].dtype == "int32"
    mixed = jnp.argwhere(x, size=4, fill_value=(1, 2.5))
    assert mixed.dtype == "float32" and mixed[3].tolist() == [1, 2.5]
    for bad in (jnp.ones(3), [1, 2], (1,), (1, (2, 3))):
        for size in (None, 5):
            with pytest.raises(ValueError, match="fill_value must be a scalar or a tuple of"):
                jnp.nonzero(x, size=size, fill_value=bad)


def test_partitions_in_order() -> None:
    """The smallest in order; then the largest first, or their indices as they stand."""
    jnp = ours.numpy
    x = jnp.array([[3, 1, 2, 1, 5, 1], [9, 8, 7, 7, 7, 0]])
    assert jnp.partition(x, 2).tolist() == [[1, 1, 1, 5, 3, 2], [0, 7, 7, 9, 8, 7]]
    assert jnp.argpartition(x, 2).tolist() == [[1, 3, 5, 0, 2, 4], [5, 2, 3, 0, 1, 4]]
    assert (jnp.argpartition(x.T, -5, axis=0).T == jnp.argpartition(x, 1)).all()
    least = jnp.partition(jnp.array([-128, 127, 0, -127], "int8"), 1)
    assert least.tolist() == [-128, -127, 127, 0]


def test_values_of_no_meaning() -> None:
    jnp = ours.numpy
    x = jnp.array([1.0, np.nan])
    assert jnp.isclose(x, x, equal_nan=None).tolist() == [True, False]
    assert jnp.allclose(x, x, equal_nan="yes")
    for f in (jnp.matmul, jnp.dot, jnp.outer, jnp.tensordot, jnp.inner):
        with pytest.raises(TypeError, match="object"):
            f(np.array([None, None]), x)


def test_recorded_answers(fuzz_seed: int) -> None:
    """Some of the recorded answers are what JAX says today."""
    answers = everything(importlib.import_module("jax"), slice(fuzz_seed % 20, None, 20))
    wrong = _wrong(answers, tolerance=1e-4, scaled=True)
    assert not wrong, f"not what this JAX answers; --regenerate rewrites {ANSWERS.name}:\n{wrong}"


@pytest.fixture(scope="session", autouse=True)
def _regenerated(regenerate: bool) -> None:
    if regenerate:
        write(ANSWERS, everything(importlib.import_module("jax"), slice(None)))


def test_sequences_that_hold_traced_numbers() -> None:
    """Elements become arrays one after the other, for `x.at[i].set` too."""
    jnp = ours.numpy
    x = jnp.zeros((2, 3), int)
    put = lambda t: x.at[1].set([0, abs(t), t])
    assert ours.jit(put)(-5).tolist() == [[0, 0, 0], [0, 5, -5]]
    assert ours.vmap(put)(jnp.arange(2)).shape == (2, 2, 3)
    assert put(jnp.int32(-5)).tolist() == [[0, 0, 0], [0, 5, -5]]
    text = str(ours.make_jaxpr(lambda t: jnp.asarray([1, t]))(jnp.int32(2)))
    assert text.splitlines()[1].split("=")[1].strip() == "broadcast_in_dim 1:i32[]"
    t = jnp.int32(1)
    for ragged in (lambda t: [[1, t], 3], lambda t: [[1, t], [3]]):
        made = lambda t, ragged=ragged: jnp.array(ragged(t))
        for f in (made, ours.jit(made)):
            with pytest.raises(TypeError, match="Cannot concatenate arrays with"):
                f(t)
        with pytest.raises(ValueError, match="inhomogeneous"):
            jnp.array(ragged(1))
    with pytest.raises(TypeError, match="Value 'a' with dtype <U1 is not a valid"):
        ours.jit(lambda t: jnp.array([t, "a"]))(1)
    with pytest.raises(ValueError, match="None is not a valid value"):
        ours.jit(lambda t: jnp.array([t, None]))(1)


def test_powers_of_ten_in_64_bits() -> None:
    """log10 of 100 is 2, and the numbers between 1 and 100 are no 9.99 that becomes an int 9."""
    with ours.enable_x64(True):
        assert float(ours.numpy.log10(100.0)) == 2.0
        assert ours.numpy.geomspace(1, 100, 3, dtype="int64").tolist() == [1, 10, 100]
        assert ours.numpy.geomspace(1, 100, dtype="int8").tolist()[-1] == 100


jnp = ours.numpy
X = jnp.array([1.0, 0.0, 3.0])


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (lambda x: x[jnp.nonzero(x)].sum(), X, [1, 0, 1]),
        (lambda x: x[jnp.where(x)].prod(), X, [3, 0, 1]),
        (lambda x: x[jnp.argwhere(x)[:, 0]].sum(), X, [1, 0, 1]),
        (lambda x: x[jnp.flatnonzero(x)].sum(), X, [1, 0, 1]),
        (lambda x: jnp.trim_zeros(x).prod(), jnp.array([0.0, 2.0, 3.0]), [0, 3, 2]),
        (lambda x: jnp.roots(x)[0].real, jnp.array([0.0, 2.0, -6.0]), [0, -1.5, -0.5]),
        (
            lambda x: jnp.polymul(x, x, trim_leading_zeros=True).sum(),
            jnp.array([0.0, 1.0, 2.0]),
            [0, 6, 6],
        ),
        (lambda x: jnp.mgrid[0 : x[0]].sum() * x[1], jnp.array([3.0, 1.0]), [0, 3]),
        (lambda x: jnp.bartlett(x[0]).sum() * x[1], jnp.array([3.0, 1.0]), [0, 1]),
    ],
)
def test_sizes_that_depend_on_what_is_differentiated(f: Any, x: Any, slope: list[float]) -> None:
    """The value is known while its derivative is sought, unless it is also traced."""
    np.testing.assert_allclose(ours.grad(f)(x), slope, rtol=1e-5)
    np.testing.assert_allclose(ours.jvp(f, (x,), (jnp.ones_like(x),))[1], sum(slope), rtol=1e-5)
    with pytest.raises(ours.errors.ConcretizationTypeError):
        ours.jit(ours.grad(f))(x)
