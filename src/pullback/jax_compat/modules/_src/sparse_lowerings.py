"""`jax.experimental.sparse._lowerings`: products of sparse matrices by names of their own, which
tests bind themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....control.expand import register_inline
from ....core.avals import ShapedArray
from ....core.primitive import Primitive
from ....experimental.sparse.composed import COOInfo
from ....experimental.sparse.coo import _coo_matmat, _coo_matvec
from ....experimental.sparse.csr import _csr_matmat, _csr_matvec

SUPPORTED_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SUPPORTED_INDEX_DTYPES = [np.int32]


def _product(name: str, product: Callable[..., Any]) -> Primitive:
    """A primitive that computes what a function of ours does."""

    def aval(*avals: Any, transpose: bool, shape: Any) -> ShapedArray:
        data, dense = avals[0], avals[3]
        return ShapedArray((shape[1 if transpose else 0], *dense.shape[1:]), data.dtype)

    p = Primitive(name, abstract_eval=aval, register=False)
    p.def_impl(product)
    register_inline(p, product)
    return p


def _of_coo(product: Callable[..., Any]) -> Callable[..., Any]:
    def run(data: Any, row: Any, col: Any, dense: Any, *, transpose: bool, shape: Any) -> Any:
        return product(data, row, col, dense, spinfo=COOInfo(shape), transpose=transpose)

    return run


coo_spmv_p = _product("coo_spmv", _of_coo(_coo_matvec))
coo_spmm_p = _product("coo_spmm", _of_coo(_coo_matmat))
csr_spmv_p = _product("csr_spmv", _csr_matvec)
csr_spmm_p = _product("csr_spmm", _csr_matmat)
