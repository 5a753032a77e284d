"""Operations on the parts of BCOO arrays, under the private names that JAX has for them: tests
and libraries call them so."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .... import numpy as jnp
from ..composed import SparseInfo, numbers
from .arithmetic import bcoo_multiply_dense, bcoo_multiply_sparse
from .dense import bcoo_extract_p, bcoo_fromdense_p, bcoo_todense_p
from .dot import bcoo_dot_general, bcoo_dot_general_p
from .order import bcoo_sum_duplicates
from .shape import bcoo_transpose
from .storage import of_info, parts


def _bcoo_fromdense(
    mat: Any, *, nse: int, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = jnp.int32
) -> tuple[Any, Any]:
    """The parts of a dense array."""
    return tuple(
        bcoo_fromdense_p.bind(
            jnp.asarray(mat),
            nse=operator.index(nse),
            n_batch=n_batch,
            n_dense=n_dense,
            index_dtype=index_dtype,
        )
    )


def _bcoo_todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    """The dense array of these parts."""
    return bcoo_todense_p.bind(jnp.asarray(data), jnp.asarray(indices), spinfo=spinfo)


def _bcoo_extract(indices: Any, arr: Any, *, assume_unique: bool = True) -> Any:
    """The elements of a dense array at indices; each once, unless they are taken to be unique."""
    return bcoo_extract_p.bind(indices, jnp.asarray(arr), assume_unique=assume_unique)


def _bcoo_transpose(
    data: Any, indices: Any, *, permutation: Sequence[int], spinfo: SparseInfo
) -> tuple[Any, Any]:
    """The parts of an array with its axes in another order."""
    return parts(bcoo_transpose(of_info(data, indices, spinfo), permutation=permutation))


def _bcoo_sum_duplicates(
    data: Any, indices: Any, *, spinfo: SparseInfo, nse: int | None
) -> tuple[Any, Any]:
    """The parts of an array that stores each place once."""
    return parts(bcoo_sum_duplicates(of_info(data, indices, spinfo), nse))


def _bcoo_dot_general(
    lhs_data: Any,
    lhs_indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    """The product of the array of these parts and a dense one."""
    return bcoo_dot_general_p.bind(
        jnp.asarray(lhs_data),
        jnp.asarray(lhs_indices),
        jnp.asarray(rhs),
        dimension_numbers=numbers(dimension_numbers),
        preferred_element_type=preferred_element_type,
        lhs_spinfo=lhs_spinfo,
    )


def _bcoo_rdot_general(
    lhs: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    rhs_spinfo: SparseInfo,
) -> Any:
    """The product of a dense array and that of these parts."""
    return bcoo_dot_general(
        jnp.asarray(lhs),
        of_info(rhs_data, rhs_indices, rhs_spinfo),
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def _bcoo_multiply_dense(data: Any, indices: Any, v: Any, *, spinfo: SparseInfo) -> Any:
    """The data of the array of these parts times a dense one, element by element."""
    return bcoo_multiply_dense(of_info(data, indices, spinfo), v)


def _bcoo_multiply_sparse(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
) -> tuple[Any, Any, Any]:
    """The parts and the shape of the product of two arrays, element by element."""
    out = bcoo_multiply_sparse(
        of_info(lhs_data, lhs_indices, lhs_spinfo), of_info(rhs_data, rhs_indices, rhs_spinfo)
    )
    return *parts(out), out.shape
