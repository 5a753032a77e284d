"""`experimental.checkify` says what JAX's says: the same first failure, message and results."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pullback
from pullback.experimental import checkify

jax = pytest.importorskip("jax")


def namespace(package: str) -> SimpleNamespace:
    return SimpleNamespace(
        jax=importlib.import_module(package),
        np=importlib.import_module(f"{package}.numpy"),
        checkify=importlib.import_module(f"{package}.experimental.checkify"),
    )


OURS, THEIRS = namespace("pullback"), namespace("jax")
ENGINES = (OURS, THEIRS)


def positive(m: Any, x: Any) -> Any:
    m.checkify.check(x > 0, "x must be positive, got {x} and {}", x + 1, x=x)
    return x * 2


def scanned(m: Any, x: Any) -> Any:
    def body(c: Any, v: Any) -> Any:
        m.checkify.check(v < 3, "v too big: {}", v)
        return c + v, c

    return m.jax.lax.scan(body, 0, x)


def while_body(m: Any, n: Any) -> Any:
    def body(s: Any) -> Any:
        m.checkify.check(s[0] != 3, "hit {i}", i=s[0])
        return (s[0] + 1, s[1] * 2)

    return m.jax.lax.while_loop(lambda s: s[0] < n, body, (0, 1.0))


def while_cond(m: Any, n: Any) -> Any:
    def cond(s: Any) -> Any:
        m.checkify.check(s < 3, "cond {i}", i=s)
        return s < n

    return m.jax.lax.while_loop(cond, lambda s: s + 1, 0)


def two(m: Any, x: Any) -> Any:
    m.checkify.check(x > 0, "first")
    m.checkify.check(x > 1, "second {}", x)
    return x


def rethrown(m: Any, x: Any) -> Any:
    error, y = m.checkify.checkify(lambda x: positive(m, x))(x)
    m.checkify.check_error(error)
    return y


def debugged(m: Any, x: Any) -> Any:
    m.checkify.debug_check(x > 0, "dbg {}", x)
    return x


def branch(m: Any, x: Any, on: bool) -> Any:
    return m.jax.lax.cond((x < 0) == on, lambda x: positive(m, x), lambda x: x * 3, x)


F = np.float32
FIVE, GRID = np.arange(5), np.ones((3, 4), F)
CASES: dict[str, Any] = {
    "passes": ("user", positive, [1.0]),
    "fails": ("user", positive, [-1.0]),
    "first of two": ("user", two, [-0.5]),
    "second of two": ("user", two, [0.5]),
    "debug": ("user", debugged, [-1.0]),
    "inner jit": ("user", lambda m, x: m.jax.jit(lambda x: positive(m, x))(x), [-1.0]),
    "remat": ("user", lambda m, x: m.jax.checkpoint(lambda x: positive(m, x))(x), [-1.0]),
    "grad": ("user", lambda m, x: m.jax.grad(lambda x: positive(m, x))(x), [-1.0]),
    "vmap within": ("user", lambda m, x: m.jax.vmap(lambda x: positive(m, x))(x),
                    [np.array([1.0, -1, -2], F)]),
    "branch taken": ("user", lambda m, x: branch(m, x, True), [-1.0]),
    "branch not taken": ("user", lambda m, x: branch(m, x, False), [-1.0]),
    "scan": ("user", scanned, [np.arange(6)]),
    "scan passes": ("user", scanned, [np.arange(2)]),
    "while body": ("user", while_body, [6]),
    "while condition": ("user", while_cond, [6]),
    "while passes": ("user", while_body, [2]),
    "check_error": ("user", rethrown, [-1.0]),
    "nan": ("nan", lambda m, x: m.np.log(x), [-1.0]),
    "nan of sub": ("nan", lambda m, x: x - x, [np.inf]),
    "nan in cond": ("nan", lambda m, x: m.jax.lax.cond(x < 0, m.np.log, m.np.sin, x), [-1.0]),
    "no nan": ("nan", lambda m, x: x**-1.0, [0.0]),
    "division": ("div", lambda m, x, y: x / y, [1.0, 0.0]),
    "int division": ("div", lambda m, x, y: x // y, [np.ones(3, int), np.array([1, 0, 1])]),
    "both float checks": ("float", lambda m, x, y: x / y, [0.0, 0.0]),
    "division in a loop": ("div", lambda m, n: m.jax.lax.fori_loop(
        0, n, lambda i, c: c / (i - 2.0), 1.0), [5]),
    "derivative's division": ("float", lambda m, x: m.jax.grad(m.np.log)(x), [0.0]),
    "custom rule kept": ("div", lambda m, x: m.jax.nn.relu(x) / 0, [1.0]),
    "index": ("index", lambda m, x, i: x[i], [FIVE, 7]),
    "negative index": ("index", lambda m, x, i: x[i], [FIVE, -7]),
    "indices": ("index", lambda m, x, i: x[i, 0], [GRID, np.array([1, 5])]),
    "index passes": ("index", lambda m, x, i: x[i], [FIVE, 4]),
    "set": ("index", lambda m, x, i: x.at[i].set(0), [FIVE, 7]),
    "add": ("index", lambda m, x, i: x.at[i, 2].add(0), [GRID, 7]),
    "dynamic_slice": ("index", lambda m, x, i: m.jax.lax.dynamic_slice(x, (i,), (2,)), [FIVE, 4]),
    "dynamic_update_slice": ("index", lambda m, x, i: m.jax.lax.dynamic_update_slice(
        x, x[:2], (i,)), [FIVE, 4]),
    "take": ("index", lambda m, x, i: m.np.take(x, i), [FIVE, 9]),
    "everything": ("all", lambda m, x, i: m.np.sin(x[i]) / x[0], [np.zeros(3, F), 5]),
}  # fmt: skip


def outcome(m: Any, errors: str, f: Any, args: Any, wrap: Any) -> Any:
    checks = getattr(m.checkify, f"{errors}_checks")
    checked = wrap(m, m.checkify.checkify(lambda *xs: f(m, *xs), errors=checks))
    error, out = checked(*map(m.np.asarray, args))
    return error.get(), [np.asarray(x) for x in m.jax.tree.leaves(out)]


def compare(errors: str, f: Any, args: Any, wrap: Any) -> None:
    ours, theirs = (outcome(m, errors, f, args, wrap) for m in ENGINES)
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_as_jax(name: str) -> None:
    errors, f, args = CASES[name]
    compare(errors, f, args, lambda m, g: m.jax.jit(g))


@pytest.mark.parametrize("name", ["fails", "scan", "while body", "branch taken"])
def test_eager(name: str) -> None:
    errors, f, args = CASES[name]
    compare(errors, f, args, lambda m, g: g)


def test_a_batch_of_errors() -> None:
    xs = np.array([1.0, -1.0, -2.0], F)
    compare("user", positive, [xs], lambda m, g: m.jax.vmap(g))


def test_throw_and_exception() -> None:
    error, _ = checkify.checkify(lambda x: positive(OURS, x))(pullback.numpy.float32(-1))
    assert isinstance(error.get_exception(), checkify.ErrorCategory.__args__[0])
    with pytest.raises(checkify.JaxRuntimeError, match=r"must be positive, got -1\.0"):
        error.throw()
    assert checkify.init_error.get() is None
    checkify.init_error.throw()


def test_the_derivative_of_a_checked_function_keeps_custom_rules() -> None:
    """Real JAX fails here with an internal error."""

    @pullback.custom_jvp
    def f(x: Any) -> Any:
        return x * x

    f.defjvps(lambda t, y, x: 100.0 * t)

    def loss(x: Any) -> Any:
        return checkify.checkify(f, errors=checkify.all_checks)(x)[1]

    assert pullback.grad(loss)(2.0) == 100.0


def test_outside_of_checkify() -> None:
    one = pullback.numpy.float32(-1)
    with pytest.raises(checkify.JaxRuntimeError, match="must be positive"):
        positive(OURS, one)
    with pytest.raises(ValueError, match="was not functionalized"):
        pullback.jit(lambda x: positive(OURS, x))(1.0)
    debugged(OURS, one)


def test_bad_arguments() -> None:
    for args, text in [
        (("a", "b"), "scalar pred"),
        ((pullback.numpy.ones(3) > 0, "b"), "scalar pred"),
        ((True, 3), "str message"),
        ((True, "{}", "x"), "PyTrees of arrays"),
    ]:
        with pytest.raises(TypeError, match=text):
            checkify.check(*args)
    with pytest.raises(TypeError, match="takes a function"):
        checkify.checkify(3)
    with pytest.raises(TypeError, match="takes an Error"):
        checkify.check_error(3)
