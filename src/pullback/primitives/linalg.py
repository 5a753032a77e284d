"""Linear algebra on stacks of matrices, in one namespace: systems and their factors, and the other
factorisations.
"""

from .linalg_factor import (
    EighImplementation as EighImplementation,
)
from .linalg_factor import (
    EigImplementation as EigImplementation,
)
from .linalg_factor import (
    SvdAlgorithm as SvdAlgorithm,
)
from .linalg_factor import (
    eig as eig,
)
from .linalg_factor import (
    eig_p as eig_p,
)
from .linalg_factor import (
    eigh as eigh,
)
from .linalg_factor import (
    eigh_p as eigh_p,
)
from .linalg_factor import (
    geqrf as geqrf,
)
from .linalg_factor import (
    geqrf_p as geqrf_p,
)
from .linalg_factor import (
    hessenberg as hessenberg,
)
from .linalg_factor import (
    hessenberg_p as hessenberg_p,
)
from .linalg_factor import (
    householder_product as householder_product,
)
from .linalg_factor import (
    householder_product_p as householder_product_p,
)
from .linalg_factor import (
    ormqr as ormqr,
)
from .linalg_factor import (
    ormqr_p as ormqr_p,
)
from .linalg_factor import (
    qr as qr,
)
from .linalg_factor import (
    qr_p as qr_p,
)
from .linalg_factor import (
    schur as schur,
)
from .linalg_factor import (
    schur_p as schur_p,
)
from .linalg_factor import (
    svd as svd,
)
from .linalg_factor import (
    svd_p as svd_p,
)
from .linalg_factor import (
    tridiagonal as tridiagonal,
)
from .linalg_factor import (
    tridiagonal_p as tridiagonal_p,
)
from .linalg_systems import (
    cholesky as cholesky,
)
from .linalg_systems import (
    cholesky_p as cholesky_p,
)
from .linalg_systems import (
    cholesky_update as cholesky_update,
)
from .linalg_systems import (
    cholesky_update_p as cholesky_update_p,
)
from .linalg_systems import (
    lu as lu,
)
from .linalg_systems import (
    lu_p as lu_p,
)
from .linalg_systems import (
    lu_pivots_to_permutation as lu_pivots_to_permutation,
)
from .linalg_systems import (
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
)
from .linalg_systems import (
    lu_solve as lu_solve,
)
from .linalg_systems import (
    symmetric_product as symmetric_product,
)
from .linalg_systems import (
    symmetric_product_p as symmetric_product_p,
)
from .linalg_systems import (
    triangular_solve as triangular_solve,
)
from .linalg_systems import (
    triangular_solve_p as triangular_solve_p,
)
from .linalg_systems import (
    tridiagonal_solve as tridiagonal_solve,
)
from .linalg_systems import (
    tridiagonal_solve_p as tridiagonal_solve_p,
)
