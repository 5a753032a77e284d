"""`pullback.lax.linalg`: factorisations of matrices and the systems that they solve."""

from ..primitives.linalg_factor import (
    EighImplementation as EighImplementation,
)
from ..primitives.linalg_factor import (
    EigImplementation as EigImplementation,
)
from ..primitives.linalg_factor import (
    SvdAlgorithm as SvdAlgorithm,
)
from ..primitives.linalg_factor import (
    eig as eig,
)
from ..primitives.linalg_factor import (
    eig_p as eig_p,
)
from ..primitives.linalg_factor import (
    eigh as eigh,
)
from ..primitives.linalg_factor import (
    eigh_p as eigh_p,
)
from ..primitives.linalg_factor import (
    hessenberg as hessenberg,
)
from ..primitives.linalg_factor import (
    hessenberg_p as hessenberg_p,
)
from ..primitives.linalg_factor import (
    householder_product as householder_product,
)
from ..primitives.linalg_factor import (
    householder_product_p as householder_product_p,
)
from ..primitives.linalg_factor import (
    ormqr as ormqr,
)
from ..primitives.linalg_factor import (
    ormqr_p as ormqr_p,
)
from ..primitives.linalg_factor import (
    qr as qr,
)
from ..primitives.linalg_factor import (
    qr_p as qr_p,
)
from ..primitives.linalg_factor import (
    schur as schur,
)
from ..primitives.linalg_factor import (
    schur_p as schur_p,
)
from ..primitives.linalg_factor import (
    svd as svd,
)
from ..primitives.linalg_factor import (
    svd_p as svd_p,
)
from ..primitives.linalg_factor import (
    tridiagonal as tridiagonal,
)
from ..primitives.linalg_factor import (
    tridiagonal_p as tridiagonal_p,
)
from ..primitives.linalg_systems import (
    cholesky as cholesky,
)
from ..primitives.linalg_systems import (
    cholesky_p as cholesky_p,
)
from ..primitives.linalg_systems import (
    cholesky_update as cholesky_update,
)
from ..primitives.linalg_systems import (
    cholesky_update_p as cholesky_update_p,
)
from ..primitives.linalg_systems import (
    lu as lu,
)
from ..primitives.linalg_systems import (
    lu_p as lu_p,
)
from ..primitives.linalg_systems import (
    lu_pivots_to_permutation as lu_pivots_to_permutation,
)
from ..primitives.linalg_systems import (
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
)
from ..primitives.linalg_systems import (
    symmetric_product as symmetric_product,
)
from ..primitives.linalg_systems import (
    symmetric_product_p as symmetric_product_p,
)
from ..primitives.linalg_systems import (
    triangular_solve as triangular_solve,
)
from ..primitives.linalg_systems import (
    triangular_solve_p as triangular_solve_p,
)
from ..primitives.linalg_systems import (
    tridiagonal_solve as tridiagonal_solve,
)
from ..primitives.linalg_systems import (
    tridiagonal_solve_p as tridiagonal_solve_p,
)
from .polar import qdwh as qdwh
