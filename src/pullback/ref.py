"""Mutable references: arrays that operations change in place, under every transformation.

>>> r = new_ref(jnp.zeros(3)); r[0] = 5.0; r[1:] = jnp.ones(2); r[...]
Array([5., 1., 1.], dtype=float32)
"""

from .control.refs import (
    addupdate as addupdate,
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    get as get,
    new_ref as new_ref,
    set_ref as set,
    swap as swap,
)
from .core.refs import AbstractRef as AbstractRef, Ref as Ref

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
