"""Gradients of functions called again and again: the same as ever, while the function's Python runs
each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy
import numpy as np
import pytest

import pullback
from pullback import (
    checkpoint,
    checkpoint_policies,
    custom_jvp,
    custom_vjp,
    errors,
    grad,
    jit,
    lax,
    nn,
    numpy as jnp,
    value_and_grad,
    vmap,
)
from pullback.api import recording
from pullback.runtime import memory
from pullback.runtime.native import Native

native_only = pytest.mark.skipif(
    not isinstance(memory.engine, Native), reason="about the native path"
)
X = jnp.asarray(np.linspace(0.1, 1.5, 6, dtype=np.float32))
P = {"w": jnp.ones((6, 3)) * 0.1, "b": [jnp.zeros(3)]}
N = recording.SEEN + 3


@custom_jvp
def cube(x: Any) -> Any:
    return x**3


cube.defjvp(lambda primals, tangents: (cube(primals[0]), 7.0 * tangents[0]))


@custom_vjp
def halved(x: Any) -> Any:
    return x * 1.0


halved.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (0.5 * ct,))


def branch(x: Any) -> Any:
    return jnp.sum(x * x) if x[0] > 0.05 else jnp.sum(x)


def loop(x: Any) -> Any:
    total = x.sum()
    while total < 20:
        total = total * 2
    return total


saved = checkpoint(
    lambda x: jnp.sin(jnp.sin(x) @ jnp.outer(x, x)).sum(),
    policy=checkpoint_policies.dots_saveable,
)
again = checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())

FUNCTIONS: dict[str, Any] = {
    "three operations": lambda x: jnp.sum(jnp.sin(x) * x),
    "operators": lambda x: ((2.0 * x - 1) / (x + 3) + x**2 - -x).mean(),
    "powers": lambda x: (x**3).sum() + (2**x).sum() + (x**0.5).sum(),
    "indexing": lambda x: x[1] * x[2:4].sum() + x[jnp.array([0, 0])].prod(),
    "updates": lambda x: x.at[1].set(2.0).at[0].add(x[2]).sum(),
    "lists": lambda x: jnp.concatenate([x, x * 2, jnp.ones(2)]).sum() * jnp.stack([x, x]).max(),
    "matrix": lambda x: (jnp.outer(x, x) @ x).sum(),
    "arrays first": lambda x: (X * x + (X @ x) + (3 - x)).sum(),
    "activations": lambda x: nn.relu(x).sum() + nn.softmax(x)[0] + nn.gelu(x).mean(),
    "jitted": lambda x: jit(lambda y: jnp.tanh(y).sum())(x) * 2,
    "lax": lambda x: lax.mul(lax.exp(x), x).sum(),
    "stop_gradient": lambda x: (lax.stop_gradient(x) * x).sum(),
    "branch": branch,
    "loop": loop,
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c), 1.0, x)[0],
    "cond": lambda x: lax.cond(x[0] > 0, lambda y: y.sum(), lambda y: y.max(), x),
    "custom jvp": lambda x: cube(x).sum() * x[0],
    "custom vjp": lambda x: halved(x).sum() * x[0],
    "checkpoint": lambda x: again(x) * x[0],
    "checkpoint with a policy": lambda x: saved(x * 2),
    "checkpoint made anew": lambda x: checkpoint(lambda y: jnp.cos(y).sum())(x),
    # First of all, on arrays that nothing is differentiated by.
    "custom jvp of a constant": lambda x: (cube(jnp.ones(6)) * x).sum(),
    "custom vjp of a constant": lambda x: (halved(jnp.ones(6)) * x).sum(),
    "activation of a constant": lambda x: (nn.relu(jnp.ones(6)) * x).sum(),
    "inner gradient": lambda x: grad(lambda y: (y**3).sum())(x).sum() + x.sum(),
    "inner vmap": lambda x: vmap(lambda y: y * y)(x).sum(),
    "where": lambda x: jnp.where(x > 0.5, x, 0.0).sum(),
    "shape": lambda x: x.sum() * x.shape[0] + len(x) * x.ndim,
    "identity": lambda x: x[0],
    "unused": lambda x: jnp.sum(jnp.ones(3)) + 0 * x[0],
    "both parts": lambda x: sum(jnp.split(x, 2)).sum(),
    "repr": lambda x: jnp.sum(x * len(repr(x)[:5])),
    "numpy": lambda x: jnp.dot(x, np.ones(6, np.float32)) + np.float32(2) * x[0],
    "T and reshape": lambda x: (x.reshape(2, 3).T @ jnp.ones(2)).sum(),
    "iteration": lambda x: sum(y * k for k, y in enumerate(x)),
    "integer branch": lambda x: x[int(jnp.argmax(x))] * 2,
}


def as_ever(f: Any, *args: Any) -> Any:
    """Value and gradient without recording."""
    with mock.patch.object(recording, "start", lambda: None):
        return value_and_grad(f)(*args)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_same(name: str) -> None:
    f = FUNCTIONS[name]
    value, gradient = as_ever(f, X)
    both = value_and_grad(f)
    for _ in range(N):
        v, g = both(X)
        np.testing.assert_allclose(v, value, rtol=1e-5)
        np.testing.assert_allclose(g, gradient, rtol=1e-5, atol=1e-6)
        assert v.aval == value.aval and g.aval == gradient.aval
    np.testing.assert_allclose(grad(f)(X), gradient, rtol=1e-5, atol=1e-6)


def test_other_values_other_results() -> None:
    """What was compiled serves other values: arguments, captured arrays and numbers."""
    for k in range(2 * N):
        x, c = X + k, jnp.float32(k)
        g = grad(lambda x: jnp.sum(x * x * c) + k * x[0])(x)  # noqa: B023
        np.testing.assert_allclose(g, 2 * np.asarray(x) * k + k * np.eye(6)[0], rtol=1e-6)


def test_side_effects_happen_each_time() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return jnp.sum(x * len(calls))

    g = grad(f)
    for k in range(1, 2 * N):
        np.testing.assert_allclose(g(X), np.full(6, k))
    assert len(calls) == 2 * N - 1
    for kept in (calls[0], calls[-1]):
        with pytest.raises(errors.UnexpectedTracerError):
            jnp.sin(kept) + 1


def test_trees_and_argnums() -> None:
    def loss(p: Any, x: Any, scale: float = 1.0) -> Any:
        return jnp.mean((jnp.tanh(x @ p["w"] + p["b"][0]) - 1.0) ** 2) * scale

    x = jnp.ones((4, 6))
    for numbers in (0, 1, (0, 1), (1, 0), -1, (0,)):
        with pullback.check_tracer_leaks(True):
            want = grad(loss, numbers)(P, x, scale=2.0)
        for _ in range(N):
            got = grad(loss, numbers)(P, x, scale=2.0)
            assert pullback.tree.structure(got) == pullback.tree.structure(want)
            for a, b in zip(pullback.tree.leaves(got), pullback.tree.leaves(want), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_errors_are_the_same() -> None:
    for f, kind, text in (
        (lambda x: x, TypeError, "scalar-output"),
        (lambda x: jnp.sum(x).astype(int), TypeError, "real-valued outputs"),
        (lambda x: jnp.dot(x, jnp.ones(4)), TypeError, "dot"),
        (lambda x: "text", TypeError, "valid JAX type"),
        (lambda x: (x.sum(), 2), TypeError, "scalar-output"),
        (lambda x: 1 / 0, ZeroDivisionError, "division"),
    ):  # fmt: skip
        for _ in range(N):
            with pytest.raises(kind, match=text):
                grad(f)(X)
    with pytest.raises(TypeError, match="inexact"):
        grad(lambda x: x.sum())(jnp.arange(3))
    with pytest.raises(TypeError, match="argnums"):
        grad(lambda x: x.sum(), 3)(X)
    assert jnp.sum(X) > 0  # nothing was left in the context


def test_flags_are_obeyed() -> None:
    f = grad(lambda x: jnp.sum(jnp.log(x)))
    for _ in range(N):
        assert np.isinf(f(jnp.zeros(2))).all()
    with pullback.debug_nans(True), pytest.raises(FloatingPointError):
        grad(lambda x: jnp.sum(jnp.sqrt(x)))(-X)
    with pullback.enable_x64(True):
        assert f(jnp.ones(2)).dtype == np.float64


def test_under_transformations() -> None:
    """Recording is for plain calls; under jit, vmap and another gradient it does not take place."""
    f = FUNCTIONS["three operations"]
    want = grad(f)(X)
    for _ in range(N):
        np.testing.assert_allclose(jit(grad(f))(X), want, rtol=1e-6)
        np.testing.assert_allclose(vmap(grad(f))(jnp.stack([X, X]))[1], want, rtol=1e-6)
        second = grad(lambda x: grad(f)(x).sum())(X)
        expected = 2 * np.cos(np.asarray(X)) - np.asarray(X) * np.sin(np.asarray(X))
        np.testing.assert_allclose(second, expected, rtol=1e-4, atol=1e-6)


@native_only
@pytest.mark.parametrize("name", ["three operations", "checkpoint"])
def test_repeated_gradients_are_fast(name: str) -> None:
    """No operation is done by Python: far below what one traced operation takes."""
    g = grad(FUNCTIONS[name])
    for _ in range(2 * N):
        g(X)
    best = min(_seconds(g) for _ in range(20))
    assert best < 200e-6, best  # 15 us on an idle machine


def _seconds(g: Any) -> float:
    start = time.thread_time()
    for _ in range(20):
        g(X)
    return (time.thread_time() - start) / 20


def test_threads_record_apart() -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        g = grad(lambda x: jnp.sum(x * k) + jnp.sum(jnp.exp(x) * 0))
        for _ in range(30):
            if not np.allclose(g(X), k):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


BY_VALUES: dict[str, Any] = {
    "mask": lambda np_, x: x[x > 0].sum(),
    "where": lambda np_, x: x[np_.where(x > 0)].prod(),
    "nonzero": lambda np_, x: x[np_.nonzero(x > 0)[0]].sum(),
    "argwhere": lambda np_, x: x[np_.argwhere(x > 0)].sum(),
    "extract": lambda np_, x: (np_.extract(x > 0, x) ** 2).sum(),
    "compress": lambda np_, x: np_.compress(x > 0, x).sum(),
    "slice": lambda np_, x: x[: (x > 0).sum()].sum(),
    "arange": lambda np_, x: (np_.arange((x > 0).sum()) * x[0]).sum(),
    "shape": lambda np_, x: (np_.ones((x > 0).sum()) * x[0]).sum(),
    "reshape": lambda np_, x: (x.reshape((x > -9).sum(), 1) ** 2).sum(),
    "repeat": lambda np_, x: np_.repeat(x, (x > 0).astype(int)).sum(),
    "delete": lambda np_, x: np_.delete(x, x > 0).sum(),
    "split": lambda np_, x: np_.split(x, np_.array([(x > 0).sum()]))[0].sum(),
    "format": lambda np_, x: x.sum() * int(f"{(x > 0).sum():d}"),
    "two masks": lambda np_, x: (x[x > 0] * 2).sum() + np_.sin(x[x <= 0]).sum(),
}


@pytest.mark.parametrize("name", list(BY_VALUES))
def test_sizes_that_depend_on_values(name: str) -> None:
    """Of what has no derivative the values are there, outside of jit: as in JAX."""
    fun = BY_VALUES[name]
    for x in np.float32([[1, -2, 3, 0.5], [1, 2, -3, 0.5], [4, 1, 2, 3]]):
        want = jax.value_and_grad(lambda y: fun(jax.numpy, y))(jax.numpy.asarray(x))
        got = pullback.value_and_grad(lambda y: fun(jnp, y))(jnp.asarray(x))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


TWO: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: jnp.sum(x * y),
    "sum": lambda x, y: jnp.sum(x + y),
    "sine": lambda x, y: jnp.sum(jnp.sin(x) + y),
    "reversed": lambda x, y: jnp.sum(x[::-1] * y),
    "jitted": lambda x, y: jnp.sum(squares_and(x, y)),
}
squares_and = jit(lambda x, y: x * x + y)


@pytest.mark.parametrize("name", TWO)
def test_gradients_lie_the_same_at_every_call(name: str) -> None:
    """Where they follow from what was put somewhere, they are there too; jitted they all are."""
    free = jnp.arange(3.0)
    put = pullback.device_put(free, pullback.devices()[0])
    for args in ((put, free), (free, put), (free, free)):
        first = None
        for _ in range(N):
            value, slopes = value_and_grad(TWO[name], (0, 1))(*args)
            lie = [value.committed, *(d.committed for d in slopes)]
            first = first or lie
            assert lie == first
        assert first is not None and first[0] == any(x is put for x in args)


SETS: dict[str, Callable[..., Any]] = {
    "unique": lambda np_, x: np_.unique(x).sum() + x[0],
    "unique with inverse": lambda np_, x: (np_.unique(x, return_inverse=True)[0] ** 2).sum(),
    "union1d": lambda np_, x: np_.union1d(x, x[:1]).sum() * x[1],
    "intersect1d": lambda np_, x: np_.intersect1d(x, x).sum(),
    "setdiff1d": lambda np_, x: np_.setdiff1d(x, x[:1]).sum(),
    "setxor1d": lambda np_, x: np_.setxor1d(x, x[1:2]).sum(),
}


@pytest.mark.parametrize("name", SETS)
def test_sets_of_values_that_are_differentiated(name: str) -> None:
    """What is distinct jumps: its derivative is zero, as in JAX."""
    x = np.array([1.0, 2.0, 1.0], np.float32)
    f = SETS[name]
    wanted = jax.grad(lambda x: f(jax.numpy, x))(x)
    for _ in range(2):
        np.testing.assert_array_equal(pullback.grad(lambda x: f(pullback.numpy, x))(x), wanted)
    _, slope = pullback.jvp(lambda x: f(pullback.numpy, x), (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(slope, wanted.sum())
