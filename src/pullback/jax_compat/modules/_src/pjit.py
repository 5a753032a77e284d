"""`jax._src.pjit`: jitted calls."""

from __future__ import annotations

from ....api import asked, explicit, placement
from ....api.jit import JitWrapped as JitWrapped
from ....control.call import jit_p as jit_p
from ....experimental.pjit import pjit as pjit
from ....lax import with_sharding_constraint as with_sharding_constraint
from ....runtime import layouts
from ....runtime.dispatch import executable as _pjit_lower  # noqa: F401
from .searched import searched

__getattr__ = searched("jax._src.pjit", explicit, placement, layouts, asked)
