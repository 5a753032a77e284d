"""custom_vmap, sequential_vmap and linear_call beside real JAX, and where JAX has no rule."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import custom_batching as jax_batching, custom_derivatives as jax_derivatives

import pullback as pb
import pullback.numpy as pnp
from pullback import custom_batching, custom_derivatives

BOTH = [
    (jax, jnp, jax_batching, jax_derivatives),
    (pb, pnp, custom_batching, custom_derivatives),
]


def marked(n: Any, b: Any) -> Any:
    """A function whose batches are told from its single values: by 100 an element."""

    @b.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return {"a": n.sin(x) * y, "b": y}

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        xb, yb = in_batched
        return {"a": n.sin(x) * y + 100 * axis_size, "b": y}, {"a": xb or yb, "b": yb}

    return f


def call(j: Any, d: Any) -> Any:
    """A linear function whose transpose is told from the true one by a factor of 1.5."""
    return lambda r, x: d.linear_call(lambda r, x: r * x * 2, lambda r, ct: r * ct * 3, r, x)


def cosines(n: Any, b: Any) -> Any:
    """A sine whose rule is another function's."""
    f = b.custom_vmap(lambda x: n.sin(x))
    f.def_vmap(lambda size, in_batched, x: (n.cos(x), in_batched[0]))
    return f


PROGRAMS: dict[str, Callable[..., Any]] = {
    "plain": lambda j, n, b, d, x: [marked(n, b)(1.0, 2.0), j.jit(marked(n, b))(1.0, 2.0)],
    "vmap": lambda j, n, b, d, x: [
        j.vmap(marked(n, b))(x, x),
        j.vmap(marked(n, b), in_axes=(0, None))(x, 2.0),
        j.jit(j.vmap(marked(n, b), in_axes=(None, 0)))(2.0, x),
        j.vmap(j.jit(marked(n, b)))(x, x),
    ],
    "keywords": lambda j, n, b, d, x: marked(n, b)(y=1.0, x=2.0),
    "jvp": lambda j, n, b, d, x: [
        j.jvp(lambda x: marked(n, b)(x, 2.0)["a"], (1.0,), (1.0,)),
        j.vmap(lambda x: j.jvp(lambda x: marked(n, b)(x, 2.0)["a"], (x,), (1.0,)))(x),
        j.jvp(j.vmap(lambda x: marked(n, b)(x, 2.0)["a"]), (x,), (x,)),
    ],
    "tangents that are mapped alone": lambda j, n, b, d, x: [
        j.jacfwd(cosines(n, b))(x),
        j.vmap(j.jacfwd(cosines(n, b)))(n.stack([x, x + 1])),
        j.vmap(lambda x, t: j.jvp(marked(n, b), (x, 2.0), (1.0, t)))(x, x + 1),
        j.vmap(lambda t: j.jvp(lambda y: marked(n, b)(3.0, y), (2.0,), (t,)))(x),
    ],
    "grad of vmap": lambda j, n, b, d, x: j.grad(
        lambda x: j.vmap(lambda x: marked(n, b)(x, 2.0)["a"])(x).sum())(x),
    "scan in vmap": lambda j, n, b, d, x: j.vmap(lambda x: j.lax.scan(
        lambda c, _: (marked(n, b)(c, 2.0)["a"], None), x, None, length=2)[0])(x),
    "sequential": lambda j, n, b, d, x: [
        j.vmap(b.sequential_vmap(lambda x, y: n.sin(x) * y))(x, x),
        j.jit(j.vmap(b.sequential_vmap(lambda x, y: n.sin(x) * y), in_axes=(0, None)))(x, 2.0),
        j.vmap(j.vmap(b.sequential_vmap(lambda x: n.sin(x))))(n.ones((2, 3))),
    ],
    "linear_call": lambda j, n, b, d, x: [
        call(j, d)(3.0, 4.0),
        j.jit(call(j, d))(3.0, 4.0),
        j.grad(call(j, d), 1)(3.0, 4.0),
        j.grad(j.jit(call(j, d)), 1)(3.0, 4.0),
        j.jvp(lambda x: call(j, d)(3.0, x), (4.0,), (1.0,)),
    ],
    "transposed twice": lambda j, n, b, d, x: j.linear_transpose(
        j.linear_transpose(lambda x: call(j, d)(3.0, x), 4.0), 1.0)((1.0,)),
    "linear_call of trees": lambda j, n, b, d, x: j.grad(lambda t: d.linear_call(
        lambda r, x: {"o": x["a"] + r * x["b"]},
        lambda r, ct: {"a": ct["o"], "b": r * ct["o"] * 10}, 2.0, t)["o"])({"a": 1.0, "b": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name: str) -> None:
    expected, got = (PROGRAMS[name](*side, side[1].arange(3.0)) for side in BOTH)
    leaves = pb.tree.leaves(got)
    for a, b in zip(jax.tree.leaves(expected), leaves, strict=True):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=1e-6, atol=1e-6)


def test_reverse_mode_through_custom_vmap() -> None:
    """JAX has no reverse mode here."""
    f = marked(pnp, custom_batching)
    x = pnp.arange(3.0)
    want = 2 * np.cos(np.arange(3.0))
    np.testing.assert_allclose(pb.vmap(pb.grad(lambda x: f(x, 2.0)["a"]))(x), want, rtol=1e-6)
    s = custom_batching.sequential_vmap(lambda x, y: pnp.sin(x) * y)
    got = pb.grad(lambda x: pb.vmap(s, in_axes=(0, None))(x, 2.0).sum())(x)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_batches_of_linear_calls() -> None:
    """JAX has no batching rule here, and no derivative with respect to residuals."""
    f, x = call(pb, custom_derivatives), pnp.arange(3.0)
    assert pb.vmap(f, in_axes=(0, None))(x, 2.0).tolist() == [0, 4, 8]
    assert pb.vmap(pb.grad(f, 1))(x, x).tolist() == [0, 3, 6]
    assert pb.vmap(pb.grad(f, 1), in_axes=(None, 0))(2.0, x).tolist() == [6, 6, 6]
    assert pb.jit(pb.grad(lambda x: pb.vmap(f, in_axes=(None, 0))(2.0, x).sum()))(x).tolist() == [
        6, 6, 6
    ]  # fmt: skip
    assert float(pb.grad(f, 0)(3.0, 4.0)) == 8


def ruled(b: Any, rule: Any) -> Any:
    h = b.custom_vmap(lambda x: x)
    h.def_vmap(rule)
    return h


@pytest.mark.parametrize(
    "error, match, program",
    [
        (AttributeError, "No batching rule", lambda j, n, b, d: b.custom_vmap(lambda x: x)(1.0)),
        (
            ValueError,
            "do not match",
            lambda j, n, b, d: j.vmap(ruled(b, lambda n, b, x: (x, (True,))))(n.ones(3)),
        ),
        (
            ValueError,
            "that of original custom-vmapped function",
            lambda j, n, b, d: j.vmap(ruled(b, lambda n, b, x: ((x, x), (True, True))))(n.ones(3)),
        ),
        (
            TypeError,
            "pytree structure must match",
            lambda j, n, b, d: j.grad(
                lambda x: d.linear_call(lambda r, x: x, lambda r, ct: (ct, ct), 2.0, x)
            )(1.0),
        ),
        (
            ValueError,
            "cotangent",
            lambda j, n, b, d: j.grad(
                lambda x: d.linear_call(lambda r, x: x, lambda r, ct: n.ones(3), 2.0, x)
            )(1.0),
        ),
    ],
)
def test_errors(error: type[BaseException], match: str, program: Callable[..., Any]) -> None:
    for side in BOTH:
        with pytest.raises(error, match=match):
            program(*side)


# --- types that say how they are mapped ---
class Named:
    """An array whose axes have names."""

    def __init__(self, names: Any, array: Any) -> None:
        self.names, self.array = tuple(names), array


class Axis:
    """Mapped over the axis of that name."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_vmap_uses_what_is_registered() -> None:
    seen: dict[Any, list[Any]] = {}
    results = []
    for lib in (pb, jax):
        batching = importlib.import_module(f"{lib.__name__}.interpreters.batching")
        calls = seen.setdefault(lib.__name__, [])

        def to_elt(part: Any, index: Any, x: Any, axis: Any, calls: Any = calls) -> Any:
            at = x.names.index(axis.name)
            calls.append(("to", axis.name, index().shape))
            return Named(x.names[:at] + x.names[at + 1 :], part(x.array, at))

        def from_elt(stacked: Any, size: int, x: Any, axis: Any, calls: Any = calls) -> Any:
            calls.append(("from", axis.name, size))
            return Named((axis.name, *x.names), stacked(size, x.array, 0))

        def f(x: Any, y: Any, calls: Any = calls) -> Any:
            calls.append((x.names, x.array.shape))
            return Named(x.names, x.array * y), y

        iota = lib.numpy.arange
        batching.register_vmappable(Named, Axis, int, to_elt, from_elt, iota)
        try:
            x = Named("ab", lib.numpy.arange(6.0).reshape(2, 3))
            out, y = lib.vmap(f, (Axis("b"), 0), (Axis("z"), 0))(x, lib.numpy.arange(3.0))
            whole, _ = lib.vmap(lambda x: f(x, 2.0), Axis("a"), (Axis("a"), None), axis_size=2)(x)
            results.append((out.names, np.asarray(out.array), y, whole.names, whole.array))
            with pytest.raises(ValueError, match="axis spec"):
                lib.vmap(lambda y: y, 0, Axis("a"))(lib.numpy.arange(3.0))
            with pytest.raises(ValueError, match="axis_size must be specified"):
                lib.vmap(lambda x: f(x, 2.0), Axis("a"), Axis("a"))(x)
        finally:
            batching.unregister_vmappable(Named)
    assert seen["pullback"] == seen["jax"]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_types_registered_with_ints_leave_axes_of_arrays_alone() -> None:
    batching = pb.interpreters.batching

    class Signal:
        def __init__(self, samples: Any) -> None:
            self.samples = samples

    batching.register_vmappable(
        Signal,
        int,
        int,
        lambda handler, x, spec: handler(x.samples, spec),
        lambda handler, n, x, spec: Signal(handler(n, x, spec)),
        None,
    )
    try:
        x = pb.numpy.arange(6.0).reshape(2, 3)
        got = pb.vmap(lambda r: r * r.sum(), 0, 1)(x)
        np.testing.assert_array_equal(got, (x * x.sum(1, keepdims=True)).T)
    finally:
        batching.unregister_vmappable(Signal)


def test_wrappers_pass_on_what_gives_rules() -> None:
    """A rule can be given through another wrapper, as `functools.wraps` chains are written."""
    names = ("defjvp", "defjvps", "defvjp", "def_vmap")
    found = []
    for lib, _, batching, _ in BOTH:
        v, j, m = lib.custom_vjp, lib.custom_jvp, batching.custom_vmap
        f = lambda x: x * 2.0
        forms = (v(f), v(j(f)), j(v(f)), m(v(f)), m(j(v(f))), v(m(f)), v(lib.jit(m(f))), v(v(f)))
        found.append([[n for n in names if hasattr(g, n)] for g in forms])
    assert found[0] == found[1]

    @pb.custom_vjp
    @custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return x + 1.0

    f.def_vmap(lambda size, batched, x: (x + 100.0, batched[0]))
    f.defvjp(lambda x: (f(x), None), lambda _, g: (7.0 * g,))
    assert np.array_equal(pb.vmap(f)(np.zeros(2, np.float32)), [100, 100])
    assert pb.grad(f)(1.0) == 7
    with pytest.raises(AttributeError, match="object has no attribute 'defjvp'"):
        _ = f.defjvp
