"""The examples of seed 000: state made explicit, a linear regression, and how to think in JAX."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import jit, lax, make_jaxpr

from seedlib import jaxpr_equal, prints, refuses, shows

# --- Stateful computations ------------------------------------------------------------------------


class Counter:
    """A simple counter."""

    def __init__(self):
        self.n = 0

    def count(self) -> int:
        """Increments the counter and returns the new value."""
        self.n += 1
        return self.n

    def reset(self):
        """Resets the counter to zero."""
        self.n = 0


def test_counter(capsys):
    counter = Counter()
    for _ in range(3):
        print(counter.count())
    prints(capsys, "1 2 3")


def test_counter_jitted_counts_once(capsys):
    counter = Counter()
    counter.reset()
    fast_count = jax.jit(counter.count)
    for _ in range(3):
        print(fast_count())
    prints(capsys, "1 1 1")


class CounterV2:
    def count(self, n: int) -> tuple[int, int]:
        return n + 1, n + 1

    def reset(self) -> int:
        return 0


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.jit(f)], ids=["plain", "jit"])
def test_counter_with_explicit_state(capsys, transform):
    counter = CounterV2()
    state = counter.reset()
    count = transform(counter.count)
    for _ in range(3):
        value, state = count(state)
        print(value)
    prints(capsys, "1 2 3")


class Params(NamedTuple):
    weight: jnp.ndarray
    bias: jnp.ndarray


def init(rng) -> Params:
    """Returns the initial model params."""
    weights_key, bias_key = jax.random.split(rng)
    weight = jax.random.normal(weights_key, ())
    bias = jax.random.normal(bias_key, ())
    return Params(weight, bias)


def loss(params: Params, x: jnp.ndarray, y: jnp.ndarray) -> jnp.ndarray:
    """Computes the least squares error of the model's predictions on x against y."""
    pred = params.weight * x + params.bias
    return jnp.mean((pred - y) ** 2)


LEARNING_RATE = 0.005


@jax.jit
def update(params: Params, x: jnp.ndarray, y: jnp.ndarray) -> Params:
    """Performs one SGD update step on params using the given data."""
    grad = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda param, g: param - g * LEARNING_RATE, params, grad)


def regression():
    rng = jax.random.key(42)
    true_w, true_b = 2, -1
    x_rng, noise_rng = jax.random.split(rng)
    xs = jax.random.normal(x_rng, (128, 1))
    noise = jax.random.normal(noise_rng, (128, 1)) * 0.5
    ys = xs * true_w + true_b + noise
    params = init(rng)
    shows(
        params,
        "Params(weight=Array(0.07592554, dtype=float32), bias=Array(0.60576403, dtype=float32))",
    )
    for _ in range(1000):
        params = update(params, xs, ys)
    return params, xs, ys


def test_linear_regression():
    params, xs, ys = regression()
    np.testing.assert_allclose(params.weight, 1.9722791, rtol=1e-5)
    np.testing.assert_allclose(params.bias, -1.0331397, rtol=1e-5)
    np.testing.assert_allclose(loss(params, xs, ys), 0.21343815, rtol=1e-5)


def test_linear_regression_is_plotted():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    params, xs, ys = regression()
    figure, axes = pyplot.subplots()
    axes.scatter(xs, ys)
    (line,) = axes.plot(xs, params.weight * xs + params.bias, c="red", label="Model Prediction")
    axes.legend()
    assert np.asarray(line.get_ydata()).size == 128
    pyplot.close(figure)


def test_tree_map_at_the_top_is_gone():
    # The document shows a DeprecationWarning; the release of the oracle has removed the name.
    with refuses(AttributeError, "tree_map"):
        jax.tree_map  # noqa: B018


# --- JAX vs. NumPy --------------------------------------------------------------------------------


def test_same_code_for_both_namespaces():
    x_np = np.linspace(0, 10, 1000)
    y_np = 2 * np.sin(x_np) * np.cos(x_np)
    x_jnp = jnp.linspace(0, 10, 1000)
    y_jnp = 2 * jnp.sin(x_jnp) * jnp.cos(x_jnp)
    np.testing.assert_allclose(y_jnp, y_np, atol=2e-6)


def test_curve_is_plotted():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    x_jnp = jnp.linspace(0, 10, 1000)
    figure, axes = pyplot.subplots()
    (line,) = axes.plot(x_jnp, 2 * jnp.sin(x_jnp) * jnp.cos(x_jnp))
    assert np.asarray(line.get_ydata()).shape == (1000,)
    pyplot.close(figure)


def test_types_of_arrays():
    x_np, x_jnp = np.linspace(0, 10, 1000), jnp.linspace(0, 10, 1000)
    assert type(x_np) is np.ndarray
    # The class's own name is the implementation's; what a program may rely on is jax.Array.
    assert isinstance(x_jnp, jax.Array)
    assert not isinstance(x_jnp, np.ndarray)
    assert not isinstance(x_np, jax.Array)


def test_numpy_arrays_are_mutable(capsys):
    x = np.arange(10)
    x[0] = 10
    print(x)
    prints(capsys, "[10  1  2  3  4  5  6  7  8  9]")


def test_arrays_are_immutable():
    x = jnp.arange(10)
    with refuses(TypeError, "immutable", "item assignment", "x = x.at[idx].set(y)"):
        x[0] = 10


def test_index_update(capsys):
    x = jnp.arange(10)
    y = x.at[0].set(10)
    print(x)
    print(y)
    prints(capsys, "[0 1 2 3 4 5 6 7 8 9] [10  1  2  3  4  5  6  7  8  9]")


# --- NumPy, lax and what is below -----------------------------------------------------------------


def test_jnp_promotes():
    shows(jnp.add(1, 1.0), "Array(2., dtype=float32, weak_type=True)")


def test_lax_does_not_promote():
    with refuses(TypeError, "lax.add", "same dtypes", "int32", "float32"):
        lax.add(1, 1.0)


def test_lax_with_explicit_promotion():
    shows(lax.add(jnp.float32(1), 1.0), "Array(2., dtype=float32)")


CONVOLVED = "Array([1., 3., 4., 4., 4., 4., 4., 4., 4., 4., 3., 1.], dtype=float32)"


def test_convolve():
    x = jnp.array([1, 2, 1])
    y = jnp.ones(10)
    shows(jnp.convolve(x, y), CONVOLVED)


def test_conv_general_dilated():
    x = jnp.array([1, 2, 1])
    y = jnp.ones(10)
    result = lax.conv_general_dilated(
        x.reshape(1, 1, 3).astype(float),  # note: explicit promotion
        y.reshape(1, 1, 10),
        window_strides=(1,),
        padding=[(len(y) - 1, len(y) - 1)],  # equivalent of padding='full' in NumPy
    )
    shows(result[0, 0], CONVOLVED)


# --- To JIT or not to JIT -------------------------------------------------------------------------


def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def get_negatives(x):
    return x[x < 0]


@pytest.fixture
def stream():
    """The document's NumPy generator: one seed, then its draws in the order of their appearance."""
    random = np.random.RandomState(1701)
    X = random.rand(10000, 10)
    draws = {"X": X, "x10": random.randn(10)}
    draws["x"], draws["y"] = random.randn(3, 4), random.randn(4)
    draws["x2"], draws["y2"] = random.randn(3, 4), random.randn(4)
    return draws


def test_norm_compiled_equals_eager(stream):
    X = jnp.array(stream["X"])
    norm_compiled = jit(norm)
    assert np.allclose(norm(X), norm_compiled(X), atol=1e-6)
    norm(X).block_until_ready()
    norm_compiled(X).block_until_ready()


def test_get_negatives(stream):
    x = jnp.array(stream["x10"])
    shows(
        get_negatives(x),
        "Array([-0.10570311, -0.59403396, -0.8680282 , -0.23489487], dtype=float32)",
    )


def test_get_negatives_jitted(stream):
    x = jnp.array(stream["x10"])
    with refuses(jax.errors.NonConcreteBooleanIndexError, "boolean ind", "concrete", "bool[10]"):
        jit(get_negatives)(x)


# --- Tracing and static variables -----------------------------------------------------------------


def test_tracing_runs_the_prints_once(capsys, stream):
    @jit
    def f(x, y):
        print("Running f():")
        print(f"  x = {x}")
        print(f"  y = {y}")
        result = jnp.dot(x + 1, y + 1)
        print(f"  result = {result}")
        return result

    first = f(stream["x"], stream["y"])
    prints(
        capsys,
        "Running f(): x = JitTracer(float32[3,4]) y = JitTracer(float32[4]) "
        "result = JitTracer(float32[3])",
    )
    shows(first, "Array([0.25773212, 5.3623195, 5.403243], dtype=float32)")
    second = f(stream["x2"], stream["y2"])
    assert capsys.readouterr().out == ""
    shows(second, "Array([1.4344584, 4.3004413, 7.9897013], dtype=float32)")


def test_jaxpr(stream):
    def f(x, y):
        return jnp.dot(x + 1, y + 1)

    jaxpr_equal(
        make_jaxpr(f)(stream["x"], stream["y"]),
        """\
{ lambda ; a:f32[3,4] b:f32[4]. let
    c:f32[3,4] = add a 1.0:f32[]
    d:f32[4] = add b 1.0:f32[]
    e:f32[3] = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] c d
  in (e,) }""",
    )


def test_control_flow_on_a_tracer():
    @jit
    def f(x, neg):
        return -x if neg else x

    with refuses(
        jax.errors.TracerBoolConversionError, "boolean conversion", "bool[]", "argument neg"
    ):
        f(1, True)


def test_static_argument():
    @partial(jit, static_argnums=(1,))
    def f(x, neg):
        return -x if neg else x

    shows(f(1, True), "Array(-1, dtype=int32, weak_type=True)")
    shows(f(1, False), "Array(1, dtype=int32, weak_type=True)")


# --- Static versus traced operations --------------------------------------------------------------


def test_traced_shape():
    @jit
    def f(x):
        return x.reshape(jnp.array(x.shape).prod())

    x = jnp.ones((2, 3))
    with refuses(
        TypeError, "Shapes must be 1D sequences of concrete values of integer type", "int32[]"
    ):
        f(x)


def test_traced_shape_printed(capsys):
    @jit
    def f(x):
        print(f"x = {x}")
        print(f"x.shape = {x.shape}")
        print(f"jnp.array(x.shape).prod() = {jnp.array(x.shape).prod()}")

    assert f(jnp.ones((2, 3))) is None
    prints(
        capsys,
        "x = JitTracer(float32[2,3]) x.shape = (2, 3) "
        "jnp.array(x.shape).prod() = JitTracer(int32[])",
    )


def test_static_shape_through_numpy():
    @jit
    def f(x):
        return x.reshape((np.prod(x.shape),))

    shows(f(jnp.ones((2, 3))), "Array([1., 1., 1., 1., 1., 1.], dtype=float32)")
