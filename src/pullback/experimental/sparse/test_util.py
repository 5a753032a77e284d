"""Random sparse arrays, the layouts of a shape, and a class of tests that compare functions of
sparse arrays with functions of dense ones: for tests of one's own functions.
"""

from __future__ import annotations

import functools
import itertools
import unittest
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import numpy as jnp, tree
from ...api.jacobians import jacfwd, jacrev
from ...api.jit import jit
from ...api.vmap import vmap
from .api import todense
from .base import is_sparse
from .bcoo import BCOO
from .bcsr import BCSR

# How far products may be from those of dense arrays, by dtype.
MATMUL_TOL = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


class SparseLayout(NamedTuple):
    """How many axes of each kind an array has."""

    n_batch: int
    n_dense: int
    n_sparse: int


class BatchedDotGeneralProperties(NamedTuple):
    """A product of two batched arrays."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: Any


def iter_subsets(s: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Every subset of a sequence, as a tuple, the small ones first.

    >>> from pullback.experimental.sparse import test_util
    >>> list(test_util.iter_subsets([1, 2]))
    [(), (1,), (2,), (1, 2)]
    """
    return itertools.chain.from_iterable(itertools.combinations(s, k) for k in range(len(s) + 1))


def iter_sparse_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """Every layout of a BCOO array of this shape.

    >>> from pullback.experimental.sparse import test_util
    >>> len(list(test_util.iter_sparse_layouts((2, 3))))
    6
    """
    for n_batch in range(min_n_batch, len(shape) + 1):
        for n_dense in range(len(shape) + 1 - n_batch):
            n_sparse = len(shape) - n_batch - n_dense
            yield SparseLayout(n_batch=n_batch, n_dense=n_dense, n_sparse=n_sparse)


def iter_bcsr_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """Every layout of a BCSR array of this shape: two of its axes are sparse.

    >>> from pullback.experimental.sparse import test_util
    >>> len(list(test_util.iter_bcsr_layouts((2, 3, 4))))
    2
    """
    return (x for x in iter_sparse_layouts(shape, min_n_batch) if x.n_sparse == 2)


def _normal(rng: Any) -> Callable[..., Any]:
    return lambda shape, dtype: 3 * rng.standard_normal(shape).astype(dtype)


def rand_sparse(
    rng: Any,
    nse: float = 0.5,
    post: Callable[[Any], Any] = lambda x: x,
    rand_method: Callable[..., Any] = _normal,
) -> Callable[..., Any]:
    """A function of (shape, dtype) that makes random arrays of which some elements are zero: all
    but `nse`, a number or a share. `rng`: a NumPy random state.

    >>> from pullback.experimental.sparse import test_util
    >>> make = test_util.rand_sparse(np.random.RandomState(0), nse=2)
    >>> int((make((3, 4), np.float32) != 0).sum())
    2
    """

    def make(shape: Sequence[int], dtype: Any) -> Any:
        full = rand_method(rng)(tuple(shape), dtype)
        size = int(np.prod(shape))
        count = int(size - nse) if nse >= 1 else round(size * (1 - nse))
        gone = rng.choice(size, size=max(0, min(size, count)), replace=False)
        out = np.array(full).reshape(-1)
        out[gone] = 0
        return post(out.reshape(tuple(shape)))

    return make


def _random(
    cls: Any, shape: Any, dtype: Any, *, rng: Any, rand_method: Any, nse: Any, **axes: int
) -> Any:
    """A random sparse array; what `rand_bcoo` was given is given anew by keywords."""
    dense = rand_sparse(rng, nse=nse, rand_method=rand_method)
    return cls.fromdense(dense(shape, dtype), **axes)


def rand_bcoo(
    rng: Any,
    rand_method: Callable[..., Any] = _normal,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., BCOO]:
    """A function of (shape, dtype) that makes random BCOO arrays; keywords of this function that
    it is given stand for one call.

    >>> from pullback.experimental.sparse import test_util
    >>> make = test_util.rand_bcoo(np.random.RandomState(0), nse=2)
    >>> make((3, 4), np.float32)
    BCOO(float32[3, 4], nse=2)
    """
    given: dict[str, Any] = {
        "rand_method": rand_method,
        "nse": nse,
        "n_batch": n_batch,
        "n_dense": n_dense,
    }
    return functools.partial(_random, BCOO, rng=rng, **given)


def rand_bcsr(
    rng: Any,
    rand_method: Callable[..., Any] = _normal,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., BCSR]:
    """A function of (shape, dtype) that makes random BCSR arrays, as `rand_bcoo` does.

    >>> from pullback.experimental.sparse import test_util
    >>> make = test_util.rand_bcsr(np.random.RandomState(0), nse=2)
    >>> make((3, 4), np.float32)
    BCSR(float32[3, 4], nse=2)
    """
    given: dict[str, Any] = {
        "rand_method": rand_method,
        "nse": nse,
        "n_batch": n_batch,
        "n_dense": n_dense,
    }
    return functools.partial(_random, BCSR, rng=rng, **given)


class SparseTestCase(unittest.TestCase):
    """A test of functions of sparse arrays, beside the same functions of dense ones.

    >>> from pullback.experimental import sparse
    >>> from pullback.experimental.sparse import test_util
    >>> make = lambda: [sparse.BCOO.fromdense(jnp.eye(2)), jnp.ones(2)]
    >>> test_util.SparseTestCase()._CheckAgainstDense(jnp.matmul, lambda m, x: m @ x, make)
    """

    def rng(self) -> np.random.RandomState:
        """The test's generator: every call gives the same one, and every run the same numbers."""
        if not hasattr(self, "_rng"):
            self._rng = np.random.RandomState(zlib.crc32(self._testMethodName.encode()))
        return self._rng

    def assertAllClose(
        self,
        actual: Any,
        desired: Any,
        *,
        check_dtypes: bool = True,
        atol: float | None = None,
        rtol: float | None = None,
        canonicalize_dtypes: bool = True,
        err_msg: str = "",
    ) -> None:
        """Trees of one structure, of arrays of one shape and dtype, close to each other."""
        leaves, structure = tree.flatten(actual)
        wanted, wanted_structure = tree.flatten(desired)
        self.assertEqual(structure, wanted_structure, err_msg)
        for x, y in zip(leaves, wanted, strict=True):
            if check_dtypes:
                self.assertEqual(jnp.result_type(x), jnp.result_type(y), err_msg)
            x, y = np.asarray(x), np.asarray(y)
            self.assertEqual(x.shape, y.shape, err_msg)
            near = MATMUL_TOL.get(np.dtype(y.real.dtype), 1e-6)
            np.testing.assert_allclose(
                x, y, near if rtol is None else rtol, near if atol is None else atol,
                err_msg=err_msg,
            )  # fmt: skip

    def assertSparseArraysEquivalent(
        self,
        x: Any,
        y: Any,
        *,
        check_dtypes: bool = True,
        atol: float | None = None,
        rtol: float | None = None,
        canonicalize_dtypes: bool = True,
        err_msg: str = "",
    ) -> None:
        """Sparse arrays of one class, shape and number of stored elements, close to each other."""
        self.assertIs(type(x), type(y), err_msg)
        self.assertEqual(x.shape, y.shape, err_msg)
        self.assertEqual(x.nse, y.nse, err_msg)
        limits = {"atol": atol, "rtol": rtol, "err_msg": err_msg}
        options: dict[str, Any] = {**limits, "canonicalize_dtypes": canonicalize_dtypes}
        self.assertAllClose(todense(x), todense(y), check_dtypes=check_dtypes, **options)

    def _CheckAgainstDense(
        self,
        dense_op: Callable[..., Any],
        sparse_op: Callable[..., Any],
        args_maker: Callable[[], Sequence[Any]],
        check_jit: bool = True,
        check_dtypes: bool = True,
        tol: float | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        canonicalize_dtypes: bool = True,
    ) -> None:
        """`sparse_op` of some arrays is `dense_op` of the dense ones, compiled or not."""
        args = args_maker()
        wanted = dense_op(*todense(args))
        limits = {"atol": tol if atol is None else atol, "rtol": tol if rtol is None else rtol}
        options: dict[str, Any] = {**limits, "canonicalize_dtypes": canonicalize_dtypes}
        for op in (sparse_op, jit(sparse_op)) if check_jit else (sparse_op,):
            found = todense(op(*args))
            self.assertAllClose(found, wanted, check_dtypes=check_dtypes, **options)

    def _CheckGradsSparse(
        self,
        dense_fun: Callable[..., Any],
        sparse_fun: Callable[..., Any],
        args_maker: Callable[[], Sequence[Any]],
        *,
        argnums: Sequence[int] | None = None,
        modes: Sequence[str] = ("fwd", "rev"),
        atol: float | None = None,
        rtol: float | None = None,
    ) -> None:
        """The derivatives by what is stored are those of the dense function."""
        args = list(args_maker())
        leaves, structure = tree.flatten(args)
        chosen = range(len(args)) if argnums is None else argnums
        owners = [k for k, arg in enumerate(args) for _ in tree.leaves(arg)]
        free = [
            n
            for n, (k, x) in enumerate(zip(owners, leaves, strict=True))
            if k in chosen and jnp.issubdtype(jnp.result_type(x), np.inexact)
        ]

        def of_data(fun: Callable[..., Any], *data: Any) -> Any:
            full = list(leaves)
            for n, x in zip(free, data, strict=True):
                full[n] = x
            return todense(fun(*tree.unflatten(structure, full)))

        data = [leaves[n] for n in free]
        for mode in modes:
            jacobian = {"fwd": jacfwd, "rev": jacrev}[mode]
            found, wanted = (
                jacobian(lambda *d, f=f: of_data(f, *d), tuple(range(len(data))))(*data)
                for f in (sparse_fun, lambda *xs: dense_fun(*todense(xs)))
            )
            self.assertAllClose(found, wanted, atol=atol, rtol=rtol)

    def _random_bdims(self, *args: int) -> list[int | None]:
        """An axis to map over for each argument, of which so many there are, or None; some is."""
        while True:
            found = [[None, *range(n + 1)][self.rng().randint(n + 2)] for n in args]
            if not args or any(axis is not None for axis in found):
                return found

    def _CheckBatchingSparse(
        self,
        dense_fun: Callable[..., Any],
        sparse_fun: Callable[..., Any],
        args_maker: Callable[[], Sequence[Any]],
        *,
        batch_size: int = 3,
        bdims: Sequence[int | None] | None = None,
        check_jit: bool = False,
        check_dtypes: bool = True,
        tol: float | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        canonicalize_dtypes: bool = True,
    ) -> None:
        """`vmap` of the function is `vmap` of the dense one, over any axis that is a batch one."""
        groups = list(zip(*(args_maker() for _ in range(batch_size)), strict=True))
        if bdims is None:
            axes = [getattr(g[0], "n_batch", None) for g in groups]
            given = zip(axes, groups, strict=True)
            bdims = self._random_bdims(*(jnp.ndim(g[0]) if n is None else n for n, g in given))
        args = [g[0] if k is None else _stacked(g, k) for g, k in zip(groups, bdims, strict=True)]
        self._CheckAgainstDense(
            vmap(dense_fun, in_axes=tuple(bdims)), vmap(sparse_fun, in_axes=tuple(bdims)),
            lambda: args, check_jit, check_dtypes, tol, atol, rtol, canonicalize_dtypes,
        )  # fmt: skip


def _stacked(xs: Sequence[Any], axis: int) -> Any:
    """Arrays along a new axis, sparse ones with as much place each as the largest needs."""
    if is_sparse(xs[0]):
        nse = max(x.nse for x in xs)
        kinds = {"n_batch": xs[0].n_batch, "n_dense": xs[0].n_dense}
        xs = [type(x).fromdense(x.todense(), nse=nse, **kinds) for x in xs]
        parts = [jnp.stack(column, axis) for column in zip(*(x._bufs for x in xs), strict=True)]
        shape = list(xs[0].shape)
        shape.insert(axis, len(xs))
        return type(xs[0])(tuple(parts), shape=tuple(shape))
    return jnp.stack(xs, axis)


__all__ = [
    "MATMUL_TOL",
    "BatchedDotGeneralProperties",
    "SparseLayout",
    "SparseTestCase",
    "is_sparse",
    "iter_bcsr_layouts",
    "iter_sparse_layouts",
    "iter_subsets",
    "rand_bcoo",
    "rand_bcsr",
    "rand_sparse",
]
