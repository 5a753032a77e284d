"""`jax._src.state.types`: the type of mutable references."""

from .....core.refs import (
    AbstractRef as AbstractRef,
    RefEffect as RefEffect,
    TransformedRef as TransformedRef,
)
