"""Symbolic sizes: arithmetic and order as in JAX, and programs over them print as JAX's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.core.dims import evaluate, max_dim, min_dim, symbolic_shape
from pullback.errors import InconclusiveDimensionOperation

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
