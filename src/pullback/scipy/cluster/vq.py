"""Vector quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.avals import typeof
from ...numpy.util import check_arraylike, promote_dtypes_inexact

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """(the index of the nearest code, its distance) for each observation: obs (n, d) or (n,),
    code_book (k, d) or (k,).

    Raises ValueError for ranks that do not fit, TypeError for sizes.

    As `scipy.cluster.vq.vq`.

    >>> from pullback.scipy.cluster.vq import vq
    >>> vq(jnp.array([[0., 0.], [9., 9.]]), jnp.array([[10., 9.], [0., 2.]]))
    (Array([1, 0], dtype=int32), Array([2., 1.], dtype=float32))
    """
    check_arraylike("scipy.cluster.vq.vq", obs, code_book)
    points, codes = (jnp.asarray(v) for v in promote_dtypes_inexact(obs, code_book))
    if typeof(points).ndim != typeof(codes).ndim:
        raise ValueError("Observation and code_book should have the same rank")
    if typeof(points).ndim == 1:
        points, codes = points[:, None], codes[:, None]
    if typeof(points).ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    if typeof(points).shape[1] != typeof(codes).shape[1]:
        raise TypeError(
            f"sub got incompatible shapes for broadcasting: vq got observations {np.shape(obs)} of "
            f"{typeof(points).shape[1]} features, codes {np.shape(code_book)} of "
            f"{typeof(codes).shape[1]}"
        )
    distance = jnp.linalg.norm(points[:, None, :] - codes[None, :, :], axis=-1)
    code = jnp.argmin(distance, axis=-1)
    return code, jnp.take_along_axis(distance, code[:, None], axis=1)[:, 0]
