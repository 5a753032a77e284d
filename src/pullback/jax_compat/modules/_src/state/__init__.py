"""`jax._src.state`: mutable references."""

from .....core.refs import AbstractRef as AbstractRef
