"""Costly operations that a program does twice are done once, but not behind barriers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax, numpy as jnp
from pullback.backends.reference import RULES
from pullback.loops import pipeline
from pullback.loops.plan import KernelStep
from pullback.runtime.executable import reference_rule

assert RULES
X = np.random.default_rng(5).normal(size=(40, 40)).astype(np.float32)


def steps(function, *arguments):
    """How many kernels of a function's program are run, by the names of their operations."""
    compiled = pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule)
    names = [compiled.kernels[s.kernel].name for s in compiled.steps if isinstance(s, KernelStep)]
    return [name.rstrip("0123456789") for name in names]


def identity_times(x):
    return jnp.eye(40, dtype=x.dtype) @ x


ONCE = {
    "products": lambda x: (jnp.exp(x @ x), (x @ x).sum()),
    "of equal operands": lambda x: (jnp.exp(identity_times(x)), identity_times(x) + 1),
    "beside a number": lambda x: (jnp.exp(x @ x), 2.0 - x @ x),
    "of literals": lambda x: (jnp.exp((2.0 * x) @ x), jnp.sin((2.0 * x) @ x)),
    "in a loop": lambda x: lax.scan(lambda c, _: (c @ x + jnp.tanh(c @ x), None), x, None, 3)[0],
}


@pytest.mark.parametrize("name", ONCE)
def test_products_are_computed_once(name):
    function = ONCE[name]
    found = steps(function, X)
    if name == "in a loop":
        text = str(pb.jit(function).lower(X).compile().as_text())
        assert text.count("call tile") <= 2  # whole panels, and the rest of the columns
    else:
        assert found.count("dot") == 1
    for got, want in zip(
        pb.tree.leaves(pb.jit(function)(X)), pb.tree.leaves(function(X)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_equal_calls_are_made_once():
    inner = pb.jit(lambda y: jnp.linalg.cholesky(y @ y.T + 99 * jnp.eye(40)))
    assert steps(lambda x: inner(x) + jnp.sin(inner(x)), X).count("cholesky") == 1


def test_what_differs_stays():
    assert steps(lambda x: (x @ x, x @ (-x), x.T @ x), X).count("dot") == 3
    zeros = lambda x: ((x * 0.0) @ x, (x * -0.0) @ x)  # equal numbers, other bits
    assert steps(zeros, X).count("dot") == 2
    low = lambda x: lax.dot_general(
        x, x, (((1,), (0,)), ((), ())), preferred_element_type=np.float64
    )
    with pb.enable_x64(True):
        assert steps(lambda x: (x @ x, low(x)), X).count("dot") == 2


def test_barriers_are_respected():
    behind = lambda x: jnp.sin(lax.optimization_barrier(x) @ x) + x @ x
    assert steps(behind, X).count("dot") == 2

    def loss(prevent_cse):
        block = pb.checkpoint(lambda x: jnp.sin(jnp.sin(x @ x) @ x), prevent_cse=prevent_cse)
        return pb.grad(lambda x: block(x).sum())

    # Forwards two products, of which one is computed again; four backwards.
    assert steps(loss(True), X).count("dot") >= 6


def test_numbers_and_calls_of_python_stay():
    seen = []

    def count(x):
        seen.append(1)
        return np.asarray(x)

    def called(x):
        shape = pb.ShapeDtypeStruct(x.shape, x.dtype)
        return pb.pure_callback(count, shape, x) @ x + pb.pure_callback(count, shape, x) @ x

    np.testing.assert_allclose(pb.jit(called)(X), 2 * X @ X, rtol=1e-4, atol=1e-4)
    assert len(seen) == 2


def test_matrix_exponentials_square_as_often_as_they_must():
    """One approximant's powers, and squarings that are left out where a matrix is small."""
    text = str(pb.make_jaxpr(pb.scipy.linalg.expm)(X))
    assert "cond[" in text
    assert text.count("dot_general[") <= 8


def test_in_several_calls() -> None:
    """A matrix is factored once for its determinant and for what is solved with it, and their
    gradients; other matrices of its type are factored themselves."""
    a = X[:20, :20] + 20 * np.eye(20, dtype=np.float32)

    def f(a, y):
        return y @ jnp.linalg.solve(a, y) + jnp.linalg.slogdet(a)[1]

    assert steps(f, a, a[0]).count("lu") == 1
    assert steps(pb.grad(f), a, a[0]).count("lu") == 1
    other = lambda a, y: jnp.linalg.solve(a, y).sum() + jnp.linalg.slogdet(2 * a)[1]
    assert steps(other, a, a[0]).count("lu") == 2
    d = a.astype(np.float64)
    expected = np.linalg.inv(d).T - np.outer(np.linalg.solve(d.T, d[0]), np.linalg.solve(d, d[0]))
    np.testing.assert_allclose(pb.jit(pb.grad(f))(a, a[0]), expected, rtol=1e-3, atol=1e-5)


def test_elements_that_are_picked_again() -> None:
    """Interpolation reads the left one of two neighbours three times; by one index."""
    f = pb.vmap(lambda y, x: jnp.interp(x, jnp.linspace(0, 1, 40), y), (0, None))
    x = np.linspace(-0.1, 1.1, 50, dtype=np.float32)
    compiled = pipeline.compile_jaxpr(pb.make_jaxpr(f)(X, x), reference_rule)
    picked = [s for s in compiled.slots if s.role == "temp" and s.dtype == "i32"]
    assert len(picked) <= 2
    want = [np.interp(x, np.linspace(0, 1, 40), row) for row in X]
    np.testing.assert_allclose(pb.jit(f)(X, x), want, atol=1e-4)
