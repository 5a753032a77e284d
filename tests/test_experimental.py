"""experimental.ode and experimental.jet against known solutions, derivatives and JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental.jet
import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback.experimental import cur_qdd, hijax, jet, ode

TIMES = np.linspace(0.0, 2.0, 4, dtype=np.float32)


def swing(y: Any, t: Any, a: Any, b: Any) -> Any:
    return {"x": y["v"], "v": -a * y["x"] - b * y["v"]}


START = {"x": np.float32(1), "v": np.float32(0.5)}


def exact(a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """The damped swing at the times."""
    m = np.array([[0, 1], [-a, -b]])
    values, vectors = np.linalg.eig(m)
    c = np.linalg.solve(vectors, np.array([1, 0.5]))
    out = (vectors @ (c[:, None] * np.exp(values[:, None] * TIMES))).real
    return out[0], out[1]


def test_odeint() -> None:
    y = ode.odeint(swing, START, TIMES, 2.0, 0.3)
    x, v = exact(2.0, 0.3)
    np.testing.assert_allclose(y["x"], x, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(y["v"], v, rtol=2e-5, atol=2e-6)


def test_gradient_of_odeint() -> None:
    def end(a: Any, x0: Any, t: Any) -> Any:
        return ode.odeint(swing, {**START, "x": x0}, t, a, 0.3)["x"][-1]

    ga, gx, gt = pullback.grad(end, (0, 1, 2))(2.0, 1.0, TIMES)
    step = 1e-5
    np.testing.assert_allclose(
        ga, (exact(2 + step, 0.3)[0][-1] - exact(2 - step, 0.3)[0][-1]) / (2 * step), rtol=1e-3
    )
    np.testing.assert_allclose(gt[-1], exact(2.0, 0.3)[1][-1], rtol=1e-3)
    base = pullback.jvp(lambda x: x, (1.0,), (1.0,))[1] * gx
    longer = end(2.0, 1.01, TIMES) - end(2.0, 0.99, TIMES)
    np.testing.assert_allclose(base, longer / 0.02, rtol=1e-3)


def test_odeint_closes_over_values() -> None:
    def end(a: Any) -> Any:
        return ode.odeint(lambda y, t: -a * y, jnp.ones(()), TIMES)[-1]

    np.testing.assert_allclose(pullback.grad(end)(1.0), -2 * np.exp(-2), rtol=1e-3)


@pytest.mark.parametrize(
    "call",
    (
        lambda: ode.odeint(lambda y, t: -y, 1.0, np.arange(3)),
        lambda: ode.odeint(lambda y, t: -y, 1, TIMES),
        lambda: ode.odeint(lambda y, t: -y, 1.0, np.float32(3)),
        lambda: ode.odeint(lambda y, t, a: -y, 1.0, TIMES, "a"),
    ),
)
def test_odeint_refuses(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_too_few_steps_give_nan() -> None:
    y = ode.odeint(lambda y, t: -50 * y, 1.0, TIMES, mxstep=2)
    assert y[0] == 1
    assert not np.isclose(y[-1], np.exp(-100), atol=1e-6)


@pytest.mark.parametrize("scaled", (True, False))
def test_jet(scaled: bool) -> None:
    def f(np_: Any, x: Any, y: Any) -> Any:
        return np_.sin(x * y) + np_.exp(x) / y

    primals = (np.float32(0.3), np.array([1.2, 2.0], np.float32))
    series = (
        [np.float32(1), np.float32(-0.5), np.float32(0.2)],
        [np.array([k, 1 - k], np.float32) for k in (0.5, 0.1, 2.0)],
    )
    want = jax.experimental.jet.jet(
        lambda x, y: f(jax.numpy, x, y), primals, series, factorial_scaled=scaled
    )
    got = jet.jet(lambda x, y: f(jnp, x, y), primals, series, factorial_scaled=scaled)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    for a, b in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    with pytest.raises(ValueError, match="series"):
        jet.jet(jnp.sin, (1.0,), ([1.0], [2.0]))


def test_values_without_state_have_no_type_of_it() -> None:
    """Under JAX's name for the fault; and types of a library's values print their class."""

    class Name(hijax.HiType):
        def __init__(self, text: str) -> None:
            self.text = text

    for x in (1.0, jnp.ones(2)):
        with pytest.raises(AttributeError, match="no attribute 'cur_qdd'"):
            cur_qdd(x)
    assert repr(Name("a")) == "Name(text=a)"
