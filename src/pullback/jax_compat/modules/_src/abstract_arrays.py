"""`jax._src.abstract_arrays`: the types whose values are arrays."""

import numpy as np

from ....dtypes import ALL_DTYPES
from ....extend.core import array_types as array_types

numpy_scalar_types = {d.type for d in ALL_DTYPES if not issubclass(d.type, np.ndarray)}
