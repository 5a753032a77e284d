"""BCOO: arrays of any rank as lists of elements with their indices, with batch and dense axes.

The names of `jax.experimental.sparse.bcoo`: the class, its operations and their primitives. A file
for each family; `storage` says what an array is made of.
"""

import numpy as np

from ....lax import (
    DotDimensionNumbers as DotDimensionNumbers,
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
)
from ..base import JAXSparse as JAXSparse
from ..util import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    Shape as Shape,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    SparseInfo as SparseInfo,
    nfold_vmap as nfold_vmap,
)
from .arithmetic import (
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from .array import BCOO
from .buffers import (
    _bcoo_dot_general as _bcoo_dot_general,
    _bcoo_extract as _bcoo_extract,
    _bcoo_fromdense as _bcoo_fromdense,
    _bcoo_multiply_dense as _bcoo_multiply_dense,
    _bcoo_multiply_sparse as _bcoo_multiply_sparse,
    _bcoo_rdot_general as _bcoo_rdot_general,
    _bcoo_sum_duplicates as _bcoo_sum_duplicates,
    _bcoo_todense as _bcoo_todense,
    _bcoo_transpose as _bcoo_transpose,
)
from .convolution import (
    bcoo_conv_general_dilated,
)
from .dense import (
    bcoo_extract,
    bcoo_extract_p,
    bcoo_fromdense,
    bcoo_fromdense_p,
    bcoo_todense,
    bcoo_todense_p,
)
from .dot import (
    bcoo_dot_general,
    bcoo_dot_general_p,
    bcoo_dot_general_sampled,
    bcoo_dot_general_sampled_p,
    bcoo_spdot_general_p,
)
from .gather import (
    bcoo_gather,
)
from .layout import (
    bcoo_update_layout,
)
from .order import (
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sort_indices_p,
    bcoo_sum_duplicates,
    bcoo_sum_duplicates_p,
)
from .shape import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
    bcoo_transpose_p,
)
from .storage import BCOOProperties, Buffer, _validate_bcoo as _validate_bcoo

# What NVIDIA's library of sparse products takes: for programs that ask before they call it.
CUSPARSE_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
CUSPARSE_INDEX_DTYPES = [np.int32]

__all__ = [
    "BCOO",
    "CUSPARSE_DATA_DTYPES",
    "CUSPARSE_INDEX_DTYPES",
    "BCOOProperties",
    "Buffer",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_p",
    "bcoo_dot_general_sampled",
    "bcoo_dot_general_sampled_p",
    "bcoo_dynamic_slice",
    "bcoo_eliminate_zeros",
    "bcoo_extract",
    "bcoo_extract_p",
    "bcoo_fromdense",
    "bcoo_fromdense_p",
    "bcoo_gather",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_sort_indices_p",
    "bcoo_spdot_general_p",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_sum_duplicates_p",
    "bcoo_todense",
    "bcoo_todense_p",
    "bcoo_transpose",
    "bcoo_transpose_p",
    "bcoo_update_layout",
]
