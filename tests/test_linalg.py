"""lax.linalg, numpy.linalg and scipy.linalg beside JAX: values, derivatives, batches, failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg

import pullback as pb
import pullback.scipy.linalg

RNG = np.random.default_rng(7)


def normal(*shape: int, complex_: bool = False) -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype("F") if complex_ else x.astype("f")


def positive(n: int, complex_: bool = False) -> Any:
    x = normal(n, n, complex_=complex_)
    return (x @ x.conj().T + np.eye(n)).astype(x.dtype)


def lax_op(name: str, **options: Any) -> Callable[..., Any]:
    return lambda lib, *xs: getattr(lib.lax.linalg, name)(*xs, **options)


def numpy_op(name: str, *rest: Any, **options: Any) -> Callable[..., Any]:
    return lambda lib, *xs: getattr(lib.numpy.linalg, name)(*xs, *rest, **options)


def scipy_op(name: str, *rest: Any, **options: Any) -> Callable[..., Any]:
    return lambda lib, *xs: getattr(lib.scipy.linalg, name)(*xs, *rest, **options)


def leaves(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [leaf for x in out for leaf in leaves(x)]
    return [np.asarray(out)]


def same(got: Any, want: Any, tolerance: float = 5e-3) -> None:
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        scale = max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
        np.testing.assert_allclose(x / scale, y / scale, atol=tolerance, rtol=0)


def weighted(lib: Any, f: Callable[..., Any], weights: list[Any]) -> Callable[..., Any]:
    def total(*xs: Any) -> Any:
        out = f(lib, *xs)
        out = out if isinstance(out, (tuple, list)) else (out,)
        pairs = zip(out, weights, strict=True)
        return sum((o * w).real.sum() for o, w in pairs if w is not None)

    return total


COMMON: list[tuple[str, Callable[..., Any], Callable[[bool], tuple[Any, ...]]]] = [
    ("cholesky", lax_op("cholesky"), lambda c: (positive(3, c),)),
    ("triangular", lax_op("triangular_solve", left_side=True, transpose_a=True, conjugate_a=True),
     lambda c: (positive(3, c), normal(3, 2, complex_=c))),
    ("triangular right", lax_op("triangular_solve", lower=True, unit_diagonal=True),
     lambda c: (positive(3, c), normal(2, 3, complex_=c))),
    ("lu", lax_op("lu"), lambda c: (normal(3, 3, complex_=c),)),
    ("lu tall", lax_op("lu"), lambda c: (normal(4, 3, complex_=c),)),
    ("lu wide", lax_op("lu"), lambda c: (normal(3, 4, complex_=c),)),
    ("qr", lax_op("qr", full_matrices=False), lambda c: (normal(4, 3, complex_=c),)),
    ("qr full", lax_op("qr"), lambda c: (normal(5, 3, complex_=c),)),
    ("qr wide", lax_op("qr"), lambda c: (normal(3, 4, complex_=c),)),
    ("qr pivoted", lax_op("qr", pivoting=True), lambda c: (normal(4, 3, complex_=c),)),
    ("eigh", lax_op("eigh"), lambda c: (positive(3, c),)),
    ("svd", lax_op("svd", full_matrices=False), lambda c: (normal(4, 3, complex_=c),)),
    ("svd values", lax_op("svd", compute_uv=False), lambda c: (normal(3, 4, complex_=c),)),
    ("eig", lax_op("eig", enable_eigvec_derivs=True), lambda c: (normal(3, 3, complex_=c),)),
    ("tridiagonal_solve", lax_op("tridiagonal_solve"),
     lambda c: (normal(4, complex_=c), normal(4, complex_=c) + 4, normal(4, complex_=c),
                normal(4, 2, complex_=c))),
    ("upper cholesky", numpy_op("cholesky", upper=True), lambda c: (positive(3, c),)),
    ("solve", numpy_op("solve"), lambda c: (positive(3, c), normal(3, complex_=c))),
    ("inv", numpy_op("inv"), lambda c: (positive(3, c),)),
    ("det", numpy_op("det"), lambda c: (normal(4, 4, complex_=c),)),
    ("slogdet", numpy_op("slogdet"), lambda c: (normal(4, 4, complex_=c),)),
    ("pinv", numpy_op("pinv"), lambda c: (normal(4, 3, complex_=c),)),
    ("norm", numpy_op("norm", "nuc"), lambda c: (normal(4, 3, complex_=c),)),
    ("expm", scipy_op("expm"), lambda c: (normal(3, 3, complex_=c),)),
    ("cho_solve", lambda lib, a, b: lib.scipy.linalg.cho_solve(lib.scipy.linalg.cho_factor(a), b),
     lambda c: (positive(3, c), normal(3, complex_=c))),
    ("lu_solve", lambda lib, a, b: lib.scipy.linalg.lu_solve(lib.scipy.linalg.lu_factor(a), b),
     lambda c: (positive(3, c), normal(3, 2, complex_=c))),
]  # fmt: skip


# Complex factorisations are the real ones' code with conjugates: every third runs each time.
AS_JAX = [
    pytest.param(f, make, complex_, id=f"{name}-{'complex' if complex_ else 'real'}",
                 marks=[pytest.mark.slow] if complex_ and k % 3 else [])
    for k, (name, f, make) in enumerate(COMMON)
    for complex_ in (False, True)
]  # fmt: skip


@pytest.mark.parametrize(("f", "make", "complex_"), AS_JAX)
def test_as_jax(f: Any, make: Any, complex_: bool) -> None:
    xs = make(complex_)
    want = f(jax, *map(jnp.asarray, xs))
    arrays = [pb.numpy.asarray(x) for x in xs]
    same(f(pb, *arrays), want)
    same(pb.jit(lambda *a: f(pb, *a))(*arrays), want)
    stacks = [np.stack([x, x * 2]) for x in xs]
    same(pb.vmap(lambda *a: f(pb, *a))(*stacks), jax.vmap(lambda *a: f(jax, *a))(*stacks))
    weights = [
        normal(*x.shape, complex_=x.dtype.kind == "c") if x.dtype.kind in "fc" else None
        for x in leaves(want)
    ]
    places = tuple(range(len(xs)))
    g_want = jax.grad(weighted(jax, f, weights), places)(*xs)
    same(pb.grad(weighted(pb, f, weights), places)(*arrays), g_want, 2e-2)
    same(pb.jit(pb.grad(weighted(pb, f, weights), places))(*arrays), g_want, 2e-2)


FORMS = ["schur", "hessenberg", "tridiagonal"]


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", FORMS)
def test_condensed_forms(name: str, complex_: bool) -> None:
    x = np.stack([positive(4, complex_), positive(4, complex_)])
    f = lax_op(name)
    same(f(pb, pb.numpy.asarray(x)), f(jax, jnp.asarray(x)))


def test_reflectors_and_updates() -> None:
    for complex_ in (False, True):
        a, taus, c = (normal(*s, complex_=complex_) for s in ((4, 3), (3,), (4, 4)))
        same(
            pb.lax.linalg.householder_product(a, taus), jax.lax.linalg.householder_product(a, taus)
        )
        for left in (True, False):
            for transpose in (True, False):
                options = {"left": left, "transpose": transpose}
                want = jax.lax.linalg.ormqr(a, taus, c, **options)
                same(pb.lax.linalg.ormqr(a, taus, c, **options), want)
    r, w = normal(3, 3), normal(3)
    same(pb.lax.linalg.cholesky_update(r, w), jax.lax.linalg.cholesky_update(r, w))
    a, c = normal(4, 3), positive(4)
    options = {"alpha": 2.0, "beta": 0.5, "symmetrize_output": True}
    want = jax.lax.linalg.symmetric_product(a, c, **options)
    same(pb.lax.linalg.symmetric_product(a, c, **options), want)


def test_second_derivatives_of_solutions() -> None:
    a, weights = positive(3), normal(3, 3)

    def of(lib: Any) -> Any:
        def inner(x: Any) -> Any:
            return (lib.numpy.linalg.inv(x) * weights).sum()

        return lib.grad(lambda x: (lib.grad(inner)(x) ** 2).sum())

    same(of(pb)(pb.numpy.asarray(a)), of(jax)(jnp.asarray(a)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["eigh", "svd", "eig"])
def test_no_result_is_nan(name: str, value: float) -> None:
    f, x = lax_op(name), np.full((2, 2), value, "f")
    same(f(pb, pb.numpy.asarray(x)), f(jax, jnp.asarray(x)))


def test_indefinite_cholesky_is_nan_for_that_matrix_alone() -> None:
    x = np.stack([np.array([[1, 2], [2, 1]], "f"), np.eye(2, dtype="f")])
    same(pb.lax.linalg.cholesky(pb.numpy.asarray(x)), jax.lax.linalg.cholesky(jnp.asarray(x)))


def test_singular_systems() -> None:
    z, b = np.zeros((3, 3), "f"), np.ones((3, 1), "f")
    f = lax_op("triangular_solve", left_side=True)
    same(f(pb, z, b), f(jax, jnp.asarray(z), jnp.asarray(b)))
    for perturb in (False, True):
        d = np.array([1, 0, 2], "f")
        f = lax_op("tridiagonal_solve", perturb_singular=perturb)
        same(f(pb, z[0], d, z[0], b), f(jax, *map(jnp.asarray, (z[0], d, z[0], b))))


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lax_op("lu"), [(3,)]),
        (lax_op("eig"), [(2, 3)]),
        (lax_op("cholesky"), [(2, 3)]),
        (lax_op("triangular_solve"), [(2, 2), (2, 3)]),
        (lax_op("triangular_solve"), [(2, 2), (3, 2, 2)]),
        (lax_op("triangular_solve", left_side=True), [(2, 4, 4), (4, 3)]),
        (lax_op("householder_product"), [(2, 3), (2,)]),
        (lax_op("tridiagonal_solve"), [(3,), (4,), (3,), (3, 1)]),
        (lax_op("hessenberg"), [(2, 3)]),
        (numpy_op("solve"), [(3, 3), (2,)]),
        (numpy_op("inv"), [(2, 3)]),
        (numpy_op("qr", "unknown"), [(2, 2)]),
    ],
)
def test_errors_have_jax_s_class(f: Any, shapes: Any) -> None:
    xs = [np.ones(s, "f") for s in shapes]
    with pytest.raises(Exception) as want:
        f(jax, *map(jnp.asarray, xs))
    with pytest.raises(want.type):
        f(pb, *map(pb.numpy.asarray, xs))


PROGRAMS = [
    (lax_op("cholesky"), [(2, 3, 3)]),
    (lax_op("eigh"), [(3, 3)]),
    (lax_op("lu"), [(4, 3)]),
    (lax_op("qr", full_matrices=False), [(4, 3)]),
    (lax_op("schur"), [(3, 3)]),
    (lax_op("tridiagonal_solve"), [(3,), (3,), (3,), (3, 1)]),
    (lax_op("triangular_solve", left_side=True), [(3, 3), (3,)]),
]


@pytest.mark.parametrize(("f", "shapes"), PROGRAMS)
def test_programs_are_jax_s(f: Any, shapes: Any) -> None:
    xs = [np.ones(s, "f") for s in shapes]
    want = str(jax.make_jaxpr(lambda *a: f(jax, *a))(*xs))
    assert str(pb.make_jaxpr(lambda *a: f(pb, *a))(*xs)) == want


WEAK: dict[str, Callable[..., Any]] = {
    "cholesky": lambda lib, x, v: lib.lax.linalg.cholesky(x),
    "cholesky_update": lambda lib, x, v: lib.lax.linalg.cholesky_update(x, v),
    "eig": lambda lib, x, v: lib.lax.linalg.eig(x),
    "eigh": lambda lib, x, v: lib.lax.linalg.eigh(x),
    "hessenberg": lambda lib, x, v: lib.lax.linalg.hessenberg(x),
    "householder_product": lambda lib, x, v: lib.lax.linalg.householder_product(x, v),
    "lu": lambda lib, x, v: lib.lax.linalg.lu(x),
    "ormqr": lambda lib, x, v: lib.lax.linalg.ormqr(x, v, x),
    "permutation": lambda lib, x, v: lib.lax.linalg.lu_pivots_to_permutation(
        lib.lax.linalg.lu(x)[1], 1
    ),
    "qr": lambda lib, x, v: lib.lax.linalg.qr(x, pivoting=True),
    "schur": lambda lib, x, v: lib.lax.linalg.schur(x),
    "svd": lambda lib, x, v: lib.lax.linalg.svd(x),
    "symmetric_product": lambda lib, x, v: lib.lax.linalg.symmetric_product(x, x),
    "triangular_solve": lambda lib, x, v: lib.lax.linalg.triangular_solve(x, x),
    "tridiagonal": lambda lib, x, v: lib.lax.linalg.tridiagonal(x),
    "tridiagonal_solve": lambda lib, x, v: lib.lax.linalg.tridiagonal_solve(v, v, v, x),
    "mixed": lambda lib, x, v: lib.lax.linalg.triangular_solve(x, lib.numpy.ones((1, 1))),
    "numpy.qr": lambda lib, x, v: lib.numpy.linalg.qr(x),
    "numpy.svd": lambda lib, x, v: lib.numpy.linalg.svdvals(x),
    "scipy.lu": lambda lib, x, v: lib.scipy.linalg.lu_factor(x),
    "grad": lambda lib, x, v: lib.grad(lambda y: lib.lax.linalg.cholesky(y).sum())(x),
}


@pytest.mark.parametrize("name", sorted(WEAK))
def test_results_are_weakly_typed_where_every_operand_is(name: str) -> None:
    """Also pivots and permutations, whose dtype is another one."""

    def weakness(lib: Any) -> list[Any]:
        x = lib.lax.broadcast(2.0, (1, 1))
        out = lib.tree.leaves(lib.eval_shape(lambda y: WEAK[name](lib, y, y[0]), x))
        return [(str(leaf.dtype), leaf.weak_type) for leaf in out]

    assert weakness(pb) == weakness(jax)


@pytest.mark.parametrize("a,b", [((2, 3, 3), (4, 3, 3)), ((2, 5, 3, 3), (2, 4, 3, 3))])
def test_triangular_solve_of_unlike_batches(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for lib in (jax, pb):
        for solve in (lib.lax.linalg.triangular_solve, lib.jit(lib.lax.linalg.triangular_solve)):
            with pytest.raises(ValueError):
                solve(np.ones(a, "f"), np.ones(b, "f"))


@pytest.mark.parametrize("calc_q", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 3), (1, 1), (0, 0), (2, 0), (0, 3, 3), ()])
def test_programs_of_hessenberg_are_jaxs(shape: tuple[int, ...], calc_q: bool) -> None:
    """One jitted function; of no columns, zeros of the operand's dtype, integers too."""

    def program(lib: Any, dtype: str) -> str:
        f = scipy_op("hessenberg", calc_q=calc_q)
        try:
            return str(lib.make_jaxpr(lambda a: f(lib, a))(np.zeros(shape, dtype)))
        except IndexError as error:
            return type(error).__name__

    assert program(pb, "f") == program(jax, "f")
    if 0 in shape[-1:]:
        assert program(pb, "i") == program(jax, "i")


def test_the_derivative_of_pinv_makes_no_long_square() -> None:
    """Of a matrix of two rows, or two columns, all that is computed is as long as it is."""
    for shape in ((2, 500), (500, 2)):
        a = normal(*shape)
        program = pb.make_jaxpr(lambda a, t: pb.jvp(pb.numpy.linalg.pinv, (a,), (t,)))(a, a)
        assert "500,500" not in str(program)
    for shape in ((3, 5), (5, 3)):
        pb.test_util.check_grads(pb.numpy.linalg.pinv, (normal(*shape),), 1, atol=0.02, rtol=0.02)


def test_rsf2csf_of_matrices_that_are_not_quasi_triangular() -> None:
    """As SciPy: what its rotations do not reach stays; and one program for any size."""
    t, z = normal(5, 5), normal(5, 5)
    for found, wanted in zip(
        pb.scipy.linalg.rsf2csf(t, z), scipy.linalg.rsf2csf(t, z), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    sizes = [
        len(str(pb.make_jaxpr(pb.scipy.linalg.rsf2csf)(normal(n, n), normal(n, n))).splitlines())
        for n in (4, 40)
    ]
    assert sizes[0] == sizes[1]
