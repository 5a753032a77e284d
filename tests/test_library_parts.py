"""Private parts of functions that libraries build their own on (quaxed and unxt those of NumPy's
functions, pyscfad those of linear algebra), beside real JAX's.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax._src.core as their_core
import jax._src.interpreters.mlir as their_mlir
import jax._src.lax.lax as their_lax
import jax._src.lax.linalg as their_linalg
import jax._src.lax.windowed_reductions as their_windows
import jax._src.numpy.array_methods as their_methods
import jax._src.numpy.index_tricks as their_tricks
import jax._src.numpy.vectorize as their_vectorize
import jax._src.scipy.sparse.linalg as their_sparse
import jax.extend.core
import numpy as np
import pytest

import pullback
import pullback.core
import pullback.extend.core
import pullback.interpreters.mlir
import pullback.jax_compat.modules._src.lax_names as our_lax
import pullback.jax_compat.modules._src.linalg_names as our_linalg
import pullback.jax_compat.modules._src.mlir_names as our_mlir
import pullback.jax_compat.modules._src.scipy.sparse.linalg as our_sparse
import pullback.jax_compat.modules._src.vectorize_names as our_vectorize
import pullback.numpy.index_tricks as our_tricks
import pullback.numpy.scatter as our_methods

OURS = SimpleNamespace(
    m=pullback, vectorize=our_vectorize, tricks=our_tricks, methods=our_methods,
    linalg=our_linalg, lax=our_lax, windows=our_lax, sparse=our_sparse, mlir=our_mlir,
    core=pullback.core, register=pullback.interpreters.mlir.register_lowering,
)  # fmt: skip
THEIRS = SimpleNamespace(
    m=jax, vectorize=their_vectorize, tricks=their_tricks, methods=their_methods,
    linalg=their_linalg, lax=their_lax, windows=their_windows, sparse=their_sparse, mlir=their_mlir,
    core=their_core, register=their_mlir.register_lowering,
)  # fmt: skip


def said(f: Any) -> Any:
    """What a function gives, or the class of its error and what it says before our advice."""
    try:
        return f()
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error).split(". Fix:")[0].split("Array(")[0]


def of_vectorize(e: Any) -> list[Any]:
    v, jnp = e.vectorize, e.m.numpy
    x, y = jnp.ones((5, 2, 3)), jnp.ones((1, 3))
    both = [("n", "m"), ("m",)]

    def called(*args: Any, **named: Any) -> Any:
        return args, named

    fun, args, named = v._apply_excluded(called, {1, "b"}, (1, 2, 3), {"b": 4, "c": 5})
    sizes = {"n": 2}
    ones = v._check_output_dims(jnp.ones, sizes, [("k",)], "there")
    known = v._check_output_dims(jnp.ones, sizes, [("n",)], "there")
    two = v._check_output_dims(jnp.ones, sizes, [("n",), ()], "there")
    return [
        said(lambda: v._parse_gufunc_signature("(n")),
        v._parse_gufunc_signature("(n,m),(m)->(n),()"),
        v._parse_input_dimensions((x, y), both),
        said(lambda: v._parse_input_dimensions((x,), both, "here")),
        said(lambda: v._parse_input_dimensions((x, jnp.ones(4)), both, "here")),
        said(lambda: v._parse_input_dimensions((jnp.ones(4),), both[:1], "here")),
        said(lambda: v._parse_input_dimensions((x, jnp.ones((4, 3))), both))[0],
        (list(args), named, fun(*args, **named)),
        v._apply_excluded(called, set(), (1, 2), {})[1:],
        (v._apply_excluded(called, {7}, (1,), {})[0](1), ones(3).shape, ones(4).shape, sizes),
        (said(lambda: known(3)), known(2).shape, said(lambda: two(2))),
    ]


def of_indices(e: Any) -> list[Any]:
    jnp = e.m.numpy

    class One(e.tricks.CClass):  # type: ignore[misc, name-defined]
        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key) + 1

    class Place(e.methods._IndexUpdateRef):  # type: ignore[misc, name-defined]
        def get(self, **how: Any) -> Any:
            return super().get(**how) * 2

    class At(e.methods._IndexUpdateHelper):  # type: ignore[misc, name-defined]
        def __getitem__(self, index: Any) -> Any:
            return Place(self.array, index)

    a = jnp.arange(3.0)
    return [
        One()[a, a].tolist(),
        e.tricks.RClass()[1:3, 5].tolist(),
        (type(jnp.c_) is e.tricks.CClass, type(jnp.r_) is e.tricks.RClass),
        (At(a)[1].get().item(), At(a)[1].set(3.0).tolist(), repr(At(a)[1])),
        type(a.at[0]) is e.methods._IndexUpdateRef,
    ]


def of_matrices(e: Any) -> list[Any]:
    z = e.m.numpy.array([[1 + 2j, 3.0], [4j, 5.0]])
    linalg = e.linalg
    programs = [e.m.make_jaxpr(f)(z) for f in (linalg.symmetrize, linalg._H, linalg._T)]
    bases = [e.lax._complex_basetype(np.dtype(d)) for d in ("complex64", "complex128", "float32")]
    return [
        *[f(z).tolist() for f in (linalg._T, linalg._H, linalg.symmetrize)],
        bases,
        *map(str, programs),
    ]


def of_gmres(e: Any) -> list[Any]:
    jnp, s = e.m.numpy, e.sparse
    noise = np.random.default_rng(0).normal(size=(6, 6)).astype("float32")
    product = s._normalize_matvec(jnp.asarray(noise + 6 * np.eye(6, dtype="float32")))
    b, start = jnp.arange(6.0), jnp.zeros(6)
    size = jnp.linalg.norm(b)
    found: list[Any] = [said(lambda: s._normalize_matvec("a")), product(b)]

    def of_tree(d: Any) -> Any:
        return {"u": 2 * d["u"], "v": 3 * d["v"] + d["u"].sum()}

    for cycle in (s._gmres_batched, s._gmres_incremental):
        found += cycle(product, b, start, b / size, size, 1e-3, 2, lambda v: v)
        found.append(s._gmres_solve(product, b, start, 1e-5, 1e-5, 6, 9, lambda v: v, cycle))
        tree = {"u": b, "v": jnp.ones(2)}
        zero = {"u": start, "v": jnp.zeros(2)}
        solved = s._gmres_solve(of_tree, tree, zero, 1e-5, 1e-5, 6, 9, lambda v: v, cycle)
        found += [solved["u"], solved["v"]]
    return found


def of_derivatives(e: Any) -> list[Any]:
    """PennyLane asks for the value at which it differentiates."""
    found: list[Any] = []

    def f(x: Any) -> Any:
        for value in (x, x * 2):
            known = e.core.to_concrete_value(value)
            found.append((known is None, x.to_concrete_value() is None))
            for force in (None, float, np.asarray):
                got = said(functools.partial(e.core.concrete_or_error, force, value))
                kind = None if isinstance(got, tuple) else type(got).__name__
                found.append(got[0] if kind is None else (kind, float(got)))
        return x * 2

    m, one = e.m, e.m.numpy.array(1.0)
    m.jvp(f, (one,), (one,)), m.grad(f)(one), m.grad(m.grad(f))(one), m.hessian(f)(one)
    m.vmap(f)(one[None]), m.jit(f)(one), m.vmap(m.grad(f))(one[None]), m.linearize(f, one)
    m.grad(m.checkpoint(f))(one), m.jit(m.grad(f))(one)
    return found


@pytest.mark.parametrize("ask", [of_derivatives, of_vectorize, of_indices, of_matrices])
def test_parts_are_as_in_jax(ask: Any) -> None:
    assert ask(OURS) == ask(THEIRS)


def test_steps_of_gmres_lead_where_those_of_jax_do() -> None:
    ours, theirs = of_gmres(OURS), of_gmres(THEIRS)
    assert ours[0] == theirs[0]
    for x, y in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)


def lowered(e: Any) -> Any:
    """A rule of lowering made of these parts: the number 7 where the argument is 2, else NaN."""
    p = e.m.extend.core.Primitive("sevens")
    p.def_abstract_eval(lambda a: a)

    def rule(ctx: Any, x: Any) -> list[Any]:
        (aval,) = ctx.avals_in
        truth = aval.update(dtype=np.dtype(bool))
        here = e.mlir.compare_hlo(x, e.mlir.full_like_aval(ctx, 2, aval), "EQ", "FLOAT")
        row = aval.update(shape=(1, *aval.shape))
        spread = e.mlir.broadcast_in_dim(
            ctx, e.mlir.full_like_aval(ctx, 7, aval), row, broadcast_dimensions=(1,)
        )
        nan = e.linalg._nan_like_hlo(ctx, aval)
        here = e.mlir.broadcast_in_dim(
            ctx, here, truth.update(shape=row.shape), broadcast_dimensions=(1,)
        )
        nan = e.mlir.broadcast_in_dim(ctx, nan, row, broadcast_dimensions=(1,))
        chosen = e.linalg._broadcasting_select_hlo(
            ctx, here, truth.update(shape=row.shape), spread, row, nan, row
        )
        return [e.mlir.hlo.reshape(x.type, chosen)]

    e.register(p, rule)
    return p


def test_rules_of_lowering_made_of_parts() -> None:
    for e in (OURS, THEIRS):
        e.mlir.hlo = their_mlir.hlo if e is THEIRS else pullback.interpreters.mlir.hlo
        got = e.m.jit(lowered(e).bind)(e.m.numpy.arange(4.0))
        np.testing.assert_array_equal(got, [np.nan, np.nan, 7, np.nan])


def of_windows(e: Any) -> list[Any]:
    """Elements gathered at the extremes of windows, put back there, and of a batch."""
    x = e.m.numpy.asarray(np.random.RandomState(0).randn(2, 4, 3).astype(np.float32))
    t = e.m.numpy.arange(24.0).reshape(2, 4, 3)
    window = (2, 1), [2, 1], [(0, 1), (0, 0)]

    def gather(t: Any, x: Any) -> Any:
        return e.windows._select_and_gather_add(t, x, e.m.lax.ge_p, *window, (1, 1), (1, 1))

    def scatter(s: Any, x: Any) -> Any:
        return e.windows._select_and_scatter_add(s, x, e.m.lax.ge_p, *window)

    made = e.m.make_jaxpr(lambda t, x: scatter(gather(t, x), x))(t[0], x[0])
    there = e.m.vmap(gather)(t, x)
    back = e.m.vmap(scatter, (0, None))(there, x[1])
    return [str(made), np.asarray(there).tolist(), np.asarray(back).tolist()]


def test_windows() -> None:
    assert of_windows(OURS) == of_windows(THEIRS)
