"""Mesh axes of explicit type: what `typeof` says, arrays laid out anew, and functions that change
the types of axes; each as JAX has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.sharding
import numpy as np
import pytest

import pullback
import pullback.sharding

# What each gives, for a module, its mesh of explicit axes "x" and "y", and an array on both.
Case = Callable[[Any, Any, Any], Any]


def _conv(m: Any, x: Any) -> Any:
    batch = m.sharding.reshard(m.numpy.ones((2, 4, 8)), m.P("x"))
    return m.lax.conv(batch, m.numpy.ones((4, 4, 3)), (1,), "SAME")


def _auto(m: Any, x: Any) -> Any:
    seen: list[str] = []

    def f(v: Any) -> Any:
        seen.append(str(m.typeof(v)))
        return v * 2

    out = m.sharding.auto_axes(f, out_sharding=m.P("y"))(x)
    return [*seen, str(m.typeof(out))]


CASES: dict[str, Case] = {
    "put": lambda m, on, x: x,
    "elementwise": lambda m, on, x: m.numpy.sin(x) + 1,
    "sum": lambda m, on, x: x.sum(1),
    "transposed": lambda m, on, x: x.T,
    "joined": lambda m, on, x: x.reshape(8),
    "split": lambda m, on, x: x.reshape(2, 2, 2),
    "with ones": lambda m, on, x: x.reshape(4, 1, 2),
    "stacked": lambda m, on, x: m.numpy.stack([x, x]),
    "a mean over one axis": lambda m, on, x: x.mean(0),
    "convolved": lambda m, on, x: _conv(m, x),
    "resharded": lambda m, on, x: m.sharding.reshard(x, m.P(None, "x")),
    "resharded with a mesh": lambda m, on, x: m.sharding.reshard(x, m.NamedSharding(on, m.P("y"))),
    "a tree": lambda m, on, x: [
        str(m.typeof(v)) for v in m.sharding.reshard((x, x.T), (m.P("y"), m.P("x")))
    ],
    "keys": lambda m, on, x: (
        m.sharding.reshard(m.random.split(m.random.key(0), 4), m.P("x")).sharding.spec
    ),
    "of a compiled program": lambda m, on, x: m.jit(lambda v: m.sharding.reshard(v, m.P("y")) * 2)(
        x
    ),
    "a gradient": lambda m, on, x: m.grad(lambda v: m.sharding.reshard(v, m.P("y")).sum())(x).sum(),
    "vmapped": lambda m, on, x: m.vmap(lambda v: m.sharding.reshard(v, m.P("y")))(
        m.numpy.ones((3, 2))
    ),
    "a product": lambda m, on, x: (
        m.sharding.reshard(x, m.P("x")) @ m.sharding.reshard(x.T, m.P(None, "y"))
    ),
    "gathered": lambda m, on, x: x.at[m.numpy.array([0, 1])].get(out_sharding=m.P("x")),
    "repeated": lambda m, on, x: m.numpy.repeat(x, 2, axis=0),
    "repeated, flat": lambda m, on, x: m.jit(lambda v: m.numpy.repeat(v, 3))(x),
    "repeated by an array": lambda m, on, x: m.numpy.repeat(x, m.numpy.array([2]), axis=0),
    "repeated no times": lambda m, on, x: m.numpy.repeat(x, 0, axis=1),
    "repeated up to a length": lambda m, on, x: m.numpy.repeat(x, 2, axis=0, total_repeat_length=8),
    "eval_shape": lambda m, on, x: m.eval_shape(lambda v: v + 1, x).sharding.spec,
    "eval_shape of a reshard": lambda m, on, x: (
        m.jit(lambda: m.sharding.reshard(m.numpy.ones(4), m.P("x"))).eval_shape().sharding.spec
    ),
    "auto_axes": lambda m, on, x: _auto(m, x),
    "no sharding": lambda m, on, x: m.sharding.reshard(x, None),
    "no mesh axis": lambda m, on, x: m.sharding.reshard(x, m.P("z")),
    "no sharding for auto_axes": lambda m, on, x: m.sharding.auto_axes(lambda v: v)(x),
    "a sharding of one device": lambda m, on, x: m.sharding.reshard(
        x, m.sharding.SingleDeviceSharding(m.devices()[0])
    ),
    "unconstrained": lambda m, on, x: m.sharding.reshard(x, m.P(m.P.UNCONSTRAINED)),
}


def _outcome(case: Case, m: Any) -> Any:
    mesh = m.make_mesh((1, 1), ("x", "y"), devices=m.devices()[:1])
    with m.set_mesh(mesh):
        x = m.device_put(np.arange(8.0, dtype="f").reshape(4, 2), m.P("x", "y"))
        try:
            out = case(m, mesh, x)
        except Exception as e:
            return type(e).__name__
        return str(m.typeof(out)) if isinstance(out, m.Array) else str(out)


@pytest.mark.parametrize("name", CASES)
def test_types_say_how_arrays_lie(name: str) -> None:
    assert _outcome(CASES[name], pullback) == _outcome(CASES[name], jax)


def test_repeated_where_no_mesh_is_in_force() -> None:
    """One number leaves each part where it is; others say nothing of where the result lies."""

    def outcome(m: Any) -> Any:
        mesh = m.make_mesh((1,), ("x",), devices=m.devices()[:1])
        x = m.device_put(np.arange(8.0, dtype="f").reshape(4, 2), m.NamedSharding(mesh, m.P("x")))
        repeat = m.numpy.repeat
        for f in (
            lambda: repeat(x, 2, total_repeat_length=16),
            lambda: repeat(x, m.numpy.array([2])),
            lambda: repeat(x, np.array([1, 2, 0, 1]), axis=0),
            lambda: repeat(x, 0),
        ):
            with pytest.raises(ValueError, match="out_sharding"):
                f()
        out = [repeat(x, 2), repeat(x, 2, axis=0), repeat(x, 2, axis=1)]
        out += [m.jit(lambda v: repeat(v, 3, axis=0))(x)]
        return [str(m.typeof(v)) for v in out], [np.asarray(v).tolist() for v in out]

    assert outcome(pullback) == outcome(jax)


def test_explicit_axes_are_types_inside() -> None:
    def outcome(m: Any) -> Any:
        kinds = (m.sharding.AxisType.Auto,)
        seen: list[str] = []

        def f(v: Any) -> Any:
            seen.append(str(m.typeof(v)))
            return v * 2

        with m.set_mesh(m.make_mesh((1,), ("x",), kinds, devices=m.devices()[:1])):
            x = m.numpy.ones(4)
            out = m.sharding.explicit_axes(f, in_sharding=m.P("x"))(x)
            with pytest.raises(TypeError, match="in_sharding"):
                m.sharding.explicit_axes(f)(x)
            with pytest.raises(ValueError, match="Auto or Manual"):
                m.sharding.reshard(x, m.P("x"))
            return [*seen, str(m.typeof(out))]

    assert outcome(pullback) == outcome(jax)


def test_explicit_types_need_a_mesh_of_explicit_axes() -> None:
    """The axes' names and sizes alone were compared, eagerly and under jit."""
    for m in (pullback, jax):
        kinds = m.sharding.AxisType
        auto, explicit = (
            m.make_mesh((1,), ("x",), (kind,), devices=m.devices()[:1])
            for kind in (kinds.Auto, kinds.Explicit)
        )
        x = m.device_put(m.numpy.ones(4), m.NamedSharding(explicit, m.P("x")))
        with m.set_mesh(auto):
            for f in (lambda v: v * 1, m.numpy.sin, m.jit(lambda v: v * 2)):
                with pytest.raises(ValueError, match=r"context mesh .*Auto.* should match"):
                    f(x)
            assert m.jit(lambda v: v)(x).shape == (4,)
        with m.set_mesh(explicit):
            assert str(m.typeof(x * 1)) == "float32[4@x]"


def test_without_a_mesh_a_spec_says_nothing() -> None:
    with pytest.raises(ValueError, match="mesh context"):
        pullback.sharding.reshard(np.ones(3), pullback.P("x"))
    double = pullback.sharding.auto_axes(lambda x: x * 2, out_sharding=pullback.P("x"))
    assert double(2.0) == 4.0


def test_a_program_may_name_two_meshes() -> None:
    def outcome(m: Any) -> Any:
        kinds = (m.sharding.AxisType.Auto,)
        meshes = [m.make_mesh((1,), (name,), kinds, devices=m.devices()[:1]) for name in "ab"]

        def f(x: Any) -> Any:
            on = [m.NamedSharding(mesh, m.P(*mesh.axis_names)) for mesh in meshes]
            return [m.lax.with_sharding_constraint(x, sharding) for sharding in on]

        x = m.numpy.ones(4)
        return [np.asarray(v).sum() for v in m.jit(f)(x)], str(m.eval_shape(f, x))

    assert outcome(pullback) == outcome(jax)
