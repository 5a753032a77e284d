"""Single operations evaluated, and what values of foreign types become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.avals import typeof as abstractify  # noqa: F401
from ..dtypes import canonicalize_dtype
from ..runtime.devices import Client as Backend  # noqa: F401
from ..runtime.dispatch import apply


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    """Evaluates one operation on arrays.

    >>> pb.interpreters.xla.apply_primitive(lax.neg_p, jnp.array(2.0))
    Array(-2., dtype=float32, weak_type=True)
    """
    return apply(prim, args, params)


def _canonical(x: Any) -> Any:
    return np.asarray(x, canonicalize_dtype(np.asarray(x).dtype))


# How values of a type are made canonical; libraries add their own types.
canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {
    np.ndarray: _canonical,
    **{np.dtype(c).type: _canonical for c in "?bhilqBHILQefdFD"},
    **dict.fromkeys((bool, int, float, complex), _canonical),
}
