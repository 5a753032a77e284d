"""`jax._src.state`: mutable references."""

from .types import (
    AbstractRef as AbstractRef,
    AccumEffect as AccumEffect,
    ReadEffect as ReadEffect,
    RefEffect as RefEffect,
    StateEffect as StateEffect,
    TransformedRef as TransformedRef,
    WriteEffect as WriteEffect,
    shaped_array_ref as shaped_array_ref,
)
