"""Mutable references: arrays that operations change in place, under every transformation.

>>> r = new_ref(jnp.zeros(3)); r[0] = 5.0; r[1:] = jnp.ones(2); r[...]
Array([5., 1., 1.], dtype=float32)
"""

from .control.refs import addupdate as addupdate
from .control.refs import empty_ref as empty_ref
from .control.refs import free_ref as free_ref
from .control.refs import freeze as freeze
from .control.refs import get as get
from .control.refs import new_ref as new_ref
from .control.refs import set_ref as set
from .control.refs import swap as swap
from .core.refs import AbstractRef as AbstractRef
from .core.refs import Ref as Ref

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]
