"""Names of `jax._src.lax.linalg`: parts of matrices' rules, for libraries that write their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.xla.library import hlo
from ....backends.xla.stablehlo.build import full, spread
from ....dtypes import is_complex
from ....lax.linalg import lu
from ....primitives.linalg_systems import adjoint as _H, matrix_transpose as _T

__all__ = ["_H", "_T"]


def _lu_python(x: Any) -> Any:
    """(LU, pivots, permutation) of matrices, as `lax.linalg.lu`, which JAX has in Python, too."""
    return lu(x)


def symmetrize(x: Any) -> Any:
    """The Hermitian part of matrices."""
    return (x + _H(x)) / 2


def _nan_like_hlo(ctx: Any, aval: Any) -> Any:
    """An array of NaNs in the program that is being written."""
    return full(complex(np.nan, np.nan) if is_complex(aval.dtype) else np.nan, aval)


def _broadcasting_select_hlo(
    ctx: Any, which: Any, which_aval: Any, x: Any, x_aval: Any, y: Any, y_aval: Any
) -> Any:
    """`x` where `which`, else `y`: arrays of one rank, whose axes of length 1 are repeated."""
    avals = which_aval, x_aval, y_aval
    shape = np.broadcast_shapes(*(a.shape for a in avals))
    which, x, y = (_repeated(v, a, shape) for v, a in zip((which, x, y), avals, strict=True))
    return hlo.select(which, x, y)


def _repeated(x: Any, aval: Any, shape: tuple[int, ...]) -> Any:
    return spread(x, range(len(shape)), aval.update(shape=shape))
