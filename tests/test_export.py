"""Programs that outlive their process: exported, written down, read and called, beside JAX's."""

from __future__ import annotations

import collections
import re
import subprocess
import sys
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import pullback as pb
import pullback.export
import pullback.numpy as jnp

X = np.arange(4, dtype=np.float32)
Pair = collections.namedtuple("Pair", "a b")


def _shape(m: Any, *shape: Any) -> Any:
    return m.ShapeDtypeStruct(shape, np.float32)


PROGRAMS: dict[str, Any] = {
    "elementwise": lambda m, x: m.numpy.sin(x) * 2,
    "structures": lambda m, x: {"a": [x, None, (x + 1,)]},
    "random": lambda m, x: m.random.normal(m.random.key(0), (3,)) + x[0],
    "scan": lambda m, x: m.lax.scan(lambda c, v: (c + v, c * v), 0.0, x),
    "cond": lambda m, x: m.lax.cond(x[0] > 0, m.numpy.sin, m.numpy.cos, x),
    "while": lambda m, x: m.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)
    ),
    "network": lambda m, x: m.nn.relu(x) + m.nn.gelu(x) + m.nn.softmax(x),
    "linalg": lambda m, x: m.numpy.linalg.solve(m.numpy.outer(x, x) + m.numpy.eye(4), x),
    "indices": lambda m, x: m.numpy.sort(x)[::-1].at[1].set(7.0),
    "narrow": lambda m, x: x.astype(m.numpy.bfloat16),
    "convolution": lambda m, x: m.lax.conv_general_dilated(
        x.reshape(1, 1, 2, 2), x.reshape(1, 1, 2, 2), (1, 1), "SAME"
    ),
    "transform": lambda m, x: m.numpy.fft.fft(x),
    "windows": lambda m, x: m.lax.reduce_window(x, -np.inf, m.lax.max, (2,), (1,), "VALID"),
    "reduce": lambda m, x: m.lax.reduce(x, 0.0, lambda a, b: a + b * 1, (0,)),
    "constants": lambda m, x: x + np.arange(4.0, dtype=np.float32),
    "remat": lambda m, x: m.grad(lambda y: m.checkpoint(m.numpy.sin)(y).sum())(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_written_and_read(name: str) -> None:
    want, out = (m.jit(lambda x, m=m: PROGRAMS[name](m, x))(X) for m in (jax, pb))
    exported = pb.export.export(pb.jit(lambda x: PROGRAMS[name](pb, x)))(X)
    read = pb.export.deserialize(exported.serialize())
    for made in (exported, read):
        found = made.call(X)
        assert jax.tree.structure(want) == jax.tree.structure(found)
        for a, b, c in zip(*map(jax.tree.leaves, (want, out, found)), strict=True):
            assert a.dtype == c.dtype
            np.testing.assert_allclose(np.float64(np.abs(a)), np.float64(np.abs(c)), rtol=1e-5)
            np.testing.assert_array_equal(b, c)


def test_what_exported_functions_say_is_jaxs() -> None:
    def seen(m: Any) -> list[str]:
        a, b = m.export.symbolic_shape("a, b")
        f = m.jit(lambda x, i, y: (x @ x.T * i.sum() * y, i + 1, x.reshape(-1)))
        made = m.export.export(f)(_shape(m, a, b), np.arange(3), 2.0)
        back = made.vjp()
        names = "fun_name in_avals out_avals in_tree out_tree platforms nr_devices"
        more = "module_kept_var_idx disabled_safety_checks calling_convention_version"
        fields = (*names.split(), *more.split())
        return [str(getattr(e, n)) for e in (made, back) for n in fields] + [str(made)]

    assert seen(pb) == seen(jax)


def test_sizes_are_found_from_arguments() -> None:
    def calls(m: Any, again: Any) -> list[Any]:
        a, b = m.export.symbolic_shape("a, b")
        f = m.jit(lambda x, y: (x @ y, x.shape[0] + x.sum(), m.numpy.arange(x.shape[1])))
        made = again(m.export.export(f)(_shape(m, a, b), _shape(m, b, 3)))
        args = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
        nested = m.export.export(m.jit(made.call))(_shape(m, a, 4), _shape(m, 4, 3))
        grad = m.grad(lambda x: made.call(x, args[1])[0].sum())(args[0])
        return [*made.call(*args), *m.jit(made.call)(*args), *nested.call(*args), grad]

    read = lambda e: pb.export.deserialize(e.serialize(vjp_order=1))
    want, now, later = calls(jax, lambda e: e), calls(pb, lambda e: e), calls(pb, read)
    for a, b, c in zip(want, now, later, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(b, c)


REFUSED: dict[str, Any] = {
    "size": lambda e, s: e.call(np.ones(5, np.float32)),
    "dtype": lambda e, s: e.call(np.ones(4, np.int32)),
    "rank": lambda e, s: e.call(1.0),
    "structure": lambda e, s: e.call(X, X),
    "inconsistent": lambda e, s: s.call(np.ones((3, 5), np.float32)),
    "promise": lambda e, s: s.call(np.ones((2, 3), np.float32)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_do_not_fit(name: str) -> None:
    said = []
    for m in (jax, pb):
        d = m.export.symbolic_shape("d, d+1", constraints=["d >= 3"])
        made = m.export.export(m.jit(lambda x: x * 2))(X)
        sized = m.export.export(m.jit(lambda x: x.sum(0)))(_shape(m, *d))
        with pytest.raises(ValueError) as e:
            REFUSED[name](made, sized)
        said.append(str(e.value).split("Please see")[0].split("Fix:")[0].split("   -")[0])
    assert said[0] == said[1]


def test_platforms_and_checks() -> None:
    f, check = pb.jit(lambda x: x + 1), pb.export.DisabledSafetyCheck
    elsewhere = pb.export.export(f, platforms=["tpu"])(X)
    with pytest.raises(ValueError, match=re.escape("exported for platforms '('tpu',)'")):
        elsewhere.call(X)
    unchecked = pb.export.export(f, platforms=["tpu"], disabled_checks=[check.platform()])(X)
    read = pb.export.deserialize(unchecked.serialize())
    assert read.call(X).tolist() == [1, 2, 3, 4] and read.platforms == ("tpu",)
    assert read.disabled_safety_checks == (check.platform(),)
    assert check.custom_call("foo").is_custom_call() == "foo"
    with pytest.raises(ValueError, match="must be the result of `jit`"):
        pb.export.export(lambda x: x)
    with pytest.raises(ValueError, match="no program"):
        pb.export.deserialize(b"abc")
    with pytest.raises(NotImplementedError, match="host_callbacks"):
        pb.export.export(pb.jit(lambda x: (pb.debug.print("{}", x), x)[1]))(X).serialize()


def test_derivatives_that_were_kept() -> None:
    made = pb.export.export(pb.jit(lambda x: pb.numpy.sin(x).sum()))(X)
    first, second = (pb.export.deserialize(made.serialize(vjp_order=k)) for k in (1, 2))
    np.testing.assert_allclose(pb.grad(first.call)(X), np.cos(X), rtol=1e-6)
    assert not first.vjp().has_vjp() and second.vjp().has_vjp()
    twice = pb.grad(lambda x: pb.grad(second.call)(x).sum())
    np.testing.assert_allclose(twice(X), -np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError, match="No VJP is available"):
        pb.grad(lambda x: pb.grad(first.call)(x).sum())(X)


def test_classes_of_users() -> None:
    made = pb.export.export(pb.jit(lambda p: Pair(p.a + 1, {"k": p.b})))(Pair(X, X))
    with pytest.raises(ValueError, match="files have no name for it"):
        made.serialize()
    register = pb.export.register_namedtuple_serialization
    assert register(Pair, serialized_name="tests.Pair") is Pair
    with pytest.raises(ValueError, match="Duplicate serialization registration for type"):
        register(Pair, serialized_name="tests.Pair2")
    with pytest.raises(ValueError, match="register_pytree_node_serialization"):
        register(int, serialized_name="tests.int")
    out = pb.export.deserialize(made.serialize()).call(Pair(X, X))
    assert type(out) is Pair and out.b["k"].tolist() == X.tolist()


def test_another_process_calls_it(tmp_path: Any) -> None:
    path = tmp_path / "program"
    (n,) = pb.export.symbolic_shape("n")
    made = pb.export.export(pb.jit(lambda x: pb.numpy.cumsum(x) * 2))(_shape(pb, n))
    path.write_bytes(made.serialize())
    program = (
        "import sys, pullback as pb, pullback.export, numpy as np\n"
        "exported = pb.export.deserialize(open(sys.argv[1], 'rb').read())\n"
        "print(exported.call(np.ones(3, np.float32)).tolist())"
    )
    out = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert out.stdout.strip() == "[2.0, 4.0, 6.0]", out.stderr


def test_keys_and_custom_operations_are_written() -> None:
    key = pb.random.key(3)
    root = lambda y, x: y * y * y - x
    solve = lambda g, x: pb.lax.fori_loop(0, 30, lambda _, y: y - g(y) / (3 * y * y), x + 1)

    def f(x: Any) -> Any:
        found = pb.lax.custom_root(lambda y: root(y, x[1]), x[1], solve, lambda g, y: y / g(1.0))
        return pb.random.normal(key, (3,)) + found

    made = pb.export.export(pb.jit(f))(X)
    read = pb.export.deserialize(made.serialize(vjp_order=1))
    np.testing.assert_array_equal(read.call(X), pb.jit(f)(X))
    np.testing.assert_allclose(pb.grad(lambda x: read.call(x).sum())(X)[1], 1.0, rtol=1e-5)


OF_NAMED_SIZES: dict[str, Any] = {
    "take": lambda n, lax, a: n.take(a, np.array([0]), 0),
    "roll": lambda n, lax, a: n.roll(a, -7, 0),
    "insert": lambda n, lax, a: n.insert(a, 1, 3.0, axis=0),
    "delete": lambda n, lax, a: n.delete(a, 0, axis=0),
    "fori_loop": lambda n, lax, a: lax.fori_loop(0, a.shape[0], lambda i, c: c + a[i], n.zeros(4)),
}


@pytest.mark.parametrize("name", OF_NAMED_SIZES)
def test_sizes_with_names_take_what_jax_takes(name: str) -> None:
    x, found = np.arange(20.0, dtype=np.float32).reshape(5, 4), []
    for j in (jax, pb):
        size = j.export.symbolic_shape("b, 4")
        f = j.jit(lambda a, j=j: OF_NAMED_SIZES[name](j.numpy, j.lax, a))
        exported = j.export.export(f)(j.ShapeDtypeStruct(size, np.float32))
        found.append((str(exported.out_avals), np.asarray(exported.call(x))))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[1][1], found[0][1])


def test_the_largest_of_a_symbolic_number() -> None:
    def outcome(m: Any, what: str, scope: str, *constraints: str) -> Any:
        shape = m.export.symbolic_shape(scope, constraints=constraints)
        spec = m.ShapeDtypeStruct(shape, np.float32)
        try:
            exported = m.export.export(m.jit(lambda x: LARGEST[what](m, x)))(spec)
        except Exception as e:
            return type(e).__name__
        found = exported.call(np.arange(9, dtype=np.float32))
        return [str(exported.out_avals), *(np.asarray(y).tolist() for y in jax.tree.leaves(found))]

    for what in LARGEST:
        for given in (("b",), ("b", "b >= 4"), ("b", "b >= 9")):
            assert outcome(pb, what, *given) == outcome(jax, what, *given), (what, given)


LARGEST: dict[str, Any] = {
    "half": lambda m, x: m.lax.top_k(x, x.shape[0] // 2),
    "three": lambda m, x: m.lax.top_k(x, 3),
    "too many": lambda m, x: m.lax.top_k(x, x.shape[0] + 1),
    "all but eight": lambda m, x: m.lax.top_k(x, x.shape[0] - 8),
    "approximately": lambda m, x: m.lax.approx_max_k(x, 3),
    "gradient": lambda m, x: m.grad(lambda x: m.lax.top_k(x, x.shape[0] // 2)[0].sum())(x),
    "of a loop": lambda m, x: m.lax.fori_loop(
        0, 3, lambda i, c: c + m.lax.top_k(x, x.shape[0] // 2)[0].sum(), 0.0
    ),
}


@pytest.mark.parametrize(
    "scope", ["a*b, a", "a*b", "2*a+1", "a+b, a", "a+b, a-b", "floordiv(a,2)", "a*a, a", "a*a"]
)
def test_sizes_that_arguments_leave_open(scope: str) -> None:
    def outcome(m: Any) -> str:
        shape = m.export.symbolic_shape(scope)
        try:
            m.export.export(m.jit(lambda x: x))(m.ShapeDtypeStruct(shape, np.float32))
        except ValueError as e:
            return str(e).split(" variables")[0]
        return "exported"

    assert outcome(pb) == outcome(jax)


def test_a_size_that_no_argument_has() -> None:
    (k,) = pb.export.symbolic_shape("k")
    for f in (lambda x: pb.numpy.ones(k).sum() + x, lambda x: x + k, lambda x: pb.numpy.ones(k)):
        with pytest.raises(pb.errors.UnexpectedDimVar, match="'k' that is not appearing"):
            pb.export.export(pb.jit(f))(1.0)


def test_sizes_of_several_scopes() -> None:
    """None of one scope is known to be one of another: refused before anything is traced."""

    def exported(m: Any) -> Any:
        shapes = [m.export.symbolic_shape("b") for _ in range(2)]
        specs = [m.ShapeDtypeStruct(s, np.float32) for s in shapes]
        return m.export.export(m.jit(lambda x, y: (x, y)))(specs[0], [specs[1]])

    for m in (jax, pb):
        with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes when exporting"):
            exported(m)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.arange(1, 6) * (2 * x.shape[0]) + x[0],
        lambda x: x[0] + (np.array(2, np.int32) - x.shape[0]),
        lambda x: pb.nn.one_hot(x.astype(int), x.shape[0]),
        lambda x: jnp.bincount(x.astype(int), length=x.shape[0]),
        lambda x: jnp.split(x, (x.shape[0] - 2,)),
        lambda x: pb.lax.index_in_dim(x, x.shape[0] - 1, keepdims=False),
        lambda x: pb.lax.slice_in_dim(x, 0, x.shape[0], 1 + x.shape[0] // 4),
        lambda x: pb.random.key_data(pb.random.split(pb.random.key(1), 2 * x.shape[0])),
        lambda x: pb.ops.segment_sum(x, jnp.arange(x.shape[0]) // 2, num_segments=x.shape[0]),
    ],
    ids=lambda c: str(c.__code__.co_firstlineno),
)
def test_sizes_are_numbers_of_calls(call: Any) -> None:
    """Lengths, counts, strides and places may be symbolic; NumPy's arrays compute with sizes."""
    x = jnp.array([3.0, 1.0, 2.0, 5.0, 4.0])
    (b,) = pb.export.symbolic_shape("b", constraints=["b >= 3"])
    exported = pb.export.export(pb.jit(call))(pb.ShapeDtypeStruct((b,), x.dtype))
    for got, want in zip(pb.tree.leaves(exported.call(x)), pb.tree.leaves(call(x)), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: jnp.arange(0.0, x.shape[0]), "must be either dimension expressions or integers"),
        (lambda x: jnp.arange(0, x.shape[0], 0), "has step == 0"),
        (lambda x: jnp.arange(0, 9, x.shape[0] - 2), "must be resolved statically if it is > 0"),
        (jnp.squeeze, "axis=None is not supported with shape polymorphism"),
        (lambda x: jnp.split(x, x.shape[0]), "a symbolic number of sections is not supported"),
    ],
)
def test_what_symbolic_sizes_leave_open_is_refused(call: Any, words: str) -> None:
    x = pb.ShapeDtypeStruct(pb.export.symbolic_shape("b"), "float32")
    with pytest.raises((ValueError, pb.errors.InconclusiveDimensionOperation), match=words):
        pb.eval_shape(call, x)
