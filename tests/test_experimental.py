"""experimental.ode and experimental.jet against known solutions, derivatives and JAX."""

from __future__ import annotations

import importlib
import math
from typing import Any

import jax
import jax.experimental.jet
import jax.extend.linear_util
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
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

    ga, gx, gt = pb.grad(end, (0, 1, 2))(2.0, 1.0, TIMES)
    step = 1e-5
    np.testing.assert_allclose(
        ga, (exact(2 + step, 0.3)[0][-1] - exact(2 - step, 0.3)[0][-1]) / (2 * step), rtol=1e-3
    )
    np.testing.assert_allclose(gt[-1], exact(2.0, 0.3)[1][-1], rtol=1e-3)
    base = pb.jvp(lambda x: x, (1.0,), (1.0,))[1] * gx
    longer = end(2.0, 1.01, TIMES) - end(2.0, 0.99, TIMES)
    np.testing.assert_allclose(base, longer / 0.02, rtol=1e-3)


def test_odeint_closes_over_values() -> None:
    def end(a: Any) -> Any:
        return ode.odeint(lambda y, t: -a * y, jnp.ones(()), TIMES)[-1]

    np.testing.assert_allclose(pb.grad(end)(1.0), -2 * np.exp(-2), rtol=1e-3)


def test_times_of_more_bits_than_values() -> None:
    with pb.enable_x64(True):
        start, times = np.float32(1), TIMES.astype(np.float64)
        out = pb.eval_shape(lambda: ode.odeint(lambda y, t: -y, start, times))
        assert (out.dtype, out.shape) == (np.float32, times.shape)


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


# Functions without a recurrence of their own, branches and loops, derivatives of their own: what
# real JAX's jet has no rules for. Compared with derivatives along the path, taken one by one.
JET_FUNCTIONS: dict[str, Any] = {
    "pow": lambda x: x**2.5 + x**x,
    "atan2": lambda x: jnp.arctan2(x, x**2 + 1) + jnp.arcsin(x),
    "lgamma": lambda x: pb.scipy.special.gammaln(x) + pb.scipy.special.erf(x),
    "roots": lambda x: jnp.sqrt(x) * jnp.cbrt(x) / lax.rsqrt(x) + x**-3,
    "self-made": lambda x: jnp.tan(x) + jnp.tanh(x) * pb.nn.sigmoid(x) + jnp.exp2(x),
    "logs": lambda x: jnp.log(x) * jnp.log1p(x) + jnp.expm1(x),
    "hyperbolic": lambda x: jnp.sinh(x) * jnp.cosh(x) + jnp.sin(x) * jnp.cos(x),
    "sorted": lambda x: jnp.sort(x) * x[0] + jnp.cumprod(x),
    "products": lambda x: jnp.outer(x, x) @ jnp.outer(x, 2 - x) @ x,
    "scan": lambda x: lax.scan(lambda c, y: (c * x + y, c * y), x, jnp.stack([x, x * 2])),
    "while": lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * jnp.sin(x)), (0, x)
    )[1],
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "jit": pb.jit(lambda x: (x[1], jnp.sin(x) * x, 3)),
    "softplus": lambda x: pb.nn.relu(x) * pb.nn.softplus(x),
    "remat": pb.checkpoint(lambda x: jnp.sin(x) * jnp.exp(x)),
    "complex": lambda x: jnp.exp(1j * x) / x,
    "solve": lambda x: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(2), x),
    "triangular": lambda x: [
        pb.scipy.linalg.solve_triangular(jnp.outer(x, 2 + x), x, **k)
        for k in ({}, {"lower": True, "trans": 1}, {"unit_diagonal": True})
    ],
    "right triangular": lambda x: lax.linalg.triangular_solve(
        jnp.outer(x, 2 + 1j * x), jnp.outer(x, x) + 0j, transpose_a=True, conjugate_a=True
    ),
    "factors": lambda x: jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(2)),
    "linear solve": lambda x: lax.custom_linear_solve(
        lambda y: x * y, x**2, lambda matvec, b: b / x + 0 * matvec(b), has_aux=False
    ),
}


def slope(f: Any) -> Any:
    return lambda t: pb.jvp(f, (t,), (1.0,))[1]


@pytest.mark.parametrize("name", JET_FUNCTIONS)
def test_jet_is_derivatives_along_the_path(name: str) -> None:
    f = JET_FUNCTIONS[name]
    with pb.enable_x64(True):
        x = np.array([0.5, 0.7])
        terms = [np.array([1.0, 2.0]), np.array([0.1, -0.2]), np.array([1.0, 0.0])]

        def along(t: Any) -> Any:
            return f(sum((c * t**k / math.factorial(k) for k, c in enumerate(terms, 1)), x))

        primal, series = jet.jet(f, (x,), (terms,))
        leaves, structure = pb.tree.flatten(primal)
        columns = structure.flatten_up_to(series)
        for y, want in zip(leaves, pb.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(y, want, rtol=1e-12)
        for k in range(3):
            along = slope(along)
            for column, want in zip(columns, pb.tree.leaves(along(0.0)), strict=True):
                if want.dtype != pb.dtypes.float0:
                    np.testing.assert_allclose(column[k], want, rtol=1e-9, atol=1e-9)


def test_the_cost_of_jet_is_polynomial() -> None:
    def size(order: int) -> int:
        f = lambda x: jet.jet(lambda x: pb.nn.softplus(jnp.tan(x) ** x), (x,), ([1.0] * order,))
        return len(pb.make_jaxpr(f)(0.5).eqns)

    assert size(12) < 8 * size(6)


def test_jet_of_functions_of_linear_util_is_jaxs() -> None:
    """Taylor coefficients, not derivatives, and zeros for results that do not move."""

    def answers(jet_: Any, lu: Any, tree_: Any, np_: Any, info: Any) -> Any:
        fun = lu.wrap_init(lambda x, y: [np_.sin(x) * y, x, np_.ones(2)], debug_info=info)
        one, series = np_.float32(1), [[2.0, 0.5], [1.0, 1.0]]
        series = [[np_.float32(t) for t in ts] for ts in series]
        found = [jet_.jet_fun(jet_.jet_subtrace(fun)).call_wrapped(2, [one, one], series)]
        found += [jet_.jet_fun(jet_.jet_subtrace(fun), 2).call_wrapped([one, one], series)]
        still = [jet_.zero_series, [one, jet_.zero_term]]
        found += [jet_.jet_fun(jet_.jet_subtrace(fun), 2).call_wrapped([one, one], still)]
        leaves, shape = tree_.flatten(([one, one], series))
        flat, out = jet_.traceable(jet_.jet_fun(jet_.jet_subtrace(fun), 2), shape)
        return [*found, flat.call_wrapped(*leaves), str(out())]

    info = jax.api_util.debug_info("jet", lambda x, y: x, (1.0, 1.0), {})
    theirs = (jax.experimental.jet, jax.extend.linear_util, jax.tree, jax.numpy, info)
    *got, shape = answers(jet, pb.extend.linear_util, pb.tree, jnp, None)
    *want, wanted_shape = answers(*theirs)
    assert shape == wanted_shape
    assert str(pb.tree.structure(got)) == str(jax.tree.structure(want))
    for x, y in zip(pb.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)


def test_jet_types_and_refusals() -> None:
    """Types of terms as JAX's: weak ones stay weak where nothing but linear maps meets them; what
    does not move has zeros of its own type.
    """

    def kinds(jet_: Any, np_: Any) -> list[tuple[Any, Any]]:
        one = np_.float32(1.5)
        fs: list[Any] = [
            lambda x: -x,
            np_.sin,
            np_.floor,
            lambda x: x > 0,
            lambda x: 3.0,
            lambda x: np_.ones(2),
            abs,
            lambda x: x.astype(np_.float16),
        ]
        terms = [jet_(f, (one,), ([1.0, 2.0],))[1] for f in fs]
        return [(t.dtype, t.weak_type, t.shape) for ts in terms for t in ts]

    assert kinds(jet.jet, jnp) == kinds(jax.experimental.jet.jet, jax.numpy)
    assert jet.jet(jnp.sin, (0.0,), ([],)) == (0.0, [])
    for three in (3, np.int32(3)):  # JAX's product refuses int32
        assert jet.jet(lambda x: x * 2, (three,), ([1.0],)) == (6.0, [2.0])
    whole: Any = ((np.arange(3, dtype=np.int8),), ([np.ones(3, np.float32)],))
    got, want = jet.jet(jnp.sin, *whole), jax.experimental.jet.jet(jax.numpy.sin, *whole)
    assert got[0].dtype == want[0].dtype and got[1][0].dtype == want[1][0].dtype
    np.testing.assert_allclose(got[1][0], want[1][0], rtol=1e-6)
    for call, kind in (
        (lambda: jet.jet(lambda x: x, (pb.random.key(3),), ([1.0],)), TypeError),
        (lambda: jet.jet(jnp.sin, (jnp.ones(2),), ([jnp.ones(3)],)), TypeError),
        (lambda: jet.jet(jnp.sin, (), ()), ValueError),
        (lambda: jet.jet(jnp.add, (1.0, 2.0), ([1.0], [1.0, 2.0])), ValueError),
        (lambda: jet.jet(lambda x: float(x), (1.0,), ([1.0],)), pb.errors.ConcretizationTypeError),
    ):
        with pytest.raises(kind):
            call()


def test_rules_of_jet_are_open() -> None:
    """Libraries give rules to primitives, and ask for those that are there."""
    x, terms = jnp.float32(0.3), [jnp.float32(1), jnp.float32(0), jnp.float32(0)]
    want = jet.jet2(jnp.tan, (x,), (terms,))
    got = jet.jet_rules[lax.tan_p]((x,), (terms,), accuracy=None)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
    assert lax.tan_p in jet.jet_rules
    for define in (
        lambda: jet.def_deriv(lax.exp_p, lax.exp),
        lambda: jet.def_comp(lax.exp_p, lambda x, **_: lax.tanh(x)),
        lambda: jet.jet_rules.update({lax.exp_p: lambda p, s, **_: (p[0], s[0])}),
    ):
        define()
        try:
            got = jet.jet2(lax.exp, (x,), (terms,))
        finally:
            del jet.jet_rules[lax.exp_p]
        assert len(got[1]) == 3
    assert float(got[1][0]) == 1.0  # the last rule: the identity


def test_values_without_state_have_no_type_of_it() -> None:
    """Under JAX's name for the fault; and types of a library's values print their class."""

    class Name(hijax.HiType):
        def __init__(self, text: str) -> None:
            self.text = text

    for x in (1.0, jnp.ones(2)):
        with pytest.raises(AttributeError, match="no attribute 'cur_qdd'"):
            cur_qdd(x)
    assert repr(Name("a")) == "Name(text=a)"


def test_jet_under_transformations() -> None:
    """Compiled, mapped, differentiated, and of itself: derivatives of the sine."""

    def third(x: Any) -> Any:
        return jet.jet(jnp.sin, (x,), ([1.0, 0.0, 0.0],))[1][2]

    x = np.array([0.3, 0.7], np.float32)
    np.testing.assert_allclose(pb.jit(third)(x[0]), -np.cos(x[0]), rtol=1e-5)
    np.testing.assert_allclose(pb.vmap(third)(x), -np.cos(x), rtol=1e-5)
    np.testing.assert_allclose(pb.grad(third)(x[0]), np.sin(x[0]), rtol=1e-5)
    fifth = jet.jet(third, (x[0],), ([1.0, 0.0],))[1][1]
    np.testing.assert_allclose(fifth, np.cos(x[0]), rtol=1e-5)

    def constant_of_a_program(x: Any) -> Any:
        scale = jnp.sum(x)
        return jet.jet(lambda y: pb.jit(lambda z: z * scale)(y) ** 2, (x,), ([1.0, 0.0],))[1][1]

    np.testing.assert_allclose(pb.jit(constant_of_a_program)(x), np.full(2, 2.0), rtol=1e-5)


def _placed(package: str) -> list[Any]:
    """What the modules about placement and notes give: the values, and the class of refusals."""
    place = importlib.import_module(f"{package}.experimental.compute_on")
    note = importlib.import_module(f"{package}.experimental.xla_metadata").set_xla_metadata
    alike = importlib.import_module(f"{package}.experimental.shard_alike").shard_alike
    np_ = importlib.import_module(f"{package}.numpy")
    lib = importlib.import_module(package)
    x, space = np_.arange(4.0), lib.memory.Space.Device

    @place.compute_on("device_host")
    @lib.jit
    def tripled(x: Any) -> Any:
        with note(part="a"), place.compute_on("gpu_stream:1"):
            return x * 3

    there = place.compute_on2(compute_type="device_host", out_memory_spaces=space)(np_.sin)
    out = [
        lib.jit(lambda x: tripled(x) + 1)(x),
        lib.grad(lambda x: note(there(tripled(x)), key=1).sum())(x),
        lib.vmap(there)(x),
        note((x, {"k": 1.0}), a="b"),
        note(a="b")(lambda x: x + 1)(x),
        lib.jit(alike)(x, x + 1),
        lib.grad(lambda x: sum(alike(x, x * 2)).sum())(x),
    ]
    found: list[Any] = [np.asarray(leaf) for leaf in lib.tree.leaves(out)]
    for wrong in (
        lambda: place.compute_on("nonsense").__enter__(),
        lambda: place.compute_on(3).__enter__(),
        lambda: place.compute_on2(np_.sin, compute_type="x", out_memory_spaces=space)(x),
        lambda: alike(x, x[:2]),
        lambda: alike((x, x), x),
    ):
        with pytest.raises((TypeError, ValueError)) as refused:
            wrong()
        found.append(refused.type)
    return found


def test_placement_and_notes_change_nothing() -> None:
    for ours, jaxs in zip(_placed("pullback"), _placed("jax"), strict=True):
        if isinstance(jaxs, type):
            assert ours is jaxs
        else:
            np.testing.assert_allclose(ours, jaxs, rtol=1e-6)
