"""Sparse arrays against dense ones: conversions, layouts, products, derivatives, maps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.experimental.sparse as jsparse
import jax.numpy as jnumpy
import numpy as np
import pytest
import scipy.sparse

import pullback
import pullback.numpy as jnp
from pullback import export
from pullback.experimental import sparse
from pullback.experimental.sparse import test_util, transform
from pullback.extend import linear_util

RNG = np.random.default_rng(0)
M = np.where(RNG.random((5, 7)) < 0.4, RNG.normal(size=(5, 7)), 0).astype(np.float32)
N = np.where(RNG.random((7, 4)) < 0.5, RNG.normal(size=(7, 4)), 0).astype(np.float32)
X3 = np.where(RNG.random((3, 4, 5)) < 0.4, RNG.normal(size=(3, 4, 5)), 0).astype(np.float32)
V, W, B = (RNG.normal(size=s).astype(np.float32) for s in ((7,), (5,), (7, 3)))


def same(got: Any, want: Any) -> None:
    got = got.todense() if isinstance(got, sparse.JAXSparse) else got
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", (sparse.COO, sparse.CSR, sparse.CSC, sparse.BCOO, sparse.BCSR))
def test_formats(kind: Any) -> None:
    m = kind.fromdense(M)
    assert (m.shape, m.ndim, m.size, m.dtype, m.nse) == (M.shape, 2, 35, M.dtype, (M != 0).sum())
    assert repr(m) == f"{kind.__name__}(float32[5, 7], nse={(M != 0).sum()})"
    same(m, M)
    same(kind.fromdense(M, nse=30), M)
    same(pullback.jit(lambda m: m)(m), M)
    same(m @ V, M @ V)
    same(m @ B, M @ B)
    same(W @ m, W @ M)
    same(pullback.jit(lambda m, v: m @ v)(kind.fromdense(M, nse=33), V), M @ V)
    same(2 * m, 2 * M)
    same(-m, -M)
    same(m / 2, M / 2)
    if kind is not sparse.BCSR:
        same(m.T, M.T)
        same(m.T @ W, M.T @ W)
    grads = pullback.grad(lambda d, m=m: (m._with_data(d) @ V).sum())(m.data)
    same(m._with_data(grads), np.where(M != 0, V, 0))
    same(pullback.grad(lambda v, m=m: (W * (m @ v)).sum())(V), M.T @ W)
    with pytest.raises((TypeError, ValueError)):
        m @ W
    same(kind._empty((2, 3)), np.zeros((2, 3)))
    name = kind.__name__.lower()
    for k in (-1, 0, 2):
        same(sparse.eye(3, 4, k, sparse_format=name), np.eye(3, 4, k))


def test_functions_of_coo_and_csr() -> None:
    coo, csr = sparse.coo_fromdense(M), sparse.csr_fromdense(M)
    for mat, matvec, matmat in (
        (coo, sparse.coo_matvec, sparse.coo_matmat),
        (csr, sparse.csr_matvec, sparse.csr_matmat),
    ):
        same(matvec(mat, V), M @ V)
        same(matvec(mat, W, transpose=True), M.T @ W)
        same(matmat(mat, B), M @ B)
        same(matmat(mat, M, transpose=True), M.T @ M)
    same(sparse.csr_todense(csr), M)
    scipys = scipy.sparse.csr_matrix(M)
    np.testing.assert_array_equal(csr.indptr, scipys.indptr)
    np.testing.assert_array_equal(csr.indices, scipys.indices)
    same(sparse.BCSR.from_scipy_sparse(scipys), M)
    same(sparse.BCOO.from_scipy_sparse(scipys), M)


LAYOUTS = [(b, d) for b in range(4) for d in range(4 - b)]


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_layouts(n_batch: int, n_dense: int) -> None:
    m = sparse.BCOO.fromdense(X3, n_batch=n_batch, n_dense=n_dense)
    assert (m.n_batch, m.n_sparse, m.n_dense) == (n_batch, 3 - n_batch - n_dense, n_dense)
    same(m, X3)
    same(m.sum_duplicates(), X3)
    same(m.sum(1), X3.sum(1))
    same(m.sum(), X3.sum())
    same(m.reshape(6, 10), X3.reshape(6, 10))
    same(m[1], X3[1])
    same(m[:, 1:3, ::2], X3[:, 1:3, ::2])
    same(m[..., ::-1], X3[..., ::-1])
    same(m * X3[0], X3 * X3[0])
    same(m + m, X3 + X3)
    same(m - m * 3, -2 * X3)
    same(m * m, X3 * X3)
    for other in ((0, 0), (1, 1)):
        same(m.update_layout(n_batch=other[0], n_dense=other[1], on_inefficient=None), X3)
    same(m @ V[:5], X3 @ V[:5])
    same(V[:4] @ m, V[:4] @ X3)
    flat = m.update_layout(n_batch=0, n_dense=0)
    same(flat.transpose((2, 0, 1)), X3.transpose(2, 0, 1))
    numbers = (((1,), (0,)), ((0,), (1,)))
    rhs = RNG.normal(size=(4, 3, 2)).astype(np.float32)
    want = np.einsum("bij,ibk->bjk", X3, rhs)
    same(sparse.bcoo_dot_general(m, rhs, dimension_numbers=numbers), want)


def test_products_of_two() -> None:
    a, b = sparse.BCOO.fromdense(M), sparse.BCOO.fromdense(N)
    same(a @ b, M @ N)
    same(pullback.jit(lambda a, b: a @ b)(a, b), M @ N)
    x = sparse.BCOO.fromdense(X3)
    numbers = (((2,), (2,)), ((0,), (0,)))
    want = np.einsum("bij,bkj->bik", X3, X3)
    same(sparse.bcoo_dot_general(x, x, dimension_numbers=numbers), want)
    indices = np.argwhere(np.ones((5, 3)))[::2]
    sampled = sparse.bcoo_dot_general_sampled(
        M, B, indices, dimension_numbers=(((1,), (0,)), ((), ()))
    )
    same(sampled, (M @ B)[tuple(indices.T)])


def test_duplicates_and_padding() -> None:
    indices = np.array([[1, 1], [0, 2], [1, 1], [9, 9], [0, 2]])
    data = np.array([1.0, 2.0, 3.0, 100.0, -2.0], np.float32)
    m = sparse.BCOO((data, indices), shape=(2, 3))
    want = np.array([[0, 0, 0], [0, 4, 0]], np.float32)
    same(m, want)
    same(m @ np.arange(3.0, dtype=np.float32), want @ np.arange(3))
    s = m.sum_duplicates()
    assert s.nse == 2
    assert m.sum_duplicates(remove_zeros=True, nse=4).nse == 4
    none = sparse.BCOO((data[:0], indices[:0]), shape=(2, 3)).sum_duplicates(remove_zeros=True)
    assert none.nse == 0
    same(s, want)
    same(m.sort_indices(), want)
    same(m.reshape(3, 2), want.reshape(3, 2))
    same(sparse.bcoo_concatenate([m, m], dimension=1), np.concatenate([want, want], 1))
    same(sparse.bcoo_dynamic_slice(m, (1, 5), (1, 2)), want[1:, 1:])
    same(
        sparse.bcoo_broadcast_in_dim(m[:, 1:2], shape=(4, 2, 3), broadcast_dimensions=(1, 2)),
        np.broadcast_to(want[:, 1:2], (4, 2, 3)),
    )
    for bad in (((data, indices), (2,)), ((data[:2], indices), (2, 3)), ((data, data), (2, 3))):
        with pytest.raises(ValueError, match="BCOO"):
            sparse.BCOO(bad[0], shape=bad[1])
    with pytest.raises(sparse.SparseEfficiencyError):
        m.update_layout(n_dense=1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": lambda m, v: m @ v,
    "chain": lambda m, v: (2 * m.T * 3).T @ jnp.sin(v),
    "sum": lambda m, v: (m * m).sum(0) + jnp.zeros(7),
    "pointwise": lambda m, v: jnp.sin(m) @ v,
    "square": lambda m, v: (m**2) @ v,
    "slices": lambda m, v: m[1:3] @ v,
    "jitted": lambda m, v: pullback.jit(lambda m: m.T)(m).T @ v,
    "scaled": lambda m, v: m * v,
    "reshape": lambda m, v: m.reshape(7, 5).sum(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sparsify(name: str) -> None:
    f = FUNCTIONS[name]
    m = sparse.BCOO.fromdense(M)
    same(sparse.sparsify(f)(m, V), f(jnp.asarray(M), V))
    same(pullback.jit(sparse.sparsify(f))(m, V), f(jnp.asarray(M), V))


def test_sparsify_refuses() -> None:
    m = sparse.BCOO.fromdense(M)
    with pytest.raises(NotImplementedError, match="sparse rule for cos is not implemented"):
        sparse.sparsify(jnp.cos)(m)


def test_derivatives_and_maps() -> None:
    m = sparse.BCOO.fromdense(M)

    def f(m: Any, v: Any) -> Any:
        return jnp.sum((m @ v) ** 2)

    want = pullback.grad(f)(jnp.asarray(M), V)
    got = sparse.grad(f)(m, V)
    assert isinstance(got, sparse.BCOO)
    same(got, np.where(M != 0, want, 0))
    value, (gm, gv) = sparse.value_and_grad(f, (0, 1))(m, V)
    same(value, f(jnp.asarray(M), V))
    same(gm, np.where(M != 0, want, 0))
    same(gv, pullback.grad(f, 1)(jnp.asarray(M), V))
    for jac in (sparse.jacfwd, sparse.jacrev, sparse.jacobian):
        same(
            jac(lambda m: m @ V)(m),
            np.where(M != 0, pullback.jacrev(lambda m: m @ V)(jnp.asarray(M)), 0),
        )
    batch = sparse.BCOO.fromdense(np.stack([M, 2 * M]), n_batch=1)
    same(pullback.vmap(lambda m, v: m @ v, (0, None))(batch, V), np.stack([M @ V, 2 * M @ V]))
    same(batch @ V, np.stack([M @ V, 2 * M @ V]))


def test_random() -> None:
    key = pullback.random.key(0)
    m = sparse.random_bcoo(key, (4, 5, 6), nse=0.3, n_batch=1, dtype=jnp.float32)
    assert m.shape == (4, 5, 6)
    assert m.nse == 9
    assert len({tuple(p) for p in np.asarray(m.indices[0])}) == 9


@pytest.mark.parametrize("sort", (False, True))
@pytest.mark.parametrize("unique", (False, True))
@pytest.mark.parametrize(
    "form",
    (
        {"shape": (6, 7)},
        {"shape": (3, 4, 5), "n_batch": 1, "nse": 0.4},
        {"shape": (3, 4, 5), "n_batch": 1, "n_dense": 1, "nse": 2},
        {"shape": (2, 3), "n_batch": 2, "indices_dtype": "int8"},
    ),
)
def test_random_arrays_are_jaxs_for_the_same_key(
    form: dict[str, Any], unique: bool, sort: bool
) -> None:
    import jax.experimental.sparse

    options = {**form, "dtype": "float32", "unique_indices": unique, "sorted_indices": sort}
    got = sparse.random_bcoo(pullback.random.key(3), **options)
    want = jax.experimental.sparse.random_bcoo(jax.random.key(3), **options)
    assert np.array_equal(got.indices, want.indices)
    assert np.array_equal(got.data, want.data)
    assert (got.indices.dtype, got.indices_sorted, got.unique_indices) == (
        want.indices.dtype, want.indices_sorted, want.unique_indices,
    )  # fmt: skip


def test_random_arrays_refuse_numbers_that_are_no_share() -> None:
    key = pullback.random.key(0)
    for nse in (1.0, 2.5, 0.0):
        with pytest.raises(AssertionError, match=f"nse={nse}, expected an integer, or a share"):
            sparse.random_bcoo(key, (6, 7), nse=nse, dtype="float32")
    for many in (42, 50, -1, -0.5):
        with pytest.raises(ValueError, match="expected to be between 0 and 42"):
            sparse.random_bcoo(key, (6, 7), nse=many, dtype="float32")
    with pytest.raises(ValueError, match="does not have enough range"):
        sparse.random_bcoo(key, (300, 9), indices_dtype="uint8", dtype="float32")


def test_dense_times_sparse_is_the_sparse_arrays_operator() -> None:
    dense = np.array([[1, 0, 2], [0, 3, 0]], np.float32)
    m, x = sparse.BCOO.fromdense(dense), np.array([1, 2], np.float32)
    for left in (x, jnp.asarray(x)):
        assert np.array_equal(left @ m, x @ dense)
    assert np.array_equal((jnp.float32(2) * m).todense(), 2 * dense)
    assert np.array_equal(pullback.jit(lambda x: x @ m)(x), x @ dense)


def test_no_more_is_stored_than_there_are_places() -> None:
    m = sparse.BCOO.fromdense(jnp.arange(1.0, 21).reshape(5, 4))
    dense = np.asarray(m.todense())
    for out, want in (
        (m[1, 2], dense[1, 2]),
        (m[::-2, ::2], dense[::-2, ::2]),
        (m.T @ m, dense.T @ dense),
        (sparse.bcoo_dynamic_slice(m, (1, 1), (2, 2)), dense[1:3, 1:3]),
    ):
        assert out.nse == np.size(want)
        np.testing.assert_allclose(out.todense(), want, rtol=1e-6)
    assert float(m.sum()) == dense.sum() and not isinstance(m.sum(), sparse.BCOO)


def test_sparsify_keeps_the_format_and_refuses_to_fill() -> None:
    dense = jnp.array([[1.0, 0, 2], [0, 3, 0]])
    m, rows = sparse.BCOO.fromdense(dense), sparse.BCSR.fromdense(dense)
    assert sparse.sparsify(lambda m: m + m)(m).nse == m.nse
    assert np.array_equal(sparse.sparsify(lambda m: m - dense)(m), jnp.zeros((2, 3)))
    for f in (lambda m: m + 1, lambda m: 1 - m):
        with pytest.raises(NotImplementedError, match="densification"):
            sparse.sparsify(f)(m)
    for f in (jnp.sin, lambda m: jnp.concatenate([m, m]), lambda m: jnp.stack([m, m], 1)):
        for x in (m, rows):
            out = sparse.sparsify(f)(x)
            np.testing.assert_allclose(out.todense(), f(dense), rtol=1e-6)
    assert isinstance(sparse.sparsify(jnp.sin)(rows), sparse.BCSR)
    jac = sparse.jacfwd(lambda m: m @ jnp.ones(3))(rows)
    assert isinstance(jac, sparse.BCSR)
    want = np.zeros((2, 2, 3))
    want[0, 0, [0, 2]] = want[1, 1, 1] = 1
    assert np.array_equal(jac.todense(), want)
    other = sparse.CSR.fromdense(dense)
    for use in (sparse.sparsify(jnp.sin), iter, lambda m: m[0], np.asarray):
        with pytest.raises(NotImplementedError, match="CSR"):
            use(other)


@pytest.mark.parametrize("kind", (sparse.BCOO, sparse.BCSR))
def test_vmap_over_batch_axes(kind: Any) -> None:
    """Inside, an element has the shape of an element; outside, the axis is a batch axis again."""
    m = kind.fromdense(X3, n_batch=1)
    v = np.arange(5, dtype=np.float32)
    shapes = []

    def f(m: Any) -> Any:
        shapes.append((m.shape, m.n_batch))
        return m @ v, m * 2, m.todense()

    product, twice, dense = pullback.jit(pullback.vmap(f))(m)
    assert shapes[0] == ((4, 5), 0) and (twice.shape, twice.n_batch) == ((3, 4, 5), 1)
    for got, want in ((product, X3 @ v), (twice, 2 * X3), (dense, X3)):
        same(got, want)
    made = pullback.vmap(lambda x: kind.fromdense(x, nse=20))(X3)
    assert made.n_batch == 1
    same(made, X3)
    grads = pullback.vmap(lambda m: pullback.grad(lambda v: ((m @ v) ** 2).sum())(v))(m)
    same(grads, 2 * np.einsum("bij,bi->bj", X3, X3 @ v))
    for bad in (1, -1):
        with pytest.raises(ValueError, match="batch dimension"):
            pullback.vmap(lambda m: m.todense(), in_axes=bad)(m)


def test_index_vectors_and_sampled_products_in_batches() -> None:
    m = sparse.BCOO.fromdense(X3)
    picked = np.array([2, 0, -1, 2])
    same(m[:, picked], X3[:, picked])
    same(m[1:, :, np.array([1, 0])], X3[1:, :, np.array([1, 0])])
    same(m[np.abs(picked), picked], X3[np.abs(picked), picked])
    left, right = RNG.normal(size=(3, 4, 2)), RNG.normal(size=(3, 2, 5))
    where = sparse.BCOO.fromdense(X3, n_batch=1)
    got = sparse.bcoo_dot_general_sampled(
        left.astype("f"), right.astype("f"), where.indices,
        dimension_numbers=(((2,), (1,)), ((0,), (0,))),
    )  # fmt: skip
    same(sparse.BCOO((got, where.indices), shape=X3.shape), (X3 != 0) * (left @ right))


def test_products_never_make_the_dense_matrix() -> None:
    """No value of a product's program, forwards or backwards, is as large as the matrix."""
    n = 50

    def sizes(jaxpr: Any) -> Any:
        for eqn in jaxpr.eqns:
            yield from (int(np.prod(v.aval.shape)) for v in eqn.outvars)
            for inner in eqn.params.values():
                if hasattr(inner, "jaxpr"):
                    yield from sizes(inner.jaxpr)

    dense = np.diag(np.arange(1.0, n + 1, dtype=np.float32))
    for kind in (pullback.experimental.sparse.CSR, pullback.experimental.sparse.COO):
        matrix = kind.fromdense(dense)
        for operand in (np.ones(n, np.float32), np.ones((n, 3), np.float32)):
            for program in (
                lambda m, x: m @ x,
                pullback.grad(lambda m, x: (m @ x).sum(), 1),
            ):
                closed = pullback.make_jaxpr(program)(matrix, operand)
                assert max(sizes(closed.jaxpr)) < n * n


DENSE = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5]], np.float32)
PLACES = np.argwhere(DENSE).astype(np.int32)
STARTS = np.array([0, 2, 3, 5], np.int32)


def named_matrices(lib: Any) -> dict[str, Any]:
    """One matrix in each format, made without computing anything."""
    s, data = lib.experimental.sparse, DENSE[tuple(PLACES.T)]
    sorted_once: dict[str, Any] = {"indices_sorted": True, "unique_indices": True}
    return {
        "bcoo": s.BCOO((data, PLACES), shape=(3, 4), **sorted_once),
        "bcsr": s.BCSR((data, PLACES[:, 1], STARTS), shape=(3, 4)),
        "coo": s.COO((data, *PLACES.T), shape=(3, 4), rows_sorted=True),
        "csr": s.CSR((data, PLACES[:, 1], STARTS), shape=(3, 4)),
    }


NAMED: dict[str, Any] = {  # (sparse, matrix, dense vectors) -> the operation
    "todense": lambda s, m: m.todense(),
    "matvec": lambda s, m: m @ np.ones(4, np.float32),
    "matmat": lambda s, m: m @ np.ones((4, 2), np.float32),
    "fromdense": lambda s, m: type(m).fromdense(DENSE, nse=3),
    "any": lambda s, m: s.todense(m),
}
NAMED_BCOO: dict[str, Any] = {
    "from the left": lambda s, m: s.bcoo_dot_general(
        np.ones(3, np.float32), m, dimension_numbers=(((0,), (0,)), ((), ()))
    ),
    "transpose": lambda s, m: m.T,
    "sort": lambda s, m: m.sort_indices().data,
    "product": lambda s, m: m @ m.T,
    "extract": lambda s, m: s.bcoo_extract(m, DENSE).data,
    "sampled": lambda s, m: s.bcoo_dot_general_sampled(
        DENSE, DENSE.T, m.indices, dimension_numbers=(((1,), (0,)), ((), ()))
    ),
}


def sparse_equations(lib: Any, f: Any, mat: Any) -> list[Any]:
    """(name, parameters) of the program's equations of sparse primitives."""
    s = lib.experimental.sparse
    names = {str(getattr(s, n)) for n in dir(s) if n.endswith("_p")}
    found = lib.make_jaxpr(lambda m: f(s, m))(mat).jaxpr.eqns
    return [
        (e.primitive.name, {k: str(v) for k, v in e.params.items() if k != "tree"})
        for e in found
        if e.primitive.name in names
    ]


@pytest.mark.parametrize("kind", ("bcoo", "bcsr", "coo", "csr"))
def test_programs_name_their_sparse_operations(kind: str) -> None:
    import jax.experimental.sparse

    cases = {**NAMED, **(NAMED_BCOO if kind == "bcoo" else {})}
    for name, f in cases.items():
        got, want = (sparse_equations(lib, f, named_matrices(lib)[kind]) for lib in (pullback, jax))
        got, want = (str(x).replace("jax.numpy", "numpy") for x in (got, want))
        assert got == want and got != "[]", name
    wanted = {n for n in dir(jax.experimental.sparse) if n.endswith("_p")}
    assert wanted <= set(dir(pullback.experimental.sparse))


def test_rules_of_sparse_primitives() -> None:
    """Those of the functions that they mean: against the dense matrix."""
    s = pullback.experimental.sparse
    m = named_matrices(pullback)["csr"]
    v, data = jnp.arange(4.0), m.data
    lines = jnp.stack([v, 2 * v])

    def product(d: Any, x: Any) -> Any:
        return s.csr_matvec_p.bind(d, m.indices, m.indptr, x, shape=(3, 4), transpose=False)

    np.testing.assert_allclose(product(data, v), DENSE @ np.arange(4))
    np.testing.assert_allclose(pullback.vmap(product, (None, 0))(data, lines), lines @ DENSE.T)
    np.testing.assert_allclose(pullback.jacfwd(product, 1)(data, v), DENSE)
    np.testing.assert_allclose(pullback.jacrev(product, 1)(data, v), DENSE)
    slope = pullback.grad(lambda d: product(d, v).sum())(data)
    np.testing.assert_allclose(slope, np.arange(4)[PLACES[:, 1]])
    (back,) = pullback.linear_transpose(lambda x: product(data, x), v)(jnp.ones(3))
    np.testing.assert_allclose(back, DENSE.sum(0))
    b = named_matrices(pullback)["bcoo"]
    outs, slopes = pullback.jvp(lambda x: s.BCOO.fromdense(x, nse=5).data, (DENSE,), (2 * DENSE,))
    np.testing.assert_allclose(slopes, 2 * outs)
    np.testing.assert_allclose(outs, b.data)


WINDOWS = (
    ({"window_strides": (1,), "padding": "SAME"}, 1),
    ({"window_strides": (2,), "padding": [(2, 1)], "rhs_dilation": (2,)}, 1),
    ({"window_strides": (1,), "padding": [(3, 0)], "lhs_dilation": (3,)}, 1),
    ({"window_strides": (1, 2), "padding": "VALID"}, 2),
)


@pytest.mark.parametrize(("how", "n"), WINDOWS)
def test_convolution_of_sparse_arrays(how: dict[str, Any], n: int) -> None:
    rng = np.random.default_rng(n)
    x, k = (
        (rng.random(size) * (rng.random(size) < 0.5)).astype(np.float32)
        for size in (((2, 3) + (6,) * n), ((4, 3) + (3,) * n))
    )
    s = pullback.experimental.sparse
    want = pullback.lax.conv_general_dilated(x, k, **how)
    for right in (s.BCOO.fromdense(k, n_batch=2), k):
        got = s.bcoo_conv_general_dilated(s.BCOO.fromdense(x, n_batch=2), right, **how)
        np.testing.assert_allclose(got.todense(), want, rtol=1e-5, atol=1e-6)


def test_gather_of_sparse_arrays() -> None:
    """(vectors of starts, dimension numbers, sizes, mode, JAX's nse, its elements)."""
    lax = pullback.lax
    rows, boxes = ((1,), (0,), (0,)), ((1, 2), (), (0, 1))
    cases = (
        ([[0], [2], [2]], rows, (1, 4), None, 4, DENSE[[0, 2, 2]]),
        ([[0], [5], [-1]], rows, (1, 4), "promise_in_bounds", 4, DENSE[[0, 2, 2]]),
        ([[0, 1], [1, 2]], boxes, (2, 2), None, 4, [DENSE[:2, 1:3], DENSE[1:, 2:]]),
        ([1, 0], ((), (0, 1), (0, 1)), (1, 1), None, 1, 3),
        ([[2], [0]], ((0,), (0,), (0,)), (1, 4), "clip", 8, DENSE[[2, 0]].T),
    )
    m = named_matrices(pullback)["bcoo"]
    for starts, numbers, sizes, mode, nse, want in cases:
        dims = lax.GatherDimensionNumbers(*numbers)
        got = pullback.experimental.sparse.bcoo_gather(m, np.array(starts), dims, sizes, mode=mode)
        assert got.nse == nse
        np.testing.assert_array_equal(got.todense(), want)


def test_sparsify_of_loops_branches_and_tracers() -> None:
    s, lax = pullback.experimental.sparse, pullback.lax
    m = named_matrices(pullback)["bcoo"]
    cases = {
        "cond": lambda a: lax.cond(a.sum() > 0, lambda a: a * 2, lambda a: a * 3, a),
        "while": lambda a: lax.fori_loop(0, 3, lambda i, c: c * 2, a),
        "scan": lambda a: lax.scan(lambda c, x: (c * x, c.sum()), a, jnp.arange(1.0, 3.0)),
        "take": lambda a: a[jnp.array([0, 2])],
        "convolve": lambda a: jnp.convolve(a[0], a[2]),
    }
    for name, f in cases.items():
        want = f(jnp.asarray(DENSE))
        for use_tracer in (False, True):
            got = pullback.tree.map(
                s.todense,
                s.sparsify(f, use_tracer=use_tracer)(m),
                is_leaf=lambda x: isinstance(x, s.BCOO),
            )
            for a, b in zip(pullback.tree.leaves(got), pullback.tree.leaves(want), strict=True):
                np.testing.assert_allclose(a, b, err_msg=name)
    kinds = []
    s.sparsify(lambda a: kinds.append((type(a), repr(a))) or a * 2, use_tracer=True)(m)
    assert kinds == [(s.SparseTracer, "SparseTracer<float32[3,4]>")]
    with pytest.raises(NotImplementedError, match="fill"):
        s.sparsify(lambda a: a.at[jnp.array([7])].get(mode="fill"))(m)


def test_functions_of_dense_arrays_refuse_sparse_ones() -> None:
    """With JAX's class of error; and comparisons are not those of objects."""
    m = sparse.BCOO.fromdense(jnp.eye(2))
    for mat in (m, sparse.BCSR.fromdense(jnp.eye(2)), sparse.COO.fromdense(jnp.eye(2))):
        for f in (jnp.sin, jnp.sum, lambda x: jnp.add(x, 1)):
            with pytest.raises(TypeError, match="todense"):
                f(mat)
    for compare in (operator.eq, operator.ne, operator.lt, operator.ge):
        for other in (m, 2.0, np.eye(2)):
            with pytest.raises(NotImplementedError, match="todense"):
                compare(m, other)
            with pytest.raises(NotImplementedError, match="todense"):
                compare(other, m)


def test_formats_claim_what_jaxs_claim() -> None:
    csr = sparse.BCSR.fromdense(M)
    for m in (csr, csr.sum_duplicates(), csr.to_bcoo(), sparse.BCSR.from_bcoo(csr.to_bcoo())):
        assert not m.indices_sorted
        assert not m.unique_indices
    coo = sparse.COO.fromdense(M)
    assert coo.tree_flatten()[1] == {
        "shape": (5, 7),
        "rows_sorted": True,
        "cols_sorted": False,
    }
    assert coo._info == ((5, 7), True, False)
    assert not coo.T._rows_sorted
    assert coo.T._sort_indices()._rows_sorted
    np.testing.assert_array_equal(coo.T._sort_indices().row, np.nonzero(M.T)[0])
    same(coo.T._sort_indices(), M.T)
    squeezed = sparse.BCOO.fromdense(M[None]).sum_duplicates()
    assert sparse.bcoo_squeeze(squeezed, dimensions=(0,)).indices_sorted


@pytest.mark.parametrize("kind", (sparse.COO, sparse.CSR, sparse.CSC))
def test_what_is_stored_beyond_the_elements_is_a_zero_at_the_first_place(kind: Any) -> None:
    m = kind.fromdense(M, nse=30)
    count = (M != 0).sum()
    for part in m.tree_flatten()[0][1:]:
        if part.shape == (30,):
            assert not np.asarray(part)[count:].any()
    same(m @ V, M @ V)


def test_products_of_batches_of_matrices_broadcast() -> None:
    m = sparse.BCOO.fromdense(X3[None], n_batch=2)
    right = RNG.normal(size=(2, 1, 5, 2)).astype(np.float32)
    same(m @ right, X3[None] @ right)
    same(
        right.swapaxes(-1, -2) @ sparse.BCOO.fromdense(X3.swapaxes(1, 2), n_batch=1),
        right.swapaxes(-1, -2) @ X3.swapaxes(1, 2),
    )
    same(sparse.BCOO.fromdense(M) * sparse.BCOO.fromdense(M[1]), M * M[1])
    with pytest.raises(TypeError, match="number of axes"):
        sparse.bcoo_multiply_sparse(sparse.BCOO.fromdense(M), sparse.BCOO.fromdense(M[1]))


def test_rows_of_a_sampled_product() -> None:
    rows = jnp.array([[3], [0], [3]])
    got = sparse.bcoo_dot_general_sampled(M, N, rows, dimension_numbers=(((1,), (0,)), ((), ())))
    same(got, (M @ N)[[3, 0, 3]])


def test_sparse_arrays_are_no_operands_of_functions_of_dense_ones() -> None:
    m = sparse.BCOO.fromdense(M)
    for f in (jnp.sin, pullback.lax.sin, lambda x: jnp.add(x, 1), jnp.sum):
        with pytest.raises(TypeError):
            f(m)
        with pytest.raises(TypeError, match="sparsify"):
            pullback.jit(f)(m)
    for f in (jnp.array, jnp.asarray, pullback.jit(jnp.asarray)):
        with pytest.raises(ValueError, match="setting an array element with a sequence"):
            f(m)
    for kind in (sparse.BCOO, sparse.BCSR, sparse.COO):
        with pytest.raises(pullback.errors.ConcretizationTypeError):
            pullback.jit(kind.fromdense)(M)


def test_parts_that_do_not_fit_are_refused() -> None:
    data, at, rows = np.ones(3, np.float32), np.array([0, 1, 1]), np.array([0, 1, 3, 3])
    same(sparse.BCSR((data, at, rows), shape=(3, 2)), [[1, 0], [0, 2], [0, 0]])
    for parts, shape in (
        ((data[:2], at, rows), (3, 2)),
        ((data, at.astype(np.float32), rows), (3, 2)),
        ((data, at, rows), (4, 2)),
        ((data, at, rows), (3, 2, 1)),
        ((data[:, None], at, rows), (3, 2, 2)),
    ):
        with pytest.raises(ValueError, match="BCSR"):
            sparse.BCSR(parts, shape=shape)


def test_todense_of_a_tree() -> None:
    got = sparse.todense({"a": sparse.CSR.fromdense(M), "b": [jnp.asarray(V), 2.0]})
    same(got["a"], M)
    same(got["b"][0], V)
    assert float(got["b"][1]) == 2.0


def test_rules_that_users_add() -> None:
    """`sparse_rules_bcoo` is JAX's table: rules are called with buffers' numbers."""
    m = sparse.BCOO.fromdense(M)
    with pytest.raises(NotImplementedError, match="cos"):
        sparse.sparsify(jnp.cos)(m)

    def stored(spenv: Any, x: Any, **_: Any) -> tuple[Any]:
        assert (x.is_bcoo(), x.is_bcsr(), x.is_dense(), x.ndim) == (True, False, False, 2)
        data = jnp.cos(spenv.data(x))
        return (spenv.sparse(x.shape, data, indices_ref=x.indices_ref),)

    transform.sparse_rules_bcoo[pullback.lax.cos_p] = stored
    try:
        for use_tracer in (False, True):
            out = sparse.sparsify(lambda x: 2 * jnp.cos(x), use_tracer)(m)
            same(out, np.where(M != 0, 2 * np.cos(M), 0))
    finally:
        del transform.sparse_rules_bcoo[pullback.lax.cos_p]


def test_programs_of_buffers() -> None:
    env = transform.SparsifyEnv()
    values = transform.arrays_to_spvalues(
        env, (sparse.BCOO.fromdense(M), sparse.BCSR.fromdense(M), jnp.asarray(V))
    )
    assert [v.shape for v in values] == [(5, 7), (5, 7), (7,)]
    assert [v.is_bcsr() for v in values] == [False, True, False]
    assert [a.shape for a in transform.spvalues_to_avals(env, values)] == [(5, 7), (5, 7), (7,)]
    for x, want in zip(transform.spvalues_to_arrays(env, values), (M, M, V), strict=True):
        same(x, want)
    outs, structure = transform.sparsify_raw(lambda a, b, v: {"x": a @ v, "y": [-b]})(env, *values)
    got = structure.unflatten(transform.spvalues_to_arrays(env, outs))
    same(got["x"], M @ V)
    assert isinstance(got["y"][0], sparse.BCSR)
    same(got["y"][0], -M)
    rule = transform.sparse_rules_bcoo[pullback.lax.neg_p]
    (negative,) = transform.spvalues_to_arrays(env, rule(env, values[0]))
    same(negative, -M)
    with pytest.raises(RuntimeError, match="indices"):
        env.indices(values[2])
    with pytest.raises(ValueError, match="either data or data_ref"):
        env.sparse((2, 2))


MASK4, MASK6 = np.array([True, False, True, True]), np.array([True, False, True, True, False, True])
KEYS = [
    MASK4, (slice(None), MASK6), (np.array([0, 3]), np.array([2, -1])), np.array([[0, 1], [1, 0]]),
    (np.array([[0], [3]]), np.array([2, 3])), (1, np.array([0, 3])), (None, np.array([2]), None),
    True, (Ellipsis, MASK6), np.arange(24).reshape(4, 6) % 5 == 3,
    (slice(None, None, -1), np.array([5, 0])),
]  # fmt: skip


@pytest.mark.parametrize("n_batch", (0, 1))
def test_index_arrays_and_masks(n_batch: int) -> None:
    dense = jnp.asarray(np.where(np.arange(24) % 3, 0, np.arange(24.0)).reshape(4, 6))
    mat = sparse.BCOO.fromdense(dense, n_batch=n_batch)
    for key in KEYS:
        got = mat[key]
        want = np.asarray(dense)[key]
        assert got.shape == want.shape, key
        np.testing.assert_array_equal(got.todense(), want)
    cube = jnp.stack([dense, 2 * dense])
    got = sparse.BCOO.fromdense(cube)[1, :, np.array([0, 3])]
    np.testing.assert_array_equal(got.todense(), cube[1, :, np.array([0, 3])])
    got = sparse.BCOO.fromdense(cube)[np.array([0, 1]), :, np.array([0, 3])]
    np.testing.assert_array_equal(got.todense(), cube[np.array([0, 1]), :, np.array([0, 3])])
    for error, key in (
        (IndexError, MASK6),
        (TypeError, 0.5),
        (TypeError, "a"),
        (TypeError, [0, 2]),
    ):
        with pytest.raises(error):
            mat[key]
    with pytest.raises(pullback.errors.NonConcreteBooleanIndexError):
        pullback.jit(lambda m, k: m[k])(mat, MASK4)


def _arguments() -> list[Any]:
    return [sparse.random_bcoo(pullback.random.key(1), (3, 4), nse=5), np.ones((4,), np.float32)]


def test_derivatives_of_trees_and_of_batched_and_dense_axes() -> None:
    """Trees that hold sparse arrays have sparse derivatives in them; results may be trees, too."""
    dense = jnp.array([[1.0, 0.0], [0.0, 2.0]])
    m, x = sparse.BCOO.fromdense(dense), jnp.array([1.0, 2.0])
    by_tree = sparse.jacrev(lambda d: {"a": d["m"] @ d["x"], "b": d["m"].sum()})({"m": m, "x": x})
    assert by_tree["a"]["m"].shape == (2, 2, 2) and by_tree["b"]["m"].shape == (2, 2)
    np.testing.assert_array_equal(by_tree["a"]["m"].todense(), [[[1, 0], [0, 0]], [[0, 0], [0, 2]]])
    np.testing.assert_array_equal(by_tree["a"]["x"], dense)
    for layout in ({"n_batch": 1}, {"n_dense": 1}, {"n_batch": 1, "n_dense": 1}):
        m = sparse.BCOO.fromdense(dense, **layout)
        jac = sparse.jacfwd(lambda m: m.sum(1).todense())(m)
        assert jac.shape == (2, 2, 2) and jac.n_batch == m.n_batch + 1 and jac.n_dense == m.n_dense
        full = np.array([[[1, 1], [0, 0]], [[0, 0], [1, 1]]]) * (1 if m.n_dense else dense != 0)
        np.testing.assert_array_equal(jac.todense(), full)
    with pytest.raises(ValueError, match="2 positional"):
        sparse.grad(lambda m, x: (m @ x).sum(), argnums=2)(m, x)


def test_the_class_of_tests_finds_what_differs() -> None:
    case = test_util.SparseTestCase()
    product = lambda m, x: m @ x
    case._CheckAgainstDense(product, product, _arguments)
    case._CheckGradsSparse(product, product, _arguments)
    for bdims in ((0, None), (None, 0), (0, 1), None):
        case._CheckBatchingSparse(product, product, _arguments, bdims=bdims)
    m = _arguments()[0]
    case.assertSparseArraysEquivalent(m, m)
    twice = lambda m, x: 2 * (m @ x)
    for check in (case._CheckAgainstDense, case._CheckGradsSparse, case._CheckBatchingSparse):
        with pytest.raises(AssertionError):
            check(product, twice, _arguments)
    with pytest.raises(AssertionError):
        case.assertSparseArraysEquivalent(m, 2 * m)


def test_a_function_of_buffers_by_sparsify_subtrace() -> None:
    m = sparse.BCSR.fromdense(jnp.eye(3))
    env = transform.SparsifyEnv()
    values = transform.arrays_to_spvalues(env, [m, jnp.ones(3)])
    fun, out = transform.sparsify_subtrace(
        linear_util.wrap_init(lambda m, x: [m @ x]), None, env, values
    )
    buffers = fun.call_wrapped(*env._buffers)
    result = buffers[out()[0].data_ref]
    np.testing.assert_array_equal(result, np.ones(3))


def test_a_number_of_elements_is_an_integer() -> None:
    for make in (sparse.BCOO.fromdense, sparse.BCSR.fromdense):
        with pytest.raises(TypeError):
            make(jnp.eye(3), nse=2.5)


def test_the_functions_keep_stored_zeros_and_the_methods_drop_them() -> None:
    data = np.array([1.0, 0.0, 2.0, 3.0, -3.0], "f")
    places = [[0, 2], [0, 1], [0, 2], [1, 1], [1, 1]]
    rows = np.array([[1.0, -1.0], [0.0, 0.0], [-1.0, 1.0]], "f")

    def found(S: Any, np_: Any) -> Any:
        m = S.BCOO((np_.asarray(data), np_.asarray(places)), shape=(2, 3))
        b = S.BCOO((np_.asarray(rows), np_.asarray([[0], [1], [0]])), shape=(2, 2))
        r = S.BCSR((m.data[:4], m.indices[:4, 1], np_.asarray([0, 3, 4])), shape=(2, 3))
        for x in (m, b):
            for nse in (None, 2, 4):
                yield S.bcoo_sum_duplicates(x, nse=nse)
                yield x.sum_duplicates(nse=nse)
                yield x.sum_duplicates(nse=nse, remove_zeros=False)
        yield S.bcsr_sum_duplicates(r)
        yield r.sum_duplicates()
        yield m[:1]

    for ours, theirs in zip(found(sparse, jnp), found(jsparse, jnumpy), strict=True):
        for x, y in ((ours.data, theirs.data), (ours.indices, theirs.indices)):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def test_sizes_with_names() -> None:
    (n,) = export.symbolic_shape("n")
    types = [pullback.ShapeDtypeStruct((4,), "float32"), pullback.ShapeDtypeStruct((4, 2), "int32")]

    def shape(function: Callable[..., Any]) -> Any:
        of = lambda d, i: function(sparse.BCOO((d, i), shape=(n, 3)))
        return pullback.eval_shape(of, *types).shape

    assert shape(lambda m: m.todense()) == (n, 3) and shape(lambda m: m.T) == (3, n)
    assert shape(lambda m: m @ jnp.ones((3, 2))) == (n, 2)
    assert shape(lambda m: sparse.bcoo_multiply_dense(m, jnp.ones((1, 3)))) == (4,)


def test_sums_along_axes_that_are_not_there() -> None:
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    for module in (sparse, jsparse):
        matrix = module.BCOO.fromdense(dense)
        for axis in (2, -3, (0, 5)):
            with pytest.raises(ValueError, match="out of bounds"):
                matrix.sum(axis=axis)
        assert (matrix.sum(axis=-1).todense() == dense.sum(-1)).all()


REFUSED = {
    "concatenate": lambda S, m: S.bcoo_concatenate([m, m], dimension=2),
    "concatenate from the end": lambda S, m: S.bcoo_concatenate([m, m], dimension=-1),
    "concatenate half an axis": lambda S, m: S.bcoo_concatenate([m, m], dimension=0.5),
    "concatenate of two dtypes": lambda S, m: S.bcoo_concatenate(
        [m, m.astype(np.int32)], dimension=0
    ),
    "squeeze": lambda S, m: S.bcoo_squeeze(m[None], dimensions=(3,)),
    "squeeze half an axis": lambda S, m: S.bcoo_squeeze(m[None], dimensions=(0.5,)),
    "rev from the end": lambda S, m: S.bcoo_rev(m, dimensions=(-1,)),
    "rev twice": lambda S, m: S.bcoo_rev(m, dimensions=(0, 0)),
    "rev half an axis": lambda S, m: S.bcoo_rev(m, dimensions=(0.5,)),
    "transpose from the end": lambda S, m: S.bcoo_transpose(m, permutation=(-1, 0)),
    "transpose half an axis": lambda S, m: S.bcoo_transpose(m, permutation=(1.5, 0)),
    "reshape": lambda S, m: S.bcoo_reshape(m, new_sizes=(5,)),
    "slice": lambda S, m: S.bcoo_slice(m, start_indices=(0, 0), limit_indices=(9, 2)),
    "slice of too few": lambda S, m: S.bcoo_slice(m, start_indices=(0,), limit_indices=(1,)),
    "dynamic slice of too few": lambda S, m: S.bcoo_dynamic_slice(m, (0,), (1, 1)),
    "dynamic slice": lambda S, m: S.bcoo_dynamic_slice(m, (0.5, 0), (1, 1)),
    "sum_duplicates": lambda S, m: S.bcoo_sum_duplicates(m, nse=1.5),
    "empty": lambda S, m: S.empty((1.5,)),
    "matmul of a list": lambda S, m: m @ [1.0, 2.0, 3.0],
    "a list's matmul": lambda S, m: [1.0, 2.0] @ m,
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_do_not_fit(name: str) -> None:
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    with pytest.raises((TypeError, ValueError)) as wanted:
        REFUSED[name](jsparse, jsparse.BCOO.fromdense(dense))
    with pytest.raises(wanted.type):
        REFUSED[name](sparse, sparse.BCOO.fromdense(dense))


def test_sums_with_dense_arrays_that_are_larger() -> None:
    """A sparse array is broadcast to the shape of the dense one, never the other way."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)

    def found(S: Any, np_: Any) -> Any:
        dense = np_.asarray(values)
        row, vector = S.BCOO.fromdense(dense[1:]), S.BCOO.fromdense(dense[1])
        both = S.sparsify(lambda x, y: x + y)
        return row + dense, dense + vector, row + dense[None], both(row, dense)

    for ours, theirs in zip(found(sparse, jnp), found(jsparse, jnumpy), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    m = sparse.BCOO.fromdense(jnp.asarray(values))
    for y, shape in ((1.0, r"\(\)"), (jnp.ones(3), r"\(3,\)")):
        with pytest.raises(NotImplementedError, match=rf"X.shape=\(2, 3\), Y.shape={shape}"):
            m + y
    with pytest.raises(NotImplementedError, match="a BCOO and a BCSR"):
        m + sparse.BCSR.fromdense(jnp.asarray(values))


def test_bools_are_stored_as_integers() -> None:
    """So that elements at one place can add up: as in JAX, `todense` of bools is refused."""
    values = np.array([[True, False, True], [False, True, True]])
    for made in (
        lambda ns: ns.BCOO.fromdense(values),
        lambda ns: ns.BCOO.fromdense(values, n_batch=1),
        lambda ns: ns.BCOO.fromdense(values, n_dense=1),
        lambda ns: ns.BCOO.fromdense(values, nse=6),
        lambda ns: ns.BCSR.fromdense(values),
    ):
        got, want = made(sparse), made(jsparse)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.data, want.data)
        dense = got.todense()
        assert dense.dtype == np.int32
        np.testing.assert_array_equal(dense, values)
    for kind in (sparse.COO, sparse.CSR, sparse.CSC):  # XLA refuses JAX's programs for these
        for made in (kind.fromdense, pullback.jit(lambda m, kind=kind: kind.fromdense(m, nse=5))):
            stored = made(jnp.asarray(values))
            assert stored.dtype == np.int32
            np.testing.assert_array_equal(stored.todense(), values)
            np.testing.assert_array_equal(stored @ jnp.ones(3, bool), values.sum(1))
