"""Symbolic sizes: arithmetic and order as in JAX, and programs over them print as JAX's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pullback as pb
import pullback.export
import pullback.numpy as jnp
from pullback.core.dim_text import symbolic_shape
from pullback.core.dims import bounds, evaluate, max_dim, min_dim
from pullback.errors import InconclusiveDimensionOperation, UnexpectedDimVar

jax = pytest.importorskip("jax")

EXPRESSIONS = [
    "a == 2",
    "a != 2",
    "a == b",
    "a == a",
    "a + 1 > a",
    "a >= 1",
    "a > 1",
    "a > 0",
    "a >= 2",
    "a - b >= 0",
    "2 * a",
    "a * b + 3",
    "a * a",
    "a // 2",
    "a % 2",
    "(2 * a) // 2",
    "(2 * a + 3) // 2",
    "(4 * a) % 2",
    "(a + 1) - 1",
    "a - a",
    "-a",
    "3 - a",
    "a ** 2",
    "divmod(a, 2)",
    "a // b",
    "(a * b) // b",
    "a % b",
    "(a + b) * (a - b)",
    "2 * (a // 2) + a % 2",
    "a - 1 >= 0",
    "a // 2 >= 0",
    "a % 2 < 2",
    "a + b >= 2",
    "maximum(a, b)",
    "maximum(a, 1)",
    "minimum(a, 1)",
    "maximum(a, 2)",
    "hash(a) == hash(a + 0)",
    "int(a)",
]


def outcome(expression, names):
    try:
        return repr(eval(expression, dict(names)))
    except Exception as e:
        return type(e).__name__


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_arithmetic(expression):
    from jax import export

    a, b = export.symbolic_shape("a, b")
    theirs = {"a": a, "b": b, "maximum": jax.core.max_dim, "minimum": jax.core.min_dim}
    a, b = symbolic_shape("a, b")
    ours = {"a": a, "b": b, "maximum": max_dim, "minimum": min_dim}
    assert outcome(expression, ours) == outcome(expression, theirs)


def test_evaluate():
    for text in ("2*n + 1", "floordiv(n, 3)", "mod(n, 3)*m", "max(n, m)", "min(n, 2) - m"):
        (d,) = symbolic_shape(text)
        for n, m in ((1, 4), (7, 2)):
            got = evaluate(d, {"n": n, "m": m})
            env = {
                "n": n,
                "m": m,
                "floordiv": lambda x, y: x // y,
                "mod": lambda x, y: x % y,
                "max": max,
                "min": min,
            }
            assert got == eval(text, env)


def test_constraints_and_errors():
    (n,) = symbolic_shape("n", constraints=["n >= 4"])
    assert n >= 3
    with pytest.raises(InconclusiveDimensionOperation, match="promise"):
        bool(n >= 5)
    for bad in ("a+", "2 a", "(a", "a, ..."):
        with pytest.raises(ValueError, match="symbolic shape"):
            symbolic_shape(bad)


PROGRAMS = [
    lambda jnp, x: jnp.sin(x).reshape(-1) + x.shape[0],
    lambda jnp, x: jnp.concatenate([x, x], axis=0).sum(axis=1),
    lambda jnp, x: x.T @ x,
    lambda jnp, x: jnp.broadcast_to(x.sum(0), (x.shape[0], x.shape[1])) * 2,
]


@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_programs(k):
    from jax import export

    def text(jaxpr):
        return re.sub(r"\s+", " ", str(jaxpr))

    a, b = export.symbolic_shape("a, b")
    theirs = jax.make_jaxpr(lambda x: PROGRAMS[k](jax.numpy, x))(
        jax.ShapeDtypeStruct((a, b), np.float32)
    )
    a, b = symbolic_shape("a, b")
    ours = pb.make_jaxpr(lambda x: PROGRAMS[k](jnp, x))(pb.ShapeDtypeStruct((a, b), np.float32))
    assert text(ours) == text(theirs)


# Functions of x: f32[b, 8], y: f32[b, b, 3] and n = b, with b >= 2.
SHAPES = {
    "first": lambda m, x, y, n: x[0],
    "last": lambda m, x, y, n: x[-1],
    "beyond": lambda m, x, y, n: x[5],
    "but one": lambda m, x, y, n: x[1:],
    "up to five": lambda m, x, y, n: x[:5],
    "but three": lambda m, x, y, n: x[3:],
    "every other": lambda m, x, y, n: x[::2],
    "reversed": lambda m, x, y, n: x[::-1],
    "the last two": lambda m, x, y, n: x[-2:],
    "ends given as sizes": lambda m, x, y, n: x[1 : n - 1, :3],
    "half": lambda m, x, y, n: x[: n // 2],
    "arange": lambda m, x, y, n: m.numpy.arange(n),
    "arange by 3": lambda m, x, y, n: m.numpy.arange(1, n, 3),
    "arange down": lambda m, x, y, n: m.numpy.arange(n, 0, -1, dtype="float32"),
    "arange that may be empty": lambda m, x, y, n: m.numpy.arange(n - 5),
    "one size": lambda m, x, y, n: m.numpy.zeros(n),
    "reshape to one size": lambda m, x, y, n: x.reshape(n * 8),
    "array of sizes": lambda m, x, y, n: m.numpy.array(x.shape),
    "median": lambda m, x, y, n: m.numpy.median(x, 0),
    "cov": lambda m, x, y, n: m.numpy.cov(x.T),
    "linspace": lambda m, x, y, n: m.numpy.linspace(0, 1, n),
    "segments": lambda m, x, y, n: m.ops.segment_sum(x, m.numpy.zeros(n, "int32"), 3),
    "svd": lambda m, x, y, n: m.numpy.linalg.svd(x)[1],
    "half as a number": lambda m, x, y, n: [n / 2, n + 1.5, 1 - n / n, n * 2.0, 7 // (n + 0.5)],
    "scan": lambda m, x, y, n: m.lax.scan(lambda c, r: (c + r, r), m.numpy.zeros(n), x.T),
    "rows that do not divide": lambda m, x, y, n: x.reshape(3, -1),
}


def types(f, m, shape):
    (b,) = shape("b", constraints=["b >= 2"])
    x, y = (m.ShapeDtypeStruct(s, np.float32) for s in ((b, 8), (b, b, 3)))
    try:
        out = m.eval_shape(lambda x, y: f(m, x, y, x.shape[0]), x, y)
    except Exception as e:
        return type(e).__name__
    return [(str(o.shape), o.dtype, o.weak_type) for o in m.tree_util.tree_leaves(out)]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    import jax.export

    f = SHAPES[name]
    assert types(f, pb, pullback.export.symbolic_shape) == types(f, jax, jax.export.symbolic_shape)


def test_same_padding_of_a_symbolic_size():
    (b,) = symbolic_shape("b", constraints=["b >= 2"])
    y = pb.ShapeDtypeStruct((1, b, b, 3), np.float32)
    kernel = np.ones((3, 3, 3, 4), np.float32)
    numbers = ("NHWC", "HWIO", "NHWC")
    for f in (
        lambda y: pb.lax.conv_general_dilated(y, kernel, (2, 2), "SAME", dimension_numbers=numbers),
        lambda y: pb.lax.reduce_window(
            y, 0.0, pb.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), padding="SAME"
        ),
    ):
        _, n, k, _ = pb.eval_shape(f, y).shape
        assert n == k
        assert [evaluate(n, {"b": size}) for size in (2, 3, 8, 9)] == [1, 2, 4, 5]


CONSTRAINTS = [
    "n >= 8",
    "n + m >= 3",
    "n == 2*m",
    "mod(n, 2) == 0",
    "floordiv(n, 2) <= m",
    "n <= 3",
]


@pytest.mark.parametrize(
    "constraint", [*CONSTRAINTS, "m >= n", "n = 3", "n > 3", "n >= ", "3*n == m"]
)
def test_constraints(constraint):
    import jax.export

    def told(export):
        try:
            n, m = export.symbolic_shape("n, m", constraints=[constraint])
        except ValueError:
            return "ValueError"
        asked = "n >= 2", "n + m >= 3", "n % 2", "n == 3", "m >= n", "n // 2 <= m", "n * 2 - m"
        return [outcome(q, {"n": n, "m": m}) for q in asked]

    assert told(pullback.export) == told(jax.export)


def test_scopes():
    export = pullback.export
    scope = export.SymbolicScope(["b >= 4"])
    (b,), (c,) = (export.symbolic_shape("b", scope=s) for s in (scope, None))
    assert b >= 4 and b == export.symbolic_shape("b", scope=scope)[0] and b != c
    assert "b >= 4" in str(scope)
    for bad in (lambda: b + c, lambda: b * c, lambda: b // c):
        with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
            bad()
    with pytest.raises(ValueError, match="Cannot specify both a `scope` and `constraints`"):
        export.symbolic_shape("b", constraints=["b >= 3"], scope=scope)
    with pytest.raises(ValueError, match="should be a sequence of strings"):
        export.SymbolicScope("b >= 4")
    with pytest.raises(ValueError, match="different size 4 for known dimension"):
        export.symbolic_shape("b, 4", like=(2, 3))


def test_types_of_arguments():
    import jax.export

    x = {"a": np.ones((3, 4), "float32"), "b": (np.ones(3, "int32"), np.ones((4, 2), "float32"))}
    for args, texts in (
        ((x,), "b, ..."),
        ((x["a"], x), ("b, _", {"a": "b, _", "b": "b, ..."})),
        ((x["a"],), None),
        ((x,), {"a": "b, _", "b": "b"}),
        ((x["a"],), ("q, r", "s")),
        ((x["a"],), "q, 5"),
    ):
        told = []
        for m in (pb, jax):
            try:
                found = m.export.symbolic_args_specs(args, texts)
            except ValueError as e:
                found = str(e).split("\n")[0].split(". Parsed")[0]
            told.append(str(found))
        assert told[0] == told[1]


def test_bounds_by_several_promises():
    a, b, c = symbolic_shape("a, b, c", constraints=["a + 2 <= b", "b <= a + 5", "a + b >= c"])
    assert bounds(b) == (3, np.inf) and bounds(b - a) == (2, 5)
    assert bounds(c - 2 * a - 5) == (-np.inf, 0)
    sizes = symbolic_shape("p, q, r, s, t", constraints=["p >= q", "q >= r", "r >= s", "s >= t"])
    assert bounds(sizes[0] - sizes[4]) == (0, np.inf)
    (n,) = symbolic_shape("n", constraints=["2*n >= 5", "3*n <= 10"])
    assert bounds(5 * n - 2) == (13, 13)
    x, y = symbolic_shape("x, y", constraints=["max(x, y) == 5", "min(x, y) == 3"])
    assert bounds(x) == (3, 5) and max_dim(x, y) == 5
    with pytest.raises(ValueError, match="Unsatisfiable constraint: d <= 2"):
        symbolic_shape("a, b, c, d", constraints=["a >= c + 1", "c >= 4", "a <= d + 2", "d <= 2"])
    for wrong in ("a == a + 1", "a <= a - 1"):
        with pytest.raises(ValueError, match="Unsatisfiable explicit constraint"):
            symbolic_shape("a", constraints=[wrong])
    (t,) = symbolic_shape(
        "t", constraints=["128*floordiv(t + mod(-1*t, 128), 128) <= t + mod(-1*t, 128)"]
    )
    assert bounds(t)[0] == 1  # promises about operations whose bounds need bounds


def test_quotients_of_polynomials():
    a, b = symbolic_shape("a, b")
    assert divmod(a * a - b * b, a + b) == (a - b, 0)
    assert divmod((a + b) * (2 * a + 3), 2 * a + 3) == (a + b, 0)
    assert str((a * a + b) // (a + b)) == "floordiv(a^2 + b, b + a)"


def test_shapes_as_text_are_read_to_the_end():
    a, b = symbolic_shape("a, b")
    assert symbolic_shape("+ a - b, + 2", scope=a.scope) == (a - b, 2)
    with pytest.raises(ValueError, match=r"syntax error in symbolic shape 'a . a'"):
        symbolic_shape("a ^ a")
    for text, like in (("b, 6, c, _", (4, 6, 7)), ("b, 7, c, ...", (4, 7))):
        with pytest.raises(ValueError, match=f"parsed 3 already and .* only {len(like)} dim"):
            symbolic_shape(text, like=like)


def test_sizes_without_values_are_refused():
    (a,) = symbolic_shape("a")
    for make in (jnp.zeros, jnp.ones, lambda shape: jnp.arange(shape[0])):
        with pytest.raises(UnexpectedDimVar, match="dimension variable 'a' that is not appearing"):
            make((a,))
    kind = pb.ShapeDtypeStruct((a,), jnp.float32)
    assert pb.eval_shape(pb.jacfwd(jnp.sin), kind).shape == (a, a)
