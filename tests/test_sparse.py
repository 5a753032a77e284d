"""BCOO beside real JAX's: products, sums, transposes and conversions, in jit, grad and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse

import pullback as pb
import pullback.numpy as pnp
from pullback.experimental import sparse

DENSE = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5]], np.float32)
BOTH = [(jax, jnp, jax_sparse), (pb, pnp, sparse)]

PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "todense": lambda j, n, s, m: m.todense(),
    "indices": lambda j, n, s, m: m.indices,
    "matrix vector": lambda j, n, s, m: m @ n.arange(4.0),
    "matrix matrix": lambda j, n, s, m: m @ n.arange(8.0).reshape(4, 2),
    "vector matrix": lambda j, n, s, m: n.arange(3.0) @ m,
    "dense sparse": lambda j, n, s, m: n.arange(6.0).reshape(2, 3) @ m,
    "sparse sparse": lambda j, n, s, m: (m @ m.T).todense(),
    "transpose": lambda j, n, s, m: m.T.todense(),
    "sum": lambda j, n, s, m: m.sum(),
    "sum of columns": lambda j, n, s, m: m.sum(0).todense(),
    "reshape": lambda j, n, s, m: m.reshape(2, 6).todense(),
    "scaled": lambda j, n, s, m: (m * 3).todense(),
    "negative": lambda j, n, s, m: (-m + m * 2).todense(),
    "times an array": lambda j, n, s, m: (m * n.arange(4.0)).todense(),
    "duplicates": lambda j, n, s, m: (m + m).sum_duplicates().data,
    "jit": lambda j, n, s, m: j.jit(lambda m, x: m @ x)(m, n.ones(4)),
    "jit fromdense": lambda j, n, s, m: j.jit(
        lambda x: s.BCOO.fromdense(x, nse=6).todense())(m.todense()),
    "grad": lambda j, n, s, m: j.grad(
        lambda d: ((s.BCOO((d, m.indices), shape=m.shape) @ n.arange(4.0)) ** 2).sum())(m.data),
    "vmap": lambda j, n, s, m: j.vmap(lambda d: s.BCOO((d, m.indices), shape=m.shape).todense())(
        n.stack([m.data, m.data * 2])),
    "dense axes": lambda j, n, s, m: s.BCOO.fromdense(m.todense(), n_dense=1).data,
    "scipy": lambda j, n, s, m: s.BCOO.from_scipy_sparse(
        scipy.sparse.csr_matrix(DENSE)).todense(),
    "eye": lambda j, n, s, m: s.eye(3, 4, k=1).todense(),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name: str) -> None:
    found = []
    for j, n, s in BOTH:
        found.append(np.asarray(PROGRAMS[name](j, n, s, s.BCOO.fromdense(n.asarray(DENSE)))))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert found[0].dtype == found[1].dtype


def test_object_and_errors() -> None:
    m = sparse.BCOO.fromdense(pnp.asarray(DENSE))
    assert repr(m) == "BCOO(float32[3, 4], nse=5)" and (m.ndim, m.size, len(m)) == (2, 12, 3)
    assert len(pb.tree.leaves(m)) == 2 and m.astype(np.int32).dtype == np.int32
    assert sparse.empty((2, 3)).todense().tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match="needs nse"):
        pb.jit(lambda x: sparse.BCOO.fromdense(x).data)(m.todense())
    with pytest.raises(ValueError, match="matmul of a BCOO"):
        m @ pnp.ones(3)
    with pytest.raises(ValueError, match="invalid BCOO"):
        sparse.BCOO((pnp.ones(2), pnp.zeros((2, 1, 1), int)), shape=(3,))
    with pytest.raises(TypeError, match="todense"):
        m + pnp.ones((3, 4))
