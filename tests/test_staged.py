"""What becomes of known values while a program is written: JAX and we make the same ones tracers,
and write the same equations for them.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from test_jaxpr_text import canonical

import pullback as pb

# Each on `(library, constant array, device)`, without arguments that are traced.
KNOWN: dict[str, Any] = {
    "put": lambda m, c, d: m.device_put(c),
    "put on": lambda m, c, d: m.device_put(c, d),
    "put number": lambda m, c, d: m.device_put(1),
    "put numpy": lambda m, c, d: m.device_put(np.ones(2)),
    "put numpy scalar": lambda m, c, d: m.device_put(np.float32(3)),
    "put numpy on": lambda m, c, d: m.device_put(np.ones(2), d),
    "put copy": lambda m, c, d: m.device_put(c, d, may_alias=False),
    "put donate": lambda m, c, d: m.device_put(c, d, donate=True),
    "put tree": lambda m, c, d: m.device_put({"a": c, "b": 2.0}, {"a": d, "b": None}),
    "put tree of numpy": lambda m, c, d: m.device_put((np.ones(2), np.ones(3)))[0],
    "put src": lambda m, c, d: m.device_put((c, c), d, src=(d, None)),
    "put empty": lambda m, c, d: m.device_put(()),
    "gradient": lambda m, c, d: m.grad(lambda x: m.device_put(x, d) * 2.0)(1.0),
    "gradients": lambda m, c, d: m.grad(lambda x, y: sum(m.device_put((x, y), d)), (0, 1))(
        1.0, 2.0
    ),
    "vjp of one": lambda m, c, d: m.vjp(lambda x: m.device_put((x, c), d), 1.0)[1]((1.0, c)),
    "jvp": lambda m, c, d: m.jvp(lambda x: m.device_put((x, c)), (1.0,), (2.0,)),
    "asarray on": lambda m, c, d: m.numpy.asarray(c, device=d),
    "asarray number on": lambda m, c, d: m.numpy.asarray(1.0, device=d),
    "zeros on": lambda m, c, d: m.numpy.zeros(3, device=d),
    "zeros_like on": lambda m, c, d: m.numpy.zeros_like(c, device=d),
    "astype on": lambda m, c, d: c.astype(m.numpy.float32, device=d),
    "constraint": lambda m, c, d: m.lax.with_sharding_constraint(
        c, m.sharding.SingleDeviceSharding(d)
    ),
    "convert number": lambda m, c, d: m.lax.convert_element_type(1.0, "float32"),
    "convert bool": lambda m, c, d: m.lax.convert_element_type(True, "int8"),
    "convert numpy": lambda m, c, d: m.lax.convert_element_type(np.ones(2), "float32"),
    "convert numpy scalar": lambda m, c, d: m.lax.convert_element_type(np.float32(1), "float32"),
    "convert array": lambda m, c, d: m.lax.convert_element_type(c, "float32"),
    "full": lambda m, c, d: m.lax.full((), 1.0),
    "full_like": lambda m, c, d: m.lax.full_like(c, 1.0, shape=()),
    "ones": lambda m, c, d: m.numpy.ones(()),
    "broadcast": lambda m, c, d: m.lax.broadcast(c, ()),
    "broadcast numpy": lambda m, c, d: m.lax.broadcast(np.ones(2), ()),
    "broadcast_in_dim": lambda m, c, d: m.lax.broadcast_in_dim(c, (3,), (0,)),
    "broadcast_to_rank": lambda m, c, d: m.lax.broadcast_to_rank(1.0, 0),
    "expand_dims": lambda m, c, d: m.lax.expand_dims(c, ()),
    "ravel": lambda m, c, d: m.numpy.ravel(c),
    "squeeze": lambda m, c, d: m.numpy.squeeze(c),
    "real": lambda m, c, d: m.numpy.real(c),
    "reshape": lambda m, c, d: c.reshape(3),
    "custom_gradient": lambda m, c, d: m.custom_gradient(lambda x: (x, lambda g: g))(c),
}


def _seen(m: Any, make: Any) -> Any:
    """The program's text, and for each result whether it is traced: under jit, under grad."""
    c, d = m.numpy.arange(3.0), m.devices()[0]
    traced: list[bool] = []

    def f(x: Any) -> Any:
        traced.extend(isinstance(y, m.core.Tracer) for y in m.tree.leaves(make(m, c, d)))
        return x

    m.jit(f)(1.0)
    m.grad(f)(1.0)
    return canonical(str(m.make_jaxpr(lambda: make(m, c, d))())), traced


@pytest.mark.parametrize("name", KNOWN)
def test_known_values_are_traced_as_jax_traces_them(name: str) -> None:
    assert _seen(pb, KNOWN[name]) == _seen(jax, KNOWN[name])


# Programs of one number, with `c` and `k` closed over: what loops and branches hand on as it is.
HANDED_ON: dict[str, Any] = {
    "while": lambda m, c, k: (
        lambda x: m.lax.while_loop(
            lambda a: a[0] < 3, lambda a: (a[0] + a[1].sum() + k.sum(), a[1]), (x, c)
        )
    ),
    "while, read by the condition": lambda m, c, k: (
        lambda x: m.lax.while_loop(
            lambda a: a[0] < a[1].sum(), lambda a: (a[0] + k.sum(), a[1], a[2]), (x, c, x)
        )
    ),
    "while, read in vain": lambda m, c, k: (
        lambda x: m.lax.while_loop(
            lambda a: (a[1] + 1, a[0] < 3)[1], lambda a: (a[0] + 1.0, a[1]), (x, c)
        )
    ),
    "while, exchanged": lambda m, c, k: (
        lambda x: m.lax.while_loop(lambda a: a[0] < 3, lambda a: (a[0] + 1, a[2], a[1]), (x, c, c))
    ),
    "while, nothing moves": lambda m, c, k: (
        lambda x: m.lax.while_loop(lambda a: False, lambda a: a, x)
    ),
    "while, numpy": lambda m, c, k: (
        lambda x: m.lax.while_loop(
            lambda a: a[0] < 3, lambda a: (a[0] + 1, a[1], a[2]), (x, np.ones(2), 1)
        )
    ),
    "fori": lambda m, c, k: (
        lambda x: m.lax.fori_loop(0, x.astype(int), lambda i, a: (a[0] + 1, a[1]), (1.0, c))
    ),
    "jvp of while": lambda m, c, k: (
        lambda x: m.jvp(
            lambda y: m.lax.while_loop(lambda a: a[0] < 3, lambda a: (a[0] + 1, a[1]), (y, y)),
            (x,),
            (x,),
        )
    ),
    "vmap of while, one predicate": lambda m, c, k: (
        lambda x: m.vmap(
            lambda y: m.lax.while_loop(lambda a: a[0] < 3, lambda a: (a[0] + 1, a[1]), (x, y))
        )(c)
    ),
    "vmap of while, counted": lambda m, c, k: (
        lambda x: m.vmap(
            lambda y: m.lax.while_loop(lambda a: a[0] < 3, lambda a: (a[0] + 1, a[1]), (y, 1))
        )(c)
    ),
    "scan": lambda m, c, k: (
        lambda x: m.lax.scan(lambda a, b: ((a[0] + a[1].sum() + k.sum(), a[1]), b + k), (x, c), k)
    ),
    "cond": lambda m, c, k: lambda x: m.lax.cond(x > 0, lambda: (x, c, 1.0), lambda: (x, c, 1.0)),
    "switch of one function": lambda m, c, k: (
        lambda x: m.lax.switch(x.astype(int), [lambda a: (a, a + 1)] * 3, c)
    ),
    "unused constants": lambda m, c, k: lambda x: (m.numpy.asarray(np.ones(3)), x)[1],
    "unused constants of a loop": lambda m, c, k: (
        lambda x: m.lax.scan(lambda a, b: (m.numpy.asarray(np.ones(3)), (a, b))[1], x, c)
    ),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_is_handed_on_is_no_result(name: str) -> None:
    texts, values = [], []
    for m in (jax, pb):
        f = HANDED_ON[name](m, m.numpy.arange(3.0), m.numpy.arange(2.0))
        texts.append(canonical(str(m.make_jaxpr(f)(m.numpy.float32(1)))))
        values.append(list(map(np.asarray, m.tree.leaves(m.jit(f)(m.numpy.float32(1))))))
    assert texts[0] == texts[1]
    for theirs, ours in zip(*values, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_handed_on_in_stopped_lanes() -> None:
    """A derivative that is NaN in a lane that has stopped does not reach what all lanes share."""
    counts = pb.numpy.array([1.0, 4.0])

    def f(n: Any, p: Any) -> Any:
        def body(s: Any) -> Any:
            root = s[2] * (n - s[0] - 1) + pb.numpy.where(s[0] < n, 1.0, -5.0)
            return s[0] + 1, s[1] + pb.numpy.sqrt(root), s[2]

        return pb.lax.while_loop(lambda s: s[0] < n, body, (0.0, 0.0, p))[1]

    whole = pb.grad(lambda p: pb.vmap(lambda n: f(n, p))(counts).sum())(2.0)
    parts = sum(float(pb.grad(lambda p, n=n: f(n, p))(2.0)) for n in (1.0, 4.0))
    np.testing.assert_allclose(whole, parts, rtol=1e-6)


def test_device_put_copies_if_asked() -> None:
    x = pb.numpy.arange(3.0)
    assert pb.device_put(x) is x
    copied = pb.device_put(x, may_alias=False)
    assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert copied.tolist() == [0.0, 1.0, 2.0]


def test_device_put_in_programs() -> None:
    """Values, derivatives and commitment, jitted or not."""
    c, d = pb.numpy.arange(3.0), pb.devices()[0]

    def f(x: Any) -> Any:
        return (pb.device_put((x, c), d)[1] * pb.device_put(x, d)).sum()

    for g in (f, pb.jit(f)):
        assert g(2.0) == 6.0 and pb.grad(g)(2.0) == 3.0
        assert pb.vmap(g)(c).tolist() == [0.0, 3.0, 6.0]
    assert pb.jvp(lambda x: pb.device_put(x, d), (c,), (c,))[1].committed


def test_device_put_errors() -> None:
    d = pb.devices()[0]
    with pytest.raises(ValueError, match="may_alias and donate"):
        pb.device_put(1.0, d, may_alias=True, donate=True)
    with pytest.raises(ValueError, match="donate=True is not allowed"):
        pb.grad(lambda x: pb.device_put(x, d, donate=True))(1.0)
    with pytest.raises(ValueError, match="prefix"):
        pb.device_put(1.0, d, donate=(True,))


@pytest.mark.parametrize("name", ["sin", "asarray", "sum"])
def test_masked_arrays_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"Use arr\.filled"):
        getattr(pb.numpy, name)(np.ma.array([1.0, 2.0], mask=[False, True]))


def test_arrays_of_a_masked_array_that_masks_nothing() -> None:
    for make in (pb.numpy.array, pb.numpy.asarray):
        for given in (np.ma.ones(3), np.ma.array([1.0, 1.0, 1.0], mask=[False, False, False])):
            assert make(given).tolist() == jax.numpy.array(given).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match=r"Use arr\.filled"):
        pb.numpy.sum(np.ma.ones(3))


def test_an_array_that_numpy_changes_while_a_program_is_written_is_read_each_time() -> None:
    """A program has one constant for an array of NumPy's, but what it reads is what was there."""

    def f(x: Any) -> Any:
        a = np.arange(3.0, dtype=np.float32)
        first = x + a
        a[0] = 100
        return first, x + a

    first, second = pb.jit(f)(np.zeros(3, np.float32))
    assert (float(first[0]), float(second[0])) == (0, 100)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_narrow_indices_of_long_axes_count_from_the_end(dtype: str) -> None:
    """Indices whose dtype cannot hold the size of the axis."""
    jnp = pb.numpy
    x, i = jnp.arange(40000.0), np.array([-1], dtype)
    for run in (lambda f: f, pb.jit):
        assert float(run(lambda x, i: x[i])(x, i)[0]) == 39999
        assert float(run(lambda x, i: x[i[0]])(x, i)) == 39999
        assert float(run(lambda x, i: jnp.take(x, i))(x, i)[0]) == 39999
        assert float(run(lambda x, i: jnp.take_along_axis(x, i, 0))(x, i)[0]) == 39999
        assert float(run(lambda x, i: x.at[i].set(5))(x, i)[-1]) == 5


# Each on `(library)`: what loops, checkpoints and derivatives hand on, outside of programs.
AS_GIVEN: dict[str, Any] = {
    "scan": lambda m: m.lax.scan(lambda c, x: (c, x), 1.0, m.numpy.arange(3.0))[0],
    "scan, array": lambda m: m.lax.scan(lambda c, x: (c, x), np.arange(2.0), np.arange(3.0))[0],
    "while": lambda m: m.lax.while_loop(lambda x: x[0] < 3, lambda x: (x[0] + 1, x[1]), (0, 1.0)),
    "fori": lambda m: m.lax.fori_loop(0, 3, lambda i, x: x, np.float64(1)),
    "checkpoint": lambda m: m.checkpoint(lambda x: (x, 3, np.arange(3.0)))(1.0),
    "vjp": lambda m: m.vjp(lambda x: (x * 2, x), 1.0)[0],
    "aux": lambda m: m.grad(lambda x, y: (x * 2, (x, y)), has_aux=True)(1.0, 2.0)[1],
    "sum of cotangents": lambda m: m.vjp(lambda x: x + x * x, m.numpy.float32(1))[1](1.0),
}


@pytest.mark.parametrize("name", AS_GIVEN)
def test_what_is_handed_on_outside_of_programs(name: str) -> None:
    """Numbers, NumPy's arrays and weak types come back where JAX gives them back."""

    def kinds(m: Any) -> list[Any]:
        leaves = m.tree.leaves(AS_GIVEN[name](m))
        return [
            str(x.aval)
            if isinstance(x, m.Array)
            else (isinstance(x, float), np.asarray(x).tolist())
            for x in leaves
        ]

    assert kinds(pb) == [
        k.replace("ShapedArray", "") if isinstance(k, str) else k for k in kinds(jax)
    ]


def test_ppermute_with_a_source_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="must be unique"):
        pb.vmap(lambda x: pb.lax.ppermute(x, "i", [(0, 1), (0, 2)]), axis_name="i")(np.arange(3))
