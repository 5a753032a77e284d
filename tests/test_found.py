"""Differences from JAX that random programs, and their neighbours, have shown; each made small."""

from __future__ import annotations

import collections
import sys
from typing import Any

import jax
import jax.numpy
import jax.random
import numpy as np
import pytest

import pullback
import pullback.numpy
import pullback.random
from pullback.backends.reference import rule_of

Z = np.array([-1j, 1j, 0j, 2 + 0j], "complex64")


def of(m: Any) -> dict[str, Any]:
    """The cases, as functions of nothing."""
    jnp, lax, random = m.numpy, m.lax, m.random
    z, keys = jnp.asarray(Z), random.split(random.key(0), 3)
    weak = jnp.where(True, 0.5, 0.2)
    words = random.key_data
    cases = {
        # Complex numbers lose their imaginary parts on the way to bool, as to any real type...
        "convert to bool": lambda: lax.convert_element_type(z, bool),
        "any": lambda: jnp.any(z),
        "all": lambda: jnp.all(z, keepdims=True),
        # ...but not where NumPy's meaning of truth is asked for.
        "astype bool": lambda: z.astype(bool),
        "truth": lambda: bool(z[0]),
        "logical_not": lambda: jnp.logical_not(z),
        "where": lambda: jnp.where(z, 1, 2),
        "nonzero": lambda: jnp.nonzero(z),
        "count_nonzero": lambda: jnp.count_nonzero(z),
        # The angle of weak complex numbers is weak, of weak real ones not.
        "angle weak complex": lambda: jnp.angle(jnp.where(True, 1j, 2)),
        "angle weak": lambda: jnp.angle(weak),
        "angle int": lambda: jnp.angle(jnp.arange(3)),
        # A known integer scalar is a static exponent.
        "full keys": lambda: words(lax.full((2,), 5, keys.dtype)),
        "full_like keys": lambda: words(lax.full_like(keys, 7)),
        "traced fill of keys": lambda: words(m.jit(lambda v: lax.full((2,), v, keys.dtype))(3)),
        "apply to keys": lambda: words(keys.at[1:].apply(lambda k: k)),
    }
    bases = {"uint8": jnp.arange(3, dtype="uint8"), "bool": jnp.array([True]), "weak": weak}
    for name, base in bases.items():
        for exponent in (np.int8(2), np.uint32(3), np.bool_(True), np.int8(-1)):
            power = lambda x=base, y=exponent: jnp.power(x, jnp.asarray(y))
            cases[f"power {name} {exponent!r}"] = power
    # Its sign is looked at by the operator too, whatever was entered before.
    for k, base in enumerate((jnp.arange(1, 4), 3, jnp.int8(3))):
        for exponent in (2, -1):
            power = lambda x=base, y=exponent: [x ** jnp.int32(v) for v in (2, 3, y)]
            cases[f"operator power {k} {exponent}"] = power
    return cases


@pytest.mark.parametrize("name", of(pullback))
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_as_jax(name: str) -> None:
    try:
        wanted = jax.tree_util.tree_leaves(of(jax)[name]())
    except Exception as error:
        with pytest.raises(Exception) as found:
            of(pullback)[name]()
        assert type(error).__name__ in [c.__name__ for c in type(found.value).__mro__]
        return
    got = pullback.tree_util.tree_leaves(of(pullback)[name]())
    for a, b in zip(wanted, got, strict=True):
        assert getattr(a, "weak_type", False) == getattr(b, "weak_type", False)
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x.astype("complex128"), y.astype("complex128"), rtol=1e-6)


WEAK = {
    "diag": lambda m, x: m.numpy.diag(x, 1),
    "diagonal": lambda m, x: [
        m.numpy.diagonal(m.lax.broadcast(x[0], shape), k)
        for shape in ((2, 2), (2, 3), (2, 2, 2), (1, 1))
        for k in (0, 1)
    ],
    "logarithms": lambda m, x: [
        f(m.lax.broadcast(1j, shape)) for shape in ((), (2,)) for f in (m.numpy.log2, m.numpy.log10)
    ],
    "nothing": lambda m, x: [x[np.zeros(0, int)], x[:0], x[x > 5], x[3:][None]],
    "pad": lambda m, x: m.numpy.pad(x, 1),
    "pad value": lambda m, x: m.numpy.pad(x, 1, constant_values=m.numpy.float32(2)),
    "pad ramp": lambda m, x: m.numpy.pad(x, 1, mode="linear_ramp"),
    "pad mean": lambda m, x: m.numpy.pad(x, 1, mode="mean"),
    "gradient": lambda m, x: m.numpy.gradient(x),
    "gradient step": lambda m, x: m.numpy.gradient(x, m.numpy.float32(2)),
    "convolve": lambda m, x: m.numpy.convolve(x, x),
    "convolve strong": lambda m, x: m.numpy.convolve(x, m.numpy.ones(2)),
    "cross": lambda m, x: m.numpy.cross(x, x),
    "insert": lambda m, x: m.numpy.insert(x, 0, 1.0),
    "apply": lambda m, x: x.at[0].apply(lambda v: v * 2),
    "choose": lambda m, x: m.numpy.choose(np.zeros(3, int), [x, x]),
    "vander": lambda m, x: m.numpy.vander(x),
    "angle": lambda m, x: m.numpy.angle(x),
    "top_k": lambda m, x: m.lax.top_k(x, 2),
    "update": lambda m, x: m.lax.dynamic_update_slice(x, x[:1], (0,)),
    "reduce": lambda m, x: m.lax.reduce(x, np.float32(0), m.lax.add, (0,)),
    "reduce weak": lambda m, x: m.lax.reduce(x, 0.0, m.lax.add, (0,)),
}


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", WEAK)
def test_weak_types(name: str, dtype: str) -> None:
    """Functions of weakly typed arrays give results as weak as JAX's."""
    number = 2 if dtype == "int32" else 0.5
    wanted, got = (_outcome(m, WEAK[name], m.lax.broadcast(number, (3,))) for m in (jax, pullback))
    assert wanted == got


def _outcome(m: Any, f: Any, *args: Any) -> Any:
    try:
        out = m.tree_util.tree_leaves(f(m, *args))
        return [(str(x.dtype), x.shape, x.weak_type, np.asarray(x).tolist()) for x in out]
    except Exception as error:
        names = [c.__name__ for c in type(error).__mro__]
        return next(n for n in names if n in ("TypeError", "ValueError", "OverflowError"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "bool"])
@pytest.mark.parametrize(
    "start", [np.float32(0), np.int8(0), np.bool_(False), np.float16(1), 0, 1.0, True], ids=repr
)
def test_reduce_from(start: Any, dtype: str) -> None:
    """The identity of one of lax's operations may have any dtype; other starts have the operand's,
    Python's numbers too."""
    for op in ("add", "max", "mul"):
        f = lambda m, x, op=op: m.lax.reduce(x, start, getattr(m.lax, op), (0,))
        results = [_outcome(m, f, m.numpy.ones(3, dtype)) for m in (jax, pullback)]
        assert results[0] == results[1]


@pytest.mark.parametrize("op", ["add", "mul", "max", "bitwise_and", "bitwise_xor"])
def test_reduce_from_a_traced_start_runs_in_lanes(op: str) -> None:
    """Any start counts once (in JAX, once a lane), also beside a second operand."""
    x = np.random.default_rng(0).integers(0, 1 << 30, (70, 33)).astype(np.int32)
    start, call = np.int32(12345677), getattr(pullback.lax, op)
    names = {"mul": "multiply", "max": "maximum"}
    plain = getattr(np, names.get(op, op))
    both = lambda a, b: (call(a[0], b[0]), pullback.lax.max(b[1], a[1]))
    f = pullback.jit(lambda x, s: pullback.lax.reduce((x, x), (s, s), both, (0, 1)))
    want = plain(plain.reduce(x, (0, 1), dtype=np.int32), start)
    assert f(x, start) == (want, x.max())
    columns = pullback.jit(lambda x, s: pullback.lax.reduce(x, s, call, (0,)))(x, start)
    np.testing.assert_array_equal(columns, plain(plain.reduce(x, 0, dtype=np.int32), start))
    assert "for reduce" in f.lower(x, start).as_text("loops")


def test_small() -> None:
    cases = {
        "window of a scalar": lambda m, x: m.lax.reduce_window(
            x[0], 1.0, m.lax.mul, (), (), "SAME"
        ),
        "cumlogsumexp of integers": lambda m, x: m.lax.cumlogsumexp(m.numpy.arange(3)),
        "unwrap truths": lambda m, x: m.numpy.unwrap(x > 1),
        "unwrap complex": lambda m, x: m.numpy.unwrap(x * 1j),
        "angle of a half": lambda m, x: m.numpy.angle(x[0].astype("bfloat16")),
    }
    x = np.arange(3, dtype="float32")
    for name, f in cases.items():
        assert _outcome(jax, f, jax.numpy.asarray(x)) == _outcome(
            pullback, f, pullback.numpy.asarray(x)
        ), name


COMPUTED = {
    "cumlogsumexp": lambda m, x: m.lax.cumlogsumexp(x.astype("uint8"), 0),
    "integer_pow": lambda m, x: m.lax.integer_pow(x, 0.5),
}
WAYS = {
    "computed": lambda m, f, x: f(m, x),
    "in a jit": lambda m, f, x: m.jit(lambda y: f(m, y))(x),
    "in a scan": lambda m, f, x: m.lax.scan(lambda c, _: (c, f(m, x)), 0, None, length=2)[1],
    "dead": lambda m, f, x: m.jit(lambda y: (f(m, y), y)[1])(x),
    "dead in a gradient": lambda m, f, x: m.grad(lambda y: (f(m, x), y * y)[1])(1.5),
    "typed": lambda m, f, x: m.numpy.zeros_like(m.eval_shape(lambda y: f(m, y), x)),
}


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COMPUTED)
def test_only_what_is_computed_is_refused(name: str, way: str, shape: tuple[int, ...]) -> None:
    """What has a type but no value may be dead code, and is refused without elements too."""
    x = np.ones(shape, "float32")
    f = lambda m, x: WAYS[way](m, COMPUTED[name], x)
    assert _outcome(jax, f, jax.numpy.asarray(x)) == _outcome(
        pullback, f, pullback.numpy.asarray(x)
    )


@pytest.mark.parametrize("axis", [-1, 1])
def test_running_reductions_tell_of_the_axis_first(axis: int) -> None:
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        f = lambda m, x, name=name: getattr(m.lax, name)(x > 0, axis)
        results = [_outcome(m, f, m.numpy.ones(3)) for m in (jax, pullback)]
        assert results[0] == results[1] and results[0] == "ValueError", name


@pytest.mark.parametrize("xs", [0.5, np.float32(0.5)], ids=repr)
def test_scan_over_a_scalar(xs: Any) -> None:
    for m in (jax, pullback):
        with pytest.raises((ValueError, IndexError)) as error:
            m.lax.scan(lambda c, v: (c, v), 0.0, m.numpy.asarray(xs))
        assert m is jax or isinstance(error.value, IndexError | ValueError)


NUMBERS: dict[str, Any] = {
    "float": lambda m, x: x * float(m.lax.stop_gradient(x)),
    "array": lambda m, x: x * np.asarray(m.lax.stop_gradient(x)),
    "list": lambda m, x: x * m.lax.stop_gradient(x).tolist(),
    "int": lambda m, x: x * int(x),
    "branch": lambda m, x: x * 2 if x > 1 else x,
}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_numbers_of_what_is_not_differentiated(name: str) -> None:
    fun = NUMBERS[name]
    for again in range(3):  # from the second call on a gradient may be recorded
        x = np.float32(2 + again)
        want, got = (
            m.value_and_grad(lambda x, m=m: fun(m, x))(m.numpy.asarray(x)) for m in (jax, pullback)
        )
        np.testing.assert_array_equal(got, want)


def test_custom_gradient_without_some_cotangents() -> None:
    for m in (jax, pullback):
        power = m.custom_gradient(lambda x, n: (x**n, lambda ct: (ct * x, None)))
        assert m.grad(power)(m.numpy.float32(2), 3) == 2
        nothing = m.custom_gradient(lambda x: (x**2, lambda ct: None))
        assert m.grad(nothing)(m.numpy.float32(2)) == 0


def test_linear_transpose_of_integers() -> None:
    for m in (jax, pullback):
        (out,) = m.linear_transpose(lambda x: 3 * x[1], m.numpy.arange(3))(m.numpy.int32(4))
        assert out.dtype == np.int32
        np.testing.assert_array_equal(out, [0, 12, 0])
        with pytest.raises(TypeError, match="integer -> integer"):
            m.linear_transpose(lambda x: x.astype("float32"), 3)


def test_types_without_values_in_programs_that_do_not_run() -> None:
    for m in (jax, pullback):
        struct = m.ShapeDtypeStruct((3,), np.float32)
        for fun in (lambda struct=struct: struct, m.jit(lambda struct=struct: struct)):
            assert m.eval_shape(fun).shape == (3,)
        with pytest.raises(TypeError, match="does not have a value"):
            m.jit(lambda struct=struct: struct)()


Pair = collections.namedtuple("Pair", "carry y")
PAIRS: dict[str, Any] = {
    "list": lambda c, y: [c, y],
    "named tuple": Pair,
    "dict": lambda c, y: {"carry": c, "y": y},
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_scan_gives_the_pair_that_its_body_returns(name: str) -> None:
    pair = PAIRS[name]
    found = [
        m.lax.scan(lambda c, x, m=m: pair(c + x, (c,)), 1.0, m.numpy.arange(3.0))
        for m in (jax, pullback)
    ]
    assert str(jax.tree.structure(found[0])) == str(pullback.tree.structure(found[1]))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_array_equal(a, b)


NOTHING = np.zeros((4, 3), pullback.dtypes.float0)
EMPTY_HANDED: dict[str, Any] = {
    "argument": lambda m, z: m.lax.broadcast_in_dim(z, (6, 4, 3), (1, 2)),
    "jit": lambda m, z: m.jit(lambda y: m.lax.broadcast_in_dim(y, (6, 4, 3), (1, 2)))(z),
    "constant": lambda m, z: m.jit(lambda: m.lax.broadcast_in_dim(z, (6, 4, 3), (1, 2)))(),
    "scalar constant": lambda m, z: m.jit(
        lambda: m.lax.broadcast_in_dim(z[:1, 0].reshape(()), (72,), ())
    )(),
    "donated": lambda m, z: m.jit(
        lambda y: m.lax.concatenate([y] * 6, 0), donate_argnums=0
    )(np.zeros_like(z)),
    "cond": lambda m, z: m.jit(lambda y, b: m.lax.cond(
        b, lambda v: m.lax.concatenate([v] * 6, 0), lambda v: m.lax.concatenate([v] * 6, 1)
        .reshape(24, 3), y))(z, True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("name", EMPTY_HANDED)
def test_values_without_information_write_nobody_elses_memory(name: str) -> None:
    """Kernels see a byte an element of them, which their arrays have not: results of more than a
    block of 64 bytes were written over the block that follows."""
    others = [pullback.numpy.full(16, k, "int32") for k in range(256)]
    del others[::2]
    results = [EMPTY_HANDED[name](pullback, NOTHING) for _ in range(64)]
    assert [int(x[0]) for x in others] == list(range(1, 256, 2))
    expected = EMPTY_HANDED[name](jax, NOTHING)
    for result in results:
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)


def test_apply_to_keys() -> None:
    """Each key is changed as a whole (JAX refuses to compile this one)."""
    keys = pullback.random.split(pullback.random.key(0), 3)
    fold = lambda k: pullback.random.fold_in(k, 1)
    changed = keys.at[1].apply(fold)
    assert bool((changed == pullback.numpy.stack([keys[0], fold(keys[1]), keys[2]])).all())


@pytest.mark.parametrize("name", ["constant", "dependent"])
def test_cotangents_of_results_that_are_not_mapped(name: str) -> None:
    """A backward rule is handed their sum over the batch, once."""
    f = {"constant": lambda a, b: b * 2, "dependent": lambda a, b: a.sum() * b}[name]
    results = []
    for m in (jax, pullback):
        h = m.custom_vjp(f)
        h.defvjp(lambda *xs: (f(*xs), xs), lambda xs, ct: tuple(x + ct**2 for x in xs))
        found = []
        for k in (h, m.jit(h)):
            mapped = lambda a, b, h=k, m=m: (m.vmap(h, (0, None))(a, b) ** 2).sum()
            found.append(m.grad(mapped, (0, 1))(np.ones((2, 3), "float32"), np.float32(2)))
        results.append([np.asarray(x).tolist() for x in m.tree_util.tree_leaves(found)])
    assert results[0] == results[1]


def test_forward_rule_that_depends_on_more() -> None:
    """The function says what is mapped; the same value computed from the mapped argument is not."""
    h = pullback.custom_vjp(lambda a, b: b * 2)
    h.defvjp(lambda a, b: (b * 2 + 0 * a, a), lambda a, ct: (a * 0, ct * 2))
    f = lambda a, b: pullback.jit(pullback.vmap(h, (0, None)))(a, b).sum()
    assert pullback.grad(f, 1)(np.ones(3, "float32"), np.float32(2)) == 6


@pytest.mark.parametrize("shape", [(7, 11), (7, 1), (2, 3, 1), (3,)])
@pytest.mark.parametrize("batch", [(2, 1), (3, 2, 1)])
def test_operands_of_unequal_ranks_under_vmap(batch: Any, shape: Any) -> None:
    """lax refuses them; but under vmap JAX gives the operand of lower rank more axes behind."""
    x = np.arange(np.prod(batch), dtype="float32").reshape(batch)
    for op in ("add", "atan2"):
        f = lambda m, a, op=op: m.vmap(lambda v: getattr(m.lax, op)(v, np.ones(shape, v.dtype)))(a)
        assert _shape(jax, f, x) == _shape(pullback, f, x)


def _shape(m: Any, f: Any, *args: Any) -> Any:
    try:
        return f(m, *args).shape
    except TypeError:
        return "TypeError"


def test_random_slices_of_nothing() -> None:
    cases = {
        "permutation": lambda m, k: m.random.permutation(k, np.zeros((0, 3), "float32")),
        "permutation of the last": lambda m, k: m.random.permutation(
            k, np.zeros((2, 0), "float32"), axis=1
        ),
        "none of none": lambda m, k: m.random.choice(k, np.zeros((0, 3), "float32"), (0,)),
        "none of three": lambda m, k: m.random.choice(k, np.zeros((3, 2), "int8"), (2, 0)),
        "none of 0": lambda m, k: m.random.choice(k, 0, (0,)),
        "take": lambda m, k: m.numpy.take(np.zeros((2, 0), "int8"), np.zeros((4, 0), int), axis=1),
        "take of all": lambda m, k: m.numpy.take(
            m.lax.broadcast(0.5, (2, 0)), np.zeros((2, 0), int), mode="wrap"
        ),
        "one of none": lambda m, k: m.random.choice(k, np.zeros((0, 3), "float32")),
    }
    for name, f in cases.items():
        wanted, got = (_outcome(m, f, m.random.key(0)) for m in (jax, pullback))
        assert wanted == got, name


def test_root_with_a_wrong_tangent_solve() -> None:
    """What is wrong with it is said when the root is found, not by the first derivative."""
    for m in (jax, pullback):

        def root(y: Any, m: Any = m) -> Any:
            newton = lambda f, v: m.lax.fori_loop(0, 8, lambda _, u: u - f(u) / (2 * u), v)
            wrong = lambda g, v: v / g(np.float16(1))
            return m.lax.custom_root(lambda v: v * v - y, np.float32(1.5), newton, wrong)

        with pytest.raises(ValueError, match="inconsistent with the original primal"):
            root(np.float32(2))


REFERENCES = {
    "plain": lambda m, r, x: r.__setitem__(..., r[...] * 2),
    "jit": lambda m, r, x: m.jit(lambda v: r.__setitem__(..., m.lax.sin(r[...]) * v))(2.0),
    "cond": lambda m, r, x: m.lax.cond(x > 0, lambda: r.__setitem__(..., r[...] * 2), lambda: None),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reverse_of_forward_through_references(name: str) -> None:
    """The tangent of an inner derivative is in a reference that the outer one differentiates."""
    results = []
    for m in (jax, pullback):

        def f(x: Any, m: Any = m) -> Any:
            r = m.new_ref(m.lax.sin(x))
            REFERENCES[name](m, r, x)
            return r[...] * x

        forward = lambda x, m=m, f=f: m.jvp(f, (x,), (x * 0.5,))
        x = m.numpy.float32(0.7)
        reverse = m.grad(lambda v, forward=forward: sum(forward(v)))
        results.append([*m.linearize(forward, x)[1](x), reverse(x), m.jit(reverse)(x)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_linearize_drops_what_no_result_needs() -> None:
    """The forward derivative of a custom_vjp function that only empty results would read."""
    for m in (jax, pullback):
        f = m.custom_vjp(lambda a: a * 2)
        f.defvjp(lambda a: (a * 2, None), lambda r, ct: (ct * 2,))
        x = m.numpy.zeros((0, 3))
        y, push = m.linearize(lambda v, f=f: (f(v.sum()), v)[1], x)
        assert push(y).shape == (0, 3)


def test_programs_nested_deeper_than_python_recurses() -> None:
    """The second derivative of a loop has hundreds of temporaries, each around what uses it."""
    lax, x = pullback.lax, pullback.numpy.float32(0.7)
    step = lambda s: (s[0] * 1.7 + 0.1, s[1] * s[2], s[2])
    f = lambda v: (lambda s: s[0] * s[1])(lax.while_loop(lambda s: s[0] < 4.0, step, (v, v, v)))
    limit = sys.getrecursionlimit()
    second = pullback.grad(pullback.grad(f))(x)
    expected = pullback.jvp(pullback.grad(f), (x,), (pullback.numpy.ones(()),))[1]
    np.testing.assert_allclose(second, expected, rtol=1e-5)
    assert sys.getrecursionlimit() == limit


def test_top_k_of_nothing() -> None:
    """The derivative has the result's shape."""
    x = pullback.numpy.ones((0, 3))
    out, dot = pullback.jvp(lambda x: pullback.lax.top_k(x, 1)[0], (x,), (x,))
    assert out.shape == dot.shape == (0, 1)
    assert pullback.grad(lambda x: pullback.lax.top_k(x, 1)[0].sum())(x).shape == (0, 3)


BRANCHES = {
    "cond": lambda m, k, x: m.lax.cond(k > 0, lambda v: v / (v - 1), lambda v: v * 2, x),
    "switch": lambda m, k, x: m.lax.switch(
        k, [lambda v: v * 2, lambda v: m.lax.sqrt(v - 1), m.lax.sin], x
    ),
    "shared": lambda m, k, x: m.lax.cond(k > 1, lambda: x / (x - 1), lambda: x.sum() + 2 * x),
}


@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_not_taken_have_no_derivative(name: str, axis: Any) -> None:
    """Under vmap all branches run; the derivative of one that a lane does not take may be NaN."""
    found = []
    for m in (jax, pullback):
        f = m.vmap(lambda k, v, m=m: BRANCHES[name](m, k, v), in_axes=(0, axis))
        k = m.numpy.array([0, 0])
        x = m.numpy.ones((2, 2) if axis == 0 else (2,)).at[..., 1].multiply(0.5)
        total = lambda v, f=f, k=k: f(k, v).sum()
        dot = m.jvp(lambda v, f=f, k=k: f(k, v), (x,), (x,))[1]
        found.append([m.grad(total)(x), m.jit(m.grad(total))(x), dot])
    assert np.isfinite(found[1][0]).all()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)


def test_operands_of_branches_under_vmap_cost_nothing() -> None:
    """What hides an operand's derivative from other lanes is gone from what runs."""
    f = lambda k, x: pullback.lax.cond(k > 0, lambda v: v * 2, lambda v: v, x)
    x = pullback.random.split(pullback.random.key(0), 3)
    kept = pullback.vmap(f)(np.arange(3), pullback.numpy.ones(3))
    keys = pullback.vmap(lambda k, v: pullback.lax.cond(k > 0, lambda u: u, lambda u: u[...], v))
    assert kept.tolist() == [1, 2, 2]
    assert (keys(np.arange(3), x) == x).all()
    assert pullback.lax.stop_gradient(x) is x


def test_bounds_of_fori_loop() -> None:
    """A Python int takes the other bound's signed dtype; floats count from their whole parts."""
    count = lambda i, n: n + 1
    loop = pullback.lax.fori_loop
    assert (
        loop(0, pullback.numpy.int16(5), lambda i, n: n + i, pullback.numpy.int16(0)).dtype
        == pullback.numpy.int16
    )
    assert loop(pullback.numpy.int8(2), 5, count, 0) == 3
    assert [int(loop(a, b, count, 0)) for a, b in [(0.0, 5.0), (0.5, 3.2), (5.0, 0.0)]] == [5, 3, 0]
    assert pullback.jit(lambda n: loop(0, n, count, 0))(pullback.numpy.int16(4)) == 4
    for bounds in [
        (0, 5.0),
        (0, pullback.numpy.uint8(5)),
        (pullback.numpy.int8(0), pullback.numpy.int16(5)),
    ]:
        with pytest.raises(TypeError, match="equal types"):
            loop(*bounds, count, 0)


def test_solvers_answer_with_the_shape_of_b() -> None:
    solve = lambda matvec, b: b / 2
    with pytest.raises(ValueError, match=r"matvec\(\) output shapes must match b"):
        pullback.lax.custom_linear_solve(
            lambda x: pullback.numpy.ones(3), pullback.numpy.ones(2), solve
        )
    with pytest.raises(TypeError, match=r"f\(\) output pytree structure must match initial_guess"):
        pullback.lax.custom_root(lambda x: (x**2,), 1.0, lambda f, x: x, lambda g, y: y)


def test_iteration_of_a_number_fails_at_iter() -> None:
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        pullback.jit(lambda x: iter(x) and 0)(1)


def test_jit_of_none_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected a callable value"):
        pullback.jit(None)


def test_what_a_tracer_depends_on() -> None:
    with pytest.raises(
        pullback.errors.ConcretizationTypeError, match=r"values of the arguments x and y"
    ):
        pullback.jit(lambda x, y, z: float(x * y))(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match="vmap out_axes must be an int"):
        pullback.vmap(lambda x: x, out_axes=(pullback.numpy.ones(2),))


def test_complex_numbers_that_a_checkpoint_keeps() -> None:
    """JAX rounds what is kept, which complex numbers do not bear; called for, both refuse that."""
    lax, x = pullback.lax, pullback.numpy.arange(3.0)

    def f(x: Any) -> Any:
        z = lax.exp(lax.complex(x, x))
        return lax.real(z * z).sum()

    keep = pullback.checkpoint_policies.everything_saveable
    for g in (
        pullback.checkpoint(f, policy=keep),
        pullback.jit(pullback.checkpoint(f, policy=keep)),
    ):
        np.testing.assert_allclose(pullback.grad(g)(x), pullback.grad(f)(x), rtol=1e-6)
    for m in (jax, pullback):
        with pytest.raises(TypeError, match="reduce_precision does not accept dtype complex64"):
            m.lax.reduce_precision(m.numpy.ones(2, "complex64"), 8, 23)


def test_what_a_policy_keeps_but_nothing_reads_is_not_differentiated() -> None:
    def second(m: Any) -> Any:
        def f(y: Any, x: Any) -> Any:
            whole = m.numpy.floor(x * 2.0).astype("int16").astype("float32").sum()
            m.lax.nextafter(x, m.numpy.full_like(x, whole)) + whole  # has no derivative
            return m.numpy.exp2(whole * 0.25)

        g = m.checkpoint(f, policy=m.checkpoint_policies.everything_saveable)
        x = m.numpy.ones(3)
        return m.jvp(m.grad(g), (x, x), (x, x))

    for ours, theirs in zip(second(pullback), second(jax), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_cotangents_of_arguments_with_none_in_them() -> None:
    """One None or one cotangent stands for a subtree, whose own Nones have no cotangents."""

    def grads(lib: Any) -> Any:
        fun = lib.custom_vjp(lambda tree, y: tree["a"] * y)
        fun.defvjp(
            lambda tree, y: (tree["a"] * y, (tree["a"], y)),
            lambda res, ct: ({"a": ct * res[1], "b": None, "c": None}, ct * res[0]),
        )
        trees = {"a": 2.0, "b": None, "c": (1.0, None, 3.0)}
        return lib.grad(lambda tree, y: fun(tree, y), argnums=(0, 1))(trees, 5.0)

    ours, theirs = grads(pullback), grads(jax)
    assert ours[0]["b"] is None and ours[0]["c"][1] is None
    assert jax.tree.map(float, ours) == jax.tree.map(float, theirs)


def test_forward_jacobians_of_integers_are_zeros_of_their_dtype() -> None:
    def jacobian(lib: Any) -> Any:
        fun = lambda x: {"i": x.astype("int8"), "f": 2 * x}
        jacobian = lib.jacfwd(lambda p: fun(p[0]))
        return [jacobian((lib.numpy.ones(2), 3.0)), lib.jit(jacobian)((lib.numpy.ones(2), 3.0))]

    for ours, theirs in zip(
        jax.tree.leaves(jacobian(pullback)), jax.tree.leaves(jacobian(jax)), strict=True
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


def test_tangents_of_integers_are_no_operands() -> None:
    zeros = np.zeros(3, pullback.dtypes.float0)
    assert pullback.numpy.asarray(zeros).dtype == pullback.dtypes.float0
    for call in (lambda: zeros + pullback.numpy.ones(3), lambda: pullback.numpy.sin(zeros)):
        with pytest.raises(TypeError, match=r"Called (add|sin) with a float0 array"):
            call()


def test_derivatives_of_logaddexp_at_infinities_are_those_of_jax() -> None:
    values = np.array([0.0, 1.0, -np.inf, np.inf, 88.0, -2.5], np.float32)
    a, b = (v.ravel() for v in np.meshgrid(values, values))

    def run(lib: Any, name: str) -> Any:
        first = lib.grad(getattr(lib.numpy, name), (0, 1))
        second = lib.grad(lambda x, y: first(x, y)[0], (0, 1))
        return [lib.jit(lib.vmap(f))(a, b) for f in (first, second)]

    for name in ("logaddexp", "logaddexp2"):
        for ours, theirs in zip(
            jax.tree.leaves(run(pullback, name)), jax.tree.leaves(run(jax, name)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("name, sign", [("min", 1.0), ("max", -1.0)])
@pytest.mark.parametrize("padding", ["VALID", ((0, 1),), ((1, 1),)])
def test_derivatives_of_windows_of_infinities_and_nans(
    name: str, sign: float, padding: Any
) -> None:
    """Of equals the earlier is selected, the infinity that pads among them; NaN never stays."""
    inf, nan = np.inf, np.nan
    rows = [[inf, inf, 1, inf], [nan, inf, 1, nan], [1, nan, 2, nan], [1, 1, -inf, nan]]
    xs = sign * np.array(rows, "float32")

    def derivatives(m: Any, dtype: Any, size: int, stride: int) -> list[Any]:
        jnp = m.numpy
        x = jnp.asarray(xs, dtype)

        def f(x: Any) -> Any:
            pad = ((0, 0), *padding) if padding != "VALID" else padding
            reducer = getattr(m.lax, name)
            return m.lax.reduce_window(
                x, np.dtype(dtype).type(sign * inf), reducer, (1, size), (1, stride), pad
            )

        y, tangent = m.jit(lambda x: m.jvp(f, (x,), (jnp.arange(16, dtype=dtype).reshape(4, 4),)))(
            x
        )
        ct = jnp.arange(1, y.size + 1, dtype=dtype).reshape(y.shape)
        return [tangent, m.jit(lambda x: m.vjp(f, x)[1](ct)[0])(x)]

    for dtype in ("float32", "float16"):
        for size, stride in ((2, 1), (3, 1), (2, 2)):
            ours, theirs = (derivatives(m, dtype, size, stride) for m in (pullback, jax))
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_row_of_a_loop_that_reads_itself_where_an_index_says() -> None:
    """A small array that stays in registers is read before its other rows are written."""

    def run(m: Any) -> Any:
        jnp = m.numpy

        def step(c: Any, x: Any) -> Any:
            i, row = x
            y = row * 0.5 + c.sum(1, keepdims=True)
            z = jnp.broadcast_to(m.lax.dynamic_index_in_dim(y, i, 1), (2, 4))
            return c * 0.5 + y.at[:, i].set(0.0), z

        c = jnp.arange(8.0).reshape(2, 4) * 0.1
        return m.jit(lambda c, i, r: m.lax.scan(step, c, (i, r)))(
            c, jnp.array([1, 3]), jnp.ones((2, 2, 4))
        )

    for a, b in zip(run(pullback), run(jax), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_complex_quotients_of_zeros_and_infinities() -> None:
    """C's: a zero divides into infinities, an infinity leaves zeros; signs of zeros too."""
    parts = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], "float32")
    a, b, c, d = (x.ravel() for x in np.meshgrid(parts, parts, parts, parts))
    # Parts are set one by one: 1j * inf has NaN in it.
    x, y = np.empty((2, a.size), "complex64")
    x.real, x.imag, y.real, y.imag = a, b, c, d
    expected = np.asarray(jax.lax.div(x, y))
    for found in (pullback.lax.div(x, y), pullback.jit(pullback.lax.div)(x, y)):
        for theirs, ours in ((expected.real, found.real), (expected.imag, found.imag)):
            np.testing.assert_array_equal(ours, theirs)
            signed = ~np.isnan(theirs)
            np.testing.assert_array_equal(np.signbit(ours)[signed], np.signbit(theirs)[signed])
    with np.errstate(all="ignore"):
        reference = rule_of(pullback.lax.div_p)(x, y)
    np.testing.assert_array_equal(np.asarray(reference), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int4", "bool"])
def test_residuals_of_no_axes_are_arrays(dtype: str) -> None:
    """Programs hold them as literals; what a rule gets is an array, with an array's promotion."""

    def seen(m: Any) -> list[Any]:
        found = []

        @m.custom_vjp
        def f(x: Any) -> Any:
            return x

        def backward(r: Any, ct: Any) -> Any:
            assert isinstance(r, m.Array)
            found.append((r * 2).dtype if dtype != "int4" else r.dtype)
            return (ct,)

        f.defvjp(lambda x: (x, m.numpy.array(1, dtype)), backward)
        for g in (m.grad(f), m.jit(m.grad(f))):
            g(1.0)
        return found

    assert seen(pullback) == seen(jax)


def test_signs_of_half_precision_powers() -> None:
    """LLVM's copysign would convert from float64 to float16, for which there is no instruction."""

    def f(m: Any) -> Any:
        x = m.numpy.array([0.5, -1.5, 2.0], "float16")
        return m.jit(lambda x: m.numpy.tanh(m.lax.pow(abs(x), x)))(x)

    np.testing.assert_allclose(f(pullback), f(jax), rtol=2e-3)


def test_a_batch_of_a_linearized_custom_vjp_is_forward_mode() -> None:
    """Refused where it is batched, as in JAX, though nothing reads the result."""

    def dead(m: Any) -> Any:
        f = m.custom_vjp(m.numpy.sin)
        f.defvjp(lambda x: (f(x), x), lambda r, ct: (ct * m.numpy.cos(r),))
        return m.jit(m.vmap(lambda x: (m.linearize(f, x)[1](1.0), x)[1]))(m.numpy.arange(3.0))

    for m in (jax, pullback):
        with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
            dead(m)


def test_sums_of_cotangents_have_the_shape_of_the_batch() -> None:
    """vmap left a cotangent that is the same for all lanes a scalar in the sum with one that is
    not, and the transpose gave the scalar a whole batch of cotangents."""

    def pulled(m: Any) -> Any:
        def f(w: Any, ys: Any) -> Any:
            return m.vmap(lambda y: m.grad(lambda v: (v * w).sum() + v * y)(0.5))(ys)

        w, ys = m.numpy.arange(3.0), m.numpy.arange(2.0)
        return m.vjp(f, w, ys)[1](m.numpy.ones(2))

    for ours, theirs in zip(pulled(pullback), pulled(jax), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("empty", [False, True])
def test_sets_and_selections_are_as_weak_as_what_they_are_of(empty: bool) -> None:
    def seen(m: Any) -> Any:
        jnp = m.numpy
        w = jnp.arange(0 if empty else 3, dtype="uint8") * 0.25
        other = jnp.array([2.0, 0.25])
        found = [
            jnp.take_along_axis(w[:0], jnp.zeros((0,), int), 0),
            jnp.resize(w, (0,)),
            jnp.interp(w[:0], jnp.arange(2) * 0.5, jnp.arange(2) * 0.5),
            jnp.unique(w),
            jnp.unique(w, size=2, fill_value=0),
        ]
        for f in (jnp.union1d, jnp.intersect1d, jnp.setdiff1d, jnp.setxor1d):
            found += [f(w, w), f(w, other), f(w, w, size=2, fill_value=0)]
        return [(np.asarray(x).tolist(), str(x.dtype), x.weak_type) for x in found]

    assert seen(pullback) == seen(jax)


def test_linear_functions_give_arrays_where_the_derivative_is_a_number() -> None:
    def seen(m: Any) -> Any:
        f = m.custom_jvp(lambda x: x.sum())
        f.defjvp(lambda p, t: (f(*p), m.lax.convert_element_type(0.0, "float32")))
        found = [
            m.linearize(f, m.numpy.ones(3))[1](m.numpy.ones(3)),
            m.linearize(m.jit(f), m.numpy.ones(3))[1](m.numpy.ones(3)),
        ]
        assert all(isinstance(x, m.Array) for x in found)
        return [(float(x), str(x.dtype), x.weak_type) for x in found]

    assert seen(pullback) == seen(jax)


def test_complex_functions_hold_up_to_the_largest_numbers() -> None:
    most = np.finfo("float32").max
    parts = [most, -most, most / 2, most / 4, -most / 4, 1e38, 3e18, -3e18, 2.5]
    z = np.array([complex(a, b) for a in parts for b in parts], "complex64")

    def seen(m: Any) -> Any:
        jnp = m.numpy
        x = jnp.asarray(z)
        functions = (
            jnp.sqrt, jnp.log, jnp.log1p, jnp.arcsin, jnp.arccosh, jnp.arctanh, m.lax.rsqrt,
        )  # fmt: skip
        found = {f.__name__: np.asarray(f(x)) for f in functions}
        near = jnp.asarray(np.array([1e-18 + 1j, 1e-10 - 1j, 0.5 + 1j, 7 - 1j], "complex64"))
        return {**found, "arctan": np.asarray(jnp.arctan(near))}

    ours, theirs = seen(pullback), seen(jax)
    for name, want in theirs.items():
        assert np.isfinite(want).all()
        np.testing.assert_allclose(ours[name], want, rtol=1e-6, err_msg=name)


def test_complex_squares_and_tangents_beyond_the_largest_numbers() -> None:
    most = np.finfo("float32").max

    def seen(m: Any) -> Any:
        equal = m.numpy.array([complex(most, most), complex(3e38, -3e38)], "complex64")
        far = m.numpy.array([complex(20, np.inf), complex(-20, np.nan)], "complex64")
        return m.numpy.square(equal), m.numpy.tanh(far)

    for ours, theirs in zip(seen(pullback), seen(jax), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_unwrap_of_unsigned_numbers_and_truth_values() -> None:
    for x, period in ((np.array([0, 255, 3], np.uint8), 2), (np.array([True, False]), 7)):
        got, want = (lib.numpy.unwrap(x, period=period, discont=1) for lib in (pullback, jax))
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    for bad, kind in ((np.array([1.5], np.float32), ValueError), (np.array([True]), TypeError)):
        with pytest.raises(kind, match="int indices"):
            pullback.numpy.ravel_multi_index((bad,), (9,), mode="clip")


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter", "psum", "pmax"])
def test_collectives_over_no_axis_change_nothing(name: str) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for P in (jax, pullback):
        collective = getattr(P.lax, name)
        found = P.vmap(lambda v, f=collective: f(v, ()), axis_name="i")(x)
        assert np.array_equal(found, x)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool", "int32", "uint8"])
@pytest.mark.parametrize("number", [2**31, -(2**40), 2**70])
def test_integers_of_any_size_are_converted(number: int, dtype: str) -> None:
    results = []
    for P in (jax, pullback):
        try:
            found = P.lax.convert_element_type(number, dtype)
            results.append((found.dtype, found.weak_type, np.asarray(found).tolist()))
        except OverflowError:
            results.append("OverflowError")
    assert results[0] == results[1]
