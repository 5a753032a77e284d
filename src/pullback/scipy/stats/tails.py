"""Logarithms of probabilities near 0 and near 1."""

from __future__ import annotations

from typing import Any

from ... import numpy as jnp


def log_probability(p: Any, q: Any) -> Any:
    """log p, where q = 1 - p is known as well as p: exact near 1, too."""
    low = p <= 0.5
    return jnp.where(low, jnp.log(jnp.where(low, p, 1)), jnp.log1p(-jnp.where(low, 0, q)))
