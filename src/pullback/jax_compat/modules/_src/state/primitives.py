"""`jax._src.state.primitives`: reading and writing references."""

from __future__ import annotations

from ..... import ref
from .....control import refs
from .....control.refs import (
    addupdate as ref_addupdate,  # noqa: F401
    get as ref_get,  # noqa: F401
    set_ref as ref_set,  # noqa: F401
    swap as ref_swap,  # noqa: F401
)
from ..searched import searched

# Values that stay in place while they are used: ours do in a reference.
pin, unpin = refs.new_ref, refs.freeze
__getattr__ = searched("jax._src.state.primitives", ref, refs)
