"""`jax._src.state`: mutable references."""

from .types import (
    AbstractRef as AbstractRef,
    RefEffect as RefEffect,
    TransformedRef as TransformedRef,
    shaped_array_ref as shaped_array_ref,
)
