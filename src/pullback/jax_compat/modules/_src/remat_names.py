"""`jax._src.interpreters.remat`: rematerialisation as a transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....control.remat import checkpoint
from ....tree_util import Partial


def remat_transform(policy: Any, f: Callable[..., Any], *args: Any) -> tuple[Any, Partial]:
    """A function's value, and the function again: it computes anew what a policy does not save."""
    return f(*args), Partial(checkpoint(f, policy=policy))
