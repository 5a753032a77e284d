"""Which axes of sparse results are batch, sparse and dense ones, and how much they store: as
recorded of JAX 0.10.2; and the submodules of `experimental.sparse`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax
from pullback.experimental import sparse

RNG = np.random.RandomState(0)
X = np.where(RNG.rand(3, 4, 5) < 0.4, RNG.randn(3, 4, 5), 0).astype(np.float32)

broadcast = sparse.bcoo_broadcast_in_dim

# An operation, what it does to a dense array, and (n_batch, n_sparse, n_dense, nse) of its result
# for n_batch, n_dense = 0, 0; 0, 1; 0, 2; 1, 0. None: JAX refuses.
Layout = tuple[int, int, int, int] | None
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[Layout, ...]]] = {
    "sum 0": (lambda m: m.sum(0), lambda x: x.sum(0),
              ((0, 2, 0, 19), (0, 1, 1, 10), (0, 0, 2, 3), (0, 2, 0, 33))),
    "sum 2": (lambda m: m.sum(2), lambda x: x.sum(2),
              ((0, 2, 0, 19), (0, 2, 0, 10), (0, 1, 1, 3), (1, 1, 0, 11))),
    "sum all": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 1, 2)), lambda x: x.sum(),
                ((0, 0, 0, 19), (0, 0, 0, 10), (0, 0, 0, 3), (0, 0, 0, 33))),
    "reshape": (lambda m: m.reshape(3, 2, 2, 5), lambda x: x.reshape(3, 2, 2, 5),
                ((0, 4, 0, 19), (0, 3, 1, 10), None, (1, 3, 0, 11))),
    "reshape in front": (lambda m: m.reshape(1, 3, 4, 5), lambda x: x[None],
                         ((1, 3, 0, 19), None, None, (2, 2, 0, 11))),
    "reshape behind": (lambda m: m.reshape(3, 4, 5, 1), lambda x: x[..., None],
                       ((0, 4, 0, 19), (0, 2, 2, 10), None, (1, 3, 0, 11))),
    "reshape mixed": (lambda m: m.reshape(6, 10), lambda x: x.reshape(6, 10),
                      ((0, 2, 0, 19), None, None, None)),
    "broadcast": (
        lambda m: broadcast(m, shape=(2, 3, 4, 5), broadcast_dimensions=(1, 2, 3)),
        lambda x: np.stack([x, x]),
        ((1, 3, 0, 19), (1, 2, 1, 10), None, (2, 2, 0, 11))),
    "broadcast inside": (
        lambda m: broadcast(m, shape=(3, 2, 4, 5), broadcast_dimensions=(0, 2, 3)),
        lambda x: np.stack([x, x], 1),
        (None, None, None, (2, 2, 0, 11))),
    "broadcast behind": (
        lambda m: broadcast(m, shape=(3, 4, 5, 2), broadcast_dimensions=(0, 1, 2)),
        lambda x: np.stack([x, x], 3),
        (None, (0, 2, 2, 10), None, None)),
    "index": (lambda m: m[1], lambda x: x[1],
              ((0, 2, 0, 19), (0, 1, 1, 4), (0, 0, 2, 1), (0, 2, 0, 11))),
    "too large": (lambda m: m[7], lambda x: x[2],
                  ((0, 2, 0, 19), (0, 1, 1, 4), (0, 0, 2, 1), None)),
    "slice": (lambda m: m[:, 1:3], lambda x: x[:, 1:3],
              ((0, 3, 0, 19), (0, 2, 1, 6), (0, 1, 2, 3), (1, 2, 0, 10))),
    "backwards": (lambda m: m[:, :, ::-1], lambda x: x[:, :, ::-1],
                  ((0, 3, 0, 19), (0, 2, 1, 10), (0, 1, 2, 3), (1, 2, 0, 11))),
    "nothing": (lambda m: m[2:2], lambda x: x[2:2],
                ((0, 3, 0, 0), (0, 2, 1, 0), (0, 1, 2, 0), None)),
    "new axis": (lambda m: m[None], lambda x: x[None],
                 ((1, 3, 0, 19), (1, 2, 1, 10), (1, 1, 2, 3), (2, 2, 0, 11))),
    "new axis inside": (lambda m: m[:, None], lambda x: x[:, None],
                        ((0, 4, 0, 19), (0, 3, 1, 10), (0, 2, 2, 3), (2, 2, 0, 11))),
    "index vector": (lambda m: m[np.array([0, 2])], lambda x: x[[0, 2]],
                     ((1, 2, 0, 19), None, None, None)),
    "concatenate": (lambda m: sparse.bcoo_concatenate([m, m], dimension=0),
                    lambda x: np.concatenate([x, x]),
                    ((0, 3, 0, 38), (0, 2, 1, 20), (0, 1, 2, 6), None)),
    "add": (lambda m: m + m, lambda x: x + x,
            ((0, 3, 0, 38), (0, 2, 1, 20), (0, 1, 2, 6), None)),
    "power": (lambda m: m**2, lambda x: x**2,
              ((0, 3, 0, 19), (0, 2, 1, 10), (0, 1, 2, 3), None)),
    "reverse": (lambda m: sparse.bcoo_rev(m, (0, 2)), lambda x: x[::-1, :, ::-1],
                (None, (0, 2, 1, 10), (0, 1, 2, 3), None)),
    "layout": (lambda m: m.update_layout(n_batch=1, n_dense=1, on_inefficient=None), lambda x: x,
               (None, (1, 1, 1, 10), (1, 1, 1, 12), None)),
    "dense rows": (lambda m: m.update_layout(n_batch=0, n_dense=1, on_inefficient=None),
                   lambda x: x, (None, (0, 2, 1, 10), (0, 2, 1, 12), None)),
}  # fmt: skip
LAYOUTS = ((0, 0), (0, 1), (0, 2), (1, 0))


def same(got: Any, want: Any) -> None:
    got = got.todense() if isinstance(got, sparse.JAXSparse) else got
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_results_have_jaxs_layout(name: str) -> None:
    f, dense, wanted = CASES[name]
    for (n_batch, n_dense), want in zip(LAYOUTS, wanted, strict=True):
        out = f(sparse.BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense))
        same(out, dense(X))
        if want is not None:
            assert (out.n_batch, out.n_sparse, out.n_dense, out.nse) == want, (n_batch, n_dense)


def test_a_reshape_to_its_own_shape_keeps_the_layout() -> None:
    """An axis of one beside the batch is no part of it; what is known of the order stays known."""
    out = sparse.BCOO.fromdense(jnp.eye(2)[:, :1], n_batch=1).reshape(2, -1)
    assert (out.n_batch, out.n_sparse, out.indices_sorted, out.unique_indices) == (1, 1, True, True)


def test_what_a_slice_leaves_out_is_no_part_of_rows() -> None:
    """Padding stands between elements then: the array is not called sorted."""
    m = sparse.BCOO.fromdense(X[0])[1:, 1:]
    assert not m.indices_sorted
    same(sparse.BCSR.from_bcoo(m), X[0, 1:, 1:])
    same(sparse.BCSR.from_bcoo(m) @ np.ones(4, np.float32), X[0, 1:, 1:].sum(1))


def test_products_of_sparse_arrays_repeat_axes_of_one() -> None:
    m, row = sparse.BCOO.fromdense(X), sparse.BCOO.fromdense(X[:1])
    twice = sparse.BCOO((jnp.ones(2), jnp.array([[0], [0]])), shape=(1,))
    for n_dense in (0, 1):
        a, b = (sparse.BCOO.fromdense(x, n_dense=n_dense) for x in (X, X[:1]))
        same(a * b, X * X[:1])
        same(b * a, X * X[:1])
    same(m * row * m, X * X[:1] * X)
    same(twice * sparse.BCOO.fromdense(jnp.ones(3)), [2.0, 2.0, 2.0])
    same(m + X, 2 * X)
    same(X - m, 0 * X)
    for bad in (lambda: m + 1, lambda: 1 / m, lambda: m**-1, lambda: m**0.5):
        with pytest.raises(NotImplementedError, match="sparse"):
            bad()


def test_products_of_sparse_arrays_store_what_jaxs_do() -> None:
    """Elementwise: the pairs that meet, then room for all pairs. Matrix products: each place that
    any pair has, once and in order, zeros too; batch axes stay such. As JAX 0.10.2 prints them.
    """
    m = sparse.BCOO((jnp.array([1.0, 2, 3]), jnp.array([[0, 1], [1, 0], [1, 1]])), shape=(2, 2))
    n = sparse.BCOO((jnp.array([10.0, 20]), jnp.array([[0, 0], [1, 1]])), shape=(2, 2))
    for out, data, indices in (
        (m @ n, [0, 20, 20, 60], [[0, 0], [0, 1], [1, 0], [1, 1]]),
        (m * n, [60] + [0] * 5, [[1, 1]] + [[2, 2]] * 5),
    ):
        np.testing.assert_array_equal(out.data, data)
        np.testing.assert_array_equal(out.indices, indices)
    v = sparse.BCOO((jnp.array([1.0, 2]), jnp.array([[1], [0]])), shape=(2,))
    assert ((v @ v).nse, float((v @ v).todense())) == (1, 5.0)
    a, b = (sparse.BCOO.fromdense(x, n_batch=1) for x in (X, X * 2))
    dot = lambda x, y, *batch: sparse.bcoo_dot_general(
        x, y, dimension_numbers=(((2,), (2,)), (batch, batch))
    )
    for out, want, layout in (
        (dot(a, b, 0), np.einsum("nij,nkj->nik", X, 2 * X), (1, 2, 16)),
        (dot(a, sparse.BCOO.fromdense(X)), np.einsum("nij,mkj->nimk", X, X), (1, 3, 48)),
        (dot(sparse.BCOO.fromdense(X), b), np.einsum("nij,mkj->nimk", X, 2 * X), (0, 4, 144)),
        (
            a * sparse.BCOO.fromdense(X[0, 0]),
            X * X[0, 0],
            (1, 2, a.nse * int((X[0, 0] != 0).sum())),
        ),
    ):
        assert (out.n_batch, out.n_sparse, out.nse) == layout
        same(out, want)


CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 4, 6), (6, 2, 3), {"padding": "SAME", "feature_group_count": 2}),
    ((4, 2, 6), (6, 2, 3), {"padding": "VALID", "batch_group_count": 2}),
    ((2, 2, 5), (3, 2, 2), {"padding": [(1, 2)], "rhs_dilation": (2,)}),
    ((2, 5, 3), (2, 3, 2), {"padding": "SAME", "dimension_numbers": ("NWC", "WIO", "NWC")}),
)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: Any) -> None:
    shape, kernel_shape, how = case
    rng = np.random.RandomState(1)
    x, k = (
        np.where(rng.rand(*s) < 0.5, rng.randn(*s), 0).astype(np.float32)
        for s in (shape, kernel_shape)
    )
    want = lax.conv_general_dilated(x, k, (1,), **how)
    a, b = sparse.BCOO.fromdense(x, n_batch=1), sparse.BCOO.fromdense(k)
    same(sparse.bcoo_conv_general_dilated(a, b, window_strides=(1,), **how), want)


def test_convolutions_have_two_batch_axes_and_laxs_errors() -> None:
    x, k = (sparse.BCOO.fromdense(jnp.ones((1, 1, n)), n_batch=2) for n in (6, 3))
    conv = sparse.bcoo_conv_general_dilated
    out = conv(x, k, window_strides=(1,), padding="SAME")
    assert (out.n_batch, out.n_sparse, out.nse) == (2, 1, 18)
    one: dict[str, Any] = {"window_strides": (1,), "padding": "SAME"}
    with pytest.raises(RuntimeError, match="padding"):
        conv(x, k, window_strides=(1,), padding="bad")
    with pytest.raises(TypeError, match="pads"):
        conv(x, k, window_strides=(1,), padding=[(1, 2), (1, 2)])
    with pytest.raises(ValueError, match="window_strides"):
        conv(x, k, window_strides=(1, 1), padding="SAME")
    with pytest.raises(TypeError, match="same dtypes"):
        conv(x, k.astype(np.int32), **one)
    with pytest.raises(ValueError, match="feature_group_count"):
        conv(x, sparse.BCOO.fromdense(jnp.ones((1, 3, 3))), **one)


@pytest.mark.parametrize("n_batch", (0, 1))
def test_gather_along_batches_of_both(n_batch: int) -> None:
    m = sparse.BCOO.fromdense(X, n_batch=n_batch)
    starts = np.array([[1], [3], [0]])
    numbers = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    want = lax.gather(X, starts, numbers, (1, 1, 5), mode="clip")
    got = sparse.bcoo_gather(m, starts, numbers, (1, 1, 5))
    same(got, want)
    assert (got.n_batch, got.n_sparse) == (1, 1)


# --- submodules ---
SUBMODULES = {
    "ad": "grad value_and_grad jacfwd jacrev jacobian is_sparse",
    "api": "empty eye todense todense_p",
    "bcoo": "BCOO bcoo_conv_general_dilated bcoo_gather bcoo_eliminate_zeros bcoo_todense_p",
    "bcsr": "BCSR bcsr_eliminate_zeros bcsr_todense_p",
    "coo": "COO COOInfo coo_matvec",
    "csr": "CSC CSR csr_matvec csr_matmat_p",
    "linalg": "lobpcg_standard spsolve spsolve_p",
    "random": "random_bcoo",
    "test_util": "rand_bcoo rand_bcsr rand_sparse iter_subsets iter_sparse_layouts SparseLayout",
    "transform": "sparsify SparseTracer SparseTrace",
    "util": "SparseInfo SparseEfficiencyError SparseEfficiencyWarning nfold_vmap broadcasting_vmap",
}


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_have_jaxs_names(name: str) -> None:
    module = importlib.import_module(f"pullback.experimental.sparse.{name}")
    assert not [n for n in SUBMODULES[name].split() if not hasattr(module, n)]
    assert getattr(sparse, name) is module


def test_direct_solver_and_its_derivatives() -> None:
    from pullback.experimental.sparse.linalg import spsolve

    rng = np.random.RandomState(2)
    dense = (rng.rand(8, 8) * (rng.rand(8, 8) < 0.3) + 3 * np.eye(8)).astype(np.float32)
    b = rng.randn(8).astype(np.float32)
    m = sparse.CSR.fromdense(dense)

    def of_sparse(d: Any, b: Any) -> Any:
        return (spsolve(d, m.indices, m.indptr, b) ** 2).sum()

    def of_dense(a: Any, b: Any) -> Any:
        return (jnp.linalg.solve(a, b) ** 2).sum()

    same(spsolve(m.data, m.indices, m.indptr, b), np.linalg.solve(dense, b))
    same(pullback.jit(spsolve)(m.data, m.indices, m.indptr, b), np.linalg.solve(dense, b))
    by_data, by_b = pullback.grad(of_sparse, (0, 1))(m.data, b)
    by_dense, want_b = pullback.grad(of_dense, (0, 1))(dense, b)
    same(by_b, want_b)
    same(by_data, np.asarray(by_dense)[dense != 0])
    (eqn,) = pullback.make_jaxpr(spsolve)(m.data, m.indices, m.indptr, b).eqns
    assert (eqn.primitive.name, eqn.params) == ("spsolve", {"tol": 1e-6, "reorder": 1})
    parts = (m.data, m.indices, m.indptr)
    for wrong in ((b[:3], 1), (b.astype(np.int32), 1), (np.stack([b, b], 1), 1), (b, 7)):
        with pytest.raises(ValueError, match="spsolve"):
            spsolve(*parts, wrong[0], reorder=wrong[1])


def test_largest_eigenpairs_by_products() -> None:
    from pullback.experimental.sparse.linalg import lobpcg_standard

    rng = np.random.RandomState(3)
    q = np.linalg.qr(rng.randn(30, 30))[0]
    a = ((q * np.arange(1, 31)) @ q.T).astype(np.float32)
    start = rng.randn(30, 3).astype(np.float32)
    stored = sparse.BCOO.fromdense(a)
    for matrix in (a, lambda v: stored @ v):
        theta, U, steps = lobpcg_standard(matrix, start)
        np.testing.assert_allclose(theta, [30, 29, 28], rtol=1e-5)
        np.testing.assert_allclose(np.abs(q.T[[29, 28, 27]] @ np.asarray(U)), np.eye(3), atol=1e-3)
        assert 1 < int(steps) <= 100
    assert int(lobpcg_standard(a, start, m=2)[2]) == 2
    for bad in (start[:, 0], start[:, :0], np.ones((30, 6), np.float32)):
        with pytest.raises(ValueError, match="X"):
            lobpcg_standard(a, bad)


def test_rows_with_more_batch_axes() -> None:
    """`m[None]` of a BCSR, as in JAX; whole slices change nothing, other indices are refused."""
    m = sparse.BCSR.fromdense(X[0])
    for key, batch in ((None, 1), ((None, None), 2), ((None, ...), 1), (slice(None), 0), (..., 0)):
        out = m[key]
        assert (out.n_batch, out.shape) == (batch, (1,) * batch + m.shape)
        assert np.array_equal(out.todense(), X[0][key])
    for bad in (0, slice(2), (None, 0), (slice(None), None)):
        with pytest.raises(NotImplementedError, match="use a BCOO"):
            m[bad]


def test_squares_of_unique_elements_stay_unique() -> None:
    """A sparse array times itself has its indices, as in JAX."""
    m = sparse.BCOO.fromdense(X[0])
    out = sparse.sparsify(lambda x: x * x)(m)
    assert (out.nse, out.indices_sorted, out.unique_indices) == (m.nse, True, True)
    assert np.allclose(out.todense(), X[0] ** 2)
