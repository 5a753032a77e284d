"""Linear algebra on stacks of matrices: the last two axes are the matrix, the others are a
batch.
"""

from __future__ import annotations

from .determinants import SlogdetResult, det, slogdet
from .factor import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from .least_squares import lstsq, matrix_rank, pinv
from .norms import cond, matrix_norm, norm, vector_norm
from .products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from .systems import inv, solve, tensorinv, tensorsolve

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_results = (EigResult, EighResult, QRResult, SlogdetResult, SVDResult)
for _public in (*_results, *(globals()[_name] for _name in __all__)):
    _public.__module__ = __name__  # pickles look for them here, whatever file they are in
