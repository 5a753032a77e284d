"""`jax._src.basearray`: what arrays are to annotations."""

from __future__ import annotations

import numpy as np

from .... import Array as Array
from ....typing import ArrayLike as ArrayLike

StaticScalar = np.bool_ | np.number | bool | int | float | complex
